//! Rows: interned Earley sets.
//!
//! A *dot* is a position in a rule's automaton ([`Dot`]). An [`Item`] is a dot and a *return*: the
//! callers that resume when the dot's rule ends ([`Return`]). A *row* is the set of all items after
//! the bytes read so far. The return of a rule that is called in a row consists of callers in the
//! same row. A row is therefore determined by its *kernel*, the items to which the last byte led.
//! All other items follow from the kernel:
//!
//! * **scan**: Items with an edge over the byte move along the edge. If an item then ends its rule,
//!   the callers in its return move past their calls, which may end their rules too. The sorted
//!   result is the kernel of the next row.
//! * **predict**: An item with a call edge adds an item at the start of the called rule. The caller
//!   joins the return of that rule. If nothing follows the call in the caller (a *tail call*), the
//!   called rule gets the return of the caller instead. Right recursion then takes neither space
//!   nor time per level, and its rows repeat.
//! * **nullable**: If the called rule matches the empty text, the caller is also added at the
//!   position after the call.
//!
//! Left recursion needs no special treatment: a row calls each rule once, even if several items
//! have the call.

use std::collections::VecDeque;
use std::sync::Arc;

use formwork_vocab::TokenId;
use rustc_hash::{FxHashMap, FxHashSet};

use super::class_run::ClassRun;
use super::embedded::Embedded;
use super::frames::Frames;
use super::program::{EmbeddedProgram, Program, Shortest};
use super::returns::{Circle, OUTPUT_END, Return, ReturnId, Slot, redirect};
use super::states::Dot;
use super::worklist::Worklist;
use crate::ir::expr::RuleId;
use crate::machine::hashed::Hashed;
use crate::machine::{Config, ConfigPart, EquivalentConfig, Frame, Machine, Text, TextPlace, Tolerance};
use crate::mask::named_tokens::NamedTokens;
use crate::{ByteSet, GrammarError, Profile};

/// A position in a rule, and the callers that resume when the rule ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Item {
    pub(super) dot: Dot,
    pub(super) returns: ReturnId,
}

pub(super) struct Row {
    /// Items at which the next byte can be read. Items that only call rules are omitted.
    pub(super) items: Box<[Item]>,
    pub(super) accepting: bool,
    pub(super) closing: Shortest,
    /// True if this is a [bare row](super::frames).
    pub(super) bare: bool,
    /// Number of items visited when the row was created. An item that is visited twice counts
    /// twice.
    pub(super) weight: u32,
}

/// The items that determine a row, and whether the output may end at the row.
type Kernel = (Box<[Item]>, bool);

/// Runs a [`Program`].
pub(crate) struct CfgMachine {
    pub(super) program: Arc<Program>,
    pub(super) rows: Vec<Row>,
    pub(super) returns: Vec<Return>,
    ids: FxHashMap<Hashed<Kernel>, Config>,
    /// Rows with some items of other rows, for [`Machine::parts`].
    row_parts: FxHashMap<Box<[Item]>, Config>,
    /// Returns outside circles, by their callers.
    pub(super) return_ids: FxHashMap<Hashed<Box<[Item]>>, ReturnId>,
    /// First return of each known circle.
    pub(super) circle_ids: FxHashMap<Circle, ReturnId>,
    pub(super) embedded: Embedded,
    /// For each dot that has been queried, the class run step from the dot, or `None` if no class
    /// run starts there.
    pub(super) class_runs: FxHashMap<Dot, Option<ClassRun>>,
    pub(super) frames: Frames,
    pub(super) byte_len: usize,
    /// Sum of the weights of all rows.
    work: usize,
    /// Maximum number of items of a row, and of visits to create it. Rows with more are left incomplete and
    /// reported in `overfull`. Unlimited (`usize::MAX`) except in [`CfgMachine::check`].
    most_items: usize,
    most_visits: usize,
    /// The limit that a row exceeded: what is limited, the number so far and the limit. `None` if no row did.
    overfull: Option<(&'static str, usize, usize)>,
}

/// Maximum number of items of a row that [`CfgMachine::check`] accepts. A mask from a row of this
/// size takes a tenth of a second.
const ITEMS: usize = 1 << 12;

/// Maximum number of items inside texts of other machines for which a row is taken apart.
const APART: usize = 8;

/// Limits of the walks in [`CfgMachine::check`]: the number of walks from the start, the number of
/// bytes of each walk, and the total number of items on all walks.
const WALKS: usize = 8;
const BYTES: usize = 48;
const TRIED_ITEMS: usize = 1 << 17;

/// [`CfgMachine::check`] tries a mask if a row has more weight than `LIGHT`. The other constants
/// limit the trial: the number of steps, the number of bytes of a token, and the total weight of
/// the rows visited.
const LIGHT: usize = 256;
const TRIED_STEPS: usize = 1 << 11;
const TRIED_DEPTH: usize = 10;
const TRIED_PLACES: usize = 1 << 19;
/// Name of the limit [`TRIED_PLACES`].
const VISITS: &str = "parser positions to visit for a mask";

impl CfgMachine {
    /// Rejects a program whose rows have too many items. Only the rows on a few walks from the
    /// start are tried.
    ///
    /// # Errors
    /// Returns an error if a row on these walks has more than [`ITEMS`] items, or if a trial mask
    /// visits rows of too much weight.
    pub(crate) fn check(program: &Arc<Program>) -> Result<(), GrammarError> {
        let mut machine =
            Self { most_items: ITEMS, most_visits: TRIED_PLACES, ..Self::new(Arc::clone(program)) };
        let start = machine.start();
        let mut items = 0;
        let mut heaviest = start;
        for walk in 0..WALKS {
            let mut config = start;
            for step in 0..BYTES {
                items += machine.rows[config.index()].items.len();
                if machine.overfull.is_some() || items > TRIED_ITEMS || machine.work > TRIED_PLACES {
                    break;
                }
                if machine.weight(config) > machine.weight(heaviest) {
                    heaviest = config;
                }
                let plausible = machine.plausible(config);
                let bytes: Vec<u8> = (0..=u8::MAX).filter(|&byte| plausible.contains(byte)).collect();
                // Any choice will do if the walks differ and each walk is the same every time.
                let choice = ((walk + 1) * (step + 7) * 0x9e37) >> 4;
                let Some(&byte) = bytes.get(choice % bytes.len().max(1)) else { break };
                config = machine.step(config, byte);
                if config == Config::DEAD {
                    break;
                }
            }
        }
        if machine.weight(heaviest) > LIGHT && machine.overfull.is_none() {
            for from in [start, heaviest] {
                machine.try_mask(from)?;
            }
        }
        match machine.overfull {
            Some((what, given, limit)) => Err(GrammarError::limit(what, given, limit)),
            None => Ok(()),
        }
    }

    /// Steps from the row `from` over all bytes, as the computation of a mask does, up to
    /// [`TRIED_DEPTH`] bytes deep. Stops without an error after [`TRIED_STEPS`] steps.
    ///
    /// # Errors
    /// Returns an error if the rows visited weigh more than [`TRIED_PLACES`].
    fn try_mask(&mut self, from: Config) -> Result<(), GrammarError> {
        let mut met = FxHashSet::from_iter([from]);
        let mut open = VecDeque::from([(from, 0)]);
        let (mut weight, mut steps) = (0, 0);
        while let Some((config, depth)) = open.pop_front() {
            for byte in self.plausible(config).iter() {
                let next = self.step(config, byte);
                steps += 1;
                if steps > TRIED_STEPS || self.overfull.is_some() {
                    return Ok(());
                }
                if next == Config::DEAD {
                    continue;
                }
                weight += self.weight(next);
                if weight > TRIED_PLACES {
                    return Err(GrammarError::limit(VISITS, weight, TRIED_PLACES));
                }
                if met.insert(next) && depth + 1 < TRIED_DEPTH {
                    open.push_back((next, depth + 1));
                }
            }
        }
        Ok(())
    }

    pub(crate) fn new(program: Arc<Program>) -> Self {
        let closing = Shortest { len: 0, first: 0 };
        let output_end = Return { callers: Box::new([]), closing, circle: OUTPUT_END };
        Self {
            embedded: Embedded::new(&program.embedded),
            program,
            rows: Vec::new(),
            returns: vec![output_end],
            ids: FxHashMap::default(),
            row_parts: FxHashMap::default(),
            return_ids: FxHashMap::default(),
            circle_ids: FxHashMap::default(),
            class_runs: FxHashMap::default(),
            frames: Frames::default(),
            byte_len: 0,
            work: 0,
            most_items: usize::MAX,
            most_visits: usize::MAX,
            overfull: None,
        }
    }

    pub(crate) fn program(&self) -> Arc<Program> {
        Arc::clone(&self.program)
    }

    /// Adds the callers that resume because a rule has ended, until there are no more.
    ///
    /// Returns the items with a continuation in their rule, whether the output may end, and the
    /// number of items visited.
    fn completed(&self, scanned: Vec<Item>) -> (Vec<Item>, bool, usize) {
        let mut open = Worklist::new(scanned);
        let mut kernel = Vec::new();
        let mut accepting = false;
        let (mut next, mut weight) = (0, 0);
        while let Some(item) = open.get(next) {
            next += 1;
            if next + weight > self.most_visits {
                break;
            }
            let (ends, goes_on) = if Embedded::holds(item.dot) {
                (self.embedded.ends(item.dot), !self.embedded.plausible(item.dot).is_empty())
            } else {
                let state = self.program.state(item.dot);
                // A tail call stands for the start of its rule. Rows then have equal kernels, whichever rule
                // has the call. Without embedded texts, masks come from spans, which do not need that.
                if !self.program.embedded.is_empty()
                    && let Some(rule) = self.program.tail_call(state)
                {
                    open.push(Item { dot: self.program.start(rule), ..item });
                    continue;
                }
                (state.accepting, state.goes_on())
            };
            if ends {
                accepting |= item.returns == OUTPUT_END;
                let callers = &self.returns[item.returns.index()].callers;
                weight += callers.len();
                open.extend(callers.iter().copied());
            }
            if goes_on {
                kernel.push(item);
            }
        }
        kernel.sort_unstable();
        (kernel, accepting, next + weight)
    }

    pub(super) fn intern(&mut self, scanned: Vec<Item>) -> Config {
        if scanned.is_empty() {
            return Config::DEAD;
        }
        let (kernel, accepting, completed) = self.completed(scanned);
        if completed > self.most_visits {
            self.overfull = Some((VISITS, completed, self.most_visits));
        }
        self.intern_kernel(kernel, accepting, completed)
    }

    /// Returns the row after items [moved](scan) over a byte.
    pub(super) fn intern_scanned(&mut self, mut scanned: Vec<Item>) -> Config {
        scanned.sort_unstable();
        scanned.dedup();
        self.intern(scanned)
    }

    fn intern_kernel(&mut self, kernel: Vec<Item>, accepting: bool, completed: usize) -> Config {
        let key = Hashed::new((kernel.into_boxed_slice(), accepting));
        if let Some(&config) = self.ids.get(&key) {
            return config;
        }
        let (kernel, _) = key.key();
        let mut row = self.predict(kernel, accepting);
        row.weight += completed as u32;
        let config = self.push_row(row);
        self.byte_len += kernel.len() * size_of::<Item>() + 64;
        self.ids.insert(key, config);
        config
    }

    pub(super) fn push_row(&mut self, row: Row) -> Config {
        self.byte_len += row.items.len() * size_of::<Item>() + size_of::<Row>();
        self.work += row.weight as usize;
        self.rows.push(row);
        Config(self.rows.len() as u32 - 1)
    }

    /// Creates the row of a kernel by adding the items for all called rules. `accepting` is true if
    /// the output may end at the kernel.
    pub(super) fn predict(&mut self, kernel: &[Item], mut accepting: bool) -> Row {
        let mut items = Worklist::new(kernel.iter().copied());
        // The rules called with a return to this row.
        let mut slots: Vec<Slot> = Vec::new();
        let mut slot_of: FxHashMap<RuleId, usize> = FxHashMap::default();
        let (mut next, mut weight) = (0, 0);
        while let Some(item) = items.get(next) {
            next += 1;
            if next > self.most_items {
                self.overfull = Some(("parser positions at once", next, self.most_items));
                break;
            }
            if next + weight > self.most_visits {
                self.overfull = Some((VISITS, next + weight, self.most_visits));
                break;
            }
            if Embedded::holds(item.dot) {
                continue;
            }
            let program = &*self.program;
            let state = program.state(item.dot);
            if let Some(dot) = state.embedded.and_then(|index| self.embedded.start(index)) {
                items.push(Item { dot, returns: item.returns });
            }
            // A rule that ends at once and returns to this row is nullable. Its callers move past
            // the call below.
            if state.accepting && item.returns.slot().is_none() {
                accepting |= item.returns == OUTPUT_END;
                let callers = &self.returns[item.returns.index()].callers;
                weight += callers.len();
                items.extend(callers.iter().copied());
            }
            weight += 2 * state.calls.len();
            for edge in state.calls {
                let after = Item { dot: edge.target, returns: item.returns };
                let returns = if program.state(edge.target).is_final() {
                    item.returns
                } else {
                    let slot = *slot_of.entry(edge.rule).or_insert_with(|| {
                        slots.push(Slot { rule: edge.rule, callers: Vec::new() });
                        slots.len() - 1
                    });
                    slots[slot].callers.push(after);
                    ReturnId::in_slot(slot)
                };
                items.push(Item { dot: program.start(edge.rule), returns });
                if program.nullable(edge.rule) {
                    items.push(after);
                }
            }
        }
        let mut items = items.into_items();
        let weight = (items.len() + weight) as u32;
        let resolved = self.resolve(slots);
        redirect(&mut items, &resolved);
        let closing = self.best(&items);
        items.retain(|item| Embedded::holds(item.dot) || !self.program.state(item.dot).bytes.is_empty());
        Row { items: items.into_boxed_slice(), accepting, closing, bare: false, weight }
    }

    /// Returns the length and the first byte of the shortest completion of the output from any of
    /// `items`.
    pub(super) fn best(&self, items: &[Item]) -> Shortest {
        items
            .iter()
            .map(|&item| self.to_end(item))
            .min_by_key(|closing| closing.len)
            .unwrap_or(Shortest { len: Shortest::NEVER, first: 0 })
    }

    fn inside(&self, item: Item) -> Shortest {
        if Embedded::holds(item.dot) {
            self.embedded.shortest(item.dot)
        } else {
            self.program.shortest[item.dot.index()]
        }
    }

    /// Follows a shortest completion of the output from the end of a rule whose return is
    /// `returns`. Returns the first caller on the way that adds text, or `None` if no caller adds
    /// text.
    fn nearest_caller(&self, returns: ReturnId) -> Option<Item> {
        // Rules that match the empty text may return to each other in a circle.
        let mut met = FxHashSet::default();
        let mut open = vec![returns];
        while let Some(returns) = open.pop() {
            if returns == OUTPUT_END {
                return None;
            }
            if !met.insert(returns) {
                continue;
            }
            let Return { callers, closing, .. } = &self.returns[returns.index()];
            for &caller in callers.iter().filter(|&&caller| self.to_end(caller).len == closing.len) {
                if self.inside(caller).len > 0 {
                    return Some(caller);
                }
                open.push(caller.returns);
            }
        }
        None
    }

    fn to_end(&self, item: Item) -> Shortest {
        let inside = self.inside(item);
        let after = self.returns[item.returns.index()].closing;
        let first = if inside.len > 0 { inside.first } else { after.first };
        Shortest { len: inside.len.saturating_add(after.len), first }
    }

    /// Returns the only item of the row `config` if it is inside a JSON text. Returns `None` if the
    /// row has other items, or none inside a JSON text.
    pub(super) fn lone_embedded(&self, config: Config) -> Option<Item> {
        match *self.rows[config.index()].items {
            [item] if Embedded::holds(item.dot) => Some(item),
            _ => None,
        }
    }

    /// Appends the parts of a row with any number of items. Each item that is inside a text of another
    /// machine is a part. All other items are one part together.
    fn parts_of_items(&mut self, config: Config, parts: &mut Vec<ConfigPart>) {
        let items = &self.rows[config.index()].items;
        let count = items.iter().filter(|item| Embedded::holds(item.dot)).count();
        if count == 0 || count > APART {
            return parts.push(ConfigPart::Plain(config));
        }
        let (within, others): (Vec<Item>, Vec<Item>) =
            items.iter().partition(|item| Embedded::holds(item.dot));
        if !others.is_empty() {
            let others = self.part_of_row(others);
            parts.push(ConfigPart::Plain(others));
        }
        for item in within {
            let part = self.part_of_row(vec![item]);
            self.parts(part, parts);
        }
    }

    /// Returns the row of some items of another row, without what their rules call or return to.
    fn part_of_row(&mut self, items: Vec<Item>) -> Config {
        if let Some(&known) = self.row_parts.get(&*items) {
            return known;
        }
        let items = items.into_boxed_slice();
        self.byte_len += size_of_val(&*items) + 64;
        let closing = self.best(&items);
        let row = Row { items: items.clone(), accepting: false, closing, bare: false, weight: 1 };
        let config = self.push_row(row);
        self.row_parts.insert(items, config);
        config
    }

    /// Returns the config of the row with a single item, at `dot` and with the return of `item`.
    /// Dead if `dot` is `None`.
    fn with_dot(&mut self, item: Item, dot: Option<Dot>) -> Config {
        self.intern(dot.map(|dot| Item { dot, ..item }).into_iter().collect())
    }
}

/// Moves `item` over `byte`, and appends the resulting items to `scanned`.
pub(super) fn scan(
    program: &Program,
    embedded: &mut Embedded,
    item: Item,
    byte: u8,
    scanned: &mut Vec<Item>,
) {
    if Embedded::holds(item.dot) {
        let next = embedded.step(item.dot, byte);
        scanned.extend(next.map(|dot| Item { dot, ..item }));
        return;
    }
    for edge in program.state(item.dot).bytes {
        if edge.low > byte {
            break;
        }
        if byte <= edge.high {
            scanned.push(Item { dot: edge.target, returns: item.returns });
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
        for &item in &self.rows[config.index()].items {
            scan(&self.program, &mut self.embedded, item, byte, &mut scanned);
        }
        if self.rows[config.index()].bare {
            return self.bare_row(scanned.into_iter().map(|item| item.dot).collect());
        }
        self.intern_scanned(scanned)
    }

    fn plausible(&self, config: Config) -> ByteSet {
        let mut bytes = ByteSet::default();
        for item in &self.rows[config.index()].items {
            if Embedded::holds(item.dot) {
                bytes = bytes | self.embedded.plausible(item.dot);
                continue;
            }
            for edge in self.program.state(item.dot).bytes {
                bytes.insert_range(edge.low, edge.high);
            }
        }
        bytes
    }

    fn strings(&self) -> Option<Profile> {
        let profile = |embedded: &EmbeddedProgram| match embedded {
            EmbeddedProgram::Json(schema, _) => Some(schema.profile),
            EmbeddedProgram::Text(_) => None,
        };
        let embedded = &self.program.embedded;
        // Without JSON, the tables of any profile serve to walk over the texts.
        embedded.iter().find_map(profile).or((!embedded.is_empty()).then_some(Profile::Generate))
    }

    fn parts(&mut self, config: Config, parts: &mut Vec<ConfigPart>) {
        let Some(item) = self.lone_embedded(config) else { return self.parts_of_items(config, parts) };
        if let Some(shared) = self.embedded.shared(item.dot) {
            let alone = self.intern(vec![Item { dot: shared, returns: OUTPUT_END }]);
            return parts.push(if alone == config {
                ConfigPart::Plain(config)
            } else {
                ConfigPart::Shared { config, alone }
            });
        }
        for (part, dots) in self.embedded.parts(item.dot) {
            let [first, second] = dots.map(|dot| self.with_dot(item, dot));
            parts.push(match part {
                ConfigPart::Plain(_) => ConfigPart::Plain(first),
                ConfigPart::Text(text) => ConfigPart::Text(Text { after: first, ..text }),
                ConfigPart::Special { text, .. } => {
                    ConfigPart::Special { config: first, text: Text { after: second, ..text } }
                }
                ConfigPart::Equivalent { names, within, .. } => {
                    ConfigPart::Equivalent { config: first, other: second, names, within }
                }
                ConfigPart::Shared { .. } => ConfigPart::Shared { config: first, alone: second },
            });
        }
    }

    fn resumed(&mut self, config: Config) -> Config {
        let Some(item) = self.lone_embedded(config) else { return Config::DEAD };
        let callers = self.returns[item.returns.index()].callers.to_vec();
        let (kernel, accepting, completed) = self.completed(callers);
        let accepting = accepting || item.returns == OUTPUT_END;
        if kernel.is_empty() && !accepting {
            return Config::DEAD;
        }
        self.intern_kernel(kernel, accepting, completed)
    }

    fn frames(&mut self, config: Config, frames: &mut Vec<Frame>) {
        self.frames_of(config, frames);
    }

    fn callers(&mut self, returns: &[u32], frames: &mut Vec<Frame>) -> bool {
        self.frames_of_callers(returns, frames)
    }

    fn called(&mut self, config: Config) -> Option<Config> {
        self.called_row(config)
    }

    fn equivalent_config(&mut self, config: Config) -> Option<EquivalentConfig> {
        let item = self.lone_embedded(config)?;
        let (other, bytes) = self.embedded.equivalent_config(item.dot)?;
        Some(EquivalentConfig { other: self.with_dot(item, Some(other)), bytes })
    }

    fn text_place(&self, config: Config) -> Option<TextPlace> {
        self.embedded.text_place(self.lone_embedded(config)?.dot)
    }

    fn counterpart(&mut self, config: Config) -> Option<Config> {
        if let Some(item) = self.lone_embedded(config) {
            let other = self.embedded.counterpart(item.dot)?;
            return Some(self.with_dot(item, Some(other)));
        }
        // A space leads back into a text.
        let next = self.step(config, b' ');
        let is_text = next != Config::DEAD && next != config && self.step(next, b' ') == next;
        is_text.then_some(next)
    }

    fn without_names(&mut self, config: Config) -> Config {
        let Some(item) = self.lone_embedded(config) else { return config };
        match self.embedded.without_names(item.dot) {
            Some(dot) if dot != item.dot => self.with_dot(item, Some(dot)),
            _ => config,
        }
    }

    fn add_repeating(&self, config: Config, named: &NamedTokens, tokens: &mut Vec<TokenId>) {
        for item in &self.rows[config.index()].items {
            if Embedded::holds(item.dot) {
                self.embedded.add_repeating(item.dot, named, tokens);
            } else {
                // A JSON text may begin within a token.
                tokens.extend(named.whole.all());
            }
        }
        tokens.sort_unstable();
        tokens.dedup();
    }

    fn tolerance(&mut self, config: Config) -> Option<Tolerance> {
        match self.lone_embedded(config) {
            Some(item) => self.embedded.tolerance(item.dot),
            None => self.class_run_from(config),
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
        let rows = || configs.iter().map(|config| &self.rows[config.index()]);
        let mut items: Vec<Item> = rows().flat_map(|row| row.items.iter().copied()).collect();
        let may_end = rows().any(|row| row.accepting);
        items.sort_unstable();
        items.dedup();
        let (kernel, accepting, completed) = self.completed(items);
        self.intern_kernel(kernel, accepting || may_end, completed)
    }

    fn accepting(&self, config: Config) -> bool {
        self.rows[config.index()].accepting
    }

    fn closing_len(&self, config: Config) -> u32 {
        let row = &self.rows[config.index()];
        if row.accepting { 0 } else { row.closing.len }
    }

    fn closing_byte(&self, config: Config) -> u8 {
        self.rows[config.index()].closing.first
    }

    fn closing(&mut self, config: Config) -> Vec<u8> {
        let row = &self.rows[config.index()];
        let nearest = row.items.iter().copied().min_by_key(|&item| self.to_end(item).len);
        let mut text = Vec::new();
        let mut at = nearest.filter(|_| !row.accepting);
        while let Some(item) = at {
            if Embedded::holds(item.dot) {
                text.extend(self.embedded.closing(item.dot));
            } else {
                self.program.push_shortest(item.dot, &mut text);
            }
            at = self.nearest_caller(item.returns);
        }
        text
    }

    fn weight(&self, config: Config) -> usize {
        self.rows[config.index()].weight as usize
    }

    fn work(&self) -> usize {
        self.work
    }

    fn byte_len(&self) -> usize {
        self.byte_len + self.embedded.byte_len()
    }
}
