#!/usr/bin/env python3
"""How far Formwork and llama.cpp are from the same weights in f32, for each type of quantised weights.

    python3 weight_types.py --formwork target/release/formwork --example target/release/examples/logprobs \\
        --logits ./logits --quantize llama-quantize --imatrix llama-imatrix [--tensors ffn_down] MODEL.gguf [TYPE ...]

For each type, `llama-quantize` makes a file in which the tensors named by `--tensors` have this type, and the others Q8_0.
The reference is llama.cpp on a copy of that file with all weights in f32, so the figures are of the computation and not of the
loss by quantisation. Both engines follow the same texts: 20 prompts, each with some tokens that Formwork chose greedily.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile

import numpy

from divergence import TEXTS, divergence, log_softmax

TYPES = """q4_0 q5_0 q8_0 q2_K q3_K q4_K q5_K q6_K iq4_nl iq4_xs iq3_s iq3_xxs iq2_s iq2_xs iq2_xxs iq1_m iq1_s tq1_0 tq2_0
mxfp4 nvfp4 q1_0 q2_0""".split()


def run(*command, **options):
    return subprocess.run(list(map(str, command)), check=True, capture_output=True, **options).stdout


class Texts:
    """The texts that both engines follow, in the files that they read."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        ids = ["tokenize", "-m", options.model, "--ids"]
        prompts = [json.loads(run(options.formwork, *ids, input=text.encode())) for text in TEXTS]
        self.prompts = folder / "prompts.json"
        self.prompts.write_text(json.dumps(prompts))
        chosen = json.loads(run(options.example, options.model, self.prompts, "--tokens", options.steps))
        self.follow, self.lines = folder / "follow.json", folder / "texts"
        self.follow.write_text(json.dumps([text["tokens"] for text in chosen]))
        lines = [[len(prompt), *prompt, *text["tokens"]] for prompt, text in zip(prompts, chosen)]
        self.lines.write_text("".join(" ".join(map(str, line)) + "\n" for line in lines))

    def rows(self, write):
        """The logprobs of all steps, of which `write` writes the logits to a file."""
        path = self.folder / "rows"
        write(path)
        return log_softmax(numpy.fromfile(path, dtype="<f4").reshape(len(TEXTS) * self.options.steps, -1))

    def of_formwork(self, model):
        follow = ["--follow", self.follow, "--rows"]
        return self.rows(lambda path: run(self.options.example, model, self.prompts, *follow, path))

    def of_peer(self, model, *flags):
        return self.rows(lambda path: run(self.options.logits, model, self.lines, path, *flags))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--formwork", required=True, help="Formwork's program")
    parser.add_argument("--example", required=True, help="Formwork's example `logprobs`, built")
    parser.add_argument("--logits", required=True, help="logits.c, built")
    parser.add_argument("--quantize", required=True, help="llama-quantize")
    parser.add_argument("--imatrix", required=True, help="llama-imatrix, whose result the smallest types need")
    parser.add_argument("--tensors", default="ffn_down", help="what the names of the tensors contain")
    parser.add_argument("--steps", type=int, default=64, help="tokens after each prompt")
    parser.add_argument("model")
    parser.add_argument("types", nargs="*", default=TYPES)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        texts = Texts(options, folder)
        words, importance = folder / "words", folder / "importance.gguf"
        typed, floats = folder / "typed.gguf", folder / "floats.gguf"
        words.write_text("\n".join(TEXTS) * 8)
        run(options.imatrix, "-m", options.model, "-f", words, "-o", importance, "-c", 128, "--chunks", 16)
        print("| type | KL of llama.cpp | KL of Formwork | ratio |\n|---|---|---|---|")
        for kind in options.types:
            which = ["--allow-requantize", "--imatrix", importance, "--tensor-type", f"{options.tensors}={kind}"]
            try:
                run(options.quantize, *which, options.model, typed, "Q8_0")
            except subprocess.CalledProcessError as error:
                print(f"| {kind} | not made: {error.stderr.decode().strip().splitlines()[-1]} | | |", flush=True)
                continue
            try:
                own = texts.of_formwork(typed)
                run(options.quantize, "--allow-requantize", typed, floats, "F32")
                reference = texts.of_peer(floats, "f32")
                theirs = texts.of_peer(typed)
            except subprocess.CalledProcessError as error:
                print(f"| {kind} | {error.stderr.decode().strip().splitlines()[-1]} | | |", flush=True)
                continue
            means = [divergence(reference, rows).mean() for rows in (theirs, own)]
            print(f"| {kind} | {means[0]:.2e} | {means[1]:.2e} | {means[1] / means[0]:.2f} |", flush=True)


main()
