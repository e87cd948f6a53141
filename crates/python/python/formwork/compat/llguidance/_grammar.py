"""Grammars as texts, in the form that `LLMatcher` takes.

A text is a Lark grammar, or a JSON object with a list `grammars`. The first grammar of the list has one of the
fields `json_schema`, `lark_grammar`, `regex`, `gbnf` and `structural_tag`. The last three are Formwork's own.
"""

from __future__ import annotations

import json
import re
from typing import Any

from formwork import _native
from formwork.compat import _json
from formwork.compat._errors import RefusedGrammar, refuse
from formwork.compat._layout import ANY_SPACE

__all__ = [
    "compile_grammar",
    "grammar_from",
    "grammar_from_json_schema",
    "grammar_from_regex",
    "native_grammar",
]

OPTIONS = {
    "item_separator",
    "key_separator",
    "whitespace_flexible",
    "whitespace_pattern",
    "coerce_one_of",
    "lenient",
    "json_allowed_escapes",
    "json_allow_general_unicode_escapes",
}
"""Known names in the field `x-guidance` of a schema."""

LAYOUTS = {(",", ":"): "compact", (", ", ": "): "spaced"}
"""Layout for each separator of items and separator after a name."""

NO_OPTIONS = re.compile(r"\A[ \t\r\n]*%llguidance[ \t]*\{[ \t]*\}")
"""A first line without options, which llguidance's own tools write. The line break stays."""


def native_grammar(kind: str, source: Any) -> str:
    """Returns the text of a grammar whose field is `kind`."""
    return json.dumps({"grammars": [{kind: source}]}, ensure_ascii=False)


def grammar_from_json_schema(
    schema: str | dict[str, Any] | bool,
    defaults: dict[str, Any] | None = None,
    overrides: dict[str, Any] | None = None,
) -> str:
    """Returns the text of a grammar for a JSON Schema, which is JSON or a dict.

    The options of `overrides` come before those in the schema's field `x-guidance`, and `defaults` come last.
    """
    if isinstance(schema, str):
        schema = _json.read(schema, "the schema", ValueError)
    if not isinstance(schema, (dict, bool)):
        raise ValueError(f"a schema must be an object or a truth value, not {type(schema).__name__}")
    if defaults or overrides:
        own: dict[str, Any] = {} if isinstance(schema, dict) else ({} if schema else {"not": {}})
        own = schema if isinstance(schema, dict) else own
        options = {**(defaults or {}), **own.get("x-guidance", {}), **(overrides or {})}
        schema = {**own, "x-guidance": options}
    return native_grammar("json_schema", schema)


def grammar_from_regex(regex: str) -> str:
    """Returns the text of a grammar for a regular expression, which must match the whole output."""
    return native_grammar("regex", regex)


def grammar_from(format: str, text: Any) -> str:
    """Returns the text of a grammar in a format.

    Formats are `lark`, `json_schema` or `json`, `regex`, `choice` (a list of texts, or one as JSON),
    `llguidance` (`text` itself), and `gbnf`, `ebnf`, `cfg` or `grammar` (GBNF or Lark).
    """
    if format == "lark":
        return str(text)
    if format in ("json_schema", "json"):
        return grammar_from_json_schema(text)
    if format == "regex":
        return grammar_from_regex(text)
    if format == "choice":
        return native_grammar("choices", json.loads(text) if isinstance(text, str) else list(text))
    if format == "llguidance":
        return str(text)
    if format in ("gbnf", "ebnf", "cfg", "grammar"):
        return native_grammar("gbnf", text) if "::=" in text else str(text)
    raise ValueError(f"unknown format of a grammar: {format!r}")


def compile_grammar(text: str) -> _native.Grammar:
    """Compiles the text of a grammar. Raises `GrammarError` if it is malformed or cannot be enforced."""
    if not text.strip():
        refuse("the grammar is empty")
    if not text.lstrip().startswith("{"):
        return _lark(text)
    read = _json.read(text, "the grammar", RefusedGrammar)
    grammars = read.get("grammars")
    if not isinstance(grammars, list) or not grammars or not isinstance(grammars[0], dict):
        refuse("expected an object with a list `grammars` of objects")
    return _compile_object(grammars[0])


def _compile_object(grammar: dict[str, Any]) -> _native.Grammar:
    fields = {name: value for name, value in grammar.items() if value is not None and name != "name"}
    fields.pop("max_tokens", None)
    if len(fields) != 1:
        refuse(f"expected one of `json_schema` and `lark_grammar`, not {sorted(fields)}")
    ((kind, source),) = fields.items()
    if kind == "json_schema":
        return _schema(source)
    if kind == "structural_tag":
        return _native.Grammar.structural_tag(json.dumps(source, ensure_ascii=False), **_options({}))
    if kind == "choices" and isinstance(source, list) and all(isinstance(each, str) for each in source):
        return _native.Grammar.choices(source)
    if not isinstance(source, str):
        refuse(f"`{kind}` must be a text")
    if kind == "lark_grammar":
        return _lark(source)
    if kind == "regex":
        return _native.Grammar.regex(source)
    if kind == "gbnf":
        return _native.Grammar.gbnf(source)
    refuse(f"unknown field `{kind}`; expected `json_schema` or `lark_grammar`")


def _lark(source: str) -> _native.Grammar:
    source = NO_OPTIONS.sub("", source)
    return _native.Grammar.lark(source)


def _schema(schema: Any) -> _native.Grammar:
    options: Any = {}
    if isinstance(schema, dict) and "x-guidance" in schema:
        options = schema["x-guidance"]
        schema = {name: value for name, value in schema.items() if name != "x-guidance"}
    if not isinstance(options, dict):
        refuse("`x-guidance` must be an object")
    return _native.Grammar.json_schema(json.dumps(schema, ensure_ascii=False), **_options(options))


def _options(given: dict[str, Any]) -> dict[str, Any]:
    """Returns Formwork's options for those of llguidance.

    `lenient` and `coerce_one_of` have no effect, because Formwork enforces or refuses every keyword.
    """
    unknown = sorted(given.keys() - OPTIONS)
    if unknown:
        refuse(f"unknown options in `x-guidance`: {', '.join(unknown)}")
    for name in ("whitespace_pattern", "json_allowed_escapes"):
        if given.get(name) is not None:
            refuse(f"the option `{name}` is not supported")
    separators = (given.get("item_separator") or ",", given.get("key_separator") or ":")
    layout = ANY_SPACE
    if given.get("whitespace_flexible") is False:
        if separators not in LAYOUTS:
            refuse(f'separators {separators} are not supported; expected (",", ":") or (", ", ": ")')
        layout = LAYOUTS[separators]
    return {
        "profile": "accept",
        "layout": layout,
        "order": "declared",
        "formats": "assert",
        "undeclared": "allow",
    }
