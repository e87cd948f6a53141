"""The vocabulary of a model."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from formwork._native import Vocabulary
from formwork.compat import _json
from formwork.compat.xgrammar import _serialized
from formwork.compat.xgrammar._vocab import (
    STOP_TOKENS,
    VocabType,
    decode_token,
    metadata_of_backend,
    type_of_vocab,
)
from formwork.compat.xgrammar.exception import DeserializeFormatError

__all__ = ["TokenizerInfo", "VocabType"]

STOP_SETS = 8
"""Number of vocabularies with other stop tokens that are kept."""


class TokenizerInfo:
    """The tokens of a model with their bytes, and the tokens that end a text.

    Tokens without bytes, and ids beyond the vocabulary, are special: no text has them.
    """

    def __init__(
        self,
        encoded_vocab: Sequence[str | bytes],
        vocab_type: VocabType = VocabType.RAW,
        *,
        vocab_size: int | None = None,
        stop_token_ids: Sequence[int] | int | None = None,
        add_prefix_space: bool = False,
    ) -> None:
        """Decodes a vocabulary.

        vocab_size: number of logits of the model, if it is larger than the vocabulary.
        stop_token_ids: tokens that end a text. By default they are found by their spelling.
        add_prefix_space: True if the tokenizer adds a space before a text. Stored only.
        """
        if isinstance(encoded_vocab, (str, bytes)) or not hasattr(encoded_vocab, "__iter__"):
            raise TypeError(f"a vocabulary must be a list of tokens, not {type(encoded_vocab).__name__}")
        tokens = list(encoded_vocab)
        for token in tokens:
            if not isinstance(token, (str, bytes)):
                raise RuntimeError(f"a token must be str or bytes, not {type(token).__name__}")
        size = len(tokens) if vocab_size is None else int(vocab_size)
        if size < len(tokens):
            raise RuntimeError(f"vocab_size ({size}) is below the number of tokens ({len(tokens)})")
        self._vocab_type = VocabType(vocab_type)
        self._add_prefix_space = bool(add_prefix_space)
        self._decoded = [decode_token(token, self._vocab_type) for token in tokens]
        if stop_token_ids is None:
            stops = [token for token, text in enumerate(self._decoded) if _is_stop(text)]
        else:
            stops = [stop_token_ids] if isinstance(stop_token_ids, int) else list(stop_token_ids)
        self._stops = [int(token) for token in stops if 0 <= token < size]
        self._size = size
        self._vocabularies = lru_cache(maxsize=STOP_SETS)(self._vocabulary)

    @staticmethod
    def from_huggingface(
        tokenizer: Any,
        *,
        vocab_size: int | None = None,
        stop_token_ids: Sequence[int] | int | None = None,
    ) -> TokenizerInfo:
        """Reads the vocabulary of a tokenizer of the library `transformers`.

        vocab_size: number of logits of the model, if it differs from the size of the vocabulary.
        stop_token_ids: tokens that end a text. The default is the tokenizer's end-of-sequence token.
        """
        stops = [stop_token_ids] if isinstance(stop_token_ids, int) else stop_token_ids
        if stops is not None and not stops:
            raise ValueError("stop_token_ids must not be empty")
        if not hasattr(tokenizer, "get_vocab"):
            raise ValueError(f"a tokenizer must have a method get_vocab, and {type(tokenizer)} has none")
        vocab: dict[str, int] = tokenizer.get_vocab()
        size = vocab_size or max(len(vocab), max(vocab.values(), default=-1) + 1)
        encoded: list[str | bytes] = [""] * size
        for token, index in vocab.items():
            if index < size:
                encoded[index] = token
        if stops is None:
            stops = _end_of_sequence(tokenizer)
        kind, prefix = _kind_of(tokenizer, vocab)
        return TokenizerInfo(encoded, kind, vocab_size=size, stop_token_ids=stops, add_prefix_space=prefix)

    @property
    def vocab_type(self) -> VocabType:
        """Spelling of the tokens."""
        return self._vocab_type

    @property
    def vocab_size(self) -> int:
        """Number of logits of the model."""
        return self._size

    @property
    def add_prefix_space(self) -> bool:
        """True if the tokenizer adds a space before a text."""
        return self._add_prefix_space

    @property
    def prepend_space_in_tokenization(self) -> bool:
        """Deprecated name of `add_prefix_space`."""
        warnings.warn("prepend_space_in_tokenization is deprecated; use add_prefix_space", stacklevel=2)
        return self._add_prefix_space

    @property
    def decoded_vocab(self) -> list[bytes]:
        """The bytes that each token adds to the output."""
        return list(self._decoded)

    @property
    def stop_token_ids(self) -> list[int]:
        """The tokens that end a text."""
        return list(self._stops)

    @property
    def special_token_ids(self) -> list[int]:
        """The tokens without bytes."""
        stops = set(self._stops)
        empty = [token for token, text in enumerate(self._decoded) if not text and token not in stops]
        beyond = [token for token in range(len(self._decoded), self._size) if token not in stops]
        return empty + beyond

    def dump_metadata(self) -> str:
        """Returns everything except the tokens as JSON, for `from_vocab_and_metadata`."""
        return json.dumps(self._metadata(), separators=(",", ":"))

    @staticmethod
    def from_vocab_and_metadata(encoded_vocab: Sequence[str | bytes], metadata: str) -> TokenizerInfo:
        """Creates an object from tokens and the text of `dump_metadata`."""
        read = _json.read(metadata, "the metadata", RuntimeError)
        return _of_metadata(encoded_vocab, read, RuntimeError)

    def serialize_json(self) -> str:
        """Returns the object as JSON. Bytes of tokens are spelt as the characters U+0000 to U+00FF."""
        decoded = [text.decode("latin-1") for text in self._decoded]
        return _serialized.dump({**self._metadata(), "decoded_vocab": decoded})

    @staticmethod
    def deserialize_json(json_string: str) -> TokenizerInfo:
        """Reads the text of `serialize_json`."""
        read = _serialized.load(json_string, "tokenizer info", (*METADATA, "decoded_vocab"))
        decoded = read["decoded_vocab"]
        if not isinstance(decoded, list) or not all(isinstance(text, str) for text in decoded):
            raise DeserializeFormatError("`decoded_vocab` must be a list of texts")
        try:
            tokens = [text.encode("latin-1") for text in decoded]
        except UnicodeEncodeError as error:
            raise DeserializeFormatError(f"`decoded_vocab` has a character beyond U+00FF: {error}") from error
        info = _of_metadata([b""] * len(tokens), read, DeserializeFormatError)
        info._decoded = tokens
        return info

    def _metadata(self) -> dict[str, Any]:
        return {
            "vocab_type": self._vocab_type.value,
            "vocab_size": self._size,
            "add_prefix_space": self._add_prefix_space,
            "stop_token_ids": self._stops,
        }

    def _vocabulary(self, stops: tuple[int, ...]) -> Vocabulary:
        """Returns the vocabulary with these stop tokens. The object's own stop tokens are no text either."""
        tokens: list[bytes | None] = [text or None for text in self._decoded]
        tokens += [None] * (self._size - len(tokens))
        if not tokens:
            return Vocabulary([None], [])
        special = [token for token in self._stops if token not in stops]
        return Vocabulary(tokens, list(stops), special)

    @staticmethod
    def _detect_metadata_from_hf(backend_str: str) -> dict[str, Any]:
        kind, prefix = metadata_of_backend(backend_str)
        return {"vocab_type": kind, "add_prefix_space": prefix}


METADATA = ("vocab_type", "vocab_size", "add_prefix_space", "stop_token_ids")
TYPES = (int, int, bool, list)


def _of_metadata(tokens: Sequence[str | bytes], read: Any, raised: type[RuntimeError]) -> TokenizerInfo:
    """Creates an object from tokens and metadata. Raises `raised` if a field is missing."""
    for name, kind in zip(METADATA, TYPES):
        if not isinstance(read, dict) or not isinstance(read.get(name), kind):
            raise raised(f"`{name}` is missing in the metadata, or is no {kind.__name__}")
    if read["vocab_type"] not in [kind.value for kind in VocabType]:
        raise raised(f"unknown vocab_type {read['vocab_type']}; expected 0, 1 or 2")
    if not all(isinstance(token, int) for token in read["stop_token_ids"]):
        raise raised("`stop_token_ids` must be a list of ids")
    return TokenizerInfo(
        tokens,
        VocabType(read["vocab_type"]),
        vocab_size=read["vocab_size"],
        stop_token_ids=read["stop_token_ids"],
        add_prefix_space=read["add_prefix_space"],
    )


def _is_stop(text: bytes) -> bool:
    return len(text) < 64 and text.decode("utf-8", "replace") in STOP_TOKENS


def _end_of_sequence(tokenizer: Any) -> list[int] | None:
    end = getattr(tokenizer, "eos_token_id", None)
    if end is None:
        model = _sentence_piece(tokenizer)
        end = model.eos_id() if model is not None and model.eos_id() != -1 else None
    if end is None:
        warnings.warn(
            "the tokenizer names no end-of-sequence token, so stop tokens are found by their spelling; "
            "pass stop_token_ids to be certain",
            stacklevel=3,
        )
        return None
    return list(end) if isinstance(end, (list, tuple)) else [end]


def _kind_of(tokenizer: Any, vocab: dict[str, int]) -> tuple[VocabType, bool]:
    """Returns the type of a tokenizer's vocabulary, and true if the tokenizer adds a space before a text."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None and hasattr(backend, "to_str"):
        kind, prefix = metadata_of_backend(backend.to_str())
        proven = type_of_vocab(vocab)
        # The file of a converted tokenizer may lack the decoder that shows the type.
        if proven is not None and proven is not kind:
            return proven, _adds_space(tokenizer, proven)
        return kind, prefix
    if _sentence_piece(tokenizer) is not None:
        return (VocabType.BYTE_FALLBACK if "<0x0A>" in vocab else VocabType.RAW), True
    if _is_tiktoken(tokenizer):
        return (VocabType.BYTE_LEVEL if _first_token(tokenizer, " ") == "\u0120" else VocabType.RAW), False
    raise ValueError(f"unsupported type of tokenizer: {type(tokenizer)}")


def _adds_space(tokenizer: Any, kind: VocabType) -> bool:
    space = "\N{LOWER ONE EIGHTH BLOCK}" if kind is VocabType.BYTE_FALLBACK else "\u0120"
    return _first_token(tokenizer, "a").startswith(space)


def _first_token(tokenizer: Any, text: str) -> str:
    """Returns the spelling of the first token of `text`, or an empty text."""
    try:
        spelt = tokenizer.convert_ids_to_tokens(tokenizer.encode(text, add_special_tokens=False))
    except (AttributeError, TypeError, ValueError):
        return ""
    return str(spelt[0]) if spelt else ""


def _sentence_piece(tokenizer: Any) -> Any:
    """Returns the SentencePiece model of a tokenizer, or None."""
    inner = getattr(tokenizer, "tokenizer", None)
    for model in (getattr(tokenizer, "sp_model", None), getattr(inner, "sp_model", None)):
        if model is not None:
            return model
    model = getattr(tokenizer, "tok", None)
    return model if hasattr(model, "eos_id") else None


def _is_tiktoken(tokenizer: Any) -> bool:
    inner = getattr(tokenizer, "tokenizer", None)
    files = getattr(tokenizer, "vocab_files_names", None) or {}
    return type(inner).__module__.startswith("tiktoken") or "tiktoken" in files.get("vocab_file", "")
