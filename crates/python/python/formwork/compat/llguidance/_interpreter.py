"""The older interface of llguidance, with masks of one byte for each token."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Sequence

from formwork.compat.llguidance._matcher import LLMatcher, LLParserLimits
from formwork.compat.llguidance._tokenizer import LLTokenizer

__all__ = ["LLInterpreter"]


class LLInterpreter:
    """Follows one output, in steps of a mask and a token. Errors raise `ValueError`."""

    def __init__(
        self,
        tokenizer: LLTokenizer,
        grammar: str,
        enable_backtrack: bool = True,
        enable_ff_tokens: bool = True,
        log_level: int = 1,
        limits: LLParserLimits | None = None,
    ) -> None:
        """Compiles the text of a grammar.

        enable_ff_tokens: True if `commit_token` returns the tokens that the grammar forces next. Nothing is
            ever taken back, so `enable_backtrack` has no effect.
        """
        self._matcher = LLMatcher(tokenizer, grammar, log_level=log_level, limits=limits)
        self._forces = enable_ff_tokens
        self._started = False
        self.log_level = log_level
        self._check()

    def deep_copy(self) -> LLInterpreter:
        """Returns a copy at the same position."""
        copy = object.__new__(LLInterpreter)
        copy.__dict__.update(self.__dict__)
        copy._matcher = self._matcher.deep_copy()
        return copy

    def is_accepting(self) -> bool:
        """Reports whether the output may end here."""
        return self._matcher.is_accepting()

    def stop_reason(self) -> str:
        """Returns why the output ended, or `NotStopped`."""
        return self._matcher.stop_reason()

    def process_prompt(self, prompt: Sequence[int]) -> list[int]:
        """Returns the prompt and the tokens that the grammar forces at the start."""
        self.start_without_prompt()
        return list(prompt) + self._forced()

    def start_without_prompt(self) -> None:
        """Starts an output without a prompt."""
        if self._started:
            raise ValueError("the output has been started before")
        self._started = True

    def validate_tokens_raw(self, tokens: Sequence[int]) -> int:
        """Returns how many of the tokens could be committed."""
        return self._matcher.validate_tokens(tokens)

    def compute_mask(self) -> tuple[bytes | None, str]:
        """Returns one byte for each token, which is 0 or 200, and a report as JSON.

        There is no mask after the end of the output.
        """
        stopped = self.has_pending_stop()
        return None if stopped else self._matcher.compute_logit_bias(), self._report()

    def compute_mask_into(self, trg: bytearray) -> str:
        """Writes the mask with one bit for each token. Returns a report as JSON."""
        mask = self._matcher.compute_bitmask()
        if len(trg) < len(mask):
            raise ValueError(f"a mask has {len(mask)} bytes, and the memory has {len(trg)}")
        trg[: len(mask)] = mask
        return self._report()

    def unsafe_compute_mask_ptr(self, trg_pointer: int, trg_byte_size: int) -> str:
        """Writes the mask with one bit for each token to memory at an address. Returns a report as JSON."""
        mask = self._matcher.compute_bitmask()
        if not trg_pointer or trg_byte_size < len(mask):
            raise ValueError(f"a mask needs an address and {len(mask)} bytes, not {trg_byte_size}")
        ctypes.memmove(trg_pointer, mask, len(mask))
        return self._report()

    def commit_token(self, sampled_token: int | None) -> tuple[int, list[int]]:
        """Appends a token. Returns 0, and the token with the tokens that the grammar forces after it."""
        if self.has_pending_stop():
            return 0, []
        if sampled_token is None:
            raise ValueError("a token is needed, because the mask was not empty")
        self._matcher.consume_token(sampled_token)
        self._check()
        return 0, [sampled_token, *self._forced()]

    def has_pending_stop(self) -> bool:
        """Reports whether the output has ended."""
        return self._matcher.is_stopped()

    def _forced(self) -> list[int]:
        forced = self._matcher.compute_ff_tokens() if self._forces else []
        self._matcher.consume_tokens(forced)
        return forced

    def _check(self) -> None:
        if self._matcher.is_error():
            raise ValueError(self._matcher.get_error())

    def _report(self) -> str:
        return json.dumps({"progress": [], "stop": self.has_pending_stop(), "temperature": 0.0})
