"""Walks along texts of grammars in llama.cpp: the mask of each token and the step over it.

    python3 grammars.py --tokenizer tokenizer.json --texts texts.json [--seconds 120] [--chosen] [NAME ...]
"""

import argparse
import ctypes
import json
import pathlib
import tempfile
import time

import gguf
import llama_cpp
import numpy

HERE = pathlib.Path(__file__).parent
GRAMMARS = HERE / "../../../grammars"


def vocabulary(tokenizer, folder):
    """A GGUF with the vocabulary of a `tokenizer.json`, and nothing else."""
    tokenizer = json.loads(pathlib.Path(tokenizer).read_text())
    pieces = {token: text for text, token in tokenizer["model"]["vocab"].items()}
    special = {added["id"]: added["content"] for added in tokenizer["added_tokens"]}
    count = max([*pieces, *special]) + 1
    texts = [special.get(token, pieces.get(token, f"[unused {token}]")) for token in range(count)]
    kinds = [gguf.TokenType.CONTROL if token in special else gguf.TokenType.NORMAL for token in range(count)]
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in tokenizer["model"]["merges"]]
    path = f"{folder}/vocabulary.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("llama-bpe")
    writer.add_token_list(texts)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges)
    writer.add_eos_token_id(texts.index("<|end_of_text|>"))
    writer.add_bos_token_id(texts.index("<|begin_of_text|>"))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    parameters = llama_cpp.llama_model_default_params()
    parameters.vocab_only = True
    model = llama_cpp.llama_model_load_from_file(path.encode(), parameters)
    assert model, "the vocabulary was not read"
    return llama_cpp.llama_model_get_vocab(model)


def grammar(name):
    """The GBNF of a grammar: Formwork's own, unless llama.cpp refuses it."""
    own = HERE / f"grammars/{name}.gbnf"
    return (own if own.exists() else GRAMMARS / f"{name}.gbnf").read_bytes()


class Candidates:
    """Tokens, as a sampler takes them: all of a vocabulary, or one."""

    def __init__(self, count):
        self.whole = count > 1
        self.rows = (llama_cpp.llama_token_data * count)()
        self.view = numpy.frombuffer(self.rows, dtype=[("id", "i4"), ("logit", "f4"), ("p", "f4")])
        self.view["id"] = numpy.arange(count)
        self.array = llama_cpp.llama_token_data_array(
            ctypes.cast(self.rows, llama_cpp.llama_token_data_p), count, -1, False
        )

    def allowed(self, sampler, token):
        """How long the mask takes, and whether the token is in it."""
        self.view["logit"] = 0
        if not self.whole:
            self.view["id"] = token
        reference = ctypes.byref(self.array)
        start = time.perf_counter()
        llama_cpp.llama_sampler_apply(sampler, reference)
        return time.perf_counter() - start, self.view["logit"][token if self.whole else 0] == 0


def walk(first, texts, candidates, deadline):
    """The times of each token; texts that were given up; and whether there was time for all."""
    times, given_up = [], 0
    for text in texts:
        sampler = llama_cpp.llama_sampler_clone(first)
        try:
            for token in text:
                if time.monotonic() > deadline:
                    return times, given_up, False
                mask, allowed = candidates.allowed(sampler, token)
                if not allowed:
                    given_up += 1
                    break
                start = time.perf_counter()
                llama_cpp.llama_sampler_accept(sampler, token)
                times.append((mask + time.perf_counter() - start) * 1e6)
        finally:
            llama_cpp.llama_sampler_free(sampler)
    return times, given_up, True


def row(times):
    times = sorted(times)
    at = [times[-(-len(times) * share // 1000) - 1] for share in (500, 900, 990, 999)]
    figures = [sum(times) / len(times), *at, times[-1]]
    return " ".join(f"{figure:>9.1f}" for figure in figures)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokenizer", required=True, help="a tokenizer.json with byte-level BPE, Llama 3's")
    parser.add_argument("--texts", required=True, help="what Formwork's benchmark wrote with --texts")
    parser.add_argument("--seconds", type=float, default=120, help="for each grammar")
    parser.add_argument("--chosen", action="store_true", help="ask about the text's token alone")
    parser.add_argument("name", nargs="*")
    arguments = parser.parse_args()
    texts = json.loads(pathlib.Path(arguments.texts).read_text())
    with tempfile.TemporaryDirectory() as folder:
        vocab = vocabulary(arguments.tokenizer, folder)
    candidates = Candidates(1 if arguments.chosen else llama_cpp.llama_vocab_n_tokens(vocab))
    print(f"{'mask and step, µs':<22}" + " ".join(f"{name:>9}" for name in "avg p50 p90 p99 p99.9 max".split()))
    for name in arguments.name or texts:
        start = time.perf_counter()
        sampler = llama_cpp.llama_sampler_init_grammar(vocab, grammar(name), b"root")
        compiled = (time.perf_counter() - start) * 1e6
        assert sampler, f"{name}: refused"
        of_all = sum(map(len, texts[name]))
        times, given_up, whole = walk(sampler, texts[name], candidates, time.monotonic() + arguments.seconds)
        if times:
            print(f"{name:<22}{row(times)}")
        print(f"  {len(times)} of {of_all} tokens, {given_up} texts given up, compiled in {compiled:.0f} µs")
        if not whole:
            print(f"  stopped after {arguments.seconds:.0f} s")


main()
