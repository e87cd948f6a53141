"""`/v1/chat/completions` through the official client: text, streams, structured output, sampling, log-probabilities."""

import json
import math

import pytest

from shapes import ASK, ASK_PERSON, Person

GREEDY = {"messages": ASK, "temperature": 0, "max_tokens": 16}


@pytest.fixture
def create(client, model):
    return lambda **options: client.chat.completions.create(model=model, **options)


def text_of(chunks, index=0):
    choices = [choice for chunk in chunks for choice in chunk.choices if choice.index == index]
    return "".join(choice.delta.content or "" for choice in choices)


def test_plain(create, model):
    answer = create(**GREEDY)
    [choice] = answer.choices
    assert (answer.object, answer.model, choice.index) == ("chat.completion", model, 0)
    assert answer.id.startswith("chatcmpl-")
    assert (choice.message.role, choice.message.refusal, choice.message.tool_calls) == ("assistant", None, None)
    assert choice.message.content
    assert choice.finish_reason in ("stop", "length")
    usage = answer.usage
    assert 0 < usage.completion_tokens <= 16
    assert usage.prompt_tokens > 0
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens


def test_roles_and_parts(create):
    parts = [{"type": "text", "text": "Tell me"}, {"type": "text", "text": "about the sea."}]
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": parts},
        {"role": "assistant", "content": "It is wet."},
        {"role": "user", "content": "And?", "name": "ann"},
    ]
    answer = create(messages=messages, max_completion_tokens=8)
    assert answer.usage.completion_tokens <= 8
    assert answer.choices[0].message.content


def test_an_answer_goes_back_into_the_conversation(create):
    first = create(**GREEDY).choices[0].message
    again = create(**{**GREEDY, "messages": [*ASK, first, {"role": "user", "content": "Go on."}]})
    assert again.choices[0].message.content


def test_length(create):
    answer = create(messages=ASK, max_tokens=3)
    assert (answer.choices[0].finish_reason, answer.usage.completion_tokens) == ("length", 3)


def test_a_stream_is_the_answer_in_pieces(create):
    whole = create(**GREEDY)
    chunks = list(create(**GREEDY, stream=True))
    assert text_of(chunks) == whole.choices[0].message.content
    assert len({(chunk.id, chunk.created, chunk.model, chunk.object) for chunk in chunks}) == 1
    assert chunks[0].object == "chat.completion.chunk"
    assert [chunk.choices[0].delta.role for chunk in chunks] == ["assistant"] + [None] * (len(chunks) - 1)
    reasons = [chunk.choices[0].finish_reason for chunk in chunks]
    assert reasons == [None] * (len(chunks) - 1) + [whole.choices[0].finish_reason]
    assert all(chunk.usage is None for chunk in chunks)


def test_a_stream_ends_with_the_usage(create):
    whole = create(**GREEDY)
    *chunks, last = create(**GREEDY, stream=True, stream_options={"include_usage": True})
    assert all(chunk.usage is None and chunk.choices for chunk in chunks)
    assert last.choices == []
    for field in ("prompt_tokens", "completion_tokens", "total_tokens"):
        assert getattr(last.usage, field) == getattr(whole.usage, field)


def test_the_stream_helper(client, model):
    """It throws away what was cut off, so this must come to its end."""
    wave = {"guided_regex": "(wave ){3}"}
    with client.chat.completions.stream(model=model, **GREEDY, extra_body=wave) as stream:
        deltas = [event.delta for event in stream if event.type == "content.delta"]
        final = stream.get_final_completion()
    assert "".join(deltas) == final.choices[0].message.content == "wave wave wave "


def test_structured_output(client, model):
    answer = client.chat.completions.parse(
        model=model, messages=ASK_PERSON, response_format=Person, max_tokens=90
    )
    [choice] = answer.choices
    assert isinstance(choice.message.parsed, Person)
    assert choice.finish_reason == "stop"


def test_a_parsed_answer_goes_back_into_the_conversation(client, model):
    """With what the client has added to it."""
    options = {"model": model, "response_format": Person, "max_tokens": 90}
    first = client.chat.completions.parse(messages=ASK_PERSON, **options).choices[0].message
    conversation = [*ASK_PERSON, first, {"role": "user", "content": "And another."}]
    assert client.chat.completions.parse(messages=conversation, **options).choices[0].message.parsed


def test_structured_output_streamed(client, model):
    options = {"model": model, "messages": ASK_PERSON, "response_format": Person, "max_tokens": 90, "temperature": 0}
    whole = client.chat.completions.parse(**options)
    with client.chat.completions.stream(**options) as stream:
        stream.until_done()
        final = stream.get_final_completion()
    assert isinstance(final.choices[0].message.parsed, Person)
    assert final.choices[0].message.content == whole.choices[0].message.content


@pytest.mark.parametrize("more", [0, 3])
def test_a_tight_budget_still_gives_a_whole_object(client, model, more):
    schema = {"type": "json_schema", "json_schema": {"name": "person", "schema": Person.model_json_schema()}}
    with pytest.raises(Exception) as refusal:
        client.chat.completions.create(model=model, messages=ASK_PERSON, response_format=schema, max_tokens=1)
    assert refusal.value.param == "max_tokens"
    minimum = max(int(word) for word in refusal.value.message.replace(",", " ").split() if word.isdigit())
    answer = client.chat.completions.parse(
        model=model, messages=ASK_PERSON, response_format=Person, max_tokens=minimum + more
    )
    assert answer.choices[0].finish_reason == "stop"
    assert answer.choices[0].message.parsed
    assert answer.usage.completion_tokens <= minimum + more


def test_json_object(create):
    answer = create(messages=ASK_PERSON, response_format={"type": "json_object"}, max_tokens=30)
    assert answer.choices[0].finish_reason == "stop"
    assert isinstance(json.loads(answer.choices[0].message.content), dict)


def test_text_is_a_format(create):
    assert create(**GREEDY, response_format={"type": "text"}).choices[0].message.content


@pytest.mark.parametrize(
    ("constraint", "holds"),
    [
        ({"guided_choice": ["ebb", "flow"]}, lambda text: text in ("ebb", "flow")),
        ({"guided_regex": "[A-Z]{3}-[0-9]{4}"}, lambda text: text[:3].isupper() and text[4:].isdigit()),
        ({"grammar": 'root ::= "wave"+'}, lambda text: set(text.split("wave")) == {""}),
        ({"guided_json": {"type": "integer", "minimum": 3, "maximum": 5}}, lambda text: int(text) in (3, 4, 5)),
    ],
)
def test_extensions(create, constraint, holds):
    assert holds(create(messages=ASK, max_tokens=16, extra_body=constraint).choices[0].message.content)


def test_stop(create):
    whole = create(**{**GREEDY, "max_tokens": 24}).choices[0].message.content
    stop = whole[len(whole) // 2 :][:4]
    expected = whole[: whole.index(stop)]
    options = {**GREEDY, "max_tokens": 24, "stop": [stop, "never said"]}
    choice = create(**options).choices[0]
    assert (choice.message.content, choice.finish_reason) == (expected, "stop")
    chunks = list(create(**options, stream=True))
    assert text_of(chunks) == expected
    assert chunks[-1].choices[0].finish_reason == "stop"


def test_a_seed_repeats_and_others_differ(create):
    def say(seed):
        return create(messages=ASK, temperature=1, max_tokens=16, seed=seed)

    first, again, *others = (say(seed) for seed in (1, 1, 2, 3))
    assert first.choices[0].message.content == again.choices[0].message.content
    assert first.system_fingerprint == again.system_fingerprint
    assert len({answer.choices[0].message.content for answer in (first, *others)}) > 1


def test_several_choices(create):
    options = {"messages": ASK, "n": 3, "max_tokens": 12, "temperature": 1, "seed": 5}
    answer = create(**options)
    texts = [choice.message.content for choice in answer.choices]
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert len(set(texts)) > 1
    assert 3 <= answer.usage.completion_tokens <= 36
    chunks = list(create(**options, stream=True))
    assert [text_of(chunks, index) for index in range(3)] == texts
    for index in range(3):
        pieces = [choice for chunk in chunks for choice in chunk.choices if choice.index == index]
        assert [piece.delta.role for piece in pieces if piece.delta.role] == ["assistant"]
        assert [piece.finish_reason for piece in pieces if piece.finish_reason] == [
            answer.choices[index].finish_reason
        ]


def check_logprobs(tokens, text, top):
    assert b"".join(bytes(token.bytes) for token in tokens) == text.encode()
    for token in tokens:
        assert token.logprob <= 0
        assert token.token in bytes(token.bytes).decode(errors="replace")
        assert len(token.top_logprobs) == top
        best = [other.logprob for other in token.top_logprobs]
        assert best == sorted(best, reverse=True)
        assert sum(math.exp(logprob) for logprob in best) < 1.001


def test_logprobs(create):
    options = {**GREEDY, "logprobs": True, "top_logprobs": 3}
    choice = create(**options).choices[0]
    tokens = choice.logprobs.content
    check_logprobs(tokens, choice.message.content, 3)
    for token in tokens:
        chosen = token.top_logprobs[0]
        assert (chosen.token, chosen.logprob) == (token.token, token.logprob)
    chunks = list(create(**options, stream=True))
    streamed = [token for chunk in chunks if chunk.choices[0].logprobs for token in chunk.choices[0].logprobs.content]
    assert streamed == tokens


def test_logprobs_without_the_top(create):
    choice = create(**{**GREEDY, "temperature": 1}, logprobs=True).choices[0]
    check_logprobs(choice.logprobs.content, choice.message.content, 0)


def test_no_logprobs_unless_asked_for(create):
    assert create(**GREEDY).choices[0].logprobs is None


def test_logprobs_under_a_schema(client, model):
    answer = client.chat.completions.parse(
        model=model, messages=ASK_PERSON, response_format=Person, max_tokens=90, logprobs=True, top_logprobs=2
    )
    choice = answer.choices[0]
    tokens = choice.logprobs.content
    assert b"".join(bytes(token.bytes) for token in tokens) == choice.message.content.encode()
    assert all(token.logprob <= 0 for token in tokens)


def test_sampling_fields_are_taken(create):
    options = {"temperature": 0.8, "top_p": 0.9, "presence_penalty": 0.5, "frequency_penalty": 0.5}
    extensions = {"top_k": 20, "min_p": 0.05, "repetition_penalty": 1.1}
    accounts = {"user": "ann", "metadata": {"a": "b"}, "store": False, "service_tier": "auto"}
    answer = create(messages=ASK, max_tokens=8, **options, **accounts, logit_bias={"50": -100}, extra_body=extensions)
    assert answer.choices[0].message.content


def test_models(client, model):
    listed = client.models.list().data
    assert model in [known.id for known in listed]
    assert client.models.retrieve(model) == next(known for known in listed if known.id == model)


def test_choices_within_an_answer_have_probabilities(client, model):
    schema = {
        "type": "object",
        "properties": {"team": {"enum": ["billing", "sales"]}, "urgent": {"type": "boolean"}},
        "required": ["team", "urgent"],
    }
    options = {
        "model": model,
        "messages": ASK,
        "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}},
        "temperature": 1,
        "seed": 7,
        "max_tokens": 60,
    }
    plain = client.chat.completions.create(**options).choices[0].message.content
    choice = client.chat.completions.create(**options, extra_body={"decisions": True}).choices[0]
    assert choice.message.content == plain
    decisions = choice.model_extra["decisions"]
    assert {decision["path"]: decision["value"] for decision in decisions} == {
        f"/{name}": value for name, value in json.loads(plain).items()
    }
    for decision in decisions:
        assert abs(sum(option["probability"] for option in decision["probabilities"]) - 1) < 1e-12
    chunks = client.chat.completions.create(**options, stream=True, extra_body={"decisions": ["/team"]})
    streamed = [one for chunk in chunks for one in (chunk.choices[0].model_extra or {}).get("decisions", [])]
    assert streamed == decisions[:1]
