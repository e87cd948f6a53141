"""`python -m formwork.bench masks`: MaskBench on several engines, case by case in turns."""

from __future__ import annotations

import json
import queue
import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from formwork.bench import engines, report

STATUSES = ["pass", "compile_error", "valid_rejected", "invalid_accepted", "timeout", "crash"]
"""Outcomes of a case, from best to worst."""


def add_command(commands: Any) -> None:
    """Adds the command `masks`."""
    parser = commands.add_parser(
        "masks",
        help="compare coverage and speed of masks on MaskBench",
        description="Runs MaskBench on this engine and on the peers that are installed, case by case in turns. A case "
        "is a JSON file with a `schema` and `tests`, each with `valid` and `data`.",
    )
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="case files, or folders with case files")
    parser.add_argument("--tokenizer", required=True, type=Path, help="tokenizer.json of a model")
    parser.add_argument("--eos", help="end-of-sequence token, by name or number; by default it is found by its name")
    parser.add_argument("--engines", metavar="NAMES", help="engines, separated by commas; by default all that are installed")
    parser.add_argument("--sample", type=int, metavar="N", help="measure N cases, chosen at random")
    parser.add_argument("--seed", type=int, default=0, help="seed of --sample")
    parser.add_argument("--timeout", type=float, default=30.0, metavar="SECONDS", help="limit for one case of one engine")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all outcomes to a file")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write the table and a plot to a page")
    parser.set_defaults(run=run)


def run(arguments: Any) -> int:
    """Measures the cases and prints the table."""
    try:
        import tokenizers
    except ImportError:
        print("masks: install the package `tokenizers`, which encodes the texts", file=sys.stderr)
        return 2
    names = arguments.engines.split(",") if arguments.engines else engines.installed()
    if unknown := [name for name in names if name not in engines.PACKAGES]:
        print(f"masks: unknown engine {unknown[0]}; expected one of {', '.join(engines.PACKAGES)}", file=sys.stderr)
        return 2
    files = _files(arguments.paths)
    if not files:
        print("masks: no .json files there", file=sys.stderr)
        return 2
    if arguments.sample is not None:
        files = sorted(random.Random(arguments.seed).sample(files, min(arguments.sample, len(files))))
    tokenizer = tokenizers.Tokenizer.from_file(str(arguments.tokenizer))
    eos = _eos(tokenizer, arguments.eos)
    if eos is None:
        print("masks: the end-of-sequence token is unknown; name it with --eos", file=sys.stderr)
        return 2
    workers = {name: Worker(name, arguments.tokenizer, eos, arguments.timeout) for name in names}
    outcomes: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    try:
        for number, file in enumerate(files):
            case = _case(file, tokenizer)
            # The engine that goes first changes from case to case.
            turn = number % len(names)
            for name in names[turn:] + names[:turn]:
                outcomes[name].append({"id": file.name, **workers[name].measure(case)})
            if sys.stderr.isatty():
                print(f"\r{number + 1} of {len(files)}", end="", file=sys.stderr, flush=True)
    finally:
        for worker in workers.values():
            worker.close()
    if sys.stderr.isatty():
        print(file=sys.stderr)
    summaries = [report.summary(engines.version(name), outcomes[name]) for name in names]
    print(report.table(summaries, len(files)))
    if arguments.json:
        arguments.json.write_text(json.dumps({"summaries": summaries, "outcomes": outcomes}))
    if arguments.html:
        settings = {"tokenizer": arguments.tokenizer.name, "cases": len(files), "seed": arguments.seed}
        arguments.html.write_text(report.page(summaries, outcomes, settings), encoding="utf-8")
    return 0


class Worker:
    """A process with one engine, which is started again after a limit or a crash."""

    def __init__(self, engine: str, tokenizer: Path, eos: int, timeout: float) -> None:
        """Prepares the process, which starts with the first case."""
        self._command = [sys.executable, "-m", "formwork.bench", "worker", engine, str(tokenizer), str(eos)]
        self._timeout = timeout
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str | None] = queue.Queue()

    def measure(self, case: dict[str, Any]) -> dict[str, Any]:
        """Measures one case."""
        if self._process is None:
            self._start()
        process = self._process
        assert process is not None and process.stdin is not None
        try:
            process.stdin.write(json.dumps(case) + "\n")
            process.stdin.flush()
            line = self._lines.get(timeout=self._timeout)
        except queue.Empty:
            line, status = None, "timeout"
        except OSError:
            line, status = None, "crash"
        else:
            status = "crash"
        if line is not None:
            return json.loads(line)
        self.close()
        return {"status": status, "error": None, "first_us": None, "mask_us": []}

    def close(self) -> None:
        """Ends the process."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def _start(self) -> None:
        self._lines = queue.Queue()
        process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        threading.Thread(target=_read, args=(process, self._lines), daemon=True).start()
        self._process = process
        limit = time.monotonic() + 600
        if self._lines.get(timeout=limit - time.monotonic()) is None:
            self.close()
            raise RuntimeError(f"the process of {self._command[4]} has ended; its error is above")


def _read(process: subprocess.Popen[str], lines: queue.Queue[str | None]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        lines.put(line)
    lines.put(None)


def _files(paths: list[Path]) -> list[Path]:
    files: list[Path] = []
    for path in paths:
        files += sorted(path.rglob("*.json")) if path.is_dir() else [path]
    return files


def _case(file: Path, tokenizer: Any) -> dict[str, Any]:
    """Reads a case, and tokenizes its instances as compact JSON."""
    case = json.loads(file.read_text(encoding="utf-8"))
    instances = []
    for test in case.get("tests", []):
        text = json.dumps(test["data"], ensure_ascii=False, separators=(",", ":"))
        tokens = tokenizer.encode(text, add_special_tokens=False).ids
        instances.append({"valid": test["valid"], "tokens": tokens})
    return {"schema": case["schema"], "instances": instances}


def _eos(tokenizer: Any, given: str | None) -> int | None:
    if given is not None:
        return int(given) if given.isdigit() else tokenizer.token_to_id(given)
    names = ["<|eot_id|>", "<|end_of_text|>", "<|endoftext|>", "<|im_end|>", "</s>", "<eos>", "<end_of_turn>"]
    found = (tokenizer.token_to_id(name) for name in names)
    return next((token for token in found if token is not None), None)
