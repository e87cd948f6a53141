//! Words that tell an example from an answer.

use std::ops::Range;

/// Part of a text, by byte offsets.
pub(crate) trait Placed {
    /// Returns the offset of the first byte.
    fn start(&self) -> usize;
    /// Returns the offset after the last byte.
    fn end(&self) -> usize;
}

impl Placed for Range<usize> {
    fn start(&self) -> usize {
        self.start
    }

    fn end(&self) -> usize {
        self.end
    }
}

/// Words for values that are not the answer, in lower case, in some widespread languages.
const EXAMPLES: [&str; 19] = [
    "example",
    "e.g.",
    "for instance",
    "such as",
    "format",
    "template",
    "sample",
    "schema",
    "placeholder",
    "draft",
    "default",
    "instead of",
    "beispiel",
    "entwurf",
    "vorlage",
    "exemple",
    "ejemplo",
    "exemplo",
    "esempio",
];
/// Words that announce the answer, in lower case.
const ANSWERS: [&str; 14] = [
    "answer",
    "antwort",
    "respuesta",
    "resposta",
    "risposta",
    "ponse",
    "final",
    "result",
    "output",
    "ergebnis",
    "response",
    "correct",
    "actual",
    "solution",
];
/// Number of the first words of [`ANSWERS`] that announce an answer without a colon: `the answer is`.
const BEFORE_IS: usize = 2;
/// Number of bytes before a value that may call it an example.
const BEFORE: usize = 80;
/// Number of bytes after a value that may call it an example.
const AFTER: usize = 40;
/// Maximum number of bytes between a word that announces the answer and its colon.
const TO_COLON: usize = 24;

/// Returns the offsets of the last word for an example and for an answer in the text that leads to a
/// span. `regions` are the values of the text in the order of their starts. A value *in* a format is
/// no example.
fn lead(body: &str, span: &Range<usize>, regions: &[impl Placed]) -> (Option<usize>, Option<usize>) {
    let before = regions.partition_point(|region| region.start() < span.start);
    let previous = before.checked_sub(1).map_or(0, |last| regions[last].end().min(span.start));
    let from = boundary(body, span.start.saturating_sub(BEFORE).max(previous));
    let lead = body[from..span.start].to_ascii_lowercase();
    let is_in = |at: usize| lead[..at].contains(" in ") || lead.starts_with("in ");
    let example =
        |word: &&str| lead.rfind(*word).filter(|&at| !(matches!(*word, "format" | "schema") && is_in(at)));
    let answer = |word: &&str| lead.rfind(*word);
    (EXAMPLES.iter().filter_map(example).max(), ANSWERS.iter().filter_map(answer).max())
}

/// Returns the last boundary of a character at or before byte `at`.
pub(crate) fn boundary(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at).rev().find(|&at| text.is_char_boundary(at)).unwrap_or_default()
}

/// Reports whether the text before a span announces an answer.
pub(crate) fn is_answer(body: &str, span: &Range<usize>, regions: &[impl Placed]) -> bool {
    let (example, answer) = lead(body, span, regions);
    answer.is_some() && answer > example
}

/// Reports whether the text around a span calls the span an example or a format.
pub(crate) fn is_example(body: &str, span: &Range<usize>, regions: &[impl Placed]) -> bool {
    let next = regions.partition_point(|region| region.start() < span.end);
    let next = regions.get(next).map_or(body.len(), Placed::start);
    let until = boundary(body, span.end.saturating_add(AFTER).min(next));
    let tail = body.get(span.end..until).unwrap_or_default().to_ascii_lowercase();
    // Text after the first sentence or line belongs to what follows.
    let tail = tail.trim_start_matches(['.', ',', ')', '`', '"', ' ']);
    let tail = &tail[..tail.find(['.', '\n', ':', ';']).unwrap_or(tail.len())];
    match lead(body, span, regions) {
        (Some(example), Some(answer)) => example > answer,
        (Some(_), None) => true,
        (None, Some(_)) => false,
        (None, None) => EXAMPLES.iter().any(|word| tail.contains(word)),
    }
}

/// Returns the text after byte `from` that begins with the announcement of an answer, such as
/// `Answer: two lamps`.
pub(crate) fn announcement(body: &str, from: usize) -> Option<&str> {
    let text = body[from..].to_ascii_lowercase();
    let announces = |(at, word): &(usize, &str)| {
        let is_word = !text[..*at].ends_with(|c: char| c.is_alphanumeric());
        let after = &text[at + word.len()..];
        let after = &after[..boundary(after, TO_COLON)];
        let colon = after.find(':').filter(|&colon| !after[..colon].contains(['.', '\n', '{', '[']));
        let is_sentence = ANSWERS[..BEFORE_IS].contains(word) && after.trim_start().starts_with("is ");
        is_word && (colon.is_some() || is_sentence)
    };
    let first = |word: &&str| text.match_indices(*word).find(announces).map(|(at, _)| at);
    let at = ANSWERS.iter().filter_map(first).min()?;
    Some(&body[from + at..])
}
