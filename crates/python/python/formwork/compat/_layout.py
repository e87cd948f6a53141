"""The layout of JSON with any white space."""

from __future__ import annotations

__all__ = ["ANY_SPACE"]

ANY_SPACE = "inside"
"""Formwork's layout for white space of any kind, but not before and after the whole value."""
