//! Rows: interned Earley sets.
//!
//! An [`Item`] is a dot and a *return*: the (row, rule) pair whose callers go on when the dot's rule ends. A row's own
//! items call rules with the row itself as return, so a row is determined by its *kernel*, the items that came into it
//! from the byte before, and everything else follows:
//!
//! * **scan**: items with an edge over the byte move along it; where one then ends its rule, the callers in the returned
//!   row move along their call edges, and so on. What remains, sorted, is the kernel of the next row.
//! * **predict**: an item with a call edge adds the start of the called rule, to return here. Where nothing follows the
//!   call in the caller (a *tail call*), the callee returns where the caller would have: right recursion then takes
//!   neither space nor time per level, and its rows repeat.
//! * **nullable**: a rule that matches the empty text also lets its caller move on at once.
//!
//! Left recursion needs nothing special: the row calls the rule once, whoever asks for it.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::embedded::Embedded;
use super::program::{Dot, Program, Shortest};
use super::street::Street;
use crate::frontend::expr::RuleId;
use crate::machine::{Config, Likeness, Machine, Part, Text, Tolerance};
use crate::{ByteSet, Profile};

/// Where a rule goes on when it ends: an index into [`CfgMachine::returns`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct ReturnId(u32);

/// The return of the root rule: the end of the output.
const OUTPUT_END: ReturnId = ReturnId(0);

impl ReturnId {
    /// Set in ids that stand for a slot of the row being built.
    const SLOT: u32 = 1 << 31;

    const fn in_slot(slot: u32) -> Self {
        Self(slot | Self::SLOT)
    }

    const fn slot(self) -> Option<usize> {
        if self.0 & Self::SLOT == 0 { None } else { Some((self.0 & !Self::SLOT) as usize) }
    }
}

/// A place in a rule, and where the rule returns.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Item {
    pub(super) dot: Dot,
    pub(super) returns: ReturnId,
}

/// The callers of one rule in one row.
struct Return {
    /// The callers, moved past the call.
    callers: Box<[Item]>,
    /// The best way to the end of the output once the rule has ended.
    closing: Shortest,
}

pub(super) struct Row {
    pub(super) items: Box<[Item]>,
    accepting: bool,
    closing: Shortest,
}

/// Runs a [`Program`].
pub(crate) struct CfgMachine {
    pub(super) program: Arc<Program>,
    pub(super) rows: Vec<Row>,
    returns: Vec<Return>,
    /// Kernels; the flag tells whether the output may end in the row.
    ids: FxHashMap<(Box<[Item]>, bool), Config>,
    /// Returns by their callers, so that equal contexts in different rows are one.
    return_ids: FxHashMap<Box<[Item]>, ReturnId>,
    embedded: Embedded,
    /// By dot, where most characters lead, as far as it was asked.
    pub(super) streets: FxHashMap<Dot, Option<Street>>,
    byte_len: usize,
}

impl CfgMachine {
    pub(crate) fn new(program: Arc<Program>) -> Self {
        let output_end = Return { callers: Box::new([]), closing: Shortest { len: 0, first: 0 } };
        Self {
            embedded: Embedded::new(&program.schemas),
            program,
            rows: Vec::new(),
            returns: vec![output_end],
            ids: FxHashMap::default(),
            return_ids: FxHashMap::default(),
            streets: FxHashMap::default(),
            byte_len: 0,
        }
    }

    /// Follows ended rules back to their callers until nothing new moves; gives the items from which something can still
    /// follow, and whether the output may end.
    fn completed(&self, scanned: Vec<Item>) -> (Vec<Item>, bool) {
        let mut open = scanned;
        let mut seen: FxHashSet<Item> = open.iter().copied().collect();
        let mut kernel = Vec::new();
        let mut accepting = false;
        while let Some(item) = open.pop() {
            let (ends, goes_on) = if Embedded::holds(item.dot) {
                (self.embedded.ends(item.dot), !self.embedded.plausible(item.dot).is_empty())
            } else {
                let state = self.program.state(item.dot);
                (state.accepting, state.goes_on())
            };
            if ends {
                accepting |= item.returns == OUTPUT_END;
                let callers = &self.returns[item.returns.0 as usize].callers;
                open.extend(callers.iter().filter(|caller| seen.insert(**caller)));
            }
            if goes_on {
                kernel.push(item);
            }
        }
        kernel.sort_unstable();
        (kernel, accepting)
    }

    pub(super) fn intern(&mut self, scanned: Vec<Item>) -> Config {
        if scanned.is_empty() {
            return Config::DEAD;
        }
        let (kernel, accepting) = self.completed(scanned);
        self.intern_kernel(kernel, accepting)
    }

    fn intern_kernel(&mut self, kernel: Vec<Item>, accepting: bool) -> Config {
        let key = (kernel.into_boxed_slice(), accepting);
        if let Some(&config) = self.ids.get(&key) {
            return config;
        }
        let row = self.predict(&key.0, accepting);
        let config = Config(self.rows.len() as u32);
        let items = row.items.len() + key.0.len();
        self.byte_len += items * size_of::<Item>() + size_of::<Row>() + 64;
        self.rows.push(row);
        self.ids.insert(key, config);
        config
    }

    /// Adds what the kernel's calls lead to.
    fn predict(&mut self, kernel: &[Item], mut accepting: bool) -> Row {
        let mut items: Vec<Item> = kernel.to_vec();
        let mut seen: FxHashSet<Item> = kernel.iter().copied().collect();
        // The rules called with a return to this row, each in a slot, with their callers moved past the call.
        let mut slots: FxHashMap<RuleId, u32> = FxHashMap::default();
        let mut callers: Vec<Vec<Item>> = Vec::new();
        let mut next = 0;
        while let Some(&item) = items.get(next) {
            next += 1;
            if Embedded::holds(item.dot) {
                continue;
            }
            let program = &*self.program;
            let state = program.state(item.dot);
            let mut found = Vec::new();
            if let Some(dot) = state.schema.and_then(|schema| self.embedded.start(schema)) {
                found.push(Item { dot, returns: item.returns });
            }
            // A rule that ends at once and returns to this row is nullable: its callers are moved on below.
            if state.accepting && item.returns.slot().is_none() {
                accepting |= item.returns == OUTPUT_END;
                found.extend_from_slice(&self.returns[item.returns.0 as usize].callers);
            }
            for edge in &state.calls {
                let after = Item { dot: edge.target, returns: item.returns };
                let returns = if program.state(edge.target).is_final() {
                    item.returns
                } else {
                    let slot = *slots.entry(edge.rule).or_insert_with(|| {
                        callers.push(Vec::new());
                        callers.len() as u32 - 1
                    });
                    callers[slot as usize].push(after);
                    ReturnId::in_slot(slot)
                };
                found.push(Item { dot: program.start(edge.rule), returns });
                if program.nullable(edge.rule) {
                    found.push(after);
                }
            }
            items.extend(found.into_iter().filter(|item| seen.insert(*item)));
        }
        let resolved = self.resolve(callers);
        redirect(&mut items, &resolved);
        let closing = self.best(&items);
        items.retain(|item| Embedded::holds(item.dot) || !self.program.state(item.dot).bytes.is_empty());
        Row { items: items.into_boxed_slice(), accepting, closing }
    }

    /// Gives the returns of this row's slots their ids. Equal callers have one id, whatever row they are in, so that
    /// inputs which differ only in where they entered a rule come to the same row. Callers that return to this row
    /// themselves wait for those ids; where the waiting goes in a circle (left recursion), fresh ids end it.
    fn resolve(&mut self, mut callers: Vec<Vec<Item>>) -> Vec<Option<ReturnId>> {
        let mut resolved = vec![None; callers.len()];
        let mut progress = true;
        while progress {
            progress = false;
            for slot in 0..callers.len() {
                if resolved[slot].is_none() {
                    redirect(&mut callers[slot], &resolved);
                    if callers[slot].iter().all(|caller| caller.returns.slot().is_none()) {
                        resolved[slot] = Some(self.intern_return(std::mem::take(&mut callers[slot])));
                        progress = true;
                    }
                }
            }
        }
        let first_circular = self.returns.len();
        for (slot, id) in resolved.iter_mut().enumerate().filter(|(_, id)| id.is_none()) {
            *id = Some(self.push_return(std::mem::take(&mut callers[slot]).into()));
        }
        for index in first_circular..self.returns.len() {
            redirect_slice(&mut self.returns[index].callers, &resolved);
        }
        self.close_circular(first_circular);
        resolved
    }

    fn intern_return(&mut self, callers: Vec<Item>) -> ReturnId {
        let callers = callers.into_boxed_slice();
        if let Some(&known) = self.return_ids.get(&callers) {
            return known;
        }
        let closing = self.best(&callers);
        let id = self.push_return(callers.clone());
        self.returns[id.0 as usize].closing = closing;
        self.return_ids.insert(callers, id);
        id
    }

    fn push_return(&mut self, callers: Box<[Item]>) -> ReturnId {
        self.byte_len += 2 * callers.len() * size_of::<Item>() + size_of::<Return>() + 32;
        let closing = Shortest { len: Shortest::NEVER, first: 0 };
        self.returns.push(Return { callers, closing });
        ReturnId(self.returns.len() as u32 - 1)
    }

    /// Ways to the end that lead through each other, as a least fixpoint.
    fn close_circular(&mut self, first: usize) {
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

    /// The shortest way to the end of the output from any of `items`.
    fn best(&self, items: &[Item]) -> Shortest {
        let to_end = |item: &Item| {
            let inside = if Embedded::holds(item.dot) {
                self.embedded.shortest(item.dot)
            } else {
                self.program.shortest[item.dot.index()]
            };
            let after = self.returns[item.returns.0 as usize].closing;
            let first = if inside.len > 0 { inside.first } else { after.first };
            Shortest { len: inside.len.saturating_add(after.len), first }
        };
        items
            .iter()
            .map(to_end)
            .min_by_key(|closing| closing.len)
            .unwrap_or(Shortest { len: Shortest::NEVER, first: 0 })
    }

    /// The one item of a row that has no other and is inside a JSON text.
    pub(super) fn lone_embedded(&self, config: Config) -> Option<Item> {
        match *self.rows[config.0 as usize].items {
            [item] if Embedded::holds(item.dot) => Some(item),
            _ => None,
        }
    }

    /// The config of a lone item with another dot.
    fn with_dot(&mut self, item: Item, dot: Option<Dot>) -> Config {
        self.intern(dot.map(|dot| Item { dot, ..item }).into_iter().collect())
    }
}

/// Replaces slots by their ids, as far as these are known; sorts, and drops what has become equal.
fn redirect(items: &mut Vec<Item>, resolved: &[Option<ReturnId>]) {
    redirect_slice(items, resolved);
    items.sort_unstable();
    items.dedup();
}

fn redirect_slice(items: &mut [Item], resolved: &[Option<ReturnId>]) {
    for item in items {
        if let Some(id) = item.returns.slot().and_then(|slot| resolved[slot]) {
            item.returns = id;
        }
    }
}

impl Machine for CfgMachine {
    fn start(&mut self) -> Config {
        let dot = self.program.start(self.program.root);
        self.intern(vec![Item { dot, returns: OUTPUT_END }])
    }

    fn step(&mut self, config: Config, byte: u8) -> Config {
        let mut scanned = Vec::new();
        for item in &self.rows[config.0 as usize].items {
            if Embedded::holds(item.dot) {
                let next = self.embedded.step(item.dot, byte);
                scanned.extend(next.map(|dot| Item { dot, ..*item }));
                continue;
            }
            for edge in &self.program.state(item.dot).bytes {
                if edge.low > byte {
                    break;
                }
                if byte <= edge.high {
                    scanned.push(Item { dot: edge.target, returns: item.returns });
                }
            }
        }
        scanned.sort_unstable();
        scanned.dedup();
        self.intern(scanned)
    }

    fn plausible(&self, config: Config) -> ByteSet {
        let mut bytes = ByteSet::default();
        for item in &self.rows[config.0 as usize].items {
            if Embedded::holds(item.dot) {
                bytes = bytes | self.embedded.plausible(item.dot);
                continue;
            }
            for edge in &self.program.state(item.dot).bytes {
                bytes.insert_range(edge.low, edge.high);
            }
        }
        bytes
    }

    fn strings(&self) -> Option<Profile> {
        self.program.schemas.first().map(|schema| schema.profile)
    }

    fn parts(&mut self, config: Config, parts: &mut Vec<Part>) {
        let Some(item) = self.lone_embedded(config) else { return parts.push(Part::Plain(config)) };
        for (part, dots) in self.embedded.parts(item.dot) {
            let [first, second] = dots.map(|dot| self.with_dot(item, dot));
            parts.push(match part {
                Part::Plain(_) => Part::Plain(first),
                Part::Text(text) => Part::Text(Text { after: first, ..text }),
                Part::Special { text, .. } => {
                    Part::Special { config: first, text: Text { after: second, ..text } }
                }
                Part::Like { .. } => Part::Like { config: first, other: second },
            });
        }
    }

    fn likeness(&mut self, config: Config) -> Option<Likeness> {
        let item = self.lone_embedded(config)?;
        let (other, bytes) = self.embedded.likeness(item.dot)?;
        Some(Likeness { other: self.with_dot(item, Some(other)), bytes })
    }

    fn tolerance(&mut self, config: Config) -> Option<Tolerance> {
        match self.lone_embedded(config) {
            Some(item) => self.embedded.tolerance(item.dot),
            None => self.street_from(config),
        }
    }

    fn tells_tolerance(&self, config: Config) -> bool {
        self.lone_embedded(config).is_some()
    }

    fn expected(&self, config: Config, following: ByteSet) -> Vec<String> {
        let item = self.lone_embedded(config);
        item.map_or_else(Vec::new, |item| self.embedded.expected(item.dot, following))
    }

    fn join(&mut self, configs: &[Config]) -> Config {
        let rows = || configs.iter().map(|config| &self.rows[config.0 as usize]);
        let mut items: Vec<Item> = rows().flat_map(|row| row.items.iter().copied()).collect();
        let may_end = rows().any(|row| row.accepting);
        items.sort_unstable();
        items.dedup();
        let (kernel, accepting) = self.completed(items);
        self.intern_kernel(kernel, accepting || may_end)
    }

    fn accepting(&self, config: Config) -> bool {
        self.rows[config.0 as usize].accepting
    }

    fn closing_len(&self, config: Config) -> u32 {
        let row = &self.rows[config.0 as usize];
        if row.accepting { 0 } else { row.closing.len }
    }

    fn closing_byte(&self, config: Config) -> u8 {
        self.rows[config.0 as usize].closing.first
    }

    fn byte_len(&self) -> usize {
        self.byte_len + self.embedded.byte_len()
    }
}
