//! Random outputs of a grammar.
//!
//! A sample is a walk through the automaton, one byte at a time. The bytes that may follow are
//! grouped into choices by the config that they lead to. For example, ninety letters that continue
//! a string are one choice, and the closing quote is another. A choice is drawn first, then one of
//! its bytes. Branches, optional members, lengths and sizes of numbers then vary in every kind of
//! grammar.
//!
//! Several mechanisms bring a walk to its end:
//!
//! - Choices that lead towards the end are favoured, in some samples more than in others.
//! - A byte is taken only if the shortest completion after it still fits. Samples of recursive
//!   grammars are therefore closed in time.
//! - A sample is closed if the automaton would have to grow too large.
//! - If the output may end, ending is a choice like any other.
//!
//! The samples are varied, not uniform. They follow no promised distribution, and depend only on
//! the grammar, the bound and the seed.

use crate::machine::Config;
use crate::machine::automaton::Automaton;
use crate::{Grammar, tokens};

/// Endless iterator over random outputs of a grammar, created by [`Grammar::samples`].
///
/// ```
/// use formwork_grammar::{Grammar, Limits};
/// let grammar = Grammar::gbnf("root ::= \"(\" root* \")\"", &Limits::default())?;
/// for output in grammar.samples(7).max_bytes(100).take(20) {
///     assert!(grammar.accepts(&output) && output.len() <= 100);
/// }
/// # Ok::<(), formwork_grammar::GrammarError>(())
/// ```
pub struct Samples {
    grammar: Grammar,
    automaton: Automaton,
    random: Random,
    max_bytes: usize,
    choices: Choices,
}

/// Default limit on the bytes of a sample, in addition to twice the length of the shortest output.
const SPARE: usize = 1000;

/// Cost limit of the configs visited for one sample. A sample that reaches the limit is closed.
const COST: usize = 1 << 16;

/// Bytes of memory by which the automaton may grow for one sample. A sample that exceeds the limit
/// is closed.
///
/// A thousand bytes of a long string with a maximum length take one of the eight mebibytes. Nested
/// alternatives with a long common prefix take more with each level, until every step is slow.
const GROWTH: usize = 8 << 20;

impl Samples {
    pub(crate) fn new(grammar: &Grammar, seed: u64) -> Self {
        let automaton = grammar.automaton();
        let max_bytes = automaton.closing_len(automaton.start()) as usize * 2 + SPARE;
        Self {
            grammar: grammar.clone(),
            automaton,
            random: Random(seed),
            max_bytes,
            choices: Choices::default(),
        }
    }

    /// Sets the maximum length in bytes of the samples that follow. If no output is that short,
    /// each sample is a shortest output.
    #[must_use]
    pub const fn max_bytes(mut self, max_bytes: usize) -> Self {
        self.max_bytes = max_bytes;
        self
    }

    fn sample(&mut self) -> Vec<u8> {
        if self.automaton.byte_len() > self.grammar.limits().cache_bytes {
            self.automaton = self.grammar.automaton();
        }
        let mut at = self.automaton.start();
        let limit = self.max_bytes.max(self.automaton.closing_len(at) as usize);
        let habit = Habit::draw(&mut self.random);
        let mut on_track = false;
        let mut output = Vec::new();
        let byte_len = self.automaton.byte_len();
        let mut cost_budget = COST;
        // Each iteration adds a byte after which the shortest completion still fits, so there are
        // at most `limit` iterations.
        while self.automaton.byte_len() <= byte_len + GROWTH {
            self.choices.gather(&mut self.automaton, at, (limit - output.len(), &mut cost_budget));
            if cost_budget == 0 {
                break;
            }
            let Some(choice) = self.choices.draw(&mut self.random, habit, &mut on_track) else {
                return tokens::readable(output, self.grammar.token_terminals());
            };
            let byte = self.choices.byte_of(choice, &mut self.random);
            output.push(byte);
            at = self.automaton.step(at, byte);
        }
        output.extend(self.automaton.closing(at));
        tokens::readable(output, self.grammar.token_terminals())
    }
}

impl Iterator for Samples {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        Some(self.sample())
    }
}

/// The tendencies of one sample. They are drawn for each sample, so that some samples are short and
/// some long, some plain and some exotic.
#[derive(Clone, Copy)]
struct Habit {
    /// Weight of a choice towards the end, in halves.
    haste: u32,
    /// Weight of all non-ASCII characters together, at a place where many ASCII characters may
    /// follow.
    exotic: u32,
}

impl Habit {
    fn draw(random: &mut Random) -> Self {
        Self { haste: 1 << random.below(4), exotic: [0, 0, 1, 8][random.below(4) as usize] }
    }
}

/// The bytes that lead from one config to another, ignoring the member names seen so far.
#[derive(Clone, Copy)]
struct NextBytes {
    /// Index of the first byte in [`Choices::bytes`]. ASCII bytes come first.
    first: usize,
    ascii: usize,
    len: usize,
    /// True if these bytes shorten the shortest completion.
    closes: bool,
}

/// The possible next steps of a walk.
#[derive(Default)]
struct Choices {
    /// Sorted by the config that the byte leads to.
    bytes: Vec<(Config, u8)>,
    ways: Vec<NextBytes>,
    may_end: bool,
}

/// A choice with this many ASCII bytes is free text: numerals, brackets and escapes have fewer.
const MANY: usize = 16;

/// Weight of a choice with a single ASCII byte.
const WEIGHT: u32 = 4;

impl Choices {
    /// Collects the choices at `config` after which the output can close. The chosen byte and the
    /// completion together have at most `left` bytes.
    fn gather(
        &mut self,
        automaton: &mut Automaton,
        config: Config,
        (left, cost_budget): (usize, &mut usize),
    ) {
        self.may_end = automaton.accepting(config);
        self.bytes.clear();
        for byte in automaton.plausible_with_spellings(config).iter() {
            if *cost_budget == 0 {
                break;
            }
            let next = automaton.step(config, byte);
            if next != Config::DEAD {
                *cost_budget = cost_budget.saturating_sub(automaton.cost(next) - 1);
            }
            if next != Config::DEAD && (automaton.closing_len(next) as usize) < left {
                self.bytes.push((automaton.without_names(next), byte));
            }
        }
        self.bytes.sort_unstable();
        self.ways.clear();
        let mut first = 0;
        for group in self.bytes.chunk_by(|one, other| one.0 == other.0) {
            self.ways.push(NextBytes {
                first,
                ascii: group.iter().filter(|(_, byte)| byte.is_ascii()).count(),
                len: group.len(),
                closes: {
                    let next = automaton.step(config, group[0].1);
                    automaton.closing_len(next) < automaton.closing_len(config)
                },
            });
            first += group.len();
        }
        // The ids of configs depend on earlier samples, so the choices are sorted by byte.
        self.ways.sort_unstable_by_key(|choice| self.bytes[choice.first].1);
    }

    /// Draws a choice; `None` means to end the output.
    ///
    /// A letter that leads elsewhere than the many letters around it begins something particular.
    /// An example is a declared name, where any name may stand. By chance alone, a walk would
    /// hardly ever follow such a track to its last letter. The track is therefore usually taken,
    /// and then rarely left.
    fn draw(&self, random: &mut Random, habit: Habit, on_track: &mut bool) -> Option<NextBytes> {
        let many = self.ways.iter().any(|choice| choice.ascii >= MANY);
        let stays = random.below(16) < if *on_track { 15 } else { 12 };
        if many && stays {
            let single = |choice: &&NextBytes| choice.ascii == 1 && choice.len == 1;
            let letters: Vec<_> =
                self.ways.iter().filter(single).filter(|choice| self.is_letter(choice)).collect();
            let ends: Vec<_> = self.ways.iter().filter(single).filter(|choice| choice.closes).collect();
            let track = if letters.is_empty() && *on_track { ends } else { letters };
            *on_track = track.iter().any(|choice| self.is_letter(choice));
            if !track.is_empty() {
                return Some(*track[random.below(track.len() as u32) as usize]);
            }
        }
        *on_track = false;
        let weights: Vec<u32> = self.ways.iter().map(|choice| self.weight(choice, habit, many)).collect();
        let end = if self.may_end { WEIGHT * habit.haste / 2 } else { 0 };
        let total = weights.iter().sum::<u32>() + end;
        if total == 0 {
            // Only choices that this sample avoids are left.
            return self.ways.get(random.below(self.ways.len().max(1) as u32) as usize).copied();
        }
        let mut drawn = random.below(total);
        for (choice, weight) in self.ways.iter().zip(weights) {
            if drawn < weight {
                return Some(*choice);
            }
            drawn -= weight;
        }
        None
    }

    fn weight(&self, choice: &NextBytes, habit: Habit, many: bool) -> u32 {
        let bytes = &self.bytes[choice.first..choice.first + choice.ascii];
        let all = |of: fn(u8) -> bool| bytes.iter().all(|&(_, byte)| of(byte));
        let weight = match choice.ascii {
            0 if many => habit.exotic,
            0 => WEIGHT,
            _ if all(|byte| byte.is_ascii_whitespace() || byte == b'\\') => 1,
            ascii => WEIGHT * (1 + ascii.ilog2()),
        };
        if choice.closes { (weight * habit.haste).div_ceil(2) } else { weight }
    }

    fn is_letter(&self, choice: &NextBytes) -> bool {
        let (_, byte) = self.bytes[choice.first];
        byte.is_ascii_alphanumeric() || byte == b'_'
    }

    /// Draws one of the bytes of a choice. In a large choice, letters and digits are favoured.
    fn byte_of(&self, choice: NextBytes, random: &mut Random) -> u8 {
        let bytes = &self.bytes[choice.first..choice.first + choice.len];
        let any = |random: &mut Random| bytes[random.below(bytes.len() as u32) as usize].1;
        let byte = any(random);
        let again = choice.ascii >= MANY && !byte.is_ascii_alphanumeric() && random.below(4) > 0;
        if again { any(random) } else { byte }
    }
}

/// The `SplitMix64` generator (Steele, Lea and Flood 2014).
struct Random(u64);

impl Random {
    /// Returns a number below `bound`, which must be positive. The result is slightly biased, which
    /// does not matter for small bounds.
    const fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        (((mixed >> 32) * bound as u64) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{Limits, SchemaOptions};

    fn schema(schema: &serde_json::Value) -> Grammar {
        Grammar::json_schema(schema, &SchemaOptions::default(), &Limits::default()).unwrap()
    }

    fn texts(grammar: &Grammar, count: usize) -> Vec<String> {
        let outputs: Vec<Vec<u8>> = grammar.samples(1).take(count).collect();
        assert!(outputs.iter().all(|output| grammar.accepts(output)));
        outputs.into_iter().map(|output| String::from_utf8(output).unwrap()).collect()
    }

    #[test]
    fn equal_seeds_give_equal_samples() {
        let grammar = schema(&serde_json::json!({}));
        let take = |seed| grammar.samples(seed).take(20).collect::<Vec<_>>();
        assert_eq!(take(1), take(1));
        assert_ne!(take(1), take(2));
    }

    #[test]
    fn a_fresh_automaton_gives_the_same_samples() {
        let rules = "root ::= \"(\" root* \")\" | [a-z]+";
        let small = Limits { cache_bytes: 1, ..Limits::default() };
        let [plain, small] = [Limits::default(), small].map(|limits| Grammar::gbnf(rules, &limits).unwrap());
        assert!(plain.samples(3).take(50).eq(small.samples(3).take(50)));
    }

    #[test]
    fn members_lengths_and_characters_vary() {
        let grammar = schema(&serde_json::json!({
            "properties": {
                "name": { "type": "string" },
                "size": { "type": "integer" },
                "tags": { "type": "array", "items": { "enum": ["red", "green"] } },
            },
            "required": ["size"],
            "type": "object",
        }));
        let texts = texts(&grammar, 500);
        let count = |part: &str| texts.iter().filter(|text| text.contains(part)).count();
        for part in ["\"name\": ", "\"tags\": []", "\"tags\": [\"", "\"red\"", "\"green\"", "\", \""] {
            assert!(count(part) > 5, "{part}: {}", count(part));
        }
        assert!(texts.iter().filter(|text| text.starts_with("{\"size\"")).count() > 50);
        let values = texts.iter().map(|text| serde_json::from_str::<serde_json::Value>(text).unwrap());
        let values: Vec<_> = values.collect();
        let digits = |value: &serde_json::Value| value["size"].as_f64().unwrap().abs().to_string().len();
        assert_eq!(values.iter().map(digits).filter(|&digits| digits <= 4).collect::<BTreeSet<_>>().len(), 4);
        assert!(texts.iter().any(|text| !text.is_ascii()));
        assert!(texts.iter().filter(|text| text.is_ascii()).count() > 200);
    }

    #[test]
    fn every_choice_occurs() {
        let grammar = Grammar::choices(&["yes", "no", "maybe"], &Limits::default()).unwrap();
        assert_eq!(texts(&grammar, 50).into_iter().collect::<BTreeSet<_>>().len(), 3);
    }

    #[test]
    fn no_sample_exceeds_the_bound() {
        let endless =
            Grammar::gbnf("root ::= \"[\" (root (\",\" root)*)? \"]\"", &Limits::default()).unwrap();
        for max in [0, 1, 2, 7, 300] {
            for output in endless.samples(5).max_bytes(max).take(100) {
                assert!(output.len() <= max.max(2) && endless.accepts(&output));
            }
        }
        let long = Grammar::regex("a{500}b?", &Limits::default()).unwrap();
        assert!(long.samples(5).max_bytes(10).take(5).all(|output| output == long.shortest()));
    }
}
