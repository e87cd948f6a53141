"""Bitmasks of tokens.

A bitmask has the shape `(rows, ceil(vocab_size / 32))` and the type int32. Token t is bit `t % 32` of word
`t // 32`, and 1 if it is allowed. A bitmask is a PyTorch tensor, or a NumPy array if PyTorch is not installed.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Sequence
from typing import Any

from formwork.compat._memory import is_tensor, words_for

__all__ = [
    "allocate_token_bitmask",
    "apply_token_bitmask_inplace",
    "get_bitmask_shape",
    "reset_token_bitmask",
]

BACKENDS = ("auto", "cpu", "cuda", "triton", "torch_compile", "torch_native")


def __getattr__(name: str) -> Any:
    if name == "bitmask_dtype":
        return _library().int32
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _library() -> Any:
    """Returns PyTorch if it is installed, and NumPy otherwise."""
    if importlib.util.find_spec("torch") is not None:
        import torch

        return torch
    import numpy

    return numpy


def get_bitmask_shape(batch_size: int, vocab_size: int) -> tuple[int, int]:
    """Returns the shape of a bitmask."""
    return batch_size, words_for(vocab_size)


def allocate_token_bitmask(batch_size: int, vocab_size: int) -> Any:
    """Creates a bitmask on the CPU that allows every token."""
    library = _library()
    return library.full(get_bitmask_shape(batch_size, vocab_size), -1, dtype=library.int32)


def reset_token_bitmask(bitmask: Any) -> None:
    """Allows every token."""
    bitmask[...] = -1


def apply_token_bitmask_inplace(
    logits: Any,
    bitmask: Any,
    *,
    vocab_size: int | None = None,
    indices: Sequence[int] | Any = None,
    backend: str = "auto",
) -> None:
    """Sets the logits of forbidden tokens to negative infinity.

    `logits` has the shape `(rows, tokens)` or `(tokens)`. It is a tensor on the device of `bitmask`, or a NumPy
    array. Logits beyond the bitmask keep their values, with a warning if `vocab_size` is not given.

    vocab_size: number of logits that the bitmask is for.
    indices: the rows to change. By default, all rows.
    backend: one of XGrammar's names. Tensors are always changed with operations of PyTorch.
    """
    if backend not in BACKENDS:
        raise ValueError(f"unknown backend {backend!r}; expected one of {', '.join(BACKENDS)}")
    tensors = is_tensor(logits)
    if tensors != is_tensor(bitmask):
        raise ValueError("logits and bitmask must both be tensors, or both be arrays")
    if tensors and logits.device != bitmask.device:
        raise ValueError(f"logits are on {logits.device}, but the bitmask is on {bitmask.device}")
    if str(bitmask.dtype).removeprefix("torch.") != "int32":
        raise ValueError(f"the bitmask must have the type int32, not {bitmask.dtype}")
    if logits.ndim not in (1, 2) or bitmask.ndim not in (1, 2):
        raise ValueError(f"expected one or two dimensions, not {logits.ndim} and {bitmask.ndim}")
    # A view with two dimensions shares the memory.
    rows = logits if logits.ndim == 2 else logits[None, :]
    words = bitmask if bitmask.ndim == 2 else bitmask[None, :]
    covered = 32 * words.shape[-1]
    if vocab_size is None:
        vocab_size = min(rows.shape[-1], covered)
        if covered < rows.shape[-1]:
            warnings.warn(
                f"the bitmask covers {covered} tokens, so the logits from there to {rows.shape[-1]} are "
                "unchanged; allocate a bitmask for all logits, or pass vocab_size",
                stacklevel=2,
            )
    elif vocab_size > min(rows.shape[-1], covered):
        raise RuntimeError(
            f"vocab_size ({vocab_size}) exceeds the {rows.shape[-1]} logits or the {covered} tokens of the bitmask"
        )
    chosen = _chosen(indices, rows.shape[0], words.shape[0])
    if tensors:
        _apply_to_tensor(rows[:, :vocab_size], words, chosen)
    else:
        _apply_to_array(rows[:, :vocab_size], words, chosen)


def _chosen(indices: Any, logits: int, masks: int) -> list[int] | None:
    """Returns the rows to change, or None for all rows."""
    if indices is None:
        if logits != masks:
            raise RuntimeError(f"{logits} rows of logits need as many rows of the bitmask, not {masks}")
        return None
    chosen = [int(index) for index in (indices.tolist() if hasattr(indices, "tolist") else indices)]
    for index in chosen:
        if not 0 <= index < min(logits, masks):
            raise RuntimeError(
                f"row {index} is out of range ({logits} rows of logits, {masks} of the bitmask)"
            )
    return chosen


def _apply_to_tensor(logits: Any, words: Any, chosen: list[int] | None) -> None:
    import torch

    if chosen is not None:
        words = words[chosen]
    needed = words_for(logits.shape[-1])
    bits = torch.arange(32, device=logits.device, dtype=torch.int32)
    forbidden = ((words[:, :needed, None] >> bits) & 1 == 0).flatten(1)[:, : logits.shape[-1]]
    if chosen is None:
        logits.masked_fill_(forbidden, float("-inf"))
    else:
        logits[chosen] = logits[chosen].masked_fill(forbidden, float("-inf"))


def _apply_to_array(logits: Any, words: Any, chosen: list[int] | None) -> None:
    import numpy

    words = numpy.ascontiguousarray(words if chosen is None else words[chosen])
    bits = numpy.unpackbits(words.view(numpy.uint8), axis=-1, bitorder="little")
    forbidden = bits[:, : logits.shape[-1]] == 0
    if chosen is None:
        logits[forbidden] = -numpy.inf
    else:
        logits[chosen] = numpy.where(forbidden, -numpy.inf, logits[chosen])
