"""Compares Formwork with llama.cpp token by token, and both with the same weights in f32.

    python3 logprobs.py --example target/release/examples/logprobs MODEL.gguf [...]

For each model and prompt, both engines choose 128 tokens greedily, and then Formwork follows llama.cpp's tokens, so that
the logits of every step are about the same text. The reference is llama.cpp on a copy of the file with all weights in
f32, with keys and values in f32 too, along the same text.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile

import gguf
import llama_cpp
import numpy

from divergence import TEXTS, divergence, log_softmax

CONTEXT = 512
BEST = 5


def keep_layout():
    """Lets llama.cpp compute with the weights as they are in the file: no copies for AMX and the like."""
    default = llama_cpp.llama_cpp.llama_model_default_params

    def parameters():
        parameters = default()
        parameters.use_extra_bufts = False
        return parameters

    llama_cpp.llama_cpp.llama_model_default_params = parameters


class Peer:
    """A model in llama.cpp."""

    def __init__(self, path, **options):
        self.llama = llama_cpp.Llama(
            str(path), n_gpu_layers=0, n_ctx=CONTEXT, logits_all=True, verbose=False, **options
        )

    def tokens(self, text):
        """With the beginning-of-sequence token where the model wants one."""
        return self.llama.tokenize(text.encode(), add_bos=True, special=False)

    def greedy(self, prompt, count):
        """The tokens that are chosen, and the logits of each step."""
        self.llama.reset()
        self.llama.eval(prompt)
        tokens, rows = [], []
        while True:
            rows.append(self.llama.scores[self.llama.n_tokens - 1].copy())
            tokens.append(int(rows[-1].argmax()))
            if len(tokens) == count:
                return tokens, numpy.array(rows)
            self.llama.eval(tokens[-1:])

    def read(self, prompt, tokens):
        """The logits of each step where the whole text is read at once."""
        self.llama.reset()
        self.llama.eval(prompt + tokens[:-1])
        return self.llama.scores[len(prompt) - 1 : self.llama.n_tokens].copy()


class Formwork:
    """A model in Formwork, through its example `logprobs`."""

    def __init__(self, path, arguments, folder):
        self.command = [arguments.example, str(path)]
        self.folder = pathlib.Path(folder)

    def run(self, prompts, *options, follow=None):
        """What the example writes, and the rows if `--rows` is among the options."""
        files = [self.folder / name for name in ("prompts.json", "follow.json", "rows")]
        files[0].write_text(json.dumps(prompts))
        command = [*self.command, files[0], *options]
        if follow is not None:
            files[1].write_text(json.dumps(follow))
            command += ["--follow", files[1], "--rows", files[2]]
        outcomes = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        if follow is None:
            return outcomes
        rows = numpy.fromfile(files[2], dtype="<f4").reshape(sum(map(len, follow)), -1)
        return outcomes, rows


def with_f32_weights(path, folder):
    """A copy of a GGUF file with all tensors in f32."""
    reader = gguf.GGUFReader(path)
    writer = gguf.GGUFWriter(pathlib.Path(folder) / "f32.gguf", reader.get_field("general.architecture").contents())
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in ("general.architecture", "general.file_type"):
            continue
        inner = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), field.types[0], sub_type=inner)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        writer.add_tensor(tensor.name, numpy.ascontiguousarray(values, dtype=numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return pathlib.Path(folder) / "f32.gguf"


def best(row):
    """The likeliest tokens of a row, best first."""
    order = numpy.argpartition(row, -BEST)[-BEST:]
    return [int(token) for token in order[numpy.lexsort((order, -row[order]))]]


def gap(logprobs):
    """Between the best two."""
    return logprobs[0] - logprobs[1]


class Comparison:
    """Figures over the steps of one model."""

    def __init__(self):
        self.prompts = 0
        self.equal = 0
        self.partings, self.disagreements = [], []
        self.argmax, self.sets = [], []
        self.differences = []
        self.divergences = {}

    def free(self, prompt, own, peer, reference):
        """The first step at which greedy choices differ: up to there, the text is the same."""
        self.prompts += 1
        rows, tokens = peer
        step = next((step for step, pair in enumerate(zip(own["tokens"], tokens)) if pair[0] != pair[1]), None)
        if step is None:
            self.equal += 1
            return
        gaps = gap([logprob for _, logprob in own["steps"][step]]), gap(numpy.sort(rows[step])[::-1])
        choices = own["tokens"][step], tokens[step], int(reference[step].argmax())
        self.partings.append((prompt, step, gaps, gap(numpy.sort(reference[step])[::-1]), choices))

    def followed(self, prompt, steps, peer):
        for step, (own, row) in enumerate(zip(steps, peer)):
            peers = best(row)
            self.argmax.append(own[0][0] == peers[0])
            self.sets.append({token for token, _ in own} == set(peers))
            self.differences += [logprob - row[token] for token, logprob in own if token in peers]
            if own[0][0] != peers[0]:
                self.disagreements.append((prompt, step, gap([logprob for _, logprob in own]), gap(row[peers])))

    def diverges(self, name, p, q):
        steps = divergence(p, q), p.argmax(axis=1) == q.argmax(axis=1)
        self.divergences.setdefault(name, []).append(steps)

    def ratio(self, name, base):
        """Of two mean divergences; and the 95% interval of it over samples of the prompts."""
        figures = numpy.array([[steps.mean() for steps, _ in self.divergences[which]] for which in (name, base)])
        samples = numpy.random.default_rng(0).integers(figures.shape[1], size=(10_000, figures.shape[1]))
        of_samples = figures[:, samples].mean(axis=2)
        low, high = numpy.quantile(of_samples[0] / of_samples[1], [0.025, 0.975])
        mean = figures.mean(axis=1)
        return f"{mean[0] / mean[1]:.4f} (95%: {low:.4f} to {high:.4f})"

    def print(self):
        print(f"  greedy, all tokens equal: {self.equal} of {self.prompts} prompts")
        for prompt, step, gaps, reference, (own, peer, right) in self.partings:
            side = {own: "Formwork's", peer: "llama.cpp's"}.get(right, "neither's")
            print(
                f"    prompt {prompt:>2} parts at step {step:>3}: gap of the best two {gaps[0]:.4f} and {gaps[1]:.4f},"
                f" in the reference {reference:.4f}, whose choice is {side}"
            )
        differences = numpy.abs(self.differences)
        median, p99 = numpy.quantile(differences, [0.5, 0.99])
        print(f"  same text, {len(self.argmax)} steps: equal argmax {numpy.mean(self.argmax):.4%}", end="")
        print(f", equal top-{BEST} sets {numpy.mean(self.sets):.4%}")
        print(f"    logprobs, {len(differences)} tokens in both:", end="")
        print(f" mean difference {numpy.mean(self.differences):+.6f}, absolute mean {differences.mean():.5f}", end="")
        print(f" median {median:.5f} p99 {p99:.5f} max {differences.max():.5f}")
        if self.disagreements:
            gaps = numpy.array([gaps for _, _, *gaps in self.disagreements])
            most = gaps.max(axis=0)
            print(f"    where the argmax differs: gap of the best two at most {most[0]:.4f} and {most[1]:.4f}")
        for name, prompts in self.divergences.items():
            steps, equal = numpy.concatenate(prompts, axis=1)
            print(f"    KL({name}), {len(steps)} steps: mean {steps.mean():.4e} median {numpy.median(steps):.4e}", end="")
            print(f" max {steps.max():.4e}, equal argmax {equal.mean():.4%}")


def compare(path, arguments, folder):
    comparison = Comparison()
    f32 = with_f32_weights(path, folder)
    own, own_f32 = Formwork(path, arguments, folder), Formwork(f32, arguments, folder)
    peer = Peer(path, flash_attn=arguments.flash_attention)
    reference = Peer(f32, type_k=llama_cpp.GGML_TYPE_F32, type_v=llama_cpp.GGML_TYPE_F32)
    prompts = [peer.tokens(text) for text in TEXTS]
    if arguments.formwork:
        check_tokens(path, arguments.formwork, peer, prompts)
    free = own.run(prompts, "--tokens", str(arguments.tokens))
    some = range(0, len(prompts), -(-len(prompts) // arguments.whole)) if arguments.whole else ()
    for index, prompt in enumerate(prompts):
        tokens, peer_rows = peer.greedy(prompt, arguments.tokens)
        p, peer_rows = log_softmax(reference.read(prompt, tokens)), log_softmax(peer_rows)
        [outcome], own_rows = own.run([prompt], follow=[tokens])
        own_rows = log_softmax(own_rows)
        comparison.free(index, free[index], (peer_rows, tokens), p)
        comparison.followed(index, outcome["steps"], peer_rows)
        comparison.diverges("llama.cpp || Formwork", peer_rows, own_rows)
        comparison.diverges("reference || llama.cpp", p, peer_rows)
        comparison.diverges("reference || Formwork", p, own_rows)
        _, rows = own.run([prompt[:1]], follow=[prompt[1:] + tokens])
        comparison.diverges("reference || Formwork, prompt as if generated", p, log_softmax(rows[len(prompt) - 1 :]))
        if index in some:
            _, rows = own.run([prompt], "--whole", follow=[tokens])
            _, f32_rows = own_f32.run([prompt], follow=[tokens])
            for name, q in {
                "reference || llama.cpp, of some prompts": peer_rows,
                "reference || Formwork, of these": own_rows,
                "reference || llama.cpp, of these, read as a prompt": log_softmax(peer.read(prompt, tokens)),
                "reference || Formwork, of these, read as a prompt": log_softmax(rows),
                "reference || Formwork, of these, on the f32 file": log_softmax(f32_rows),
            }.items():
                comparison.diverges(name, p, q)
    lengths = sorted(map(len, prompts))
    print(f"{pathlib.Path(path).name}: prompts of {lengths[0]} to {lengths[-1]} tokens")
    comparison.print()
    for name in ("Formwork", "Formwork, prompt as if generated"):
        ratio = comparison.ratio(f"reference || {name}", "reference || llama.cpp")
        print(f"    KL(reference || {name}) over llama.cpp's: {ratio}")


def check_tokens(path, program, peer, prompts):
    """Formwork's tokenizer gives the same tokens."""
    for text, prompt in zip(TEXTS, prompts):
        bos = ["--bos"] if prompt[0] == peer.llama.token_bos() else []
        command = [program, "tokenize", "-m", path, "--ids", *bos]
        ids = json.loads(subprocess.run(command, check=True, capture_output=True, input=text.encode()).stdout)
        assert ids == prompt, f"{text!r}: {ids} and {prompt}"
    print(f"tokens of {len(prompts)} prompts are the same in both")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--example", required=True, help="Formwork's example `logprobs`, built")
    parser.add_argument("--formwork", help="Formwork's program, to compare the tokenizers as well")
    parser.add_argument("--tokens", type=int, default=128, help="for each prompt")
    parser.add_argument("--whole", type=int, default=4, help="prompts of which every step is read as a prompt as well")
    parser.add_argument("--flash-attention", action="store_true", help="in llama.cpp; its Python package has it off")
    parser.add_argument("--keep-layout", action="store_true", help="no copies of weights for AMX and the like in llama.cpp")
    parser.add_argument("model", nargs="+", help="a GGUF file")
    arguments = parser.parse_args()
    if arguments.keep_layout:
        keep_layout()
    for path in arguments.model:
        with tempfile.TemporaryDirectory() as folder:
            compare(path, arguments, folder)


main()
