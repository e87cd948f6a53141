"""Constrained generation with Hugging Face transformers.

```python
from transformers import AutoModelForCausalLM, AutoTokenizer
import formwork
from formwork.transformers import LogitsProcessor, tokenizer_of

hf = AutoTokenizer.from_pretrained(path)
model = AutoModelForCausalLM.from_pretrained(path)
tokenizer = tokenizer_of(hf, size=model.config.vocab_size)
grammar = formwork.Grammar.json_schema({"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]})
constraint = formwork.Constraint(grammar, tokenizer.vocabulary)
prompt = hf("Describe a sailor as JSON.", return_tensors="pt")
output = model.generate(**prompt, max_new_tokens=60, logits_processor=[LogitsProcessor(constraint, 60)])
```
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from formwork._native import Constraint, Matcher, NotAllowedError, Tokenizer, Vocabulary, VocabularyError
from formwork.bitmask import allocate_bitmask, apply_bitmask, fill_bitmasks

__all__ = ["LogitsProcessor", "tokenizer_of", "vocabulary_of"]


def tokenizer_of(tokenizer: Any, *, size: int | None = None, ends: Sequence[int] = ()) -> Tokenizer:
    """Creates the tokenizer of a fast tokenizer of transformers, or of a `tokenizers.Tokenizer`.

    `size` is the number of logits of the model, if it is larger than the vocabulary. `ends` are tokens that end
    a sequence, beside the tokenizer's end-of-sequence token.
    """
    backend = _backend(tokenizer)
    if backend is None:
        raise VocabularyError(
            f"{type(tokenizer).__name__} is no fast tokenizer, so its bytes are unknown; use vocabulary_of"
        )
    return Tokenizer.from_json(backend.to_str(), _ends(tokenizer, ends), size)


def vocabulary_of(tokenizer: Any, *, size: int | None = None, ends: Sequence[int] = ()) -> Vocabulary:
    """Creates the vocabulary of a tokenizer of transformers, also of one with a tiktoken file."""
    if _backend(tokenizer) is not None:
        return tokenizer_of(tokenizer, size=size, ends=ends).vocabulary
    ranks = getattr(getattr(tokenizer, "model", None) or getattr(tokenizer, "tokenizer", None), "_mergeable_ranks", None)
    if ranks is None:
        raise VocabularyError(f"the bytes of the tokens of {type(tokenizer).__name__} are unknown")
    special = set(tokenizer.all_special_ids)
    tokens: list[bytes | None] = [None] * max(size or 0, len(tokenizer), max(ranks.values()) + 1)
    for token, rank in ranks.items():
        tokens[rank] = token
    return Vocabulary(tokens, _ends(tokenizer, ends), sorted(special))


def _backend(tokenizer: Any) -> Any:
    """Returns the object whose `to_str` gives the text of a `tokenizer.json`, if there is one."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    return tokenizer if backend is None and hasattr(tokenizer, "to_str") else backend


def _ends(tokenizer: Any, ends: Sequence[int]) -> list[int]:
    own = getattr(tokenizer, "eos_token_id", None)
    return [*([] if own is None else [own]), *ends]


class LogitsProcessor:
    """Forbids every token after which the output could not become one of the grammar.

    A processor serves one call of `generate`, with any number of sequences, sampled or by beams. With
    `max_new_tokens`, the output is complete within that number of tokens.
    """

    def __init__(self, constraint: Constraint, max_new_tokens: int | None = None, *, threads: int = 0) -> None:
        """Creates a processor for one call of `generate`."""
        needed = constraint.minimum_tokens
        if max_new_tokens is not None and (needed is None or max_new_tokens < needed):
            raise ValueError(f"max_new_tokens is {max_new_tokens}, but an output needs {needed} tokens")
        self._constraint = constraint
        self._max_new_tokens = max_new_tokens
        self._threads = threads
        self._prompt_len: int | None = None
        self._matchers: dict[tuple[int, ...], Matcher] = {}
        self._bitmask: Any = None

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Sets the scores of forbidden tokens to negative infinity."""
        import torch

        sequences = input_ids.tolist()
        if self._prompt_len is None:
            self._prompt_len = len(sequences[0])
        self._advance([tuple(sequence[self._prompt_len :]) for sequence in sequences])
        matchers = [self._matchers[tuple(sequence[self._prompt_len :])] for sequence in sequences]
        # Beams may share a matcher, and each needs its own for the batch.
        matchers = [matcher.fork() for matcher in matchers] if len(set(map(id, matchers))) < len(matchers) else matchers
        rows, size = scores.shape
        if self._bitmask is None or self._bitmask.shape[0] != rows:
            size = max(size, len(self._constraint.vocabulary))
            self._bitmask = torch.from_numpy(allocate_bitmask(rows, size))
        within = None if self._max_new_tokens is None else [self._left(matcher) for matcher in matchers]
        fill_bitmasks(matchers, self._bitmask, within=within, threads=self._threads)
        self._allow_ends_of_finished(matchers)
        apply_bitmask(scores, self._bitmask)
        return scores

    def _left(self, matcher: Matcher) -> int:
        assert self._max_new_tokens is not None
        return max(0, self._max_new_tokens - len(matcher))

    def _allow_ends_of_finished(self, matchers: Sequence[Matcher]) -> None:
        """A finished sequence of a batch goes on as padding, which needs an allowed token."""
        ends = self._constraint.vocabulary.ends
        for row, matcher in enumerate(matchers):
            if ends and matcher.tokens and matcher.tokens[-1] in ends:
                self._bitmask[row, ends[0] // 32] = 1 << ends[0] % 32 if ends[0] % 32 < 31 else -(1 << 31)

    def _advance(self, outputs: Sequence[tuple[int, ...]]) -> None:
        """Brings a matcher to the end of each output. A matcher follows the longest known beginning."""
        known = self._matchers
        self._matchers = {}
        for output in outputs:
            if output not in self._matchers:
                self._matchers[output] = self._follow(known, output)

    def _follow(self, known: dict[tuple[int, ...], Matcher], output: tuple[int, ...]) -> Matcher:
        base = output[:-1]
        matcher = known[base].fork() if output and base in known else self._constraint.matcher()
        ends = set(self._constraint.vocabulary.ends)
        for token in output[len(matcher) :]:
            if matcher.tokens and matcher.tokens[-1] in ends:
                break
            if not matcher.try_commit(token):
                raise NotAllowedError(f"token {token} was generated although the mask forbids it")
        return matcher
