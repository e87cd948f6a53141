"""LangChain's models over chat completions, responses, completions and embeddings."""

import openai
import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings

from shapes import Person, Sum

QUESTION = "Tell me about the sea."


@tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"It is clear in {city}."


@pytest.fixture
def chat(server, model):
    def chat(**options):
        options = {"temperature": 0, "max_tokens": 16, "max_retries": 0, **options}
        return ChatOpenAI(**server, model=model, **options)

    return chat


@pytest.mark.parametrize("responses", [False, True])
def test_plain_and_streamed(chat, responses):
    model = chat(use_responses_api=responses)
    messages = [SystemMessage("Be brief."), HumanMessage(QUESTION)]
    answer = model.invoke(messages)
    assert answer.text
    assert answer.usage_metadata["output_tokens"] > 0
    assert "".join(chunk.text for chunk in model.stream(messages)) == answer.text


def test_the_usage_of_a_stream(chat):
    chunks = list(chat(stream_usage=True).stream(QUESTION))
    assert sum(chunk.usage_metadata["output_tokens"] for chunk in chunks if chunk.usage_metadata) > 0


async def gather(model):
    import asyncio

    return await asyncio.gather(*(model.ainvoke(QUESTION) for _ in range(3)))


def test_at_the_same_time(chat):
    import asyncio

    answers = asyncio.run(gather(chat()))
    assert len({answer.text for answer in answers}) == 1


@pytest.mark.parametrize("responses", [False, True])
@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
def test_structured_output(chat, method, responses):
    model = chat(max_tokens=120, use_responses_api=responses)
    assert isinstance(model.with_structured_output(Person, method=method).invoke("Describe a sailor."), Person)


def test_structured_output_streamed(chat):
    pieces = list(chat(max_tokens=90).with_structured_output(Sum, method="json_schema").stream("Add 2 and 3."))
    assert isinstance(pieces[-1], Sum)


@pytest.mark.parametrize("responses", [False, True])
@pytest.mark.parametrize("choice", ["required", "any", "get_weather"])
def test_a_tool_call(chat, choice, responses):
    model = chat(max_tokens=60, use_responses_api=responses)
    answer = model.bind_tools([get_weather, Sum], tool_choice=choice).invoke("How is the weather in Oslo?")
    assert answer.tool_calls and not answer.invalid_tool_calls
    assert all(call["name"] in ("get_weather", "Sum") for call in answer.tool_calls)


@pytest.mark.parametrize("responses", [False, True])
def test_a_streamed_call_is_the_call_in_pieces(chat, responses):
    model = chat(max_tokens=60, use_responses_api=responses).bind_tools([get_weather], tool_choice="required")
    whole = model.invoke(QUESTION)
    joined = None
    for chunk in model.stream(QUESTION):
        joined = chunk if joined is None else joined + chunk
    assert without_ids(joined) == without_ids(whole)
    assert not joined.invalid_tool_calls


def without_ids(message):
    return [(call["name"], call["args"]) for call in message.tool_calls]


@pytest.mark.parametrize("responses", [False, True])
def test_from_the_call_to_the_final_answer(chat, responses):
    model = chat(max_tokens=40, use_responses_api=responses)
    messages = [HumanMessage("How is the weather in Oslo?")]
    messages.append(model.bind_tools([get_weather], tool_choice="required").invoke(messages))
    messages += [get_weather.invoke(call) for call in messages[-1].tool_calls]
    assert isinstance(messages[-1], ToolMessage)
    answer = model.bind_tools([get_weather], tool_choice="none").invoke(messages)
    assert isinstance(answer, AIMessage) and answer.text and not answer.tool_calls


def test_one_call_at_a_time(chat):
    model = chat(max_tokens=60).bind_tools([get_weather, Sum], tool_choice="any", parallel_tool_calls=False)
    assert len(model.invoke(QUESTION).tool_calls) == 1


def test_logprobs(chat):
    answer = chat(logprobs=True, top_logprobs=2).invoke(QUESTION)
    tokens = answer.response_metadata["logprobs"]["content"]
    assert b"".join(bytes(token["bytes"]) for token in tokens).decode() == answer.text
    assert all(token["logprob"] <= 0 for token in tokens)


def test_several_choices(chat):
    [generations] = chat(n=3, temperature=1, seed=1).generate([[HumanMessage(QUESTION)]]).generations
    assert len(generations) == 3


def test_a_seed_repeats(chat):
    first, again = (chat(temperature=1, seed=3).invoke(QUESTION).text for _ in range(2))
    assert first == again


def test_stop(chat):
    whole = chat().invoke(QUESTION).text
    stop = whole[len(whole) // 2 :][:3]
    assert chat().invoke(QUESTION, stop=[stop]).text == whole[: whole.index(stop)]


def test_errors(chat, server):
    with pytest.raises(openai.BadRequestError) as refusal:
        chat(temperature=30).invoke(QUESTION)
    assert refusal.value.param == "temperature"
    with pytest.raises(openai.NotFoundError):
        ChatOpenAI(**server, model="gpt-0", max_retries=0).invoke(QUESTION)
    with pytest.raises(openai.AuthenticationError):
        ChatOpenAI(**{**server, "api_key": "wrong"}, model="gpt-0", max_retries=0).invoke(QUESTION)
    with pytest.raises(openai.APITimeoutError):
        chat(timeout=0.2, max_tokens=1500).invoke(QUESTION)


def test_completions(server, model):
    complete = OpenAI(**server, model=model, temperature=0, max_tokens=8, max_retries=0)
    whole = complete.invoke("The sea is")
    assert whole
    assert "".join(complete.stream("The sea is")) == whole


def test_embeddings(server, model):
    embed = OpenAIEmbeddings(**server, model=model, check_embedding_ctx_length=False, max_retries=0)
    sea, stone = embed.embed_documents(["The sea is blue.", "A stone is hard."])
    assert len(sea) == len(stone) > 100
    assert embed.embed_query("The sea is blue.") == pytest.approx(sea, rel=1e-6)
