//! A *return* is the set of callers that resume when a rule ends. Returns are interned.
//!
//! Equal sets of callers have the same id, whichever row they are in. Two inputs that lead to the
//! same callers in different ways therefore lead to the same row.
//!
//! A caller is an item, so it has a return itself. If that return belongs to the row that is being
//! created, it must be interned first. In left recursion, returns depend on each other in a
//! *circle*. The returns of a circle are interned together. Within a circle, callers refer to
//! returns by their positions in the circle.

use rustc_hash::FxHashSet;

use super::program::Shortest;
use super::rows::{CfgMachine, Item};
use crate::ir::expr::RuleId;
use crate::machine::Frame;
use crate::machine::hashed::Hashed;

/// The id of a return: an index into [`CfgMachine::returns`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct ReturnId(pub(super) u32);

/// The return of the root rule: the end of the output.
pub(super) const OUTPUT_END: ReturnId = ReturnId(Frame::NOBODY);

impl ReturnId {
    /// Bit that marks an id as the index of a [`Slot`] of the row that is being created.
    const SLOT: u32 = 1 << 31;

    pub(super) const fn in_slot(slot: usize) -> Self {
        Self(slot as u32 | Self::SLOT)
    }

    pub(super) const fn slot(self) -> Option<usize> {
        if self.0 & Self::SLOT == 0 { None } else { Some((self.0 & !Self::SLOT) as usize) }
    }

    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The callers that resume when one rule that was called in one row ends.
pub(super) struct Return {
    /// The callers, each at the position after the call.
    pub(super) callers: Box<[Item]>,
    /// The shortest completion of the output from the end of the called rule.
    pub(super) closing: Shortest,
    /// The first return of this return's circle. A return outside circles is a circle of its own.
    pub(super) circle: ReturnId,
}

/// A rule that is called in the row that is being created, and its callers, each at the position
/// after the call.
pub(super) struct Slot {
    pub(super) rule: RuleId,
    pub(super) callers: Vec<Item>,
}

/// The callers of each return of a circle. Where a caller returns to the circle itself, its return
/// is a slot whose index is the position in the circle.
pub(super) type Circle = Box<[Box<[Item]>]>;

impl CfgMachine {
    /// Interns the returns of a row's slots, and returns the id for each slot.
    pub(super) fn resolve(&mut self, mut slots: Vec<Slot>) -> Vec<Option<ReturnId>> {
        let mut resolved = vec![None; slots.len()];
        let mut places = vec![None; slots.len()];
        for mut group in circles(&slots) {
            for &slot in &group {
                redirect(&mut slots[slot].callers, &resolved);
            }
            if let [slot] = *group
                && slots[slot].callers.iter().all(|caller| caller.returns.slot().is_none())
            {
                resolved[slot] = Some(self.intern_return(std::mem::take(&mut slots[slot].callers)));
                continue;
            }
            group.sort_unstable_by_key(|&slot| slots[slot].rule);
            for (place, &slot) in group.iter().enumerate() {
                places[slot] = Some(ReturnId::in_slot(place));
            }
            let circle = group.iter().map(|&slot| {
                let mut callers = std::mem::take(&mut slots[slot].callers);
                redirect(&mut callers, &places);
                callers.into_boxed_slice()
            });
            let circle: Circle = circle.collect();
            let first = self.intern_circle(circle);
            for (place, &slot) in group.iter().enumerate() {
                (resolved[slot], places[slot]) = (Some(ReturnId(first.0 + place as u32)), None);
            }
        }
        resolved
    }

    fn intern_return(&mut self, callers: Vec<Item>) -> ReturnId {
        let callers = Hashed::new(callers.into_boxed_slice());
        if let Some(&known) = self.return_ids.get(&callers) {
            return known;
        }
        let closing = self.best(callers.key());
        let circle = ReturnId(self.returns.len() as u32);
        let id = self.push_return(Return { callers: callers.key().clone(), closing, circle });
        self.return_ids.insert(callers, id);
        id
    }

    /// Interns a circle, and returns the id of its first return. The ids of the other returns
    /// follow consecutively.
    fn intern_circle(&mut self, circle: Circle) -> ReturnId {
        if let Some(&known) = self.circle_ids.get(&circle) {
            return known;
        }
        if let Some(unrolled) = self.unrolled(&circle) {
            return unrolled;
        }
        let first = ReturnId(self.returns.len() as u32);
        for callers in placed(&circle, first) {
            let closing = Shortest { len: Shortest::NEVER, first: 0 };
            self.push_return(Return { callers, closing, circle: first });
        }
        self.close_circle(first.index());
        self.circle_ids.insert(circle, first);
        first
    }

    /// Returns the first return of a known circle that `circle` merely repeats. `None` if there is
    /// no such circle.
    ///
    /// Some callers in `circle` return to the known circle. `circle` is a repetition if it equals
    /// the known circle once each of its slots is replaced by the known return at the same
    /// position. Ambiguous recursion such as `e ::= e "+" e` would otherwise create another circle
    /// at each operator.
    fn unrolled(&self, circle: &Circle) -> Option<ReturnId> {
        // Callers may become equal when slots are replaced, so the known return may have fewer
        // callers than the first return of `circle`.
        let slots = circle[0].iter().filter(|caller| caller.returns.slot().is_some()).count();
        let counts = circle[0].len() - slots..=circle[0].len();
        let mut tried = FxHashSet::default();
        let returns = circle.iter().flatten().filter(|caller| caller.returns.slot().is_none());
        returns.map(|caller| self.returns[caller.returns.index()].circle).find(|&first| {
            counts.contains(&self.returns[first.index()].callers.len())
                && tried.insert(first)
                && placed(circle, first).enumerate().all(|(place, callers)| {
                    let known = self.returns.get(first.index() + place);
                    known.is_some_and(|known| known.circle == first && known.callers == callers)
                })
        })
    }

    fn push_return(&mut self, new: Return) -> ReturnId {
        self.byte_len += 2 * new.callers.len() * size_of::<Item>() + size_of::<Return>() + 32;
        self.returns.push(new);
        ReturnId(self.returns.len() as u32 - 1)
    }

    /// Computes [`Return::closing`] for the returns from `first` on, which form a circle. The
    /// values depend on each other, so they are the least fixpoint of their equations.
    fn close_circle(&mut self, first: usize) {
        let mut changed = true;
        while changed {
            changed = false;
            for index in first..self.returns.len() {
                let closing = self.best(&self.returns[index].callers);
                if closing.len < self.returns[index].closing.len {
                    self.returns[index].closing = closing;
                    changed = true;
                }
            }
        }
    }
}

/// Returns the callers of each return of a circle, if the first return has the id `first`.
fn placed(circle: &Circle, first: ReturnId) -> impl Iterator<Item = Box<[Item]>> {
    let ids: Vec<_> = (0..circle.len() as u32).map(|place| Some(ReturnId(first.0 + place))).collect();
    circle.iter().map(move |callers| {
        let mut callers = callers.to_vec();
        redirect(&mut callers, &ids);
        callers.into_boxed_slice()
    })
}

/// Replaces the slots in `items` by their ids in `resolved`, if these are known. Then sorts the
/// items and removes duplicates.
pub(super) fn redirect(items: &mut Vec<Item>, resolved: &[Option<ReturnId>]) {
    for item in items.iter_mut() {
        if let Some(id) = item.returns.slot().and_then(|slot| resolved[slot]) {
            item.returns = id;
        }
    }
    items.sort_unstable();
    items.dedup();
}

/// Returns groups of slots whose returns depend on each other. A group comes after the groups that
/// it depends on. This is Tarjan's algorithm for strongly connected components, without recursion.
fn circles(slots: &[Slot]) -> Vec<Vec<usize>> {
    const UNSEEN: usize = usize::MAX;
    let mut groups = Vec::new();
    let mut order = vec![UNSEEN; slots.len()];
    let mut lowest = vec![UNSEEN; slots.len()];
    let mut grouped = vec![false; slots.len()];
    let mut waiting = Vec::new();
    let mut seen = 0;
    for from in 0..slots.len() {
        // Slots on the current path, with the number of callers already followed.
        let mut path = if order[from] == UNSEEN { vec![(from, 0)] } else { Vec::new() };
        while let Some((slot, followed)) = path.last_mut() {
            let slot = *slot;
            if order[slot] == UNSEEN {
                (order[slot], lowest[slot]) = (seen, seen);
                seen += 1;
                waiting.push(slot);
            }
            if let Some(caller) = slots[slot].callers.get(*followed) {
                *followed += 1;
                match caller.returns.slot() {
                    Some(next) if order[next] == UNSEEN => path.push((next, 0)),
                    Some(next) if !grouped[next] => lowest[slot] = lowest[slot].min(order[next]),
                    _ => {}
                }
                continue;
            }
            path.pop();
            if let Some(&(before, _)) = path.last() {
                lowest[before] = lowest[before].min(lowest[slot]);
            }
            if lowest[slot] == order[slot] {
                let start = waiting.iter().rposition(|&other| other == slot).unwrap_or(0);
                let group = waiting.split_off(start);
                for &member in &group {
                    grouped[member] = true;
                }
                groups.push(group);
            }
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::program::Program;
    use super::super::states::Dot;
    use super::*;
    use crate::frontend::gbnf;
    use crate::frontend::json_schema::Schemas;
    use crate::machine::Machine;
    use crate::{Limits, SchemaOptions};

    #[test]
    fn cyclic_slots_form_one_group_after_their_dependencies() {
        // Slot 0 waits for 1 and 3, slot 1 for 2, slot 2 for 1, slot 3 for itself, and slot 4 for
        // none.
        let waits: [&[usize]; 5] = [&[1, 3], &[2], &[1], &[3], &[]];
        let slots: Vec<Slot> = (0..5)
            .map(|slot| {
                let caller = |&other: &usize| Item { dot: Dot(0), returns: ReturnId::in_slot(other) };
                Slot { rule: RuleId(slot as u32), callers: waits[slot].iter().map(caller).collect() }
            })
            .collect();
        let groups = circles(&slots);
        assert_eq!(groups, [vec![1, 2], vec![3], vec![0], vec![4]]);
    }

    /// Left recursion calls its rule again after each operator. The resulting circle must be
    /// reused, not created again.
    #[test]
    fn rows_repeat_under_left_recursion() {
        for rules in [
            "root ::= root \"+\" root | \"x\"",
            "root ::= root \"+\" term | term\nterm ::= \"(\" root \")\" | \"x\"",
            "root ::= sum | sum \"*\" root | \"x\"\nsum ::= root \"+\" sum | sum \"-\" root | root",
        ] {
            let schemas = Schemas::alone(SchemaOptions::default());
            let rules = gbnf::parse(rules, schemas, &Limits::default()).unwrap();
            let program = Program::new(&rules, &Limits::default(), schemas.ledger).unwrap();
            let mut machine = CfgMachine::new(Arc::new(program));
            let mut config = machine.start();
            let mut rows = Vec::new();
            for byte in b"x+".repeat(20) {
                config = machine.step(config, byte);
                rows.push(machine.rows.len());
            }
            assert_eq!(rows[10], rows[39], "{rows:?}");
        }
    }
}
