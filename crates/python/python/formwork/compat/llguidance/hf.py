"""Tokenizers of the library `transformers`."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

from formwork.compat.llguidance._tokenizer import LLTokenizer

__all__ = ["from_tokenizer"]


def from_tokenizer(
    hf_tokenizer: Any,
    n_vocab: int | None = None,
    eos_token: int | Sequence[int] | None = None,
    slices: Sequence[str] | None = None,
) -> LLTokenizer:
    """Reads a fast tokenizer. Other tokenizers raise `ValueError`.

    n_vocab: number of logits of the model, if it is larger than the vocabulary.
    eos_token: the tokens that end a text. The default is the tokenizer's own.
    """
    backend = getattr(hf_tokenizer, "backend_tokenizer", None)
    if backend is None or not hasattr(backend, "to_str"):
        raise ValueError(f"only fast tokenizers are supported, not {type(hf_tokenizer).__name__}")
    backend = copy(backend)
    backend.no_padding()
    backend.no_truncation()
    if eos_token is None:
        eos_token = hf_tokenizer.eos_token_id
    return LLTokenizer(backend.to_str(), n_vocab=n_vocab, eos_token=eos_token, slices=slices)
