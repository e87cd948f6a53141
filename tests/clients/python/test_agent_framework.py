"""Tests Microsoft's Agent Framework, whose default client continues stored responses."""

import asyncio
from typing import Annotated

import openai
import pytest
from agent_framework import Agent
from agent_framework.openai import OpenAIChatClient, OpenAIChatCompletionClient
from pydantic import Field

from shapes import Person

both = pytest.mark.parametrize("api", [OpenAIChatClient, OpenAIChatCompletionClient])


@pytest.fixture
def agent(server, model):
    def agent(api, **options):
        client = openai.AsyncOpenAI(**server, max_retries=0, timeout=50)
        defaults = {"temperature": 0, "max_tokens": 40, **options.pop("default_options", {})}
        return Agent(api(model, async_client=client), "Be brief.", default_options=defaults, **options)

    return agent


@both
def test_a_tool_call(agent, api):
    called = []

    def get_weather(city: Annotated[str, Field(description="The name of the city.")]) -> str:
        """The weather in a city."""
        called.append(city)
        return f"It is clear in {city}."

    clerk = agent(api, tools=[get_weather], default_options={"tool_choice": "required"})
    response = asyncio.run(clerk.run("What is the weather in Oslo?"))
    contents = [content for message in response.messages for content in message.contents]
    calls = [content for content in contents if content.type == "function_call"]
    results = [content for content in contents if content.type == "function_result"]
    assert called and len(calls) >= len(results) == len(called)
    assert [result.call_id for result in results] == [call.call_id for call in calls[: len(results)]]
    assert [result.result for result in results] == [f"It is clear in {city}." for city in called]


@both
def test_a_session_keeps_the_conversation(agent, api):
    async def converse():
        sailor = agent(api, default_options={"max_tokens": 12})
        session = sailor.create_session()
        first = await sailor.run("Tell me about the sea.", session=session)
        stream = sailor.run("Go on.", session=session, stream=True)
        pieces = [update.text async for update in stream]
        return first, pieces, await stream.get_final_response()

    first, pieces, second = asyncio.run(converse())
    assert first.text and second.text
    # The last pieces of a response replace the ones before them.
    assert len(pieces) > 1 and "".join(pieces).startswith(second.text)
    used = [response.usage_details["input_token_count"] for response in (first, second)]
    assert used[1] > used[0]


@both
def test_an_output_with_a_type(agent, api):
    clerk = agent(api, default_options={"max_tokens": 90, "response_format": Person})
    assert isinstance(asyncio.run(clerk.run("Describe a sailor.")).value, Person)
