"""A process with one engine, so that a measurement outlives an engine that hangs or crashes.

The process reads one case a line from standard input and writes one outcome a line to standard output.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from formwork.bench import engines


def add_command(commands: Any) -> None:
    """Adds the internal command `worker`."""
    parser = commands.add_parser("worker")
    parser.add_argument("engine")
    parser.add_argument("tokenizer")
    parser.add_argument("eos", type=int)
    parser.set_defaults(run=run)


def run(arguments: Any) -> int:
    """Answers cases until standard input ends."""
    with open(arguments.tokenizer, encoding="utf-8") as file:
        engine = engines.create(arguments.engine, file.read(), arguments.eos)
    answers = sys.stdout
    # Engines may print warnings to standard output.
    sys.stdout = sys.stderr
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(measure(engine, json.loads(line))), file=answers, flush=True)
    return 0


def measure(engine: engines.Engine, case: dict[str, Any]) -> dict[str, Any]:
    """Measures one case. Times are in microseconds."""
    start = time.perf_counter_ns()
    try:
        grammar = engine.compile(case["schema"])
    except Exception as error:  # noqa: BLE001 - every exception of a peer is a refusal
        return {"status": "compile_error", "error": str(error)[:300], "first_us": None, "mask_us": []}
    first_us = (time.perf_counter_ns() - start) / 1000
    status, reason = "pass", None
    mask_us: list[float] = []
    for instance in case["instances"]:
        sequence = engine.start(grammar)
        try:
            accepted = _accepts(sequence, instance["tokens"], mask_us)
        except Exception as error:  # noqa: BLE001
            accepted, reason = False, str(error)[:300]
        if accepted and not instance["valid"]:
            status = "invalid_accepted"
        elif not accepted and instance["valid"] and status == "pass":
            status = "valid_rejected"
    return {"status": status, "error": reason, "first_us": first_us, "mask_us": mask_us}


def _accepts(sequence: engines.Sequence, tokens: list[int], mask_us: list[float]) -> bool:
    clock = time.perf_counter_ns
    for token in tokens:
        start = clock()
        allowed = sequence.advance(token)
        mask_us.append((clock() - start) / 1000)
        if not allowed:
            return False
    start = clock()
    ended = sequence.may_end()
    mask_us.append((clock() - start) / 1000)
    return ended
