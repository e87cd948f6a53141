"""Runs the tests against Formwork, or against the real packages if `FORMWORK_COMPAT_PEER` is 1.

Expectations that hold for both have no mark. The mark `ours` is for what Formwork does on purpose in another way.
"""

from __future__ import annotations

import pytest
from peer import PEER


@pytest.fixture(scope="session")
def tokenizer():
    """A tokenizer of llguidance's interface with a token for each byte."""
    from llguidance_helpers import Bytes, ll

    return ll.LLTokenizer(ll.TokenizerWrapper(Bytes()))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "ours: only for Formwork, because the real package differs")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if PEER:
        for item in items:
            if "ours" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="the real package differs"))
