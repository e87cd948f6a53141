"""Masks as NumPy arrays, of shape `(rows, words)` and type int32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from formwork.compat._memory import WORD, Rows, words_for
from formwork.compat.llguidance._matcher import LLExecutor, LLMatcher

__all__ = [
    "allocate_token_bitmask",
    "apply_token_bitmask_inplace",
    "apply_token_bitmask_inplace_kernel",
    "consume_token_par",
    "fill_next_token_bitmask",
    "fill_next_token_bitmask_par",
    "fill_next_token_bitmask_par_with_draft_tokens",
    "get_bitmask_shape",
]


def get_bitmask_shape(batch_size: int, vocab_size: int) -> tuple[int, int]:
    """Returns the shape of a mask."""
    return batch_size, words_for(vocab_size)


def allocate_token_bitmask(batch_size: int, vocab_size: int) -> Any:
    """Creates a mask that allows every token."""
    return numpy.full(get_bitmask_shape(batch_size, vocab_size), -1, dtype=numpy.int32)


def apply_token_bitmask_inplace_kernel(logits: Any, mask: Any) -> None:
    """Sets the logits of forbidden tokens to negative infinity. Both arguments have two dimensions."""
    bits = numpy.unpackbits(numpy.ascontiguousarray(mask).view(numpy.uint8), axis=-1, bitorder="little")
    logits[bits[:, : logits.shape[1]] == 0] = -numpy.inf


def apply_token_bitmask_inplace(logits: Any, mask: Any) -> None:
    """Sets the logits of forbidden tokens, and those without a bit, to negative infinity."""
    rows = logits if logits.ndim != 1 else logits[None, :]
    words = mask if mask.ndim != 1 else mask[None, :]
    _check(words.dtype == numpy.int32, "the mask must have the type int32")
    _check(rows.ndim == 2, "the logits must have one or two dimensions")
    _check(rows.shape[0] == words.shape[0], "the logits and the mask must have the same number of rows")
    covered = 32 * words.shape[1]
    rows[:, covered:] = -numpy.inf
    apply_token_bitmask_inplace_kernel(rows[:, :covered], words)


def fill_next_token_bitmask(interp: LLMatcher, bitmask: Any, index: int = 0) -> None:
    """Writes the mask of a matcher to a row."""
    rows = memory(bitmask)
    interp.unsafe_compute_mask_ptr(rows.address(index), WORD * rows.words)


def fill_next_token_bitmask_par(
    executor: LLExecutor, matchers: Sequence[tuple[LLMatcher, int]], bitmask: Any
) -> None:
    """Writes the mask of each matcher to the row with the given index."""
    rows = memory(bitmask)
    executor.unsafe_compute_mask_ptr(list(matchers), rows.address(0), WORD * rows.words, rows.count)


def fill_next_token_bitmask_par_with_draft_tokens(
    executor: LLExecutor, matchers: Sequence[tuple[LLMatcher, int, list[int]]], bitmask: Any
) -> None:
    """Writes the mask of each matcher to its row, and those after its draft tokens to the rows behind."""
    rows = memory(bitmask)
    executor.unsafe_compute_mask_ptr_with_draft_token(
        list(matchers), rows.address(0), WORD * rows.words, rows.count
    )


def consume_token_par(executor: LLExecutor, matchers: Sequence[tuple[LLMatcher, int]]) -> list[bool]:
    """Consumes one token with each matcher. Returns which tokens were allowed."""
    return executor.consume_token_par(matchers)


def memory(bitmask: Any) -> Rows:
    """Returns the rows of a mask with two dimensions whose rows are adjacent in memory."""
    _check(bitmask.ndim == 2, "the mask must have two dimensions")
    try:
        rows = Rows(bitmask, bitmask.shape[1])
    except RuntimeError as error:
        raise AssertionError(str(error)) from error
    _check(rows.count < 2 or rows.address(1) - rows.address(0) == WORD * rows.words, "the mask has gaps")
    return rows


def _check(holds: bool, message: str) -> None:
    if not holds:
        raise AssertionError(message)
