#!/usr/bin/env python3
"""Hostile schemas beside clients that generate:

    attack.py --binary target/release/formwork --seconds 60 --json report.json

Four clients generate text: first alone, then while 16 others send 200 hostile schemas or more, to `/v1/grammar/check` and as the
`response_format` of chat completions. What is checked:

- the server is not restarted, and answers afterwards;
- its resident memory stays within 512 MB of what it was;
- the four clients lose less than 20% of their speed;
- each hostile request gets 200, or a 400 whose error names the place and, if it exceeds one, the limit.

The exit code says whether all held.
"""

import asyncio
import itertools
import json
import random
import re
import sys
import time

from server import Server, arguments

GENERATING = 4
HOSTILE = 16
SCHEMAS = 200
MEMORY_MB = 512
LOSS = 0.2
# A compilation has a second of processor time; with its wait for a worker a request has this many seconds.
PATIENCE = 60

FORMATS = ["date-time", "uri", "email", "idn-email", "hostname", "uuid", "iri", "regex", "duration", "ipv6"]
PRIMES = [2, 3, 5, 7, 11, 13, 17, 19, 23, 97, 101, 7919, 65537, 999983]


def two(at):
    return [{"required": [f"a{at}"]}, {"required": [f"b{at}"]}]


def nest(depth, inner, wrap):
    for at in range(depth):
        inner = wrap(inner, at)
    return inner


def chain(count, last, wrap):
    definitions = {f"d{at}": wrap({"$ref": f"#/$defs/d{at + 1}"}, at) for at in range(count)}
    return {"$ref": "#/$defs/d0", "$defs": {**definitions, f"d{count}": last}}


# From a number of parts to a schema; each takes 5 to some hundreds.
ATTACKS = {
    "choices of required": lambda n, rng: {"allOf": [{rng.choice(["anyOf", "oneOf"]): two(at)} for at in range(n)]},
    "choices of members": lambda n, rng: {
        "type": "object",
        "allOf": [{"anyOf": [{"properties": {f"p{at}": {"type": name}}} for name in ("integer", "string")]} for at in range(n)],
    },
    "if, then and else": lambda n, rng: {
        "allOf": [
            {"if": {"properties": {f"k{at}": {"const": at}}, "required": [f"k{at}"]}, "then": {"required": [f"k{at + 1}"]}, "else": {"maxProperties": n}}
            for at in range(n)
        ]
    },
    "dependents": lambda n, rng: {
        "dependentRequired": {f"n{at}": [f"n{rng.randrange(n)}"] for at in range(n)},
        "dependentSchemas": {f"n{at}": {"anyOf": two(at)} for at in range(n)},
    },
    "multiples": lambda n, rng: {
        "type": "number",
        rng.choice(["allOf", "anyOf", "oneOf"]): [
            {"multipleOf": rng.choice(PRIMES) / 10 ** rng.randrange(4), "minimum": at, "not": {"multipleOf": rng.choice(PRIMES)}} for at in range(n)
        ],
    },
    "patterned names": lambda n, rng: {
        "patternProperties": {f"{chr(97 + at % 26)}.{{{at % 12}}}$": {"minLength": at} for at in range(n)},
        "propertyNames": {"pattern": f"^(.*a){{{n}}}"},
        "additionalProperties": False,
    },
    "unevaluated": lambda n, rng: {
        "anyOf": [{"properties": {f"p{at}": {}}, "required": [f"p{at}"]} for at in range(n)],
        "oneOf": [{"patternProperties": {f"^{at}": {}}} for at in range(n)],
        "unevaluatedProperties": False,
    },
    "contains": lambda n, rng: {
        "type": "array",
        "uniqueItems": True,
        "minItems": n,
        "allOf": [{"contains": {"minimum": at, "maximum": at + 9}, "minContains": at % 5} for at in range(n)],
    },
    "large values": lambda n, rng: {"enum": [{f"m{part}": at * part for part in range(9)} for at in range(n * 10)]},
    "long strings": lambda n, rng: {"type": "string", "not": {"enum": ["ab" * 400 + str(at) for at in range(n)]}},
    "counted patterns": lambda n, rng: {"type": "string", "pattern": f"^((a|b{{0,{n}}}){{0,{n}}}c){{0,{n}}}$", "maxLength": n * n},
    "look-around": lambda n, rng: {"type": "string", "pattern": "".join(f"(?=.*{at}.{{{at % 20}}})" for at in range(n))},
    "formats": lambda n, rng: {"type": "string", "allOf": [{"format": rng.choice(FORMATS)}, {"not": {"format": rng.choice(FORMATS)}}, {"pattern": f"a.{{{n % 40}}}"}]},
    "chains of references": lambda n, rng: chain(n * 60, {"type": "null"}, lambda ref, at: ref),
    "tangled references": lambda n, rng: {
        "$ref": "#/$defs/d0",
        "$defs": {f"d{at}": {"properties": {"x": {"allOf": [{"$ref": f"#/$defs/d{(at * by + 1) % n}"} for by in range(1, 5)]}}} for at in range(n)},
    },
    "negations in depth": lambda n, rng: nest(n, {"type": "integer"}, lambda inner, at: {"not": {"allOf": [inner, {"minimum": at}]}}),
    "members in depth": lambda n, rng: nest(n, {"enum": [1]}, lambda inner, at: {"properties": {"a": inner}, "additionalProperties": {"items": {"type": "null"}}}),
    "branches that double": lambda n, rng: nest(min(n, 11), {"minimum": 3}, lambda inner, at: {"if": inner, "then": {"not": inner}, "else": inner}),
    "huge counts": lambda n, rng: {"type": ["string", "array", "object"], "minLength": n * 10**6, "minItems": n * 10**6, "minProperties": n * 10**6},
    "many members": lambda n, rng: {"properties": {f"p{at}": {"type": "integer", "minimum": at} for at in range(n * 60)}, "minProperties": n},
}


def hostile_schemas(seed):
    """Schemas of at most a megabyte, without end."""
    rng = random.Random(seed)
    for number, name in enumerate(itertools.cycle(ATTACKS)):
        size = int(5 * 60 ** rng.random())
        schema = ATTACKS[name](size, rng)
        while len(json.dumps(schema)) > 1 << 20:
            size //= 2
            schema = ATTACKS[name](size, rng)
        yield number, f"{name} of {size}", schema


class Attack:
    def __init__(self, server, options):
        self.server = server
        self.options = options
        self.tokens = 0
        self.sent = 0
        self.answers = {}
        self.failures = []
        self.slowest = (0, "")

    async def generate(self, end):
        body = {
            "model": self.server.model,
            "messages": [{"role": "user", "content": "Tell a long story about the sea."}],
            "max_tokens": 32,
            "temperature": 1,
        }
        while time.monotonic() < end:
            response = await self.server.ask(body)
            if response.status == 200:
                self.tokens += response.json()["usage"]["completion_tokens"]
            else:
                self.failures.append(f"generation: {response.status} {response.body[:200]!r}")
                await asyncio.sleep(1)

    async def send(self, schemas, end):
        """Sends schemas until the phase is over and enough were sent."""
        while time.monotonic() < end or self.sent < SCHEMAS:
            self.sent += 1
            number, name, schema = next(schemas)
            wanted = {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}
            if self.options.send == "check" or (self.options.send == "both" and number % 2):
                path, body = "/v1/grammar/check", {"model": self.server.model, "response_format": wanted}
            else:
                messages = [{"role": "user", "content": "Write it."}]
                path, body = "/v1/chat/completions", {"model": self.server.model, "messages": messages, "max_tokens": 8, "schema_in_prompt": not self.options.short_prompts, "response_format": wanted}
            start = time.monotonic()
            try:
                response = await asyncio.wait_for(self.server.ask(body, path), PATIENCE)
            except Exception as error:
                self.failures.append(f"{name} to {path}: {type(error).__name__} {error}")
                continue
            self.slowest = max(self.slowest, (round(time.monotonic() - start, 2), f"{name} to {path}"))
            self.answers[response.status] = self.answers.get(response.status, 0) + 1
            if fault := fault_of(response):
                self.failures.append(f"{name} to {path}: {fault}")


def fault_of(response):
    """Says what is wrong with an answer to a hostile request, if anything is."""
    if response.status not in (200, 400):
        return f"status {response.status}: {response.body[:200]!r}"
    answer = response.json()
    problem = answer.get("error")
    if response.status == 200 and not problem:
        return None
    message = problem.get("message") if isinstance(problem, dict) else None
    if not isinstance(message, str):
        return f"an error without a message: {response.body[:200]!r}"
    if not re.search(r"#/|#:|line \d|at byte|limit of|budget of \d|context length is \d", message):
        return f"an error that names no place: {message[:300]}"
    if "the limit" in message and not re.search(r"\d", message):
        return f"an error that names no limit: {message[:300]}"
    return None


async def watch(server, peak):
    """Keeps the highest resident memory."""
    while True:
        peak[0] = max(peak[0], server.memory() or 0)
        await asyncio.sleep(0.1)


async def phase(attack, seconds, schemas=None):
    """Runs the generating clients, and beside them the hostile ones if there are schemas; returns tokens a second."""
    attack.tokens = 0
    start = time.monotonic()
    end = start + seconds
    senders = asyncio.gather(*(attack.send(schemas, end) for _ in range(HOSTILE if schemas else 0)))
    await asyncio.gather(*(attack.generate(end) for _ in range(GENERATING)))
    speed = attack.tokens / (time.monotonic() - start)
    await senders
    return speed


async def run(server, options):
    attack = Attack(server, options)
    await phase(attack, min(10, options.seconds))
    before = server.memory()
    calm = await phase(attack, options.seconds)
    peak = [0]
    watcher = asyncio.create_task(watch(server, peak))
    attacked = await phase(attack, options.seconds, hostile_schemas(options.seed))
    watcher.cancel()
    after = (await server.get("/health")).status
    report = {
        "tokens_per_second": {"calm": round(calm, 1), "attacked": round(attacked, 1)},
        "memory_mb": {"before": before, "peak": peak[0]},
        "sent": attack.sent,
        "answers": attack.answers,
        "slowest_s": attack.slowest,
        "failed": len(attack.failures),
        "failures": attack.failures[:40],
    }
    broken = attack.failures[:40]
    if not server.is_alive() or after != 200:
        broken.append(f"the server does not answer: {after}")
    if before is not None and peak[0] > before + MEMORY_MB:
        broken.append(f"memory grew from {before} to {peak[0]} MB")
    if attacked < calm * (1 - LOSS):
        broken.append(f"speed fell from {calm:.1f} to {attacked:.1f} tokens a second")
    print(json.dumps(report, indent=2, ensure_ascii=False))
    if options.json:
        options.json.write_text(json.dumps(report, ensure_ascii=False))
    for what in broken:
        print(f"! {what}")
    return not broken


async def main():
    parser = arguments(__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="of each of the two phases")
    parser.add_argument("--send", choices=["check", "chat", "both"], default="both", help="where the schemas go")
    parser.add_argument("--short-prompts", action="store_true", help="leave the schemas out of the prompts")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with Server.of(options) as server:
        sys.exit(0 if await run(server, options) else 1)


if __name__ == "__main__":
    asyncio.run(main())
