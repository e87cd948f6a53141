"""A model in this process, the server, and transformers. These tests need a model."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import urllib.request

import pytest

import formwork

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer", "minimum": 0, "maximum": 99}},
    "required": ["name", "age"],
}


@pytest.fixture(scope="module")
def model(model_path: str):
    with formwork.Model(model_path, ctx=1024) as model:
        yield model


def test_generates_text_and_json(model: formwork.Model) -> None:
    assert model.generate("Say hello.", max_tokens=5)
    value = model.json("Describe a sailor.", SCHEMA, max_tokens=80)
    assert set(value) == {"name", "age"}
    assert model.generate("Is the sea salty?", choices=["yes", "no"]) in ("yes", "no")


def test_typed_fields_are_a_constraint(model: formwork.Model) -> None:
    definition = {"name": "dice", "fields": [{"name": "eyes", "type": "int", "min": 1, "max": 6}]}
    text = json.dumps(definition)
    for fields in (definition, text, formwork.Fields(text)):
        answer = model.chat("Roll a dice.", fields=fields)["choices"][0]["message"]["content"]
        assert json.loads(answer)["eyes"] in range(1, 7)


def test_refuses_what_a_text_cannot_be(model: formwork.Model) -> None:
    with pytest.raises(TypeError, match="`choices` is a list of texts"):
        model.generate("Is the sea salty?", choices="yes")
    with pytest.raises(formwork.OptionError, match="`n`"):
        model.generate("Hi", n=2)
    with pytest.raises(formwork.OptionError, match="`stream`"):
        model.chat("Hi", stream=True)
    with pytest.raises(formwork.OptionError, match="`port`"):
        formwork.Model("none", port=80)
    tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}]
    with pytest.raises(formwork.FormworkError, match="calls of tools"):
        model.generate("Look!", tools=tools, tool_choice="required", max_tokens=60)
    with pytest.raises(formwork.GrammarError) as error:
        model.json("Hi", {"type": "objct"})
    assert error.value.pointer == "/type"
    assert error.value.__cause__.param == "response_format.json_schema.schema"


def test_masks_of_the_tokenizer_of_a_model(model_path: str) -> None:
    tokenizer = formwork.Tokenizer.load(model_path)
    constraint = formwork.Constraint(formwork.Grammar.choices(["yes"]), tokenizer.vocabulary)
    allowed = {tokenizer.vocabulary.token(token) for token in constraint.matcher().allowed()}
    assert b"yes" in allowed and b"no" not in allowed


def test_streams_the_same_text(model: formwork.Model) -> None:
    options = {"max_tokens": 20, "temperature": 0}
    pieces = list(model.stream("Tell me about tides.", **options))
    assert len(pieces) > 1
    assert "".join(pieces) == model.generate("Tell me about tides.", **options)


def test_a_stream_can_be_left(model: formwork.Model) -> None:
    stream = model.stream("Tell me about tides.", max_tokens=500)
    assert next(stream)
    stream.close()
    assert model.generate("Say hello.", max_tokens=3)


def test_decides(model: formwork.Model) -> None:
    questions = [{"type": "predicate", "name": "cold", "instructions": "Was the soup cold?"}]
    answer = model.decide(input="The soup was cold.", questions=questions)
    assert "cold" in json.dumps(answer) and "probability" in json.dumps(answer)


def test_answers_threads_together(model: formwork.Model) -> None:
    answers: list[dict] = []
    threads = [
        threading.Thread(target=lambda: answers.append(model.json("Describe a sailor.", SCHEMA, max_tokens=80)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 4


def test_errors_are_exceptions(model: formwork.Model) -> None:
    with pytest.raises(formwork.ApiError, match="top_p") as raised:
        model.generate("x", top_p=7)
    assert raised.value.status == 400
    with pytest.raises(formwork.ApiError):
        model.request("/v1/nothing", {})
    with pytest.raises(formwork.OptionError):
        formwork.Model("/no/such/file.gguf")
    with pytest.raises(formwork.OptionError, match="--no-such-option"):
        formwork.Model(no_such_option=3)


def test_ctrl_c_ends_a_generation(model_path: str) -> None:
    # A program that was started in the background may ignore the signal.
    program = f"""
import _thread, signal, threading, formwork
signal.signal(signal.SIGINT, signal.default_int_handler)
model = formwork.Model({model_path!r}, ctx=2048)
threading.Timer(0.5, _thread.interrupt_main).start()
try:
    for _ in range(1000):
        model.generate("Tell me about tides.", max_tokens=1000)
except KeyboardInterrupt:
    print("interrupted")
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert ended.stdout == "interrupted\n", ended.stderr


def test_serves_while_a_block_runs(model_path: str) -> None:
    with formwork.Server(model_path, ctx=512) as server:
        with urllib.request.urlopen(server.url + "/models", timeout=10) as answer:
            assert json.load(answer)["data"]
    with pytest.raises(formwork.FormworkError):
        server.url
    with pytest.raises(formwork.FormworkError, match="no such|not found|No such"):
        formwork.Server("/no/such/file.gguf").start()


def test_runs_the_command() -> None:
    ended = subprocess.run([sys.executable, "-m", "formwork", "--version"], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0 and formwork.__version__ in ended.stdout
    ended = subprocess.run([sys.executable, "-m", "formwork", "runn"], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2 and "runn" in ended.stderr


def test_a_server_ends_with_its_program(model_path: str) -> None:
    program = "import formwork, sys; s = formwork.Server(sys.argv[1]).start(); print(s.url)"
    ran = subprocess.run([sys.executable, "-c", program, model_path], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    with pytest.raises(OSError):
        urllib.request.urlopen(ran.stdout.strip().removesuffix("/v1") + "/health", timeout=5)


def test_a_constraint_that_cannot_be_enforced_is_a_grammar_error(model: formwork.Model) -> None:
    with pytest.raises(formwork.GrammarError, match="minLength"):
        model.json("Hello", {"type": "string", "minLength": -1})
    with pytest.raises(formwork.GrammarError, match="not defined"):
        next(model.stream("Hello", gbnf="root ::= other"))
    with pytest.raises(formwork.ApiError, match="temperature"):
        model.chat("Hello", regex="a", temperature=-1)
