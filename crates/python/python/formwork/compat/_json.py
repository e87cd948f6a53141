"""Reads JSON texts."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["read"]


def read(text: str, what: str, raised: type[Exception]) -> Any:
    """Returns the value of a JSON text. Raises `raised` if the text of `what` is malformed."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise raised(f"{what} is no JSON: {error}") from error
    except RecursionError as error:
        raise raised(f"{what} is nested too deeply for the stack of this thread") from error
