"""What is asked, and what must be true of any answer to it.

Most requests carry a word of their own that the answer must have: in a `const` of a schema, in a choice, in a regular expression.
An answer that belongs to another request shows by that.
"""

import json
import random
from pathlib import Path

from jsonschema.validators import validator_for

GRAMMARS = Path(__file__).parent.parent.parent / "grammars"
SHIPPED = [json.loads(path.read_text()) for path in sorted(GRAMMARS.glob("*.schema.json"))]

OWN = [
    {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": ["string", "null"], "maxLength": 9}}},
    {"type": "object", "properties": {"d": {"type": "string", "format": "date-time"}}, "required": ["d"]},
    {"type": "object", "properties": {"p": {"type": "string", "pattern": "^[a-f]{2,8}-[0-9]+$"}}, "required": ["p"]},
    {"type": "object", "properties": {"u": {"items": {"type": "integer"}, "maxItems": 4, "uniqueItems": True}}},
    {"type": "object", "patternProperties": {"^x_": {"type": "number"}}, "additionalProperties": False},
    {
        "type": "object",
        "properties": {"kind": {"enum": ["circle", "square"]}},
        "required": ["kind"],
        "if": {"properties": {"kind": {"const": "circle"}}},
        "then": {"properties": {"radius": {"type": "integer"}}, "required": ["radius"]},
        "else": {"properties": {"side": {"type": "integer"}}, "required": ["side"]},
    },
    {
        "type": "object",
        "properties": {"list": {"$ref": "#/$defs/list"}},
        "required": ["list"],
        "$defs": {
            "list": {
                "oneOf": [
                    {"type": "null"},
                    {
                        "type": "object",
                        "properties": {"head": {"type": "boolean"}, "tail": {"$ref": "#/$defs/list"}},
                        "required": ["head", "tail"],
                        "additionalProperties": False,
                    },
                ]
            }
        },
    },
    {"type": "object", "properties": {"m": {"multipleOf": 0.25, "minimum": -4, "maximum": 4}}, "required": ["m"]},
]

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather in a city.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string", "maxLength": 16}, "days": {"enum": [1, 3, 7]}},
                "required": ["city"],
                "additionalProperties": False,
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "add",
            "description": "Adds two numbers.",
            "parameters": {
                "type": "object",
                "properties": {"left": {"type": "number"}, "right": {"type": "number"}},
                "required": ["left", "right"],
                "additionalProperties": False,
            },
        },
    },
]

TOPICS = ["the sea", "a lighthouse", "bread", "a red bicycle", "the moon", "an old map", "rain", "a violin"]


class Wrong(Exception):
    """An answer that must not be."""


def word(rng):
    """A word that no other request has."""
    return f"w{rng.getrandbits(48):012x}"


def say(text):
    return [{"role": "user", "content": text}]


def with_word(schema, own):
    """A schema whose values have a member of their own. Values that were not objects are put into one."""
    if schema.get("type") == "object":
        properties = {"own": {"const": own}, **schema.get("properties", {})}
        required = ["own", *schema.get("required", [])]
        return {**schema, "properties": properties, "required": required}
    definitions = {name: schema[name] for name in ("$defs", "definitions") if name in schema}
    value = {name: part for name, part in schema.items() if name not in definitions}
    properties = {"own": {"const": own}, "value": value}
    return {**definitions, "type": "object", "properties": properties, "required": list(properties)}


def check_valid(schema, value):
    kind = validator_for(schema)
    if errors := list(kind(schema, format_checker=kind.FORMAT_CHECKER).iter_errors(value)):
        raise Wrong(f"{json.dumps(value)} is not valid: {errors[0].message}")


def parse(text):
    try:
        return json.loads(text)
    except ValueError as error:
        raise Wrong(f"{text!r} is not JSON") from error


def schema_ask(rng, model):
    """A request with a schema, and the check of its answer."""
    own = word(rng)
    schema = with_word(rng.choice(SHIPPED + OWN), own)
    body = {
        "model": model,
        "messages": say(f"Describe {rng.choice(TOPICS)}."),
        "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}},
        "max_tokens": rng.choice([80, 120]),
        "temperature": rng.choice([0, 0.7, 1.3]),
    }

    def check(message, finish):
        value = parse(message["content"])
        check_valid(schema, value)
        if value["own"] != own or finish != "stop":
            raise Wrong(f"expected {own} and stop, got {value['own']} and {finish}")

    return body, check


def choice_ask(rng, model):
    """One of three words of its own, in free text's clothes."""
    words = [word(rng) for _ in range(3)]
    body = {"model": model, "messages": say("Choose."), "guided_choice": words, "max_tokens": 40}

    def check(message, finish):
        if message["content"] not in words or finish != "stop":
            raise Wrong(f"expected one of {words}, got {message['content']!r} and {finish}")

    return body, check


def tools_ask(rng, model):
    """A request with tools, of which one has a word of its own in its arguments."""
    own = word(rng)
    mark = {
        "type": "function",
        "function": {
            "name": "mark",
            "description": "Notes something.",
            "parameters": {"type": "object", "properties": {"own": {"const": own}}, "required": ["own"]},
        },
    }
    tools = [mark, *TOOLS]
    choice = rng.choice(["auto", "required", "none", {"type": "function", "function": {"name": "mark"}}])
    body = {
        "model": model,
        "messages": say(f"What is the weather at {rng.choice(TOPICS)}?"),
        "tools": tools,
        "tool_choice": choice,
        "parallel_tool_calls": rng.random() < 0.5,
        "max_tokens": 80,
        "temperature": rng.choice([0, 1]),
    }

    def check(message, finish):
        calls = message.get("tool_calls") or []
        if bool(calls) != (finish == "tool_calls") and not (calls and isinstance(choice, dict)):
            raise Wrong(f"{len(calls)} calls and {finish}")
        if (choice == "none" and calls) or (choice not in ("none", "auto") and not calls):
            raise Wrong(f"{len(calls)} calls where the choice is {choice}")
        if len(calls) > 1 and not body["parallel_tool_calls"]:
            raise Wrong(f"{len(calls)} calls in parallel")
        if len({call["id"] for call in calls}) != len(calls):
            raise Wrong("calls share an id")
        for call in calls:
            check_call(tools, call["function"])

    return body, check


def check_call(tools, function):
    known = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}
    if function["name"] not in known:
        raise Wrong(f"{function['name']} is not a tool")
    check_valid(known[function["name"]], parse(function["arguments"]))


def repeated_ask(rng, model):
    """A word of its own over and over: of this any part can be told to be right."""
    own = word(rng)
    body = {
        "model": model,
        "messages": say(f"Tell me about {rng.choice(TOPICS)}."),
        "guided_regex": f"({own} ){{40}}",
        "stream": True,
        "max_tokens": 600,
    }
    return body, f"{own} " * 40


def fixed_asks(model, count=100):
    """The same requests every time: random by their seeds, of all lengths of prompts, with and without constraints."""
    rng = random.Random(20)
    passage = json.dumps(SHIPPED)
    asks = []
    for place in range(count):
        # Prompts share their beginnings, which a cache of prefixes makes use of.
        prompt = passage[: rng.choice([0, 0, 0, 60, 300, 600, 1600])] + f" Tell me about {rng.choice(TOPICS)}."
        body = {
            "model": model,
            "messages": say(prompt),
            "max_tokens": rng.choice([8, 16, 24]),
            "temperature": rng.choice([0.3, 0.8, 1.2, 1.8]),
            "seed": place * 7919,
        }
        match place % 5:
            case 1:
                body |= {"top_p": 0.9, "frequency_penalty": 0.4}
            case 2:
                schema = {"name": "s", "schema": rng.choice(SHIPPED)}
                body |= {"response_format": {"type": "json_schema", "json_schema": schema}, "max_tokens": 90}
            case 3:
                body |= {"guided_regex": "[a-z ]{20,60}", "max_tokens": 24 + 40}
            case 4:
                body |= {"top_k": 40, "stop": ["."], "presence_penalty": 0.3}
        asks.append(body)
    return asks
