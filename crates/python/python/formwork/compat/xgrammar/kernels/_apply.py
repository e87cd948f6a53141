"""Applies a bitmask on any device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from formwork.compat.xgrammar.bitmask import apply_token_bitmask_inplace

__all__ = ["apply"]


def apply(
    logits: Any, bitmask: Any, vocab_size: int | None = None, indices: Sequence[int] | Any = None
) -> None:
    """Sets the logits of forbidden tokens to negative infinity, on the device of the tensors."""
    if vocab_size is None:
        vocab_size = min(logits.shape[-1], 32 * bitmask.shape[-1])
    apply_token_bitmask_inplace(logits, bitmask, vocab_size=vocab_size, indices=indices)
