"""XGrammar's interface: matchers, batches and draft trees."""

from __future__ import annotations

import pytest
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


def test_follows_json_token_by_token():
    found = xgr.GrammarMatcher(xgr.GrammarCompiler(info()).compile_builtin_json_grammar())
    assert allowed(found, 16) == [7]
    assert not found.accept_token(0) and not found.accept_token(1)
    for token in (7, 14, 9, 5, 4, 11, 10, 8):
        assert found.accept_token(token), token
    assert found.is_completed() and not found.is_terminated()
    assert 1 in allowed(found, 16) and not found.accept_token(10)
    assert found.accept_token(1)
    assert found.is_terminated() and found.is_completed()


def test_rejects_tokens_beyond_the_vocabulary():
    found = matcher('root ::= "a"')
    assert not found.accept_token(16) and not found.accept_token(-1) and not found.accept_token(15)
    assert found.accept_token(2)


def test_nothing_follows_a_stop_token():
    found = matcher('root ::= "a"')
    assert found.accept_token(2) and found.accept_token(1)
    assert not found.accept_token(1) and not found.accept_token(2)
    assert not found.accept_string("a") and not found.accept_string("")
    with pytest.raises(RuntimeError):
        found.fill_next_token_bitmask(xgr.allocate_token_bitmask(1, 16))
    with pytest.raises(RuntimeError):
        found.find_jump_forward_string()
    found.rollback(1)
    assert not found.is_terminated()
    assert allowed(found, 16) == [1]


def test_the_mask_is_that_of_the_accepted_tokens():
    words = ["a", "b", "ab", "abc", "c", "", "</s>", "ba"]
    found = matcher('root ::= "ab" "c"?', words)
    for text in ("", "a", "ab", "abc"):
        found.reset()
        assert found.accept_string(text)
        expected = []
        for token in range(8):
            copy = found.fork()
            if copy.accept_token(token):
                expected.append(token)
        assert allowed(found, 8) == expected


def test_rolls_back_steps():
    found = matcher('root ::= "aaaa"')
    assert found.accept_token(2) and found.accept_string("aa") and found.accept_token(2)
    assert found.is_completed()
    found.rollback(2)
    assert found.find_jump_forward_string() == "aaa"
    assert found.accept_string("aaa")
    found.rollback()
    found.rollback(1)
    assert found.find_jump_forward_string() == "aaaa"
    with pytest.raises(RuntimeError):
        found.rollback(1)


def test_a_text_is_one_step():
    found = matcher('root ::= "\u65e5b"')
    assert found.accept_string(b"\xe6\x97") and found.accept_string(b"\xa5")
    assert not found.accept_string("x")
    assert found.accept_string("b") and found.accept_string("")
    found.rollback(2)
    assert found.find_jump_forward_string() == "b"
    with pytest.raises(RuntimeError):
        found.accept_string(3)


def test_resets():
    found = matcher('root ::= "a"')
    assert found.accept_token(2) and found.accept_token(1) and found.is_terminated()
    found.reset()
    assert not found.is_terminated() and not found.is_completed()
    assert found.accept_token(2)


def test_forks():
    found = matcher('root ::= "a" ("a" | "6")')
    assert found.accept_token(2)
    copy = found.fork()
    assert copy.accept_token(10) and copy.accept_token(1)
    assert copy.is_terminated() and not found.is_terminated()
    assert copy.stop_token_ids == found.stop_token_ids == [1]
    assert found.accept_token(2)


@pytest.mark.parametrize(
    ("source", "before", "forced"),
    [
        ('root ::= "abc" | "abd"', "", "ab"),
        ('root ::= "abc"', "a", "bc"),
        ('root ::= "abc" "d"*', "", "abc"),
        ('root ::= "a"+ "b"', "", "a"),
        ("root ::= [a]{3} [ab]", "", "aaa"),
        ('root ::= "\u00e9x"', "", "\u00e9x"),
        ('root ::= "a" | "b"', "", ""),
        ('root ::= "a"?', "", ""),
    ],
)
def test_jumps_forward(source, before, forced):
    found = testing._get_matcher_from_grammar(source)
    assert found.accept_string(before)
    assert found.find_jump_forward_string() == forced


@pytest.mark.ours
def test_jumps_over_whole_characters_only():
    found = testing._get_matcher_from_grammar('root ::= "\u4e00" | "\u4e01"')
    assert found.find_jump_forward_string() == ""
    found = testing._get_matcher_from_grammar('root ::= "a\u4e00" | "a\u4e01"')
    assert found.find_jump_forward_string() == "a"
    assert found.accept_string(b"a\xe4")
    assert found.find_jump_forward_string() == ""


def test_terminates_without_a_stop_token():
    found = matcher('root ::= "a"+', terminate_without_stop_token=True)
    assert not found.is_terminated()
    assert found.accept_token(2) and found.is_terminated()
    assert allowed(found, 16) == [1, 2]
    assert found.accept_token(2) and not found.accept_token(10)


def test_overrides_stop_tokens():
    compiled = xgr.GrammarCompiler(info()).compile_grammar('root ::= "a"')
    found = xgr.GrammarMatcher(compiled, override_stop_tokens=[0, 10])
    assert found.stop_token_ids == [0, 10]
    assert found.accept_token(2)
    assert allowed(found, 16) == [0, 10]
    assert not found.accept_token(1)
    assert found.accept_token(10) and found.is_terminated()
    assert xgr.GrammarMatcher(compiled, override_stop_tokens=3).stop_token_ids == [3]
    assert xgr.GrammarMatcher(compiled).stop_token_ids == [1]
    with pytest.raises(RuntimeError):
        xgr.GrammarMatcher(compiled, override_stop_tokens=[])
    with pytest.raises(RuntimeError):
        xgr.GrammarMatcher(compiled, override_stop_tokens=[99])


def test_a_limit_of_rollback_is_deprecated():
    compiled = xgr.GrammarCompiler(info()).compile_grammar('root ::= "a"')
    with pytest.warns(DeprecationWarning):
        assert xgr.GrammarMatcher(compiled, max_rollback_tokens=5).max_rollback_tokens == -1


def test_stop_tokens_are_no_text():
    found = matcher('root ::= "</s>" "a"')
    assert 1 not in allowed(found, 16)
    assert not found.accept_token(1)
    assert found.accept_string("</s>a") and found.is_completed()


def test_describes_its_state():
    assert isinstance(matcher('root ::= "a"')._debug_print_internal_state(), str)


def test_temperatures():
    compiled = xgr.GrammarCompiler(info()).compile_grammar('root ::= "a"')
    assert xgr.GrammarMatcher(compiled).temperature is None
    assert xgr.GrammarMatcher(compiled, default_temperature=0.5).temperature == 0.5
    with pytest.raises(RuntimeError):
        xgr.GrammarMatcher(compiled, default_temperature=-1.0)


def test_no_captures():
    found = matcher('root ::= "a"')
    assert found.accept_token(2)
    assert found.get_captures() == []


def test_fills_batches():
    words = ["a", "b", "</s>"]
    batch = xgr.BatchGrammarMatcher(2)
    found = [matcher(f'root ::= "{letter}"', words) for letter in "abab"]
    bitmask = xgr.allocate_token_bitmask(6, 3)
    batch.batch_fill_next_token_bitmask(found, bitmask)
    assert [row(bitmask, 3, index) for index in range(4)] == [[0], [1], [0], [1]]
    assert bitmask[4, 0] == -1
    bitmask.fill_(-1)
    batch.batch_fill_next_token_bitmask(found[:2], bitmask, [5, 1])
    assert row(bitmask, 3, 5) == [0] and row(bitmask, 3, 1) == [1]
    assert bitmask[0, 0] == -1
    for arguments in ((bitmask, [3]), (bitmask, [3, 9]), (bitmask[:1], None)):
        with pytest.raises(RuntimeError):
            batch.batch_fill_next_token_bitmask(found[:2], *arguments)
    with pytest.raises(RuntimeError):
        xgr.BatchGrammarMatcher(0)


def test_follows_batches():
    found = [matcher('root ::= "a" "6"') for _ in range(2)]
    batch = xgr.BatchGrammarMatcher
    assert batch.batch_accept_token(found, [2, 10]) == [True, False]
    assert batch.batch_accept_string(found, ["6", b"a"]) == [True, True]
    batch.batch_rollback(found)
    assert [each.find_jump_forward_string() for each in found] == ["6", "a6"]
    batch.batch_rollback(found, [1, 0])
    assert found[0].find_jump_forward_string() == "a6"
    for call in (
        lambda: batch.batch_accept_token(found, [1]),
        lambda: batch.batch_accept_string(found, ["a"]),
        lambda: batch.batch_rollback(found, [1]),
    ):
        with pytest.raises(RuntimeError):
            call()
    temperatures = torch.zeros(2)
    batch.batch_fill_temperature(found, temperatures)
    assert temperatures.tolist() == [-1, -1]


def tree(*lists):
    return [torch.tensor(each) for each in lists]


def test_fills_draft_trees():
    words = ["a", "b", "</s>", "c"]
    found = matcher('root ::= "a" ("b" | "c") "a"', words)
    bitmask = xgr.allocate_token_bitmask(5, 4)
    # Node 1 is `a`; nodes 2 and 3 are its children `b` and `c`; node 4 is a wrong child of node 3.
    assert found.traverse_draft_tree(*tree([1, 2, -1, 4, -1], [-1, -1, 3, -1, -1], [9, 0, 1, 3, 1]), bitmask)
    assert [row(bitmask, 4, index) for index in range(5)] == [[0], [1, 3], [0], [0], []]
    assert found.find_jump_forward_string() == "a"


def test_draft_trees_end_at_stop_tokens():
    found = matcher('root ::= "a"', ["a", "b", "</s>"])
    bitmask = xgr.allocate_token_bitmask(4, 3)
    assert found.traverse_draft_tree(*tree([1, 2, 3, -1], [-1, -1, -1, -1], [9, 0, 2, 1]), bitmask)
    assert [row(bitmask, 3, index) for index in range(4)] == [[0], [2], [], [0, 1, 2]]
    assert not found.is_terminated()


def test_refuses_malformed_draft_trees():
    found = matcher('root ::= "a"', ["a", "b", "</s>"])
    bitmask = xgr.allocate_token_bitmask(2, 3)
    for lists in (
        ([1], [-1, -1], [0, 0]),
        ([1, -1], [-1, -1], [0]),
        ([5, -1], [-1, -1], [0, 0]),
        ([1, -1], [1, -1], [0, 0]),
        ([0, -1], [-1, -1], [0, 0]),
    ):
        with pytest.raises(RuntimeError):
            found.traverse_draft_tree(*tree(*lists), bitmask)
