"""How many answers of models that were only told a shape fit it: as they came, adapted, and repaired.

    python3 recovered.py --formwork PROGRAM [--repair NAME=MODEL.gguf] RESULTS/trials.jsonl

The answers are the first ones of all `prompt_only` trials of `formwork eval directives`. Valid is what fits the JSON Schema
of the envelope with every type's payload, as the prompt has them, in the judgement of `formwork adapt`. Repairs ask the
model that gave the answer, at most twice; where it runs here, the engine holds it to the schema.
"""

import argparse
import collections
import json
import pathlib
import re
import subprocess
import tempfile

LEVELS = {
    "as it came": ["--level", "off"],
    "minimal": ["--level", "minimal"],
    "full, tolerant 2": ["--level", "full", "--tolerant", "2"],
}


def envelope(system):
    """The schema of an answer with the types that a system message describes."""
    types = re.findall(r"^- (\S+): .*\n  JSON Schema of the payload: (.*)$", system, re.MULTILINE)
    directive = lambda name, payload: {
        "type": "object",
        "properties": {"type": {"const": name}, "payload": json.loads(payload)},
        "required": ["type", "payload"],
    }
    directives = {"type": "array", "items": {"oneOf": [directive(*each) for each in types]}}
    return {
        "type": "object",
        "properties": {"assistant_text": {"type": "string"}, "directives": directives},
        "required": ["assistant_text", "directives"],
    }


def answers(path):
    """The schema, and the texts by model and sampling profile."""
    schema, texts = None, collections.defaultdict(list)
    for line in path.read_text().splitlines():
        trial = json.loads(line)
        if trial["mode"] == "prompt_only":
            first = trial["exchanges"][0]
            schema = envelope(first["messages"][0]["content"])
            texts[trial["model"], trial["profile"]].append(first["answer"]["content"] or "")
    if schema is None:
        raise SystemExit(f"{path}: there are no `prompt_only` trials")
    return schema, texts


def is_valid(command, text):
    """Whether the program finds a value that fits."""
    code = subprocess.run(command, input=text.encode(), capture_output=True).returncode
    if code not in (0, 1):
        raise SystemExit(f"{' '.join(map(str, command))}: exit code {code}")
    return code == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--formwork", required=True, help="the program")
    parser.add_argument("--repair", action="append", default=[], metavar="NAME=MODEL", help="where a model's file is")
    parser.add_argument("--max-tokens", default="300")
    parser.add_argument("trials", type=pathlib.Path)
    arguments = parser.parse_args()
    files = dict(pair.split("=", 1) for pair in arguments.repair)
    with tempfile.TemporaryDirectory() as folder:
        schema, given = (pathlib.Path(folder) / name for name in ("schema.json", "answer.txt"))
        shape, texts_of = answers(arguments.trials)
        schema.write_text(json.dumps(shape))
        print(f"| model, profile | answers | {' | '.join(LEVELS)} | repaired |")
        print("|" + "---|" * (len(LEVELS) + 3))
        for (model, profile), texts in texts_of.items():
            adapt = [arguments.formwork, "adapt", "--schema", schema]
            counts = [sum(is_valid([*adapt, *level], text) for text in texts) for level in LEVELS.values()]
            repair = [arguments.formwork, "repair", "--schema", schema, "-m", files.get(model, model)]
            repair += ["--max-tokens", arguments.max_tokens, given]
            repaired = 0
            for text in texts:
                given.write_text(text)
                repaired += is_valid(repair, "")
            print(f"| {model}, {profile} | {len(texts)} | {' | '.join(map(str, [*counts, repaired]))} |", flush=True)


main()
