"""Grammars bound to a vocabulary."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from formwork import _native
from formwork.compat._errors import RefusedGrammar, refusals_as
from formwork.compat.xgrammar import _serialized, _spec
from formwork.compat.xgrammar._spec import Spec
from formwork.compat.xgrammar.exception import DeserializeFormatError
from formwork.compat.xgrammar.grammar import (
    FIELDS,
    Grammar,
    deserialized,
    serialized,
    structural_tag_text,
)
from formwork.compat.xgrammar.tokenizer_info import TokenizerInfo

__all__ = ["CompiledGrammar", "GrammarCompiler"]


class CompiledGrammar:
    """A grammar with the tables and caches for a vocabulary, which all its matchers share.

    Use a [`GrammarCompiler`][formwork.compat.xgrammar.GrammarCompiler] to create one.
    """

    def __init__(self, grammar: Grammar, tokenizer_info: TokenizerInfo) -> None:
        """Binds a grammar to the vocabulary of a tokenizer."""
        self._grammar = grammar
        self._tokenizer_info = tokenizer_info
        self._lock = threading.Lock()
        self._constraints: dict[tuple[int, ...], _native.Constraint] = {}
        self._constraint(tuple(tokenizer_info.stop_token_ids))

    def _constraint(self, stops: tuple[int, ...]) -> _native.Constraint:
        """Returns the constraint with these stop tokens."""
        with self._lock:
            known = self._constraints.get(stops)
            if known is None:
                vocabulary = self._tokenizer_info._vocabularies(stops)
                with refusals_as(RefusedGrammar):
                    known = _native.Constraint(self._grammar._native, vocabulary)
                self._constraints[stops] = known
            return known

    @property
    def grammar(self) -> Grammar:
        """The grammar."""
        return self._grammar

    @property
    def tokenizer_info(self) -> TokenizerInfo:
        """The tokenizer."""
        return self._tokenizer_info

    @property
    def memory_size_bytes(self) -> int:
        """Memory of the grammar and its caches, in bytes. The caches grow while matchers run."""
        with self._lock:
            return sum(constraint.byte_len for constraint in self._constraints.values())

    def serialize_json(self) -> str:
        """Returns the source of the grammar and the metadata of the tokenizer as JSON."""
        fields = serialized(self._grammar._spec)
        return _serialized.dump({**fields, "tokenizer_metadata": self._tokenizer_info.dump_metadata()})

    @staticmethod
    def deserialize_json(json_str: str, tokenizer_info: TokenizerInfo) -> CompiledGrammar:
        """Compiles the text of `serialize_json` for the same tokenizer."""
        fields = (*FIELDS, "tokenizer_metadata")
        read = _serialized.load(json_str, "compiled grammar", fields)
        if read["tokenizer_metadata"] != tokenizer_info.dump_metadata():
            raise DeserializeFormatError("the compiled grammar belongs to another tokenizer")
        return CompiledGrammar(Grammar(deserialized(read, "compiled grammar")), tokenizer_info)


class GrammarCompiler:
    """Compiles grammars for one tokenizer, and keeps them for later calls."""

    def __init__(
        self,
        tokenizer_info: TokenizerInfo,
        *,
        max_threads: int = 8,
        cache_enabled: bool = True,
        cache_limit_bytes: int = -1,
    ) -> None:
        """Creates a compiler.

        max_threads: stored only. Formwork compiles a grammar in one thread, and fills its caches on demand.
        cache_limit_bytes: limit of the memory of compiled grammars that are kept, or -1 for no limit.
        """
        if not isinstance(tokenizer_info, TokenizerInfo):
            raise ValueError(f"expected a TokenizerInfo, not {type(tokenizer_info).__name__}")
        if max_threads < 1:
            raise RuntimeError(f"max_threads must be at least 1, not {max_threads}")
        if cache_limit_bytes < -1:
            raise RuntimeError(f"cache_limit_bytes must be -1 or not negative, not {cache_limit_bytes}")
        self._tokenizer_info = tokenizer_info
        self._max_threads = max_threads
        self._cache_enabled = cache_enabled
        self._cache_limit_bytes = cache_limit_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[Spec, CompiledGrammar] = OrderedDict()

    def compile_json_schema(
        self,
        schema: Any,
        *,
        any_whitespace: bool = True,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        strict_mode: bool = True,
        max_whitespace_cnt: int | None = None,
        any_order: bool = False,
    ) -> CompiledGrammar:
        """Compiles a JSON Schema, with the options of `Grammar.from_json_schema`."""
        return self._compile(
            _spec.of_schema(
                schema,
                any_whitespace=any_whitespace,
                indent=indent,
                separators=separators,
                strict_mode=strict_mode,
                max_whitespace_cnt=max_whitespace_cnt,
                any_order=any_order,
            )
        )

    def compile_builtin_json_grammar(self) -> CompiledGrammar:
        """Compiles the grammar of JSON objects and arrays."""
        return self._compile(_spec.BUILTIN_JSON)

    def compile_regex(self, regex: str) -> CompiledGrammar:
        """Compiles a regular expression."""
        return self._compile(_spec.of_regex(regex))

    def compile_lark(
        self, lark_string: str, *, named_grammars: Mapping[str, Any] | None = None
    ) -> CompiledGrammar:
        """Compiles a Lark grammar."""
        return self._compile(_spec.of_lark(lark_string, named_grammars))

    def compile_structural_tag(self, *args: Any, **kwargs: Any) -> CompiledGrammar:
        """Compiles a structural tag, in one of the forms that `Grammar.from_structural_tag` takes."""
        return self._compile(_spec.of_structural_tag(structural_tag_text(args, kwargs)))

    def compile_grammar(self, grammar: str | Grammar, *, root_rule_name: str = "root") -> CompiledGrammar:
        """Compiles a `Grammar`, or the text of one in XGrammar's EBNF."""
        if isinstance(grammar, Grammar):
            return self._compile(grammar._spec, grammar)
        if isinstance(grammar, str):
            return self._compile(_spec.of_ebnf(grammar, root_rule_name))
        raise ValueError(f"a grammar must be a Grammar or a text, not {type(grammar).__name__}")

    def clear_cache(self) -> None:
        """Forgets all compiled grammars."""
        with self._lock:
            self._kept.clear()

    def get_cache_size_bytes(self) -> int:
        """Returns the memory of the compiled grammars that are kept, in bytes."""
        with self._lock:
            return self._size()

    @property
    def cache_limit_bytes(self) -> int:
        """Limit of the memory of compiled grammars that are kept, or -1 for no limit."""
        return self._cache_limit_bytes

    @property
    def cache_enabled(self) -> bool:
        """True if compiled grammars are kept."""
        return self._cache_enabled

    @property
    def max_threads(self) -> int:
        """The number that was given. It has no effect."""
        return self._max_threads

    def _compile(self, spec: Spec, grammar: Grammar | None = None) -> CompiledGrammar:
        with self._lock:
            known = self._kept.get(spec)
            if known is not None:
                self._kept.move_to_end(spec)
                return known
        compiled = CompiledGrammar(grammar or Grammar(spec), self._tokenizer_info)
        if self._cache_enabled:
            with self._lock:
                # Another thread may have been faster.
                compiled = self._kept.setdefault(spec, compiled)
                self._shrink()
        return compiled

    def _size(self) -> int:
        return sum(compiled.memory_size_bytes for compiled in self._kept.values())

    def _shrink(self) -> None:
        """Forgets the grammars that were used longest ago, until the others fit into the limit."""
        if self._cache_limit_bytes < 0:
            return
        sizes = {spec: compiled.memory_size_bytes for spec, compiled in self._kept.items()}
        total = sum(sizes.values())
        for spec, size in sizes.items():
            if total <= self._cache_limit_bytes:
                return
            del self._kept[spec]
            total -= size
