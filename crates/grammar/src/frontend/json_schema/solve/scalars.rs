//! The numbers and strings of a node.

use super::{LANGUAGE_STATES, Solver};
use crate::error::{GrammarError, SchemaProblem};
use crate::frontend::json_schema::Problem;
use crate::frontend::json_schema::build::DraftNode;
use crate::frontend::json_schema::conjoin::StringSet;
use crate::frontend::json_schema::read::Strings;
use crate::ir::json::cost::Cost;
use crate::ir::json::number::{NumberDfa, NumberError};
use crate::ir::json::program::{FREE, LanguageRule, Node, TextRule};
use crate::ir::json::trie::Trie;
use crate::regular::{ExprId, Expressions};

impl Solver<'_> {
    /// Adds the node of `draft` to the program, without its arrays and objects.
    pub(super) fn add_scalars(
        &mut self,
        draft: &DraftNode,
        strings: &mut Strings,
    ) -> Result<(), GrammarError> {
        let mut node = Node { null: draft.null, bools: draft.bools, ..Node::default() };
        let scalars = [(draft.null, 4, b'n'), (draft.bools[0], 5, b'f'), (draft.bools[1], 4, b't')];
        for (_, bytes, first) in scalars.iter().filter(|(present, ..)| *present) {
            node.cost.or(&Cost::new(*bytes, *first));
        }
        node.number = self.number(draft)?;
        if let Some(number) = node.number {
            let (bytes, first) = self.program.numbers[number as usize].closing(0);
            node.cost.or(&Cost::new(bytes, first));
        }
        self.add_strings(draft, &mut node, strings)?;
        self.program.nodes.push(node);
        Ok(())
    }

    /// Adds the strings of `draft` to `node`.
    pub(super) fn add_strings(
        &mut self,
        draft: &DraftNode,
        node: &mut Node,
        strings: &mut Strings,
    ) -> Result<(), GrammarError> {
        let plain = |text: &&StringSet| text.language == Expressions::EVERYTHING;
        if draft.texts.iter().filter(plain).any(|text| text.length == TextRule::ANY) {
            node.texts.push(FREE);
            node.cost.or(&Cost::new(2, b'"'));
            return Ok(());
        }
        for text in draft.texts.iter().filter(plain) {
            node.texts.push(self.text(&text.length));
            node.cost.or(&Cost::new(text.length.min.saturating_add(2), b'"'));
        }
        // The minimum length is part of the language. The maximum length is counted separately,
        // because it may be large.
        let mut languages: Vec<(Option<u32>, Vec<ExprId>)> = Vec::new();
        for text in draft.texts.iter().filter(|text| !plain(text)) {
            let language = strings.at_least(text.language, text.length.min);
            match languages.iter_mut().find(|(max, _)| *max == text.length.max) {
                Some((_, all)) => all.push(language),
                None => languages.push((text.length.max, vec![language])),
            }
        }
        for (max, all) in languages {
            let language = strings.expressions.any_of(all);
            if let Some((rule, cost)) = self.language_rule(language, max, strings)? {
                node.languages.push(rule);
                node.cost.or(&cost);
            }
        }
        if !draft.words.is_empty() {
            let mut words: Vec<&str> = draft.words.iter().map(String::as_str).collect();
            words.sort_unstable();
            words.dedup();
            let trie = Trie::new(words.into_iter());
            self.spend(trie.len())?;
            node.cost.or(&Cost::new(trie.node(0).nearest().len.saturating_add(1), b'"'));
            node.words = Some(self.program.words.len() as u32);
            self.program.words.push(trie);
        }
        Ok(())
    }

    /// Returns the index of the rule for strings of `language` with at most `max` code points, and
    /// the cost of the shortest of these strings. Returns `None` if there are no such strings.
    pub(super) fn language_rule(
        &mut self,
        language: ExprId,
        max: Option<u32>,
        strings: &mut Strings,
    ) -> Result<Option<(u32, Cost)>, GrammarError> {
        let Some(language) = self.language(language, strings)? else { return Ok(None) };
        let texts = &self.program.languages[language as usize];
        let start = texts.dfa().start();
        let max = max.filter(|&max| texts.longest().is_none_or(|longest| longest > max));
        let least = match max {
            None => texts.nearest_any(start),
            Some(max) => texts.fewest(start).filter(|&(chars, _)| chars <= max).map(|(_, way)| way),
        };
        let Some(least) = least else { return Ok(None) };
        let free = self.text(&TextRule { min: 0, max });
        let rule = LanguageRule { language, max, free };
        let rules = &mut self.program.language_rules;
        let id = rules.iter().position(|known| *known == rule).unwrap_or(rules.len());
        if id == rules.len() {
            rules.push(rule);
        }
        Ok(Some((id as u32, Cost::new(least.len.saturating_add(1), b'"'))))
    }

    /// Returns the index of the automaton of `language`. Returns `None` if the language is empty.
    pub(super) fn language(
        &mut self,
        language: ExprId,
        strings: &mut Strings,
    ) -> Result<Option<u32>, GrammarError> {
        if let Some(&known) = self.languages.get(&language) {
            return Ok(known);
        }
        let limit = LANGUAGE_STATES.min(self.limits.states);
        let texts = strings.texts(language, limit, &self.ledger)?;
        self.spend(texts.dfa().len())?;
        let id = texts.nearest_any(texts.dfa().start()).map(|_| self.program.languages.len() as u32);
        if id.is_some() {
            self.program.languages.push(texts);
        }
        self.languages.insert(language, id);
        Ok(id)
    }

    /// Returns the index of the automaton of the numbers of `draft`. Returns `None` if `draft` has
    /// no numbers.
    fn number(&mut self, draft: &DraftNode) -> Result<Option<u32>, GrammarError> {
        if draft.numbers.is_empty() {
            return Ok(None);
        }
        if let Some(&known) = self.automata.get(&draft.numbers) {
            return Ok(known);
        }
        let automaton = NumberDfa::shared(&draft.numbers, self.program.profile, &self.ledger);
        let automaton = automaton.map_err(|error| self.number_error(error, draft))?;
        let id = automaton.as_ref().map(|_| self.program.numbers.len() as u32);
        self.program.numbers.extend(automaton);
        self.automata.insert(draft.numbers.clone(), id);
        Ok(id)
    }

    fn number_error(&self, error: NumberError, draft: &DraftNode) -> GrammarError {
        let (what, given, limit) = match error {
            NumberError::Ledger => match self.ledger.check() {
                Err(error) => return error,
                Ok(()) => ("steps of work", 0, 0),
            },
            NumberError::CommonMultiple { given, limit } => (
                "remainders modulo the least common multiple of the divisors",
                given as usize,
                limit as usize,
            ),
            NumberError::States { given, limit } => ("states of the automaton of numbers", given, limit),
        };
        match &draft.divisor {
            Some(pointer) => {
                let problem = SchemaProblem::Limit { what, given, limit };
                Problem::new(pointer, "multipleOf", problem).into()
            }
            None => GrammarError::limit(what, given, limit),
        }
    }

    /// Returns the index of `rule` in the program, and adds the rule if it is new.
    pub(super) fn text(&mut self, rule: &TextRule) -> u32 {
        let texts = &mut self.program.texts;
        *self.texts.entry(rule.clone()).or_insert_with(|| {
            texts.push(rule.clone());
            texts.len() as u32 - 1
        })
    }
}
