"""Helpers for tests."""

from __future__ import annotations

import json
import time
from typing import Any, NoReturn

from formwork.compat._errors import refuse
from formwork.compat._memory import is_tensor, words_for
from formwork.compat.xgrammar.compiler import GrammarCompiler
from formwork.compat.xgrammar.grammar import Grammar
from formwork.compat.xgrammar.matcher import GrammarMatcher
from formwork.compat.xgrammar.tokenizer_info import TokenizerInfo

__all__ = ["GrammarFunctor", "bitmask_to_bool_mask", "bool_mask_to_bitmask"]


def _is_grammar_accept_string(
    grammar: Grammar | str,
    input_str: str | bytes,
    *,
    debug_print: bool = False,
    print_time: bool = False,
    require_termination: bool = True,
) -> bool:
    """Reports whether a text is an output, or the beginning of one without `require_termination`."""
    matcher = _get_matcher_from_grammar(grammar)
    started = time.monotonic_ns()
    accepted = matcher.accept_string(input_str, debug_print=debug_print)
    if print_time:
        print(f"{input_str!r}: {accepted} in {(time.monotonic_ns() - started) / 1e3} us")
    return accepted and (not require_termination or matcher.is_terminated())


def _get_matcher_from_grammar(grammar: Grammar | str, **kwargs: Any) -> GrammarMatcher:
    """Returns a matcher that takes texts and no tokens."""
    return _get_matcher_from_grammar_and_tokenizer_info(grammar, terminate_without_stop_token=True, **kwargs)


def _get_matcher_from_grammar_and_tokenizer_info(
    grammar: Grammar | str, tokenizer_info: TokenizerInfo | None = None, **kwargs: Any
) -> GrammarMatcher:
    """Returns a matcher for a tokenizer. By default, the vocabulary is empty."""
    info = TokenizerInfo([]) if tokenizer_info is None else tokenizer_info
    compiled = GrammarCompiler(info, cache_enabled=False).compile_grammar(grammar)
    return GrammarMatcher(compiled, **kwargs)


def _json_schema_to_ebnf(schema: Any, *, json_format: str = "json", **kwargs: Any) -> str:
    """Returns the grammar of a schema as a text, which is GBNF if GBNF can express the grammar."""
    if json_format != "json":
        tag = {"type": "json_schema", "json_schema": json.loads(_text(schema)), "style": json_format}
        return str(Grammar.from_structural_tag({"type": "structural_tag", "format": tag}))
    return str(Grammar.from_json_schema(schema, **kwargs))


def _text(schema: Any) -> str:
    from formwork.compat.xgrammar._spec import schema_text

    return schema_text(schema)


def _regex_to_ebnf(regex: str, with_rule_name: bool = True) -> str:
    """Returns a regular expression as GBNF."""
    if not with_rule_name:
        refuse("with_rule_name=False is not supported")
    return str(Grammar.from_regex(regex))


def _ebnf_to_grammar_no_normalization(ebnf_string: str, root_rule_name: str = "root") -> Grammar:
    """Compiles a grammar. Formwork does not rewrite a grammar before."""
    return Grammar.from_ebnf(ebnf_string, root_rule_name=root_rule_name)


def _get_masked_tokens_from_bitmask(bitmask: Any, vocab_size: int, index: int = 0) -> list[int]:
    """Returns the tokens that a row of a bitmask forbids."""
    bits = _row_bits(bitmask, vocab_size, index)
    return [token for token, allowed in enumerate(bits) if not allowed]


def _is_single_token_bitmask(bitmask: Any, vocab_size: int, index: int = 0) -> tuple[bool, int]:
    """Returns True and the token if a row allows only one token, and False and -1 otherwise."""
    allowed = [token for token, bit in enumerate(_row_bits(bitmask, vocab_size, index)) if bit]
    return (True, allowed[0]) if len(allowed) == 1 else (False, -1)


def _row_bits(bitmask: Any, vocab_size: int, index: int) -> list[bool]:
    """Returns True for each allowed token of a row."""
    if is_tensor(bitmask) and bitmask.device.type != "cpu":
        raise ValueError(f"the bitmask must be on the CPU, not on {bitmask.device}")
    if str(bitmask.dtype).removeprefix("torch.") != "int32":
        raise ValueError(f"the bitmask must have the type int32, not {bitmask.dtype}")
    rows = bitmask if bitmask.ndim == 2 else bitmask[None, :]
    if rows.shape[-1] != words_for(vocab_size):
        raise RuntimeError(
            f"the bitmask must have {words_for(vocab_size)} words in a row, not {rows.shape[-1]}"
        )
    if not 0 <= index < rows.shape[0]:
        raise RuntimeError(f"row {index} is out of range (number of rows: {rows.shape[0]})")
    words = rows[index].tolist()
    return [bool(words[token // 32] >> token % 32 & 1) for token in range(vocab_size)]


def bool_mask_to_bitmask(bool_mask: Any) -> Any:
    """Returns the bitmask of a tensor of truth values. Bits beyond the values are 1."""
    import torch

    rows, tokens = bool_mask.shape
    bits = torch.ones((rows, 32 * words_for(tokens)), dtype=torch.int64, device=bool_mask.device)
    bits[:, :tokens] = bool_mask.to(torch.int64)
    weights = 1 << torch.arange(32, dtype=torch.int64, device=bool_mask.device)
    words = (bits.view(rows, -1, 32) * weights).sum(dim=2)
    # Words of 32 bits without a sign become words with a sign.
    return torch.where(words >= 1 << 31, words - (1 << 32), words).to(torch.int32)


def bitmask_to_bool_mask(bit_mask: Any, vocab_size: int | None = None) -> Any:
    """Returns the truth values of a bitmask on the CPU, for the first `vocab_size` tokens."""
    import torch

    if bit_mask.device.type != "cpu":
        raise ValueError(f"the bitmask must be on the CPU, not on {bit_mask.device}")
    if bit_mask.dtype != torch.int32:
        raise ValueError(f"the bitmask must have the type int32, not {bit_mask.dtype}")
    covered = 32 * bit_mask.shape[1]
    size = covered if vocab_size is None else vocab_size
    if size > covered:
        raise ValueError(f"vocab_size ({size}) exceeds the {covered} tokens of the bitmask")
    bits = (bit_mask[:, :, None] >> torch.arange(32, dtype=torch.int32)) & 1
    return bits.bool().flatten(1)[:, :size]


def _traverse_draft_tree(
    retrieve_next_token: Any,
    retrieve_next_sibling: Any,
    draft_tokens: Any,
    matcher: GrammarMatcher,
    allocate_token_bitmask: Any,
    time_threshold: float = -1.0,
) -> bool:
    """Calls `GrammarMatcher.traverse_draft_tree`."""
    return matcher.traverse_draft_tree(
        retrieve_next_token,
        retrieve_next_sibling,
        draft_tokens,
        allocate_token_bitmask,
        time_threshold,
    )


def _internal(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises an error: this helper shows internals of XGrammar that Formwork does not have."""
    raise NotImplementedError("this helper shows internals of XGrammar, which Formwork does not have")


_generate_float_regex = _generate_range_regex = _get_allow_empty_rule_ids = _internal
_is_rule_fsm_accept_string = _print_grammar_fsms = _internal


class GrammarFunctor:
    """XGrammar's rewriting of grammars, which Formwork does not have. Every method raises an error."""

    byte_string_fuser = dead_code_eliminator = fsm_builder = grammar_optimizer = staticmethod(_internal)
    lookahead_assertion_analyzer = repetition_normalizer = staticmethod(_internal)
    rule_inliner = structure_normalizer = staticmethod(_internal)
