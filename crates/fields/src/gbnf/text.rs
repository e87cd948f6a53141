//! Rules of strings. Length counts characters, and an escape sequence counts as one character.

use super::{CHARACTER, Way, Writer};
use crate::Characters;
use crate::field::{Scalar, Template, Text};
use crate::gbnf::expr::Expr;

/// Characters that are written as escapes, with the letter after the backslash.
const ESCAPES: [(char, char); 4] = [('\t', 't'), ('\n', 'n'), ('"', '"'), ('\\', '\\')];

impl<'d> Writer<'d> {
    pub(super) fn string(&mut self, text: &Text, way: &mut Way<'d>) -> Expr {
        let characters = self.characters(text, way);
        Expr::sequence([Expr::text("\""), characters, Expr::text("\"")])
    }

    pub(super) fn template(&mut self, template: &Template, way: &mut Way<'d>) -> Expr {
        let place = self.characters(&template.text, way);
        let mut parts = vec![Expr::text("\"")];
        for (index, literal) in template.literals().into_iter().enumerate() {
            parts.extend((index > 0).then(|| place.clone()));
            let text = Scalar::from(literal).text();
            parts.push(Expr::text(&text[1..text.len() - 1]));
        }
        parts.push(Expr::text("\""));
        // Drop the empty literal between adjacent places.
        Expr::sequence(parts.into_iter().filter(|part| *part != Expr::text("")))
    }

    fn characters(&mut self, text: &Text, way: &mut Way<'d>) -> Expr {
        if text.max_length == Some(0) {
            return Expr::Sequence(Vec::new());
        }
        let set = self.set(text.characters.as_ref(), way);
        self.repeat(set, text.min_length, text.max_length, way)
    }

    /// Returns an expression for one character of a set: a class, or a rule if the set contains
    /// characters that need escapes.
    fn set(&mut self, characters: Option<&Characters>, way: &mut Way<'d>) -> Expr {
        let all = Characters::default();
        let set = characters.unwrap_or(&all);
        let escaped: Vec<(char, char)> = ESCAPES
            .into_iter()
            .filter(|&(c, _)| set.contains(c))
            .map(|(_, letter)| (letter, letter))
            .collect();
        let plain = set.without(&ESCAPES.map(|(c, _)| (c, c)));
        if escaped.is_empty() {
            return Expr::Class(plain);
        }
        let key = set.to_string();
        if let Some((_, rule)) = self.sets.iter().find(|(known, _)| *known == key) {
            return rule.clone();
        }
        let mut ways = Vec::new();
        if !plain.ranges().is_empty() {
            ways.push(Expr::Class(plain));
        }
        ways.push(Expr::sequence([Expr::text("\\"), letters(escaped)]));
        let expr = Expr::alternatives(ways);
        let rule = if *set == all {
            self.push(CHARACTER.to_owned(), &expr);
            Expr::Rule(CHARACTER.to_owned())
        } else {
            way.push(CHARACTER);
            let rule = self.rule(way, &expr);
            way.pop();
            rule
        };
        self.sets.push((key, rule.clone()));
        rule
    }
}

/// Returns an expression for any one of the letters.
fn letters(mut letters: Vec<(char, char)>) -> Expr {
    letters.sort_unstable();
    match letters.as_slice() {
        [(only, _)] => Expr::text(*only),
        _ => Expr::Class(Characters::of(letters)),
    }
}
