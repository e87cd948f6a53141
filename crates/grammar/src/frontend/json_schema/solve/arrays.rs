//! Rules and costs of arrays.

use rustc_hash::FxHashMap;

use super::Solver;
use crate::error::{GrammarError, SchemaProblem};
use crate::frontend::json_schema::Problem;
use crate::frontend::json_schema::build::DraftArray;
use crate::ir::json::cost::Cost;
use crate::ir::json::program::{After, ArrayRule, Counter, Counts, NodeChoice};

/// Maximum number of states and transitions that [`Solver::after_items`] visits for one array.
const STEPS: usize = 1 << 16;

/// Cost of a state or transition in [`Solver::after_items`], in ledger steps.
const STATES: usize = 4;

impl Solver<'_> {
    /// Returns the rule of `array` without its unsatisfiable parts, or `None` if no array is
    /// possible.
    pub(super) fn array(&mut self, array: &DraftArray) -> Result<Option<ArrayRule>, GrammarError> {
        let Some(mut rule) = self.array_of_any(array)? else { return Ok(None) };
        if Self::lists_items(&rule) {
            let Some((required, _)) = self.required.get(array) else { return Ok(None) };
            rule.required = Some(required.clone());
        }
        if let Some(pointer) = &array.repeated {
            let Some(repeats) = self.repeats(&rule, pointer)? else { return Ok(None) };
            rule.repeats = Some(repeats);
        }
        Ok(Some(rule))
    }

    /// Returns the rule of `array` like [`Solver::array`], but ignores that items must differ or
    /// repeat.
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
            after: After::default(),
            unique: array.unique.is_some() && max.is_none_or(|max| max > 1),
            repeats: None,
            required: None,
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
            rule.after = match self.separate(&rule) {
                Some(after) => after,
                None => After::Listed(self.after_items(&rule, array.counted.as_deref().unwrap_or_default())?),
            };
        }
        Ok(Some(rule))
    }

    /// Returns [`After::Separate`] for an array whose counters are raised separately: all items
    /// have the same choices, and each choice raises at most one counter. Such an array needs no
    /// list of states. Returns `None` for all other arrays.
    fn separate(&self, rule: &ArrayRule) -> Option<After> {
        let ways = rule.item(0);
        let places = rule.max.map_or(usize::MAX, |max| max as usize).min(rule.prefix.len() + 1);
        let alike = (0..places as u32).all(|index| rule.item(index) == ways);
        let exact = |counter: &Counter| counter.max.is_none_or(|max| max == counter.min);
        let single = ways.iter().all(|way| way.bits.count_ones() <= 1);
        if !(alike && single && rule.counters.iter().all(exact)) {
            return None;
        }
        let spacing = &self.program.spacing;
        let comma = Cost::new(1, b',').and(&spacing.after_comma_cost(1));
        let mut raising = vec![Cost::NONE; rule.counters.len()];
        let mut other = Cost::NONE;
        for way in ways {
            let cost = comma.and(&self.cost(way.node).indented());
            let counter = (way.bits != 0).then(|| way.bits.trailing_zeros() as usize);
            if let Some(at) = counter {
                raising[at].or(&cost);
            }
            if counter.is_none_or(|at| rule.counters[at].max.is_none()) {
                other.or(&cost);
            }
        }
        let end = spacing.bracket_cost(0).and(&Cost::new(1, b']'));
        Some(After::Separate { raising, other, end })
    }

    /// Returns the cost from the end of an item to the end of an array with counters, for every
    /// reachable state of the array. The keys are the counts and the number of items. `pointer` is
    /// the place of a `contains` for error messages.
    fn after_items(
        &mut self,
        rule: &ArrayRule,
        pointer: &str,
    ) -> Result<FxHashMap<Counts, FxHashMap<u32, Cost>>, GrammarError> {
        let start = (0, Counts::default());
        let mut states = vec![start.clone()];
        let mut edges: Vec<Vec<(usize, NodeChoice)>> = Vec::new();
        let mut ids = FxHashMap::from_iter([(start, 0)]);
        let mut steps = 0;
        while let Some((items, counts)) = states.get(edges.len()).cloned() {
            let mut out = Vec::new();
            let more = rule.max.is_none_or(|max| items < max);
            for &way in rule.item(items).iter().filter(|_| more) {
                let Some(counts) = rule.raise(&counts, way.bits) else { continue };
                let next = (rule.count(items), counts);
                let id = *ids.entry(next).or_insert_with_key(|next| {
                    states.push(next.clone());
                    states.len() - 1
                });
                out.push((id, way));
            }
            steps += 1 + out.len();
            if steps > STEPS {
                let what = "transitions between item counts";
                let problem = SchemaProblem::Limit { what, given: steps, limit: STEPS };
                return Err(Problem::new(pointer, "contains", problem).into());
            }
            self.ledger.spend(STATES * (1 + out.len()))?;
            edges.push(out);
        }
        let spacing = &self.program.spacing;
        let end = spacing.bracket_cost(0).and(&Cost::new(1, b']'));
        let comma = Cost::new(1, b',').and(&spacing.after_comma_cost(1));
        let ends = states.iter().map(|(items, counts)| rule.closable(*items, counts));
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
                break;
            }
        }
        let mut after: FxHashMap<Counts, FxHashMap<u32, Cost>> = FxHashMap::default();
        for ((items, counts), cost) in states.into_iter().zip(costs).filter(|(_, cost)| !cost.is_none()) {
            after.entry(counts).or_default().insert(items, cost);
        }
        Ok(after)
    }

    /// Returns the cost of `array`. No value is possible if it is [`Cost::NONE`].
    pub(super) fn array_cost(&mut self, array: &DraftArray) -> Result<Cost, GrammarError> {
        let Some(rule) = self.array(array)? else { return Ok(Cost::NONE) };
        let mut rule = rule;
        if let Some(repeats) = &rule.repeats {
            // Repeating the cheapest item gives two equal items.
            rule.min = rule.min.max(repeats.from + 2);
        }
        if rule.closable(0, &[]) {
            return Ok(Cost::new(2, b'['));
        }
        if rule.required.is_some() {
            return Ok(self.required.get(array).map_or(Cost::NONE, |(_, cost)| cost.clone()));
        }
        let spacing = &self.program.spacing;
        let start = Cost::new(1, b'[').and(&spacing.bracket_cost(1));
        if !rule.counters.is_empty() {
            let mut cost = Cost::NONE;
            for way in rule.item(0) {
                let Some(counts) = rule.raise(&[], way.bits) else { continue };
                let Some(after) = after_count(&rule, rule.count(0), &counts) else { continue };
                cost.or(&start.and(&self.cost(way.node).indented()).and(&after));
            }
            return Ok(cost);
        }
        let comma = Cost::new(1, b',').and(&spacing.after_comma_cost(1));
        let mut cost = start.and(&comma.times(rule.min - 1));
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

/// Returns the cost from the end of an item to the end of an array with counters, after `items`
/// items with these `counts`. Returns `None` if the array cannot end.
fn after_count(rule: &ArrayRule, items: u32, counts: &[u16]) -> Option<Cost> {
    match &rule.after {
        After::Listed(after) => after.get(counts)?.get(&items).cloned(),
        After::Separate { raising, other, end } => {
            let (missing, others) = rule.needed(items, counts)?;
            let mut total = end.clone();
            let each = missing.iter().zip(raising).chain([(&others, other)]);
            for (&count, cost) in each.filter(|(count, _)| **count > 0) {
                total = cost.times(count).and(&total);
            }
            (!total.is_none()).then_some(total)
        }
    }
}
