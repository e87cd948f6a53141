"""Tests stored responses and conversations with OpenAI's official client."""

import json

import openai
import pytest

from shapes import TOOLS, check_arguments, responses_tool

GREEDY = {"input": "Tell me about the sea.", "temperature": 0, "max_output_tokens": 12}
MORE = {**GREEDY, "input": "Go on."}
CALL = {
    **GREEDY,
    "input": "What is the weather in Oslo?",
    "max_output_tokens": 60,
    "tools": [responses_tool(tool) for tool in TOOLS],
    "tool_choice": "required",
}


@pytest.fixture
def create(client, model):
    return lambda **options: client.responses.create(model=model, **options)


def user(text):
    return {"role": "user", "content": text}


def texts(items):
    """Returns the roles and texts of messages."""
    return [(item.role, item.content[0].text) for item in items]


def test_a_stored_response_is_retrieved(create, client):
    response = create(**GREEDY, metadata={"sea": "blue"}, instructions="Be brief.")
    found = client.responses.retrieve(response.id)
    assert found.to_dict() == response.to_dict()
    assert (found.store, found.metadata, found.instructions) == (True, {"sea": "blue"}, "Be brief.")


def test_a_streamed_response_is_stored(create, client):
    *_, last = create(**GREEDY, stream=True)
    assert client.responses.retrieve(last.response.id).output_text == last.response.output_text


def test_a_response_continues_another(create):
    """The answer is the same as that to the whole conversation."""
    first = create(**GREEDY)
    second = create(**MORE, previous_response_id=first.id)
    third = create(**GREEDY, previous_response_id=second.id)
    assert (second.previous_response_id, third.previous_response_id) == (first.id, second.id)
    conversation = [user(GREEDY["input"]), *first.output, user(MORE["input"])]
    whole = create(**{**GREEDY, "input": conversation}, store=False)
    assert (second.output_text, second.usage.input_tokens) == (whole.output_text, whole.usage.input_tokens)
    assert third.usage.input_tokens > second.usage.input_tokens


def test_two_responses_continue_the_same_one(create):
    first = create(**GREEDY)
    left, right = (create(**MORE, previous_response_id=first.id) for _ in range(2))
    assert left.id != right.id
    assert left.output_text == right.output_text


def test_instructions_hold_for_one_response(create):
    first = create(**GREEDY, instructions="Be brief.")
    second = create(**MORE, previous_response_id=first.id)
    conversation = [user(GREEDY["input"]), *first.output, user(MORE["input"])]
    whole = create(**{**GREEDY, "input": conversation})
    assert second.usage.input_tokens == whole.usage.input_tokens


def test_only_the_results_of_calls_are_sent(create):
    first = create(**CALL)
    found = [item for item in first.output if item.type == "function_call"]
    for item in found:
        check_arguments(TOOLS, item.name, item.arguments)
    results = [
        {"type": "function_call_output", "call_id": item.call_id, "output": json.dumps({"sky": "clear"})}
        for item in found
    ]
    options = {**CALL, "input": results, "tool_choice": "none", "max_output_tokens": 12}
    assert create(**options, previous_response_id=first.id).output_text


def test_input_items_are_listed_in_pages(create, client):
    first = create(**GREEDY)
    second = create(**MORE, previous_response_id=first.id)
    expected = [("user", GREEDY["input"]), ("assistant", first.output_text), ("user", MORE["input"])]
    found = list(client.responses.input_items.list(second.id, order="asc", limit=1))
    assert texts(found) == expected
    assert len({item.id for item in found}) == 3
    assert texts(client.responses.input_items.list(second.id)) == expected[::-1]
    page = client.responses.input_items.list(second.id, order="asc", after=found[0].id, limit=1)
    assert (texts(page.data), page.has_more) == (expected[1:2], True)


def test_a_deleted_response_is_gone(create, client):
    first = create(**GREEDY)
    second = create(**MORE, previous_response_id=first.id)
    client.responses.delete(first.id)
    for call in (client.responses.retrieve, client.responses.delete, client.responses.input_items.list):
        with pytest.raises(openai.NotFoundError):
            call(first.id)
    assert create(**GREEDY, previous_response_id=second.id).output_text


@pytest.mark.parametrize("options", [{"previous_response_id": "resp_0"}, {"conversation": "conv_0"}])
def test_an_unknown_id_is_named(create, options):
    for stream in (False, True):
        with pytest.raises((openai.BadRequestError, openai.NotFoundError), match="_0"):
            create(**GREEDY, **options, stream=stream)


def test_a_response_that_is_not_stored(create, client):
    response = create(**GREEDY, store=False)
    assert response.store is False
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(response.id)
    with pytest.raises(openai.BadRequestError) as refusal:
        create(**MORE, previous_response_id=response.id)
    assert refusal.value.param == "previous_response_id"


def test_a_conversation_collects_items(create, client):
    conversation = client.conversations.create(items=[{"role": "system", "content": "Be brief."}])
    first = create(**GREEDY, conversation=conversation.id)
    assert first.conversation.id == conversation.id
    second = create(**MORE, conversation=conversation.id)
    system = {"role": "system", "content": "Be brief."}
    whole = [system, user(GREEDY["input"]), *first.output, user(MORE["input"])]
    assert second.output_text == create(**{**GREEDY, "input": whole}).output_text
    items = list(client.conversations.items.list(conversation.id, order="asc", limit=2))
    assert texts(items) == [
        ("system", "Be brief."),
        ("user", GREEDY["input"]),
        ("assistant", first.output_text),
        ("user", MORE["input"]),
        ("assistant", second.output_text),
    ]
    with pytest.raises(openai.BadRequestError):
        create(**GREEDY, conversation=conversation.id, previous_response_id=first.id)


def test_the_items_of_a_conversation_change(client):
    conversation = client.conversations.create()
    added = client.conversations.items.create(conversation.id, items=[user("One."), user("Two.")]).data
    assert texts(added) == [("user", "One."), ("user", "Two.")]
    one = client.conversations.items.retrieve(added[0].id, conversation_id=conversation.id)
    assert one == added[0]
    client.conversations.items.delete(one.id, conversation_id=conversation.id)
    assert texts(client.conversations.items.list(conversation.id)) == [("user", "Two.")]
    with pytest.raises(openai.NotFoundError):
        client.conversations.items.retrieve(one.id, conversation_id=conversation.id)


def test_the_life_of_a_conversation(client):
    conversation = client.conversations.create(metadata={"sea": "blue"})
    assert conversation.object == "conversation"
    assert client.conversations.retrieve(conversation.id) == conversation
    updated = client.conversations.update(conversation.id, metadata={"sea": "grey"})
    assert (updated.id, updated.metadata) == (conversation.id, {"sea": "grey"})
    deleted = client.conversations.delete(conversation.id)
    assert (deleted.id, deleted.deleted, deleted.object) == (conversation.id, True, "conversation.deleted")
    with pytest.raises(openai.NotFoundError):
        client.conversations.retrieve(conversation.id)


def test_logprobs_are_included(create):
    options = {**GREEDY, "include": ["message.output_text.logprobs"], "top_logprobs": 2}
    response = create(**options)
    entries = response.output[0].content[0].logprobs
    assert b"".join(bytes(entry.bytes) for entry in entries).decode() == response.output_text
    for entry in entries:
        assert entry.logprob <= 0
        assert (entry.top_logprobs[0].token, len(entry.top_logprobs)) == (entry.token, 2)
    kind = "response.output_text.delta"
    deltas = [event for event in create(**options, stream=True) if event.type == kind]
    streamed = [entry.logprob for delta in deltas for entry in delta.logprobs]
    assert streamed == [entry.logprob for entry in entries]
    assert not create(**GREEDY).output[0].content[0].logprobs


def test_tokens_are_counted_without_a_response(create, client, model):
    def count(**options):
        counted = client.responses.input_tokens.count(model=model, **options)
        assert counted.object == "response.input_tokens"
        return counted.input_tokens

    first = create(**GREEDY)
    assert count(input=GREEDY["input"]) == first.usage.input_tokens
    second = create(**MORE, previous_response_id=first.id)
    assert count(input=MORE["input"], previous_response_id=first.id) == second.usage.input_tokens
    called = create(**CALL)
    options = {name: CALL[name] for name in ("input", "tools", "tool_choice")}
    assert count(**options) == called.usage.input_tokens


def test_others_need_the_key(create, server):
    response = create(**GREEDY)
    with openai.OpenAI(**{**server, "api_key": "wrong"}, max_retries=0) as stranger:
        for call in (
            lambda: stranger.responses.retrieve(response.id),
            lambda: stranger.responses.delete(response.id),
            lambda: stranger.conversations.create(),
        ):
            with pytest.raises(openai.AuthenticationError):
                call()
