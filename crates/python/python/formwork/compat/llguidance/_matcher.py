"""Matchers, and their masks."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from formwork import _native
from formwork.compat._memory import WORD, words_for
from formwork.compat.llguidance._grammar import (
    compile_grammar,
    grammar_from_json_schema,
    grammar_from_regex,
)
from formwork.compat.llguidance._tokenizer import LLTokenizer

__all__ = ["LLExecutor", "LLMatcher", "LLParserLimits"]

ALLOWED = 200
"""Logit bias of an allowed token."""

LIMITS = {
    "max_items_in_row": 2000,
    "initial_lexer_fuel": 1_000_000,
    "step_lexer_fuel": 200_000,
    "step_max_items": 50_000,
    "max_lexer_states": 250_000,
    "max_grammar_size": 500_000,
    "precompute_large_lexemes": True,
    "verbose_errors": True,
}
"""Names and default values of llguidance's limits."""


class LLParserLimits:
    """The limits of llguidance. They have no effect, because Formwork has limits of its own."""

    def __init__(self, *values: Any, **named: Any) -> None:
        """Takes limits in llguidance's order or by name. A value of None stands for the default."""
        given = {**dict(zip(LIMITS, values)), **named}
        if len(values) > len(LIMITS) or not given.keys() <= LIMITS.keys():
            raise TypeError(f"unknown limits {sorted(given)}; expected {', '.join(LIMITS)}")
        for name, default in LIMITS.items():
            value = given.get(name)
            setattr(self, name, default if value is None else value)


class LLMatcher:
    """Follows one output, token by token, and computes the tokens that may come next.

    Errors of the grammar and tokens that are not allowed raise nothing. They lead to an error state, which
    lasts. `is_error` and `get_error` report the state.
    """

    def __init__(
        self,
        tokenizer: LLTokenizer,
        grammar: str,
        *,
        log_level: int = 1,
        limits: LLParserLimits | None = None,
    ) -> None:
        """Compiles the text of a grammar. `log_level` and `limits` have no effect."""
        if not isinstance(tokenizer, LLTokenizer):
            raise TypeError(f"expected an LLTokenizer, not {type(tokenizer).__name__}")
        if not isinstance(grammar, str):
            raise TypeError(f"the text of a grammar must be str, not {type(grammar).__name__}")
        self._tokenizer = tokenizer
        self._words = words_for(tokenizer.vocab_size)
        self._error = ""
        self._reason = "NotStopped"
        self._matcher: _native.Matcher | None = None
        try:
            self._matcher = tokenizer._constraint(grammar).matcher()
        except _native.FormworkError as error:
            self._fail(str(error))

    @staticmethod
    def validate_grammar(
        grammar: str, tokenizer: LLTokenizer | None = None, *, limits: LLParserLimits | None = None
    ) -> str:
        """Returns the error of a grammar, its warnings after `WARNING: `, or an empty text."""
        is_error, messages = LLMatcher.validate_grammar_with_warnings(grammar, tokenizer)
        if is_error:
            return messages[0]
        return "WARNING: " + "\n".join(messages) if messages else ""

    @staticmethod
    def validate_grammar_with_warnings(
        grammar: str, tokenizer: LLTokenizer | None = None, *, limits: LLParserLimits | None = None
    ) -> tuple[bool, list[str]]:
        """Returns True and the error of a grammar, or False and its warnings."""
        try:
            compiled = compile_grammar(grammar)
            if tokenizer is not None:
                compiled = tokenizer._constraint(grammar).grammar
        except _native.FormworkError as error:
            return True, [str(error)]
        return False, compiled.warnings

    @staticmethod
    def grammar_from_json_schema(
        schema: str | dict[str, Any] | bool,
        defaults: dict[str, Any] | None = None,
        overrides: dict[str, Any] | None = None,
    ) -> str:
        """Returns the text of a grammar for a JSON Schema. The schema is not checked."""
        return grammar_from_json_schema(schema, defaults, overrides)

    @staticmethod
    def grammar_from_lark(lark: str) -> str:
        """Returns the text of a Lark grammar, which is the grammar itself."""
        return lark

    @staticmethod
    def grammar_from_regex(regex: str) -> str:
        """Returns the text of a grammar for a regular expression. The expression is not checked."""
        return grammar_from_regex(regex)

    def is_error(self) -> bool:
        """Reports whether the matcher is in the error state."""
        return bool(self._error)

    def get_error(self) -> str:
        """Returns the error, or an empty text."""
        return self._error

    def get_grammar_warnings(self) -> list[str]:
        """Returns the warnings about the grammar."""
        return [] if self._matcher is None else self._matcher.constraint.grammar.warnings

    def deep_copy(self) -> LLMatcher:
        """Returns a copy at the same position."""
        copy = object.__new__(LLMatcher)
        copy.__dict__.update(self.__dict__)
        copy._matcher = None if self._matcher is None else self._matcher.fork()
        return copy

    def is_accepting(self) -> bool:
        """Reports whether the output may end here."""
        matcher = self._live()
        return matcher is not None and (self._reason != "NotStopped" or matcher.accepting())

    def is_stopped(self) -> bool:
        """Reports whether nothing but a token that ends the text may follow. Also true after an error."""
        return self._reason != "NotStopped"

    def stop_reason(self) -> str:
        """Returns why the matcher stopped, or `NotStopped`.

        `EndOfSentence` follows a token that ends the text. `NoExtension` means that the output must end here.
        """
        return self._reason

    def rollback(self, num_tokens: int) -> bool:
        """Undoes tokens. Returns False after an error, or if there are fewer tokens."""
        matcher = self._live()
        if matcher is None:
            return False
        if not 0 <= num_tokens <= len(matcher):
            return self._fail(f"rollback of {num_tokens} tokens, but only {len(matcher)} were consumed")
        if num_tokens:
            matcher.rollback(num_tokens)
            self._reason = "NotStopped"
        return True

    def reset(self) -> bool:
        """Undoes all tokens. Returns False after an error."""
        matcher = self._live()
        return matcher is not None and self.rollback(len(matcher))

    def compute_ff_tokens(self) -> list[int]:
        """Returns the tokens that every completion starts with."""
        matcher = self._live()
        if matcher is None or self.is_stopped():
            return []
        if self._tokenizer._read is not None:
            return matcher.forced_tokens(self._tokenizer._read)
        forced = matcher.forced_bytes()
        ahead = matcher.fork()
        ends = bool(forced) and ahead.try_commit_bytes(forced) and ahead.complete()
        return self._tokenizer._forced_tokens(forced, ends)

    def compute_ff_bytes(self) -> bytes:
        """Returns the bytes that every completion starts with."""
        matcher = self._live()
        return b"" if matcher is None or self.is_stopped() else matcher.forced_bytes()

    def try_consume_tokens(self, tokens: Sequence[int]) -> int:
        """Consumes tokens up to the first one that is not allowed. Returns the number of consumed tokens."""
        count = 0
        for token in tokens:
            if self.is_stopped() or not self._step(token):
                break
            count += 1
        return count

    def consume_token(self, sampled_token: int) -> bool:
        """Consumes a token. Returns False, and leads to the error state, if the token is not allowed."""
        if self._error:
            return False
        if self.is_stopped():
            if sampled_token in self._tokenizer._ends:
                return True  # an end token after the end changes nothing
            return self._fail(f"token {sampled_token} comes after the end of the output")
        if self._step(sampled_token):
            return True
        if not 0 <= sampled_token < self._tokenizer.vocab_size:
            return self._fail(f"token id {sampled_token} out of range")
        return self._fail(self._rejection(sampled_token))

    def consume_tokens(self, sampled_tokens: Sequence[int]) -> bool:
        """Consumes tokens. Returns False, and leads to the error state, if one is not allowed."""
        return all(self.consume_token(token) for token in sampled_tokens)

    def validate_tokens(self, tokens: Sequence[int]) -> int:
        """Returns how many of the tokens could be consumed."""
        matcher = self._live()
        if matcher is None or self.is_stopped():
            return 0
        ahead = matcher.fork()
        count = 0
        for token in tokens:
            if not 0 <= token < self._tokenizer.vocab_size or not ahead.try_commit(token):
                break
            count += 1
            if token in self._tokenizer._ends:
                break
        return count

    def compute_bitmask(self) -> bytes:
        """Returns the mask as words of 32 bits. After the end or an error, only end tokens are allowed."""
        buffer = ctypes.create_string_buffer(WORD * self._words)
        self._write(ctypes.addressof(buffer))
        return buffer.raw

    def compute_logit_bias(self) -> bytes:
        """Returns one byte for each token: 200 for an allowed token, and 0 for another one."""
        mask = int.from_bytes(self.compute_bitmask(), "little")
        bits = f"{mask:0{32 * self._words}b}"[::-1]
        return bytes(ALLOWED if bit == "1" else 0 for bit in bits[: self._tokenizer.vocab_size])

    def unsafe_compute_mask_ptr(self, trg_pointer: int, trg_byte_size: int) -> None:
        """Writes the mask to memory at an address. The size must be that of `compute_bitmask`."""
        self._check_memory(trg_pointer, trg_byte_size)
        self._write(trg_pointer)

    def unsafe_compute_mask_ptr_with_draft_token(
        self, trg_pointer: int, trg_byte_size: int, draft_tokens: Sequence[int]
    ) -> None:
        """Writes the masks here and after each draft token, one after another in memory.

        The size is that of one mask. Masks after a token that is not allowed are not written.
        """
        self._check_memory(trg_pointer, trg_byte_size)
        ahead = self.deep_copy()
        ahead._write(trg_pointer)
        for index, token in enumerate(draft_tokens, 1):
            if ahead.is_stopped() or not ahead._step(token):
                break
            ahead._write(trg_pointer + index * trg_byte_size)

    def get_capture(self, name: str) -> bytes | None:
        """Returns None, because Formwork records no captures."""
        return None

    def get_captures(self) -> list[tuple[str, bytes]]:
        """Returns an empty list, because Formwork records no captures."""
        return []

    def _live(self) -> _native.Matcher | None:
        """Returns the matcher, or None in the error state."""
        return None if self._error else self._matcher

    def _open(self) -> _native.Matcher | None:
        """Returns the matcher, or None after the end or an error."""
        return None if self.is_stopped() else self._matcher

    def _step(self, token: int) -> bool:
        """Consumes a token if it is allowed."""
        matcher = self._open()
        if matcher is None or not 0 <= token < self._tokenizer.vocab_size or not matcher.try_commit(token):
            return False
        if token in self._tokenizer._ends:
            self._reason = "EndOfSentence"
        elif matcher.complete():
            self._reason = "NoExtension"
        return True

    def _fail(self, message: str) -> bool:
        """Enters the error state. Returns False."""
        self._error = message
        self._reason = "InternalError"
        return False

    def _rejection(self, token: int) -> str:
        shown = self._tokenizer.dbg_tokens([token])
        found = None if self._matcher is None else self._matcher.rejection(token)
        expected = "" if not found else f"; expected {found.get('expected')}"
        return f"token {token} {shown} does not match the grammar{expected}"

    def _write(self, address: int) -> None:
        matcher = self._open()
        if matcher is not None:
            matcher.fill(address, self._words)
            return
        mask = sum(1 << token for token in self._tokenizer._ends)
        ctypes.memmove(address, mask.to_bytes(WORD * self._words, "little"), WORD * self._words)

    def _check_memory(self, pointer: int, size: int) -> None:
        if not pointer:
            raise ValueError("the address of the mask is null")
        if size != WORD * self._words:
            raise ValueError(f"a mask has {WORD * self._words} bytes, not {size}")


class LLExecutor:
    """Computes the masks of several matchers in threads."""

    def __init__(self, num_threads: int | None = None) -> None:
        """Creates an object that uses up to `num_threads` threads, or one for each core."""
        self._threads = num_threads or 0

    def unsafe_compute_mask_ptr(
        self,
        interpreters: Sequence[tuple[LLMatcher, int]],
        trg_pointer: int,
        one_mask_bytes: int,
        trg_batch_size: int,
    ) -> None:
        """Writes the mask of each matcher to the row with the given index."""
        given = [(matcher, index, ()) for matcher, index in interpreters]
        places = _places(given, trg_pointer, one_mask_bytes, trg_batch_size)
        open_ones: list[_native.Matcher] = []
        addresses: list[int] = []
        for (matcher, _, _), address in zip(given, places):
            native = matcher._open()
            if native is None:
                matcher._write(address)
            else:
                open_ones.append(native)
                addresses.append(address)
        if open_ones:
            _native.fill_batch(open_ones, addresses, one_mask_bytes // WORD, None, self._threads)

    def unsafe_compute_mask_ptr_with_draft_token(
        self,
        interpreters: Sequence[tuple[LLMatcher, int, Sequence[int]]],
        trg_pointer: int,
        one_mask_bytes: int,
        trg_batch_size: int,
    ) -> None:
        """Writes the masks of each matcher to its row, and those after its draft tokens to the rows behind."""
        places = _places(interpreters, trg_pointer, one_mask_bytes, trg_batch_size)
        for (matcher, _, draft_tokens), address in zip(interpreters, places):
            matcher.unsafe_compute_mask_ptr_with_draft_token(address, one_mask_bytes, draft_tokens)

    def consume_token_par(self, matchers: Sequence[tuple[LLMatcher, int]]) -> list[bool]:
        """Consumes one token with each matcher. Returns which tokens were allowed."""
        return [matcher.consume_token(token) for matcher, token in matchers]


def _places(
    given: Sequence[tuple[LLMatcher, int, Sequence[int]]], pointer: int, size: int, rows: int
) -> list[int]:
    """Returns the address of each matcher's row, after checking that all rows fit."""
    if not given:
        raise ValueError("no matchers are given")
    for matcher, index, draft_tokens in given:
        matcher._check_memory(pointer, size)
        if not 0 <= index < rows or index + len(draft_tokens) >= rows:
            raise ValueError(
                f"row {index} with {len(draft_tokens)} draft tokens is out of range (number of rows: {rows})"
            )
    return [pointer + index * size for _, index, _ in given]
