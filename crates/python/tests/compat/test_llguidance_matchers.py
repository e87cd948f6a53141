"""llguidance's interface: matchers, masks and interpreters."""

from __future__ import annotations

import json

import pytest
from llguidance_helpers import (
    AB,
    ABC,
    END,
    SIZE,
    TOOL,
    LLMatcher,
    allowed,
    bits,
    ll,
    matcher,
)
from peer import PEER, peer_module

numpy = pytest.importorskip("numpy")
arrays = peer_module("llguidance.numpy")


def test_follows_tokens(tokenizer):
    found = matcher(tokenizer, 'start: "abc" /[0-9]+/')
    assert not found.is_error() and found.get_error() == "" and found.get_grammar_warnings() == []
    assert not found.is_accepting() and not found.is_stopped() and found.stop_reason() == "NotStopped"
    assert found.consume_tokens([ABC, ord("1")])
    assert found.is_accepting() and not found.is_stopped()
    assert allowed(found) == [*range(ord("0"), ord("9") + 1), END]
    assert found.consume_token(END)
    assert found.is_accepting() and found.is_stopped() and found.stop_reason() == "EndOfSentence"
    assert allowed(found) == [END]
    assert found.compute_ff_tokens() == [] and found.compute_ff_bytes() == b""
    assert found.consume_token(END) and not found.is_error()
    assert found.validate_tokens([END]) == 0 and found.try_consume_tokens([END]) == 0


def test_stops_where_nothing_may_follow(tokenizer):
    found = matcher(tokenizer, 'start: "abc"')
    assert found.consume_tokens([97, 98, 99])
    assert found.is_accepting() and found.is_stopped() and found.stop_reason() == "NoExtension"
    assert allowed(found) == [END]
    assert found.consume_token(END) and found.stop_reason() == "NoExtension"
    assert found.rollback(1) and not found.is_stopped()
    assert found.compute_ff_bytes() == b"c"


def test_a_wrong_token_is_an_error_that_lasts(tokenizer):
    found = matcher(tokenizer, 'start: "abc"')
    assert not found.consume_token(ord("x"))
    assert found.is_error() and found.get_error() != ""
    assert found.is_stopped() and found.stop_reason() == "InternalError" and not found.is_accepting()
    assert allowed(found) == [END]
    assert found.compute_ff_tokens() == [] and found.compute_ff_bytes() == b""
    assert found.validate_tokens([97]) == 0 and found.try_consume_tokens([97]) == 0
    assert not found.consume_token(97) and not found.rollback(0) and not found.reset()
    assert found.is_error() and found.deep_copy().is_error()


@pytest.mark.parametrize("tokens", [[999], [97, TOOL], [ABC, 97], [END]])
def test_tokens_that_are_errors(tokenizer, tokens):
    found = matcher(tokenizer, 'start: "abc"')
    assert not found.consume_tokens(tokens)
    assert found.is_error()


def test_a_malformed_grammar_is_an_error(tokenizer):
    found = matcher(tokenizer, "start: missing")
    assert found.is_error() and "missing" in found.get_error()
    assert found.stop_reason() == "InternalError" and found.is_stopped()
    assert allowed(found) == [END] and not found.consume_token(97)
    assert found.get_grammar_warnings() == []
    with pytest.raises(TypeError):
        LLMatcher("no tokenizer", 'start: "a"')


def test_checks_tokens_ahead(tokenizer):
    found = matcher(tokenizer, 'start: "abc" /[0-9]+/')
    assert found.validate_tokens([97, 98, 99, 49, END, 50]) == 5
    assert found.validate_tokens([ABC, 49, END, END]) == 3
    assert found.validate_tokens([98]) == 0 and found.validate_tokens([]) == 0
    assert not found.is_error() and allowed(found) == [97, ABC, AB] or allowed(found) == [97]
    assert found.try_consume_tokens([97, 120]) == 1
    assert found.compute_ff_bytes() == b"bc"
    assert not found.is_error()
    assert matcher(tokenizer, 'start: "a"*').try_consume_tokens([97, END, 97]) == 2
    assert matcher(tokenizer, 'start: "abc"').validate_tokens([ABC, END]) == 2


def test_undoes_tokens(tokenizer):
    found = matcher(tokenizer, 'start: "abc" /[0-9]+/')
    assert found.consume_tokens([97, 98, 99, 49, END])
    assert found.rollback(1)
    assert not found.is_stopped() and found.stop_reason() == "NotStopped" and found.is_accepting()
    assert found.rollback(2) and found.compute_ff_bytes() == b"c"
    assert found.rollback(0)
    assert found.reset() and found.compute_ff_bytes() == b"abc"
    assert not found.rollback(1) and found.is_error()


def test_resets_after_the_end(tokenizer):
    found = matcher(tokenizer, 'start: "abc"')
    assert found.consume_token(ABC) and found.is_stopped()
    assert found.reset() and not found.is_stopped()
    assert found.consume_token(97)


def test_copies(tokenizer):
    found = matcher(tokenizer, 'start: "a" "b"?')
    assert found.consume_token(97)
    copy = found.deep_copy()
    assert copy.consume_token(98) and copy.is_stopped()
    assert not found.is_stopped() and found.consume_token(END)


def test_forced_text(tokenizer):
    assert matcher(tokenizer, 'start: "abd" "e"?').compute_ff_bytes() == b"abd"
    assert matcher(tokenizer, 'start: "xab" ("c" | "d")').compute_ff_tokens() == [ord("x")]
    assert matcher(tokenizer, 'start: "xyz"').compute_ff_tokens() == [ord("x"), ord("y"), ord("z")]
    found = matcher(tokenizer, 'start: "a" | "b"')
    assert found.compute_ff_bytes() == b"" and found.compute_ff_tokens() == []


def test_no_captures(tokenizer):
    found = matcher(tokenizer, 'start: "a"')
    assert found.consume_token(97)
    assert found.get_captures() == [] and found.get_capture("x") is None


def test_masks_of_bytes(tokenizer):
    found = matcher(tokenizer, 'start: "x" | <tool>')
    assert len(found.compute_bitmask()) == 4 * 9
    assert allowed(found) == [ord("x"), TOOL]
    bias = found.compute_logit_bias()
    assert len(bias) == SIZE and set(bias) == {0, 200}
    assert [token for token, value in enumerate(bias) if value] == [ord("x"), TOOL]


def test_masks_at_an_address(tokenizer):
    found = matcher(tokenizer, 'start: "x"')
    mask = numpy.zeros(9, numpy.int32)
    found.unsafe_compute_mask_ptr(mask.ctypes.data, 36)
    assert mask.tobytes() == found.compute_bitmask()
    with pytest.raises(ValueError):
        found.unsafe_compute_mask_ptr(0, 36)
    for size in (16, 40):
        with pytest.raises(ValueError):
            found.unsafe_compute_mask_ptr(mask.ctypes.data, size)


def test_masks_in_arrays(tokenizer):
    assert arrays.get_bitmask_shape(2, SIZE) == (2, 9)
    bitmask = arrays.allocate_token_bitmask(3, SIZE)
    assert bitmask.dtype == numpy.int32 and (bitmask == -1).all()
    arrays.fill_next_token_bitmask(matcher(tokenizer, 'start: "x"'), bitmask, 1)
    assert bits(bitmask)[1] == [ord("x")] and (bitmask[0] == -1).all() and (bitmask[2] == -1).all()
    with pytest.raises(AssertionError):
        arrays.fill_next_token_bitmask(matcher(tokenizer, 'start: "x"'), bitmask.astype(numpy.int64))


def test_masks_of_several_matchers(tokenizer):
    executor = ll.LLExecutor()
    first, second = matcher(tokenizer, 'start: "x"'), matcher(tokenizer, 'start: "y"')
    stopped = matcher(tokenizer, 'start: "z"')
    assert stopped.consume_token(ord("z"))
    bitmask = arrays.allocate_token_bitmask(5, SIZE)
    arrays.fill_next_token_bitmask_par(executor, [(first, 3), (second, 0), (stopped, 1)], bitmask)
    found = bits(bitmask)
    assert [found[0], found[1], found[3]] == [[ord("y")], [END], [ord("x")]]
    assert (bitmask[2] == -1).all() and (bitmask[4] == -1).all()
    for bad in ([(first, 9)], []):
        with pytest.raises(ValueError):
            arrays.fill_next_token_bitmask_par(executor, bad, bitmask)
    assert arrays.consume_token_par(executor, [(first, ord("x")), (second, ord("x"))]) == [True, False]
    assert first.is_stopped() and not first.is_error() and second.is_error()


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [([97, 98, 120, 99], [[97], [98], [99]]), ([97, 98, 99, END], [[97], [98], [99], [END]])],
)
def test_masks_after_draft_tokens(tokenizer, tokens, expected):
    executor = ll.LLExecutor(2)
    found = matcher(tokenizer, 'start: "a" "b" "c"')
    if not PEER:
        expected = [[token for token in row] for row in expected]
        expected[0] = [97, ABC, AB]
    bitmask = arrays.allocate_token_bitmask(5, SIZE)
    arrays.fill_next_token_bitmask_par_with_draft_tokens(executor, [(found, 0, tokens)], bitmask)
    assert bits(bitmask)[: len(expected)] == expected
    assert (bitmask[len(expected) :] == -1).all()
    assert not found.is_stopped() and found.compute_ff_bytes() == b"abc"


def test_applies_masks_to_arrays():
    logits = numpy.zeros((1, 40), dtype=numpy.float32)
    arrays.apply_token_bitmask_inplace(logits, numpy.array([[5]], dtype=numpy.int32))
    assert numpy.nonzero(logits == 0)[1].tolist() == [0, 2]
    flat = numpy.zeros(3, dtype=numpy.float32)
    arrays.apply_token_bitmask_inplace(flat, numpy.array([2], dtype=numpy.int32))
    assert numpy.isinf(flat).tolist() == [True, False, True]
    with pytest.raises(AssertionError):
        arrays.apply_token_bitmask_inplace(logits, numpy.zeros((2, 2), dtype=numpy.int32))


def test_masks_in_tensors(tokenizer):
    torch = pytest.importorskip("torch")
    tensors = peer_module("llguidance.torch")
    bitmask = tensors.allocate_token_bitmask(2, SIZE)
    assert bitmask.dtype == torch.int32 and bitmask.shape == (2, 9) and (bitmask == -1).all()
    tensors.fill_next_token_bitmask(matcher(tokenizer, 'start: "x"'), bitmask, 1)
    assert bits(bitmask.numpy())[1] == [ord("x")]
    found = [(matcher(tokenizer, 'start: "y"'), 0)]
    tensors.fill_next_token_bitmask_par(ll.LLExecutor(), found, bitmask)
    assert bits(bitmask.numpy()) == [[ord("y")], [ord("x")]]
    if PEER:
        return  # compiles a kernel
    logits = torch.zeros((2, 300))
    tensors.apply_token_bitmask_inplace(logits, bitmask)
    assert torch.nonzero(logits == 0).tolist() == [[0, ord("y")], [1, ord("x")]]


def test_interpreters(tokenizer):
    found = ll.LLInterpreter(tokenizer, 'start: "abc" /[0-9]/', log_level=0)
    found.start_without_prompt()
    mask, report = found.compute_mask()
    assert len(mask) == SIZE and mask[97] == 200 and mask[120] == 0
    assert json.loads(report)["stop"] is False
    assert found.commit_token(97) == (0, [97, 98, 99])
    assert found.validate_tokens_raw([49, END]) == 2
    assert not found.has_pending_stop() and not found.is_accepting()
    copy = found.deep_copy()
    assert found.commit_token(49) == (0, [49])
    assert found.has_pending_stop() and found.stop_reason() == "NoExtension"
    mask, report = found.compute_mask()
    assert mask is None and json.loads(report)["stop"] is True
    assert found.commit_token(None) == (0, []) and found.is_accepting()
    assert not copy.has_pending_stop()


def test_interpreters_with_a_prompt(tokenizer):
    found = ll.LLInterpreter(tokenizer, 'start: "abc" /[0-9]/', log_level=0)
    assert found.process_prompt([1, 2]) == [1, 2, 97, 98, 99]
    memory = bytearray(40)
    found.compute_mask_into(memory)
    assert memory[6] == 0xFF and memory[7] == 0x03
    with pytest.raises(ValueError):
        ll.LLInterpreter(tokenizer, "start: missing")
