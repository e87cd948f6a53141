#!/usr/bin/env python3
"""What the standard schemas cost when decoding, and what the tokens that they force save.

    benches/standard.py target/release/formwork MASKBENCH [-m MODEL] [--json FILE]

The schemas are the first ten `Glaiveai2K---` and the first ten `Github_easy---` of MaskBench's files by the hash of their names.
Each is decoded twice: with every token asked of the model, which shows what masks cost, and with forced tokens taken. Free decode
takes turns with both, at the same place and for as many tokens. Rates are medians; ratios are of one run.
"""

import argparse
import hashlib
import json
import pathlib
import statistics
import subprocess
import tempfile

GROUPS = ("Glaiveai2K---", "Github_easy---")


def standard(folder, group):
    files = [path for path in pathlib.Path(folder).rglob("*.json") if path.name.startswith(group)]
    return sorted(files, key=lambda path: hashlib.sha256(path.name.encode()).hexdigest())[:10]


def measure(options, schema, *flags):
    command = [options.binary, "bench", "decode", "-m", options.model, "-r", str(options.runs), "-n", "128"]
    done = subprocess.run([*command, "--schema", schema, "--json", "-", *flags], capture_output=True, text=True)
    if done.returncode:
        return None, done.stderr.strip().splitlines()[-1]
    result = json.loads(done.stdout)
    return result["shaped"], result["free"]["median"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("maskbench")
    parser.add_argument("-m", "--model", default="smollm2-135m-instruct")
    parser.add_argument("-r", "--runs", type=int, default=5)
    parser.add_argument("--json")
    options = parser.parse_args()
    rows = []
    for group in GROUPS:
        for path in standard(options.maskbench, group):
            with tempfile.NamedTemporaryFile("w", suffix=".json") as schema:
                json.dump(json.loads(path.read_text())["schema"], schema)
                schema.flush()
                asked, free = measure(options, schema.name, "--no-forced-tokens")
                forced, _ = measure(options, schema.name)
            row = {"schema": path.name, "group": group}
            if asked is None:
                row["asked_error"] = free
            else:
                row.update(masked=asked["ratio_to_free"], grammar_us=asked["grammar_us_per_token"], head=asked["head_share"], free=free)
            if forced is not None:
                row.update(forced=forced["ratio_to_free"], share=forced["forced_share"], forced_head=forced["head_share"])
            rows.append(row)
            print(json.dumps(row), flush=True)
    for group in GROUPS:
        of_group = [row for row in rows if row["group"] == group]
        for name in ("masked", "forced", "share", "head", "forced_head", "grammar_us"):
            values = [row[name] for row in of_group if name in row]
            if values:
                print(f"{group} {name}: median {statistics.median(values):.3f} of {len(values)}, "
                      f"{min(values):.3f} to {max(values):.3f}")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
