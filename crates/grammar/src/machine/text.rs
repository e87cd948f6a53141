//! The machine for the texts of an automaton.

use std::sync::Arc;

use formwork_vocab::TokenId;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::probe::WIDE;
use super::region::{CharGraph, LONG, any_text};
use super::{Config, Machine, TextPlace, Tolerance};
use crate::ByteSet;
use crate::ir::text::{NONE, TextProgram};
use crate::mask::named_tokens::NamedTokens;

/// A machine that reads one text of a [`TextProgram`].
pub(crate) struct TextMachine {
    program: Arc<TextProgram>,
    places: Vec<Place>,
    ids: FxHashMap<Place, Config>,
}

/// A place in a text, possibly inside of a character.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Place {
    state: u32,
    /// Number of characters so far.
    length: u32,
    /// The bits of a character's bytes so far. Zero between two characters.
    bits: u32,
    /// Number of bytes of the character that are still to come.
    left: u8,
    /// Number of bytes of the character. Zero between two characters.
    bytes: u8,
}

impl TextMachine {
    pub(crate) fn new(program: Arc<TextProgram>) -> Self {
        Self { program, places: Vec::new(), ids: FxHashMap::default() }
    }

    fn intern(&mut self, place: Place) -> Config {
        *self.ids.entry(place).or_insert_with(|| {
            self.places.push(place);
            Config(self.places.len() as u32 - 1)
        })
    }

    fn place(&self, config: Config) -> Place {
        self.places[config.index()]
    }

    /// Returns the tolerance of the run of a class that begins at a place: all characters of the class lead
    /// from each state of the run to the same next state, where the text cannot end. `None` if there is none.
    fn run_from(&self, mut state: u32, mut length: u32) -> Option<Tolerance> {
        let (mut class, mut exits, mut chars) = (ByteSet::ALL, ByteSet::default(), 0);
        while chars < LONG {
            let Some(next) = self.program.next_length(length) else { break };
            let Some((target, run)) = self.run(state, length, class) else { break };
            let next = self.program.settled_length(target, next);
            if self.program.state(target).ends {
                break;
            }
            exits = exits | first_bytes_at(&self.program, state, length);
            class = run;
            if (target, next) == (state, length) {
                chars = u32::MAX;
                break;
            }
            (state, length, chars) = (target, next, chars + 1);
        }
        let beyond = match chars {
            u32::MAX => ByteSet::default(),
            _ => first_bytes_at(&self.program, state, length),
        };
        (chars > 0).then(|| Tolerance {
            class,
            chars,
            exits: (exits | beyond) & !class,
            ends: chars < LONG && (beyond & class).is_empty(),
            accepting: Some(false),
        })
    }

    /// Returns the next state to which most characters of `class` lead, and these characters. The class has
    /// the encoding of [`Tolerance::class`]. `None` if there are at most
    /// [`WIDE`](crate::machine::probe::WIDE) of them.
    fn run(&self, state: u32, length: u32, class: ByteSet) -> Option<(u32, ByteSet)> {
        /// Maximum number of next states that are considered. A state with more has no wide run.
        const TARGETS: usize = 16;
        let edges = &self.program.state(state).edges;
        let mut targets: SmallVec<[(u32, ByteSet, u32); 4]> = SmallVec::new();
        for edge in edges.iter().filter(|edge| self.program.closing_over(edge, length) != NONE) {
            let &(target, (low, high)) = edge;
            let at = targets.iter().position(|(other, ..)| *other == target).unwrap_or(targets.len());
            if at == TARGETS {
                continue;
            }
            if at == targets.len() {
                targets.push((target, ByteSet::default(), 0));
            }
            let (_, bytes, wide) = &mut targets[at];
            if low < 0x80 {
                bytes.insert_range(low as u8, high.min(0x7f) as u8);
            }
            *wide += (high + 1).saturating_sub(low.max(0x80));
        }
        let parts = targets.into_iter().map(|(target, mut bytes, wide)| {
            if wide >= BEYOND_ASCII {
                bytes.insert_range(0x80, u8::MAX);
            }
            (target, bytes & class)
        });
        parts.max_by_key(|(_, bytes)| bytes.len()).filter(|(_, bytes)| bytes.len() > WIDE)
    }

    /// Returns the place after the code point `c`.
    fn after(&self, place: Place, c: u32) -> Option<Place> {
        let (state, length) = self.program.step(place.state, place.length, char::from_u32(c)?)?;
        Some(self.between(state, length))
    }

    /// Returns the place between two characters in `state` after `length` characters.
    fn between(&self, state: u32, length: u32) -> Place {
        let length = self.program.settled_length(state, length);
        Place { state, length, bits: 0, left: 0, bytes: 0 }
    }
}

impl Place {
    /// Returns the place after `byte` if the character is not complete then. `None` if no character has
    /// such bytes.
    fn within(self, byte: u8) -> Option<Self> {
        if self.left > 0 {
            let is_more = byte & 0xc0 == 0x80;
            return is_more.then_some(Self {
                bits: self.bits << 6 | u32::from(byte & 0x3f),
                left: self.left - 1,
                ..self
            });
        }
        let (bits, left) = match byte {
            0xc2..=0xdf => (byte & 0x1f, 1),
            0xe0..=0xef => (byte & 0x0f, 2),
            0xf0..=0xf4 => (byte & 0x07, 3),
            _ => return None,
        };
        Some(Self { bits: bits.into(), left, bytes: left + 1, ..self })
    }

    /// Returns the range of the code points that begin with the bytes so far.
    const fn range(self) -> (u32, u32) {
        let shift = 6 * self.left as u32;
        let (low, high) = (self.bits << shift, (self.bits << shift) + ((1 << shift) - 1));
        // Longer spellings of a code point are not UTF-8.
        let least = match self.bytes {
            0 => 0,
            2 => 0x80,
            3 => 0x800,
            _ => 0x1_0000,
        };
        (if low > least { low } else { least }, high)
    }
}

/// A program at a length from which on the length does not matter.
struct Endless<'a> {
    program: &'a TextProgram,
    length: u32,
}

impl CharGraph for Endless<'_> {
    fn plain(&self) -> ByteSet {
        ByteSet::below(0x80)
    }

    fn transitions(&self, state: u32) -> impl Iterator<Item = ((u32, u32), u32)> {
        self.program.state(state).edges.iter().map(|&(target, range)| (range, target))
    }

    /// A state where the text may end is not part of a region.
    fn is_live(&self, state: u32) -> bool {
        self.program.closing(state, self.length) != NONE && !self.program.state(state).ends
    }

    fn fewest(&self, _: u32) -> Option<u32> {
        None
    }

    fn add_first_bytes(&self, state: u32, bytes: &mut ByteSet) {
        *bytes = *bytes | first_bytes_at(self.program, state, self.length);
    }
}

impl Machine for TextMachine {
    fn start(&mut self) -> Config {
        let place = self.between(self.program.start, 0);
        self.intern(place)
    }

    fn step(&mut self, config: Config, byte: u8) -> Config {
        let place = self.place(config);
        let next = if place.left == 0 && byte.is_ascii() {
            self.after(place, byte.into())
        } else {
            // Inside of a character, states with the same wide characters are one.
            let state = self.program.beyond_ascii(place.state);
            Place { state, ..place }.within(byte).and_then(|within| match within.left {
                0 if within.range().0 == within.bits => self.after(place, within.bits),
                0 => None,
                _ => self.program.nearest(within.state, within.length, within.range()).map(|_| within),
            })
        };
        next.map_or(Config::DEAD, |next| self.intern(next))
    }

    fn accepting(&self, config: Config) -> bool {
        let place = self.place(config);
        place.left == 0 && self.program.ends(place.state, place.length)
    }

    fn closing_len(&self, config: Config) -> u32 {
        let place = self.place(config);
        if place.left == 0 {
            return self.program.closing(place.state, place.length);
        }
        let nearest = self.program.nearest(place.state, place.length, place.range());
        nearest.map_or(NONE, |(_, rest)| rest + u32::from(place.left))
    }

    fn closing_byte(&self, config: Config) -> u8 {
        let place = self.place(config);
        let within = if place.left == 0 { (0, u32::MAX) } else { place.range() };
        let Some((first, _)) = self.program.nearest(place.state, place.length, within) else { return 0 };
        let mut buffer = [0; 4];
        let bytes = first.encode_utf8(&mut buffer).as_bytes();
        bytes[usize::from(place.bytes - place.left)]
    }

    fn closing(&mut self, config: Config) -> Vec<u8> {
        let place = self.place(config);
        if place.left == 0 {
            return self.program.rest(place.state, place.length);
        }
        let mut text = Vec::new();
        let nearest = self.program.nearest(place.state, place.length, place.range());
        if let Some((first, _)) = nearest
            && let Some((state, length)) = self.program.step(place.state, place.length, first)
        {
            let mut buffer = [0; 4];
            let bytes = first.encode_utf8(&mut buffer).as_bytes();
            text.extend(&bytes[usize::from(place.bytes - place.left)..]);
            text.extend(self.program.rest(state, length));
        }
        text
    }

    fn plausible(&self, config: Config) -> ByteSet {
        let place = self.place(config);
        if place.left > 0 {
            let mut bytes = ByteSet::default();
            bytes.insert_range(0x80, 0xbf);
            return bytes;
        }
        first_bytes_at(&self.program, place.state, place.length)
    }

    fn tolerance(&mut self, config: Config) -> Option<Tolerance> {
        let Place { state, length, left, .. } = self.place(config);
        // Where the text may end within a token, the walk must see each place.
        if left > 0 || self.program.state(state).ends {
            return None;
        }
        let run = self.run_from(state, length);
        // The run of a string without a pattern has no end. Its state is the only one to consider.
        let is_simple = run.is_some_and(|run| run.chars == u32::MAX);
        if is_simple || self.program.next_length(length) != Some(length) {
            return run;
        }
        let tolerance = any_text(&Endless { program: &self.program, length }, state, u32::MAX);
        tolerance.filter(|tolerance| tolerance.class.len() > WIDE)
    }

    fn add_repeating(&self, _config: Config, named: &NamedTokens, tokens: &mut Vec<TokenId>) {
        // A JSON text may begin within a token.
        tokens.extend(named.whole.all());
    }

    fn text_place(&self, config: Config) -> Option<TextPlace> {
        let Place { state, length, left, .. } = self.place(config);
        (left == 0).then(|| TextPlace { program: Arc::clone(&self.program), state, length })
    }

    fn counterpart(&mut self, config: Config) -> Option<Config> {
        let place = self.place(config);
        let next =
            self.after(place, ' '.into()).filter(|next| place.left == 0 && next.state != place.state)?;
        let returns = self.program.step(next.state, place.length, ' ')?.0 == next.state;
        returns.then(|| self.intern(self.between(next.state, place.length)))
    }

    fn tells_tolerance(&self, _config: Config) -> bool {
        true
    }

    fn byte_len(&self) -> usize {
        self.places.len() * 4 * size_of::<Place>()
    }
}

/// Returns the first bytes of the characters that may come next.
fn first_bytes_at(program: &TextProgram, state: u32, length: u32) -> ByteSet {
    let edges = program.state(state).edges.iter();
    let possible = edges.filter(|edge| program.closing_over(edge, length) != NONE);
    possible.fold(ByteSet::default(), |bytes, edge| bytes | first_bytes(edge.1))
}

/// Returns the first bytes of the code points in a range.
fn first_bytes((low, high): (u32, u32)) -> ByteSet {
    let mut bytes = ByteSet::default();
    if low < 0x80 {
        bytes.insert_range(low as u8, high.min(0x7f) as u8);
    }
    if high >= 0x80 {
        bytes.insert_range(lead(low.max(0x80)), lead(high));
    }
    bytes
}

/// Number of characters beyond ASCII.
const BEYOND_ASCII: u32 = 0x11_0000 - 0x80 - 0x800;

/// Returns the first byte of the code point `c` in UTF-8, which is not ASCII.
const fn lead(c: u32) -> u8 {
    match c {
        0..0x800 => 0xc0 | (c >> 6) as u8,
        0x800..0x1_0000 => 0xe0 | (c >> 12) as u8,
        _ => 0xf0 | (c >> 18) as u8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;
    use crate::ir::text::TextState;
    use crate::ledger::Ledger;

    /// Bytes that occur in the texts of the tests, and bytes that do not.
    const BYTES: [u8; 12] = [b'a', b'<', b'x', 0xc3, 0xa9, 0xe2, 0x82, 0xac, 0xed, 0xa0, 0xf0, 0x80];

    /// Texts of `a`, `é`, `€` and `<` in which no `<` follows a `<`, and after which an `x` follows.
    fn states() -> Vec<TextState> {
        let of = |c: char| (c.into(), c.into());
        let text = |others: &[(u32, (u32, u32))]| {
            let edges =
                [(0, of('a')), (0, of('é')), (0, (0x20a0, 0xd7ff)), (0, (0xe000, 0xffff)), (2, of('x'))];
            TextState { edges: edges.into_iter().chain(others.iter().copied()).collect(), ends: false }
        };
        vec![text(&[(1, of('<'))]), text(&[]), TextState { edges: Vec::new(), ends: true }]
    }

    fn is_text(bytes: &[u8], (min, max): (u32, Option<u32>)) -> bool {
        let Ok(text) = std::str::from_utf8(bytes) else { return false };
        let length = text.chars().count() as u32;
        let Some(text) = text.strip_suffix('x') else { return false };
        length >= min
            && max.is_none_or(|max| length <= max)
            && !text.contains("<<")
            && text.chars().all(|c| matches!(c, 'a' | 'é' | '<' | '\u{20a0}'..='\u{ffff}'))
    }

    /// Walks all texts of `BYTES` up to a length, and checks the machine against `is_text`.
    fn walk(machine: &mut TextMachine, config: Config, text: &mut Vec<u8>, bounds: (u32, Option<u32>)) {
        assert_eq!(machine.accepting(config), is_text(text, bounds), "{text:x?}");
        let closing = machine.closing(config);
        assert_eq!(closing.len() as u32, machine.closing_len(config), "{text:x?}");
        assert!(is_text(&[text.as_slice(), &closing].concat(), bounds), "{text:x?} and {closing:x?}");
        assert!(closing.is_empty() || closing[0] == machine.closing_byte(config), "{text:x?}");
        if text.len() == 5 {
            return;
        }
        for byte in BYTES {
            let next = machine.step(config, byte);
            text.push(byte);
            if next == Config::DEAD {
                // Nothing of the right length and within the bytes of the test follows.
                assert!(!extends(text, 3, bounds), "{text:x?}");
            } else {
                assert!(machine.plausible(config).contains(byte), "{text:x?}");
                walk(machine, next, text, bounds);
            }
            text.pop();
        }
    }

    fn extends(text: &mut Vec<u8>, more: usize, bounds: (u32, Option<u32>)) -> bool {
        is_text(text, bounds)
            || more > 0
                && BYTES.into_iter().any(|byte| {
                    text.push(byte);
                    let found = extends(text, more - 1, bounds);
                    text.pop();
                    found
                })
    }

    #[test]
    fn reads_exactly_the_texts_of_the_right_length() {
        let limits = Limits::default();
        for bounds in [(0, None), (0, Some(1)), (2, Some(3)), (3, None), (0, Some(4)), (4, Some(4))] {
            let ledger = Ledger::new(&limits);
            let program = TextProgram::new(states(), 0, bounds, &ledger).expect("small").expect("a text");
            assert!(is_text(&program.shortest(), bounds));
            let mut machine = TextMachine::new(Arc::new(program));
            let start = machine.start();
            walk(&mut machine, start, &mut Vec::new(), bounds);
        }
        let ledger = Ledger::new(&limits);
        let none = TextProgram::new(states(), 0, (0, Some(0)), &ledger).expect("small");
        assert!(none.is_none());
        assert!(TextProgram::new(states(), 0, (0, Some(1 << 30)), &ledger).is_err());
    }

    #[test]
    fn merges_places_past_the_minimum_length() {
        for (min, distinct) in [(0, 1), (1, 1), (4, 4)] {
            let ledger = Ledger::new(&Limits::default());
            let program =
                TextProgram::new(states(), 0, (min, None), &ledger).expect("small").expect("a text");
            let mut machine = TextMachine::new(Arc::new(program));
            let mut places = vec![machine.start()];
            for at in 0..8 {
                places.push(machine.step(places[at], b'a'));
            }
            places.dedup();
            assert_eq!(places.len(), distinct, "{min}");
        }
    }

    /// An edge that leads to a text too short now is possible after more characters.
    #[test]
    fn tells_the_exits_after_further_characters() {
        let states = vec![
            TextState {
                edges: vec![(0, (0, 0x3b)), (1, ('<'.into(), '<'.into())), (0, (0x3d, 0x10_ffff))],
                ends: false,
            },
            TextState { edges: Vec::new(), ends: true },
        ];
        let ledger = Ledger::new(&Limits::default());
        let program = TextProgram::new(states, 0, (4, None), &ledger).expect("small").expect("a text");
        let mut machine = TextMachine::new(Arc::new(program));
        let start = machine.start();
        assert_eq!(machine.step(start, b'<'), Config::DEAD);
        assert!(machine.tolerance(start).expect("most characters").exits.contains(b'<'));
    }

    #[test]
    fn tells_the_characters_that_keep_a_state() {
        let limits = Limits::default();
        let any = |c: char| (c.into(), c.into());
        let states = vec![
            TextState { edges: vec![(0, (0, 0x3b)), (1, any('<')), (0, (0x3d, 0x10_ffff))], ends: false },
            TextState { edges: vec![(2, any('/')), (0, (0, 0x2e)), (0, (0x30, 0x10_ffff))], ends: false },
            TextState { edges: Vec::new(), ends: true },
        ];
        let ledger = Ledger::new(&limits);
        for (max, chars, ends) in [(Some(7), 5, true), (Some(100), LONG, false), (None, u32::MAX, false)] {
            let program =
                TextProgram::new(states.clone(), 0, (0, max), &ledger).expect("small").expect("a text");
            let mut machine = TextMachine::new(Arc::new(program));
            let start = machine.start();
            let tolerance = machine.tolerance(start).expect("most characters");
            assert_eq!((tolerance.chars, tolerance.ends), (chars, ends));
            assert!(tolerance.class.contains(b'a') && tolerance.class.contains(0xff));
            assert!(!tolerance.class.contains(b'<') && tolerance.exits.contains(b'<'));
        }
    }
}
