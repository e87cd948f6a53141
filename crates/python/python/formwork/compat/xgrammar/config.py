"""Settings of the whole process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = [
    "get_max_recursion_depth",
    "get_serialization_version",
    "max_recursion_depth",
    "set_max_recursion_depth",
]

SERIALIZATION_VERSION = "formwork-1"

LARGEST = 1_000_000


def _initial() -> int:
    given = os.environ.get("XGRAMMAR_MAX_RECURSION_DEPTH", "")
    return int(given) if given.isdigit() and 0 < int(given) <= LARGEST else 10_000


_depth = _initial()


def get_max_recursion_depth() -> int:
    """Returns the depth that [`set_max_recursion_depth`][formwork.compat.xgrammar.set_max_recursion_depth] set."""
    return _depth


def set_max_recursion_depth(max_recursion_depth: int) -> None:
    """Stores a depth, which has no effect: Formwork's parsers do not recurse into the output.

    Formwork limits the nesting of a grammar's source on its own.
    """
    global _depth
    if not 0 < max_recursion_depth <= LARGEST:
        raise RuntimeError(
            f"the maximum recursion depth must be between 1 and {LARGEST}, not {max_recursion_depth}"
        )
    _depth = max_recursion_depth


@contextmanager
def max_recursion_depth(temp_depth: int) -> Iterator[None]:
    """Stores a depth within a block."""
    before = get_max_recursion_depth()
    set_max_recursion_depth(temp_depth)
    try:
        yield
    finally:
        set_max_recursion_depth(before)


def get_serialization_version() -> str:
    """Returns the version of serialized objects. XGrammar cannot read them, nor Formwork those of XGrammar."""
    return SERIALIZATION_VERSION
