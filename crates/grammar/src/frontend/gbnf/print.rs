//! Prints rules as GBNF text that llama.cpp can read.

use std::borrow::Cow;
use std::fmt::Write;

use rustc_hash::FxHashSet;

use super::counts::bounded;
use super::spelling;
use super::terminals::JSON;
use crate::GrammarError;
use crate::ir::expr::{EmbeddedSchema, Expr, RuleId, Rules, complement};
use crate::tokens::{TokenTerminal, spelt};

/// Maximum length of a line, in bytes. A longer rule has one line for each of its alternatives.
const LINE: usize = 100;

/// Maximum size of the GBNF text in bytes.
const BYTES: usize = 16 << 20;

/// Prints `rules` as GBNF: the root rule first, and then the others in order. An embedded schema is
/// printed as `%json` and its source, wherever its rule is used.
///
/// # Errors
/// Returns an error if the text exceeds 16 MiB or if the rules match bytes that are not UTF-8.
pub(crate) fn print(rules: &Rules) -> Result<String, GrammarError> {
    let rules = &*bounded(rules);
    let printer = Printer { rules, names: &names(rules) };
    let mut text = String::new();
    let others = (0..rules.exprs.len() as u32).map(RuleId);
    let others = others.filter(|rule| *rule != rules.root && !rules.is_placeholder(*rule));
    for rule in [rules.root].into_iter().chain(others) {
        let expr = &rules.exprs[rule.index()];
        let name = &printer.names[rule.index()];
        let parts = match expr {
            Expr::Alternatives(parts) if !parts.is_empty() => parts.as_slice(),
            other => std::slice::from_ref(other),
        };
        let mut written = Vec::with_capacity(parts.len());
        let mut bytes = text.len();
        for part in parts {
            let mut text = String::new();
            printer.expr(part, Place::Alternative, &mut text)?;
            bytes += text.len();
            written.push(text);
            check(bytes)?;
        }
        let length = written.iter().map(|part| part.len() + 3).sum::<usize>() + name.len();
        let bar = if length > LINE { " |\n  " } else { " | " };
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "{name} ::= {}", written.join(bar));
    }
    Ok(text)
}

fn check(bytes: usize) -> Result<(), GrammarError> {
    if bytes > BYTES { Err(GrammarError::limit("bytes of GBNF", bytes, BYTES)) } else { Ok(()) }
}

/// Name of the rule that an output must match.
const ROOT: &str = "root";

/// A class that contains no character.
const NOTHING: &str = "[^\\x00-\\U0010FFFF]";

/// Position of an expression within its parent, from the loosest binding to the tightest. The
/// position decides whether the expression needs parentheses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Alternative,
    Sequence,
    Repeat,
}

/// Returns the names of rules in the text. The root rule is called `root`, and another rule of that name
/// gets a number. The rules of GBNF and of other front ends keep their names.
fn names(rules: &Rules) -> Cow<'_, [String]> {
    let root = rules.root.index();
    if rules.names[root] == ROOT {
        return Cow::Borrowed(&rules.names);
    }
    let mut names = rules.names.clone();
    ROOT.clone_into(&mut names[root]);
    // llama.cpp accepts no `_` in names, which Lark grammars usually contain.
    let mut used: FxHashSet<String> = FxHashSet::from_iter([ROOT.to_owned()]);
    for (_, name) in names.iter_mut().enumerate().filter(|(at, name)| *at != root && !name.is_empty()) {
        let base = name.trim_matches('_').replace('_', "-");
        let numbered = (2..).map(|number| format!("{base}-{number}"));
        let mut free = std::iter::once(base.clone()).chain(numbered);
        *name = free.find(|name| !used.contains(name)).unwrap_or_default();
        used.insert(name.clone());
    }
    Cow::Owned(names)
}

struct Printer<'r> {
    rules: &'r Rules,
    /// Name of each rule.
    names: &'r [String],
}

impl Printer<'_> {
    fn expr(&self, expr: &Expr, place: Place, text: &mut String) -> Result<(), GrammarError> {
        check(text.len())?;
        let group = match expr {
            Expr::Alternatives(parts) => parts.len() != 1,
            Expr::Sequence(parts) => parts.len() > 1 && place > Place::Sequence,
            // A repetition of a repetition needs parentheses.
            Expr::Repeat { .. } => place == Place::Repeat,
            _ => false,
        };
        if group {
            text.push('(');
        }
        match expr {
            Expr::Literal(bytes) => match self.token(bytes) {
                Some(token) => text.push_str(&token.to_string()),
                None => literal(bytes, text)?,
            },
            Expr::Class(ranges) => class(ranges, text),
            Expr::Bytes(ranges) => ascii_class(ranges, text)?,
            Expr::Rule(rule) => match self.rules.schemas.get(rule) {
                Some(EmbeddedSchema { source: Some(source), .. }) => {
                    let _ = write!(text, "{JSON} {source}");
                }
                Some(_) => return Err(GrammarError::not_gbnf("it has values of a part of a schema")),
                None if self.rules.is_placeholder(*rule) => {
                    return Err(GrammarError::not_gbnf("it has raw strings"));
                }
                None => text.push_str(&self.names[rule.index()]),
            },
            Expr::Sequence(parts) if parts.is_empty() => text.push_str("\"\""),
            Expr::Sequence(parts) => {
                let place = if parts.len() > 1 { Place::Sequence } else { place };
                self.list(parts, " ", place, text)?;
            }
            // An empty list of alternatives matches nothing, and so does a class without characters.
            Expr::Alternatives(parts) if parts.is_empty() => text.push_str(NOTHING),
            Expr::Alternatives(parts) => self.list(parts, " | ", Place::Alternative, text)?,
            Expr::Repeat { expr, min, max } => self.repeat(expr, *min, *max, text)?,
        }
        if group {
            text.push(')');
        }
        Ok(())
    }

    /// Returns the token terminal whose spelling is `bytes`, or `None` if `bytes` is ordinary text.
    fn token(&self, bytes: &[u8]) -> Option<&TokenTerminal> {
        self.rules.tokens.get(spelt(bytes.try_into().ok()?)?)
    }

    fn list(
        &self,
        parts: &[Expr],
        between: &str,
        place: Place,
        text: &mut String,
    ) -> Result<(), GrammarError> {
        for (at, part) in parts.iter().enumerate() {
            text.push_str(if at > 0 { between } else { "" });
            self.expr(part, place, text)?;
        }
        Ok(())
    }

    fn repeat(&self, expr: &Expr, min: u32, max: Option<u32>, text: &mut String) -> Result<(), GrammarError> {
        let mut item = String::new();
        self.expr(expr, Place::Repeat, &mut item)?;
        text.push_str(&item);
        spelling::counts(min as usize, max.map(|max| max as usize), text);
        Ok(())
    }
}

fn literal(bytes: &[u8], text: &mut String) -> Result<(), GrammarError> {
    let chars = std::str::from_utf8(bytes).map_err(|_| not_characters())?;
    spelling::literal(chars, text);
    Ok(())
}

fn class(ranges: &[(char, char)], text: &mut String) {
    if ranges == [('\0', char::MAX)] {
        text.push('.');
        return;
    }
    if ranges.is_empty() {
        text.push_str(NOTHING);
        return;
    }
    // A class that reaches the last character is often shorter as a negation.
    let outside = complement(ranges);
    let negated = !outside.is_empty()
        && outside.len() < ranges.len() + 1
        && ranges.last().is_some_and(|last| last.1 == char::MAX);
    text.push_str(if negated { "[^" } else { "[" });
    for &(low, high) in if negated { &outside } else { ranges } {
        spelling::class_character(low, text);
        if low < high {
            text.push_str(if u32::from(high) - u32::from(low) > 1 { "-" } else { "" });
            spelling::class_character(high, text);
        }
    }
    text.push(']');
}

/// Prints a class of bytes. All bytes must be ASCII.
fn ascii_class(ranges: &[(u8, u8)], text: &mut String) -> Result<(), GrammarError> {
    if ranges.iter().any(|&(_, high)| !high.is_ascii()) {
        return Err(not_characters());
    }
    class(&ranges.iter().map(|&(low, high)| (low.into(), high.into())).collect::<Vec<_>>(), text);
    Ok(())
}

fn not_characters() -> GrammarError {
    GrammarError::not_gbnf("it matches bytes that are not valid UTF-8")
}
