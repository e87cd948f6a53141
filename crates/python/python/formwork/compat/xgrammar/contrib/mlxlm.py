"""A logits processor for `mlx_lm`."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy

from formwork.compat.xgrammar.bitmask import get_bitmask_shape
from formwork.compat.xgrammar.compiler import CompiledGrammar
from formwork.compat.xgrammar.matcher import GrammarMatcher

__all__ = ["XGrammarLogitsProcessor"]


class XGrammarLogitsProcessor:
    """Masks the logits of one sequence. A token that the grammar forbids starts a new output."""

    def __init__(self, grammar: CompiledGrammar, max_rollback_tokens: int = 16) -> None:
        """Takes a grammar. `max_rollback_tokens` has no effect."""
        self.matcher = GrammarMatcher(grammar)
        self.vocab_size = grammar.tokenizer_info.vocab_size
        self.bitmask = numpy.full(get_bitmask_shape(1, self.vocab_size), -1, dtype=numpy.int32)

    def __call__(self, tokens: Any, logits: Any) -> Any:
        """Follows the last token, and returns the masked logits. The last token of the prompt is ignored."""
        last = int(tokens[-1].item())
        if self.matcher.is_terminated() or not self.matcher.accept_token(last):
            self.matcher.reset()
            self.matcher.accept_token(last)
        if self.matcher.is_terminated():
            return logits
        self.matcher.fill_next_token_bitmask(self.bitmask)
        bits = numpy.unpackbits(self.bitmask.view(numpy.uint8), axis=-1, bitorder="little")
        width = logits.shape[-1]
        allowed = numpy.zeros((1, width), dtype=bool)
        known = min(width, self.vocab_size)
        allowed[:, :known] = bits[:, :known] != 0
        return mx.where(mx.array(allowed), logits, -float("inf"))
