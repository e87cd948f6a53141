//! Compiles the parts of a grammar that a cache does not have, on several threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::json_schema::Schemas;
use super::notation::Notation;
use super::part_cache::{Context, PartCache};
use super::parts::{Composer, Part, Trigger};
use crate::ledger::Ledger;
use crate::tokens::TokenTerminal;
use crate::{Limits, SchemaOptions};

/// Minimum number of parts for each thread. A thread takes as long to start as a small part to compile.
const LEAST: usize = 4;

/// Stack of a thread in bytes, enough for the default limit of nesting.
const STACK: usize = 8 << 20;

/// Compiles the parts of `part` that `cache` keeps and does not have yet, if there are enough of them for several
/// threads.
///
/// Parts that fail are left to the caller, who compiles them again to report the error. All threads together use
/// little more than the work of one compilation, and the memory of one.
pub(crate) fn compile_missing(part: &Part, cache: &PartCache, options: SchemaOptions, limits: &Limits) {
    if cache.threads() == 1 || count(part) < 2 * LEAST {
        return;
    }
    let missing = Search::run(part, cache, options, limits);
    let helpers = cache.take_helpers((missing.len() / LEAST).saturating_sub(1));
    let threads = 1 + helpers.count();
    if threads < 2 {
        return;
    }
    let (next, work) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let compile = || {
        while let Some((part, terminals)) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
            let left = limits.work.saturating_sub(work.load(Ordering::Relaxed));
            if left == 0 {
                return;
            }
            let share =
                Limits { work: left.div_ceil(threads), bytes: limits.bytes / threads, ..limits.clone() };
            let ledger = Ledger::new(&share);
            let schemas = Schemas { options, remotes: cache.remotes(), ledger: &ledger, cache: Some(cache) };
            let mut composer = Composer::new(schemas, limits);
            composer.builder.rules.tokens.clone_from(terminals);
            let _ = composer.part(part);
            work.fetch_add(ledger.worked(), Ordering::Relaxed);
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            let builder = thread::Builder::new().name("formwork-compile".to_owned()).stack_size(STACK);
            // Without another thread, this one compiles the parts.
            let _ = builder.spawn_scoped(scope, compile);
        }
        compile();
    });
}

/// Returns the number of parts that a cache keeps.
fn count(part: &Part) -> usize {
    match part {
        Part::Json(_) | Part::Arguments { .. } => 1,
        Part::Sequence(parts) | Part::OneOf(parts) => parts.iter().map(count).sum(),
        Part::List { item: part, .. } | Part::Repeat { part, .. } | Part::At { part, .. } => count(part),
        Part::Text { triggers, .. } => triggers.iter().map(|(_, then)| count(then)).sum(),
        _ => 0,
    }
}

/// A missing part, with the token terminals of the grammar before it.
type Missing<'p> = (&'p Part, Vec<TokenTerminal>);

/// Search for missing parts, in the order of a [`Composer`].
struct Search<'p, 'c> {
    cache: &'c PartCache,
    /// Composer of the token terminals alone.
    composer: Composer<'c>,
    /// The last notation that was found. The grammar already has its token terminals.
    notation: Option<&'p Notation>,
    missing: Vec<Missing<'p>>,
    /// True after a part whose token terminals are not known without compiling it. The keys of later parts are
    /// unknown.
    is_over: bool,
}

impl<'p> Search<'p, '_> {
    fn run(part: &'p Part, cache: &PartCache, options: SchemaOptions, limits: &Limits) -> Vec<Missing<'p>> {
        let ledger = Ledger::new(limits);
        let schemas = Schemas { options, remotes: cache.remotes(), ledger: &ledger, cache: None };
        let composer = Composer::new(schemas, limits);
        let mut search = Search { cache, composer, notation: None, missing: Vec::new(), is_over: false };
        search.part(part);
        search.missing
    }

    /// Searches `part`. Ignores errors, which the composer of the grammar reports.
    fn part(&mut self, part: &'p Part) {
        match part {
            Part::Token(_) => drop(self.composer.part(part)),
            Part::Json(_) => self.cached(part),
            Part::Arguments { notation, .. } => {
                self.cached(part);
                if self.notation != Some(notation) {
                    self.notation = Some(notation);
                    let _ = self.composer.add_level(notation, &mut Vec::new());
                }
            }
            Part::Sequence(parts) | Part::OneOf(parts) => parts.iter().for_each(|part| self.part(part)),
            Part::List { item, separator, .. } => {
                self.part(item);
                self.part(separator);
            }
            Part::Repeat { part, .. } | Part::At { part, .. } => self.part(part),
            Part::Text { triggers, .. } => {
                for (trigger, then) in triggers {
                    self.part(then);
                    if let Trigger::Token(token) = trigger {
                        let _ = self.composer.builder.token(token.0);
                    }
                }
            }
            Part::Gbnf(_) | Part::Lark(_) | Part::Tags(_) | Part::JsonString(_) => self.is_over = true,
            Part::Literal(_) | Part::JsonObject | Part::Regex(_) | Part::Choices(_) => {}
        }
    }

    fn cached(&mut self, part: &'p Part) {
        if self.is_over {
            return;
        }
        let Composer { builder, schemas, limits } = &self.composer;
        let terminals = &builder.rules.tokens;
        if !self.cache.has(part, Context { options: schemas.options, limits, terminals }) {
            self.missing.push((part, terminals.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use formwork_vocab::TokenId;
    use serde_json::json;

    use super::*;
    use crate::Grammar;

    /// Returns calls of `count` tools after a control token.
    fn calls(count: usize) -> Part {
        let tool = |index: usize| {
            let schema = json!({ "properties": { format!("a{index}"): { "type": "integer" } } });
            let name = format!("tool{index} ");
            Part::sequence([Part::literal(name), Part::Json(schema.into()), Part::Token(TokenId(8))])
        };
        let tools = Part::OneOf((0..count).map(tool).collect());
        Part::Text { triggers: vec![(Trigger::Token(TokenId(7)), tools)], may_end: false }
    }

    #[test]
    fn the_missing_parts_are_those_that_are_compiled() {
        let (options, limits) = (SchemaOptions::default(), Limits::default());
        let cache = PartCache::new(Arc::default(), usize::MAX).with_threads(4);
        let (some, all) = (calls(20), calls(40));
        assert_eq!(Search::run(&all, &cache, options, &limits).len(), 40);
        let grammar = Grammar::of_parts_in(&some, &cache, &options, &limits).expect("a grammar");
        assert_eq!(Search::run(&some, &cache, options, &limits).len(), 0);
        assert_eq!(Search::run(&all, &cache, options, &limits).len(), 20);
        let alone = Grammar::of_parts(&some, &options, &limits).expect("a grammar");
        assert_eq!(grammar.shortest(), alone.shortest());
        assert_eq!(grammar.size(), alone.size());
    }

    #[test]
    fn parts_after_unknown_terminals_are_left_to_the_composer() {
        let (options, limits) = (SchemaOptions::default(), Limits::default());
        let cache = PartCache::new(Arc::default(), usize::MAX).with_threads(4);
        let source = Part::Gbnf("root ::= <[5]> \"x\"".to_owned());
        let part = Part::sequence([source, calls(100)]);
        // Too little work for a part that is not in the cache.
        let little = Limits { work: 1 << 16, ..limits.clone() };
        Grammar::of_parts_in(&part, &cache, &options, &little).expect_err("nothing is in the cache");
        Grammar::of_parts_in(&part, &cache, &options, &limits).expect("a grammar");
        Grammar::of_parts_in(&part, &cache, &options, &little).expect("all parts are in the cache");
        assert_eq!(Search::run(&part, &cache, options, &limits).len(), 0, "no part has a wrong key");
    }

    #[test]
    fn helpers_are_shared_by_all_compilations() {
        let cache = PartCache::new(Arc::default(), usize::MAX).with_threads(4);
        let first = cache.take_helpers(2);
        let second = cache.take_helpers(9);
        assert_eq!((first.count(), second.count(), cache.take_helpers(1).count()), (2, 1, 0));
        drop(first);
        assert_eq!(cache.take_helpers(9).count(), 2);
    }

    #[test]
    fn a_faulty_part_is_reported_with_its_place() {
        let cache = PartCache::new(Arc::default(), usize::MAX).with_threads(4);
        let tool = |index: usize| {
            let schema = json!({ "type": if index == 30 { "int" } else { "integer" }, "maximum": index });
            Part::at(format!("tools[{index}]"), Part::sequence([Part::Json(schema.into())]))
        };
        let part = Part::OneOf((0..40).map(tool).collect());
        let error = Grammar::of_parts_in(&part, &cache, &SchemaOptions::default(), &Limits::default());
        assert!(error.expect_err("no type").to_string().starts_with("tools[30]"));
    }

    #[test]
    fn the_threads_share_the_work_of_one_compilation() {
        let cache = PartCache::new(Arc::default(), usize::MAX).with_threads(4);
        let part = calls(200);
        let limits = Limits { work: 1 << 16, ..Limits::default() };
        compile_missing(&part, &cache, SchemaOptions::default(), &limits);
        let left = Search::run(&part, &cache, SchemaOptions::default(), &limits).len();
        assert!((1..200).contains(&left), "{left} parts are left");
    }
}
