//! What is left of arrays, and what they cost.

use rustc_hash::FxHashMap;

use super::Solver;
use crate::error::GrammarError;
use crate::frontend::json_schema::build::DraftArray;
use crate::machine::json::cost::Cost;
use crate::machine::json::program::{ArrayRule, Counts, Way};

/// What a step between counts takes, in states of automata.
const STEPS: usize = 32;

impl Solver<'_> {
    /// The array with what cannot be satisfied cut off, if anything is left.
    pub(super) fn array(&mut self, array: &DraftArray) -> Result<Option<ArrayRule>, GrammarError> {
        let Some(mut rule) = self.array_of_any(array)? else { return Ok(None) };
        if rule.unique && rule.min > 1 {
            let Some(distinct) = self.distinct_items(&rule)? else { return Ok(None) };
            rule.distinct = distinct;
        }
        Ok(Some(rule))
    }

    /// The same as if its items need not differ.
    pub(super) fn array_of_any(&mut self, array: &DraftArray) -> Result<Option<ArrayRule>, GrammarError> {
        let prefix: Vec<_> =
            array.prefix.iter().map(|ways| self.possible(ways)).take_while(|ways| !ways.is_empty()).collect();
        let open = prefix.len() == array.prefix.len();
        let rest = if open { self.possible(&array.rest) } else { Vec::new() };
        let most = if rest.is_empty() { Some(prefix.len() as u32) } else { None };
        let max = [most, array.max].into_iter().flatten().min();
        let (min, counters) = (array.min, array.counters.clone());
        let mut rule = ArrayRule {
            prefix,
            rest,
            min,
            max,
            counters,
            after: FxHashMap::default(),
            unique: array.unique.is_some() && max.is_none_or(|max| max > 1),
            distinct: Vec::new(),
            ample: false,
        };
        if let Some(max) = rule.max {
            if max < rule.min {
                return Ok(None);
            }
            rule.prefix.truncate(max as usize);
            if rule.prefix.len() == max as usize {
                rule.rest.clear();
            }
        }
        if !rule.counters.is_empty() {
            rule.after = self.after_items(&rule)?;
        }
        Ok(Some(rule))
    }

    /// With counters: from the end of an item, in every state that the array can be in, to the end of the array.
    pub(super) fn after_items(
        &mut self,
        rule: &ArrayRule,
    ) -> Result<FxHashMap<(u32, Counts), Cost>, GrammarError> {
        let start = (0, Counts::default());
        let mut states = vec![start];
        let mut edges: Vec<Vec<(usize, Way)>> = Vec::new();
        let mut ids = FxHashMap::from_iter([(start, 0)]);
        while let Some(&(items, counts)) = states.get(edges.len()) {
            let mut out = Vec::new();
            let more = rule.max.is_none_or(|max| items < max);
            for &way in rule.item(items).iter().filter(|_| more) {
                let Some(counts) = rule.raise(counts, way.bits) else { continue };
                let next = (rule.count(items), counts);
                let id = *ids.entry(next).or_insert_with(|| {
                    states.push(next);
                    states.len() - 1
                });
                out.push((id, way));
            }
            self.spend(1 + STEPS * out.len())?;
            edges.push(out);
        }
        let spacing = &self.program.spacing;
        let end = spacing.bracket_cost(0).and(&Cost::new(1, b']'));
        let comma = Cost::new(1, b',').and(&spacing.after_comma_cost(1));
        let ends = states.iter().map(|(items, counts)| rule.closable(*items, *counts));
        let mut costs: Vec<_> = ends.map(|ends| if ends { end.clone() } else { Cost::NONE }).collect();
        loop {
            let mut changed = false;
            for at in (0..states.len()).rev() {
                let mut cost = costs[at].clone();
                for &(to, way) in edges[at].iter().filter(|&&(to, _)| to != at) {
                    let item = comma.and(&self.cost(way.node).indented());
                    cost.or(&item.and(&costs[to]));
                }
                changed |= cost != costs[at];
                costs[at] = cost;
            }
            if !changed {
                let states = states.into_iter().zip(costs);
                return Ok(states.filter(|(_, cost)| !cost.is_none()).collect());
            }
        }
    }

    pub(super) fn array_cost(&mut self, array: &DraftArray) -> Result<Cost, GrammarError> {
        let Some(rule) = self.array(array)? else { return Ok(Cost::NONE) };
        if rule.closable(0, Counts::default()) {
            return Ok(Cost::new(2, b'['));
        }
        let spacing = &self.program.spacing;
        let start = Cost::new(1, b'[').and(&spacing.bracket_cost(1));
        if !rule.counters.is_empty() {
            let mut cost = Cost::NONE;
            for way in rule.item(0) {
                let Some(counts) = rule.raise(Counts::default(), way.bits) else { continue };
                let Some(after) = rule.after.get(&(rule.count(0), counts)) else { continue };
                cost.or(&start.and(&self.cost(way.node).indented()).and(after));
            }
            return Ok(cost);
        }
        let comma = Cost::new(1, b',').and(&spacing.after_comma_cost(1));
        let mut cost = start.and(&comma.times(rule.min - 1));
        if let Some(first) = rule.distinct.first() {
            let bytes = rule.distinct.iter().fold(0, |sum: u32, text| sum.saturating_add(text.len() as u32));
            let items = Cost::new(bytes, first[0]);
            return Ok(cost.and(&items).and(&spacing.bracket_cost(0)).and(&Cost::new(1, b']')));
        }
        let prefix = rule.prefix.len().min(rule.min as usize);
        for ways in &rule.prefix[..prefix] {
            cost = cost.and(&self.cheapest(ways).indented());
        }
        if rule.min as usize > prefix {
            cost = cost.and(&self.cheapest(&rule.rest).indented().times(rule.min - prefix as u32));
        }
        Ok(cost.and(&spacing.bracket_cost(0)).and(&Cost::new(1, b']')))
    }
}
