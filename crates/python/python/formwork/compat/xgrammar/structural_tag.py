"""Structural tags as classes of Pydantic, with XGrammar's names and fields.

A format describes a part of the output. [`StructuralTag`][formwork.compat.xgrammar.structural_tag.StructuralTag]
has the format of the whole output. Strings and dicts in the same form need no Pydantic.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, Union

from pydantic import BaseModel, Field

__all__ = [
    "AnyTextFormat",
    "AnyTokensFormat",
    "ConstStringFormat",
    "DispatchFormat",
    "ExcludeTokenFormat",
    "Format",
    "GrammarFormat",
    "JSONSchemaFormat",
    "OptionalFormat",
    "OrFormat",
    "PlusFormat",
    "QwenXMLParameterFormat",
    "RegexFormat",
    "RepeatFormat",
    "SequenceFormat",
    "StarFormat",
    "StructuralTag",
    "StructuralTagItem",
    "TagFormat",
    "TagsWithSeparatorFormat",
    "TokenDispatchFormat",
    "TokenFormat",
    "TokenTriggeredTagsFormat",
    "TriggeredTagsFormat",
]

Count = Annotated[int | None, Field(ge=0, le=2**31 - 1)]
"""A maximum number, or None for no limit."""

TokenName = Union[int, str]
"""The id or the text of a token."""


class ConstStringFormat(BaseModel):
    """Exactly this text."""

    type: Literal["const_string"] = "const_string"
    value: str


class JSONSchemaFormat(BaseModel):
    """A value of a JSON Schema, as JSON or in the notation of a model's tool calls."""

    type: Literal["json_schema"] = "json_schema"
    json_schema: bool | dict[str, Any]
    style: Literal[
        "json",
        "qwen_xml",
        "minimax_xml",
        "minimax_m3_xml",
        "deepseek_xml",
        "glm_xml",
        "cohere_xml",
        "kimi_k3_xml",
        "deepseek_v4_1_xml",
    ] = "json"
    any_order: bool = False
    max_whitespace_cnt: int | None = None
    excludes: list[str] = []


class AnyTextFormat(BaseModel):
    """Any text without the excluded texts."""

    type: Literal["any_text"] = "any_text"
    excludes: list[str] = []
    max_tokens: Count = None
    max_chars: Count = None


class TokenFormat(BaseModel):
    """One token."""

    type: Literal["token"] = "token"
    token: TokenName


class ExcludeTokenFormat(BaseModel):
    """One token that is not among the excluded ones."""

    type: Literal["exclude_token"] = "exclude_token"
    exclude_tokens: list[TokenName] = []


class AnyTokensFormat(BaseModel):
    """Any number of tokens that are not among the excluded ones."""

    type: Literal["any_tokens"] = "any_tokens"
    exclude_tokens: list[TokenName] = []
    max_tokens: Count = None


class GrammarFormat(BaseModel):
    """A text of a grammar in XGrammar's EBNF."""

    type: Literal["grammar"] = "grammar"
    grammar: str


class RegexFormat(BaseModel):
    """A text that a regular expression matches as a whole."""

    type: Literal["regex"] = "regex"
    pattern: str


class SequenceFormat(BaseModel):
    """The elements one after another."""

    type: Literal["sequence"] = "sequence"
    elements: list[Format]


class OrFormat(BaseModel):
    """One of the elements."""

    type: Literal["or"] = "or"
    elements: list[Format]


class TagFormat(BaseModel):
    """Content between a beginning and an end. `end` may be a list of possible ends."""

    type: Literal["tag"] = "tag"
    begin: str | TokenFormat
    content: Format
    end: str | list[str] | TokenFormat


class TriggeredTagsFormat(BaseModel):
    """Free text in which a tag must follow each trigger."""

    type: Literal["triggered_tags"] = "triggered_tags"
    triggers: list[str]
    tags: list[TagFormat]
    at_least_one: bool = False
    stop_after_first: bool = False
    excludes: list[str] = []


class TokenTriggeredTagsFormat(BaseModel):
    """Free tokens in which a tag must follow each trigger token."""

    type: Literal["token_triggered_tags"] = "token_triggered_tags"
    trigger_tokens: list[TokenName]
    tags: list[TagFormat]
    exclude_tokens: list[TokenName] = []
    at_least_one: bool = False
    stop_after_first: bool = False


class TagsWithSeparatorFormat(BaseModel):
    """Tags with a text between them, and no other text."""

    type: Literal["tags_with_separator"] = "tags_with_separator"
    tags: list[TagFormat]
    separator: str
    at_least_one: bool = False
    stop_after_first: bool = False


class OptionalFormat(BaseModel):
    """The content or nothing."""

    type: Literal["optional"] = "optional"
    content: Format


class PlusFormat(BaseModel):
    """The content once or more often."""

    type: Literal["plus"] = "plus"
    content: Format


class StarFormat(BaseModel):
    """The content any number of times."""

    type: Literal["star"] = "star"
    content: Format


class RepeatFormat(BaseModel):
    """The content `min` to `max` times. A `max` of -1 is unlimited."""

    type: Literal["repeat"] = "repeat"
    min: int
    max: int
    content: Format


class DispatchFormat(BaseModel):
    """Free text in which a format must follow each pattern. `loop` is True if free text may follow again."""

    type: Literal["dispatch"] = "dispatch"
    rules: list[tuple[str, Format]]
    loop: bool = True
    excludes: list[str] = []


class TokenDispatchFormat(BaseModel):
    """Free tokens in which a format must follow each of some tokens."""

    type: Literal["token_dispatch"] = "token_dispatch"
    rules: list[tuple[TokenName, Format]]
    loop: bool = True
    exclude_tokens: list[TokenName] = []


class QwenXMLParameterFormat(BaseModel):
    """Deprecated form of `JSONSchemaFormat` with the style `qwen_xml`."""

    type: Literal["qwen_xml_parameter"] = "qwen_xml_parameter"
    json_schema: bool | dict[str, Any]


Format = Annotated[
    AnyTextFormat
    | AnyTokensFormat
    | ConstStringFormat
    | DispatchFormat
    | ExcludeTokenFormat
    | GrammarFormat
    | JSONSchemaFormat
    | OptionalFormat
    | OrFormat
    | PlusFormat
    | QwenXMLParameterFormat
    | RegexFormat
    | RepeatFormat
    | SequenceFormat
    | StarFormat
    | TagFormat
    | TagsWithSeparatorFormat
    | TokenDispatchFormat
    | TokenFormat
    | TokenTriggeredTagsFormat
    | TriggeredTagsFormat,
    Field(discriminator="type"),
]
"""Any format, by its field `type`."""

for _format in (
    DispatchFormat,
    OptionalFormat,
    OrFormat,
    PlusFormat,
    RepeatFormat,
    SequenceFormat,
    StarFormat,
    TagFormat,
    TagsWithSeparatorFormat,
    TokenDispatchFormat,
    TokenTriggeredTagsFormat,
    TriggeredTagsFormat,
):
    _format.model_rebuild()


class StructuralTagItem(BaseModel):
    """Deprecated form of a tag whose content is JSON. The schema is JSON, a dict, or a class of Pydantic."""

    begin: str
    schema_: str | type[BaseModel] | dict[str, Any] = Field(alias="schema")
    end: str


class StructuralTag(BaseModel):
    """The format of a whole output, as in the field `response_format` of a request."""

    type: Literal["structural_tag"] = "structural_tag"
    format: Format

    @staticmethod
    def from_legacy_structural_tag(tags: list[StructuralTagItem], triggers: list[str]) -> StructuralTag:
        """Creates the tag for free text in which one of `tags` must follow each trigger."""
        formats = [
            TagFormat(
                begin=tag.begin,
                content=JSONSchemaFormat(json_schema=_schema(tag.schema_)),
                end=tag.end,
            )
            for tag in tags
        ]
        return StructuralTag(format=TriggeredTagsFormat(triggers=triggers, tags=formats))

    @staticmethod
    def from_json(json_str: str | dict[str, Any]) -> StructuralTag:
        """Reads JSON or a dict."""
        if isinstance(json_str, str):
            return StructuralTag.model_validate_json(json_str)
        if isinstance(json_str, dict):
            return StructuralTag.model_validate(json_str)
        raise ValueError(f"a structural tag must be JSON or a dict, not {type(json_str).__name__}")


def _schema(schema: Any) -> Any:
    if isinstance(schema, str):
        return json.loads(schema)
    return (
        schema.model_json_schema() if isinstance(schema, type) and issubclass(schema, BaseModel) else schema
    )
