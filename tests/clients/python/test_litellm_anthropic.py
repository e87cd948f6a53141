"""Tests LiteLLM with the `anthropic` provider, which uses `/v1/messages`."""

import litellm
import pytest

from shapes import ASK, ASK_PERSON, ASK_WEATHER, TOOLS, Sum, calls, check_called

litellm.telemetry = False
litellm.num_retries = 0


@pytest.fixture
def complete(server, model):
    reach = {"api_base": server["base_url"].removesuffix("/v1"), "api_key": server["api_key"], "max_retries": 0}

    def complete(**options):
        options = {"model": f"anthropic/{model}", "temperature": 0, "max_tokens": 16, **options}
        return litellm.completion(**reach, **options)

    return complete


def test_plain_and_streamed(complete):
    answer = complete(messages=[{"role": "system", "content": "Be brief."}, *ASK])
    assert answer.choices[0].message.content
    assert answer.usage.prompt_tokens > 0 and answer.usage.completion_tokens > 0
    chunks = list(complete(messages=[{"role": "system", "content": "Be brief."}, *ASK], stream=True))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == answer.choices[0].message.content


def test_from_the_call_to_the_final_answer(complete):
    options = {"messages": ASK_WEATHER, "tools": TOOLS, "tool_choice": "required", "max_tokens": 60}
    [choice] = complete(**options).choices
    check_called(TOOLS, choice)
    assert choice.finish_reason == "tool_calls"
    built = litellm.stream_chunk_builder(list(complete(**options, stream=True)), messages=ASK_WEATHER)
    assert calls(built.choices[0].message) == calls(choice.message)
    results = [
        {"role": "tool", "tool_call_id": call.id, "content": "clear"} for call in choice.message.tool_calls
    ]
    messages = [*ASK_WEATHER, choice.message, *results]
    assert complete(messages=messages, tools=TOOLS, tool_choice="none").choices[0].message.content


def test_structured_output(complete):
    """The schema has no references, because LiteLLM sends it as that of a tool and loses definitions."""
    answer = complete(messages=ASK_PERSON, response_format=Sum, max_tokens=60)
    Sum.model_validate_json(answer.choices[0].message.content)


@pytest.mark.parametrize(
    ("exception", "options"),
    [
        (litellm.BadRequestError, {"temperature": 30}),
        (litellm.NotFoundError, {"model": "anthropic/gpt-0"}),
    ],
)
def test_errors(complete, exception, options):
    with pytest.raises(exception):
        complete(messages=ASK, **options)
