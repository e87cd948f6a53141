"""Tests DSPy: a signature with types, by structured output and by text."""

from typing import Literal

import dspy
import pytest
from dspy import lm15
from dspy.adapters.types.decision import Choice, Noul, Score
from dspy.clients.typesafe import TypeSafe
from pydantic import BaseModel


class Sky(BaseModel):
    """Has no free text, so that a short answer is a whole one."""

    colour: Literal["blue", "grey"]
    windy: bool


class Forecast(dspy.Signature):
    """Predict the weather."""

    city: str = dspy.InputField()
    sky: Sky = dspy.OutputField()
    days: Literal[1, 7] = dspy.OutputField()


@pytest.fixture(scope="module")
def provider(server):
    """Declares the server as one that enforces schemas. DSPy sends none to a model that it does not know."""
    access = lm15.AccessPolicy(provider="formwork", base_url=server["base_url"])
    definition = lm15.ProviderDefinition.chat(access, compat=lm15.OpenAIChatCompat())
    lm15.register_provider(definition, supports=lm15.ModelSupport(response_schema=True))
    yield "formwork"
    lm15.unregister_provider("formwork")


@pytest.fixture
def predict(server, model, provider):
    """Returns a function that predicts. DSPy keeps answers on disk unless its cache is off."""
    options = {"temperature": 0, "max_tokens": 60, "cache": False, "num_retries": 0}
    lm = dspy.LM(f"{provider}/{model}", api_key=server["api_key"], **options)

    def predict(adapter, **options):
        with dspy.context(lm=lm, adapter=adapter):
            return dspy.Predict(Forecast, **options)(city="Oslo")

    return predict


def test_a_signature_has_types(predict):
    found = predict(dspy.JSONAdapter())
    assert isinstance(found.sky, Sky)
    assert found.days in (1, 7)


def test_several_completions(predict):
    found = predict(dspy.JSONAdapter(), n=2, temperature=1)
    assert len(found.completions) == 2
    assert all(isinstance(sky, Sky) for sky in found.completions.sky)


def test_text_that_cannot_be_read_is_replaced_by_json(predict):
    """The default adapter reads text with markers, and tries JSON if the markers are missing."""
    assert isinstance(predict(dspy.ChatAdapter()).sky, Sky)


class Triage(dspy.Signature):
    """Triage a customer's mail."""

    mail: str = dspy.InputField()
    angry: Noul = dspy.OutputField(desc="The customer is angry.")
    team: Choice[("billing", "money"), ("sales", "orders")] = dspy.OutputField(desc="The team that should answer.")
    urgency: Score["low", "middle", "high"] = dspy.OutputField(desc="How urgent it is.")


def test_decisions(server):
    origin = server["base_url"].removesuffix("/v1")
    lm = TypeSafe(model="jev-latest", api_key=server["api_key"], base_url=origin, cache=False, timeout=50)
    with dspy.context(lm=lm):
        given = dspy.Predict(Triage)(mail="I was charged twice, and nobody answers.")
    assert 0 < given.angry.probability < 1
    assert given.team.value in ("billing", "sales") and abs(sum(given.team.probabilities.values()) - 1) < 1e-12
    assert 0 <= given.urgency.value <= 2 and set(given.urgency.probabilities) == {0, 1, 2}
