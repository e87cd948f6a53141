"""Measures llguidance on the tool sets of `cargo bench -p formwork-benches --bench tools`, with JSON calls.

Usage: tools.py TOKENIZER_JSON (needs the Python packages llguidance and numpy)

Each tool is a structural tag that begins with `<tool_call>`. Its arguments have one spelling, with a space
after each comma and colon. Keywords that llguidance does not know are ignored.

Prints the least time of three rounds to compile a set, the time of the first mask after the marker of a
call, and the times of masks along one call of each of 50 tools.
"""

import pathlib
import sys
import time

import llguidance.numpy
from llguidance import LLMatcher, LLTokenizer, StructTag

sys.path.append(str(pathlib.Path(__file__).parents[1]))
from tool_sets import COUNTS, END, MARKER, ROUNDS, begin, call, report, some, tools  # noqa: E402

SPELLING = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": ", "lenient": True}


def grammar(members):
    """Returns the grammar of free text with calls of the tools."""
    tags = [
        StructTag(
            trigger="<tool_call>",
            begin=begin(tool),
            grammar={**tool["parameters"], "x-guidance": SPELLING},
            end=END,
        )
        for tool in members
    ]
    return StructTag.to_grammar(tags, assume_special=False)


def main():
    tokenizer = LLTokenizer(pathlib.Path(sys.argv[1]).read_text())
    bitmask = llguidance.numpy.allocate_token_bitmask(1, tokenizer.vocab_size)

    def mask(matcher):
        start = time.perf_counter()
        llguidance.numpy.fill_next_token_bitmask(matcher, bitmask, 0)
        return time.perf_counter() - start

    for count in COUNTS:
        members = list(tools(count))
        text = grammar(members)
        cold, first = [], []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            matcher = LLMatcher(tokenizer, text)
            cold.append(time.perf_counter() - start)
            if matcher.get_error():
                sys.exit(f"{count} tools: {matcher.get_error()}")
            matcher.consume_tokens(tokenizer.tokenize_str(MARKER))
            first.append(mask(matcher))
        times = []
        refused = 0
        for tool in some(members):
            matcher = LLMatcher(tokenizer, text)
            for token in tokenizer.tokenize_str(call(tool)):
                took = mask(matcher)
                start = time.perf_counter()
                if not matcher.consume_token(token):
                    refused += 1
                    break
                times.append(took + time.perf_counter() - start)
        report(count, cold, first, times, refused)


main()
