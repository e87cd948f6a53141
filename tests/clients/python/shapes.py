"""What is asked for, and what may be said of any answer to it.

The model under test is small: what it says means nothing, so tests are about shapes and guarantees only.
"""

import json
from typing import Literal

import jsonschema
from pydantic import BaseModel, Field


class Pet(BaseModel):
    kind: str = Field(max_length=12)
    age: int = Field(ge=0, le=30)


class Person(BaseModel):
    """A definition, an enum, bounds, an array and a union, within some 60 tokens."""

    name: str = Field(max_length=12)
    mood: Literal["calm", "merry"]
    pet: Pet | None
    scores: list[int] = Field(max_length=3)


class Sum(BaseModel):
    """The result of a tool, small enough for a few tokens."""

    left: int = Field(ge=0, le=99)
    right: int = Field(ge=0, le=99)


ASK = [{"role": "user", "content": "Tell me about the sea."}]
ASK_PERSON = [{"role": "user", "content": "Describe a sailor."}]
ASK_WEATHER = [{"role": "user", "content": "What is the weather in Oslo?"}]


def function(name, description, properties, required=None):
    """A tool as chat completions take it."""
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else required,
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


WEATHER = function(
    "get_weather",
    "The weather in a city.",
    {"city": {"type": "string", "maxLength": 12}, "days": {"enum": [1, 7]}},
)
SEARCH = function(
    "search",
    "Searches a library.",
    {"query": {"type": "string", "maxLength": 12}, "limit": {"type": "integer", "minimum": 1, "maximum": 9}},
    ["query"],
)
CLOCK = {"type": "function", "function": {"name": "get_time", "description": "The time of day."}}
TOOLS = [WEATHER, SEARCH]


def named(name):
    """The `tool_choice` of one tool."""
    return {"type": "function", "function": {"name": name}}


def allowed(mode, *names):
    """The `tool_choice` of some of the tools."""
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": [named(name) for name in names]}}


def responses_tool(tool):
    """A tool of chat completions as the Responses API takes it."""
    return {"type": "function", **tool["function"]}


def check_arguments(tools, name, arguments):
    """Arguments must be those of a known tool, as its schema has them."""
    known = {tool["function"]["name"]: tool["function"].get("parameters", {"type": "object"}) for tool in tools}
    assert name in known
    value = json.loads(arguments) if isinstance(arguments, str) else arguments
    jsonschema.validate(value, known[name])
    return value


def check_calls(tools, message):
    """All calls of a message of chat completions: valid, and told apart by their ids."""
    for call in message.tool_calls:
        assert call.type == "function"
        assert call.id
        check_arguments(tools, call.function.name, call.function.arguments)
    assert len({call.id for call in message.tool_calls}) == len(message.tool_calls)


def check_called(tools, choice):
    """A choice that must be calls."""
    assert choice.message.tool_calls
    assert not choice.message.content
    check_calls(tools, choice.message)


def check_either(tools, choice):
    """A choice that may be text or calls, and says truly which."""
    if choice.message.tool_calls:
        assert choice.finish_reason == "tool_calls"
        check_calls(tools, choice.message)
    else:
        assert choice.finish_reason in ("stop", "length")
        assert choice.message.content


def calls(message):
    """Names and arguments, without ids, to compare two messages."""
    return [(call.function.name, call.function.arguments) for call in message.tool_calls or []]
