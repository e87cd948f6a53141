"""The source of a grammar, with the options that Formwork compiles it with."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from formwork import _native
from formwork.compat import _json
from formwork.compat._errors import RefusedGrammar, refusals_as, refuse
from formwork.compat._gbnf import to_gbnf
from formwork.compat._layout import ANY_SPACE
from formwork.compat.xgrammar._schemas import DEPTH, close_tuples
from formwork.compat.xgrammar.exception import (
    InvalidJSONError,
    InvalidStructuralTagError,
)

__all__ = [
    "BUILTIN_JSON",
    "Spec",
    "combined",
    "of_ebnf",
    "of_lark",
    "of_regex",
    "of_schema",
    "of_structural_tag",
    "schema_text",
]

LAYOUTS = {
    (None, ", ", ": "): "spaced",
    (None, ",", ":"): "compact",
    (2, ",", ": "): "pretty",
    (2, ", ", ": "): "pretty",
}
"""Layout of Formwork for each indentation, separator of items, and separator after a name."""

NEUTRAL: dict[str, Any] = {
    "max_whitespace_cnt": None,
    "max_tokens": None,
    "max_chars": None,
    "excludes": [],
    "exclude_tokens": [],
    "any_order": False,
    "style": "json",
    "at_least_one": False,
    "stop_after_first": False,
}
"""Fields of formats whose default value has no effect."""


class Spec(NamedTuple):
    """The source of a grammar. Equal sources are equal grammars."""

    kind: str
    """One of `gbnf`, `regex`, `lark`, `schema` and `tag`."""
    text: str
    options: tuple[tuple[str, str], ...] = ()

    def compile(self) -> _native.Grammar:
        """Compiles the source. Raises `RefusedGrammar` if Formwork cannot enforce the grammar exactly."""
        options: dict[str, Any] = dict(self.options)
        with refusals_as(InvalidStructuralTagError if self.kind == "tag" else RefusedGrammar):
            if self.kind == "gbnf":
                return _native.Grammar.gbnf(self.text)
            if self.kind == "regex":
                return _native.Grammar.regex(self.text)
            if self.kind == "lark":
                return _native.Grammar.lark(self.text)
            if self.kind == "schema":
                return _native.Grammar.json_schema(self.text, **options)
            return _native.Grammar.structural_tag(self.text, **options)

    def format(self) -> dict[str, Any]:
        """Returns the source as a format of a structural tag."""
        if self.kind == "gbnf":
            return {"type": "grammar", "grammar": self.text}
        if self.kind == "regex":
            return {"type": "regex", "pattern": self.text}
        if self.kind == "schema":
            return {"type": "json_schema", "json_schema": json.loads(self.text)}
        if self.kind == "tag":
            return dict(json.loads(self.text)["format"])
        with refusals_as(RefusedGrammar):
            return {"type": "grammar", "grammar": self.compile().to_gbnf()}


def of_ebnf(source: str, root: str) -> Spec:
    """Returns the spec of a grammar in XGrammar's EBNF."""
    _expect_text("a grammar", source)
    return Spec("gbnf", to_gbnf(source, root))


def of_regex(pattern: str) -> Spec:
    """Returns the spec of a regular expression."""
    _expect_text("a regular expression", pattern)
    return Spec("regex", pattern)


def of_lark(source: str, named: Mapping[str, Any] | None) -> Spec:
    """Returns the spec of a Lark grammar."""
    _expect_text("a Lark grammar", source)
    if named is not None and not isinstance(named, Mapping):
        raise TypeError("named_grammars must be a dictionary")
    if named:
        refuse("named_grammars is not supported; write the rules into the grammar")
    return Spec("lark", source)


def of_schema(
    schema: Any,
    *,
    any_whitespace: bool = True,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    strict_mode: bool = True,
    max_whitespace_cnt: int | None = None,
    any_order: bool = False,
) -> Spec:
    """Returns the spec of a JSON Schema with XGrammar's options."""
    if max_whitespace_cnt is not None:
        if max_whitespace_cnt < 1:
            raise RuntimeError(f"max_whitespace_cnt must be positive, not {max_whitespace_cnt}")
        if any_whitespace:
            refuse("max_whitespace_cnt is not supported; use any_whitespace=False")
    if any_whitespace:
        layout = ANY_SPACE
    else:
        default = (", " if indent is None else ",", ": ")
        item, name = default if separators is None else separators
        if (indent, item, name) not in LAYOUTS:
            refuse(
                f"indent={indent} with separators=({item!r}, {name!r}) is not supported; "
                'expected indent 2, or no indent with (", ", ": ") or (",", ":")'
            )
        layout = LAYOUTS[indent, item, name]
    options = _options(layout, "any" if any_order else "declared", "omit" if strict_mode else "allow")
    return Spec("schema", _checked(schema_text(schema), strict_mode), options)


def of_structural_tag(text: str) -> Spec:
    """Returns the spec of a structural tag as JSON."""
    read = _json.read(text, "the structural tag", InvalidJSONError)
    if isinstance(read, dict) and "format" in read:
        with refusals_as(InvalidStructuralTagError):
            read = {"type": "structural_tag", **read, "format": _prepared(read["format"], "format")}
    return Spec("tag", json.dumps(read, ensure_ascii=False), _options(ANY_SPACE, "declared", "omit"))


def combined(kind: str, specs: Sequence[Spec]) -> Spec:
    """Returns the spec of grammars one after another (`sequence`), or of any of them (`or`)."""
    if len(specs) == 1:
        return specs[0]
    options = {spec.options for spec in specs if spec.options}
    if len(options) > 1:
        given = " and ".join(sorted(str(dict(each)) for each in options))
        refuse(f"grammars with different options cannot be combined: {given}")
    tag = {
        "type": "structural_tag",
        "format": {"type": kind, "elements": [spec.format() for spec in specs]},
    }
    default = _options(ANY_SPACE, "declared", "omit")
    return Spec("tag", json.dumps(tag, ensure_ascii=False), options.pop() if options else default)


def schema_text(schema: Any) -> str:
    """Returns a schema as JSON. `schema` is JSON, a dict, or a class of Pydantic."""
    if isinstance(schema, str):
        return schema
    if isinstance(schema, dict):
        return json.dumps(schema)
    if isinstance(schema, type):
        for name in ("model_json_schema", "schema"):
            if hasattr(schema, name):
                return json.dumps(getattr(schema, name)())
    raise ValueError(f"a schema must be JSON, a dict or a Pydantic model, not {type(schema).__name__}")


def _options(layout: str, order: str, undeclared: str) -> tuple[tuple[str, str], ...]:
    return (
        ("profile", "accept"),
        ("layout", layout),
        ("order", order),
        ("formats", "assert"),
        ("undeclared", undeclared),
    )


def _checked(text: str, strict: bool) -> str:
    """Returns the JSON of a schema without items that a strict schema does not mention."""
    read = _json.read(text, "the schema", InvalidJSONError)
    closed = close_tuples(read) if strict else read
    return text if closed is read else json.dumps(closed, ensure_ascii=False)


def _expect_text(what: str, value: Any) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{what} must be str, not {type(value).__name__}")


def _prepared(value: Any, place: str, depth: int = 0) -> Any:
    """Returns a format of a structural tag with its grammars in GBNF and its schemas closed."""
    if not isinstance(value, dict) or depth > DEPTH:
        return value
    read = {key: each for key, each in value.items() if key not in NEUTRAL or each != NEUTRAL[key]}
    kind = read.get("type")
    if kind == "grammar" and isinstance(read.get("grammar"), str):
        try:
            read["grammar"] = to_gbnf(read["grammar"])
        except RefusedGrammar as error:
            raise InvalidStructuralTagError(f"{place}.grammar: {error}") from error
    if kind in ("json_schema", "qwen_xml_parameter") and "json_schema" in read:
        read["json_schema"] = close_tuples(read["json_schema"])
        return read
    if "content" in read:
        read["content"] = _prepared(read["content"], f"{place}.content", depth + 1)
    for name in ("elements", "tags"):
        if isinstance(read.get(name), list):
            parts = enumerate(read[name])
            read[name] = [_prepared(part, f"{place}.{name}[{at}]", depth + 1) for at, part in parts]
    if isinstance(read.get("rules"), list):
        read["rules"] = [
            [rule[0], _prepared(rule[1], f"{place}.rules[{at}]", depth + 1)]
            if isinstance(rule, (list, tuple)) and len(rule) == 2
            else rule
            for at, rule in enumerate(read["rules"])
        ]
    return read


BUILTIN_JSON = Spec("schema", '{"type": ["object", "array"]}', _options(ANY_SPACE, "declared", "allow"))
"""Any JSON object or array."""
