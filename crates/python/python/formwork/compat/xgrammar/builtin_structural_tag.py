"""Structural tags for the tool calls of models.

XGrammar has such tags for some models. Formwork's server writes calls in the format of a model's own chat
template, so this module has only the registry for tags of the caller.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

__all__ = [
    "get_builtin_structural_tag",
    "get_model_structural_tag",
    "normalize_tool_choice",
    "register_model_structural_tag",
]

Maker = Callable[..., Any]

_makers: dict[str, Maker] = {}


def register_model_structural_tag(name: str) -> Callable[[Maker], Maker]:
    """Returns a decorator that registers a function for the model format `name`."""

    def register(maker: Maker) -> Maker:
        _makers[name] = maker
        return maker

    return register


def get_model_structural_tag(model: str, *args: Any, **kwargs: Any) -> Any:
    """Calls the function that is registered for a model format."""
    if model not in _makers:
        known = ", ".join(sorted(_makers)) or "none"
        raise ValueError(
            f"no structural tag for the model format {model!r} is registered (registered: {known})"
        )
    return _makers[model](*args, **kwargs)


get_builtin_structural_tag = get_model_structural_tag


def normalize_tool_choice(*args: Any, **kwargs: Any) -> NoReturn:
    """Is not supported, because there are no tags of models."""
    raise NotImplementedError("normalize_tool_choice is not supported")
