"""The module under test, and helpers for XGrammar's interface."""

from __future__ import annotations

import pytest
from peer import peer_module

pytest.importorskip("torch")
pytest.importorskip("pydantic")

xgr = peer_module("xgrammar")
testing = peer_module("xgrammar.testing")
accepts = testing._is_grammar_accept_string

WORDS = ["<s>", "</s>", "a", "abc", 'b"', '"', ':"', "{", "}", ", ", "6", ":", "\n", " ", '"a":true', ""]

PERSON = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "string"}, "c": {"type": "number"}},
    "required": ["a"],
}


def info(words=None, **options):
    """Returns a tokenizer with the given words."""
    return xgr.TokenizerInfo(WORDS if words is None else words, **options)


def matcher(grammar, words=None, **options):
    """Returns a matcher of a grammar for the given words."""
    compiled = xgr.GrammarCompiler(info(words)).compile_grammar(grammar)
    return xgr.GrammarMatcher(compiled, **options)


def row(bitmask, size, index):
    """Returns the tokens that a row of a bitmask allows. Bits beyond the vocabulary have no meaning."""
    masked = testing._get_masked_tokens_from_bitmask(bitmask, size, index)
    return sorted(set(range(size)) - set(masked))


def allowed(given, size):
    """Returns the tokens that the mask of a matcher allows."""
    bitmask = xgr.allocate_token_bitmask(1, size)
    given.fill_next_token_bitmask(bitmask)
    return row(bitmask, size, 0)
