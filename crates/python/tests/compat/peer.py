"""Chooses the package under test."""

from __future__ import annotations

import importlib
import os

PEER = os.environ.get("FORMWORK_COMPAT_PEER") == "1"


def peer_module(name: str):
    """Imports a module of the real package, or Formwork's module with that interface."""
    return importlib.import_module(name if PEER else f"formwork.compat.{name}")
