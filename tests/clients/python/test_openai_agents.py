"""Tests OpenAI's Agents SDK over responses and chat completions."""

import asyncio

import openai
import pytest
from agents import (
    Agent, ModelSettings, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled,
)

from shapes import Person, Sum

set_tracing_disabled(True)
both = pytest.mark.parametrize("api", [OpenAIResponsesModel, OpenAIChatCompletionsModel])


@pytest.fixture
def agent(server, model):
    """Creates agents. Each has its own client, because a client belongs to one event loop."""

    def agent(api, settings=None, **options):
        client = openai.AsyncOpenAI(**server, max_retries=0, timeout=50)
        settings = ModelSettings(**{"temperature": 0, "max_tokens": 60, **(settings or {})})
        options = {"name": "sailor", "instructions": "Be brief.", "model_settings": settings, **options}
        return Agent(model=api(model=model, openai_client=client), **options)

    return agent


@both
def test_the_first_tool_ends_the_run(agent, api):
    called = []

    @function_tool
    def get_weather(city: str) -> str:
        """The weather in a city."""
        called.append(city)
        return f"It is clear in {city}."

    options = {"tools": [get_weather], "tool_use_behavior": "stop_on_first_tool"}
    clerk = agent(api, {"tool_choice": "required", "parallel_tool_calls": False}, **options)
    result = Runner.run_sync(clerk, "What is the weather in Oslo?", max_turns=1)
    assert len(called) == 1
    assert result.final_output == f"It is clear in {called[0]}."


@both
def test_an_output_with_a_type(agent, api):
    async def twice():
        clerk = agent(api, {"max_tokens": 90}, output_type=Person)
        whole = await Runner.run(clerk, "Describe a sailor.")
        result = Runner.run_streamed(clerk, "Describe a sailor.")
        kinds = [event.type async for event in result.stream_events()]
        return whole.final_output, kinds, result.final_output

    output, kinds, again = asyncio.run(twice())
    assert isinstance(output, Person)
    assert kinds.count("raw_response_event") > 1
    assert again == output


def test_a_run_continues_a_stored_response(agent):
    """The output has a type, because the client takes a response that the token limit cuts off for an error."""
    sailor = agent(OpenAIResponsesModel, {"max_tokens": 40}, output_type=Sum)
    first = Runner.run_sync(sailor, "Add 2 and 3.")
    second = Runner.run_sync(sailor, "And 4 and 5.", previous_response_id=first.last_response_id)
    assert isinstance(first.final_output, Sum) and isinstance(second.final_output, Sum)
    used = [result.raw_responses[0].usage.input_tokens for result in (first, second)]
    assert used[1] > used[0]
