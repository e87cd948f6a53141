"""Grammars, before they are bound to a vocabulary."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from formwork import _native
from formwork.compat._errors import refuse
from formwork.compat.xgrammar import _serialized, _spec
from formwork.compat.xgrammar._spec import Spec
from formwork.compat.xgrammar.exception import DeserializeFormatError

if TYPE_CHECKING:
    from formwork.compat.xgrammar.tokenizer_info import TokenizerInfo

__all__ = ["Grammar", "structural_tag_text"]


class Grammar:
    """A grammar of bytes. Use one of the functions `from_…` to create one."""

    def __init__(self, spec: Spec) -> None:
        """Compiles the source of a grammar."""
        self._spec = spec
        self._native: _native.Grammar = spec.compile()

    def __str__(self) -> str:
        """Returns the grammar as GBNF, or its source if GBNF cannot express the grammar."""
        if self._spec.kind == "gbnf":
            return self._spec.text
        try:
            return self._native.to_gbnf()
        except _native.GrammarError:
            return f"# {self._spec.kind}\n{self._spec.text}\n"

    @staticmethod
    def from_ebnf(ebnf_string: str, *, root_rule_name: str = "root") -> Grammar:
        """Compiles a grammar in XGrammar's EBNF. The output must match the rule `root_rule_name`."""
        return Grammar(_spec.of_ebnf(ebnf_string, root_rule_name))

    @staticmethod
    def from_json_schema(
        schema: Any,
        *,
        any_whitespace: bool = True,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        strict_mode: bool = True,
        max_whitespace_cnt: int | None = None,
        print_converted_ebnf: bool = False,
        any_order: bool = False,
    ) -> Grammar:
        """Compiles a JSON Schema: JSON, a dict, or a class of Pydantic.

        any_whitespace: True for any white space that JSON allows. `indent` and `separators` then have no effect.
        indent, separators: as in `json.dumps`. Only indent 2 and the usual separators are supported.
        strict_mode: True if objects have no members, and arrays no items, that the schema does not mention.
        any_order: True if members may have any order. Required members are still required.
        """
        grammar = Grammar(
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
        if print_converted_ebnf:
            print(grammar)
        return grammar

    @staticmethod
    def from_regex(regex_string: str, *, print_converted_ebnf: bool = False) -> Grammar:
        """Compiles a regular expression in the syntax of ECMA-262, which must match the whole output."""
        grammar = Grammar(_spec.of_regex(regex_string))
        if print_converted_ebnf:
            print(grammar)
        return grammar

    @staticmethod
    def from_lark(
        lark_string: str,
        *,
        tokenizer_info: TokenizerInfo | None = None,
        named_grammars: Mapping[str, Any] | None = None,
    ) -> Grammar:
        """Compiles a Lark grammar, whose first rule is `start`.

        tokenizer_info: without effect, because names of tokens are looked up when the grammar is compiled
            for a tokenizer.
        named_grammars: not supported.
        """
        return Grammar(_spec.of_lark(lark_string, named_grammars))

    @staticmethod
    def from_structural_tag(*args: Any, **kwargs: Any) -> Grammar:
        """Compiles a structural tag: a `StructuralTag`, JSON, or a dict.

        The deprecated form takes a list of `StructuralTagItem` and a list of triggers.
        """
        return Grammar(_spec.of_structural_tag(structural_tag_text(args, kwargs)))

    @staticmethod
    def builtin_json_grammar() -> Grammar:
        """Returns the grammar of JSON objects and arrays."""
        return Grammar(_spec.BUILTIN_JSON)

    @staticmethod
    def concat(*grammars: Grammar) -> Grammar:
        """Returns the grammar of outputs of the grammars, one after another."""
        if not grammars:
            return Grammar(Spec("gbnf", 'root ::= ""\n'))
        return Grammar(_spec.combined("sequence", [grammar._spec for grammar in grammars]))

    @staticmethod
    def union(*grammars: Grammar) -> Grammar:
        """Returns the grammar of outputs of any of the grammars."""
        if not grammars:
            refuse("the union of no grammars has no output")
        return Grammar(_spec.combined("or", [grammar._spec for grammar in grammars]))

    def serialize_json(self) -> str:
        """Returns the source of the grammar as JSON."""
        return _serialized.dump(serialized(self._spec))

    @staticmethod
    def deserialize_json(json_string: str) -> Grammar:
        """Compiles the text of `serialize_json`."""
        return Grammar(deserialized(_serialized.load(json_string, "grammar", FIELDS), "grammar"))


FIELDS = ("kind", "text", "options")


def serialized(spec: Spec) -> dict[str, Any]:
    """Returns a spec as fields of JSON."""
    return {"kind": spec.kind, "text": spec.text, "options": dict(spec.options)}


def deserialized(read: dict[str, Any], what: str) -> Spec:
    """Returns the spec with these fields of JSON. `what` names the object in errors."""
    kind, text, options = (read[field] for field in FIELDS)
    if kind not in ("gbnf", "regex", "lark", "schema", "tag") or not isinstance(text, str):
        raise DeserializeFormatError(f"the serialized {what} has an unknown kind or no text")
    names = {name for name, _ in _spec.BUILTIN_JSON.options}
    if not isinstance(options, dict) or not names.issuperset(options):
        raise DeserializeFormatError(f"the serialized {what} has unknown options")
    if not all(isinstance(value, str) for value in options.values()):
        raise DeserializeFormatError(f"the serialized {what} has an option that is no text")
    return Spec(kind, text, tuple(options.items()))


def structural_tag_text(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Returns the structural tag among the arguments of a function as JSON."""
    if len(args) == 1 and not kwargs:
        return _tag_text(args[0], TypeError)
    if not args and set(kwargs) == {"structural_tag"}:
        return _tag_text(kwargs["structural_tag"], ValueError)
    if len(args) == 2 and not kwargs:
        tags, triggers = args
    elif not args and set(kwargs) == {"tags", "triggers"}:
        tags, triggers = kwargs["tags"], kwargs["triggers"]
    else:
        raise TypeError("expected a structural tag, or a list of tags and a list of triggers")
    if not isinstance(tags, list) or not isinstance(triggers, list):
        raise TypeError("expected a list of tags and a list of triggers")
    from formwork.compat.xgrammar.structural_tag import StructuralTag

    return StructuralTag.from_legacy_structural_tag(tags, triggers).model_dump_json()


def _tag_text(tag: Any, raised: type[Exception]) -> str:
    if isinstance(tag, str):
        return tag
    if isinstance(tag, dict):
        return json.dumps(tag)
    if hasattr(tag, "model_dump_json") and hasattr(tag, "format"):
        return str(tag.model_dump_json())
    raise raised(f"a structural tag must be a StructuralTag, JSON or a dict, not {type(tag).__name__}")
