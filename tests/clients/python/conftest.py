"""The server under test, as `run` started it, and clients of it."""

import os

import pytest


@pytest.fixture(scope="session")
def server():
    """What every client is told: where the server is, and the key."""
    return {"base_url": os.environ["FORMWORK_URL"], "api_key": os.environ["FORMWORK_KEY"]}


@pytest.fixture(scope="session")
def model():
    return os.environ["FORMWORK_MODEL"]


@pytest.fixture(scope="session")
def client(server):
    """The official client. It retries nothing, so that no failure hides behind a second attempt."""
    openai = pytest.importorskip("openai")
    with openai.OpenAI(**server, max_retries=0, timeout=50) as client:
        yield client
