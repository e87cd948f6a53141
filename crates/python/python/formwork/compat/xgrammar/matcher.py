"""Matchers, which follow one output each, and bitmasks of tokens."""

from __future__ import annotations

import json
import logging
import math
import time
import warnings
from collections.abc import Sequence
from typing import Any, Literal

from formwork import _native
from formwork.compat._memory import Rows, words_for
from formwork.compat.xgrammar.bitmask import (
    allocate_token_bitmask,
    apply_token_bitmask_inplace,
    get_bitmask_shape,
    reset_token_bitmask,
)
from formwork.compat.xgrammar.compiler import CompiledGrammar

__all__ = [
    "BatchGrammarMatcher",
    "GrammarMatcher",
    "allocate_token_bitmask",
    "apply_token_bitmask_inplace",
    "get_bitmask_shape",
    "reset_token_bitmask",
]

logger = logging.getLogger(__name__)


def __getattr__(name: str) -> Any:
    if name == "bitmask_dtype":
        from formwork.compat.xgrammar import bitmask

        return bitmask.bitmask_dtype
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class GrammarMatcher:
    """Follows one output, token by token, and computes the tokens that may come next.

    A stop token is allowed where the output may end. After a stop token, the matcher is terminated.
    """

    def __init__(
        self,
        compiled_grammar: CompiledGrammar,
        *,
        override_stop_tokens: int | Sequence[int] | None = None,
        terminate_without_stop_token: bool = False,
        max_rollback_tokens: int = -1,
        default_temperature: float | None = None,
    ) -> None:
        """Creates a matcher at the start of an output.

        override_stop_tokens: the stop tokens, instead of those of the tokenizer.
        terminate_without_stop_token: True if the matcher is terminated wherever the output may end.
        max_rollback_tokens: deprecated; every step can be undone.
        default_temperature: the value of `temperature`.
        """
        if not isinstance(compiled_grammar, CompiledGrammar):
            raise ValueError(f"expected a CompiledGrammar, not {type(compiled_grammar).__name__}")
        if max_rollback_tokens != -1:
            warnings.warn(
                "max_rollback_tokens is deprecated; every step can be undone",
                DeprecationWarning,
                stacklevel=2,
            )
        if default_temperature is not None and not (
            math.isfinite(default_temperature) and default_temperature >= 0
        ):
            raise RuntimeError(f"default_temperature must be finite and not negative: {default_temperature}")
        info = compiled_grammar.tokenizer_info
        stops = info.stop_token_ids
        if override_stop_tokens is not None:
            given = [override_stop_tokens] if isinstance(override_stop_tokens, int) else override_stop_tokens
            stops = [int(token) for token in given]
            if not stops:
                raise RuntimeError("override_stop_tokens must not be empty")
            for token in stops:
                if not 0 <= token < info.vocab_size:
                    raise RuntimeError(f"stop token {token} is out of range (vocab_size {info.vocab_size})")
        self._compiled = compiled_grammar
        self._stops = stops
        self._stop_set = frozenset(stops)
        self._ends_itself = terminate_without_stop_token
        self._temperature = None if default_temperature is None else float(default_temperature)
        self._size = info.vocab_size
        self._words = words_for(info.vocab_size)
        self._matcher: _native.Matcher = compiled_grammar._constraint(tuple(stops)).matcher()
        self._stopped_at: int | None = None
        """Number of steps after the stop token."""

    def accept_token(self, token_id: int, *, debug_print: bool = False) -> bool:
        """Appends a token. Returns False, and changes nothing, if the token is not allowed.

        No token is allowed after a stop token, and an id beyond the vocabulary is never allowed.
        """
        token = int(token_id)
        if self._stopped_at is not None:
            logger.warning("token %d comes after a stop token, and is rejected", token)
            return False
        if not 0 <= token < self._size:
            logger.warning("token %d is out of range (vocab_size %d), and is rejected", token, self._size)
            return False
        accepted = self._matcher.try_commit(token)
        if accepted and token in self._stop_set:
            self._stopped_at = len(self._matcher)
        if debug_print:
            print(f"token {token} accepted: {accepted}\n{self._debug_print_internal_state()}")
        return accepted

    def accept_string(self, input_str: str | bytes, *, debug_print: bool = False) -> bool:
        """Appends a text as one step. Returns False, and changes nothing, if the text is not allowed."""
        if isinstance(input_str, str):
            text = input_str.encode("utf-8", "surrogatepass")
        elif isinstance(input_str, bytes):
            text = input_str
        else:
            raise RuntimeError(f"a text must be str or bytes, not {type(input_str).__name__}")
        if self._stopped_at is not None:
            logger.warning("a text comes after a stop token, and is rejected")
            return False
        accepted = self._matcher.try_commit_bytes(text)
        if debug_print:
            print(f"text {text!r} accepted: {accepted}\n{self._debug_print_internal_state()}")
        return accepted

    def fill_next_token_bitmask(self, bitmask: Any, index: int = 0, *, debug_print: bool = False) -> bool:
        """Writes the tokens that may come next to row `index` of a bitmask on the CPU.

        Returns False if every token may come next, so the mask has no effect.
        """
        rows = Rows(bitmask, self._words)
        address = rows.address(self._row(rows, index))
        self._check_open()
        forbids = self._fill(address)
        if debug_print:
            print(self._debug_print_internal_state())
        return forbids

    def traverse_draft_tree(
        self,
        retrieve_next_token: Any,
        retrieve_next_sibling: Any,
        draft_tokens: Any,
        token_bitmask: Any,
        time_threshold: float = -1.0,
        temperatures: Any = None,
    ) -> bool:
        """Writes the mask after each node of a tree of draft tokens.

        Node 0 is the position of the matcher. `retrieve_next_token` has the first child of each node, and
        `retrieve_next_sibling` the next sibling, or -1. The row of a node that is not allowed, or that ends
        the output, is zero. The rows of the nodes below such a node are unchanged.

        time_threshold: limit in seconds, if positive. Returns False if it is exceeded.
        temperatures: one number for each node, which becomes the temperature, or -1 if there is none.
        """
        children, siblings, tokens = (
            [int(value) for value in each]
            for each in (retrieve_next_token, retrieve_next_sibling, draft_tokens)
        )
        rows = Rows(token_bitmask, self._words)
        _check_tree(children, siblings, tokens, rows.count)
        if temperatures is not None and len(temperatures) != len(tokens):
            raise RuntimeError(f"{len(tokens)} nodes need as many temperatures, not {len(temperatures)}")
        self._check_open()
        started = time.monotonic()
        known = -1.0 if self._temperature is None else self._temperature
        if temperatures is not None:
            temperatures[:] = -1
        self._fill(rows.address(0))
        if temperatures is not None:
            temperatures[0] = known
        # Each entry is a node that has not been visited, and the number of steps before it.
        start = len(self._matcher)
        pending = [(children[0], start)]
        try:
            while pending:
                node, steps = pending.pop()
                if node == -1:
                    continue
                if 0 < time_threshold < time.monotonic() - started:
                    return False
                pending.append((siblings[node], steps))
                self.rollback(len(self._matcher) - steps)
                token = tokens[node]
                allowed = 0 <= token < self._size and self.accept_token(token)
                if not allowed or self._stopped_at is not None:
                    rows.clear(node)
                    continue
                self._fill(rows.address(node))
                if temperatures is not None:
                    temperatures[node] = known
                pending.append((children[node], steps + 1))
        finally:
            self.rollback(len(self._matcher) - start)
        return True

    def find_jump_forward_string(self) -> str:
        """Returns the text with which every completion starts.

        Bytes of a character that is not complete are omitted. Returns an empty text inside a character.
        """
        self._check_open()
        forced = self._matcher.forced_bytes()
        try:
            return forced.decode("utf-8")
        except UnicodeDecodeError as error:
            return forced[: error.start].decode("utf-8")

    def rollback(self, num_tokens: int = 1) -> None:
        """Undoes steps. A step is a token, or a text of `accept_string`."""
        steps = len(self._matcher)
        if not 0 <= num_tokens <= steps:
            raise RuntimeError(f"cannot undo {num_tokens} steps (number of steps: {steps})")
        self._matcher.rollback(num_tokens)
        if self._stopped_at is not None and len(self._matcher) < self._stopped_at:
            self._stopped_at = None

    def get_captures(self, *, deduplicate: bool = True) -> list[tuple[str, bytes]]:
        """Returns an empty list, because Formwork refuses grammars with captures."""
        return []

    def is_terminated(self) -> bool:
        """Reports whether the output has ended."""
        return self._stopped_at is not None or (self._ends_itself and self._matcher.accepting())

    def is_completed(self) -> bool:
        """Reports whether the output may end here, or has ended."""
        return self._stopped_at is not None or self._matcher.accepting()

    def reset(self) -> None:
        """Undoes all steps."""
        self.rollback(len(self._matcher))

    def fork(self) -> GrammarMatcher:
        """Returns a copy at the same position."""
        copy = object.__new__(GrammarMatcher)
        copy.__dict__.update(self.__dict__)
        copy._matcher = self._matcher.fork()
        return copy

    @property
    def max_rollback_tokens(self) -> int:
        """Always -1, because every step can be undone."""
        return -1

    @property
    def temperature(self) -> float | None:
        """The temperature that was given."""
        return self._temperature

    @property
    def stop_token_ids(self) -> list[int]:
        """The tokens that end the output."""
        return list(self._stops)

    def _debug_print_internal_state(self) -> str:
        """Returns a description of what may come next."""
        if self._stopped_at is not None:
            return f"terminated after {len(self._matcher)} steps"
        return json.dumps({"steps": len(self._matcher), **self._matcher.explain()}, default=str)

    def _fill(self, address: int) -> bool:
        return self._matcher.fill(address, self._words)

    def _check_open(self) -> None:
        if self._stopped_at is not None:
            raise RuntimeError("the matcher is terminated, because it has accepted a stop token")

    @staticmethod
    def _row(rows: Rows, index: int) -> int:
        return int(index) if index >= 0 else rows.count


def _check_tree(children: list[int], siblings: list[int], tokens: list[int], rows: int) -> None:
    """Checks that the lists describe a tree with a row for each node."""
    count = len(tokens)
    if not count:
        raise RuntimeError("the tree of draft tokens has no node")
    if not len(children) == len(siblings) == count == rows:
        raise RuntimeError(
            f"the tree has {count} tokens, {len(children)} children, {len(siblings)} siblings and {rows} rows"
        )
    if siblings[0] != -1:
        raise RuntimeError("node 0 of the tree must not have a sibling")
    links = [link for link in children + siblings if link != -1]
    if not all(0 < link < count for link in links):
        raise RuntimeError(f"a link of the tree is out of range (number of nodes: {count})")
    if len(set(links)) != len(links):
        raise RuntimeError("a node of the tree has two parents")


class BatchGrammarMatcher:
    """Computes the masks of several matchers in threads."""

    def __init__(self, max_threads: int | Literal["auto"] = "auto") -> None:
        """Creates an object that uses up to `max_threads` threads, or one for each core."""
        if max_threads != "auto" and max_threads < 1:
            raise RuntimeError(f"max_threads must be at least 1, not {max_threads}")
        self._threads = 0 if max_threads == "auto" else int(max_threads)

    def batch_fill_next_token_bitmask(
        self,
        matchers: Sequence[GrammarMatcher],
        bitmask: Any,
        indices: Sequence[int] | None = None,
        debug_print: bool = False,
    ) -> None:
        """Writes the mask of each matcher to a row. By default, matcher i has row i."""
        if indices is not None:
            _check_lengths(matchers, indices, "rows")
        if not matchers:
            return
        rows = Rows(bitmask, max(matcher._words for matcher in matchers))
        places = range(len(matchers)) if indices is None else [int(index) for index in indices]
        addresses = [rows.address(place) for place in places]
        if len(set(addresses)) != len(addresses):
            raise RuntimeError("two matchers have the same row")
        for matcher in matchers:
            if matcher._words != rows.words:
                raise RuntimeError("the matchers have vocabularies of different sizes")
            matcher._check_open()
        natives = [matcher._matcher for matcher in matchers]
        _native.fill_batch(natives, addresses, rows.words, None, self._threads)

    @staticmethod
    def batch_fill_temperature(
        matchers: Sequence[GrammarMatcher], temperatures: Any, indices: Sequence[int] | None = None
    ) -> None:
        """Writes the temperature of each matcher, or -1 if there is none."""
        if indices is not None:
            _check_lengths(matchers, indices, "indices")
        places = range(len(matchers)) if indices is None else [int(index) for index in indices]
        for matcher, place in zip(matchers, places):
            if not 0 <= place < len(temperatures):
                raise RuntimeError(f"index {place} is out of range (temperatures: {len(temperatures)})")
            temperatures[place] = -1 if matcher.temperature is None else matcher.temperature

    @staticmethod
    def batch_accept_token(
        matchers: Sequence[GrammarMatcher], tokens: Sequence[int], debug_print: bool = False
    ) -> list[bool]:
        """Appends one token to each matcher. Returns which tokens were allowed."""
        _check_lengths(matchers, tokens, "tokens")
        return [matcher.accept_token(token) for matcher, token in zip(matchers, tokens)]

    @staticmethod
    def batch_accept_string(
        matchers: Sequence[GrammarMatcher], strings: Sequence[str | bytes], debug_print: bool = False
    ) -> list[bool]:
        """Appends one text to each matcher. Returns which texts were allowed."""
        _check_lengths(matchers, strings, "texts")
        return [matcher.accept_string(text) for matcher, text in zip(matchers, strings)]

    @staticmethod
    def batch_rollback(matchers: Sequence[GrammarMatcher], num_tokens: Sequence[int] | int = 1) -> None:
        """Undoes steps of each matcher."""
        counts = [num_tokens] * len(matchers) if isinstance(num_tokens, int) else num_tokens
        _check_lengths(matchers, counts, "counts")
        for matcher, count in zip(matchers, counts):
            matcher.rollback(count)


def _check_lengths(matchers: Sequence[Any], others: Sequence[Any], what: str) -> None:
    if len(matchers) != len(others):
        raise RuntimeError(f"{len(matchers)} matchers need as many {what}, not {len(others)}")
