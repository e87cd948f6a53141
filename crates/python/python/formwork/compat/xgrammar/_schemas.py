"""Changes of JSON Schemas."""

from __future__ import annotations

from typing import Any

__all__ = ["close_tuples"]

DEPTH = 200
"""Maximum nesting that is searched. Formwork refuses deeper schemas."""

ONE = frozenset({
    "additionalProperties", "additionalItems", "items", "contains", "propertyNames", "not", "if", "then",
    "else", "unevaluatedItems", "unevaluatedProperties",
})  # fmt: skip
"""Keywords whose value is a schema."""

LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems", "items"})
"""Keywords whose value is a list of schemas."""

MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose value has schemas by name."""


def close_tuples(schema: Any) -> Any:
    """Returns a schema in which no array has items beyond its `prefixItems`, unless the schema describes them.

    XGrammar's strict mode does this. Members of objects need no change, because Formwork omits members that
    a schema with `properties` does not mention. Returns `schema` itself if nothing changes.
    """
    return _closed(schema, 0)


def _closed(schema: Any, depth: int) -> Any:
    if not isinstance(schema, dict) or depth > DEPTH:
        return schema
    changed: dict[str, Any] = {}
    for key, value in schema.items():
        if key in LISTS and isinstance(value, list):
            new: Any = [_closed(each, depth + 1) for each in value]
            same = all(a is b for a, b in zip(new, value))
        elif key in MAPS and isinstance(value, dict):
            new = {name: _closed(each, depth + 1) for name, each in value.items()}
            same = all(new[name] is value[name] for name in value)
        elif key in ONE:
            new = _closed(value, depth + 1)
            same = new is value
        else:
            continue
        if not same:
            changed[key] = new
    if "prefixItems" in schema and not schema.keys() & {"items", "unevaluatedItems", "$ref", "allOf"}:
        changed["items"] = False
    return {**schema, **changed} if changed else schema
