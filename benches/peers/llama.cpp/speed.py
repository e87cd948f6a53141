#!/usr/bin/env python3
"""Formwork's decode and prefill beside llama.cpp's, in turns, on the same files and with as many threads.

    python3 speed.py --formwork ../../../target/release/formwork --peer native=…/llama-bench \\
        --peer zen4=llama-bench --backend zen4=…/libggml-cpu-zen4.so MODEL.gguf …

llama.cpp is `llama-bench`, in as many builds as are given, each with and without flash attention. Its figure is that of the
build and flag with the best median for this file and test; after the first round, those far behind the best are left out.
A turn in which other processes had more than `--others` of the processors is measured again, and left out at last. Rounds
are appended to the file of results, so they can be spread over several calls; `--rounds 0` only prints the table.
"""

import argparse
import json
import os
import pathlib
import re
import resource
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

DEFAULT_TESTS = ["decode:128", "prefill:512"]
ATTEMPTS = 3
OURS = "formwork"
MEMORY = "memory"


class Test:
    """`prefill:TOKENS`, or `decode:TOKENS` or `decode:TOKENS@CONTEXT`."""

    def __init__(self, text):
        found = re.fullmatch(r"(prefill|decode):(\d+)(?:@(\d+))?", text)
        if not found or (found[1] == "prefill" and found[3]):
            raise argparse.ArgumentTypeError(f"`{text}` is not prefill:TOKENS, decode:TOKENS or decode:TOKENS@CONTEXT")
        self.text, self.kind, self.tokens, self.context = text, found[1], found[2], found[3] or "0"

    def ours(self):
        if self.kind == "prefill":
            return ["prefill", "-p", self.tokens]
        return ["decode", "-n", self.tokens, "-p", self.context]

    def theirs(self):
        if self.kind == "prefill":
            return ["-p", self.tokens, "-n", "0"]
        return ["-p", "0", "-n", self.tokens, "-d", self.context]


def run(command, options, folder=None):
    """What a command wrote and the others' share of the processors meanwhile; nothing where all attempts were disturbed."""
    command = list(map(str, command))
    for _ in range(ATTEMPTS):
        start, busy, own = time.monotonic(), busy_seconds(), children_seconds()
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
        others = busy_seconds() - busy - (children_seconds() - own)
        share = others / (time.monotonic() - start) / os.cpu_count()
        if done.returncode or share <= options.others:
            return done, round(share, 3)
        print(f"others had {share:.0%} of the processors: {shlex.join(command[:3])} …", file=sys.stderr)
    return None, None


def busy_seconds():
    """What all processors have worked, time that the host took from them included; zero where that is not told."""
    try:
        ticks = pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    except OSError:
        return 0.0
    user, nice, system, _idle, _wait, hard, soft, stolen = map(int, ticks)
    return (user + nice + system + hard + soft + stolen) / os.sysconf("SC_CLK_TCK")


def children_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def pair(text):
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise argparse.ArgumentTypeError(f"`{text}` is not NAME=VALUE")
    return name, value


class Peer:
    """A build of `llama-bench`; with a back end, it runs where it finds no other one."""

    def __init__(self, name, command, backend):
        self.name, self.command = name, shlex.split(command)
        self.backend = pathlib.Path(backend).resolve() if backend else None

    def run(self, model, test, flash, options):
        """A record for each of the flags; none where others disturbed it or this processor cannot run the build."""
        command = [*self.command, "-m", model, "-t", options.threads, "-r", options.runs, "-o", "json", *test.theirs()]
        command += ["-fa", ",".join(map(str, flash))]
        with tempfile.TemporaryDirectory() as folder:
            if self.backend:
                (pathlib.Path(folder) / self.backend.name).symlink_to(self.backend)
            done, others = run(command, options, folder)
        if done is None:
            return []
        if "CPU backend is not loaded" in done.stderr:
            print(f"{self.name}: not for this processor", file=sys.stderr)
            return []
        if done.returncode:
            sys.exit(f"{self.name}: {done.stderr}")
        loaded = re.findall(r"loaded CPU backend from \S*?([^/\s]+)$", done.stderr, re.MULTILINE)
        return [
            {
                "side": self.name,
                "flash": int(run["flash_attn"]),
                "rate": statistics.median(run["samples_ts"]),
                "backend": loaded[-1] if loaded else "built in",
                "build": f"{run['build_commit']} {run['build_number']}",
                "repack": run.get("repack"),
                "bytes": run["model_size"],
                "others": others,
            }
            for run in json.loads(done.stdout)
        ]


def run_ours(model, test, options):
    command = [options.formwork, "bench", *test.ours(), "-m", model, "--threads", options.threads, "-r", options.runs]
    done, others = run([*command, "--json", "-"], options)
    if done is None:
        return []
    if done.returncode:
        sys.exit(f"{shlex.join(map(str, command))}: {done.stderr}")
    return [{"side": OURS, "flash": None, "rate": json.loads(done.stdout)["free"]["median"], "others": others}]


def beside_memory(measured, options):
    """A turn of `measured`, and what the memory gave before and after it, in bytes a second; nothing of that where others disturbed it."""
    before = memory_rate(options)
    rows = measured()
    after = memory_rate(options)
    if rows and before and after:
        rows.append({"side": MEMORY, "flash": None, "rate": statistics.mean([before, after])})
    return rows


def memory_rate(options):
    done, _ = run([options.memory, options.threads], options)
    if done is None:
        return None
    if done.returncode:
        sys.exit(f"{options.memory}: {done.stderr}")
    return float(re.search(r"([\d.]+) GB/s", done.stdout)[1]) * 1e9


class Results:
    """What was measured, a record a line."""

    def __init__(self, path):
        self.path = path
        self.records = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def add(self, record):
        self.records.append(record)
        with self.path.open("a") as file:
            file.write(json.dumps(record) + "\n")

    def next_round(self, model, test):
        return max((row["round"] for row in self.records if self.is_of(row, model, test)), default=-1) + 1

    @staticmethod
    def is_of(record, model, test):
        return record["model"] == pathlib.Path(model).stem and record["test"] == test.text

    def rates(self, model, test):
        """Of each side and flag, the rates by round."""
        rates = {}
        for record in self.records:
            if self.is_of(record, model, test):
                rates.setdefault((record["side"], record["flash"]), {})[record["round"]] = record["rate"]
        return rates

    def theirs(self, model, test):
        """The median of each build and flag of llama.cpp."""
        rates = self.rates(model, test)
        return {key: statistics.median(of.values()) for key, of in rates.items() if key[0] not in (OURS, MEMORY)}


def measure(model, test, peers, results, options):
    """A round: Formwork and all of llama.cpp that may be its best, the other way round in every second one."""
    round_number = results.next_round(model, test)
    medians = results.theirs(model, test)
    least = max(medians.values(), default=0) * options.keep
    turns = [None, *peers] if round_number % 2 == 0 else [*reversed(peers), None]
    for peer in turns:
        if peer is None and options.memory and test.kind == "decode":
            rows = beside_memory(lambda: run_ours(model, test, options), options)
        elif peer is None:
            rows = run_ours(model, test, options)
        else:
            kept = [flash for flash in options.flash or (0, 1) if medians.get((peer.name, flash), least) >= least]
            rows = peer.run(model, test, kept, options) if kept else []
        for row in rows:
            results.add({"model": pathlib.Path(model).stem, "test": test.text, "round": round_number, **row})


def table_row(model, test, results, memory):
    rates = results.rates(model, test)
    theirs = results.theirs(model, test)
    if not theirs or (OURS, None) not in rates:
        return None
    best = max(theirs, key=theirs.get)
    ours = rates[OURS, None]
    ratios = [ours[number] / rate for number, rate in rates[best].items() if number in ours]
    if not ratios:
        return None
    median = statistics.median(ours.values())
    row = [pathlib.Path(model).stem, test.text, f"{median:.1f}", f"{theirs[best]:.1f}"]
    row += [f"{best[0]}, {'on' if best[1] else 'off'}"]
    row += [f"**{statistics.median(ratios):.2f}** ({min(ratios):.2f}–{max(ratios):.2f}, {len(ratios)})"]
    if memory:
        size = next(row["bytes"] for row in results.records if results.is_of(row, model, test) and "bytes" in row)
        given = rates.get((MEMORY, None), {})
        shares = [ours[number] * size / given[number] for number in ours if number in given]
        row += [f"{statistics.median(shares):.0%} ({min(shares):.0%}–{max(shares):.0%})" if shares else ""]
    return row


def print_table(models, tests, results, memory):
    head = ["model", "test", "Formwork", "llama.cpp", "its build, flash attention", "ratio (range, rounds)"]
    rows = [head + ["of what the memory gives"] * bool(memory)]
    rows += filter(None, (table_row(model, test, results, memory) for model in models for test in tests))
    rows.insert(1, ["---"] * len(rows[0]))
    for row in rows:
        print("| " + " | ".join(row) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL.gguf", type=lambda path: str(pathlib.Path(path).absolute()))
    parser.add_argument("--formwork", default="formwork", help="the program")
    parser.add_argument("--peer", type=pair, action="append", default=[], metavar="NAME=COMMAND",
                        help="a build of llama-bench, under a name; may be repeated")
    parser.add_argument("--backend", type=pair, action="append", default=[], metavar="NAME=FILE",
                        help="the back end that the build of this name is to load, if it has none of its own")
    parser.add_argument("--test", type=Test, action="append", dest="tests", metavar="TEST",
                        help="prefill:TOKENS, decode:TOKENS or decode:TOKENS@CONTEXT; may be repeated "
                        f"[{', '.join(DEFAULT_TESTS)}]")
    parser.add_argument("--rounds", type=int, default=3, help="how many to add [%(default)s]")
    parser.add_argument("-r", "--runs", type=int, default=2, help="runs of a turn, beside one not counted [%(default)s]")
    parser.add_argument("--threads", type=int, default=2, help="of both [%(default)s]")
    parser.add_argument("--keep", type=float, default=0.9,
                        help="builds and flags below this share of the best one have no further rounds [%(default)s]")
    parser.add_argument("--flash", type=int, choices=(0, 1), action="append",
                        help="llama.cpp only with this flag for flash attention [both]")
    parser.add_argument("--others", type=float, default=0.05,
                        help="the most of all processors' time that others may have in a turn [%(default)s]")
    parser.add_argument("--memory", metavar="PROGRAM",
                        help="memory.c, built: it runs before and after each turn of Formwork's decode, which tells how much of what the "
                        "memory gives is used")
    parser.add_argument("--results", type=pathlib.Path, default="speed.jsonl", help="[%(default)s]")
    options = parser.parse_args()
    options.tests = options.tests or list(map(Test, DEFAULT_TESTS))
    backends = dict(options.backend)
    peers = [Peer(name, command, backends.get(name)) for name, command in options.peer]
    results = Results(pathlib.Path(options.results))
    for _ in range(options.rounds):
        for model in options.models:
            for test in options.tests:
                measure(model, test, peers, results, options)
    print_table(options.models, options.tests, results, options.memory)


if __name__ == "__main__":
    main()
