"""`/v1/completions` and `/v1/embeddings` through the official client."""

import math

import openai
import pytest

GREEDY = {"prompt": "The sea is", "temperature": 0, "max_tokens": 12}


@pytest.fixture
def create(client, model):
    return lambda **options: client.completions.create(model=model, **options)


def test_plain(create, model):
    answer = create(**GREEDY)
    [choice] = answer.choices
    assert (answer.object, answer.model, choice.index, choice.logprobs) == ("text_completion", model, 0, None)
    assert answer.id.startswith("cmpl-")
    assert choice.text and choice.finish_reason in ("stop", "length")
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_a_stream_is_the_answer_in_pieces(create):
    whole = create(**GREEDY)
    *chunks, last = create(**GREEDY, stream=True, stream_options={"include_usage": True})
    assert "".join(chunk.choices[0].text for chunk in chunks) == whole.choices[0].text
    reasons = [chunk.choices[0].finish_reason for chunk in chunks]
    assert reasons == [None] * (len(chunks) - 1) + [whole.choices[0].finish_reason]
    assert last.choices == [] and last.usage.completion_tokens == whole.usage.completion_tokens


def test_several_prompts_with_several_choices(create):
    prompts = ["The sea is", "The sky is"]
    options = {"prompt": prompts, "n": 2, "temperature": 1, "seed": 4, "max_tokens": 6}
    answer = create(**options)
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    chunks = list(create(**options, stream=True))
    for choice in answer.choices:
        pieces = [piece.text for chunk in chunks for piece in chunk.choices if piece.index == choice.index]
        assert "".join(pieces) == choice.text


def test_choices_stay_with_their_prompts(create):
    alone = [create(**{**GREEDY, "prompt": prompt}).choices[0].text for prompt in ("The sea is", "Two and two")]
    together = create(**{**GREEDY, "prompt": ["The sea is", "Two and two"]}).choices
    assert [choice.text for choice in together] == alone


def test_the_best_of_some(create):
    answer = create(**{**GREEDY, "temperature": 1}, best_of=3, n=1, seed=1)
    assert len(answer.choices) == 1


def test_echo(create):
    whole = create(**GREEDY).choices[0].text
    assert create(**GREEDY, echo=True).choices[0].text == GREEDY["prompt"] + whole


def test_stop(create):
    whole = create(**GREEDY).choices[0].text
    stop = whole[len(whole) // 2 :][:3]
    choice = create(**GREEDY, stop=stop).choices[0]
    assert (choice.text, choice.finish_reason) == (whole[: whole.index(stop)], "stop")


def test_a_seed_repeats(create):
    first, again = (create(**{**GREEDY, "temperature": 1}, seed=7).choices[0].text for _ in range(2))
    assert first == again


def test_logprobs(create):
    choice = create(**GREEDY, logprobs=2).choices[0]
    logprobs = choice.logprobs
    assert "".join(logprobs.tokens) == choice.text
    lengths = [len(token) for token in logprobs.tokens]
    start = logprobs.text_offset[0]
    assert logprobs.text_offset == [start + sum(lengths[:place]) for place in range(len(lengths))]
    for token, logprob, top in zip(logprobs.tokens, logprobs.token_logprobs, logprobs.top_logprobs, strict=True):
        assert logprob <= 0
        assert top[token] == logprob == max(top.values())


def test_a_constraint(create):
    answer = create(**GREEDY, extra_body={"guided_choice": [" blue", " deep"]})
    assert answer.choices[0].text in (" blue", " deep")


@pytest.mark.parametrize(
    ("param", "options"),
    [
        ("temperature", {"temperature": 90}),
        ("prompt", {"prompt": 5}),
        ("prompt", {"prompt": []}),
        ("best_of", {"n": 3, "best_of": 2}),
        ("guided_frobnication", {"extra_body": {"guided_frobnication": 1}}),
    ],
)
def test_the_field_is_named(create, param, options):
    with pytest.raises(openai.BadRequestError) as refusal:
        create(**{**GREEDY, **options})
    assert refusal.value.param is not None and refusal.value.param.startswith(param)


def cosine(left, right):
    return sum(a * b for a, b in zip(left, right, strict=True)) / math.hypot(*left) / math.hypot(*right)


def test_embeddings(client, model):
    texts = ["The sea is blue.", "A stone is hard.", "The sea is blue."]
    answer = client.embeddings.create(model=model, input=texts)
    assert (answer.object, answer.model) == ("list", model)
    assert [(item.object, item.index) for item in answer.data] == [("embedding", 0), ("embedding", 1), ("embedding", 2)]
    sea, stone, again = (item.embedding for item in answer.data)
    assert len(sea) == len(stone) > 100
    assert all(map(math.isfinite, sea + stone))
    assert sea == again
    assert cosine(sea, stone) < 0.9999
    assert answer.usage.prompt_tokens == answer.usage.total_tokens > 0


def test_embeddings_in_both_encodings(client, model):
    """The client asks for base64 unless told otherwise, and decodes it."""
    plain = client.embeddings.create(model=model, input="sea", encoding_format="float").data[0].embedding
    decoded = client.embeddings.create(model=model, input=["sea"]).data[0].embedding
    assert decoded == pytest.approx(plain, rel=1e-6)


@pytest.mark.parametrize(("param", "options"), [("input", {"input": []}), ("input", {"input": ""})])
def test_an_empty_input_is_named(client, model, param, options):
    with pytest.raises(openai.BadRequestError) as refusal:
        client.embeddings.create(model=model, **options)
    assert refusal.value.param is not None and refusal.value.param.startswith(param)


def test_a_text_that_does_not_fit(client, model):
    with pytest.raises(openai.BadRequestError, match=r"\d+"):
        client.embeddings.create(model=model, input="sea " * 20000)
