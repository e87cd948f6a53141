//! Formats of tokens, whatever the texts of the tokens are.

use formwork_grammar::Part;
use serde_json::Value;

use super::super::fields::{Fields, Place, shortened};
use super::tag::Edge;
use super::text::refuse_max_tokens;
use super::{End, Formats, Scope, flag, some};
use crate::RequestError;
use crate::error::Problem;

/// A token, by its id or its text.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum NamedToken {
    Id(u32),
    /// A text in angle brackets.
    Text(String),
}

impl NamedToken {
    /// Parses the id or the text of a token.
    pub(super) fn read(at: &Place) -> Result<Self, RequestError> {
        let Value::String(text) = at.value() else { return Ok(Self::Id(at.token()?)) };
        let inner = text.strip_prefix('<').and_then(|text| text.strip_suffix('>'));
        let is_known = inner
            .is_some_and(|text| !text.is_empty() && !text.starts_with('[') && !text.contains(['>', '\n']));
        if !is_known {
            let supported = "ids, and texts in angle brackets such as <think>";
            return Err(at.error(Problem::Value { given: shortened(text), supported }));
        }
        Ok(Self::Text(text.clone()))
    }

    /// Returns the part that matches the token.
    pub(super) fn part(&self) -> Part {
        self.terminal("", "")
    }

    /// Returns the part that matches any other token, with the repetition operator `times` of GBNF.
    fn other(&self, times: &str) -> Part {
        self.terminal("!", times)
    }

    fn terminal(&self, not: &str, times: &str) -> Part {
        Part::Gbnf(match self {
            Self::Id(id) => format!("root ::= {not}<[{id}]>{times}"),
            Self::Text(text) => format!("root ::= {not}{text}{times}"),
        })
    }
}

/// Parses a format of the type `exclude_token`. `times` is a repetition operator of GBNF.
pub(super) fn other(fields: &mut Fields, scope: &Scope, times: &str) -> Result<Part, RequestError> {
    Ok(excluded(fields, scope, "exclude_tokens", Vec::new())?.other(times))
}

/// Parses a format of the type `any_tokens`.
pub(super) fn others(_: &Formats, fields: &mut Fields, scope: &Scope) -> Result<Part, RequestError> {
    refuse_max_tokens(fields)?;
    other(fields, scope, "*")
}

/// Returns the only token that is in `known`, in the field `exclude_tokens` or the end of the tag around
/// the format.
///
/// # Errors
/// Returns an error for the field `name` if there are several tokens or none. Grammars know terminals for
/// one token and for all tokens except one.
fn excluded(
    fields: &mut Fields,
    scope: &Scope,
    name: &str,
    mut known: Vec<NamedToken>,
) -> Result<NamedToken, RequestError> {
    for at in fields.read("exclude_tokens", |at| at.list("an array of tokens"))?.unwrap_or_default() {
        known.push(NamedToken::read(&at)?);
    }
    if let End::Token(end) = scope.end {
        known.push(end.clone());
    }
    known.dedup();
    match <[NamedToken; 1]>::try_from(known) {
        Ok([token]) => Ok(token),
        Err(tokens) => Err(fields.error(name, Problem::TokenCount { is_none: tokens.is_empty() })),
    }
}

impl Formats {
    /// Parses a format of the type `token_triggered_tags`.
    pub(super) fn token_triggered_tags(
        &self,
        fields: &mut Fields,
        scope: &Scope,
    ) -> Result<Part, RequestError> {
        let triggers = some(fields.required("trigger_tokens")?, "an array of tokens")?;
        let triggers = triggers.iter().map(NamedToken::read).collect::<Result<_, _>>()?;
        let trigger = excluded(fields, scope, "trigger_tokens", triggers)?;
        let mut ways = Vec::new();
        for at in some(fields.required("tags")?, "an array of tags")? {
            let tag = self.tag_at(at, &scope.inner(), false)?;
            match &tag.begin {
                (_, Edge::Token(begin)) if *begin == trigger => {}
                (at, _) => return Err(at.error(Problem::NoTrigger)),
            }
            ways.push(tag.rest());
        }
        let is_first = flag(fields, "at_least_one")?;
        let is_last = flag(fields, "stop_after_first")?;
        Ok(triggered(&trigger, ways, is_first, is_last))
    }

    /// Parses a format of the type `token_dispatch`.
    pub(super) fn token_dispatch(&self, fields: &mut Fields, scope: &Scope) -> Result<Part, RequestError> {
        let mut patterns = Vec::new();
        let mut ways = Vec::new();
        for [pattern, format] in rules(fields)? {
            patterns.push(NamedToken::read(&pattern)?);
            ways.push(self.format(format, &scope.inner())?);
        }
        // The end of a tag may stand in the text, as for `dispatch`.
        let around = Scope { end: End::None, ..scope.inner() };
        let pattern = excluded(fields, &around, "rules", patterns)?;
        let is_last = !fields.read("loop", Place::bool)?.unwrap_or(true);
        Ok(triggered(&pattern, ways, false, is_last))
    }
}

/// Parses the field `rules`: an array of pairs of a pattern and a format.
pub(super) fn rules(fields: &mut Fields) -> Result<Vec<[Place; 2]>, RequestError> {
    let rules = some(fields.required("rules")?, "an array of rules")?.into_iter();
    let rule = |at: Place| {
        let place = at.clone();
        let pair = <[Place; 2]>::try_from(at.list("an array of a pattern and a format")?);
        pair.map_err(|pair| place.error(Problem::Count { given: pair.len(), expected: 2 }))
    };
    rules.map(rule).collect()
}

/// Returns any other tokens than `trigger`, in which one of `ways` follows each `trigger`. If `is_first` is
/// true, the output begins with the trigger. If `is_last` is true, the output ends after the first way.
fn triggered(trigger: &NamedToken, ways: Vec<Part>, is_first: bool, is_last: bool) -> Part {
    let unit = Part::sequence([trigger.part(), Part::OneOf(ways)]);
    let text = trigger.other("*");
    match (is_first, is_last) {
        (true, true) => unit,
        (false, true) => Part::sequence([text, Part::repeat(unit, 0, Some(1))]),
        (_, false) => {
            let more = Part::sequence([unit, text.clone()]);
            let least = u32::from(is_first);
            let more = Part::repeat(more, least, None);
            if is_first { more } else { Part::sequence([text, more]) }
        }
    }
}
