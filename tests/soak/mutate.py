#!/usr/bin/env python3
"""Requests that were valid, until something was done to them:

    mutate.py --binary target/debug/formwork --cases 10000

Bodies of all endpoints are mutated: values swapped for others of other types, fields dropped, doubled, renamed and added,
numbers made extreme, strings hostile, subtrees moved, lists and nests made long, bytes flipped. Whatever comes of it, the server must answer, and never with a
fault of its own (503 is none: it has no room); refusals have OpenAI's shape; and afterwards it must serve as before.

The seed is printed. `--seed S --case N` does one case again, and shows the request.
"""

import asyncio
import collections
import copy
import json
import random
import sys
import time

import asks
from asks import Wrong, say
from clients import Busy, check_error
from connection import Connection, request
from server import Server, arguments

# Without `max_tokens` an answer goes on to the end of the context.
CONTEXT = "400"
# A mutation may ask for 128 answers to the end of the context.
PATIENCE = 600
WORKERS = 6

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "string", "maxLength": 3}, "b": {"enum": [1, "x", None]}, "c": {"$ref": "#/$defs/c"}},
    "required": ["b"],
    "additionalProperties": False,
    "$defs": {"c": {"type": "array", "items": {"type": "number", "minimum": 0}, "maxItems": 2}},
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "s", "strict": True, "schema": SCHEMA}}
ARGUMENTS = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["n"]}
FUNCTION = {"name": "f", "description": "d", "strict": False, "parameters": {**ARGUMENTS, "additionalProperties": False}}
TOOLS = [{"type": "function", "function": FUNCTION}, {"type": "function", "function": {"name": "g"}}]
CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"n": 1}'}}
CONVERSATION = [
    {"role": "system", "content": "Hi"},
    {"role": "user", "content": [{"type": "text", "text": "1+2?"}], "name": "ann"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "call_1", "content": "3"},
    {"role": "user", "content": "So?"},
]
TAGS = {
    "type": "structural_tag",
    "structures": [{"begin": "<a>", "schema": {"enum": [1, 2]}, "end": "</a>"}],
    "triggers": ["<a"],
}
SAMPLING = {"temperature": 0.7, "top_p": 0.9, "top_k": 5, "min_p": 0.1, "seed": 3, "stop": ["x"], "logit_bias": {"5": -1}}
PENALTIES = {"presence_penalty": 0.1, "frequency_penalty": 0.1, "repetition_penalty": 1.1}
RESPONSES_TOOL = {"type": "function", **FUNCTION}
RESPONSES_FORMAT = {"format": {"type": "json_schema", "name": "s", "schema": SCHEMA}}
RESPONSES_CONVERSATION = [
    {"role": "user", "content": [{"type": "input_text", "text": "1+2?"}]},
    {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"n": 1}'},
    {"type": "function_call_output", "call_id": "c", "output": "3"},
]

CHAT = "/v1/chat/completions"
BASES = [
    (CHAT, {"messages": say("Hi"), "max_tokens": 4}),
    (CHAT, {"messages": say("Hi"), "max_tokens": 4, **SAMPLING, **PENALTIES, "user": "u", "metadata": {"a": "b"}}),
    (CHAT, {"messages": say("Hi"), "max_tokens": 4, "stream": True, "stream_options": {"include_usage": True}}),
    (CHAT, {"messages": say("Hi"), "max_tokens": 4, "n": 2, "logprobs": True, "top_logprobs": 2}),
    (CHAT, {"messages": say("Hi"), "max_tokens": 30, "response_format": FORMAT, "schema_in_prompt": False}),
    (CHAT, {"messages": say("Hi"), "max_tokens": 30, "response_format": TAGS}),
    (CHAT, {"messages": say("Hi"), "max_tokens": 8, "guided_choice": ["yes", "no"]}),
    (CHAT, {"messages": say("Hi"), "max_tokens": 8, "guided_regex": "[a-c]{1,3}"}),
    (CHAT, {"messages": say("Hi"), "max_tokens": 8, "grammar": 'root ::= "a" b?\nb ::= [0-9] | %json {"enum": [1]}'}),
    (CHAT, {"messages": CONVERSATION, "max_tokens": 4, "tools": TOOLS, "tool_choice": "none"}),
    (CHAT, {"messages": say("Hi"), "max_tokens": 30, "tools": TOOLS, "tool_choice": "required", "stream": True}),
    (CHAT, {"messages": say("Hi"), "max_tokens": 30, "tools": TOOLS, "parallel_tool_calls": False}),
    (CHAT, {"messages": say("Hi"), "max_completion_tokens": 4, "chat_template_kwargs": {"a": 1}}),
    ("/v1/completions", {"prompt": "Hi", "max_tokens": 4, "logprobs": 1, "best_of": 2}),
    ("/v1/completions", {"prompt": ["Hi", "Ho"], "max_tokens": 4, "echo": True, "stream": True, **SAMPLING}),
    ("/v1/responses", {"input": "Hi", "max_output_tokens": 4, "instructions": "Hi", "temperature": 0.5}),
    ("/v1/responses", {"input": "Hi", "max_output_tokens": 30, "text": RESPONSES_FORMAT, "stream": True}),
    ("/v1/responses", {"input": RESPONSES_CONVERSATION, "max_output_tokens": 30, "tools": [RESPONSES_TOOL]}),
    ("/v1/embeddings", {"input": ["Hi", "Ho"], "encoding_format": "float"}),
    ("/v1/embeddings", {"input": [1, 2, 3], "encoding_format": "base64"}),
    ("/tokenize", {"content": "Hi", "add_special": True, "with_pieces": True}),
    ("/tokenize", {"messages": say("Hi"), "add_generation_prompt": True}),
    ("/detokenize", {"tokens": [1, 2, 3]}),
    ("/apply-template", {"messages": CONVERSATION, "tools": TOOLS}),
    ("/v1/grammar/check", {"response_format": FORMAT}),
    ("/v1/grammar/explain", {"response_format": FORMAT, "text": '{"b": '}),
    ("/v1/grammar/sample", {"grammar": "root ::= [a-z]+", "n": 2, "seed": 1, "max_bytes": 50}),
]

NUMBERS = [0, -0.0, -1, 1, 2, 0.5, 1e308, -1e308, 5e-324, 2**31, -(2**31) - 1, 2**32, 2**53 + 1, 2**63, 2**64, -(2**63), 10**30]
# What Python's writer of JSON would not write.
RAW_NUMBERS = ["NaN", "-Infinity", "1e999", "01", "1.", "-", "0x10", "1e-999999"]
STRINGS = [
    "", " ", "\0", "\x1b[2J", "x" * 3000, "😀" * 200, "a\u0301" * 50, "\u202e\ufeff\uffff", "\ud800", "\udc00\ud800", "'\"\\\n\r\t",
    "<|im_end|>", "<|im_start|>system\n", "<tool_call>", "</tool_call>{", "{{ 7*7 }}{% for x in y %}", "%s%n$(id)`id`",
    "../../../../etc/passwd", "file:///etc/passwd", "null", "true", "1e5", "(", "[a-", "a{99999}", "(a*)*b", "(?=x)", "\\p{Greek}",
    "root ::= root", "root ::= (", "#/$defs/c", "#/properties", "http://[", "required", "auto", "none", "function", "user", "tool",
    "data: [DONE]\n\n", "\r\n\r\nHTTP/1.1 200 OK",
]
OTHERS = [None, True, False, [], {}, [[]], [None], {"": None}, [1, "a", {}], {"type": "text"}, {"$ref": "#"}, [[[[[[[[]]]]]]]]]
KEYS = ["", "x", "type", "role", "content", "stream", "n", "tools", "properties", "$ref", "__proto__", "max_tokens", "a.b", "a[0]", "é\0"]


class Raw:
    """Text that stands in a body as it is."""

    def __init__(self, text):
        self.text = text


class Pairs(list):
    """An object's members, of which two may have one name."""


def write(value):
    """JSON, and what is not quite."""
    match value:
        case Raw():
            return value.text
        case Pairs():
            return "{" + ", ".join(f"{json.dumps(name)}: {write(part)}" for name, part in value) + "}"
        case dict():
            return write(Pairs(value.items()))
        case list():
            return "[" + ", ".join(map(write, value)) + "]"
        case _:
            return json.dumps(value)


def places(value, path=()):
    """The paths of all values within one."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in items:
        yield from places(part, (*path, name))


def get(value, path):
    for name in path:
        value = value[name]
    return value


def another(rng, old):
    """A value in place of another: mostly of the kind that makes it hard to tell."""
    if isinstance(old, str) and rng.random() < 0.6:
        return rng.choice(STRINGS)
    if isinstance(old, (int, float)) and rng.random() < 0.6:
        return Raw(rng.choice(RAW_NUMBERS)) if rng.random() < 0.1 else rng.choice(NUMBERS)
    return copy.deepcopy(rng.choice([rng.choice(OTHERS), rng.choice(NUMBERS), rng.choice(STRINGS)]))


def long(rng, old):
    """A value many times over, side by side or one in the other."""
    times = rng.choice([2, 17, 120, 300])
    if rng.random() < 0.5:
        return [copy.deepcopy(old) for _ in range(times)]
    opening, closing = rng.choice([("[", "]"), ('{"a": ', "}")])
    return Raw(opening * times + write(old) + closing * times)


def mutate(rng, body):
    """One change somewhere."""
    path = rng.choice([path for path in places(body) if path])
    holder, name = get(body, path[:-1]), path[-1]
    match rng.choice(["replace", "replace", "replace", "drop", "add", "rename", "move", "long", "double"]):
        case "replace":
            holder[name] = another(rng, holder[name])
        case "drop":
            del holder[name]
        case "add":
            if isinstance(holder, dict):
                holder[rng.choice(KEYS)] = another(rng, None)
            else:
                holder.insert(rng.randrange(len(holder) + 1), another(rng, None))
        case "rename" if isinstance(holder, dict):
            holder[rng.choice(KEYS)] = holder.pop(name)
        case "move":
            holder[name] = copy.deepcopy(get(body, rng.choice(list(places(body)))))
        case "double" if isinstance(holder, dict) and len(path) > 1:
            members = Pairs([*holder.items(), (name, another(rng, holder[name]))])
            get(body, path[:-2])[path[-2]] = Raw(write(members))
        case _:
            holder[name] = long(rng, holder[name])


def flip(rng, data):
    """A body with some bytes changed, left out or put in."""
    data = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(data))
        match rng.randrange(4):
            case 0:
                data[place] ^= 1 << rng.randrange(8)
            case 1:
                del data[place : place + rng.randint(1, 5)]
            case 2:
                data[place:place] = rng.randbytes(rng.randint(1, 3))
            case 3:
                del data[place:]
        data = data or bytearray(b" ")
    return bytes(data)


def case(seed, number, model):
    """The path and body of a case."""
    rng = random.Random(f"{seed} {number}")
    path, body = rng.choice(BASES)
    body = copy.deepcopy({"model": model, **body})
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        if len(list(places(body))) > 1:
            mutate(rng, body)
    data = write(body).encode()
    return path, flip(rng, data) if rng.random() < 0.12 else data


async def check(server, path, data):
    """Sends a body, and gives the status of an answer that is as it must be."""
    async with Connection.open(server.address) as connection:
        await connection.write(request(path, data, server.key))
        status, headers = await connection.start()
        if status != 200:
            body = b"".join([piece async for piece in connection.pieces(headers)])
            check_error(Refusal(status, body))
        elif headers.get("content-type", "").startswith("text/event-stream"):
            events = [event async for event in connection.events(headers)]
            for event in events:
                if event != b"[DONE]" and "error" in asks.parse(event.decode()):
                    raise Wrong(f"the stream failed: {event!r}")
            if not events:
                raise Wrong("a stream without events")
        else:
            asks.parse(b"".join([piece async for piece in connection.pieces(headers)]).decode())
    return status


class Refusal:
    def __init__(self, status, body):
        self.status, self.body = status, body


async def worker(server, seed, numbers, report):
    for number in numbers:
        path, data = case(seed, number, server.model)
        started = time.monotonic()
        try:
            async with asyncio.timeout(PATIENCE):
                status = await check(server, path, data)
        except Busy:
            status = 503
        except Exception as error:
            status = "wrong"
            found = {"case": number, "path": path, "body": data.decode(errors="replace")[:2000]}
            report["failures"].append({**found, "error": f"{type(error).__name__}: {error}"})
            print(f"! --seed {seed} --case {number} {path}: {type(error).__name__}: {str(error)[:300]}", flush=True)
        report["statuses"][f"{path} {status}"] += 1
        report["slowest"] = max(report["slowest"], (time.monotonic() - started, number))


async def run(server, options):
    report = {"seed": options.seed, "statuses": collections.Counter(), "failures": [], "slowest": (0, None)}
    # What is mutated must have been valid, or the mutations would hide behind one refusal.
    for path, body in BASES:
        response = await server.ask({"model": server.model, **body}, path)
        if response.status != 200:
            raise Wrong(f"{path} refuses {body}: {response.body!r}")
    started = time.monotonic()
    numbers = iter(range(options.first, options.cases))
    await asyncio.gather(*(worker(server, options.seed, numbers, report) for _ in range(WORKERS)))
    report["seconds"] = time.monotonic() - started
    report["memory_mb"] = server.memory()
    report["alive"] = server.is_alive() and (await server.get("/health")).status == 200
    for path, body in BASES:
        report["alive"] &= (await server.ask({"model": server.model, **body}, path)).status == 200
    return report


async def again(server, options):
    path, data = case(options.seed, options.case, server.model)
    print(f"POST {path}\n{data.decode(errors='replace')}")
    print(await check(server, path, data))


def main():
    parser = arguments(__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="leave out the cases before this one")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--case", type=int, help="only this one, shown")
    options = parser.parse_args()
    print(f"--seed {options.seed}", flush=True)
    with Server.of(options, "--ctx", CONTEXT) as server:
        if options.case is not None:
            return asyncio.run(again(server, options))
        report = asyncio.run(run(server, options))
    if options.json:
        options.json.write_text(json.dumps(report, indent=1))
    for name, count in sorted(report["statuses"].items()):
        print(f"{count:6} {name}")
    seconds, slowest = report["slowest"]
    print(f"{options.cases - options.first} cases in {report['seconds']:.0f} s, the slowest {seconds:.1f} s (--case {slowest})")
    print(f"{len(report['failures'])} failures, {'alive' if report['alive'] else 'NOT ALIVE'}")
    sys.exit(bool(report["failures"]) or not report["alive"])


if __name__ == "__main__":
    main()
