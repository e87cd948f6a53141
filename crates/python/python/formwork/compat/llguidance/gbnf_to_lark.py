"""Translates GBNF to Lark."""

from __future__ import annotations

import json
import re

from formwork.compat import _ebnf
from formwork.compat._syntax import (
    Choice,
    Class,
    Expr,
    Literal,
    Name,
    Repeat,
    Row,
    Token,
)

__all__ = ["GbnfToLarkError", "any_to_lark", "gbnf_to_lark", "is_lark_syntax"]


class GbnfToLarkError(ValueError):
    """A grammar that is no GBNF."""


def is_lark_syntax(text: str) -> bool:
    """Reports whether a text is Lark rather than GBNF, in which each rule has `::=`."""
    return "::=" not in text and re.search(r"^\s*[\w?!]+(\.\d+)?(\[[^]]*\])?\s*:", text, re.M) is not None


def any_to_lark(text: str) -> str:
    """Returns a Lark grammar unchanged, and translates a GBNF grammar."""
    return text if is_lark_syntax(text) else gbnf_to_lark(text)


def gbnf_to_lark(text: str) -> str:
    """Returns a GBNF grammar as Lark. Raises `GbnfToLarkError` if it is malformed."""
    try:
        rules = _ebnf.parse(text, gbnf=True)
    except ValueError as error:
        raise GbnfToLarkError(str(error)) from error
    if "root" not in rules:
        raise GbnfToLarkError("the root rule `root` is not defined")
    names: dict[str, str] = {}
    for name in ["root", *rules]:
        base = candidate = (
            "start" if name == "root" else re.sub(r"\W", "_", name).lower().lstrip("_") or "rule"
        )
        number = 2
        while candidate in (known for other, known in names.items() if other != name):
            candidate = f"{base}_{number}"
            number += 1
        names[name] = candidate
    return "".join(f"{names[name]}: {_spelt(rule, names, False)}\n" for name, rule in rules.items())


def _spelt(expr: Expr, names: dict[str, str], inside: bool) -> str:
    """Returns an expression as Lark. It gets parentheses if it is `inside` a repetition or a row."""
    if isinstance(expr, Literal):
        return json.dumps(expr.text, ensure_ascii=False)
    if isinstance(expr, Class):
        return f"/{_class(expr)}/"
    if isinstance(expr, Name):
        return names[expr.name]
    if isinstance(expr, Token) and not expr.negated:
        return f"<[{','.join(map(str, expr.ids))}]>"
    if isinstance(expr, Row):
        if not expr.items:
            return '""'
        text = " ".join(_spelt(item, names, True) for item in expr.items)
        return f"({text})" if inside and len(expr.items) > 1 else text
    if isinstance(expr, Choice):
        text = " | ".join(_spelt(option, names, False) for option in expr.options)
        return f"({text})" if inside else text
    if isinstance(expr, Repeat):
        item = _spelt(expr.item, names, True)
        item = f"({item})" if isinstance(expr.item, Repeat) else item
        high = "" if expr.high is None else expr.high
        marks = {(0, None): "*", (1, None): "+", (0, 1): "?"}
        return item + marks.get((expr.low, expr.high), f"{{{expr.low},{high}}}")
    raise GbnfToLarkError("the grammar has a terminal that Lark does not have")


def _class(expr: Class) -> str:
    if not expr.ranges:
        return r"(.|\n)" if expr.negated else r"[^\s\S]"
    spelt = "".join(
        _character(low) + (f"-{_character(high)}" if high > low else "") for low, high in expr.ranges
    )
    return f"[{'^' * expr.negated}{spelt}]"


def _character(code: int) -> str:
    c = chr(code)
    if c.isascii() and c.isalnum():
        return c
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
