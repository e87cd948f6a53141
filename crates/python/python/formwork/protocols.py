"""Adaptation, repair and directives: protocols that make the output of any model fit."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from formwork import _native
from formwork._native import Adapter
from formwork.model import _checked

__all__ = ["adapt", "parse_directives", "repair", "run_directives"]

Ask = Callable[[dict[str, Any]], "str | dict[str, Any]"]
"""Answers a chat request, given as a dict, with the text of the answer or the body of a chat completion."""


def adapt(text: str, schema: Any, **options: Any) -> dict[str, Any]:
    """Fits a text to a schema, as far as this is possible without guessing.

    Returns a dict with `valid`, `value`, `errors`, `truncated` and `transforms`. `options` are those of
    [`Adapter`][formwork.Adapter], which is faster for several texts.
    """
    return Adapter(schema, **options).adapt(text)


def repair(text: str | None, schema: Any, ask: Ask, **options: Any) -> dict[str, Any]:
    """Fits an answer to a schema. Asks the model for a correction where adaptation is not enough.

    `ask` is called with the request of each correction. Without a text, the model is asked first. Options:
    `prompt`, `max_attempts`, `level`, `tolerant` and `strict`. Returns a dict with `verdict`, `value`, `errors`,
    `text`, `repairs` and `attempts`.
    """
    return _native.repair(schema, text, ask, **options)


def run_directives(
    prompt: str | Sequence[Mapping[str, Any]], registry: Mapping[str, Any], ask: Ask, **fields: Any
) -> dict[str, Any]:
    """Asks a model for a text with directives, from the strictest mode that it supports to the loosest.

    `registry` has the `definitions` of the directives. `fields` are those of `POST /v1/directives`, such as
    `require` and `modes`. Returns a dict with `ok`, `assistant_text`, `directives`, `errors` and `attempts`.
    """
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)
    return _native.run_directives({"messages": messages, "registry": registry, **fields}, ask)


def parse_directives(text: str, registry: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    """Reads the directives in an answer from elsewhere. `fields` are those of `POST /v1/directives/parse`."""
    body = json.dumps({"text": text, "registry": registry, **fields}).encode()
    return _checked(*_server().request("POST", "/v1/directives/parse", body))


@functools.cache
def _server() -> _native.App:
    """Returns a server without a model, which all calls share."""
    return _native.App.without_model()
