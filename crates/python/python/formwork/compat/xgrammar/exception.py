"""The exceptions of XGrammar."""

from __future__ import annotations

from formwork.compat._errors import RefusedGrammar

__all__ = [
    "DeserializeFormatError",
    "DeserializeVersionError",
    "InvalidJSONError",
    "InvalidStructuralTagError",
    "RefusedGrammar",
]


class DeserializeFormatError(RuntimeError):
    """A serialized object that lacks a field, or belongs to another tokenizer."""


class DeserializeVersionError(RuntimeError):
    """A serialized object without a version, or of another version."""


class InvalidJSONError(RefusedGrammar):
    """A text that is no JSON."""


class InvalidStructuralTagError(RefusedGrammar):
    """A structural tag that is malformed, or that Formwork cannot enforce exactly."""
