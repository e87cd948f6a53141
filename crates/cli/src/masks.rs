//! Effect of the constraint on each token of an output, for `formwork run --show-masks`.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};
use formwork_engine::TokenMask as Seen;
use formwork_openai::{TokenMask, TokenOrigin};
use formwork_server::MaskViews;
use formwork_vocab::Vocabulary;

use crate::generation::Generator;
use crate::table;

/// Number of likeliest tokens that are shown for each token.
pub(crate) const TOP: usize = 5;
/// Removed probabilities from which a token is coloured.
const MUCH: f64 = 0.5;
const MOST: f64 = 0.9;
/// Maximum number of tokens in the table.
const ROWS: usize = 20;

/// Follows one output.
pub(crate) struct Masks<'g> {
    vocabulary: &'g Vocabulary,
    views: MaskViews,
}

impl<'g> Masks<'g> {
    pub(crate) fn new(generator: &'g Generator) -> Self {
        Self {
            vocabulary: generator.engine().tokenizer().vocabulary(),
            views: MaskViews::new(generator.places(), ""),
        }
    }

    pub(crate) fn token(&mut self, seen: Seen) {
        self.views.token(seen, self.vocabulary);
    }

    /// Returns what the constraint did to each token. `text` is the whole output.
    pub(crate) fn finish(mut self, text: &str) -> Vec<TokenMask> {
        self.views.show_content(text);
        self.views.take(self.vocabulary)
    }
}

/// Returns a table of the tokens at which the constraint removed most of the probability. With colours, the text
/// of the output and a legend come first.
pub(crate) fn report(masks: &[TokenMask], has_colours: bool) -> String {
    let mut report = String::new();
    if has_colours {
        let legend = [
            (style(false, MUCH), "at least 50% of the probability removed"),
            (style(false, MOST), "at least 90%"),
            (style(true, 0.0), "not sampled"),
        ];
        let legend = legend.map(|(style, meaning)| format!("{style}{meaning}{style:#}"));
        let _ = writeln!(report, "{}\n\n{}", coloured(masks), legend.join("   "));
    }
    let forced = masks.iter().filter(|mask| is_forced(mask)).count();
    let much: Vec<&TokenMask> = masks.iter().filter(|mask| mask.removed >= MUCH).collect();
    let _ = writeln!(
        report,
        "{} tokens, {forced} of them not sampled; at {}, the constraint removed at least 50% of the probability",
        masks.len(),
        much.len()
    );
    if !much.is_empty() {
        report.push_str(&rows(much));
    }
    report
}

/// Returns the text of the tokens in colours.
fn coloured(masks: &[TokenMask]) -> String {
    let bytes: Vec<u8> =
        masks.iter().filter(|mask| mask.end > mask.start).flat_map(|mask| &mask.bytes).copied().collect();
    let text = String::from_utf8_lossy(&bytes);
    let mut coloured = String::new();
    let mut now = Style::new();
    let mut tokens = masks.iter().peekable();
    for (at, character) in text.char_indices() {
        while tokens.next_if(|mask| mask.end <= at).is_some() {}
        let style = tokens.peek().map_or(now, |mask| style(is_forced(mask), mask.removed));
        if style != now {
            let _ = write!(coloured, "{now:#}{style}");
            now = style;
        }
        coloured.push(character);
    }
    let _ = write!(coloured, "{now:#}");
    coloured
}

const fn is_forced(mask: &TokenMask) -> bool {
    !matches!(mask.origin, TokenOrigin::Sampled | TokenOrigin::TokenLimit)
}

fn style(is_forced: bool, removed: f64) -> Style {
    let color = match removed {
        MOST.. => Some(AnsiColor::Red.into()),
        MUCH.. => Some(AnsiColor::Yellow.into()),
        _ => None,
    };
    let style = Style::new().fg_color(color);
    if is_forced { style.underline() } else { style }
}

/// Returns a table of the tokens with the largest removed probabilities, in the order of the text.
fn rows(mut masks: Vec<&TokenMask>) -> String {
    let others = masks.len().saturating_sub(ROWS);
    masks.sort_by(|a, b| b.removed.total_cmp(&a.removed));
    masks.truncate(ROWS);
    masks.sort_by_key(|mask| mask.start);
    let mut rows = vec![
        ["place", "token", "origin", "allowed", "removed", "likeliest tokens that were not allowed"]
            .map(str::to_owned),
    ];
    for mask in masks {
        let origin = match mask.origin {
            TokenOrigin::Sampled => "sampled",
            TokenOrigin::OnlyToken => "only token",
            TokenOrigin::OnlyText => "only text",
            TokenOrigin::ReasoningBudget => "reasoning budget",
            TokenOrigin::TokenLimit => "token limit",
        };
        let wanted = mask.top.iter().filter(|seen| !seen.allowed);
        let wanted = wanted.map(|seen| format!("{:?} {:.3}", seen.token, seen.probability));
        let place = match mask.path.as_deref() {
            Some("") => "(root)".to_owned(),
            Some(path) => path.to_owned(),
            None if mask.rules.is_empty() => "-".to_owned(),
            None => mask.rules.join(", "),
        };
        rows.push([
            place,
            format!("{:?}", mask.token),
            origin.to_owned(),
            mask.allowed.map_or_else(|| "all".to_owned(), |allowed| allowed.to_string()),
            format!("{:.3}", mask.removed),
            wanted.collect::<Vec<_>>().join(", "),
        ]);
    }
    let mut table = table::aligned(&rows);
    if others > 0 {
        let _ = writeln!(table, "and {others} more; --json has all tokens");
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(start: usize, text: &str, origin: TokenOrigin, removed: f64) -> TokenMask {
        let wanted = formwork_openai::MaskedToken {
            token: "no".to_owned(),
            id: 1,
            bytes: b"no".to_vec(),
            probability: removed,
            allowed: false,
        };
        TokenMask {
            token: text.to_owned(),
            id: 0,
            bytes: text.as_bytes().to_vec(),
            start,
            end: start + text.len(),
            origin,
            allowed: Some(2),
            probability: 0.01,
            removed,
            rules: Vec::new(),
            path: Some("/a".to_owned()),
            top: vec![wanted],
        }
    }

    #[test]
    fn text_has_colours_where_the_constraint_removed_much() {
        let masks = [
            mask(0, "é", TokenOrigin::Sampled, 0.0),
            mask(2, "{", TokenOrigin::OnlyToken, 0.1),
            mask(3, "x", TokenOrigin::Sampled, 0.6),
            mask(4, "y", TokenOrigin::OnlyText, 0.95),
        ];
        let plain = anstream::adapter::strip_str(&coloured(&masks)).to_string();
        assert_eq!(plain, "é{xy");
        let report = report(&masks, true);
        assert!(
            report.starts_with("é\u{1b}[4m{\u{1b}[0m\u{1b}[33mx\u{1b}[0m\u{1b}[4m\u{1b}[31my\u{1b}[0m"),
            "{report:?}"
        );
        assert!(
            report.contains("4 tokens, 2 of them not sampled; at 2, the constraint removed at least 50%")
        );
        let row = report.lines().last().expect("a row");
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(cells, ["/a", "\"y\"", "only", "text", "2", "0.950", "\"no\"", "0.950"]);
    }
}
