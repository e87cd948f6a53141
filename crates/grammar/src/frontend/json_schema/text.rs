//! Regular languages of the strings that keywords allow.

use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::Problem;
use super::atom::{Atom, AtomId, Choice, ChoiceKind, Refusal, Scalar, Types};
use super::read::{Atoms, Keyword, Strings};
use crate::error::SchemaProblem;
use crate::ir::json::texts::Texts;
use crate::ledger::Ledger;
use crate::regular::{CharSet, ExprId, Expressions, TextDfa, TooLarge, ecma};
use crate::shared_cache::{Charged, SharedCache};

/// Maximum length of a pattern in bytes.
const PATTERN_BYTES: usize = 1 << 16;

/// The automata of patterns that are kept for later schemas, by the source and the maximum number of states.
static PATTERNS: SharedCache<(String, usize), Charged<Arc<Texts>>> = SharedCache::new(16 << 20, 1 << 20);

impl Atoms<'_> {
    /// Returns the language of the strings that the regular expression `source` matches. `pointer`
    /// is the place of the expression for error messages.
    pub(super) fn pattern(
        &mut self,
        keyword: &Keyword<'_>,
        pointer: &str,
        source: &str,
    ) -> Result<ExprId, Problem> {
        if let Some(&known) = self.patterns.get(source) {
            return Ok(known);
        }
        if source.len() > PATTERN_BYTES {
            let problem = SchemaProblem::Limit { what: "bytes", given: source.len(), limit: PATTERN_BYTES };
            return Err(Problem::new(pointer, keyword.name, problem));
        }
        let language = ecma::pattern(&mut self.expressions, source).map_err(|error| {
            let problem = SchemaProblem::Pattern { message: error.to_string() };
            Problem::new(pointer, keyword.name, problem)
        })?;
        self.patterns.insert(source.to_owned(), language);
        Ok(language)
    }

    /// Returns the language of the member names that satisfy the atom `id`, for `propertyNames`.
    pub(super) fn name_language(&mut self, id: AtomId) -> Result<ExprId, Problem> {
        if let Some(&known) = self.name_languages.get(&id) {
            return Ok(known);
        }
        self.check_grounded(id)?;
        let language = self
            .strings_of(id)?
            .map_err(|refusal| Problem::new(&refusal.pointer, &refusal.keyword, refusal.problem))?;
        self.name_languages.insert(id, language);
        Ok(language)
    }

    /// Returns the strings among the values that the atom `id` lists through `enum` or `const`.
    pub(super) fn listed_names(&mut self, id: AtomId) -> Result<Vec<String>, Problem> {
        let atom = self.get(id)?;
        let words = atom.scalars.iter().flatten().filter_map(|scalar| match scalar {
            Scalar::String(word) => Some(word.clone()),
            _ => None,
        });
        Ok(words.collect())
    }

    /// Returns the language of the strings that satisfy the atom `id`. The inner error is a keyword
    /// that cannot be enforced on strings. The atom must have passed [`Atoms::check_grounded`].
    pub(super) fn strings_of(&mut self, id: AtomId) -> Result<Result<ExprId, Refusal>, Problem> {
        let mut known = FxHashMap::default();
        let mut todo = vec![id];
        // Visit depth first without recursion: an atom is computed once all its parts are known.
        while let Some(&id) = todo.last() {
            let atom = self.get(id)?;
            let branches = atom.any.iter().flat_map(|choice| choice.branches.iter());
            let parts: Vec<_> = atom.all.iter().chain(branches).copied().collect();
            let before = todo.len();
            todo.extend(parts.into_iter().filter(|part| !known.contains_key(part)));
            if todo.len() > before {
                continue;
            }
            todo.pop();
            if let Some(refusal) = atom.refusals.iter().find(|refusal| refusal.types.has(Types::STRING)) {
                return Ok(Err(refusal.clone()));
            }
            let strings = self.own_strings(&atom, &known);
            known.insert(id, strings);
        }
        Ok(Ok(known[&id]))
    }

    /// Returns the language of the strings that satisfy `atom`. `known` has the languages of its
    /// parts.
    fn own_strings(&mut self, atom: &Atom, known: &FxHashMap<AtomId, ExprId>) -> ExprId {
        if !atom.types.has(Types::STRING) {
            return Expressions::NOTHING;
        }
        let mut all = vec![atom.text, self.length(atom.min_length, atom.max_length)];
        if let Some(scalars) = &atom.scalars {
            all.push(self.words(scalars.iter()));
        }
        let excluded = self.words(atom.excluded.iter());
        all.push(self.expressions.not(excluded));
        all.extend(atom.all.iter().map(|part| known[part]));
        for choice in &atom.any {
            all.push(self.choice(choice, known));
        }
        self.expressions.all_of(all)
    }

    /// Returns the language of the strings that satisfy `choice`. `known` has the languages of its
    /// branches.
    fn choice(&mut self, choice: &Choice, known: &FxHashMap<AtomId, ExprId>) -> ExprId {
        let branches: Vec<_> = choice.branches.iter().map(|branch| known[branch]).collect();
        if !matches!(choice.kind, ChoiceKind::One(_)) {
            return self.expressions.any_of(branches);
        }
        let only = |at: usize, expressions: &mut Expressions| {
            let others: Vec<_> =
                branches.iter().enumerate().filter(|&(other, _)| other != at).map(|(_, &b)| b).collect();
            let others = expressions.any_of(others);
            let others = expressions.not(others);
            expressions.all_of(vec![branches[at], others])
        };
        let each = (0..branches.len()).map(|at| only(at, &mut self.expressions)).collect();
        self.expressions.any_of(each)
    }

    /// Returns the language of all strings with a length in this range, in code points.
    pub(super) fn length(&mut self, min: u32, max: Option<u32>) -> ExprId {
        let any = self.expressions.class(CharSet::any());
        self.expressions.repeat(any, min, max)
    }

    /// Returns the language that consists of the strings among `values`.
    pub(super) fn words<'a>(&mut self, values: impl Iterator<Item = &'a Scalar>) -> ExprId {
        let words = values.filter_map(|value| match value {
            Scalar::String(word) => Some(self.expressions.literal(word)),
            _ => None,
        });
        let words = words.collect();
        self.expressions.any_of(words)
    }
}

impl Strings {
    /// Returns the texts of `language` that have at least `min` code points.
    pub(super) fn at_least(&mut self, language: ExprId, min: u32) -> ExprId {
        if min == 0 || (min == 1 && !self.expressions.nullable(language)) {
            return language;
        }
        let any = self.expressions.class(CharSet::any());
        let length = self.expressions.repeat(any, min, None);
        self.expressions.all_of(vec![language, length])
    }

    /// Returns the automaton of `language`, which may have at most `limit` states. The automata of
    /// formats and patterns are cached.
    pub(super) fn texts(
        &mut self,
        language: ExprId,
        limit: usize,
        ledger: &Rc<Ledger>,
    ) -> Result<Arc<Texts>, TooLarge> {
        if let Some(format) = self.formats.get(&language) {
            return format.texts(limit);
        }
        match self.patterns.get(&language) {
            Some(source) => texts_of_pattern(source, limit, ledger),
            None => Ok(Arc::new(Texts::new(TextDfa::new(&mut self.expressions, &[language], limit)?))),
        }
    }
}

/// Returns the automaton of a pattern, which may have at most `limit` states. Takes it from [`PATTERNS`] if
/// it is known.
///
/// The automaton is built from expressions of its own. What it costs does not depend on other patterns then.
fn texts_of_pattern(source: &str, limit: usize, ledger: &Rc<Ledger>) -> Result<Arc<Texts>, TooLarge> {
    let key = (source.to_owned(), limit);
    if let Some(known) = PATTERNS.get(&key) {
        return Ok(known.charge(ledger));
    }
    let built = Charged::build(ledger, || {
        let mut expressions = Expressions::with_ledger(ledger);
        // The source was read before.
        let language = ecma::pattern(&mut expressions, source).unwrap_or(Expressions::NOTHING);
        Ok(Arc::new(Texts::new(TextDfa::new(&mut expressions, &[language], limit)?)))
    })?;
    let bytes = source.len() + size_of::<Texts>() + built.value.byte_len();
    Ok(PATTERNS.insert(key, built, bytes).value)
}

/// Returns true if `text` is in `language`.
pub(super) fn matches(expressions: &mut Expressions, language: ExprId, text: &str) -> bool {
    if language == Expressions::EVERYTHING {
        return true;
    }
    let rest = text.chars().fold(language, |rest, c| expressions.derive(rest, c));
    expressions.nullable(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    #[test]
    fn a_known_pattern_costs_as_much_as_a_new_one() {
        let cost = |source: &str| {
            let ledger = Ledger::new(&Limits::default());
            let texts = texts_of_pattern(source, 1 << 10, &ledger).expect("a small automaton");
            (texts, ledger.worked(), ledger.held())
        };
        let (new, work, bytes) = cost("^(known|new){1,40}$");
        assert!(work > 0 && bytes > 0);
        // A similar pattern, whose expressions are partly the same.
        cost("^(known|new){1,39}$");
        let (known, known_work, known_bytes) = cost("^(known|new){1,40}$");
        assert!(Arc::ptr_eq(&new, &known));
        assert_eq!((known_work, known_bytes), (work, bytes));
        let ledger = Ledger::new(&Limits::default());
        assert!(texts_of_pattern("^(known|new){1,40}$", 4, &ledger).is_err(), "the limit is part of the key");
    }
}
