//! From a config to the tokens that may come next.

use formwork_vocab::{TokenId, TokenSet, Vocabulary};

use crate::machine::Config;
use crate::machine::automaton::Automaton;

/// The tokens allowed at `config`: text tokens all of whose bytes can follow, and end-of-sequence where the output may
/// end.
pub(crate) fn compute(automaton: &mut Automaton, vocabulary: &Vocabulary, config: Config) -> TokenSet {
    let mut mask = vocabulary.empty_set();
    if config == Config::DEAD {
        return mask;
    }
    walk(automaton, vocabulary, config, |_, tokens, _| {
        for &token in tokens {
            mask.insert(token);
        }
    });
    if automaton.accepting(config) {
        for &end in vocabulary.ends() {
            mask.insert(end);
        }
    }
    mask
}

/// Calls `visit` with every group of tokens that share their bytes and can follow, and the config after them.
pub(crate) fn walk(
    automaton: &mut Automaton,
    vocabulary: &Vocabulary,
    config: Config,
    mut visit: impl FnMut(&mut Automaton, &[TokenId], Config),
) {
    let trie = vocabulary.trie();
    let nodes = trie.nodes();
    // The config at each depth of the current path; depth 0 is before the token.
    let mut path = vec![config; trie.max_depth() + 1];
    let mut at = 0;
    while let Some(node) = nodes.get(at) {
        let depth = usize::from(node.depth);
        let next = automaton.step(path[depth - 1], node.byte);
        if next == Config::DEAD {
            at = node.end as usize;
            continue;
        }
        path[depth] = next;
        let tokens = trie.tokens_at(at);
        if !tokens.is_empty() {
            visit(automaton, tokens, next);
        }
        at += 1;
    }
}
