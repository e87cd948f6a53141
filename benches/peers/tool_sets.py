"""The tool sets of `cargo bench -p formwork-benches --bench tools`, for scripts that measure peers on them."""

import json
import pathlib

SHAPES = json.loads((pathlib.Path(__file__).parents[1] / "tools.json").read_text())
MARKER = '<tool_call>\n{"name": "'
COUNTS = (50, 200, 500)
ROUNDS = 3
CALLS = 50


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


def begin(tool):
    """Returns the text of a call before its arguments."""
    return f'{MARKER}{tool["name"]}", "arguments": '


END = "}\n</tool_call>"


def call(tool):
    """Returns the text of a call."""
    return f'{begin(tool)}{json.dumps(tool["example"])}{END}'


def some(members):
    """Returns the tools of which a call is measured."""
    return members[:: len(members) // CALLS]


def report(count, cold, first, times, refused):
    """Prints one line of figures. All times are in seconds."""
    times = sorted(times)
    at = lambda share: times[int(len(times) * share)] * 1e6
    print(
        f"{count} tools: compile {min(cold) * 1e3:.1f} ms, first mask {min(first) * 1e6:.0f} µs, "
        f"masks: avg {sum(times) / len(times) * 1e6:.1f}, p50 {at(0.5):.1f}, p95 {at(0.95):.1f}, "
        f"p99 {at(0.99):.1f} µs, {refused} of {CALLS} calls refused",
        flush=True,
    )
