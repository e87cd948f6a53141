"""Tags in the middle of free text, such as tool calls."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from formwork import _native
from formwork.compat._errors import refuse
from formwork.compat.llguidance._grammar import native_grammar

__all__ = ["StructTag"]

ANY_TEXT = r"(.|\n)*"


class StructTag:
    """A tag that must follow its trigger."""

    def __init__(self, *, trigger: str, begin: str, grammar: str | dict[str, Any], end: str) -> None:
        """Describes a tag.

        trigger: text or special token that announces the tag.
        begin: text at the start of the tag, which starts with the trigger.
        grammar: content of the tag, as a JSON Schema (JSON or a dict) or a Lark grammar.
        end: text at the end of the tag.
        """
        self.trigger = trigger
        self.begin = begin
        self.grammar = grammar
        self.end = end
        self._check()

    def _check(self) -> None:
        if not self.trigger:
            raise AssertionError("a trigger must not be empty")
        if not self.begin.startswith(self.trigger):
            raise AssertionError(f"the beginning {self.begin!r} does not start with {self.trigger!r}")

    @staticmethod
    def to_grammar(
        tags: Sequence[StructTag], *, assume_special: bool = True, text_regex: str = ANY_TEXT
    ) -> str:
        """Returns the text of a grammar for free text with the tags.

        assume_special: True if triggers such as `<tool>` are special tokens. Either all triggers of a grammar
            are special tokens, or none is.
        text_regex: the free text. Only the default is supported.
        """
        if not tags:
            raise AssertionError("a list of tags must not be empty")
        if text_regex != ANY_TEXT:
            refuse(f"the free text {text_regex!r} is not supported; expected {ANY_TEXT!r}")
        for tag in tags:
            tag._check()
        special = [assume_special and tag.trigger[0] == "<" and tag.trigger[-1] == ">" for tag in tags]
        if any(special) and not all(special):
            refuse("triggers that are special tokens, and triggers that are texts, cannot be mixed")
        triggers = list(dict.fromkeys(tag.trigger for tag in tags))
        if all(special):
            form: dict[str, Any] = {"type": "token_triggered_tags", "trigger_tokens": triggers}
            form["tags"] = [tag._after_token() for tag in tags]
        else:
            form = {"type": "triggered_tags", "triggers": triggers}
            form["tags"] = [
                {"type": "tag", "begin": tag.begin, "content": tag._content(), "end": tag.end} for tag in tags
            ]
        return native_grammar("structural_tag", {"type": "structural_tag", "format": form})

    def _after_token(self) -> dict[str, Any]:
        """Returns the tag as a format whose beginning is the trigger's token."""
        rest = self.begin[len(self.trigger) :]
        content = self._content()
        if rest:
            text = {"type": "const_string", "value": rest}
            content = {"type": "sequence", "elements": [text, content]}
        begin = {"type": "token", "token": self.trigger}
        return {"type": "tag", "begin": begin, "content": content, "end": self.end}

    def _content(self) -> dict[str, Any]:
        """Returns the content as a format of a structural tag."""
        if isinstance(self.grammar, dict):
            return {"type": "json_schema", "json_schema": self.grammar}
        if self.grammar.lstrip().startswith("{"):
            return {"type": "json_schema", "json_schema": json.loads(self.grammar)}
        return {"type": "grammar", "grammar": _native.Grammar.lark(self.grammar).to_gbnf()}
