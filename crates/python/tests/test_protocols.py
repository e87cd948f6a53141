"""Adaptation, repair, directives and fields."""

from __future__ import annotations

import json

import pytest

import formwork

SCHEMA = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}
REGISTRY = {"definitions": [{"type": "ui.toast", "description": "Shows a short message."}]}


def test_adapts_a_text() -> None:
    adapted = formwork.adapt('Here:\n```json\n{"count": "42"}\n```', SCHEMA)
    assert adapted["valid"] and adapted["value"] == {"count": 42}
    assert adapted["transforms"] == ["extract", "json.loads", "str->int"]
    broken = formwork.adapt("{count: 7,}", SCHEMA, level="full", tolerant=1)
    assert broken["value"] == {"count": 7}
    assert not formwork.adapt("none", SCHEMA)["valid"]
    with pytest.raises(ValueError, match="level"):
        formwork.adapt("", SCHEMA, level="most")


def test_repairs_with_a_callback() -> None:
    asked = []

    def ask(request: dict) -> str:
        asked.append(request)
        return '{"count": 3}'

    repaired = formwork.repair('{"count": "many"}', SCHEMA, ask)
    assert repaired["verdict"] == "valid" and repaired["value"] == {"count": 3}
    assert len(asked) == 1 and asked[0]["messages"]
    assert formwork.repair('{"count": 1}', SCHEMA, ask)["value"] == {"count": 1}
    assert len(asked) == 1
    assert formwork.repair(None, SCHEMA, ask, prompt="How many?")["value"] == {"count": 3}


def test_an_exception_of_the_callback_ends_the_run() -> None:
    def ask(request: dict) -> str:
        raise KeyError("no model")

    with pytest.raises(KeyError, match="no model"):
        formwork.repair("{}", SCHEMA, ask)
    with pytest.raises(KeyError, match="no model"):
        formwork.run_directives("Hi", REGISTRY, ask)


def test_runs_directives_down_the_ladder() -> None:
    answers = ["no JSON at all", json.dumps({"assistant_text": "Saved.", "directives": [{"type": "ui.toast", "payload": {}}]})]

    def ask(request: dict) -> str:
        return answers.pop(0)

    result = formwork.run_directives("Tell me that it is saved.", REGISTRY, ask)
    assert result["ok"] and result["assistant_text"] == "Saved."
    assert result["directives"][0]["type"] == "ui.toast"
    assert len(result["attempts"]) == 2


def test_parses_directives() -> None:
    text = json.dumps({"assistant_text": "Hi", "directives": []})
    assert formwork.parse_directives(text, REGISTRY)["ok"]
    with pytest.raises(formwork.ApiError, match="registry") as raised:
        formwork.parse_directives(text, {"definitions": [{}]})
    assert raised.value.status == 400


def test_uses_definitions_of_fields() -> None:
    strength = {"name": "strength", "type": "int", "min": 1, "max": 10}
    fields = formwork.Fields(json.dumps({"name": "Stats", "type": "composite", "fields": [strength]}))
    assert fields.grammar().accepts(b'{"strength": 7}')
    assert fields.validate('{"strength": 12}')
    assert fields.schema()["type"] == "object"
    with pytest.raises(ValueError, match="unknown format"):
        formwork.Fields("{}", "xml")
