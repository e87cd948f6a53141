"""Instructor: pydantic models from tools and from schemas, whole and in pieces."""

from collections.abc import Iterable

import instructor
import openai
import pytest
from instructor.core.exceptions import IncompleteOutputException, InstructorRetryException
from pydantic import BaseModel, field_validator

from shapes import ASK_PERSON, Person, Sum

MODES = [instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA]
ADD = [{"role": "user", "content": "Add 2 and 3."}]


@pytest.fixture
def create(server, model):
    def create(mode, how="create", **options):
        client = instructor.from_openai(openai.OpenAI(**server, max_retries=0), mode=mode)
        options = {"temperature": 0, "max_tokens": 90, "max_retries": 0, **options}
        return getattr(client.chat.completions, how)(model=model, **options)

    return create


@pytest.mark.parametrize("mode", MODES)
def test_one(create, mode):
    person = create(mode, messages=ASK_PERSON, response_model=Person)
    assert isinstance(person, Person)


@pytest.mark.parametrize("mode", MODES)
def test_with_the_completion(create, mode):
    sum_, completion = create(mode, "create_with_completion", messages=ADD, response_model=Sum)
    assert isinstance(sum_, Sum)
    assert completion.usage.completion_tokens > 0


@pytest.mark.parametrize("mode", MODES)
def test_in_pieces(create, mode):
    pieces = list(create(mode, "create_partial", messages=ASK_PERSON, response_model=Person))
    assert len(pieces) > 1
    Person.model_validate(pieces[-1].model_dump())


def test_in_parallel(create):
    """Instructor leaves it to the model whether it calls anything, and cannot read an answer that calls nothing."""
    try:
        found = list(create(instructor.Mode.PARALLEL_TOOLS, messages=ADD, response_model=Iterable[Sum | Person]))
    except IncompleteOutputException as error:
        assert error.last_completion.choices[0].finish_reason == "length"
    except InstructorRetryException as error:
        assert "No tool calls" in str(error)
    else:
        assert all(isinstance(item, (Sum, Person)) for item in found)


class Unwelcome(BaseModel):
    """Valid by its schema, and yet sent back."""

    value: int

    @field_validator("value")
    @classmethod
    def refuse(cls, value):
        raise ValueError("another one, please")


@pytest.mark.parametrize("mode", MODES)
def test_what_was_wrong_goes_back_to_the_model(create, mode):
    """The conversation of a second attempt, with the refused call and its error in it, is understood."""
    with pytest.raises(InstructorRetryException, match="another one") as refusal:
        create(mode, messages=ADD, response_model=Unwelcome, max_retries=1)
    assert refusal.value.n_attempts == 2


@pytest.mark.parametrize("mode", MODES)
def test_errors(create, mode):
    with pytest.raises(InstructorRetryException, match="temperature"):
        create(mode, messages=ADD, response_model=Sum, temperature=30)
