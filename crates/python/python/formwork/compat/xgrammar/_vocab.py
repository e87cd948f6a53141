"""Spellings of tokens in the vocabularies of tokenizers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from enum import Enum
from typing import Any

__all__ = ["STOP_TOKENS", "VocabType", "decode_token", "metadata_of_backend", "type_of_vocab"]

STOP_TOKENS = frozenset({
    "</s>", "<|end_of_text|>", "<|eot_id|>", "<|endoftext|>", "<eos>", "<|eos|>", "<end_of_turn>",
    "<\N{FULLWIDTH VERTICAL LINE}end\N{LOWER ONE EIGHTH BLOCK}of"
    "\N{LOWER ONE EIGHTH BLOCK}sentence\N{FULLWIDTH VERTICAL LINE}>",
})  # fmt: skip
"""Spellings of the tokens that end a text, for vocabularies whose stop tokens are not given."""

SPACE = "\N{LOWER ONE EIGHTH BLOCK}"
"""The character that stands for a space in vocabularies of SentencePiece."""


class VocabType(Enum):
    """The spelling of the tokens in a vocabulary."""

    RAW = 0
    """Each token is spelt as its own text."""
    BYTE_FALLBACK = 1
    """As in SentencePiece: `<0x0A>` is a byte, and U+2581 is a space."""
    BYTE_LEVEL = 2
    """As in GPT-2: each byte is one of 256 printable characters."""


def _byte_characters() -> dict[str, int]:
    """Returns the byte of each character of a byte-level vocabulary.

    Printable characters of Latin-1 stand for themselves. The other bytes follow from U+0100 on.
    """
    own = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in own]
    characters = {chr(byte): byte for byte in own}
    characters.update((chr(0x100 + index), byte) for index, byte in enumerate(others))
    return characters


BYTE_CHARACTERS = _byte_characters()
BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def decode_token(token: str | bytes, kind: VocabType) -> bytes:
    """Returns the bytes that a token adds to the output."""
    if kind is VocabType.RAW:
        return token if isinstance(token, bytes) else token.encode("utf-8", "surrogatepass")
    try:
        text = token.decode("utf-8") if isinstance(token, bytes) else token
    except UnicodeDecodeError:
        return bytes(token)  # type: ignore[arg-type]
    if kind is VocabType.BYTE_FALLBACK:
        byte = BYTE_TOKEN.fullmatch(text)
        if byte:
            return bytes([int(byte[1], 16)])
        return text.replace(SPACE, " ").encode("utf-8", "surrogatepass")
    if all(c in BYTE_CHARACTERS for c in text):
        return bytes(BYTE_CHARACTERS[c] for c in text)
    return text.encode("utf-8", "surrogatepass")


def type_of_vocab(tokens: Iterable[str]) -> VocabType | None:
    """Returns the type that the spellings of a vocabulary prove, or None if they prove none."""
    known = set(tokens)
    if sum(f"<0x{byte:02X}>" in known for byte in range(256)) >= 128:
        return VocabType.BYTE_FALLBACK
    if sum(c in known for c in BYTE_CHARACTERS) < 128:
        return None
    # Added tokens may have other characters.
    spelt = sum(all(c in BYTE_CHARACTERS for c in token) for token in known)
    return VocabType.BYTE_LEVEL if spelt >= 0.99 * len(known) else None


def metadata_of_backend(backend: str) -> tuple[VocabType, bool]:
    """Returns the type of the vocabulary, and true if the tokenizer adds a space before a text.

    `backend` is the JSON of a tokenizer of the library `tokenizers`.
    """
    read = json.loads(backend)
    decoders = _parts(read.get("decoder"), "decoders")
    pre_tokenizers = _parts(read.get("pre_tokenizer"), "pretokenizers")
    normalizers = _parts(read.get("normalizer"), "normalizers")
    kinds = {part.get("type") for part in decoders}
    if "ByteFallback" in kinds:
        kind = VocabType.BYTE_FALLBACK
    elif "ByteLevel" in kinds:
        kind = VocabType.BYTE_LEVEL
    else:
        kind = VocabType.RAW
    prepends = any(part.get("type") == "Prepend" and part.get("prepend") == SPACE for part in normalizers)
    schemes = [part.get("prepend_scheme") for part in pre_tokenizers if part.get("type") == "Metaspace"]
    return kind, prepends or any(scheme in ("always", "first") for scheme in schemes)


def _parts(part: Any, key: str) -> list[dict[str, Any]]:
    """Returns the parts of a sequence in the JSON of a tokenizer, or the only part."""
    if not isinstance(part, dict):
        return []
    if part.get("type") == "Sequence":
        return [inner for each in part.get(key, []) for inner in _parts(each, key)]
    return [part]
