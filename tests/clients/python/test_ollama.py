"""Tests `/api/*` with Ollama's official client."""

import json
import math

import ollama
import pytest

from shapes import ASK, ASK_PERSON, ASK_WEATHER, SEARCH, TOOLS, Person, check_arguments

GREEDY = {"messages": ASK, "options": {"temperature": 0, "num_predict": 16}}
PROMPT = {**GREEDY, "prompt": "The sea is"}
del PROMPT["messages"]


def connect(server, key):
    """Creates a client. The host is the root of the server, because the client adds `/api`."""
    headers = {"Authorization": f"Bearer {key}"}
    return ollama.Client(host=server["base_url"].removesuffix("/v1"), headers=headers, timeout=50)


@pytest.fixture(scope="module")
def api(server):
    return connect(server, server["api_key"])


@pytest.fixture
def chat(api, model):
    return lambda **options: api.chat(**{"model": model, **GREEDY, **options})


@pytest.fixture
def generate(api, model):
    return lambda **options: api.generate(**{"model": model, **PROMPT, **options})


def sampled(**options):
    """Returns options for a few sampled tokens."""
    return {"options": {"temperature": 1, "num_predict": 12, **options}}


def test_plain(chat, model):
    reply = chat()
    assert (reply.model, reply.message.role, reply.done) == (model, "assistant", True)
    assert reply.message.content and not reply.message.tool_calls
    assert reply.done_reason in ("stop", "length")
    assert reply.prompt_eval_count > 0 and 0 < reply.eval_count <= 16
    assert reply.total_duration >= reply.eval_duration > 0
    assert reply.created_at


def test_answers_as_chat_completions_do(chat, client, model):
    answer = client.chat.completions.create(model=model, messages=ASK, temperature=0, max_tokens=16)
    assert chat().message.content == answer.choices[0].message.content


def test_a_stream_is_the_reply_in_pieces(chat):
    whole = chat()
    *parts, last = chat(stream=True)
    assert len(parts) > 1
    assert not any(part.done for part in parts) and last.done
    assert "".join(part.message.content for part in (*parts, last)) == whole.message.content
    assert (last.done_reason, last.eval_count) == (whole.done_reason, whole.eval_count)


def test_a_reply_goes_back_into_the_conversation(chat):
    messages = [{"role": "system", "content": "Be brief."}, *ASK, chat().message]
    assert chat(messages=[*messages, {"role": "user", "content": "Go on."}], think=False).message.content


def test_num_predict(chat):
    reply = chat(options={"num_predict": 3})
    assert (reply.done_reason, reply.eval_count) == ("length", 3)


def test_stop(chat):
    whole = chat().message.content
    stop = whole[len(whole) // 2 :][:3]
    reply = chat(options={**GREEDY["options"], "stop": ["never said", stop]})
    assert (reply.message.content, reply.done_reason) == (whole[: whole.index(stop)], "stop")


def test_a_seed_repeats(chat):
    first, again = (chat(**sampled(seed=3)).message.content for _ in range(2))
    assert first == again


def test_options_are_taken(chat):
    filters = {"top_k": 20, "top_p": 0.9, "min_p": 0.05}
    penalties = {"repeat_penalty": 1.1, "repeat_last_n": -1}
    assert chat(**sampled(**filters, **penalties, num_ctx=4096), keep_alive="5m").message.content


@pytest.mark.parametrize("stream", [False, True])
def test_a_schema_as_format(chat, stream):
    options = {"temperature": 0, "num_predict": 90}
    reply = chat(messages=ASK_PERSON, format=Person.model_json_schema(), options=options, stream=stream)
    parts = list(reply) if stream else [reply]
    Person.model_validate_json("".join(part.message.content for part in parts))
    assert parts[-1].done_reason == "stop"


def test_json_as_format(chat, generate):
    options = {"format": "json", "options": {"temperature": 0, "num_predict": 30}}
    assert isinstance(json.loads(chat(messages=ASK_PERSON, **options).message.content), dict)
    assert isinstance(json.loads(generate(**options).response), dict)


def bare(tool):
    """Returns a tool as the client sends it. The client removes keywords that it does not know."""
    return json.loads(ollama.Tool(**tool).model_dump_json(exclude_none=True))


@pytest.mark.parametrize("seed", range(2))
def test_tools_allow_text_and_calls(chat, seed):
    options = {"messages": ASK_WEATHER, "tools": TOOLS, **sampled(num_predict=60, seed=seed)}
    whole = chat(**options).message
    assert whole.content or whole.tool_calls
    for call in whole.tool_calls or []:
        check_arguments([bare(tool) for tool in TOOLS], call.function.name, call.function.arguments)
    parts = [part.message for part in chat(**options, stream=True)]
    assert "".join(part.content or "" for part in parts) == (whole.content or "")
    assert [call.function for part in parts for call in part.tool_calls or []] == [
        call.function for call in whole.tool_calls or []
    ]


def get_weather(city: str, days: int = 1) -> str:
    """Returns the weather in a city."""
    return f"It is clear in {city} for {days} days."


def test_a_function_is_a_tool(chat):
    """The client derives the tool from the function."""
    options = {"temperature": 0, "num_predict": 60}
    message = chat(messages=ASK_WEATHER, tools=[get_weather], options=options).message
    for call in message.tool_calls or []:
        assert call.function.name == "get_weather"
        assert get_weather(**call.function.arguments)


def test_from_the_call_to_the_final_answer(chat):
    call = {"function": {"name": "get_weather", "arguments": {"city": "Oslo"}}}
    results = [{"role": "tool", "tool_name": "get_weather", "content": "It is clear."}]
    messages = [*ASK_WEATHER, {"role": "assistant", "content": "", "tool_calls": [call]}, *results]
    message = chat(messages=messages, tools=[get_weather, SEARCH]).message
    assert message.content or message.tool_calls


def test_generate(generate):
    whole = generate(system="Be brief.")
    assert whole.response and whole.done and whole.eval_count > 0
    *parts, last = generate(system="Be brief.", stream=True)
    assert "".join(part.response for part in (*parts, last)) == whole.response
    assert last.done and not any(part.done for part in parts)


def test_a_raw_prompt_is_continued_as_completions_do(generate, client, model):
    answer = client.completions.create(model=model, prompt=PROMPT["prompt"], temperature=0, max_tokens=16)
    assert generate(raw=True).response == answer.choices[0].text


def test_a_schema_for_generate(generate):
    reply = generate(format={"type": "integer", "minimum": 3, "maximum": 5})
    assert int(reply.response) in (3, 4, 5)


def test_logprobs(chat):
    reply = chat(logprobs=True, top_logprobs=2)
    assert "".join(token.token for token in reply.logprobs) == reply.message.content
    for token in reply.logprobs:
        assert token.logprob <= 0
        assert (token.top_logprobs[0].token, len(token.top_logprobs)) == (token.token, 2)


def test_list_show_and_ps(api, model):
    [listed] = [known for known in api.list().models if known.model == model]
    assert listed.size > 0 and listed.modified_at
    shown = api.show(model)
    assert {"completion", "tools"} <= set(shown.capabilities)
    assert shown.modelinfo is not None and shown.details is not None
    [loaded] = [known for known in api.ps().models if known.model == model]
    assert loaded.name == model and loaded.context_length > 0 and loaded.expires_at


def test_embeddings(api, model):
    texts = ["The sea is blue.", "A stone is hard.", "The sea is blue."]
    sea, stone, again = api.embed(model, texts).embeddings
    assert len(sea) == len(stone) > 100
    assert sea == again != stone
    assert math.hypot(*sea) == pytest.approx(1, abs=1e-3)
    assert api.embeddings(model, "The sea is blue.").embedding == pytest.approx(sea, abs=1e-6)


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("temperature", {"options": {"temperature": 30}}),
        ("role", {"messages": [{"role": "ghost", "content": "boo"}]}),
        ("format", {"format": {"type": "nothing"}}),
        ("images", {"messages": [{"role": "user", "content": "What is this?", "images": [b"picture"]}]}),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_the_field_is_named(chat, field, options, stream):
    with pytest.raises(ollama.ResponseError) as refusal:
        list(chat(**options, stream=stream))
    assert refusal.value.status_code == 400
    assert isinstance(refusal.value.error, str) and field in refusal.value.error


def test_a_prompt_that_does_not_fit(chat):
    with pytest.raises(ollama.ResponseError) as refusal:
        chat(messages=[{"role": "user", "content": "sea " * 20000}])
    assert refusal.value.status_code == 400
    assert any(character.isdigit() for character in refusal.value.error)


def test_an_unknown_model(api):
    calls = (
        lambda: api.chat("gpt-0", ASK),
        lambda: api.generate("gpt-0", "The sea is"),
        lambda: api.embed("gpt-0", "The sea is blue."),
        lambda: api.show("gpt-0"),
    )
    for call in calls:
        with pytest.raises(ollama.ResponseError, match="gpt-0") as refusal:
            call()
        assert refusal.value.status_code == 404


def test_a_wrong_key(server, model):
    stranger = connect(server, "wrong")
    for call in (stranger.list, lambda: stranger.chat(model, ASK), lambda: stranger.embed(model, "sea")):
        with pytest.raises(ollama.ResponseError) as refusal:
            call()
        assert refusal.value.status_code == 401
