"""A logits processor for `generate` of the library `transformers`."""

from __future__ import annotations

from typing import Any

import transformers

from formwork.compat.xgrammar.bitmask import (
    allocate_token_bitmask,
    apply_token_bitmask_inplace,
)
from formwork.compat.xgrammar.compiler import CompiledGrammar
from formwork.compat.xgrammar.matcher import BatchGrammarMatcher, GrammarMatcher

__all__ = ["LogitsProcessor"]


class LogitsProcessor(transformers.LogitsProcessor):  # type: ignore[misc]
    """Masks the logits of one call of `generate`, so each call needs a new object."""

    def __init__(self, compiled_grammar: CompiledGrammar | list[CompiledGrammar]) -> None:
        """Takes one grammar for all sequences, or one for each sequence."""
        given = compiled_grammar if isinstance(compiled_grammar, list) else [compiled_grammar]
        self.compiled_grammars: list[CompiledGrammar] = given
        self.full_vocab_size = given[0].tokenizer_info.vocab_size
        self.matchers: list[GrammarMatcher] = []
        self.token_bitmask: Any = None
        self.batch_size = 0
        self._batch = BatchGrammarMatcher()

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Follows the last token of each sequence, and masks the logits of the next token.

        Rows of sequences that have ended are not masked. Raises `RuntimeError` if a token was sampled that
        its mask forbids, or if the number of sequences changes.
        """
        if not self.matchers:
            self._start(input_ids.shape[0])
        elif input_ids.shape[0] != self.batch_size:
            raise RuntimeError(f"expected {self.batch_size} sequences, not {input_ids.shape[0]}")
        else:
            self._follow(input_ids[:, -1].tolist())
        open_rows = [row for row, matcher in enumerate(self.matchers) if not matcher.is_terminated()]
        self._batch.batch_fill_next_token_bitmask(
            [self.matchers[row] for row in open_rows], self.token_bitmask, open_rows
        )
        mask = self.token_bitmask.to(scores.device)
        covered = min(self.full_vocab_size, scores.shape[-1])
        apply_token_bitmask_inplace(scores, mask, vocab_size=covered, indices=open_rows)
        scores[open_rows, covered:] = float("-inf")
        return scores

    def _start(self, batch_size: int) -> None:
        grammars = self.compiled_grammars
        if len(grammars) == 1:
            grammars = grammars * batch_size
        if len(grammars) != batch_size:
            raise RuntimeError(f"{batch_size} sequences need one grammar or as many, not {len(grammars)}")
        self.batch_size = batch_size
        self.matchers = [GrammarMatcher(grammar) for grammar in grammars]
        self.token_bitmask = allocate_token_bitmask(batch_size, self.full_vocab_size)

    def _follow(self, tokens: list[int]) -> None:
        for row, (matcher, token) in enumerate(zip(self.matchers, tokens)):
            if not matcher.is_terminated() and not matcher.accept_token(token):
                raise RuntimeError(f"token {token} of sequence {row} is not allowed by the grammar")
