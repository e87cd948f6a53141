"""Bitmasks of tokens, as NumPy arrays or PyTorch tensors.

A bitmask has the shape `[rows, ceil(vocabulary size / 32)]` and the type `int32`. Token t is bit `t % 32` of
word `t // 32`, and 1 if it is allowed. Other engines for constrained decoding pack their masks in this way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from formwork import _native
from formwork._native import Matcher

if TYPE_CHECKING:
    import numpy

__all__ = ["allocate_bitmask", "apply_bitmask", "fill_bitmask", "fill_bitmasks"]


def allocate_bitmask(rows: int, vocabulary_size: int) -> numpy.ndarray[Any, Any]:
    """Creates a bitmask that allows every token.

    `torch.from_numpy` makes a tensor that shares the memory.
    """
    import numpy

    if rows < 1 or vocabulary_size < 1:
        raise ValueError(f"a bitmask needs at least one row and one token, not {rows} and {vocabulary_size}")
    return numpy.full((rows, -(-vocabulary_size // 32)), -1, dtype=numpy.int32)


def fill_bitmask(matcher: Matcher, bitmask: Any, row: int = 0, *, within: int | None = None) -> bool:
    """Writes the tokens that may come next to a row of `bitmask`.

    With `within`, only tokens after which the output can close within this number of tokens are allowed, the
    token itself included. Returns True if the mask forbids a token.
    """
    memory = Memory(bitmask, len(matcher.constraint.vocabulary))
    return matcher.fill(memory.address(row), memory.words, within)


def fill_bitmasks(
    matchers: Sequence[Matcher],
    bitmask: Any,
    rows: Sequence[int] | None = None,
    *,
    within: Sequence[int | None] | None = None,
    threads: int = 0,
) -> list[bool]:
    """Writes the masks of several matchers in threads, without the interpreter's lock.

    `rows` has the row of each matcher; by default, matcher i has row i. No row and no matcher may occur twice.
    With `threads` 0 there is one thread for each core.
    """
    if not matchers:
        return []
    rows = range(len(matchers)) if rows is None else rows
    if len(rows) != len(matchers):
        raise ValueError(f"{len(matchers)} matchers need as many rows, not {len(rows)}")
    if len(set(rows)) != len(rows):
        raise ValueError("a row occurs twice")
    if len({id(matcher) for matcher in matchers}) != len(matchers):
        raise ValueError("a matcher occurs twice; use its `fork`")
    memory = Memory(bitmask, max(len(matcher.constraint.vocabulary) for matcher in matchers))
    addresses = [memory.address(row) for row in rows]
    return _native.fill_batch(matchers, addresses, memory.words, within, threads)


def apply_bitmask(logits: Any, bitmask: Any) -> None:
    """Sets the logits of forbidden tokens to negative infinity, in place.

    `logits` has the shape `[rows, tokens]` or `[tokens]`, and is a NumPy array or a PyTorch tensor of floats.
    Tokens without a bit are forbidden.
    """
    if _is_tensor(logits):
        _apply_to_tensor(logits, bitmask)
    else:
        _apply_to_array(logits, bitmask)


def _apply_to_array(logits: Any, bitmask: Any) -> None:
    import numpy

    words = numpy.ascontiguousarray(bitmask, dtype=numpy.int32).view(numpy.uint8)
    allowed = numpy.unpackbits(words, axis=-1, bitorder="little").astype(bool)
    tokens = logits.shape[-1]
    missing = tokens - allowed.shape[-1]
    if missing > 0:
        allowed = numpy.pad(allowed, [(0, 0)] * (allowed.ndim - 1) + [(0, missing)])
    allowed = allowed[..., :tokens]
    if logits.ndim == 1:
        allowed = allowed.reshape(-1)[:tokens]
    elif allowed.ndim == 1:
        allowed = allowed[None, :]
    logits[numpy.broadcast_to(~allowed, logits.shape)] = -numpy.inf


def _apply_to_tensor(logits: Any, bitmask: Any) -> None:
    import torch

    words = torch.as_tensor(bitmask).to(logits.device)
    bits = torch.arange(32, device=logits.device, dtype=torch.int32)
    allowed = ((words.unsqueeze(-1) >> bits) & 1).bool().flatten(-2)
    tokens = logits.shape[-1]
    if allowed.shape[-1] < tokens:
        allowed = torch.nn.functional.pad(allowed, (0, tokens - allowed.shape[-1]), value=False)
    allowed = allowed[..., :tokens]
    if logits.dim() == 1:
        allowed = allowed.reshape(-1)[:tokens]
    logits.masked_fill_(~allowed, float("-inf"))


class Memory:
    """The checked memory of a bitmask."""

    def __init__(self, bitmask: Any, vocabulary_size: int) -> None:
        """Checks that `bitmask` is a bitmask for `vocabulary_size` tokens."""
        is_tensor = _is_tensor(bitmask)
        shape = getattr(bitmask, "shape", None)
        if shape is None or not 1 <= len(shape) <= 2:
            raise ValueError("a bitmask must be a NumPy array or a PyTorch tensor with one or two dimensions")
        if str(bitmask.dtype).removeprefix("torch.") != "int32":
            raise ValueError(f"a bitmask must have the type int32, not {bitmask.dtype}")
        if is_tensor:
            if bitmask.device.type != "cpu":
                raise ValueError(f"a bitmask must be in the memory of the CPU, not of {bitmask.device}")
            contiguous = bitmask.is_contiguous()
        else:
            contiguous = bitmask.flags.c_contiguous and bitmask.flags.writeable
        if not contiguous:
            raise ValueError("a bitmask must be contiguous and writable")
        self.words = int(shape[-1])
        self.rows = int(shape[0]) if len(shape) == 2 else 1
        needed = -(-vocabulary_size // 32)
        if self.words < needed:
            raise ValueError(
                f"a bitmask for {vocabulary_size} tokens needs {needed} words in a row, not {self.words}"
            )
        self._bitmask = bitmask
        self._start = bitmask.data_ptr() if is_tensor else bitmask.ctypes.data

    def address(self, row: int) -> int:
        """Returns the address of a row."""
        if not 0 <= row < self.rows:
            raise IndexError(f"row {row} is out of range (the bitmask has {self.rows} rows)")
        return int(self._start) + 4 * self.words * row


def _is_tensor(value: Any) -> bool:
    """Reports whether `value` is a PyTorch tensor, without importing PyTorch."""
    return type(value).__module__.partition(".")[0] == "torch"
