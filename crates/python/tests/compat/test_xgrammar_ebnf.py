"""XGrammar's interface: its EBNF notation."""

from __future__ import annotations

import pytest
from xgrammar_helpers import (
    accepts,
    allowed,
    info,
    matcher,
    xgr,
)

torch = pytest.importorskip("torch")
pydantic = pytest.importorskip("pydantic")
numpy = pytest.importorskip("numpy")
Grammar = xgr.Grammar


@pytest.mark.parametrize(
    ("body", "good", "bad"),
    [
        ('"a"', ["a"], ["", "b", "aa"]),
        ('"a" "b"', ["ab"], ["a"]),
        ('"a"\n "b"\n', ["ab"], ["a"]),
        ('"a" | "b"', ["a", "b"], ["ab"]),
        ('"a"\n | "b"', ["a", "b"], ["ab"]),
        ('("a" | "b") "c"', ["ac", "bc"], ["a", "c"]),
        ('""', [""], ["a"]),
        ("()", [""], ["a"]),
        ('"a"*', ["", "a", "aaa"], ["b"]),
        ('"a"+', ["a", "aaa"], [""]),
        ('"a"?', ["", "a"], ["aa"]),
        ('"a" * "b"', ["b", "aab"], ["a"]),
        ('("a" "b")*', ["", "abab"], ["aba"]),
        ('"a"{2}', ["aa"], ["a", "aaa"]),
        ('"a"{2,}', ["aa", "aaaa"], ["a"]),
        ('"a"{2,-1}', ["aa", "aaaa"], ["a"]),
        ('"a"{1,2}', ["a", "aa"], ["", "aaa"]),
        ('"a" { 1 , 2 }', ["a", "aa"], ["", "aaa"]),
        ('"a"{0}', [""], ["a"]),
        ("[a-c]", ["a", "c"], ["d", ""]),
        ("[^a-c]", ["d", "\n", "\u65e5"], ["a"]),
        ("[a-]", ["a", "-"], ["b"]),
        ("[-a]", ["a", "-"], ["b"]),
        ("[a\\-z]", ["a", "-", "z"], ["b"]),
        ("[a\\]z]", ["]", "z"], ["b"]),
        ("[[]", ["["], ["]"]),
        ("[a^]", ["a", "^"], ["b"]),
        ("[^^]", ["a"], ["^"]),
        ("[^]", ["a", "\n", "\u65e5"], [""]),
        ('[] | "a"', ["a"], ["", "b"]),
        ("[\\x41-\\x43]", ["A", "C"], ["D"]),
        ("[\\u4e00-\\u9fff]", ["\u4e00"], ["a"]),
        ("[\\U0001F600]", ["\U0001f600"], ["a"]),
        ("[\u4e00-\u9fa5]+", ["\u4e00\u4e01"], ["a"]),
        ("[\\n\\t]", ["\n", "\t"], ["n"]),
        ('"\\x41\\u0042\\U00000043\\n\\t\\r\\\\\\"\\\'"', ["ABC\n\t\r\\\"'"], ["ABC"]),
        ('"\\a\\b\\f\\v\\0\\e\\?\\/"', ["\a\b\f\v\0\x1b?/"], [""]),
        ('"\\xff"', ["\u00ff"], ["y"]),
        ('"\\x414"', ["\u0414"], ["A4"]),
        ('"\u00e9\u65e5"', ["\u00e9\u65e5"], ["\u00e9"]),
        ('my.rule\nmy.rule ::= "a"', ["a"], ["b"]),
        ('my-rule_2\nmy-rule_2 ::= "a"', ["a"], ["b"]),
        ('a.b a-b\na.b ::= "1"\na-b ::= "2"', ["12"], ["11", "21"]),
        ('"a" # a comment\n# another\nb ::= "c"', ["a"], ["c"]),
        ('"a" (="b")', ["a"], ["ab"]),
        ('a "c"\na ::= "b" (="d")', ["bc"], ["bd"]),
        ('root "a" | "b"', ["b", "baa"], ["a"]),
        ('"(" root ")" | "x"', ["x", "((x))"], ["(x"]),
        ('[0-9]+ ("." [0-9]+)? ([eE] [+-]? [0-9]+)?', ["1", "1.5e-3"], [".5", "1."]),
    ],
)
def test_ebnf(body, good, bad):
    grammar = Grammar.from_ebnf(f"root ::= {body}")
    for text in good:
        assert accepts(grammar, text), text
    for text in bad:
        assert not accepts(grammar, text), text


@pytest.mark.parametrize(
    "source",
    [
        "",
        "root",
        "root ::=",
        'root = "a"',
        'root ::= "a" |',
        'root ::= | "a"',
        'root ::= ("a"',
        'root ::= "a")',
        'root ::= "abc',
        'root ::= "a\nb"',
        "root ::= [ab",
        "root ::= [a\nb]",
        "root ::= [z-a]",
        "root ::= [\\d]",
        'root ::= "\\q"',
        'root ::= "\\u12"',
        "root ::= 'a'",
        'root ::= "a" ; ',
        "root ::= * ",
        'root ::= "a"**',
        'root ::= "a"{,3}',
        'root ::= "a"{3,2}',
        'root ::= "a"{-1}',
        "root ::= missing",
        'other ::= "a"',
        'root ::= "a"\nroot ::= "b"',
        'root ::= "a" b ::= "c"',
        'root ::= ("a" (="b")) "b"',
        'root ::= TagDispatch(("a", missing))',
        'root ::= TagDispatch(("", r))\nr ::= "a"',
        'root ::= TagDispatch(("a", r), stop_eos=true)\nr ::= "a"',
        "root ::= Token(-1)",
        'root ::= Token("a")',
        "root ::= ExcludeToken()",
        "root ::= Unknown(1)",
    ],
)
def test_refuses_malformed_ebnf(source):
    with pytest.raises(RuntimeError):
        Grammar.from_ebnf(source)


@pytest.mark.ours
def test_an_error_in_ebnf_has_its_place():
    from formwork import GrammarError

    with pytest.raises(RuntimeError, match="rule `missing` is not defined at line 2, column 11") as raised:
        Grammar.from_ebnf('root ::= a\na ::= "b" missing')
    assert isinstance(raised.value, GrammarError)
    assert (raised.value.line, raised.value.column) == (2, 11)


@pytest.mark.ours
@pytest.mark.parametrize(
    "source",
    [
        "root ::= " + "(" * 5000,
        "root ::= " + "(" * 1000 + '"a"' + ")" * 1000,
        "root ::= TagDispatch(" + "(" * 5000,
        "root ::= " + '"a" ' * 100_000,
        'root ::= "a"{2000000000}',
        'root ::= TagDispatch(("' + "a" * 5000 + '", r))\nr ::= "a"',
    ],
)
def test_refuses_grammars_that_are_too_large(source):
    with pytest.raises(RuntimeError):
        Grammar.from_ebnf(source)


@pytest.mark.ours
def test_refuses_characters_that_utf8_cannot_encode():
    with pytest.raises(RuntimeError, match="surrogate"):
        Grammar.from_ebnf('root ::= "\\ud83d"')
    assert not accepts(Grammar.from_ebnf("root ::= [\\uD000-\\uE000]"), "a")
    assert accepts(Grammar.from_ebnf("root ::= [^\\uD800-\\uDFFF]"), "a")


def test_another_rule_may_be_the_root():
    source = 'root ::= "a" main\nmain ::= "b" | "(" root ")"'
    grammar = Grammar.from_ebnf(source, root_rule_name="main")
    assert accepts(grammar, "b") and accepts(grammar, "(ab)")
    assert not accepts(grammar, "ab")
    compiler = xgr.GrammarCompiler(info())
    found = xgr.GrammarMatcher(compiler.compile_grammar(source, root_rule_name="main"))
    assert found.accept_string("(ab)")
    with pytest.raises(RuntimeError):
        Grammar.from_ebnf(source, root_rule_name="other")


LOOPING = 'root ::= TagDispatch(("<a>", r), ("<b>", s))\nr ::= "1"\ns ::= "2"+ "."'


@pytest.mark.parametrize(
    ("source", "good", "bad"),
    [
        (
            LOOPING,
            ["", "xyz", "<a>1", "<a>1<b>22.", "x<a>1y<b>2.z", "<a", "<<a>1", "<a>1<a>1"],
            ["<a>2", "<a>", "<b>22", "<a>x"],
        ),
        (
            'root ::= TagDispatch(("<a>", r), loop_after_dispatch=false)\nr ::= "1"',
            ["", "xyz", "<a>1", "x<a>1"],
            ["<a>1x", "<a>1<a>1"],
        ),
        (
            'root ::= TagDispatch(("<a>", r), excludes=("<x>", "zz"))\nr ::= "1" | "<x>"',
            ["", "<x", "z", "<a><x>", "z<a>1z"],
            ["<x>", "azza", "<a>1<x>", "zz"],
        ),
        (
            'root ::= "s" TagDispatch(("<a>", r), excludes=("<x>")) "<x>" "e"\nr ::= "1"',
            ["s<x>e", "sab<x>e", "s<a>1b<x>e"],
            ["sa<x>", "s<x>e<x>e"],
        ),
        (
            'root ::= TagDispatch(("aab", r), ("b", s))\nr ::= "1"\ns ::= "2"',
            ["aab1", "b2", "aaab1", "aa", "xb2"],
            ["aab2"],
        ),
        (
            'root ::= TagDispatch(("ab", r), ("abc", s))\nr ::= "1"\ns ::= "2"',
            ["ab1"],
            ["ab", "abc"],
        ),
        ('root ::= "x" Regex("[a-z]+") "1"', ["xabc1"], ["x1", "xA1"]),
        ('root ::= Regex("a|b") Regex("c|d")', ["ac", "bd"], ["ab", "a"]),
        ('root ::= Substring("ab", "cd", "ef")', ["", "ab", "cd", "cdef", "abcdef"], ["bc", "abef"]),
    ],
)
def test_macros_of_ebnf(source, good, bad):
    grammar = Grammar.from_ebnf(source)
    for text in good:
        assert accepts(grammar, text), text
    for text in bad:
        assert not accepts(grammar, text), text


def test_token_macros():
    words = ["a", "b", "ab", "abc", "</s>", "<t>"]
    assert allowed(matcher('root ::= Token(2) "a"', words), 6) == [2]
    assert allowed(matcher('root ::= Token(2, 5) "a"', words), 6) == [2, 5]
    assert allowed(matcher("root ::= ExcludeToken(0)", words), 6) == [1, 2, 3, 5]
    found = matcher('root ::= "ab" Token(5)', words)
    assert found.accept_token(0) and found.accept_token(1) and found.accept_token(5)
    assert allowed(found, 6) == [4]
    found = matcher('root ::= TokenTagDispatch((5, r))\nr ::= "b"', words)
    assert found.accept_token(0) and found.accept_token(5)
    assert allowed(found, 6) == [1]
    assert not matcher('root ::= Token(2) "a"', words).accept_string("ab")
