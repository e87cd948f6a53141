"""The parts of a grammar, and their spelling in GBNF."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Union

__all__ = [
    "ANY",
    "NOTHING",
    "Choice",
    "Class",
    "Dispatch",
    "Expr",
    "Literal",
    "Name",
    "Pattern",
    "Repeat",
    "Row",
    "Substring",
    "Token",
    "TokenDispatch",
    "spell",
]


@dataclass(frozen=True)
class Literal:
    """Exactly this text."""

    text: str


@dataclass(frozen=True)
class Class:
    """One character within one of the ranges, or outside all of them if `negated`."""

    ranges: tuple[tuple[int, int], ...]
    negated: bool = False


@dataclass(frozen=True)
class Name:
    """A reference to a rule. `at` is the offset of the reference in the source."""

    name: str
    at: int = 0


@dataclass(frozen=True)
class Row:
    """The items one after another."""

    items: tuple[Expr, ...]


@dataclass(frozen=True)
class Choice:
    """One of the options."""

    options: tuple[Expr, ...]


@dataclass(frozen=True)
class Repeat:
    """The item at least `low` times, and at most `high` times unless `high` is None."""

    item: Expr
    low: int
    high: int | None


@dataclass(frozen=True)
class Token:
    """One of the tokens with these ids, or any token except the only id if `negated`."""

    ids: tuple[int, ...]
    negated: bool = False


@dataclass(frozen=True)
class Dispatch:
    """Free text in which a rule must follow each trigger.

    `loop` is True if free text may follow the rule. No text of `excludes` occurs in the free text.
    """

    rules: tuple[tuple[str, Name], ...]
    loop: bool
    excludes: tuple[str, ...]


@dataclass(frozen=True)
class TokenDispatch:
    """Free tokens in which a rule must follow each trigger token."""

    rules: tuple[tuple[int, Name], ...]
    loop: bool
    excludes: tuple[int, ...]


@dataclass(frozen=True)
class Substring:
    """Any run of adjacent chunks, also none of them."""

    chunks: tuple[str, ...]


@dataclass(frozen=True)
class Pattern:
    """A text that the regular expression matches as a whole."""

    pattern: str


Expr = Union[Literal, Class, Name, Row, Choice, Repeat, Token, Dispatch, TokenDispatch, Substring, Pattern]

LAST = 0x10FFFF
ANY = Class(((0, LAST),))
"""Any character."""
NOTHING = Class((), negated=False)
"""No character, so no text matches."""

# Binding strengths, from the loosest to the tightest.
CHOICE, ROW, REPEAT = range(3)


def spell(expr: Expr, names: dict[str, str], place: int = CHOICE) -> str:
    """Returns `expr` in GBNF. `names` has the name of each rule in the output.

    `place` is the binding strength of the surroundings, which decides whether parentheses are needed.
    """
    if isinstance(expr, Literal):
        return _literal(expr.text)
    if isinstance(expr, Class):
        return _class(expr)
    if isinstance(expr, Name):
        return names[expr.name]
    if isinstance(expr, Token):
        tokens = [f"{'!' * expr.negated}<[{token}]>" for token in expr.ids]
        return _joined(tokens, " | ", CHOICE, place)
    if isinstance(expr, Row):
        if not expr.items:
            return '""'
        strength = ROW if len(expr.items) > 1 else place
        return _joined((spell(item, names, strength) for item in expr.items), " ", ROW, place)
    if isinstance(expr, Choice):
        if not expr.options:
            return _class(NOTHING)
        strength = CHOICE if len(expr.options) > 1 else place
        return _joined((spell(option, names, strength) for option in expr.options), " | ", CHOICE, place)
    if isinstance(expr, Repeat):
        return _joined([spell(expr.item, names, REPEAT) + _counts(expr)], "", REPEAT, place, group=True)
    raise TypeError(f"{type(expr).__name__} has no spelling in GBNF")


def _joined(texts: Iterable[str], between: str, strength: int, place: int, *, group: bool = False) -> str:
    """Joins parts of the given binding strength, in parentheses if the surroundings bind as tightly."""
    parts = list(texts)
    text = between.join(parts)
    loose = len(parts) > 1 and place > strength
    return f"({text})" if loose or (group and place == REPEAT) else text


def _counts(expr: Repeat) -> str:
    if (expr.low, expr.high) in {(0, None), (1, None), (0, 1)}:
        return {(0, None): "*", (1, None): "+", (0, 1): "?"}[expr.low, expr.high]
    if expr.high is None:
        return f"{{{expr.low},}}"
    return f"{{{expr.low}}}" if expr.low == expr.high else f"{{{expr.low},{expr.high}}}"


def _literal(text: str) -> str:
    return '"' + "".join(_character(ord(c), '"\\') for c in text) + '"'


def _class(expr: Class) -> str:
    if expr.negated and not expr.ranges:
        return "."
    if not expr.ranges:
        return "[^\\x00-\\U0010FFFF]"
    spelt = "".join(
        _character(low, "") + ("-" + _character(high, "") if high > low else "")
        for low, high in _without_surrogates(expr.ranges)
    )
    if not spelt:
        return "." if expr.negated else "[^\\x00-\\U0010FFFF]"
    return f"[{'^' * expr.negated}{spelt}]"


def _without_surrogates(ranges: Sequence[tuple[int, int]]) -> Iterable[tuple[int, int]]:
    """Yields the parts of the ranges that are Unicode scalar values, which UTF-8 can encode."""
    for low, high in ranges:
        if low < 0xD800:
            yield low, min(high, 0xD7FF)
        if high > 0xDFFF:
            yield max(low, 0xE000), min(high, LAST)


def _character(code: int, special: str) -> str:
    """Returns a character of a literal, or of a class if `special` is empty.

    In a class, everything except letters and digits is written as an escape.
    """
    c = chr(code)
    if c in special:
        return "\\" + c
    if (special and " " <= c <= "~") or (c.isascii() and c.isalnum()):
        return c
    if code < 0x100:
        return f"\\x{code:02X}"
    return f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"
