"""The fields of chat requests, for type checkers and editors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from formwork._native import Fields

__all__ = ["ChatFields"]


class ChatFields(TypedDict, total=False):
    """Fields of `POST /v1/chat/completions`. The server takes more; send those with `Model.request`."""

    max_tokens: int | None
    """Maximum number of output tokens. The default is the rest of the context."""
    on_budget: Literal["close", "length"]
    """`close` completes a constrained output within its token limit, `length` cuts it off. The default is `close`."""
    temperature: float
    """Temperature, from 0 to 10. The default is 1; 0 takes the likeliest tokens."""
    top_p: float
    top_k: int
    min_p: float
    typical_p: float
    presence_penalty: float
    frequency_penalty: float
    repetition_penalty: float
    dry_multiplier: float
    xtc_probability: float
    xtc_threshold: float
    logit_bias: Mapping[str, float]
    """Values that are added to the logits, by token id."""
    seed: int
    stop: str | Sequence[str]
    """Texts that end the output."""
    n: int
    """Number of answers. The default is 1."""
    tools: Sequence[Mapping[str, Any]]
    """Tools that the model may call, in OpenAI's form."""
    tool_choice: str | Mapping[str, Any]
    parallel_tool_calls: bool
    on_unsupported_schema: Literal["error", "json_object"]
    """Handling of a tool whose schema cannot be enforced. The default is `error`."""
    response_format: Mapping[str, Any]
    """Constraint in OpenAI's form, in place of `schema`."""
    structural_tag: Mapping[str, Any] | str
    """Constraint in XGrammar's form."""
    fields: Fields | Mapping[str, Any] | str
    """Constraint by typed fields: a definition, as a mapping, or as its text in YAML or JSON."""
    undeclared: Literal["omit", "allow"]
    """Whether objects may have members that `properties` does not name. The default is `omit`."""
    schema_in_prompt: bool
    """Whether the prompt describes the constraint. The default is True."""
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
    reasoning_budget: int
    """Maximum number of tokens of the reasoning."""
    enable_thinking: bool
    chat_template_kwargs: Mapping[str, Any]
    """More variables of the chat template."""
    continue_final_message: bool
    """True to continue the last message, which is the assistant's."""
    logprobs: bool
    top_logprobs: int
    decisions: bool | Sequence[str]
    """Choices within the output whose probabilities are reported: all, or those at JSON pointers."""
    mask_view: bool | Mapping[str, int]
    """True, or `{"top": n}`, to report what the constraint did to each token."""
