"""Tests `/v1/completions` with lm-eval: log-likelihoods of continuations, with the tokens of the server."""

import json

import pytest
import requests
from lm_eval import simple_evaluate
from lm_eval.api.instance import Instance
from lm_eval.models.openai_completions import LocalCompletionsAPI
from lm_eval.tasks import TaskManager

# The wrong choices are so unlikely that the test model prefers the right ones.
QUESTIONS = [
    {"question": "The sea is", "choices": ["blue", "a bicycle"], "answer": 0},
    {"question": "Ships sail on the", "choices": ["table", "ocean"], "answer": 1},
    {"question": "Fish live in the", "choices": ["water", "fire"], "answer": 0},
    {"question": "Two and two is", "choices": ["four", "the moon"], "answer": 0},
    {"question": "At night it is", "choices": ["bright", "dark"], "answer": 1},
]
TASK = """
task: sea
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{question}}}}"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: "{{{{answer}}}}"
metric_list: [{{metric: acc}}, {{metric: acc_norm}}]
"""


@pytest.fixture(scope="module")
def post(server):
    """Sends a request without lm-eval. Paths are relative to the root of the server."""

    def post(path, **body):
        root = server["base_url"].removesuffix("/v1")
        headers = {"authorization": f"Bearer {server['api_key']}"}
        answer = requests.post(root + path, json=body, headers=headers, timeout=50)
        answer.raise_for_status()
        return answer.json()

    return post


@pytest.fixture(scope="module")
def harness(server, model):
    header = {"authorization": f"Bearer {server['api_key']}"}
    url = f"{server['base_url']}/completions"
    options = {"header": header, "auth_token": server["api_key"], "max_retries": 1, "max_length": 1024}
    return LocalCompletionsAPI(base_url=url, model=model, tokenizer_backend="remote", **options)


@pytest.fixture
def summed(post, model):
    """Sums the log-probabilities that the server gives to the tokens of a continuation."""

    def summed(context, continuation):
        start = len(post("/tokenize", prompt=context.rstrip(), add_special_tokens=False)["tokens"])
        prompt = post("/tokenize", prompt=context + continuation, add_special_tokens=False)["tokens"]
        options = {"echo": True, "logprobs": 1, "max_tokens": 0}
        [choice] = post("/v1/completions", model=model, prompt=prompt, **options)["choices"]
        assert choice["text"] == context + continuation
        logprobs = choice["logprobs"]["token_logprobs"]
        assert len(logprobs) == len(prompt) and logprobs[0] is None
        return sum(logprobs[start:])

    return summed


def loglikelihood(harness, context, continuation):
    request = Instance(request_type="loglikelihood", doc={}, arguments=(context, continuation), idx=0)
    [answer] = harness.loglikelihood([request])
    return answer


@pytest.mark.parametrize("batch_size", [1, 4])
def test_a_task_has_accuracies_and_loglikelihoods(harness, summed, tmp_path, monkeypatch, batch_size):
    data = tmp_path / "sea.jsonl"
    data.write_text("".join(f"{json.dumps(question)}\n" for question in QUESTIONS))
    (tmp_path / "sea.yaml").write_text(TASK.format(data=data))
    monkeypatch.setattr(harness, "_batch_size", batch_size)
    manager = TaskManager(include_path=str(tmp_path), include_defaults=False)
    found = simple_evaluate(harness, tasks=["sea"], task_manager=manager, bootstrap_iters=0)
    assert found["results"]["sea"]["acc,none"] == 1
    samples = found["samples"]["sea"]
    assert [len(sample["filtered_resps"]) for sample in samples] == [2] * len(QUESTIONS)
    for choice, (value, _) in zip(QUESTIONS[0]["choices"], samples[0]["filtered_resps"], strict=True):
        assert value < 0
        assert value == pytest.approx(summed(QUESTIONS[0]["question"], f" {choice}"), abs=1e-3)


def test_an_answer_is_the_likeliest_text(harness, summed, post, model):
    """The token that ends the answer counts as generated, or else lm-eval ignores the token before it."""
    messages = [{"role": "user", "content": "What is 2+2?"}]
    [choice] = post("/v1/chat/completions", model=model, messages=messages, temperature=0)["choices"]
    assert choice["finish_reason"] == "stop"
    context = post("/apply-template", model=model, messages=messages)["prompt"]
    answer = choice["message"]["content"]
    value, is_greedy = loglikelihood(harness, context, answer)
    assert value == pytest.approx(summed(context, answer), abs=1e-3)
    assert is_greedy
    assert not loglikelihood(harness, context, "Bicycles.")[1]


def test_a_rolling_loglikelihood(harness, summed):
    """The context of the text is the token that begins or ends texts."""
    text = "The sea is blue."
    request = Instance(request_type="loglikelihood_rolling", doc={}, arguments=(text,), idx=0)
    [value] = harness.loglikelihood_rolling([request])
    context = harness.tokenizer.bos_token or harness.tokenizer.eos_token
    assert value == pytest.approx(summed(context, text), abs=1e-3)


def test_generated_text(harness, post, model):
    arguments = ("The sea is", {"until": ["."], "max_gen_toks": 12})
    request = Instance(request_type="generate_until", doc={}, arguments=arguments, idx=0)
    [text] = harness.generate_until([request])
    options = {"prompt": "The sea is", "stop": ["."], "max_tokens": 12, "temperature": 0}
    assert text == post("/v1/completions", model=model, **options)["choices"][0]["text"]
