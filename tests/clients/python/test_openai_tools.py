"""Tools through the official client: who may call what, streams, and the way there and back."""

import json
import re
from collections import Counter

import openai
import pytest
from pydantic import BaseModel

from shapes import (
    ASK_PERSON, ASK_WEATHER, CLOCK, SEARCH, TOOLS, WEATHER, Person, Sum, allowed, calls, check_called, check_calls,
    check_either, named, check_arguments,
)

BASE = {"messages": ASK_WEATHER, "temperature": 0, "max_tokens": 50}


@pytest.fixture
def ask(client, model):
    """One choice of an answer, or the chunks of a stream."""

    def ask(**options):
        answer = client.chat.completions.create(model=model, **{**BASE, "tools": TOOLS, **options})
        return list(answer) if options.get("stream") else answer.choices[0]

    return ask


def joined(chunks):
    """The calls of a stream, put together as clients do, and what is wrong on the way."""
    found = []
    for chunk in chunks:
        for delta in (delta for choice in chunk.choices for delta in choice.delta.tool_calls or []):
            if delta.index == len(found):
                assert delta.type == "function" and delta.id and delta.function.name
                found.append([delta.function.name, ""])
            else:
                # Only the call that was opened last goes on, and it is not introduced again.
                assert delta.index == len(found) - 1
                assert (delta.id, delta.type, delta.function.name) == (None, None, None)
            found[delta.index][1] += delta.function.arguments or ""
    return [tuple(call) for call in found]


def test_none_means_text(ask):
    choice = ask(tool_choice="none", max_tokens=12)
    assert not choice.message.tool_calls
    assert choice.message.content
    assert choice.finish_reason in ("stop", "length")


@pytest.mark.parametrize("options", [{}, {"tool_choice": "auto"}])
def test_auto_means_either(ask, options):
    check_either(TOOLS, ask(**options))


@pytest.mark.parametrize("seed", range(2))
def test_auto_at_random(ask, seed):
    check_either(TOOLS, ask(temperature=1.2, seed=seed))


@pytest.mark.parametrize("seed", range(3))
def test_required_means_a_call(ask, seed):
    choice = ask(tool_choice="required", temperature=1.2, seed=seed)
    check_called(TOOLS, choice)
    assert choice.finish_reason == "tool_calls"


@pytest.mark.parametrize("tool", TOOLS)
def test_a_named_tool_is_the_one(ask, tool):
    name = tool["function"]["name"]
    choice = ask(tool_choice=named(name))
    check_called(TOOLS, choice)
    assert [call.function.name for call in choice.message.tool_calls] == [name]
    assert choice.finish_reason in ("tool_calls", "stop")


def test_allowed_tools_required(ask):
    choice = ask(tool_choice=allowed("required", "search"))
    check_called(TOOLS, choice)
    assert {call.function.name for call in choice.message.tool_calls} == {"search"}


def test_allowed_tools_auto(ask):
    choice = ask(tool_choice=allowed("auto", "search"))
    check_either(TOOLS, choice)
    assert {name for name, _ in calls(choice.message)} <= {"search"}


@pytest.mark.parametrize("seed", range(2))
def test_not_in_parallel_means_one(ask, seed):
    choice = ask(tool_choice="required", parallel_tool_calls=False, temperature=1.2, seed=seed)
    check_called(TOOLS, choice)
    assert len(choice.message.tool_calls) == 1


@pytest.mark.parametrize("seed", range(2))
def test_in_parallel_means_some(ask, seed):
    choice = ask(tool_choice="required", parallel_tool_calls=True, temperature=1.2, seed=seed, max_tokens=120)
    check_called(TOOLS, choice)


def test_a_tool_without_parameters(ask):
    choice = ask(tools=[CLOCK], tool_choice="required")
    check_called([CLOCK], choice)
    assert isinstance(json.loads(choice.message.tool_calls[0].function.arguments), dict)


def test_an_optional_argument(ask):
    schema = SEARCH["function"]["parameters"]
    for seed in range(2):
        [call] = ask(tool_choice=named("search"), temperature=1.2, seed=seed).message.tool_calls
        assert set(schema["required"]) <= set(json.loads(call.function.arguments)) <= set(schema["properties"])


@pytest.mark.parametrize("choice", ["auto", "required", named("get_weather"), "none"])
def test_a_stream_is_the_answer_in_pieces(ask, choice):
    options = {"tool_choice": choice, "temperature": 1.2, "seed": 3, "max_tokens": 40}
    whole = ask(**options)
    chunks = ask(**options, stream=True)
    assert joined(chunks) == calls(whole.message)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert text == (whole.message.content or "")
    reasons = [chunk.choices[0].finish_reason for chunk in chunks]
    assert reasons == [None] * (len(chunks) - 1) + [whole.finish_reason]
    ids = [call.id for chunk in chunks for call in chunk.choices[0].delta.tool_calls or [] if call.id]
    assert max(Counter(ids).values(), default=1) == 1


def test_arguments_come_in_pieces(ask):
    """A client that shows arguments as they grow gets more than one piece, and never an empty list of calls."""
    chunks = ask(tool_choice=named("get_weather"), stream=True)
    pieces = [chunk for chunk in chunks if chunk.choices[0].delta.tool_calls]
    assert len(pieces) > 2
    assert all("tool_calls" not in chunk.choices[0].delta.model_fields_set for chunk in chunks if chunk not in pieces)
    assert pieces[0].choices[0].delta.tool_calls[0].function.arguments == ""


def test_the_usage_of_a_streamed_call(ask):
    last = ask(tool_choice="required", stream=True, stream_options={"include_usage": True})[-1]
    assert last.choices == [] and last.usage.completion_tokens > 0


def test_several_choices_with_calls(client, model):
    answer = client.chat.completions.create(
        model=model, **{**BASE, "temperature": 1.2}, tools=TOOLS, tool_choice="required", n=2, seed=1
    )
    for choice in answer.choices:
        check_called(TOOLS, choice)
    ids = [call.id for choice in answer.choices for call in choice.message.tool_calls]
    assert len(set(ids)) == len(ids)


def test_strict_tools_are_parsed(client, model):
    """And the parsed call goes back into the conversation, with what the client has added to it."""
    options = {**BASE, "model": model, "tools": [openai.pydantic_function_tool(Sum)], "tool_choice": "required"}
    first = client.chat.completions.parse(**options).choices[0].message
    assert all(isinstance(call.function.parsed_arguments, Sum) for call in first.tool_calls)
    options["messages"] = [*ASK_WEATHER, first, *(result(call) for call in first.tool_calls)]
    assert client.chat.completions.parse(**options).choices[0].message.tool_calls


def test_the_stream_helper(client, model):
    tools = [openai.pydantic_function_tool(Sum)]
    with client.chat.completions.stream(model=model, **BASE, tools=tools, tool_choice="required") as stream:
        done = [event for event in stream if event.type == "tool_calls.function.arguments.done"]
        final = stream.get_final_completion()
    assert [event.arguments for event in done] == [arguments for _, arguments in calls(final.choices[0].message)]
    assert all(isinstance(event.parsed_arguments, Sum) for event in done)


def result(call):
    return {"role": "tool", "tool_call_id": call.id, "content": json.dumps({"sky": "clear", "degrees": 7})}


@pytest.mark.parametrize("final", [{"tools": TOOLS, "tool_choice": "none"}, {"tools": openai.omit}])
def test_from_the_call_to_the_final_answer(ask, final):
    first = ask(tool_choice="required").message
    messages = [*ASK_WEATHER, first, *(result(call) for call in first.tool_calls)]
    choice = ask(messages=messages, max_tokens=12, **final)
    assert choice.message.content and not choice.message.tool_calls


def test_after_a_result_the_model_may_go_on_calling(ask):
    first = ask(tool_choice="required").message
    messages = [*ASK_WEATHER, first.model_dump(exclude_none=True), *(result(call) for call in first.tool_calls)]
    check_either(TOOLS, ask(messages=messages))
    check_called(TOOLS, ask(messages=messages, tool_choice="required"))


def test_a_conversation_of_several_calls(ask):
    """Two calls in one message, their results in another order, content beside them, and arguments that are empty."""
    call = {"type": "function", "function": {"name": "get_time", "arguments": ""}}
    said = {"role": "assistant", "content": "Let me see.", "tool_calls": [{**call, "id": "a"}, {**call, "id": "b"}]}
    results = [{"role": "tool", "tool_call_id": name, "content": [{"type": "text", "text": name}]} for name in "ba"]
    messages = [*ASK_WEATHER, said, *results, {"role": "user", "content": "So?"}]
    assert ask(messages=messages, tools=[CLOCK], tool_choice="none", max_tokens=8).message.content


def test_tools_beside_a_format(client, model):
    """The format holds for text, the tools' schemas for calls, and neither is dropped."""
    for seed in range(2):
        answer = client.chat.completions.parse(
            model=model, messages=ASK_PERSON, temperature=1, seed=seed, max_tokens=120, response_format=Person,
            tools=[openai.pydantic_function_tool(Sum)],
        )
        message = answer.choices[0].message
        if message.tool_calls:
            assert all(isinstance(call.function.parsed_arguments, Sum) for call in message.tool_calls)
        else:
            assert isinstance(message.parsed, Person)


def test_a_format_where_no_tool_may_be_called(client, model):
    answer = client.chat.completions.parse(
        model=model, messages=ASK_PERSON, max_tokens=90, response_format=Person,
        tools=[openai.pydantic_function_tool(Sum)], tool_choice="none",
    )
    assert isinstance(answer.choices[0].message.parsed, Person)


def test_a_tight_budget_still_gives_a_whole_call(ask):
    with pytest.raises(openai.BadRequestError) as refusal:
        ask(tool_choice="required", max_tokens=1)
    assert refusal.value.param == "max_tokens"
    minimum = max(int(word) for word in refusal.value.message.replace(",", " ").split() if word.isdigit())
    choice = ask(tool_choice="required", max_tokens=minimum)
    check_called(TOOLS, choice)
    assert choice.finish_reason == "tool_calls"


class Node(BaseModel):
    """A schema that refers to itself."""

    value: int
    next: "Node | None"


def test_arguments_of_a_recursive_schema(ask):
    tool = openai.pydantic_function_tool(Node)
    choice = ask(tools=[tool], tool_choice="required", max_tokens=80)
    for name, arguments in calls(choice.message):
        check_arguments([tool], name, arguments)
        Node.model_validate_json(arguments)


def test_calls_are_not_strict_only(ask):
    """Arguments follow the schema whether or not `strict` says so."""
    for strict in (False, None):
        tool = {**WEATHER, "function": {**WEATHER["function"], "strict": strict}}
        check_calls([WEATHER], ask(tools=[tool], tool_choice="required").message)


def test_a_custom_tool_takes_a_text(ask):
    grammar = {"type": "grammar", "grammar": {"syntax": "regex", "definition": 'say "[a-z]{1,5}"\\n'}}
    tool = {"type": "custom", "custom": {"name": "run", "description": "Runs a command.", "format": grammar}}
    options = {"tools": [CLOCK, tool], "tool_choice": {"type": "custom", "custom": {"name": "run"}}}
    choice = ask(**options)
    [call] = choice.message.tool_calls
    assert (call.type, call.custom.name) == ("custom", "run") and call.id
    assert re.fullmatch(r'say "[a-z]{1,5}"\n', call.custom.input)
    # The client has no type for these deltas, and keeps them as they are.
    deltas = [delta for chunk in ask(**options, stream=True) for delta in chunk.choices[0].delta.tool_calls or []]
    assert (deltas[0].type, deltas[0].custom["name"]) == ("custom", "run")
    assert "".join(delta.custom["input"] for delta in deltas) == call.custom.input
    messages = [*ASK_WEATHER, choice.message, {"role": "tool", "tool_call_id": call.id, "content": "Done."}]
    assert ask(messages=messages, tools=[tool], tool_choice="none", max_tokens=8).message.content
