"""Deprecated compilers. `grammar_from` has replaced them."""

from __future__ import annotations

import re

from formwork.compat.llguidance._grammar import (
    compile_grammar,
    grammar_from_json_schema,
    grammar_from_regex,
)

__all__ = ["JsonCompiler", "LarkCompiler", "RegexCompiler", "regex_to_lark"]


def _checked(grammar: str, check: bool) -> str:
    if check:
        compile_grammar(grammar)
    return grammar


class JsonCompiler:
    """Turns JSON Schemas into texts of grammars."""

    def __init__(
        self,
        separators: tuple[str, str] | None = None,
        whitespace_flexible: bool = False,
        coerce_one_of: bool = False,
        whitespace_pattern: str | None = None,
        json_allowed_escapes: str | None = None,
        json_allow_general_unicode_escapes: bool = False,
    ) -> None:
        """Takes the options of all schemas. The default separators are those of `json.dumps`."""
        item, name = separators or ((",", ":") if whitespace_flexible else (", ", ": "))
        self._options = {
            "item_separator": item,
            "key_separator": name,
            "whitespace_flexible": whitespace_flexible,
            "coerce_one_of": coerce_one_of,
            "whitespace_pattern": whitespace_pattern,
            "json_allowed_escapes": json_allowed_escapes,
            "json_allow_general_unicode_escapes": json_allow_general_unicode_escapes,
        }

    def compile(self, schema: str, check: bool = True) -> str:
        """Returns the text of a grammar. Raises `ValueError` if `check` finds an error."""
        return _checked(grammar_from_json_schema(schema, overrides=self._options), check)


class LarkCompiler:
    """Turns Lark grammars into texts of grammars."""

    def compile(self, lark: str, check: bool = True) -> str:
        """Returns the text of a grammar. Raises `ValueError` if `check` finds an error."""
        return _checked(lark, check)


class RegexCompiler:
    """Turns regular expressions into texts of grammars."""

    def compile(self, regex: str, check: bool = True) -> str:
        """Returns the text of a grammar. Raises `ValueError` if `check` finds an error."""
        return _checked(grammar_from_regex(regex), check)


ASCII = {"d": "0-9", "w": "0-9a-zA-Z_", "s": r" \t\n\r\f\v"}
"""The characters of each class of a regular expression, in ASCII."""


def regex_to_lark(regex: str, use_ascii: str = "d") -> str:
    """Returns a regular expression as it stands between the slashes of a Lark grammar.

    `use_ascii` has the letters of the classes that become ASCII only, among `d`, `w` and `s`.
    """
    written: list[str] = []
    in_class = False
    for piece in re.findall(r"\\.|.", regex, flags=re.DOTALL):
        letter = piece[1:].lower()
        if piece == "/":
            piece = r"\/"
        elif piece == "\n":
            piece = r"\n"
        elif len(piece) == 2 and letter in ASCII and letter in use_ascii:
            negated = piece[1] != letter
            if in_class and negated:
                raise ValueError(f"{piece} within a class cannot become ASCII")
            inner = ASCII[letter]
            piece = inner if in_class else f"[{'^' * negated}{inner}]"
        elif piece == "[" or piece == "]":
            in_class = piece == "["
        written.append(piece)
    return "".join(written)
