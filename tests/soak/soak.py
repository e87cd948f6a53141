#!/usr/bin/env python3
"""Many clients at once, for long, most of them ill-mannered:

    soak.py --binary target/debug/formwork --minutes 10 --json report.json

A third of the clients leave in the midst of answers, a quarter want structured output, the others use tools, continue stored
responses or mean harm. Meanwhile a
fixed set of requests with seeds is answered alone, under this load, and alone again, and must come out the same. What is checked:

- every finished answer with a constraint is valid and carries the word that was its request's own;
- whatever is refused is refused in OpenAI's shape, nothing fails on the server's side and nothing hangs;
- the same requests give the same texts, whatever else goes on and whatever is cached;
- afterwards nothing runs or waits, and memory has stopped growing.

The report has the figures, with throughput at one and at eight clients. The exit code says whether all held.
"""

import asyncio
import collections
import json
import statistics
import sys
import time

import asks
from clients import KINDS, check_answered, client
from server import Server, arguments

FIXED_CLIENTS = 4
SHARES = {"leave": 1 / 3, "structure": 1 / 4, "tools": 1 / 8, "stored": 1 / 6, "hostile": 1 / 8}
# Small, so that responses make room for newer ones while others continue them.
STORE = ["--responses-store-entries", "40", "--responses-store-bytes", "200000"]


class Tally:
    """What became of the requests of each kind."""

    def __init__(self):
        self.times = collections.defaultdict(list)
        self.busies = collections.Counter()
        self.failures = []

    def passed(self, kind, seconds):
        self.times[kind].append(seconds)

    def busy(self, kind):
        self.busies[kind] += 1

    def failed(self, kind, number, error):
        message = f"{type(error).__name__}: {error}"
        self.failures.append({"kind": kind, "client": number, "error": message[:600]})
        print(f"! {kind} {number}: {message[:300]}", flush=True)

    def report(self):
        def figures(times):
            quantiles = statistics.quantiles(times, n=20) if len(times) > 1 else times * 19
            return {"passed": len(times), "median_s": statistics.median(times), "p95_s": quantiles[-1], "max_s": max(times)}

        return {
            "requests": {kind: figures(times) for kind, times in sorted(self.times.items())},
            "busy": dict(self.busies),
            "failed": len(self.failures),
            "failures": self.failures[:200],
        }


async def answer(server, body):
    """All of an answer that must not depend on anything but the request."""
    answered = check_answered(await server.ask(body))
    [choice] = answered["choices"]
    return choice["message"]["content"], choice["finish_reason"], answered["usage"]["completion_tokens"]


async def alone(server, bodies):
    """The answers one by one, with nothing else going on."""
    return [await answer(server, body) for body in bodies]


async def among_others(server, bodies):
    """The answers by some clients in another order."""
    answers = [None] * len(bodies)
    places = iter(sorted(range(len(bodies)), key=lambda place: place * 37 % len(bodies)))

    async def worker():
        for place in places:
            answers[place] = await answer(server, bodies[place])

    await asyncio.gather(*(worker() for _ in range(FIXED_CLIENTS)))
    return answers


def differences(bodies, first, other):
    """Where the same request gave another answer."""
    compared = zip(bodies, first, other, strict=True)
    return [{"request": body, "first": before, "then": after} for body, before, after in compared if before != after]


async def throughput(server, clients, requests=16):
    """Tokens per second of some clients that share the same work: free text, without ends, and structured output."""
    schema = {"type": "json_schema", "json_schema": {"name": "s", "schema": asks.SHIPPED[1]}}
    bodies = [
        {"model": server.model, "messages": asks.say(f"Tell me about {topic}."), "temperature": 0, "max_tokens": 48, **more}
        for topic in asks.TOPICS
        for more in ({}, {"response_format": schema, "max_tokens": 96})
    ][:requests]
    places, tokens = iter(bodies), 0

    async def worker():
        nonlocal tokens
        for body in places:
            _, _, count = await answer(server, body)
            tokens += count

    started = time.monotonic()
    await asyncio.gather(*(worker() for _ in range(clients)))
    seconds = time.monotonic() - started
    return {"clients": clients, "tokens": tokens, "seconds": seconds, "tokens_per_s": tokens / seconds}


async def watch(server, samples):
    """The memory and the load, every few seconds."""
    while True:
        samples.append({"at_s": time.monotonic(), "rss_mb": server.memory(), **await server.load()})
        await asyncio.sleep(3)


async def settled(server):
    """The load once nothing runs any more, or after a minute."""
    for _ in range(60):
        load = await server.load()
        if load.get("requests_running", 0) + load.get("requests_waiting", 0) == 0:
            break
        await asyncio.sleep(1)
    return load


async def under_load(server, bodies, options, tally, samples):
    """The fixed answers while all the clients are at work."""
    until = time.monotonic() + options.minutes * 60
    kinds = [kind for kind in options.kinds for _ in range(round(SHARES[kind] * options.clients))]
    crowd = [asyncio.create_task(client(server, kind, place, until, tally)) for place, kind in enumerate(kinds)]
    watcher = asyncio.create_task(watch(server, samples))
    answers = await among_others(server, bodies)
    await asyncio.gather(*crowd)
    watcher.cancel()
    return answers


def grows(samples):
    """Whether memory went on growing once all kinds of requests had come up: its peak in the second half against the first."""
    memory = [sample["rss_mb"] for sample in samples if sample["rss_mb"]]
    first, second = memory[: len(memory) // 2], memory[len(memory) // 2 :]
    return bool(first) and max(second) > max(first) * 1.25 + 64


async def soak(server, options):
    report = {"minutes": options.minutes, "clients": options.clients, "model": server.model}
    tally, samples = Tally(), []
    bodies = asks.fixed_asks(server.model, options.fixed)
    before = {"rss_mb": server.memory(), **await server.load()}

    started = time.monotonic()

    def step(name):
        print(f"{time.monotonic() - started:5.0f} s: {name}", flush=True)

    step("alone")
    first = await alone(server, bodies)
    step("alone, once more")
    repeated = differences(bodies, first, await alone(server, bodies))
    step("throughput")
    report["throughput_before"] = [await throughput(server, clients) for clients in (1, 8)]
    idle = {"rss_mb": server.memory(), **await server.load()}

    step("under load")
    crowded = differences(bodies, first, await under_load(server, bodies, options, tally, samples))

    step("alone again")
    after = await settled(server)
    quiet = differences(bodies, first, await alone(server, bodies))
    report["throughput_after"] = [await throughput(server, clients) for clients in (1, 8)]

    step("done")
    report |= tally.report()
    report["memory"] = {
        "at_start": before,
        "before_load": idle,
        "peak_mb": max((sample["rss_mb"] or 0 for sample in samples), default=None),
        "after": {**after, "rss_mb": server.memory()},
        "samples": [{**sample, "at_s": round(sample["at_s"] - samples[0]["at_s"])} for sample in samples],
    }
    report["different"] = {"alone_twice": repeated, "under_load": crowded, "alone_after": quiet}
    report["checks"] = {
        "all requests": not tally.failures,
        "the same alone, twice": not repeated,
        "the same under load": not crowded,
        "the same afterwards": not quiet,
        "nothing runs or waits": after.get("requests_running", 0) == after.get("requests_waiting", 0) == 0,
        "nothing failed": after.get("generations_failed_total", 0) == 0,
        "memory stops growing": not grows(samples),
        "alive": server.is_alive(),
    }
    return report


def summary(report):
    for kind, figures in report["requests"].items():
        print(f"{kind}: {figures['passed']} passed, median {figures['median_s']:.2f} s, at most {figures['max_s']:.1f} s")
    for when in ("before", "after"):
        rates = ", ".join(f"{rate['clients']}: {rate['tokens_per_s']:.1f}" for rate in report[f"throughput_{when}"])
        print(f"tokens per second by clients, {when}: {rates}")
    memory = report["memory"]
    ends = [memory["at_start"]["rss_mb"], memory["before_load"]["rss_mb"], memory["peak_mb"], memory["after"]["rss_mb"]]
    print("memory in MB at the start, before the load, at its peak, after:", *ends)
    for name, differences in report["different"].items():
        print(f"different, {name}: {len(differences)}")
    for name, held in report["checks"].items():
        print("ok  " if held else "FAIL", name)


def main():
    parser = arguments(__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--fixed", type=int, default=100, help="requests of the fixed set")
    parser.add_argument("--kinds", default=",".join(KINDS), type=lambda text: text.split(","), help="of clients")
    options = parser.parse_args()
    with Server.of(options, *STORE) as server:
        report = asyncio.run(soak(server, options))
    if options.json:
        options.json.write_text(json.dumps(report, indent=1))
    summary(report)
    sys.exit(not all(report["checks"].values()))


if __name__ == "__main__":
    main()
