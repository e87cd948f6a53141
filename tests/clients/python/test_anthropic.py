"""Tests `/v1/messages` and `/v1/messages/count_tokens` with Anthropic's official client."""

import json
from typing import Literal

import anthropic
import pytest
from pydantic import BaseModel

from shapes import ASK, ASK_PERSON, ASK_WEATHER, TOOLS, Person, check_arguments

# This version of the client has no parameter for the temperature, so it is an extra field of the body.
GREEDY = {"messages": ASK, "max_tokens": 16, "extra_body": {"temperature": 0}}


def anthropic_tool(tool):
    """Returns a tool of chat completions as this API takes it."""
    function = tool["function"]
    schema = {"input_schema": function["parameters"]}
    return {"name": function["name"], "description": function["description"], **schema}


WITH_TOOLS = {
    **GREEDY, "messages": ASK_WEATHER, "max_tokens": 60, "tools": [anthropic_tool(tool) for tool in TOOLS]
}


def connect(server, **options):
    """Creates a client. Its base URL is the root of the server, because the client adds `/v1`."""
    root = server["base_url"].removesuffix("/v1")
    return anthropic.Anthropic(base_url=root, max_retries=0, timeout=50, **options)


@pytest.fixture(scope="module")
def messages(server, model):
    """Calls a method of `client.messages` with the model under test."""
    with connect(server, api_key=server["api_key"]) as client:

        def call(method="create", **options):
            return getattr(client.messages, method)(**{"model": model, **options})

        yield call


def text_of(message):
    assert all(block.type == "text" for block in message.content)
    return "".join(block.text for block in message.content)


def check_tool_uses(message):
    """Checks that the content is calls of known tools with valid arguments. Returns names and arguments."""
    assert message.stop_reason == "tool_use"
    assert message.content and all(block.type == "tool_use" for block in message.content)
    assert len({block.id for block in message.content}) == len(message.content)
    return [(block.name, check_arguments(TOOLS, block.name, block.input)) for block in message.content]


def test_plain(messages, model):
    message = messages(**GREEDY)
    assert (message.type, message.role, message.model) == ("message", "assistant", model)
    assert message.id.startswith("msg_")
    assert text_of(message)
    assert message.stop_reason in ("end_turn", "max_tokens")
    assert message.stop_sequence is None
    assert message.usage.input_tokens > 0 and 0 < message.usage.output_tokens <= 16


def test_answers_as_chat_completions_do(messages, client, model):
    system = {"role": "system", "content": "Speak as a sailor."}
    chat = client.chat.completions.create(model=model, messages=[system, *ASK], temperature=0, max_tokens=16)
    message = messages(**GREEDY, system=system["content"])
    assert text_of(message) == chat.choices[0].message.content


def test_blocks_with_cache_control_are_text(messages):
    def block(text):
        return [{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]

    plain = messages(**GREEDY, system="Be brief.")
    options = {**GREEDY, "messages": [{"role": "user", "content": block(ASK[0]["content"])}]}
    assert text_of(messages(**options, system=block("Be brief."), metadata={"user_id": "ann"})) == text_of(plain)


def test_an_answer_goes_back_into_the_conversation(messages):
    first = messages(**GREEDY)
    conversation = [*ASK, first.to_param(), {"role": "system", "content": "Be brief."}]
    conversation.append({"role": "user", "content": "Go on."})
    assert text_of(messages(**{**GREEDY, "messages": conversation}))


def test_max_tokens(messages):
    message = messages(**{**GREEDY, "max_tokens": 3})
    assert (message.stop_reason, message.usage.output_tokens) == ("max_tokens", 3)


def test_stop_sequences(messages):
    options = {**GREEDY, "max_tokens": 24}
    whole = text_of(messages(**options))
    stop = whole[len(whole) // 2 :][:4]
    options["stop_sequences"] = ["never said", stop]
    message = messages(**options)
    assert text_of(message) == whole[: whole.index(stop)]
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", stop)
    with messages("stream", **options) as stream:
        streamed = stream.get_final_message()
    assert text_of(streamed) == text_of(message)
    assert (streamed.stop_reason, streamed.stop_sequence) == ("stop_sequence", stop)


def test_a_begun_answer_is_continued(messages):
    options = {**GREEDY, "max_tokens": 24}
    whole = text_of(messages(**options))
    begun = whole[: whole.index(" ", len(whole) // 3)]
    conversation = [*ASK, {"role": "assistant", "content": begun}]
    assert text_of(messages(**{**options, "messages": conversation})).startswith(whole[len(begun) :])


@pytest.mark.parametrize("options", [GREEDY, {**WITH_TOOLS, "tool_choice": {"type": "any"}}])
def test_events_have_an_order(messages, options):
    whole = messages(**options)
    events = [event for event in messages(**options, stream=True) if event.type != "ping"]
    start, delta = events[0], events[-2]
    assert (start.type, delta.type, events[-1].type) == ("message_start", "message_delta", "message_stop")
    assert (start.message.content, start.message.stop_reason) == ([], None)
    assert start.message.usage.input_tokens > 0
    assert delta.delta.stop_reason == whole.stop_reason
    assert delta.usage.output_tokens == whole.usage.output_tokens
    open_block, count = None, 0
    for event in events[1:-2]:
        if event.type == "content_block_start":
            assert (open_block, event.index) == (None, count)
            open_block, count = event.index, count + 1
        else:
            assert event.type in ("content_block_delta", "content_block_stop")
            assert event.index == open_block
            open_block = None if event.type == "content_block_stop" else open_block
    assert (open_block, count) == (None, len(whole.content))


def test_a_stream_is_the_answer_in_pieces(messages):
    whole = messages(**GREEDY)
    with messages("stream", **GREEDY) as stream:
        pieces = list(stream.text_stream)
        final = stream.get_final_message()
    assert len(pieces) > 1
    assert "".join(pieces) == text_of(final) == text_of(whole)
    assert final.stop_reason == whole.stop_reason
    assert final.usage.output_tokens == whole.usage.output_tokens


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        ({"type": "any"}, {"get_weather", "search"}),
        ({"type": "tool", "name": "search"}, {"search"}),
        ({"type": "any", "disable_parallel_tool_use": True}, {"get_weather", "search"}),
    ],
)
def test_a_required_call(messages, choice, names):
    found = check_tool_uses(messages(**WITH_TOOLS, tool_choice=choice))
    assert {name for name, _ in found} <= names
    assert len(found) == 1 or not choice.get("disable_parallel_tool_use")


def test_auto_means_either_and_none_means_text(messages):
    message = messages(**WITH_TOOLS)
    if message.stop_reason == "tool_use":
        check_tool_uses(message)
    else:
        assert text_of(message)
    message = messages(**{**WITH_TOOLS, "max_tokens": 12}, tool_choice={"type": "none"})
    assert text_of(message) and message.stop_reason != "tool_use"


def test_a_streamed_call_is_the_call_in_pieces(messages):
    options = {**WITH_TOOLS, "tool_choice": {"type": "any"}}
    whole = check_tool_uses(messages(**options))
    pieces = {}
    with messages("stream", **options) as stream:
        for event in stream:
            if event.type == "content_block_start":
                assert (event.content_block.type, event.content_block.input) == ("tool_use", {})
            elif event.type == "content_block_delta":
                pieces[event.index] = pieces.get(event.index, "") + event.delta.partial_json
        final = stream.get_final_message()
    assert check_tool_uses(final) == whole
    assert [json.loads(text) for text in pieces.values()] == [arguments for _, arguments in whole]


@pytest.mark.parametrize(
    "result",
    [
        {"content": "clear"},
        {"content": [{"type": "text", "text": "clear"}, {"type": "text", "text": "7 degrees"}]},
        {"content": "no such city", "is_error": True},
        {},
    ],
)
def test_from_the_call_to_the_final_answer(messages, result):
    first = messages(**WITH_TOOLS, tool_choice={"type": "any"})
    results = [{"type": "tool_result", "tool_use_id": block.id, **result} for block in first.content]
    results.append({"type": "text", "text": "Be brief."})
    conversation = [*ASK_WEATHER, first.to_param(), {"role": "user", "content": results}]
    options = {**WITH_TOOLS, "messages": conversation, "max_tokens": 12, "tool_choice": {"type": "none"}}
    assert text_of(messages(**options))


def test_the_tool_runner(server, model):
    called = []

    @anthropic.beta_tool
    def get_weather(city: str) -> str:
        """The weather in a city."""
        called.append(city)
        return "clear"

    options = {**GREEDY, "messages": ASK_WEATHER, "max_tokens": 40, "tool_choice": {"type": "any"}}
    with connect(server, api_key=server["api_key"]) as client:
        run = client.beta.messages.tool_runner(model=model, tools=[get_weather], max_iterations=2, **options)
        found = [block.input["city"] for message in run for block in message.content]
    assert called and found[: len(called)] == called


def test_structured_output(messages):
    schema = {"type": "json_schema", "schema": Person.model_json_schema()}
    options = {**GREEDY, "messages": ASK_PERSON, "max_tokens": 90, "output_config": {"format": schema}}
    message = messages(**options)
    Person.model_validate_json(text_of(message))
    assert message.stop_reason == "end_turn"
    with messages("stream", **options) as stream:
        assert stream.get_final_text() == text_of(message)


class Sky(BaseModel):
    """Has no bounds of strings and numbers, because the client removes them from the schema."""

    colour: Literal["blue", "grey"]
    windy: bool


def test_structured_output_is_parsed(messages):
    options = {**GREEDY, "max_tokens": 40, "output_format": Sky}
    message = messages("parse", **options)
    assert isinstance(message.parsed_output, Sky)
    with messages("stream", **options) as stream:
        assert stream.get_final_message().parsed_output == message.parsed_output


@pytest.mark.parametrize(
    "thinking",
    [
        {"type": "disabled"},
        {"type": "adaptive", "display": "omitted"},
        {"type": "enabled", "budget_tokens": 1024},
    ],
)
def test_a_model_without_thoughts_takes_the_parameter(messages, thinking):
    message = messages(**{**GREEDY, "max_tokens": 1100}, stop_sequences=[" "], thinking=thinking)
    assert text_of(message)


def test_sampling_fields_are_taken(messages):
    body = {"temperature": 0.8, "top_p": 0.9, "top_k": 20}
    assert text_of(messages(messages=ASK, max_tokens=8, service_tier="auto", extra_body=body))


@pytest.mark.parametrize("options", [{}, {"system": "Be brief."}, {"tools": WITH_TOOLS["tools"]}])
def test_counted_tokens_are_those_of_the_usage(messages, options):
    counted = messages("count_tokens", messages=ASK, **options)
    usage = messages(messages=ASK, max_tokens=1, **options).usage
    parts = (usage.input_tokens, usage.cache_creation_input_tokens, usage.cache_read_input_tokens)
    assert counted.input_tokens == sum(part or 0 for part in parts)


def test_models(server, model):
    with connect(server, api_key=server["api_key"]) as client:
        listed = list(client.models.list())
        known = client.models.retrieve(model)
    assert known in listed
    assert (known.id, known.type) == (model, "model")
    assert known.display_name and known.created_at


@pytest.mark.parametrize("header", ["x-api-key", "authorization"])
def test_the_key_comes_in_either_header(server, model, header):
    value = server["api_key"] if header == "x-api-key" else f"Bearer {server['api_key']}"
    headers = {"authorization": anthropic.Omit(), header: value}
    with connect(server, api_key="", default_headers=headers) as client:
        assert client.messages.count_tokens(model=model, messages=ASK).input_tokens > 0


BAD_SCHEMA = {"type": "object", "properties": {"x": {"pattern": "("}}}


def check_error(error, kind, status):
    assert (error.body["type"], error.body["error"]["type"], error.status_code) == ("error", kind, status)
    assert error.body["error"]["message"]


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("temperature", {"extra_body": {"temperature": 30}}),
        ("max_tokens", {"max_tokens": "many"}),
        ("messages", {"messages": []}),
        ("role", {"messages": [{"role": "ghost", "content": "boo"}]}),
        ("content", {"messages": [{"role": "user", "content": [{"type": "smell"}]}]}),
        ("tool_choice", {"tool_choice": {"type": "any"}}),
        ("unknown", {"tools": WITH_TOOLS["tools"], "tool_choice": {"type": "tool", "name": "unknown"}}),
        ("schema", {"output_config": {"format": {"type": "json_schema", "schema": {"type": "nothing"}}}}),
        ("bad", {"tools": [{"name": "bad", "input_schema": BAD_SCHEMA}]}),
        ("guided_frobnication", {"extra_body": {"guided_frobnication": 1}}),
    ],
)
def test_the_field_is_named(messages, field, options):
    for stream in (False, True):
        with pytest.raises(anthropic.BadRequestError, match=field) as refusal:
            messages(**{**GREEDY, "max_tokens": 4, "stream": stream, **options})
        check_error(refusal.value, "invalid_request_error", 400)


def test_a_prompt_that_is_too_long(messages):
    """Agents read both numbers from this message."""
    with pytest.raises(anthropic.BadRequestError, match=r"prompt is too long: \d+ tokens > \d+ maximum"):
        messages(**{**GREEDY, "messages": [{"role": "user", "content": "sea " * 20000}]})


def test_a_body_that_is_too_large(messages):
    with pytest.raises(anthropic.APIStatusError) as refusal:
        messages(**{**GREEDY, "messages": [{"role": "user", "content": "x" * (9 << 20)}]})
    check_error(refusal.value, "request_too_large", 413)


@pytest.mark.parametrize("method", ["create", "count_tokens"])
def test_an_unknown_model(messages, method):
    options = {"max_tokens": 4} if method == "create" else {}
    with pytest.raises(anthropic.NotFoundError) as refusal:
        messages(method, **options, messages=ASK, model="gpt-0")
    check_error(refusal.value, "not_found_error", 404)


def test_a_wrong_key(server, model):
    with connect(server, api_key="wrong") as stranger:
        for call in (
            lambda: stranger.messages.create(model=model, messages=ASK, max_tokens=4),
            lambda: stranger.messages.count_tokens(model=model, messages=ASK),
        ):
            with pytest.raises(anthropic.AuthenticationError) as refusal:
                call()
            check_error(refusal.value, "authentication_error", 401)
