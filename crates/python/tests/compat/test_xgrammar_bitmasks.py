"""XGrammar's interface: bitmasks."""

from __future__ import annotations

import pytest
from peer import PEER, peer_module
from xgrammar_helpers import (
    allowed,
    info,
    matcher,
    row,
    testing,
    xgr,
)

torch = pytest.importorskip("torch")
pydantic = pytest.importorskip("pydantic")
numpy = pytest.importorskip("numpy")
Grammar = xgr.Grammar


def test_the_shape_of_bitmasks():
    assert xgr.get_bitmask_shape(2, 33) == (2, 2)
    assert xgr.bitmask_dtype == torch.int32
    bitmask = xgr.allocate_token_bitmask(2, 33)
    assert bitmask.dtype == torch.int32 and bitmask.shape == (2, 2)
    assert (bitmask == -1).all()
    bitmask[:] = 0
    xgr.reset_token_bitmask(bitmask)
    assert (bitmask == -1).all()


def test_fills_bitmasks_of_several_kinds():
    found = matcher('root ::= "a"')
    expected = [token for token in range(16) if token != 2]
    for bitmask in (
        torch.full((1, 1), -1, dtype=torch.int32),
        torch.full((1,), -1, dtype=torch.int32),
        numpy.full((1, 1), -1, dtype=numpy.int32),
    ):
        assert found.fill_next_token_bitmask(bitmask)
        assert testing._get_masked_tokens_from_bitmask(torch.as_tensor(bitmask), 16) == expected


def test_fills_one_row():
    found = matcher('root ::= "a"')
    bitmask = xgr.allocate_token_bitmask(3, 16)
    found.fill_next_token_bitmask(bitmask, 1)
    assert bitmask[0, 0] == -1 and bitmask[2, 0] == -1
    assert row(bitmask, 16, 1) == [2]


@pytest.mark.ours
def test_fills_a_row_of_a_view():
    found = matcher('root ::= "a"')
    wide = torch.full((3, 2), -1, dtype=torch.int32)
    found.fill_next_token_bitmask(wide[:, :1], 2)
    assert wide[2, 0] == 4 and wide[2, 1] == -1 and wide[1, 0] == -1


@pytest.mark.parametrize(
    ("bitmask", "index"),
    [
        (torch.zeros((1, 2), dtype=torch.int32), 0),
        (torch.zeros((1, 0), dtype=torch.int32), 0),
        (torch.zeros((1, 1), dtype=torch.int64), 0),
        (torch.zeros((1, 1, 1), dtype=torch.int32), 0),
        (torch.zeros((1, 1), dtype=torch.int32), 1),
        (torch.zeros((1, 1), dtype=torch.int32), -1),
        (torch.zeros((1,), dtype=torch.int32), 1),
        (numpy.zeros((1, 2), dtype=numpy.int32), 0),
        (numpy.zeros((1, 1), dtype=numpy.int32), 5),
    ],
)
def test_refuses_other_memory(bitmask, index):
    with pytest.raises(RuntimeError):
        matcher('root ::= "a"').fill_next_token_bitmask(bitmask, index)
    with pytest.raises(TypeError):
        matcher('root ::= "a"').fill_next_token_bitmask([[0]])


def test_reports_a_mask_without_effect():
    words = [bytes([byte]) for byte in range(63)] + ["</s>"]
    found = matcher("root ::= [^x]*", words)
    bitmask = xgr.allocate_token_bitmask(1, 64)
    assert not found.fill_next_token_bitmask(bitmask)
    assert (bitmask == -1).all()
    assert matcher("root ::= [^!]*", words).fill_next_token_bitmask(bitmask)


def test_masks_a_padded_vocabulary():
    given = info(["a", "b", "</s>"], vocab_size=40)
    found = xgr.GrammarMatcher(xgr.GrammarCompiler(given).compile_grammar("root ::= [^x]*"))
    assert allowed(found, 40) == [0, 1, 2]


def test_reads_bitmasks():
    bitmask = torch.tensor([[5], [4], [0]], dtype=torch.int32)
    assert testing._get_masked_tokens_from_bitmask(bitmask, 4, 0) == [1, 3]
    assert testing._is_single_token_bitmask(bitmask, 32, 0) == (False, -1)
    assert testing._is_single_token_bitmask(bitmask, 32, 1) == (True, 2)
    assert testing._is_single_token_bitmask(bitmask, 32, 2) == (False, -1)
    for index, size in ((9, 32), (0, 64)):
        with pytest.raises(RuntimeError):
            testing._get_masked_tokens_from_bitmask(bitmask, size, index)


@pytest.mark.parametrize("tokens", [3, 32, 45, 64])
def test_converts_bitmasks(tokens):
    generator = torch.Generator().manual_seed(tokens)
    chosen = torch.rand((3, tokens), generator=generator) > 0.5
    bitmask = testing.bool_mask_to_bitmask(chosen)
    assert bitmask.dtype == torch.int32 and bitmask.shape == xgr.get_bitmask_shape(3, tokens)
    assert torch.equal(testing.bitmask_to_bool_mask(bitmask, tokens), chosen)


@pytest.mark.parametrize("kind", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("tokens", [5, 64, 100])
def test_applies_bitmasks(kind, tokens):
    generator = torch.Generator().manual_seed(tokens)
    chosen = torch.rand((4, tokens), generator=generator) > 0.5
    logits = torch.randn((4, tokens), generator=generator).to(kind)
    expected = logits.masked_fill(~chosen, float("-inf"))
    xgr.apply_token_bitmask_inplace(logits, testing.bool_mask_to_bitmask(chosen))
    assert torch.equal(logits, expected)


def test_applies_bitmasks_to_some_rows():
    bitmask = torch.tensor([[1], [2], [4]], dtype=torch.int32)
    logits = torch.zeros((3, 3))
    xgr.apply_token_bitmask_inplace(logits, bitmask, indices=[0, 2])
    infinity = float("inf")
    expected = torch.tensor([[0, -infinity, -infinity], [0, 0, 0], [-infinity, -infinity, 0]])
    assert torch.equal(logits, expected)
    more = torch.zeros((5, 3))
    xgr.apply_token_bitmask_inplace(more, bitmask, indices=[1])
    assert more[1].tolist() == [-infinity, 0, -infinity] and (more[0] == 0).all()


def test_applies_bitmasks_of_one_dimension():
    logits = torch.zeros(3)
    xgr.apply_token_bitmask_inplace(logits, torch.tensor([2], dtype=torch.int32))
    assert logits.tolist() == [-float("inf"), 0, -float("inf")]


def test_applies_bitmasks_to_views():
    backing = torch.zeros((2, 10))
    xgr.apply_token_bitmask_inplace(backing[:, :4], torch.zeros((2, 1), dtype=torch.int32))
    assert torch.isinf(backing[:, :4]).all() and (backing[:, 4:] == 0).all()


def test_applies_bitmasks_to_the_vocabulary_only():
    logits = torch.zeros((1, 40))
    bitmask = torch.zeros((1, 2), dtype=torch.int32)
    xgr.apply_token_bitmask_inplace(logits, bitmask, vocab_size=35)
    assert torch.isinf(logits[:, :35]).all() and (logits[:, 35:] == 0).all()
    narrow = torch.zeros((1, 40))
    with pytest.warns(UserWarning):
        xgr.apply_token_bitmask_inplace(narrow, torch.zeros((1, 1), dtype=torch.int32))
    assert torch.isinf(narrow[:, :32]).all() and (narrow[:, 32:] == 0).all()


def test_checks_the_arguments_of_masking():
    bitmask = torch.zeros((2, 1), dtype=torch.int32)
    with pytest.raises(RuntimeError):
        xgr.apply_token_bitmask_inplace(torch.zeros((1, 32)), bitmask)
    with pytest.raises(RuntimeError):
        xgr.apply_token_bitmask_inplace(torch.zeros((1, 32)), bitmask, indices=[1])
    with pytest.raises(RuntimeError):
        xgr.apply_token_bitmask_inplace(torch.zeros((2, 32)), bitmask, vocab_size=33)
    with pytest.raises(ValueError):
        xgr.apply_token_bitmask_inplace(torch.zeros((2, 32)), bitmask.long())
    with pytest.raises(ValueError):
        xgr.apply_token_bitmask_inplace(torch.zeros((2, 32)), bitmask, backend="unknown")


@pytest.mark.ours
def test_applies_bitmasks_to_arrays():
    logits = numpy.zeros((3, 3), dtype=numpy.float32)
    bitmask = numpy.array([[1], [2], [4]], dtype=numpy.int32)
    xgr.apply_token_bitmask_inplace(logits, bitmask, indices=[0, 2])
    assert numpy.isinf(logits).tolist() == [[False, True, True], [False, False, False], [True, True, False]]


@pytest.mark.parametrize("name", ["cpu", "torch", "torch_compile", "triton", "cuda"])
def test_the_names_of_kernels(name):
    if PEER and name not in ("cpu", "torch"):
        pytest.skip("needs a GPU or a compiler")
    module = peer_module(f"xgrammar.kernels.apply_token_bitmask_inplace_{name}")
    logits = torch.zeros((1, 3))
    bitmask = torch.tensor([[2]], dtype=torch.int32)
    getattr(module, f"apply_token_bitmask_inplace_{name}")(logits, bitmask)
    assert logits.tolist() == [[-float("inf"), 0, -float("inf")]]
