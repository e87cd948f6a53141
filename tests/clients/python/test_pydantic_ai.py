"""Pydantic AI's agents over chat completions and responses."""

import openai
import pytest
from pydantic_ai import Agent, NativeOutput, ToolOutput, UsageLimits
from pydantic_ai.embeddings import Embedder
from pydantic_ai.embeddings.openai import OpenAIEmbeddingModel
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelResponse, ToolCallPart, ToolReturnPart
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

from shapes import Person, Sum

MODELS = [OpenAIChatModel, OpenAIResponsesModel]
QUESTION = "Tell me about the sea."
both = pytest.mark.parametrize("api", MODELS)


@pytest.fixture
def provider(server):
    return OpenAIProvider(openai_client=openai.AsyncOpenAI(**server, max_retries=0))


@pytest.fixture
def agent(provider, model):
    def agent(api, **options):
        settings = {"temperature": 0, "max_tokens": 90, **options.pop("settings", {})}
        return Agent(api(model, provider=provider), model_settings=settings, retries=0, **options)

    return agent


@both
def test_plain_and_streamed(agent, api):
    sailor = agent(api, system_prompt="Speak as a sailor.", settings={"max_tokens": 12})
    result = sailor.run_sync(QUESTION)
    assert result.output
    assert result.usage.output_tokens > 0
    with sailor.run_stream_sync(QUESTION) as stream:
        pieces = list(stream.stream_text(delta=True))
    assert "".join(pieces) == result.output


@both
@pytest.mark.parametrize("way", [NativeOutput, ToolOutput])
def test_structured_output(agent, api, way):
    result = agent(api, output_type=way(Person)).run_sync("Describe a sailor.")
    assert isinstance(result.output, Person)


@both
def test_structured_output_streamed(agent, api):
    with agent(api, output_type=NativeOutput(Person)).run_stream_sync("Describe a sailor.") as stream:
        *_, last = stream.stream_output()
    assert isinstance(last, Person)


@both
def test_one_of_several_outputs(agent, api):
    result = agent(api, output_type=[Person, Sum]).run_sync("Add 2 and 3.")
    assert isinstance(result.output, (Person, Sum))


@both
def test_from_the_call_to_the_final_answer(agent, api):
    """The first answer must call the tool, the second must be text."""
    clerk = agent(api)

    @clerk.tool_plain
    def get_weather(city: str) -> str:
        """The weather in a city."""
        return f"It is clear in {city}."

    question = "How is the weather in Oslo?"
    with pytest.raises(Exception):
        clerk.run_sync(
            question, model_settings={"tool_choice": "required"}, usage_limits=UsageLimits(request_limit=1)
        )
    result = clerk.run_sync(question, model_settings=first_required)
    parts = [part for message in result.all_messages() for part in message.parts]
    call = next(part for part in parts if isinstance(part, ToolCallPart))
    returned = next(part for part in parts if isinstance(part, ToolReturnPart))
    assert call.tool_call_id == returned.tool_call_id
    assert returned.content == f"It is clear in {call.args_as_dict()['city']}."
    assert result.output


def first_required(context):
    """A call where none was made yet, and then none."""
    called = any(isinstance(message, ModelResponse) for message in context.messages)
    return {"tool_choice": "none" if called else "required"}


@both
def test_errors(agent, api, server, model):
    with pytest.raises(ModelHTTPError) as refusal:
        agent(api, settings={"temperature": 30}).run_sync(QUESTION)
    assert (refusal.value.status_code, refusal.value.body["param"]) == (400, "temperature")
    stranger = OpenAIProvider(openai_client=openai.AsyncOpenAI(**{**server, "api_key": "wrong"}, max_retries=0))
    with pytest.raises(ModelHTTPError) as refusal:
        Agent(api(model, provider=stranger)).run_sync(QUESTION)
    assert refusal.value.status_code == 401


def test_embeddings(provider, model):
    embedder = Embedder(OpenAIEmbeddingModel(model, provider=provider))
    result = embedder.embed_documents_sync(["The sea is blue.", "A stone is hard."])
    sea, stone = result.embeddings
    assert len(sea) == len(stone) > 100
