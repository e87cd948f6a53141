//! The required items of arrays whose items must differ.
//!
//! What as many different items cost together is known where all are of one node, and where the cheapest scalars of it
//! are no dearer than its cheapest array or object, so that these are of no use. All else is refused.

use std::sync::Arc;

use super::Solver;
use crate::error::{GrammarError, SchemaProblem};
use crate::frontend::json_schema::Problem;
use crate::frontend::json_schema::SchemaOptions;
use crate::frontend::json_schema::build::Draft;
use crate::machine::json::JsonProgram;
use crate::machine::json::cost::Cost;
use crate::machine::json::program::{ArrayRule, NodeId};

impl Solver<'_> {
    /// The shortest texts of as many different items as an array needs, if they are known.
    pub(super) fn distinct_items(
        &mut self,
        rule: &ArrayRule,
    ) -> Result<Option<Vec<Box<[u8]>>>, GrammarError> {
        let Some(node) = required_node(rule) else { return Ok(None) };
        let known = self.distinct.get(&(node, rule.min)).cloned();
        let texts = match known {
            Some(texts) => texts,
            None => {
                let texts = self.cheapest_scalars(node, rule.min);
                self.spend(rule.min as usize)?;
                self.distinct.insert((node, rule.min), texts.clone());
                texts
            }
        };
        Ok(texts.filter(|texts| texts.len() == rule.min as usize))
    }

    /// Refuses arrays whose required items are not known to cost what they were found to.
    pub(super) fn check_distinct(&mut self, draft: &Draft) -> Result<(), GrammarError> {
        for array in draft.nodes.iter().flat_map(|node| &node.arrays) {
            let Some(rule) = self.array_of_any(array)?.filter(|rule| rule.unique && rule.min > 1) else {
                continue;
            };
            let refused = || {
                let reason =
                    "several required items that must differ are supported if they are scalars of one kind";
                let pointer = array.unique.as_deref().unwrap_or_default();
                Problem::new(pointer, "uniqueItems", SchemaProblem::UnsupportedForm { reason })
            };
            let node = required_node(&rule).ok_or_else(refused)?;
            let texts = self.distinct_items(&rule)?;
            let complete = self.distinct.get(&(node, rule.min)).is_some_and(Option::is_some);
            let dearest =
                texts.map_or(u32::MAX, |texts| texts.iter().map(|text| text.len() as u32).max().unwrap_or(0));
            let other = self.cheapest_container(draft, node)?;
            if !complete || other.is_some_and(|other| other < dearest) {
                return Err(refused().into());
            }
        }
        Ok(())
    }

    /// The bytes of the cheapest array or object of a node, where it stands at the left margin.
    fn cheapest_container(&mut self, draft: &Draft, node: NodeId) -> Result<Option<u32>, GrammarError> {
        let mut cost = Cost::NONE;
        for array in &draft.nodes[node as usize].arrays {
            cost.or(&self.array_cost(array)?);
        }
        for object in &draft.nodes[node as usize].objects {
            cost.or(&self.object_cost(object));
        }
        Ok(cost.at(0).map(|shortest| shortest.len))
    }

    /// The cheapest scalars of a node, which has nothing else yet.
    fn cheapest_scalars(&mut self, node: NodeId, count: u32) -> Option<Vec<Box<[u8]>>> {
        let empty = JsonProgram::empty(SchemaOptions::default());
        let program = Arc::new(std::mem::replace(&mut self.program, empty));
        let texts = program.machine().cheapest(node, count as usize);
        self.program = Arc::into_inner(program).expect("the machine was the only other owner");
        texts
    }
}

/// The node of all items that an array must have, if it is one.
fn required_node(rule: &ArrayRule) -> Option<NodeId> {
    let &[first] = rule.item(0) else { return None };
    (1..rule.min).all(|index| rule.item(index) == [first]).then_some(first.node)
}
