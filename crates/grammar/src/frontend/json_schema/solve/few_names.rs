//! Undeclared names of which there are few.
//!
//! Where all names but a few match some pattern, as all but the empty one match `.+`, or where a pattern matches few
//! names, as `^(a|b)$` does, these names are declared instead. So an object may always have another undeclared name
//! ([`ObjectRule::least_names`](crate::machine::json::program::ObjectRule)), which makes for fast masks.

use super::Solver;
use crate::frontend::json_schema::Order;
use crate::machine::json::program::{NodeId, Way};
use crate::machine::json::texts::{ENDLESS, Texts};

/// The most names with one label that are declared.
const FEW: u32 = 16;

/// The longest of them, in characters.
const LONG: usize = 64;

impl Solver<'_> {
    /// Takes the names with labels that few have out of the undeclared ones, and returns them with what their members are.
    ///
    /// Only where members may come in any order: declared ones would have a place in it.
    pub(super) fn few_names(&self, others: &mut [Vec<Way>], labels: Option<u32>) -> Vec<(String, NodeId)> {
        let Some(labels) = labels.filter(|_| self.program.order == Order::Any) else { return Vec::new() };
        let texts = &self.program.languages[labels as usize];
        let mut names = Vec::new();
        for (label, ways) in (0..).zip(others) {
            if let [Way { bits: 0, node }] = ways[..]
                && let Some(few) = few_texts(texts, label)
            {
                names.extend(few.into_iter().map(|name| (name, node)));
                ways.clear();
            }
        }
        names
    }
}

/// The texts with a label, if they are few and short.
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
