"""Errors that are both Formwork's and what the other package raises."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn, TypeVar

from formwork._native import GrammarError

__all__ = ["RefusedGrammar", "refusals_as", "refuse"]


class RefusedGrammar(GrammarError, RuntimeError):
    """A grammar that is malformed, or that Formwork cannot enforce exactly.

    Formwork raises `GrammarError`, and XGrammar raises `RuntimeError`. A handler for either catches this
    class.
    """


Raised = TypeVar("Raised", bound=GrammarError)


def refuse(message: str, *, line: int | None = None, column: int | None = None) -> NoReturn:
    """Raises [`RefusedGrammar`][formwork.compat._errors.RefusedGrammar] with a place in the source."""
    place = "" if line is None else f" at line {line}, column {column}"
    error = RefusedGrammar(message + place)
    error.line, error.column = line, column
    raise error


@contextmanager
def refusals_as(kind: type[Raised]) -> Iterator[None]:
    """Raises each `GrammarError` of the body as an error of the class `kind`, with the same place."""
    try:
        yield
    except kind:
        raise
    except GrammarError as error:
        raised = kind(str(error))
        raised.__dict__.update(error.__dict__)
        raise raised from error
