#!/usr/bin/env python3
"""Whatever the budget, an answer is complete and valid, or refused with the least budget that is enough:

    budgets.py --binary target/debug/formwork --maskbench path/to/maskbench-dev

For the standard schemas of MaskBench's development files (of those named `Glaiveai2K---…` and `Github_easy---…` the first ten each
by the SHA-256 of the file name) and for five sets of tools, `max_tokens` goes from the least that the server tells to 200: each of the first
dozen, then every tenth, or all with `--every 1`. One token less than the least must be refused, and nothing above it.
"""

import asyncio
import hashlib
import json
import re
import sys
import time
from pathlib import Path

import asks
from asks import Wrong, check_call, check_valid, parse, say
from clients import check_answered, check_error
from server import Server, arguments

MOST = 200
CLOSE = 12
WORKERS = 4


def function(name, properties, required):
    parameters = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "description": f"Does {name}.", "parameters": parameters}}


TEXT = {"type": "string"}
NESTED = function(
    "order",
    {
        "items": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "properties": {"name": TEXT, "count": {"type": "integer", "minimum": 1}},
                "required": ["name", "count"],
            },
        },
        "pay": {"anyOf": [{"const": "cash"}, {"type": "object", "properties": {"card": TEXT}, "required": ["card"]}]},
    },
    ["items", "pay"],
)
MANY = [function(f"tool_{place}", {f"field_{place}": TEXT, "flag": {"type": "boolean"}}, ["flag"]) for place in range(8)]
BARE = {"type": "function", "function": {"name": "now"}}

TOOL_SETS = {
    "one, required": {"tools": asks.TOOLS[:1], "tool_choice": "required"},
    "nested, named": {"tools": [NESTED, *asks.TOOLS], "tool_choice": {"type": "function", "function": {"name": "order"}}},
    "many, required, in parallel": {"tools": MANY, "tool_choice": "required", "parallel_tool_calls": True},
    "two, auto, one at a time": {"tools": asks.TOOLS, "tool_choice": "auto", "parallel_tool_calls": False},
    "without parameters, allowed": {
        "tools": [BARE, *asks.TOOLS],
        "tool_choice": {
            "type": "allowed_tools",
            "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "now"}}]},
        },
    },
}


def standard_schemas(folder):
    """The standard set, by file name."""
    chosen = {}
    for kind in ("Glaiveai2K---", "Github_easy---"):
        files = sorted(folder.glob(f"{kind}*.json"), key=lambda file: hashlib.sha256(file.name.encode()).hexdigest())
        if len(files) < 10:
            sys.exit(f"{folder} has no MaskBench files")
        chosen |= {file.stem: json.loads(file.read_text())["schema"] for file in files[:10]}
    return chosen


def with_schema(schema):
    """A request with a schema, and the check of its answers."""

    def check(message, finish):
        if finish != "stop":
            raise Wrong(f"the reason is {finish}")
        check_valid(schema, parse(message["content"]))

    messages = say("Fill this in with plausible values.")
    return {"messages": messages, "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}}, check


def with_tools(fields):
    """A request with tools, and the check of its answers. Where a call is not required, text may be cut off."""

    def check(message, finish):
        calls = message.get("tool_calls") or []
        if not calls and fields["tool_choice"] != "auto":
            raise Wrong("no call")
        if calls and finish not in ("tool_calls", "stop"):
            raise Wrong(f"the reason is {finish}")
        if len(calls) > 1 and not fields.get("parallel_tool_calls", True):
            raise Wrong(f"{len(calls)} calls")
        for call in calls:
            check_call(fields["tools"], call["function"])

    return {"messages": say("Please use your tools for two things at once."), **fields}, check


async def least(server, body):
    """The least budget, as the server tells it when it is given less."""
    response = await server.ask({**body, "max_tokens": 1})
    if response.status == 200:
        return 1
    check_error(response, [400])
    error = response.json()["error"]
    numbers = [int(number) for number in re.findall(r"\d+", error["message"])]
    if error["param"] != "max_tokens" or not numbers:
        raise Wrong(f"the least is not told: {error}")
    return max(numbers)


async def budget(server, body, check, tokens):
    """One answer within a budget, at random but always the same."""
    answered = check_answered(await server.ask({**body, "max_tokens": tokens, "temperature": 1, "seed": tokens}))
    [choice] = answered["choices"]
    try:
        check(choice["message"], choice["finish_reason"])
    except Wrong as wrong:
        raise Wrong(f"{wrong}; the message is {choice['message']}") from None
    if answered["usage"]["completion_tokens"] > tokens:
        raise Wrong(f"{answered['usage']['completion_tokens']} tokens")
    return choice.get("closed_by_budget", False)


async def try_all(server, name, ask, every):
    """All budgets of one request."""
    body, check = ask
    body = {"model": server.model, **body}
    result = {"name": name, "least": None, "answers": 0, "closed": 0, "failures": []}
    try:
        result["least"] = least_budget = await least(server, body)
        if least_budget > 1:
            check_error(await server.ask({**body, "max_tokens": least_budget - 1}), [400])
    except Exception as error:
        result["failures"].append({"max_tokens": 1, "error": f"{type(error).__name__}: {error}"})
        return result
    budgets = {*range(least_budget, min(least_budget + CLOSE, MOST + 1)), *range(least_budget, MOST + 1, every)}
    places = iter(sorted(budgets))

    async def worker():
        for tokens in places:
            try:
                result["closed"] += await budget(server, body, check, tokens)
                result["answers"] += 1
            except Exception as error:
                found = {"max_tokens": tokens, "error": f"{type(error).__name__}: {str(error)[:600]}"}
                result["failures"].append(found)
                print(f"! {name}: {found}", flush=True)

    await asyncio.gather(*(worker() for _ in range(WORKERS)))
    print(f"{name}: least {least_budget}, {result['answers']} answers, {result['closed']} closed by it", flush=True)
    return result


async def run(server, options):
    asked = {name: with_schema(schema) for name, schema in standard_schemas(options.maskbench).items()}
    asked |= {name: with_tools(fields) for name, fields in TOOL_SETS.items()}
    started = time.monotonic()
    results = [await try_all(server, name, ask, options.every) for name, ask in asked.items() if options.only in name]
    return {"seconds": time.monotonic() - started, "results": results}


def main():
    parser = arguments(__doc__)
    parser.add_argument("--maskbench", type=Path, required=True, help="the folder of MaskBench's development files")
    parser.add_argument("--every", type=int, default=10, help="the step between budgets beyond the first dozen")
    parser.add_argument("--only", default="", help="those whose names have this in them")
    options = parser.parse_args()
    with Server.of(options) as server:
        report = asyncio.run(run(server, options))
    if options.json:
        options.json.write_text(json.dumps(report, indent=1))
    answers = sum(result["answers"] for result in report["results"])
    failures = sum(len(result["failures"]) for result in report["results"])
    print(f"{answers} answers, {failures} failures in {report['seconds']:.0f} s")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
