"""What goes wrong comes back as the official client's own exceptions, with the field at fault."""

import time
from concurrent.futures import ThreadPoolExecutor

import openai
import pytest

from shapes import ASK, WEATHER, named

SCHEMA = {"type": "json_schema", "json_schema": {"name": "s", "schema": {"type": "object", "required": ["a", "b"]}}}
BAD_TOOL = {
    "type": "function",
    "function": {"name": "bad", "parameters": {"type": "object", "properties": {"x": {"pattern": "("}}}},
}


# Without the token that ends SmolLM2's answers.
ENDLESS = {"messages": ASK, "max_tokens": 1500, "logit_bias": {"2": -100}}


def bad_schema(schema):
    return {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}


@pytest.mark.parametrize(
    ("param", "options"),
    [
        ("temperature", {"temperature": 30}),
        ("temperature", {"temperature": "hot"}),
        ("top_p", {"top_p": -1}),
        ("max_tokens", {"max_tokens": 0}),
        ("messages", {"messages": []}),
        ("messages[0].role", {"messages": [{"role": "ghost", "content": "boo"}]}),
        ("messages[0].content", {"messages": [{"role": "user", "content": 5}]}),
        ("guided_frobnication", {"extra_body": {"guided_frobnication": 1}}),
        ("response_format.type", {"response_format": {"type": "poem"}}),
        ("response_format.json_schema.schema", {"response_format": bad_schema({"type": "nothing"})}),
        ("max_tokens", {"response_format": SCHEMA, "max_tokens": 1}),
        ("guided_regex", {"extra_body": {"guided_regex": "("}}),
        ("grammar", {"extra_body": {"grammar": "root ::= ("}}),
        ("logit_bias", {"logit_bias": {"99999999": 1}}),
        ("n", {"n": 0}),
        ("top_logprobs", {"top_logprobs": 3}),
        ("top_logprobs", {"logprobs": True, "top_logprobs": 99}),
        ("tool_choice", {"tool_choice": "required"}),
        ("tool_choice", {"tools": [WEATHER], "tool_choice": named("unknown")}),
        ("tool_choice", {"tools": [WEATHER], "tool_choice": "perhaps"}),
        ("tools[1].function.parameters", {"tools": [WEATHER, BAD_TOOL]}),
        ("tools[1]", {"tools": [WEATHER, WEATHER]}),
    ],
)
def test_the_field_is_named(client, model, param, options):
    with pytest.raises(openai.BadRequestError) as refusal:
        client.chat.completions.create(**{"model": model, "messages": ASK, "max_tokens": 4, **options})
    error = refusal.value
    assert error.type == "invalid_request_error"
    assert error.param is not None and error.param.startswith(param)
    assert error.message


def test_a_bad_schema_names_the_place(client, model):
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}
    with pytest.raises(openai.BadRequestError, match="/properties/a"):
        client.chat.completions.create(model=model, messages=ASK, response_format=bad_schema(schema))


def test_a_bad_tool_is_named(client, model):
    with pytest.raises(openai.BadRequestError, match="bad.*/properties/x"):
        client.chat.completions.create(model=model, messages=ASK, tools=[WEATHER, BAD_TOOL])


def test_a_prompt_that_does_not_fit_tells_how_much_would(client, model):
    messages = [{"role": "user", "content": "sea " * 20000}]
    with pytest.raises(openai.BadRequestError, match=r"\d+") as refusal:
        client.chat.completions.create(model=model, messages=messages, max_tokens=4)
    assert (refusal.value.code, refusal.value.param) == ("context_length_exceeded", "messages")


@pytest.mark.parametrize("stream", [False, True])
def test_an_unknown_model(client, stream):
    with pytest.raises(openai.NotFoundError) as refusal:
        client.chat.completions.create(model="gpt-0", messages=ASK, stream=stream)
    assert (refusal.value.code, refusal.value.param) == ("model_not_found", "model")
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt-0")


def test_an_unknown_route(client):
    with pytest.raises(openai.NotFoundError):
        client.get("/nowhere", cast_to=object)


def test_a_wrong_key(server, model):
    with openai.OpenAI(**{**server, "api_key": "wrong"}, max_retries=0) as stranger:
        for call in (
            lambda: stranger.chat.completions.create(model=model, messages=ASK),
            lambda: stranger.models.list(),
            lambda: stranger.embeddings.create(model=model, input="sea"),
            lambda: stranger.responses.create(model=model, input="sea"),
            lambda: stranger.completions.create(model=model, prompt="sea"),
        ):
            with pytest.raises(openai.AuthenticationError) as refusal:
                call()
            assert refusal.value.code == "invalid_api_key"


def test_a_body_that_is_too_large(client, model):
    messages = [{"role": "user", "content": "x" * (9 << 20)}]
    with pytest.raises(openai.APIStatusError) as refusal:
        client.chat.completions.create(model=model, messages=messages)
    assert refusal.value.status_code == 413


def abandon(client, model):
    """A request whose client gives up while the model is at work."""
    with pytest.raises(openai.APITimeoutError):
        client.with_options(timeout=0.3).chat.completions.create(model=model, **ENDLESS)


def leave(client, model):
    """A stream whose reader has seen enough after its first chunk."""
    with client.chat.completions.create(model=model, **ENDLESS, stream=True) as stream:
        next(iter(stream))


@pytest.mark.parametrize("go_away", [abandon, leave])
def test_a_client_that_goes_away_makes_room(client, model, go_away):
    with ThreadPoolExecutor(12) as pool:
        for gone in [pool.submit(go_away, client, model) for _ in range(12)]:
            gone.result()
    started = time.monotonic()
    client.chat.completions.create(model=model, messages=ASK, max_tokens=4)
    # Had the others gone on, this one would wait for thousands of tokens.
    assert time.monotonic() - started < 10
