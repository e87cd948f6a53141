"""The engines that the measurements compare, each behind the same three methods.

An engine compiles a schema, starts a sequence and reports whether each token is allowed. All engines get the
vocabulary of the same `tokenizer.json`, and options under which any spelling and any white space of a valid
value should be accepted.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
from typing import Any, Protocol

PACKAGES = {"formwork": "formwork", "xgrammar": "xgrammar", "llguidance": "llguidance", "outlines_core": "outlines-core"}
"""Names of the packages on the package index, by the names of the modules."""


class Sequence(Protocol):
    """One output of a grammar, extended token by token."""

    def advance(self, token: int) -> bool:
        """Computes the mask, and appends `token` if the mask allows it."""

    def may_end(self) -> bool:
        """Computes the mask. Returns True if it allows the end-of-sequence token."""


class Engine(Protocol):
    """An engine to measure."""

    def compile(self, schema: Any) -> Any:
        """Compiles a schema and computes the first mask. Raises an exception if the schema is refused."""

    def start(self, grammar: Any) -> Sequence:
        """Starts a sequence with empty caches, as after compilation."""


def installed() -> list[str]:
    """Returns the engines that are installed, this one first."""
    return [name for name in PACKAGES if importlib.util.find_spec(name) is not None]


def version(name: str) -> str:
    """Returns the name and the version of an engine."""
    try:
        return f"{PACKAGES[name]} {importlib.metadata.version(PACKAGES[name])}"
    except importlib.metadata.PackageNotFoundError:
        import formwork

        return f"formwork {formwork.__version__}"


def create(name: str, tokenizer: str, eos: int) -> Engine:
    """Creates an engine for the text of a `tokenizer.json` and an end-of-sequence token."""
    engines = {"formwork": Formwork, "xgrammar": XGrammar, "llguidance": LLGuidance, "outlines_core": OutlinesCore}
    return engines[name](tokenizer, eos)


class Formwork:
    """This engine, with options for validation."""

    def __init__(self, tokenizer: str, eos: int) -> None:
        import formwork

        self._formwork = formwork
        self._vocabulary = formwork.Tokenizer.from_json(tokenizer, [eos]).vocabulary
        self._eos = eos
        self.compile(True)

    def compile(self, schema: Any) -> Any:
        grammar = self._formwork.Grammar.json_schema(
            json.dumps(schema), profile="accept", layout="flexible", order="any", undeclared="allow"
        )
        self._formwork.Constraint(grammar, self._vocabulary).matcher().allows(self._eos)
        return grammar

    def start(self, grammar: Any) -> Sequence:
        matcher = self._formwork.Constraint(grammar, self._vocabulary).matcher()
        return _FormworkSequence(self._formwork, matcher, len(self._vocabulary), self._eos)


class _FormworkSequence:
    def __init__(self, formwork: Any, matcher: Any, size: int, eos: int) -> None:
        self._matcher, self._eos = matcher, eos
        self._bitmask = formwork.allocate_bitmask(1, size)
        self._address, self._words = self._bitmask.ctypes.data, self._bitmask.shape[1]

    def advance(self, token: int) -> bool:
        self._matcher.fill(self._address, self._words)
        return _has(self._bitmask[0], token) and self._matcher.try_commit(token)

    def may_end(self) -> bool:
        self._matcher.fill(self._address, self._words)
        return _has(self._bitmask[0], self._eos)


class XGrammar:
    """XGrammar, with any white space and undeclared members."""

    def __init__(self, tokenizer: str, eos: int) -> None:
        import xgrammar

        vocabulary, kind = _encoded_vocabulary(tokenizer)
        kinds = {"byte_level": xgrammar.VocabType.BYTE_LEVEL, "byte_fallback": xgrammar.VocabType.BYTE_FALLBACK}
        info = xgrammar.TokenizerInfo(
            vocabulary, kinds[kind], vocab_size=len(vocabulary), stop_token_ids=[eos], add_prefix_space=False
        )
        self._xgrammar, self._info, self._eos = xgrammar, info, eos
        self._compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)

    def compile(self, schema: Any) -> Any:
        compiled = self._compiler.compile_json_schema(json.dumps(schema), any_whitespace=True, strict_mode=False)
        self.start(compiled).may_end()
        return compiled

    def start(self, grammar: Any) -> Sequence:
        matcher = self._xgrammar.GrammarMatcher(grammar)
        bitmask = self._xgrammar.allocate_token_bitmask(1, self._info.vocab_size)
        return _XGrammarSequence(matcher, bitmask, self._eos)


class _XGrammarSequence:
    def __init__(self, matcher: Any, bitmask: Any, eos: int) -> None:
        self._matcher, self._bitmask, self._eos = matcher, bitmask, eos
        self._row = bitmask.numpy()[0]

    def advance(self, token: int) -> bool:
        self._matcher.fill_next_token_bitmask(self._bitmask)
        return _has(self._row, token) and self._matcher.accept_token(token)

    def may_end(self) -> bool:
        self._matcher.fill_next_token_bitmask(self._bitmask)
        return _has(self._row, self._eos)


class LLGuidance:
    """llguidance, with its default options for JSON Schema."""

    def __init__(self, tokenizer: str, eos: int) -> None:
        import llguidance
        import llguidance.numpy

        self._llguidance = llguidance
        self._tokenizer = llguidance.LLTokenizer(tokenizer, eos_token=eos)
        self._eos = eos

    def compile(self, schema: Any) -> Any:
        grammar = self._llguidance.LLMatcher.grammar_from_json_schema(json.dumps(schema))
        matcher = self._llguidance.LLMatcher(self._tokenizer, grammar)
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        self.start(matcher).may_end()
        return matcher

    def start(self, grammar: Any) -> Sequence:
        bitmask = self._llguidance.numpy.allocate_token_bitmask(1, self._tokenizer.vocab_size)
        return _LLGuidanceSequence(self._llguidance, grammar.deep_copy(), bitmask, self._eos)


class _LLGuidanceSequence:
    def __init__(self, llguidance: Any, matcher: Any, bitmask: Any, eos: int) -> None:
        self._fill = llguidance.numpy.fill_next_token_bitmask
        self._matcher, self._bitmask, self._eos = matcher, bitmask, eos

    def advance(self, token: int) -> bool:
        self._mask()
        return _has(self._bitmask[0], token) and self._matcher.consume_token(token)

    def may_end(self) -> bool:
        self._mask()
        return _has(self._bitmask[0], self._eos)

    def _mask(self) -> None:
        self._fill(self._matcher, self._bitmask)
        if self._matcher.is_error():
            raise ValueError(self._matcher.get_error())


class OutlinesCore:
    """outlines-core: the regular expression of a schema, and an index of its states."""

    def __init__(self, tokenizer: str, eos: int) -> None:
        import outlines_core
        from outlines_core import json_schema

        tokens: dict[bytes, list[int]] = {}
        for token, text in enumerate(_token_bytes(tokenizer)):
            if text and token != eos:
                tokens.setdefault(text, []).append(token)
        self._core, self._regex = outlines_core, json_schema.build_regex_from_schema
        self._vocabulary = outlines_core.Vocabulary(eos, tokens)
        self._eos = eos

    def compile(self, schema: Any) -> Any:
        index = self._core.Index(self._regex(json.dumps(schema), r"[ \n\t]*"), self._vocabulary)
        self.start(index).may_end()
        return index

    def start(self, grammar: Any) -> Sequence:
        return _OutlinesSequence(self._core.Guide(grammar), self._eos)


class _OutlinesSequence:
    def __init__(self, guide: Any, eos: int) -> None:
        self._guide, self._eos = guide, eos

    def advance(self, token: int) -> bool:
        if self._guide.is_finished() or token not in self._guide.get_tokens():
            return False
        self._guide.advance(token)
        return True

    def may_end(self) -> bool:
        return self._guide.is_finished() or self._eos in self._guide.get_tokens()


def _has(row: Any, token: int) -> bool:
    return bool(int(row[token >> 5]) >> (token & 31) & 1)


def _encoded_vocabulary(tokenizer: str) -> tuple[list[str], str]:
    """Returns the spellings of all tokens by id, and the kind of spelling."""
    description = json.loads(tokenizer)
    model = description["model"]["vocab"]
    spelled = dict(model) if isinstance(model, dict) else {piece: at for at, (piece, _) in enumerate(model)}
    spelled.update({added["content"]: added["id"] for added in description.get("added_tokens", [])})
    vocabulary = [""] * (max(spelled.values()) + 1)
    for text, token in spelled.items():
        vocabulary[token] = text
    kind = "byte_level" if "ByteLevel" in json.dumps(description.get("decoder")) else "byte_fallback"
    return vocabulary, kind


def _token_bytes(tokenizer: str) -> list[bytes]:
    """Returns the bytes of all tokens that stand for text, as this engine reads them."""
    import formwork

    vocabulary = formwork.Tokenizer.from_json(tokenizer).vocabulary
    return [b"" if vocabulary.is_special(token) else vocabulary.token(token) for token in range(len(vocabulary))]
