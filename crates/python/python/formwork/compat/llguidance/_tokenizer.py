"""Tokenizers."""

from __future__ import annotations

import bisect
import functools
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from formwork import _native
from formwork.compat.llguidance._grammar import compile_grammar

__all__ = ["LLTokenizer", "TokenizerWrapper"]

KEPT = 64
"""Number of compiled grammars that a tokenizer keeps."""

Encode = Callable[[str], Sequence[int]]


class TokenizerWrapper:
    """The tokens of a tokenizer in Python, and a function that encodes a text."""

    def __init__(self, gtokenizer: Any) -> None:
        """Takes an object with `tokens`, `eos_token_id` and `bos_token_id` that can be called with a text.

        `tokens` has the bytes of each token. `special_token_ids` is optional.
        """
        self.eos_token_id: int = gtokenizer.eos_token_id
        self.bos_token_id: int | None = gtokenizer.bos_token_id
        self.tokens: Sequence[bytes] = gtokenizer.tokens
        self.special_token_ids: Sequence[int] = getattr(gtokenizer, "special_token_ids", [])
        self.is_tokenizer_wrapper = True
        self._call = gtokenizer
        try:
            gtokenizer(b"test")
            self._takes_bytes = True
        except Exception:  # the callable may raise anything for an argument that it does not know
            self._takes_bytes = False

    def __call__(self, s: str) -> list[int]:
        """Encodes a text."""
        return list(self._call(s.encode("utf-8") if self._takes_bytes else s))


class LLTokenizer:
    """A vocabulary, the tokens that end a text, and a way to encode texts."""

    def __init__(
        self,
        tokenizer: str | TokenizerWrapper,
        n_vocab: int | None = None,
        eos_token: int | Sequence[int] | None = None,
        slices: Sequence[str] | None = None,
    ) -> None:
        """Reads a tokenizer.

        tokenizer: the text of a `tokenizer.json`, the path of that file or of its folder, or a
            `TokenizerWrapper`. Nothing is downloaded.
        n_vocab: number of logits of the model, if it is larger than the vocabulary.
        eos_token: the tokens that end a text, instead of those of the tokenizer.
        slices: without effect, because Formwork needs no hints about frequent texts.
        """
        if isinstance(tokenizer, str):
            read = _read_json(tokenizer)
            known = read.vocabulary
            texts = [known.token(token) for token in range(len(known))]
            special = [token for token in range(len(known)) if known.is_special(token)]
            ends = [read.eos] if read.eos is not None else known.ends
            self._read: _native.Tokenizer | None = read
            self._encode: Encode = read.encode_fragment
        elif getattr(tokenizer, "is_tokenizer_wrapper", False):
            texts = [bytes(text) for text in tokenizer.tokens]
            special, ends = list(tokenizer.special_token_ids), [tokenizer.eos_token_id]
            self._read = None
            self._encode = tokenizer
        else:
            raise ValueError("expected the text or path of a tokenizer.json, or a TokenizerWrapper")
        self._finish(texts, special, ends, n_vocab, eos_token)
        self.is_canonical = True
        """True if texts are encoded as the model's tokenizer does."""

    def _finish(
        self,
        texts: list[bytes],
        special: list[int],
        ends: Sequence[int],
        n_vocab: int | None,
        eos_token: int | Sequence[int] | None,
    ) -> None:
        if eos_token is not None:
            ends = [eos_token] if isinstance(eos_token, int) else list(eos_token)
        size = len(texts) if n_vocab is None else n_vocab
        if size < len(texts):
            raise ValueError(f"n_vocab ({size}) is below the number of tokens ({len(texts)})")
        texts += [b""] * (size - len(texts))
        for token in ends:
            if not 0 <= token < size:
                raise ValueError(f"the end token {token} is out of range (vocabulary size {size})")
        if not ends:
            raise ValueError("the tokenizer names no token that ends a text; pass eos_token")
        self._texts = texts
        self._special = frozenset(special) | frozenset(ends)
        self.vocab_size = size
        """Number of logits of the model."""
        self.eos_tokens = list(ends)
        """The tokens that end a text."""
        self.eos_token = self.eos_tokens[0]
        """The first token that ends a text."""
        self._ends = frozenset(ends)
        tokens = [text or None for text in texts]
        self._vocabulary = _native.Vocabulary(tokens, self.eos_tokens, sorted(self._special - self._ends))
        self._greedy = _native.Tokenizer.greedy(self._vocabulary)
        self._sorted = sorted(text for token, text in enumerate(texts) if text and token not in self._special)
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, _native.Constraint] = OrderedDict()

    @staticmethod
    def from_tiktoken(
        *,
        encoder: dict[bytes, int],
        special_tokens: dict[str, int],
        pattern: str,
        eos_token: int | Sequence[int],
        n_vocab: int | None = None,
        slices: Sequence[str] | None = None,
    ) -> LLTokenizer:
        """Reads the tokens of a tiktoken encoding.

        Texts are encoded with the longest token at each position, so `is_canonical` is False.
        """
        highest = max([*encoder.values(), *special_tokens.values()], default=-1)
        texts = [b""] * (highest + 1)
        for text, token in encoder.items():
            texts[token] = text
        for name, token in special_tokens.items():
            texts[token] = name.encode("utf-8")
        return LLTokenizer._of_tokens(texts, list(special_tokens.values()), n_vocab, eos_token)

    @staticmethod
    def from_llamacpp(
        *,
        tokens: Sequence[bytes],
        vocab_ptr: Any,
        tokenize_fptr: Any,
        eos_token: int | Sequence[int],
        slices: Sequence[str] | None = None,
    ) -> LLTokenizer:
        """Reads the tokens of a vocabulary of llama.cpp, in which special tokens start with the byte 255.

        Texts are encoded with the longest token at each position, so `is_canonical` is False.
        """
        special = [token for token, text in enumerate(tokens) if text[:1] == b"\xff" and len(text) > 1]
        texts = [bytes(text) for text in tokens]
        for token in special:
            texts[token] = texts[token][1:]
        return LLTokenizer._of_tokens(texts, special, None, eos_token)

    @staticmethod
    def _of_tokens(
        texts: list[bytes],
        special: list[int],
        n_vocab: int | None,
        eos_token: int | Sequence[int] | None,
    ) -> LLTokenizer:
        made = object.__new__(LLTokenizer)
        made._read = None
        made._finish(texts, special, [], n_vocab, eos_token)
        made._encode = made._greedy.encode_fragment
        made.is_canonical = False
        return made

    def with_slices(self, slices: Sequence[str]) -> LLTokenizer:
        """Returns this tokenizer, because slices have no effect."""
        return self

    @staticmethod
    def general_slices() -> list[str]:
        """Returns an empty list, because slices have no effect."""
        return []

    @staticmethod
    def json_slices() -> list[str]:
        """Returns an empty list, because slices have no effect."""
        return []

    def greedy_tokenize(self, text: str) -> list[int]:
        """Encodes a text with the longest token at each position."""
        return self._greedy.encode_fragment(text)

    def tokenize_str(self, text: str, *, parse_special: bool = False) -> list[int]:
        """Encodes a text. With `parse_special`, spellings of special tokens become these tokens."""
        if parse_special and self._read is not None:
            return self._read.encode(text, special=True)
        return list(self._encode(text))

    def tokenize_bytes(self, utf8bytes: bytes, *, parse_special: bool = False) -> list[int]:
        """Encodes bytes. Bytes at the end that are no whole character take the longest tokens."""
        try:
            return self.tokenize_str(utf8bytes.decode("utf-8"), parse_special=parse_special)
        except UnicodeDecodeError as error:
            whole, rest = utf8bytes[: error.start].decode("utf-8"), utf8bytes[error.start :]
        tokens = self.tokenize_str(whole, parse_special=parse_special) if whole else []
        return tokens + self._longest(rest)

    def tokenize_partial(
        self, new_bytes: bytes, recent_tokens: Sequence[int] | None = None
    ) -> tuple[list[int], bytes]:
        """Encodes the beginning of a text whose tokens do not depend on what follows.

        Returns the tokens and the remaining bytes.
        """
        tokens = self._settled(self.tokenize_bytes(new_bytes), new_bytes)
        return tokens, new_bytes[sum(len(self._texts[token]) for token in tokens) :]

    def decode_bytes(self, tokens: Sequence[int]) -> bytes:
        """Returns the bytes of tokens. Special tokens are spelt out."""
        return b"".join(self._text(token) for token in tokens)

    def decode_str(self, tokens: Sequence[int]) -> str:
        """Returns the text of tokens, with U+FFFD for bytes that are no UTF-8."""
        return self.decode_bytes(tokens).decode("utf-8", "replace")

    def dbg_tokens(self, tokens: Sequence[int]) -> str:
        """Returns a text for people that shows where tokens begin."""
        return f"\u27e6{self.test_trace_tokens(tokens)}\u27e7"

    def test_trace_tokens(self, tokens: Sequence[int]) -> str:
        """Returns a text for people that shows where tokens begin, without brackets around it."""
        return "\u2027".join(self._shown(token) for token in tokens)

    def is_special_token(self, token: int) -> bool:
        """Reports whether a token is no text."""
        return token in self._special

    def _shown(self, token: int) -> str:
        if not 0 <= token < self.vocab_size:
            return f"\u227aOOB[{token}]\u227b"
        if token in self._ends:
            return "\u227aEOS\u227b"
        try:
            return self._texts[token].decode("utf-8")
        except UnicodeDecodeError:
            return f"\u227aHEX[{self._texts[token].hex()}]\u227b"

    def _text(self, token: int) -> bytes:
        return self._texts[token] if 0 <= token < self.vocab_size else f"<[{token}]>".encode()

    def _longest(self, text: bytes) -> list[int]:
        """Encodes bytes with the longest token at each position. Stops where there is none."""
        tokens: list[int] = []
        while text:
            size = next((size for size in range(len(text), 0, -1) if text[:size] in self._ids), 0)
            if not size:
                break
            tokens.append(self._ids[text[:size]])
            text = text[size:]
        return tokens

    @functools.cached_property
    def _ids(self) -> dict[bytes, int]:
        """The first token with each text."""
        ids: dict[bytes, int] = {}
        for token, text in enumerate(self._texts):
            if text and token not in self._special:
                ids.setdefault(text, token)
        return ids

    def _settled(self, tokens: Sequence[int], text: bytes) -> list[int]:
        """Returns the tokens of `text` up to the first one that a longer token could replace."""
        settled: list[int] = []
        at = 0
        for token in tokens:
            rest = text[at:]
            place = bisect.bisect_right(self._sorted, rest)
            if place < len(self._sorted) and self._sorted[place].startswith(rest):
                break
            settled.append(token)
            at += len(self._texts[token])
        return settled

    def _forced_tokens(self, forced: bytes, ends: bool) -> list[int]:
        """Returns the tokens of forced bytes. `ends` is True if the output must end after them."""
        if not forced:
            return []
        try:
            text = forced.decode("utf-8")
        except UnicodeDecodeError as error:
            text, ends = forced[: error.start].decode("utf-8"), False
        tokens = list(self._encode(text)) if text else []
        if b"".join(self._texts[token] for token in tokens) != text.encode("utf-8"):
            return []  # the tokenizer changes this text
        return tokens if ends else self._settled(tokens, forced)

    def _constraint(self, grammar: str) -> _native.Constraint:
        """Compiles the text of a grammar, or returns a kept one."""
        with self._lock:
            known = self._kept.get(grammar)
            if known is not None:
                self._kept.move_to_end(grammar)
                return known
        compiled = _native.Constraint(compile_grammar(grammar), self._vocabulary)
        with self._lock:
            compiled = self._kept.setdefault(grammar, compiled)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return compiled


def _read_json(given: str) -> _native.Tokenizer:
    text = given
    if not given.lstrip().startswith("{"):
        path = os.path.join(given, "tokenizer.json") if os.path.isdir(given) else given
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        except OSError as error:
            raise ValueError(f"cannot read the tokenizer {given!r}: {error}") from error
    return _native.Tokenizer.from_json(text)
