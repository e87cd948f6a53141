"""LiteLLM with the `openai` provider and another base URL."""

import asyncio
import json

import litellm
import pytest

from shapes import ASK, ASK_PERSON, ASK_WEATHER, TOOLS, Person, calls, check_called, check_either

litellm.telemetry = False
litellm.num_retries = 0


@pytest.fixture
def reach(server, model):
    """Where and whom to ask."""
    return {"model": f"openai/{model}", "api_base": server["base_url"], "api_key": server["api_key"], "max_retries": 0}


@pytest.fixture
def complete(reach):
    return lambda **options: litellm.completion(**{**reach, "temperature": 0, "max_tokens": 16, **options})


def test_plain_and_streamed(complete):
    answer = complete(messages=ASK)
    assert answer.choices[0].message.content
    assert answer.usage.completion_tokens > 0
    chunks = list(complete(messages=ASK, stream=True, stream_options={"include_usage": True}))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == answer.choices[0].message.content
    assert chunks[-1].usage.completion_tokens == answer.usage.completion_tokens
    built = litellm.stream_chunk_builder(chunks, messages=ASK)
    assert built.choices[0].message.content == text


def test_at_the_same_time(reach):
    async def both():
        return await asyncio.gather(
            *(litellm.acompletion(**reach, messages=ASK, temperature=0, max_tokens=8) for _ in range(3))
        )

    assert len({answer.choices[0].message.content for answer in asyncio.run(both())}) == 1


def test_structured_output(complete):
    answer = complete(messages=ASK_PERSON, response_format=Person, max_tokens=90)
    Person.model_validate_json(answer.choices[0].message.content)


def test_json_object(complete):
    answer = complete(messages=ASK_PERSON, response_format={"type": "json_object"}, max_tokens=30)
    assert isinstance(json.loads(answer.choices[0].message.content), dict)


@pytest.mark.parametrize("choice", ["none", "auto", "required", {"type": "function", "function": {"name": "search"}}])
def test_tools(complete, choice):
    [answer] = complete(messages=ASK_WEATHER, tools=TOOLS, tool_choice=choice, max_tokens=60).choices
    if choice == "none":
        assert answer.message.content and not answer.message.tool_calls
    elif choice == "auto":
        check_either(TOOLS, answer)
    else:
        check_called(TOOLS, answer)


def test_a_streamed_call_is_the_call_in_pieces(complete):
    options = {"messages": ASK_WEATHER, "tools": TOOLS, "tool_choice": "required", "max_tokens": 60}
    whole = complete(**options)
    built = litellm.stream_chunk_builder(list(complete(**options, stream=True)), messages=ASK_WEATHER)
    assert calls(built.choices[0].message) == calls(whole.choices[0].message)
    assert built.choices[0].finish_reason == whole.choices[0].finish_reason == "tool_calls"


def test_from_the_call_to_the_final_answer(complete):
    first = complete(messages=ASK_WEATHER, tools=TOOLS, tool_choice="required", max_tokens=60).choices[0].message
    results = [{"role": "tool", "tool_call_id": call.id, "content": "clear"} for call in first.tool_calls]
    answer = complete(messages=[*ASK_WEATHER, first, *results], tools=TOOLS, tool_choice="none")
    assert answer.choices[0].message.content


def test_logprobs(complete):
    choice = complete(messages=ASK, logprobs=True, top_logprobs=2).choices[0]
    tokens = choice.logprobs.content
    assert b"".join(bytes(token.bytes) for token in tokens).decode() == choice.message.content
    assert all(token.logprob <= 0 and len(token.top_logprobs) == 2 for token in tokens)


def test_several_choices(complete):
    answer = complete(messages=ASK, n=2, temperature=1, seed=1)
    assert [choice.index for choice in answer.choices] == [0, 1]


def test_a_seed_repeats(complete):
    first, again = (
        complete(messages=ASK, temperature=1, seed=3).choices[0].message.content for _ in range(2)
    )
    assert first == again


def test_stop(complete):
    whole = complete(messages=ASK).choices[0].message.content
    stop = whole[len(whole) // 2 :][:3]
    assert complete(messages=ASK, stop=[stop]).choices[0].message.content == whole[: whole.index(stop)]


@pytest.mark.parametrize(
    ("exception", "options"),
    [
        (litellm.BadRequestError, {"temperature": 30}),
        (litellm.ContextWindowExceededError, {"messages": [{"role": "user", "content": "sea " * 20000}]}),
        (litellm.NotFoundError, {"model": "openai/gpt-0"}),
        (litellm.AuthenticationError, {"api_key": "wrong"}),
        (litellm.Timeout, {"timeout": 0.2, "max_tokens": 1500}),
    ],
)
def test_errors(complete, exception, options):
    with pytest.raises(exception):
        complete(**{"messages": ASK, **options})


def test_responses(reach):
    response = litellm.responses(**reach, input="Tell me about the sea.", max_output_tokens=16, temperature=0)
    assert response.output[0].content[0].text
    stream = litellm.responses(
        **reach, input="Tell me about the sea.", max_output_tokens=16, temperature=0, stream=True
    )
    deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
    assert "".join(deltas) == response.output[0].content[0].text


def test_completions(reach):
    options = {**reach, "model": f"text-completion-{reach['model']}"}
    answer = litellm.text_completion(**options, prompt="The sea is", temperature=0, max_tokens=8)
    assert answer.choices[0].text


def test_embeddings(reach):
    answer = litellm.embedding(**reach, input=["The sea is blue.", "A stone is hard."])
    sea, stone = (item["embedding"] for item in answer.data)
    assert len(sea) == len(stone) > 100


QUESTIONS = [
    {"type": "predicate", "name": "angry", "instructions": "Is the customer angry?"},
    {"type": "choice", "instructions": "Which team?", "choices": [{"value": "billing"}, {"value": "sales"}]},
    {"type": "score", "name": "urgency", "instructions": "How urgent?", "levels": [{"label": "low"}, {"label": "high"}]},
]


def test_decisions_of_both_forms_are_equal(server, model):
    origin = server["base_url"].removesuffix("/v1")
    bases = {"openai": server["base_url"], "typesafe": origin, "ollama": origin}

    def decide(provider):
        return litellm.decisions(
            model=f"{provider}/{model}",
            input="I was charged twice.",
            questions=QUESTIONS,
            api_base=bases[provider],
            api_key=server["api_key"],
        )

    openai, *others = map(decide, bases)
    predicate, choice, score = openai.answers
    assert 0 < predicate.probability < 1 and predicate.name == "angry"
    assert choice.choice in ("billing", "sales") and 0 <= score.score <= 1
    assert openai.usage.input_tokens == openai.usage.total_tokens > 0
    for other in others:
        assert [answer.model_dump(exclude={"name"}) for answer in other.answers] == [
            answer.model_dump(exclude={"name"}) for answer in openai.answers
        ]
