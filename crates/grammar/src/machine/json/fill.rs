//! Computes the least number of bytes from each declared member to the end of an object. Used for
//! objects with members in any order and with a minimum number of members.
//!
//! After each choice of a member, the same other members are available for reaching the minimum.
//! The members are therefore sorted by cost once for all choices.

use super::closing::{Object, SeenNames};
use crate::options::Order;

/// The members that may still come in an object, and their costs in bytes.
pub(super) struct Fill {
    /// Number of bytes from here to the end of the object if only the required members follow.
    total: u32,
    /// Number of required members that have not come yet.
    required: u32,
    /// `(bytes, count)` for the optional members: the number of bytes of a member, and the number
    /// of members with this cost. Sorted by cost.
    costs: Vec<(u32, u64)>,
    /// For each entry of `costs`, the number of members in the entries before, and the sum of their
    /// bytes.
    before: Vec<(u64, u64)>,
}

impl Object<'_> {
    /// Collects the members that may still come, sorted by cost. Members must be allowed in any
    /// order, and no obligation may be pending.
    ///
    /// Returns `None` if a required member cannot come, or if there are too many undeclared names
    /// to count.
    pub(super) fn fill(&self) -> Option<Fill> {
        debug_assert!(self.machine.program.order == Order::Any && self.pending == 0);
        let depth = self.top.depth;
        let mut total = self.machine.program.spacing.bracket.least_at(depth - 1) + 1;
        let mut required = 0;
        let mut costs = Vec::new();
        let members = self.rule.members.iter().enumerate();
        for (_, member) in members.filter(|&(index, _)| !self.machine.has_seen(self.seen, index)) {
            if member.required {
                required += 1;
                total = total.saturating_add(self.machine.member(member, depth)?);
            } else {
                costs.extend(self.machine.member(member, depth).map(|cost| (cost, 1)));
            }
        }
        let most = self.rule.min.saturating_sub(self.members + required);
        if most > 0 {
            let names = SeenNames { rule: self.id, seen: self.names, taken: None };
            for kind in self.machine.kinds(names, most, depth)? {
                if let Some(value) = kind.ways.iter().map(|(_, value)| value.bytes).min() {
                    let names = kind.names.iter();
                    costs.extend(names.map(|&(length, count)| (value.saturating_add(length), count.into())));
                }
            }
        }
        costs.sort_unstable();
        let mut sum = (0u64, 0u64);
        let before = costs.iter().map(|&(cost, count)| {
            let before = sum;
            sum = (sum.0 + count, sum.1.saturating_add(u64::from(cost).saturating_mul(count)));
            before
        });
        let before = before.collect();
        Some(Fill { total, required, costs, before })
    }

    /// Returns the least number of bytes from the end of the value of the member at `index` to the
    /// end of the object, if this member comes next.
    ///
    /// Returns `None` if the object cannot be completed after this member.
    pub(super) fn after_filled(&self, fill: &Fill, index: usize) -> Option<u32> {
        let member = &self.rule.members[index];
        let cost = self.machine.member(member, self.top.depth)?;
        let own = if member.required { cost } else { 0 };
        let members = self.members + 1 + fill.required - u32::from(member.required);
        let missing = self.rule.min.saturating_sub(members);
        if self.rule.max.is_some_and(|max| members + missing > max) {
            return None;
        }
        let more =
            if member.required { fill.cheapest(missing) } else { fill.cheapest_without(missing, cost) };
        u32::try_from(u64::from(fill.total - own).saturating_add(more?)).ok()
    }
}

impl Fill {
    /// Returns the total bytes of the `count` cheapest optional members, or `None` if there are
    /// fewer.
    fn cheapest(&self, count: u32) -> Option<u64> {
        let count = u64::from(count);
        if count == 0 {
            return Some(0);
        }
        let at = self.before.partition_point(|&(before, _)| before < count).checked_sub(1)?;
        let ((cost, number), (before, sum)) = (*self.costs.get(at)?, self.before[at]);
        (count <= before + number).then(|| sum.saturating_add(u64::from(cost) * (count - before)))
    }

    /// Returns the total bytes of the `count` cheapest optional members, not counting one member of
    /// cost `cost`. Returns `None` if there are fewer.
    fn cheapest_without(&self, count: u32, cost: u32) -> Option<u64> {
        let dearer = match count {
            0 => return Some(0),
            1 => 0,
            _ => self.cheapest(count - 1)?,
        };
        let last = self.cheapest(count)? - dearer;
        if u64::from(cost) <= last {
            Some(self.cheapest(count + 1)? - u64::from(cost))
        } else {
            self.cheapest(count)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chooses_the_cheapest_except_one() {
        // The costs 2, 3, 3, 3 and 7.
        let costs = vec![(2, 1), (3, 3), (7, 1)];
        let fill = Fill { total: 0, required: 0, costs, before: vec![(0, 0), (1, 2), (4, 11)] };
        assert_eq!(
            (0..=6).map(|count| fill.cheapest(count)).collect::<Vec<_>>(),
            [Some(0), Some(2), Some(5), Some(8), Some(11), Some(18), None]
        );
        assert_eq!(
            (0..=5).map(|count| fill.cheapest_without(count, 3)).collect::<Vec<_>>(),
            [Some(0), Some(2), Some(5), Some(8), Some(15), None]
        );
        assert_eq!(fill.cheapest_without(4, 7), Some(11));
        assert_eq!(fill.cheapest_without(1, 2), Some(3));
        let nothing = Fill { total: 0, required: 0, costs: vec![], before: vec![] };
        assert_eq!([nothing.cheapest(0), nothing.cheapest_without(0, 5)], [Some(0); 2]);
        assert_eq!([nothing.cheapest(1), nothing.cheapest_without(1, 5)], [None; 2]);
    }
}
