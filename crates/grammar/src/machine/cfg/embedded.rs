//! Texts of other machines inside a context-free grammar.
//!
//! If a rule stands for the JSON texts of a schema or for raw strings, another machine reads
//! these texts. Each config of that machine gets a [`Dot`], as if it were a state of an automaton. Rows handle such a
//! dot like any other dot: an item combines the dot with a return.

use std::cell::LazyCell;
use std::sync::Arc;

use formwork_vocab::TokenId;
use rustc_hash::{FxHashMap, FxHashSet};

use super::program::{EmbeddedProgram, Shortest};
use super::states::Dot;
use crate::ByteSet;
use crate::machine::{Config, ConfigPart, EquivalentConfig, Machine, TextPlace, Tolerance};
use crate::mask::named_tokens::NamedTokens;

/// The other machines of a grammar, and the dots that stand for their configs.
pub(super) struct Embedded {
    machines: Vec<LazyMachine>,
    /// The reader of each embedded program.
    readers: Vec<Reader>,
    /// Indices of the machines that are created.
    started: FxHashSet<usize>,
    /// `(program, config)` of each dot, starting with dot [`FIRST`]. `program` is the index of an embedded
    /// program.
    places: Vec<(u32, Config)>,
    dots: FxHashMap<(u32, Config), Dot>,
}

/// The machine that reads an embedded program.
#[derive(Clone, Copy)]
struct Reader {
    /// Index of the machine.
    machine: usize,
    /// Index of the first program that the machine reads. Equal raw strings share a machine.
    first: u32,
    /// True if the program is of raw strings.
    is_text: bool,
}

/// A machine that is created when the first text begins. A grammar may have hundreds of schemas, and most
/// outputs have texts of one or two.
type LazyMachine = LazyCell<Box<dyn Machine>, Box<dyn FnOnce() -> Box<dyn Machine> + Send>>;

/// The first dot that stands for a config of another machine. The automata of a grammar have fewer
/// states than this.
const FIRST: u32 = 1 << 31;

impl Embedded {
    pub(super) fn new(programs: &[EmbeddedProgram]) -> Self {
        let mut machines: Vec<LazyMachine> = Vec::new();
        let mut known = FxHashMap::default();
        let mut readers = Vec::with_capacity(programs.len());
        for (program, index) in programs.iter().zip(0..) {
            let mut reader = Reader { machine: machines.len(), first: index, is_text: false };
            if let EmbeddedProgram::Text(text) = program {
                reader.is_text = true;
                reader = *known.entry(Arc::as_ptr(text)).or_insert(reader);
            }
            if reader.machine == machines.len() {
                let program = program.clone();
                machines.push(LazyCell::new(Box::new(move || program.machine())));
            }
            readers.push(reader);
        }
        let started = FxHashSet::default();
        Self { machines, readers, started, places: Vec::new(), dots: FxHashMap::default() }
    }

    pub(super) const fn holds(dot: Dot) -> bool {
        dot.0 >= FIRST
    }

    /// Returns the index of the embedded program that reads the text at `dot`.
    pub(super) fn index(&self, dot: Dot) -> u32 {
        self.places[(dot.0 - FIRST) as usize].0
    }

    fn place(&self, dot: Dot) -> (&dyn Machine, Config) {
        let (program, config) = self.places[(dot.0 - FIRST) as usize];
        (&**self.machines[self.readers[program as usize].machine], config)
    }

    /// Returns the embedded program of a dot, its machine, and the machine's config.
    fn place_mut(&mut self, dot: Dot) -> (u32, &mut dyn Machine, Config) {
        let (program, config) = self.places[(dot.0 - FIRST) as usize];
        (program, &mut **self.machines[self.readers[program as usize].machine], config)
    }

    fn dot(&mut self, program: u32, config: Config) -> Option<Dot> {
        if config == Config::DEAD {
            return None;
        }
        Some(*self.dots.entry((program, config)).or_insert_with(|| {
            self.places.push((program, config));
            Dot(FIRST + self.places.len() as u32 - 1)
        }))
    }

    /// Returns the dot at the same place of a raw string that stands for all equal raw strings. `None` if
    /// `dot` is in a JSON text.
    pub(super) fn shared(&mut self, dot: Dot) -> Option<Dot> {
        let (program, config) = self.places[(dot.0 - FIRST) as usize];
        let Reader { first, is_text, .. } = self.readers[program as usize];
        if is_text { self.dot(first, config) } else { None }
    }

    /// Returns the dot at the start of the texts of an embedded program. `None` if there are no
    /// texts.
    pub(super) fn start(&mut self, index: u32) -> Option<Dot> {
        let machine = self.readers[index as usize].machine;
        self.started.insert(machine);
        let config = self.machines[machine].start();
        self.dot(index, config)
    }

    pub(super) fn step(&mut self, dot: Dot, byte: u8) -> Option<Dot> {
        let (program, machine, config) = self.place_mut(dot);
        let next = machine.step(config, byte);
        self.dot(program, next)
    }

    /// Reports whether the JSON text may end at `dot`.
    pub(super) fn ends(&self, dot: Dot) -> bool {
        let (machine, config) = self.place(dot);
        machine.accepting(config)
    }

    /// Returns the bytes that may follow within the JSON text. The set may be too large.
    pub(super) fn plausible(&self, dot: Dot) -> ByteSet {
        let (machine, config) = self.place(dot);
        machine.plausible(config)
    }

    /// Returns the length and the first byte of the shortest completion of the JSON text.
    pub(super) fn shortest(&self, dot: Dot) -> Shortest {
        let (machine, config) = self.place(dot);
        let len = machine.closing_len(config);
        Shortest { len, first: if len > 0 { machine.closing_byte(config) } else { 0 } }
    }

    pub(super) fn tolerance(&mut self, dot: Dot) -> Option<Tolerance> {
        let (_, machine, config) = self.place_mut(dot);
        machine.tolerance(config)
    }

    pub(super) fn expected(&self, dot: Dot, following: ByteSet) -> Vec<String> {
        let (machine, config) = self.place(dot);
        machine.expected(config, following)
    }

    /// Returns the parts of the dot's config. Each part comes with the dots for the configs in the
    /// part, in the order of the fields. A second dot is `None` if the part has one config.
    pub(super) fn parts(&mut self, dot: Dot) -> Vec<(ConfigPart, [Option<Dot>; 2])> {
        let (program, machine, config) = self.place_mut(dot);
        let mut parts = Vec::with_capacity(1);
        machine.parts(config, &mut parts);
        let with_dots = |part: ConfigPart| {
            let [first, second] = match part {
                ConfigPart::Plain(config) => [config, Config::DEAD],
                ConfigPart::Text(text) => [text.after, Config::DEAD],
                ConfigPart::Special { config, text } => [config, text.after],
                ConfigPart::Equivalent { config, other, .. } => [config, other],
                ConfigPart::Shared { config, alone } => [config, alone],
            };
            (part, [self.dot(program, first), self.dot(program, second)])
        };
        parts.into_iter().map(with_dots).collect()
    }

    pub(super) fn equivalent_config(&mut self, dot: Dot) -> Option<(Dot, ByteSet)> {
        let (program, machine, config) = self.place_mut(dot);
        let EquivalentConfig { other, bytes } = machine.equivalent_config(config)?;
        Some((self.dot(program, other)?, bytes))
    }

    pub(super) fn text_place(&self, dot: Dot) -> Option<TextPlace> {
        let (machine, config) = self.place(dot);
        machine.text_place(config)
    }

    pub(super) fn counterpart(&mut self, dot: Dot) -> Option<Dot> {
        let (program, machine, config) = self.place_mut(dot);
        let other = machine.counterpart(config)?;
        self.dot(program, other)
    }

    pub(super) fn without_names(&mut self, dot: Dot) -> Option<Dot> {
        let (program, machine, config) = self.place_mut(dot);
        let other = machine.without_names(config);
        self.dot(program, other)
    }

    pub(super) fn add_repeating(&self, dot: Dot, named: &NamedTokens, tokens: &mut Vec<TokenId>) {
        let (machine, config) = self.place(dot);
        machine.add_repeating(config, named, tokens);
    }

    /// Returns a shortest completion of the JSON text.
    pub(super) fn closing(&mut self, dot: Dot) -> Vec<u8> {
        let (_, machine, config) = self.place_mut(dot);
        machine.closing(config)
    }

    /// Returns the approximate memory use, in bytes.
    pub(super) fn byte_len(&self) -> usize {
        let places = 3 * self.places.len() * size_of::<(u32, Config)>();
        self.started.iter().map(|&machine| self.machines[machine].byte_len()).sum::<usize>() + places
    }
}
