"""Measures XGrammar on the tool sets of `cargo bench -p formwork-benches --bench tools`, with JSON calls.

Usage: tools.py TOKENIZER_FOLDER (needs the Python packages xgrammar, transformers and numpy)

Each tool is a tag of one structural tag, which begins with `<tool_call>`. The compiler has one thread and no cache.
Keywords that XGrammar does not know are ignored.

Prints the time to compile a set once, which takes seconds, the time of the first mask after the marker of a
call, and the times of masks along one call of each of 50 tools.
"""

import pathlib
import sys
import time

import xgrammar
from transformers import AutoTokenizer

sys.path.append(str(pathlib.Path(__file__).parents[1]))
from tool_sets import COUNTS, END, MARKER, begin, call, report, some, tools  # noqa: E402


def tag(members):
    """Returns the structural tag of free text with calls of the tools."""
    tags = [
        {
            "begin": begin(tool),
            "content": {"type": "json_schema", "json_schema": tool["parameters"]},
            "end": END,
        }
        for tool in members
    ]
    text = {"type": "triggered_tags", "triggers": ["<tool_call>"], "tags": tags}
    return {"type": "structural_tag", "format": text}


def main():
    tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
    information = xgrammar.TokenizerInfo.from_huggingface(tokenizer)
    bitmask = xgrammar.allocate_token_bitmask(1, information.vocab_size)
    encode = lambda text: tokenizer.encode(text, add_special_tokens=False)

    def mask(matcher):
        start = time.perf_counter()
        matcher.fill_next_token_bitmask(bitmask)
        return time.perf_counter() - start

    for count in COUNTS:
        members = list(tools(count))
        compiler = xgrammar.GrammarCompiler(information, max_threads=1, cache_enabled=False)
        start = time.perf_counter()
        compiled = compiler.compile_structural_tag(tag(members))
        cold = time.perf_counter() - start
        matcher = xgrammar.GrammarMatcher(compiled)
        for token in encode(MARKER):
            if not matcher.accept_token(token):
                sys.exit(f"{count} tools: the start of a call is refused")
        first = mask(matcher)
        times = []
        refused = 0
        for tool in some(members):
            matcher = xgrammar.GrammarMatcher(compiled)
            for token in encode(call(tool)):
                took = mask(matcher)
                start = time.perf_counter()
                if not matcher.accept_token(token):
                    refused += 1
                    break
                times.append(took + time.perf_counter() - start)
        report(count, [cold], [first], times, refused)


main()
