"""Writes FOLDER/expected.json: the output of Python's jinja2 for every FOLDER/*.jinja and every conversation.

    pip install jinja2
    python3 reference.py [FOLDER]

The conversations are in conversations.json next to this file. The environment matches `apply_chat_template` in
`transformers`.
"""

import datetime
import json
import pathlib
import sys

import jinja2
import jinja2.ext
import jinja2.sandbox

NOW = datetime.datetime(2025, 3, 9, 14, 5, 7)


class Generation(jinja2.ext.Extension):
    """A `generation` block. It renders as its content."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("content"), [], [], body).set_lineno(line)

    def content(self, caller):
        return caller()


class Raised(Exception):
    """Error that a template raises with `raise_exception`."""


def raise_exception(message):
    raise Raised(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def render(environment, source, conversation):
    try:
        template = environment.from_string(source)
        variables = {"bos_token": "<s>", "eos_token": "</s>", "tools": None, "documents": None}
        variables |= conversation["variables"]
        variables |= {key: conversation[key] for key in ("messages", "add_generation_prompt")}
        return {"text": template.render(**variables)}
    except Raised as error:
        return {"raised": str(error)}
    except Exception as error:  # an error of Python, such as iterating over None
        return {"error": str(error)}


def main():
    here = pathlib.Path(__file__).parent
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here
    conversations = json.loads((here / "conversations.json").read_text(encoding="utf-8"))
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = NOW.strftime
    expected = {
        path.name: {
            name: render(environment, path.read_text(encoding="utf-8"), conversation)
            for name, conversation in conversations.items()
        }
        for path in sorted(folder.glob("*.jinja"))
    }
    text = json.dumps(expected, ensure_ascii=False, indent=1)
    (folder / "expected.json").write_text(text + "\n", encoding="utf-8")


main()
