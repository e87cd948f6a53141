//! Finds arrays that never run out of different items.

use crate::ir::json::JsonProgram;
use crate::ir::json::program::{ArrayRule, Node, NodeChoice, ObjectRule};

/// Sets [`ArrayRule::ample`] for arrays whose items must differ and have, at every index, more
/// values than any text has items.
///
/// The check may miss such arrays. It only recognises items that contain a string of arbitrary
/// characters, or a string of an infinite language.
pub(super) fn mark_ample(program: &mut JsonProgram) {
    if program.arrays.iter().all(|rule| !rule.unique) {
        return;
    }
    let mut ample = vec![false; program.nodes.len()];
    loop {
        let mut changed = false;
        for id in (0..program.nodes.len()).rev().filter(|&id| program.nodes[id].cost.at(0).is_some()) {
            if !ample[id] && is_ample(program, &program.nodes[id], &ample) {
                ample[id] = true;
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    for rule in &mut program.arrays {
        let mut ways = rule.prefix.iter().chain(std::iter::once(&rule.rest)).flatten();
        rule.ample = rule.unique && rule.counters.is_empty() && ways.all(|way| ample[way.node as usize]);
    }
}

/// Returns true if `node` certainly has more values than any text has items. `ample` has the known
/// results.
fn is_ample(program: &JsonProgram, node: &Node, ample: &[bool]) -> bool {
    let endless = |&rule: &u32| {
        let rule = program.language_rules[rule as usize];
        rule.max.is_none() && program.languages[rule.language as usize].longest().is_none()
    };
    node.texts.iter().any(|&rule| program.texts[rule as usize].max != Some(0))
        || node.languages.iter().any(endless)
        || node.arrays.iter().any(|&rule| has_ample_item(&program.arrays[rule as usize], ample))
        || node.objects.iter().any(|&rule| has_ample_member(&program.objects[rule as usize], ample))
}

fn has_ample_item(rule: &ArrayRule, ample: &[bool]) -> bool {
    let free = rule.counters.is_empty() && rule.max != Some(0);
    free && rule.item(0).iter().any(|way| ample[way.node as usize])
}

fn has_ample_member(rule: &ObjectRule, ample: &[bool]) -> bool {
    let is_ample = |way: &NodeChoice| ample[way.node as usize];
    let room = rule.max.is_none();
    let declared = rule.members.iter().filter(|member| member.required || room);
    let others = rule.others.iter().flatten();
    declared.filter_map(|member| member.node).any(|node| ample[node as usize])
        || (room && (others.clone().any(is_ample) || (rule.labels.is_none() && others.count() > 0)))
}
