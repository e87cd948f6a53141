"""Checked access to the memory of bitmasks."""

from __future__ import annotations

from typing import Any

__all__ = ["Rows", "is_tensor", "words_for"]

WORD = 4
"""Bytes of a word."""


def is_tensor(value: Any) -> bool:
    """Reports whether `value` is a PyTorch tensor, without importing PyTorch."""
    return any(kind.__module__.partition(".")[0] == "torch" for kind in type(value).__mro__)


def words_for(tokens: int) -> int:
    """Returns the number of 32-bit words of a mask for `tokens` tokens."""
    return -(-tokens // 32)


class Rows:
    """The rows of a bitmask in the memory of the CPU.

    `bitmask` is a PyTorch tensor, a NumPy array, or an object with the DLPack protocol. It has one or two
    dimensions and the type int32. Rows may be apart in memory, but the words of a row are not.
    """

    def __init__(self, bitmask: Any, words: int) -> None:
        """Checks that `bitmask` has rows of exactly `words` words.

        Raises `TypeError` if `bitmask` has no memory, and `RuntimeError` if the memory does not fit.
        """
        if is_tensor(bitmask):
            if bitmask.device.type != "cpu":
                raise RuntimeError(f"the bitmask must be on the CPU, not on {bitmask.device}")
            strides = bitmask.stride()
            address = bitmask.data_ptr
        else:
            bitmask = _array(bitmask)
            if not bitmask.flags.writeable:
                raise RuntimeError("the bitmask must be writable")
            strides = [stride // WORD for stride in bitmask.strides]
            address = lambda: bitmask.ctypes.data  # noqa: E731
        if str(bitmask.dtype).removeprefix("torch.") != "int32":
            raise RuntimeError(f"the bitmask must have the type int32, not {bitmask.dtype}")
        shape = tuple(bitmask.shape)
        if len(shape) not in (1, 2) or shape[-1] != words:
            raise RuntimeError(f"the bitmask must have the shape (rows, {words}), not {shape}")
        if words > 1 and strides[-1] != 1:
            raise RuntimeError("the words of a row of the bitmask must be adjacent in memory")
        self.count = shape[0] if len(shape) == 2 else 1
        self.words = words
        self._stride = WORD * (strides[0] if len(shape) == 2 else words)
        self._start = int(address())
        self._owner = bitmask

    def address(self, row: int) -> int:
        """Returns the address of a row. Raises `RuntimeError` if there is no such row."""
        if not 0 <= row < self.count:
            raise RuntimeError(f"row {row} of the bitmask is out of range (number of rows: {self.count})")
        return self._start + self._stride * row

    def clear(self, row: int) -> None:
        """Writes zeros to a row."""
        if self._owner.ndim == 1:
            self._owner[:] = 0
        else:
            self._owner[row, :] = 0


def _array(value: Any) -> Any:
    """Returns a NumPy array with the memory of `value`."""
    if hasattr(value, "ctypes") and hasattr(value, "strides"):
        return value
    if not hasattr(value, "__dlpack__"):
        raise TypeError(f"a bitmask must be a tensor or an array, not {type(value).__name__}")
    import numpy

    return numpy.from_dlpack(value)
