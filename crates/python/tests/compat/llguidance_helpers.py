"""The module under test, and helpers for llguidance's interface."""

from __future__ import annotations

import pytest
from peer import peer_module

numpy = pytest.importorskip("numpy")

ll = peer_module("llguidance")
LLMatcher = ll.LLMatcher

END, ABC, TOOL, AB = 256, 257, 258, 259
SIZE = 260


class Bytes:
    """A token for each byte, and some more. Texts are encoded byte by byte."""

    eos_token_id = END
    bos_token_id = None
    tokens = [bytes([byte]) for byte in range(256)] + [b"<eos>", b"abc", b"<tool>", b"ab"]
    special_token_ids = [END, TOOL]

    def __call__(self, text):
        return list(text)


def lark(source):
    """Returns the text of a Lark grammar."""
    return LLMatcher.grammar_from_lark(source)


def matcher(tokenizer, source):
    """Returns a matcher of a Lark grammar."""
    return LLMatcher(tokenizer, lark(source), log_level=0)


def bits(bitmask):
    """Returns the tokens that each row of a mask allows."""
    rows = numpy.unpackbits(numpy.ascontiguousarray(bitmask).view(numpy.uint8), axis=-1, bitorder="little")
    return [numpy.nonzero(row)[0].tolist() for row in rows]


def allowed(found):
    """Returns the tokens that the mask of a matcher allows."""
    return bits(numpy.frombuffer(found.compute_bitmask(), numpy.int32)[None, :])[0]


def accepts(tokenizer, grammar, text):
    """Reports whether a text is an output of a grammar."""
    found = LLMatcher(tokenizer, grammar, log_level=0)
    assert not found.is_error(), found.get_error()
    encoded = text.encode()
    return found.try_consume_tokens(list(encoded)) == len(encoded) and found.is_accepting()
