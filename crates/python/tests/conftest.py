"""Vocabularies for the tests, which need no downloads."""

from __future__ import annotations

import json
import os

import pytest

import formwork

END = 256


@pytest.fixture
def bytes_vocabulary() -> formwork.Vocabulary:
    """A token for each byte, then the end of a sequence."""
    return formwork.Vocabulary([bytes([byte]) for byte in range(256)] + [b"</s>"], ends=[END])


@pytest.fixture(scope="session")
def model_path() -> str:
    """The folder or file of a small model, if the tests got one."""
    folder = os.environ.get("FORMWORK_TEST_MODELS")
    if not folder:
        pytest.skip("FORMWORK_TEST_MODELS is not set")
    for name in sorted(os.listdir(folder)):
        if name.lower().startswith("smollm2"):
            return os.path.join(folder, name)
    pytest.skip("no SmolLM2 in FORMWORK_TEST_MODELS")


@pytest.fixture(scope="session")
def tokenizer_json() -> str:
    """The text of a byte-level `tokenizer.json` with a few merges."""
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["</s>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    texts = [json.dumps({"name": "Mara", "age": age, "hobbies": ["sailing", "true"]}) for age in range(50)]
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer.to_str()
