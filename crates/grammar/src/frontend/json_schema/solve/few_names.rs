//! Turns undeclared names into declared members if a pattern allows only a few of them.
//!
//! For example, `^(a|b)$` matches two names, and `.+` leaves only the empty name unmatched. Such
//! names become declared members. The other undeclared names then never run out, which keeps masks
//! fast (`ObjectRule::least_names`).

use super::Solver;
use crate::ir::json::program::{NodeChoice, NodeId};
use crate::ir::json::texts::{ENDLESS, Texts};
use crate::options::Order;

/// Maximum number of names with one label that become declared members.
const FEW: u32 = 16;

/// Maximum number of characters of a name that becomes a declared member.
const LONG: usize = 64;

impl Solver<'_> {
    /// Finds the labels that only a few names have. Returns these names, each with the node of its
    /// value, and clears the labels' entries in `others`. `labels` is the index of the language
    /// with the labels.
    pub(super) fn few_names(
        &self,
        others: &mut [Vec<NodeChoice>],
        labels: Option<u32>,
    ) -> Vec<(String, NodeId)> {
        let Some(labels) = labels.filter(|_| self.program.order == Order::Any) else { return Vec::new() };
        let texts = &self.program.languages[labels as usize];
        let mut names = Vec::new();
        for (label, ways) in (0..).zip(others) {
            if let [NodeChoice { bits: 0, node }] = ways[..]
                && let Some(few) = few_texts(texts, label)
            {
                names.extend(few.into_iter().map(|name| (name, node)));
                ways.clear();
            }
        }
        names
    }
}

/// Returns all texts that have `label`. Returns `None` if there are more than [`FEW`] texts, or if
/// one is longer than [`LONG`].
fn few_texts(texts: &Texts, label: u32) -> Option<Vec<String>> {
    let dfa = texts.dfa();
    let below = texts.counts_below(|other| other == label);
    if below[dfa.start() as usize] > FEW {
        return None;
    }
    let mut found = Vec::new();
    let mut open = vec![(dfa.start(), String::new())];
    while let Some((state, text)) = open.pop() {
        if text.chars().count() > LONG {
            return None;
        }
        if dfa.label(state) == label {
            found.push(text.clone());
        }
        let live = dfa.transitions(state).iter().filter(|&&(.., target)| below[target as usize] > 0);
        for &(low, high, target) in live {
            debug_assert!(below[target as usize] != ENDLESS);
            open.extend((low..=high).filter_map(char::from_u32).map(|c| {
                let mut longer = text.clone();
                longer.push(c);
                (target, longer)
            }));
        }
    }
    Some(found)
}
