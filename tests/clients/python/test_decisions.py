"""Decisions with the clients that ask for them: OpenAI's, LangChain's and TypeSafe's, and JevBench."""

import json
import os
import subprocess
import sys

import openai
import pytest
from langchain_openai.decisions import Choice, OpenAIDecisions, Predicate, Score
from typesafe_sdk import TypeSafeClient, TypeSafeNotFoundError, TypeSafeUnprocessableEntityError

STATE = "I was charged twice for my order, and nobody answers my mails."
QUESTIONS = [
    {"type": "predicate", "name": "angry", "instructions": "Is the customer angry?"},
    {
        "type": "choice",
        "instructions": [{"type": "input_text", "text": "Is it about money?"}],
        "choices": [{"value": True}, {"value": "true", "description": "the word"}, {"value": "no"}],
    },
    {"type": "score", "name": "urgency", "instructions": "How urgent is it?", "levels": [{"label": "low"}, {"label": "high"}]},
]
NOUL = {"type": "noul", "instructions": "Is the customer angry?"}


@pytest.fixture
def decide(client, model):
    return lambda **options: client.decisions.create(**{"model": model, "input": STATE, "questions": QUESTIONS, **options})


def test_three_types_have_their_classes(decide):
    decision = decide()
    predicate, choice, score = decision.answers
    assert [type(answer).__name__ for answer in decision.answers] == [
        "AnswerAnswerResourcePredicate",
        "AnswerAnswerResourceChoice",
        "AnswerAnswerResourceScore",
    ]
    assert predicate.name == "angry" and 0 < predicate.probability < 1
    assert choice.name is None and [entry.value for entry in choice.probabilities] == [True, "true", "no"]
    assert isinstance(choice.probabilities[0].value, bool)
    for answer in (choice, score):
        assert abs(sum(entry.probability for entry in answer.probabilities) - 1) < 1e-12
        assert 0 <= answer.confidence <= 1
    best = max(choice.probabilities, key=lambda entry: entry.probability)
    assert choice.choice == best.value and type(choice.choice) is type(best.value)
    assert score.score == score.probabilities[1].probability and score.probabilities[1].label == "high"
    assert all(answer.model_extra["error"] <= 1e-4 for answer in decision.answers)
    assert decision.usage.output_tokens == 0 and decision.usage.total_tokens == decision.usage.input_tokens


def test_bits_do_not_depend_on_other_questions(decide):
    together = decide().answers
    for question, expected in zip(QUESTIONS, together, strict=True):
        twice = decide(questions=[question, question]).answers
        assert twice == [expected, expected]
    again = decide(input=STATE * 12)
    assert decide(input=STATE * 12).usage.input_tokens_details.cached_tokens > 0
    assert decide(input=STATE * 12).answers == again.answers


def test_conversations_and_tool_calls(decide):
    items = [
        {"role": "developer", "content": "You help customers."},
        {"role": "user", "content": [{"type": "input_text", "text": "Where is it?"}, {"type": "input_json", "data": {"id": 7}}]},
        {"type": "function_call", "call_id": "c", "name": "find", "arguments": '{"id": 7}'},
        {"type": "function_call_output", "call_id": "c", "output": "lost"},
        {"role": "assistant", "content": "It is lost.", "phase": "final_answer"},
    ]
    decision = decide(input=items, extra_body={"formwork": {"orders": 1, "answers": "json"}})
    assert decision.model_extra["formwork"]["orders"] == 1
    with pytest.raises(openai.BadRequestError) as raised:
        decide(input=items[3:])
    assert raised.value.param == "input[0].call_id"


@pytest.mark.parametrize(
    ("param", "questions"),
    [
        ("questions", []),
        ("questions", QUESTIONS[:1] * 401),
        ("questions[1].choices[2]", [QUESTIONS[0], {**QUESTIONS[1], "choices": [{"value": "a"}, {"value": True}, {"value": "a"}]}]),
        ("questions[0].choices", [{**QUESTIONS[1], "choices": [{"value": f"v{value}"} for value in range(256)]}]),
        ("questions[0].levels", [{**QUESTIONS[2], "levels": [{"label": f"l{level}"} for level in range(11)]}]),
    ],
)
def test_faults_name_their_field(decide, param, questions):
    with pytest.raises(openai.BadRequestError) as raised:
        decide(questions=questions)
    assert raised.value.param == param


def test_other_errors(decide, server):
    with pytest.raises(openai.BadRequestError) as raised:
        decide(input=[{"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,AA=="}]}])
    assert raised.value.param == "input[0].content[0].type"
    with pytest.raises(openai.NotFoundError):
        decide(model="gpt-6-luna")
    with pytest.raises(openai.AuthenticationError), openai.OpenAI(base_url=server["base_url"], api_key="x", max_retries=0) as other:
        other.decisions.create(model="m", input="x", questions=QUESTIONS)


def test_langchain(server, model):
    decisions = OpenAIDecisions(model=model, max_retries=0, **server)
    questions = {
        "angry": Predicate(instructions="Is the customer angry?"),
        "team": Choice(instructions="Which team?", choices={"billing": "Money.", "technical": "Bugs."}),
        "urgency": Score(instructions="How urgent is it?", levels=["low", "high"]),
    }
    response = decisions.invoke({"input": STATE, "questions": questions})
    assert 0 < response.predicates["angry"].probability < 1
    assert response.choices["team"].choice in ("billing", "technical")
    assert 0 < response.scores["urgency"].score < 1


@pytest.fixture
def system_one(server):
    with TypeSafeClient(base_url=server["base_url"].removesuffix("/v1"), api_key=server["api_key"]) as client:
        yield client.system_one


@pytest.mark.parametrize("name", ["jev-latest", None])
def test_typesafe(system_one, model, name):
    questions = {
        "angry": NOUL,
        "team": {"type": "choice", "criteria": {"billing": "money", "technical": None}},
        "urgency": {"type": "score", "instructions": "How urgent is it?", "criteria": ["low", {"level": "high"}]},
    }
    answers = system_one({"mail": STATE}, questions, model=name or model).answers
    assert 0 < answers["angry"].noul < 1
    assert answers["team"].choice in ("billing", "technical")
    assert abs(sum(answers["team"].probabilities.values()) - 1) < 1e-12
    assert 0 < answers["urgency"].score < 1


def test_typesafe_errors(system_one):
    with pytest.raises(TypeSafeUnprocessableEntityError):
        system_one(STATE, {"a": {"type": "score", "criteria": ["level"] * 11}}, model="jev-latest")
    with pytest.raises(TypeSafeNotFoundError):
        system_one(STATE, {"a": NOUL}, model="other")


def test_jevbench_relations_that_no_batch_may_change(server, model, tmp_path):
    """Each of these relations compares a question with the same question under changes that do not reach the model."""
    questions = {
        "angry": NOUL,
        "polite": {"type": "noul", "instructions": "Is the writer polite?"},
        "team": {"type": "choice", "instructions": "Which team?", "criteria": {"billing": "money", "technical": "bugs"}},
    }
    cases = tmp_path / "cases.jsonl"
    cases.write_text(json.dumps({"id": "mail", "state": STATE, "questions": questions}) + "\n")
    relations = "batch_solo,batch_order,duplicate_question,batch_content,batch_size_sweep,key_rename"
    out = tmp_path / "out.json"
    command = [
        *(sys.executable, "-m", "jevbench", "run", "--cases", str(cases), "--backend", f"systemone:{model}"),
        *("--url", server["base_url"] + "/systemone", "--relations", relations, "--no-cache", "--out", str(out)),
    ]
    environment = {**os.environ, "JEVBENCH_API_KEY": server["api_key"]}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=55)
    assert done.returncode == 0, done.stderr + done.stdout
    outcomes = json.loads(out.read_text())["outcomes"]
    assert {outcome["relation"] for outcome in outcomes} == set(relations.split(","))
    assert [outcome for outcome in outcomes if outcome["deviation"] != 0] == []
