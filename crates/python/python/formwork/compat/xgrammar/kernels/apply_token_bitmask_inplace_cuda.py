"""XGrammar's name for applying a bitmask on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from formwork.compat.xgrammar.kernels._apply import apply

__all__ = ["apply_token_bitmask_inplace_cuda"]


def apply_token_bitmask_inplace_cuda(logits: Any, bitmask: Any, indices: Sequence[int] | Any = None) -> None:
    """Sets the logits of forbidden tokens to negative infinity."""
    apply(logits, bitmask, indices=indices)
