//! Repeated character classes, such as `[a-z]*` and `[^,]{0,30}`.
//!
//! From most dots of such a repetition, all characters of the class lead to the same next dot. If
//! no other item of a row accepts any of these characters, they also lead to the same next row. The
//! rows after one, two and more such characters then form a *class run*, which has no branches. The
//! run of a counted repetition is long. The run of an unbounded repetition is a cycle.

use super::embedded::Embedded;
use super::program::Program;
use super::rows::{CfgMachine, Item};
use super::states::Dot;
use crate::ByteSet;
use crate::machine::probe::{CHARACTERS, WIDE};
use crate::machine::region::LONG;
use crate::machine::{Config, Machine, Tolerance};
use crate::tokens::TEXT;

/// One step of a class run: all characters of `class` lead from one dot to `target`.
#[derive(Clone, Copy)]
pub(super) struct ClassRun {
    target: Dot,
    /// The characters, in the encoding of [`Tolerance::class`].
    class: ByteSet,
}

impl CfgMachine {
    /// Returns the tolerance of the class run that begins at the row `config`. `None` if no class
    /// run begins there.
    pub(super) fn class_run_from(&mut self, config: Config) -> Option<Tolerance> {
        let (mut class, mut exits, mut chars) = (ByteSet::ALL, ByteSet::default(), 0);
        let (mut some_accept, mut all_accept) = (false, true);
        let mut at = config;
        while chars < LONG {
            let Some((item, run)) = self.class_run_of(at, class) else { break };
            class = class & run.class;
            exits = exits | self.plausible(at);
            let next = if self.rows[at.index()].bare {
                self.bare_row(vec![run.target])
            } else {
                self.intern(vec![Item { dot: run.target, ..item }])
            };
            if self.calls(next) {
                break;
            }
            some_accept |= self.accepting(next);
            all_accept &= self.accepting(next);
            if next == at {
                chars = u32::MAX;
                break;
            }
            at = next;
            chars += 1;
        }
        let beyond = if chars == u32::MAX { ByteSet::default() } else { self.plausible(at) };
        let exits = (exits | beyond) & !class;
        (chars > 0).then(|| Tolerance {
            class,
            chars,
            exits,
            ends: chars < LONG && (beyond & class).is_empty(),
            accepting: (some_accept == all_accept).then_some(all_accept),
        })
    }

    /// Returns the item of the row `config` with the largest class within `class`, and its step.
    /// `None` if that class has at most [`WIDE`] bytes, or if another item of the row accepts one
    /// of the characters.
    fn class_run_of(&mut self, config: Config, class: ByteSet) -> Option<(Item, ClassRun)> {
        let items = self.rows[config.index()].items.clone();
        let mut widest: Option<(Item, ClassRun)> = None;
        for &item in &items {
            if let Some(run) = self.run(item.dot) {
                let run = ClassRun { class: run.class & class, ..run };
                if widest.as_ref().is_none_or(|(_, other)| other.class.len() < run.class.len()) {
                    widest = Some((item, run));
                }
            }
        }
        let (item, run) = widest.filter(|(_, run)| run.class.len() > WIDE)?;
        let others = items.iter().filter(|&&other| other != item).map(|other| other.dot);
        let taken = others.fold(ByteSet::default(), |taken, dot| taken | self.bytes_of(dot));
        ((taken & run.class & TEXT).is_empty()).then_some((item, run))
    }

    fn bytes_of(&self, dot: Dot) -> ByteSet {
        if Embedded::holds(dot) {
            return ByteSet::ALL;
        }
        let mut bytes = ByteSet::default();
        for edge in self.program.state(dot).bytes {
            bytes.insert_range(edge.low, edge.high);
        }
        bytes
    }

    fn run(&mut self, dot: Dot) -> Option<ClassRun> {
        if Embedded::holds(dot) {
            return None;
        }
        let program = &self.program;
        *self.class_runs.entry(dot).or_insert_with(|| ClassRun::new(program, dot))
    }
}

impl ClassRun {
    fn new(program: &Program, dot: Dot) -> Option<Self> {
        let edges = program.state(dot).bytes;
        // If a byte leads to two dots, the next row has several items.
        if edges.windows(2).any(|pair| pair[0].high >= pair[1].low) {
            return None;
        }
        let mut targets: Vec<(Dot, ByteSet)> = Vec::new();
        for edge in edges.iter().filter(|edge| edge.low.is_ascii()) {
            let known = targets.iter().position(|(target, _)| *target == edge.target);
            let at = known.unwrap_or(targets.len());
            if known.is_none() {
                targets.push((edge.target, ByteSet::default()));
            }
            targets[at].1.insert_range(edge.low, edge.high.min(0x7f));
        }
        let (target, mut class) = targets.into_iter().max_by_key(|(_, class)| class.len())?;
        let leads = |low: u8, high: u8, rest: &[(u8, u8)]| {
            (low..=high).all(|lead| {
                let next = step(program, dot, lead);
                next.is_some_and(|next| all_lead(program, next, rest, target))
            })
        };
        if CHARACTERS.iter().all(|&(low, high, rest)| leads(low, high, rest)) {
            class.insert_range(0x80, u8::MAX);
        }
        Some(Self { target, class })
    }
}

/// Returns the dot to which `byte` leads from `dot`. `None` if there is no such dot or more than
/// one.
fn step(program: &Program, dot: Dot, byte: u8) -> Option<Dot> {
    let state = program.state(dot);
    let mut edges = state.bytes.iter().filter(|edge| (edge.low..=edge.high).contains(&byte));
    let next = edges.next()?.target;
    edges.next().is_none().then_some(next)
}

/// Reports whether every sequence of bytes in `ranges` leads from `dot` to `target`. The dots in
/// between must not allow anything else.
fn all_lead(program: &Program, dot: Dot, ranges: &[(u8, u8)], target: Dot) -> bool {
    let Some((&(low, high), rest)) = ranges.split_first() else { return dot == target };
    let state = program.state(dot);
    if state.accepting || !state.calls.is_empty() {
        return false;
    }
    let mut from = u16::from(low);
    for edge in state.bytes {
        if u16::from(edge.low) > from || u16::from(edge.high) < from {
            return false;
        }
        if !all_lead(program, edge.target, rest, target) {
            return false;
        }
        from = u16::from(edge.high) + 1;
    }
    from == u16::from(high) + 1
}
