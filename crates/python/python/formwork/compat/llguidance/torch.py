"""Masks as tensors of PyTorch, of shape `(rows, words)` and type int32."""

from __future__ import annotations

from typing import Any

import torch

from formwork.compat._memory import words_for
from formwork.compat.llguidance.numpy import (
    consume_token_par,
    fill_next_token_bitmask,
    fill_next_token_bitmask_par,
    fill_next_token_bitmask_par_with_draft_tokens,
    get_bitmask_shape,
)

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


def allocate_token_bitmask(batch_size: int, vocab_size: int) -> Any:
    """Creates a mask on the CPU that allows every token, in pinned memory if there is a GPU."""
    shape = (batch_size, words_for(vocab_size))
    try:
        return torch.full(shape, -1, dtype=torch.int32, pin_memory=torch.cuda.is_available())
    except RuntimeError:
        return torch.full(shape, -1, dtype=torch.int32)


def apply_token_bitmask_inplace_kernel(logits: Any, mask: Any) -> None:
    """Sets the logits of forbidden tokens to negative infinity. Both arguments have two dimensions."""
    bits = torch.arange(32, device=logits.device, dtype=torch.int32)
    forbidden = ((mask.unsqueeze(-1) >> bits) & 1 == 0).flatten(1)
    logits.masked_fill_(forbidden[:, : logits.shape[1]], float("-inf"))


def apply_token_bitmask_inplace(logits: Any, mask: Any) -> None:
    """Sets the logits of forbidden tokens, and those without a bit, to negative infinity."""
    rows = logits if logits.dim() != 1 else logits[None, :]
    words = mask if mask.dim() != 1 else mask[None, :]
    if words.dtype != torch.int32 or rows.dim() != 2 or rows.shape[0] != words.shape[0]:
        raise AssertionError(
            f"expected int32 masks with as many rows as the logits, not {words.dtype} "
            f"of shape {tuple(words.shape)} for logits of shape {tuple(rows.shape)}"
        )
    covered = 32 * words.shape[1]
    rows[:, covered:] = float("-inf")
    apply_token_bitmask_inplace_kernel(rows[:, :covered], words)
