"""Measures llguidance on the tool sets of `cargo bench -p formwork-benches --bench tools`, with JSON calls.

Usage: tools.py TOKENIZER_JSON (needs the Python packages llguidance and numpy)

Each tool is a structural tag that begins with `<tool_call>`. Its arguments have one spelling, with a space
after each comma and colon. Keywords that llguidance does not know are ignored.

Prints the least time of three rounds to compile a set, the time of the first mask after the marker of a
call, and the times of masks along one call of each of 50 tools.
"""

import json
import pathlib
import sys
import time

import llguidance.numpy
from llguidance import LLMatcher, LLTokenizer, StructTag

SHAPES = json.loads((pathlib.Path(__file__).parents[2] / "tools.json").read_text())
MARKER = '<tool_call>\n{"name": "'
SPELLING = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": ", "lenient": True}


def tools(count):
    """Returns the same tools as `formwork_benches::tool_sets::tools`."""
    for index in range(count):
        copy, shape = divmod(index, len(SHAPES))
        shape = SHAPES[shape]
        if copy == 0:
            yield shape
            continue
        rename = lambda members: {f"{name}_{copy}": value for name, value in members.items()}
        parameters = dict(shape["parameters"])
        if "properties" in parameters:
            parameters["properties"] = rename(parameters["properties"])
        if "required" in parameters:
            parameters["required"] = [f"{name}_{copy}" for name in parameters["required"]]
        yield {"name": f"{shape['name']}_{copy}", "parameters": parameters, "example": rename(shape["example"])}


def grammar(members):
    """Returns the grammar of free text with calls of the tools."""
    tags = [
        StructTag(
            trigger="<tool_call>",
            begin=f'{MARKER}{tool["name"]}", "arguments": ',
            grammar={**tool["parameters"], "x-guidance": SPELLING},
            end="}\n</tool_call>",
        )
        for tool in members
    ]
    return StructTag.to_grammar(tags, assume_special=False)


def call(tool):
    return f'{MARKER}{tool["name"]}", "arguments": {json.dumps(tool["example"])}}}\n</tool_call>'


def main():
    tokenizer = LLTokenizer(pathlib.Path(sys.argv[1]).read_text())
    bitmask = llguidance.numpy.allocate_token_bitmask(1, tokenizer.vocab_size)

    def mask(matcher):
        start = time.perf_counter()
        llguidance.numpy.fill_next_token_bitmask(matcher, bitmask, 0)
        return time.perf_counter() - start

    for count in (50, 200, 500):
        members = list(tools(count))
        text = grammar(members)
        cold, first = [], []
        for _ in range(3):
            start = time.perf_counter()
            matcher = LLMatcher(tokenizer, text)
            cold.append(time.perf_counter() - start)
            if matcher.get_error():
                sys.exit(f"{count} tools: {matcher.get_error()}")
            matcher.consume_tokens(tokenizer.tokenize_str(MARKER))
            first.append(mask(matcher))
        times = []
        refused = 0
        for tool in members[:: count // 50]:
            matcher = LLMatcher(tokenizer, text)
            for token in tokenizer.tokenize_str(call(tool)):
                took = mask(matcher)
                start = time.perf_counter()
                if not matcher.consume_token(token):
                    refused += 1
                    break
                times.append(took + time.perf_counter() - start)
        times.sort()
        at = lambda share: times[int(len(times) * share)] * 1e6
        print(
            f"{count} tools: compile {min(cold) * 1e3:.1f} ms, first mask {min(first) * 1e6:.0f} µs, "
            f"masks: avg {sum(times) / len(times) * 1e6:.1f}, p50 {at(0.5):.1f}, p95 {at(0.95):.1f}, "
            f"p99 {at(0.99):.1f} µs, {refused} of 50 calls refused"
        )


main()
