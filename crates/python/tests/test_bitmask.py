"""Bitmasks in NumPy arrays and PyTorch tensors."""

from __future__ import annotations

import pytest

import formwork
from formwork import Constraint, Grammar, Vocabulary

numpy = pytest.importorskip("numpy")
END = 256


def allowed_in(row) -> list[int]:
    bits = numpy.unpackbits(numpy.asarray(row).view(numpy.uint8), bitorder="little")
    return numpy.flatnonzero(bits).tolist()


def test_a_mask_has_a_bit_for_each_token(bytes_vocabulary: Vocabulary) -> None:
    matcher = Constraint(Grammar.regex("[a-c]+"), bytes_vocabulary).matcher()
    bitmask = formwork.allocate_bitmask(2, len(bytes_vocabulary))
    assert bitmask.shape == (2, 9)
    assert formwork.fill_bitmask(matcher, bitmask, 1)
    assert allowed_in(bitmask[1]) == matcher.allowed() == [97, 98, 99]
    assert (bitmask[0] == -1).all()
    matcher.commit(97)
    formwork.fill_bitmask(matcher, bitmask, 0, within=0)
    assert allowed_in(bitmask[0]) == [END]


def test_reports_whether_a_token_is_forbidden() -> None:
    vocabulary = Vocabulary([bytes([byte]) for byte in range(34)], [])
    every = "[" + "".join(f"\\x{byte:02x}" for byte in range(34)) + "]"
    bitmask = formwork.allocate_bitmask(1, 100)
    assert not formwork.fill_bitmask(Constraint(Grammar.regex(every), vocabulary).matcher(), bitmask)
    all_but_one = every.replace("\\x21", "")
    assert formwork.fill_bitmask(Constraint(Grammar.regex(all_but_one), vocabulary).matcher(), bitmask)


def test_words_behind_the_vocabulary_are_zero(bytes_vocabulary: Vocabulary) -> None:
    bitmask = formwork.allocate_bitmask(1, 1000)
    formwork.fill_bitmask(Constraint(Grammar.regex("a"), bytes_vocabulary).matcher(), bitmask)
    assert allowed_in(bitmask[0]) == [97]


def test_fills_many_masks_in_threads(bytes_vocabulary: Vocabulary) -> None:
    constraint = Constraint(Grammar.regex("[a-z]{20}"), bytes_vocabulary)
    matchers = [constraint.matcher() for _ in range(64)]
    for number, matcher in enumerate(matchers):
        matcher.commit_bytes(b"a" * (number % 21))
    bitmask = formwork.allocate_bitmask(64, len(bytes_vocabulary))
    formwork.fill_bitmasks(matchers, bitmask, threads=4)
    for number, matcher in enumerate(matchers):
        assert allowed_in(bitmask[number]) == matcher.allowed()
    formwork.fill_bitmasks(matchers[:2], bitmask, rows=[5, 3])
    assert allowed_in(bitmask[5]) == matchers[0].allowed()


def test_refuses_memory_that_is_no_bitmask(bytes_vocabulary: Vocabulary) -> None:
    matcher = Constraint(Grammar.regex("a"), bytes_vocabulary).matcher()
    refused = [
        (numpy.zeros((1, 9), numpy.int64), "type int32"),
        (numpy.zeros((1, 8), numpy.int32), "needs 9 words"),
        (numpy.zeros((9, 9), numpy.int32).T[:, ::2], "contiguous"),
        (numpy.zeros((1, 1, 9), numpy.int32), "one or two dimensions"),
        ([0] * 9, "NumPy array"),
    ]
    for bitmask, reason in refused:
        with pytest.raises(ValueError, match=reason):
            formwork.fill_bitmask(matcher, bitmask)
    bitmask = formwork.allocate_bitmask(1, 257)
    with pytest.raises(IndexError, match="row 1"):
        formwork.fill_bitmask(matcher, bitmask, 1)
    with pytest.raises(ValueError, match="a row occurs twice"):
        formwork.fill_bitmasks([matcher, matcher.fork()], formwork.allocate_bitmask(2, 257), rows=[0, 0])
    with pytest.raises(ValueError, match="a matcher occurs twice"):
        formwork.fill_bitmasks([matcher, matcher], formwork.allocate_bitmask(2, 257))


def test_applies_masks_to_arrays(bytes_vocabulary: Vocabulary) -> None:
    matcher = Constraint(Grammar.regex("[ab]"), bytes_vocabulary).matcher()
    bitmask = formwork.allocate_bitmask(1, 257)
    formwork.fill_bitmask(matcher, bitmask)
    for shape in [(300,), (1, 300), (2, 100)]:
        logits = numpy.zeros(shape, numpy.float32)
        formwork.apply_bitmask(logits, bitmask)
        assert numpy.flatnonzero(numpy.isfinite(logits.reshape(-1)[:100])).tolist() == [97, 98]


def test_applies_masks_to_tensors(bytes_vocabulary: Vocabulary) -> None:
    torch = pytest.importorskip("torch")
    matcher = Constraint(Grammar.regex("[ab]"), bytes_vocabulary).matcher()
    bitmask = torch.full((2, 9), -1, dtype=torch.int32)
    formwork.fill_bitmask(matcher, bitmask, 1)
    logits = torch.zeros(2, 300)
    formwork.apply_bitmask(logits, bitmask)
    assert torch.isfinite(logits[1]).nonzero().flatten().tolist() == [97, 98]
    assert torch.isfinite(logits[0]).sum() == 288
    with pytest.raises(ValueError, match="type int32"):
        formwork.fill_bitmask(matcher, torch.zeros(1, 9))
