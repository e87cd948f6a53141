"""`/v1/responses` through the official client: stored, whole and in events, with tools and structure."""

import json
import re

import openai
import pytest

from shapes import ASK_PERSON, TOOLS, Person, Sum, check_arguments, responses_tool

GREEDY = {"input": "Tell me about the sea.", "temperature": 0, "max_output_tokens": 16}
WITH_TOOLS = {
    "input": "What is the weather in Oslo?",
    "temperature": 0,
    "max_output_tokens": 60,
    "tools": [responses_tool(tool) for tool in TOOLS],
}


@pytest.fixture
def create(client, model):
    return lambda **options: client.responses.create(model=model, **options)


def calls(response):
    return [(item.name, item.arguments) for item in response.output if item.type == "function_call"]


def check_called(response):
    found = [item for item in response.output if item.type == "function_call"]
    assert found
    for item in found:
        assert item.call_id
        check_arguments(TOOLS, item.name, item.arguments)
    assert len({item.call_id for item in found}) == len(found)
    return found


def test_plain(create, model):
    response = create(**GREEDY)
    [message] = response.output
    assert (response.object, response.model) == ("response", model)
    assert response.id.startswith("resp_")
    assert (message.type, message.role, message.content[0].type) == ("message", "assistant", "output_text")
    assert message.id
    assert response.output_text
    assert response.error is None
    usage = response.usage
    assert usage.input_tokens > 0 and 0 < usage.output_tokens <= 16
    assert usage.total_tokens == usage.input_tokens + usage.output_tokens


def test_a_length_makes_it_incomplete(create):
    response = create(**{**GREEDY, "max_output_tokens": 3})
    assert (response.status, response.incomplete_details.reason) == ("incomplete", "max_output_tokens")


def test_it_says_what_chat_says(create, client, model):
    chat = client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": GREEDY["input"]}], temperature=0, max_tokens=16
    )
    assert create(**GREEDY).output_text == chat.choices[0].message.content


def test_instructions_and_a_conversation(create):
    first = create(**GREEDY)
    conversation = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "input_text", "text": GREEDY["input"]}]},
        *first.output,
        {"type": "message", "role": "user", "content": "Go on."},
    ]
    assert create(**{**GREEDY, "input": conversation}, instructions="Speak as a sailor.").output_text


def test_events(create):
    whole = create(**GREEDY)
    events = list(create(**GREEDY, stream=True))
    kinds = [event.type for event in events]
    deltas = [event for event in events if event.type == "response.output_text.delta"]
    assert kinds[:4] == [
        "response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
    ]
    assert kinds[4:-4] == ["response.output_text.delta"] * len(deltas)
    assert kinds[-4:-1] == [
        "response.output_text.done", "response.content_part.done", "response.output_item.done",
    ]
    assert kinds[-1] == f"response.{whole.status}"
    assert [event.sequence_number for event in events] == list(range(len(events)))
    text = "".join(event.delta for event in deltas)
    assert text == whole.output_text == events[-1].response.output_text == events[-4].text
    assert {event.item_id for event in deltas} == {events[-1].response.output[0].id}
    assert events[0].response.id == events[-1].response.id
    assert events[-1].response.usage.output_tokens == whole.usage.output_tokens


def test_the_stream_helper(client, model):
    """It waits for a response that is complete, so this must come to its end."""
    word = {"type": "json_schema", "name": "word", "schema": {"enum": ["ebb", "flow"]}}
    with client.responses.stream(model=model, **GREEDY, text={"format": word}) as stream:
        text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        assert stream.get_final_response().output_text == text


def test_structured_output(client, model):
    response = client.responses.parse(model=model, input=ASK_PERSON, text_format=Person, max_output_tokens=90)
    assert response.status == "completed"
    assert isinstance(response.output_parsed, Person)


def test_structured_output_streamed(client, model):
    options = {"model": model, "input": ASK_PERSON, "text_format": Person, "max_output_tokens": 90, "temperature": 0}
    with client.responses.stream(**options) as stream:
        stream.until_done()
        final = stream.get_final_response()
    assert isinstance(final.output_parsed, Person)
    assert final.output_text == client.responses.parse(**options).output_text


def test_json_object(create):
    response = create(input=ASK_PERSON, text={"format": {"type": "json_object"}}, max_output_tokens=30)
    assert isinstance(json.loads(response.output_text), dict)


def test_none_means_text(create):
    response = create(**{**WITH_TOOLS, "max_output_tokens": 12}, tool_choice="none")
    assert response.output_text and not calls(response)


def test_auto_means_either(create):
    response = create(**WITH_TOOLS)
    if calls(response):
        check_called(response)
    else:
        assert response.output_text


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        ("required", {"get_weather", "search"}),
        ({"type": "function", "name": "search"}, {"search"}),
        (
            {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "search"}]},
            {"search"},
        ),
    ],
)
def test_a_call_where_one_is_wanted(create, choice, names):
    response = create(**WITH_TOOLS, tool_choice=choice)
    assert {item.name for item in check_called(response)} <= names
    assert response.status == "completed"


def test_not_in_parallel_means_one(create):
    assert len(check_called(create(**WITH_TOOLS, tool_choice="required", parallel_tool_calls=False))) == 1


def test_events_of_calls(create):
    options = {**WITH_TOOLS, "tool_choice": "required"}
    whole = create(**options)
    events = list(create(**options, stream=True))
    joined = {}
    for event in events:
        if event.type == "response.output_item.added":
            assert (event.item.type, event.item.arguments) == ("function_call", "")
            joined[event.output_index] = [event.item.name, ""]
        elif event.type == "response.function_call_arguments.delta":
            joined[event.output_index][1] += event.delta
        elif event.type == "response.function_call_arguments.done":
            assert event.arguments == joined[event.output_index][1]
    assert [tuple(call) for call in joined.values()] == calls(whole) == calls(events[-1].response)
    assert events[-1].type == "response.completed"


def test_strict_tools_are_parsed(client, model):
    tool = responses_tool(openai.pydantic_function_tool(Sum))
    response = client.responses.parse(
        model=model, input="Add 2 and 3.", tools=[tool], tool_choice="required", max_output_tokens=60
    )
    check = [Sum.model_validate_json(arguments) for _, arguments in calls(response)]
    assert check


def test_from_the_call_to_the_final_answer(create):
    first = create(**WITH_TOOLS, tool_choice="required")
    results = [
        {"type": "function_call_output", "call_id": item.call_id, "output": json.dumps({"sky": "clear"})}
        for item in check_called(first)
    ]
    conversation = [{"role": "user", "content": WITH_TOOLS["input"]}, *first.output, *results]
    response = create(**{**WITH_TOOLS, "input": conversation, "max_output_tokens": 12}, tool_choice="none")
    assert response.output_text


@pytest.mark.parametrize(
    ("param", "options"),
    [
        ("temperature", {"temperature": 90}),
        ("previous_response_id", {"previous_response_id": "resp_1"}),
        ("background", {"background": True}),
        ("text.format", {"text": {"format": {"type": "json_schema", "name": "s", "schema": {"type": "no"}}}}),
        ("guided_frobnication", {"extra_body": {"guided_frobnication": 1}}),
        ("tools", {"tools": [{"type": "custom", "name": "a", "format": {"type": "grammar", "syntax": "abnf"}}]}),
    ],
)
def test_the_field_is_named(create, param, options):
    with pytest.raises(openai.BadRequestError) as refusal:
        create(**{**GREEDY, **options})
    assert refusal.value.param is not None and refusal.value.param.startswith(param)


def test_a_custom_tool_takes_a_text(create, client, model):
    grammar = {"type": "grammar", "syntax": "regex", "definition": 'say "[a-z]{1,5}"\\n'}
    tool = {"type": "custom", "name": "run", "description": "Runs a command.", "format": grammar}
    options = {
        "input": "Greet me.", "tools": [tool], "tool_choice": {"type": "custom", "name": "run"},
        "temperature": 1.2, "max_output_tokens": 60,
    }
    response = create(**options, extra_body={"seed": 1})
    [call] = response.output
    assert (call.type, call.name) == ("custom_tool_call", "run") and call.id.startswith("ctc_") and call.call_id
    assert re.fullmatch(r'say "[a-z]{1,5}"\n', call.input)
    with client.responses.stream(model=model, **options, extra_body={"seed": 1}) as stream:
        events = list(stream)
        [streamed] = stream.get_final_response().output
    deltas = [event.delta for event in events if event.type == "response.custom_tool_call_input.delta"]
    assert "".join(deltas) == streamed.input == call.input
    [done] = [event for event in events if event.type == "response.custom_tool_call_input.done"]
    assert done.input == call.input
    result = {"type": "custom_tool_call_output", "call_id": call.call_id, "output": "Done."}
    items = [{"role": "user", "content": "Greet me."}, call, result]
    assert create(input=items, tools=[tool], tool_choice="none", max_output_tokens=8).output_text
    second = create(
        input=[result], previous_response_id=response.id, tools=[tool], tool_choice="none", max_output_tokens=8
    )
    listed = list(client.responses.input_items.list(second.id, order="asc"))
    assert [item.type for item in listed] == ["message", "custom_tool_call", "custom_tool_call_output"]
    assert (listed[1].id, listed[1].input) == (call.id, call.input)


def test_a_stored_response_is_continued_and_deleted(create, client):
    first = create(**GREEDY)
    second = create(**{**GREEDY, "input": "Go on."}, previous_response_id=first.id)
    assert second.previous_response_id == first.id
    assert second.usage.input_tokens > first.usage.input_tokens + first.usage.output_tokens
    items = list(client.responses.input_items.list(second.id, order="asc", limit=1))
    assert [item.role for item in items] == ["user", "assistant", "user"]
    assert client.responses.retrieve(second.id).output_text == second.output_text
    client.responses.delete(first.id)
    with pytest.raises(openai.BadRequestError) as refusal:
        create(**GREEDY, previous_response_id=first.id)
    assert refusal.value.code == "previous_response_not_found"


def test_a_conversation_collects_items(create, client):
    conversation = client.conversations.create(items=[{"role": "system", "content": "Be brief."}])
    response = create(**GREEDY, conversation=conversation.id)
    assert response.conversation.id == conversation.id
    items = list(client.conversations.items.list(conversation.id, order="asc"))
    assert [item.role for item in items] == ["system", "user", "assistant"]
    assert client.conversations.delete(conversation.id).deleted


def test_tokens_are_counted_before(create, client, model):
    counted = client.responses.input_tokens.count(model=model, input=GREEDY["input"])
    assert counted.input_tokens == create(**GREEDY).usage.input_tokens


def test_log_probabilities(create):
    response = create(**GREEDY, include=["message.output_text.logprobs"], top_logprobs=2)
    entries = response.output[0].content[0].logprobs
    assert "".join(entry.token for entry in entries) == response.output_text
    assert all(len(entry.top_logprobs) == 2 and entry.logprob <= 0 for entry in entries)


def test_an_unknown_model(client):
    with pytest.raises(openai.NotFoundError):
        client.responses.create(model="gpt-0", **GREEDY)
