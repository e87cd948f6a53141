"""Grammars, constraints and matchers."""

from __future__ import annotations

import json
import threading

import pytest

import formwork
from formwork import Constraint, Grammar, GrammarError, NotAllowedError, Tokenizer, Vocabulary, VocabularyError

END = 256


def test_compiles_every_kind_of_grammar() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    assert Grammar.json_schema(schema).accepts(b'{"a": 1}')
    assert Grammar.json_schema(json.dumps(schema), layout="compact").accepts(b'{"a":1}')
    assert Grammar.gbnf('root ::= "a"+').accepts(b"aaa")
    assert Grammar.lark('start: "a" "b"?').accepts(b"ab")
    assert Grammar.regex("[0-9]{2}").accepts(b"42")
    assert Grammar.choices(["yes", "no"]).accepts(b"no")
    tag = {"begin": "<f>", "content": {"type": "json_schema", "json_schema": {"type": "integer"}}, "end": "</f>"}
    tags = {"type": "structural_tag", "format": {"type": "triggered_tags", "triggers": ["<f"], "tags": [tag]}}
    assert Grammar.structural_tag(tags).accepts(b"so <f>4</f>.")
    assert not Grammar.structural_tag(tags).accepts(b"so <f>x</f>.")


def test_takes_pydantic_classes() -> None:
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Sailor", age=(int, ...))
    assert Grammar.json_schema(model).accepts(b'{"age": 28}')


def test_an_error_names_the_place_in_a_schema() -> None:
    with pytest.raises(GrammarError, match="minimum") as raised:
        Grammar.json_schema({"properties": {"a": {"type": "integer", "minimum": "x"}}})
    assert raised.value.pointer == "/properties/a/minimum"
    assert raised.value.keyword == "minimum"
    assert isinstance(raised.value, formwork.FormworkError)


def test_an_error_names_the_place_in_a_source() -> None:
    with pytest.raises(GrammarError) as raised:
        Grammar.gbnf('root ::= "a"\nword ::= (')
    assert raised.value.line == 2
    assert raised.value.excerpt is not None


def test_refuses_unknown_options_by_name() -> None:
    with pytest.raises(ValueError, match="unknown layout `wide`; expected one of spaced"):
        Grammar.json_schema({}, layout="wide")
    with pytest.raises(TypeError, match="unknown option `white`; expected one of profile"):
        Grammar.json_schema({}, white=True)
    with pytest.raises(ValueError, match="unknown limit `speed`"):
        Grammar.regex("a", limits={"speed": 1})
    with pytest.raises(GrammarError) as raised:
        Grammar.regex("[a-z]{500}", limits={"work": 100})
    assert raised.value.over_limit
    with pytest.raises(GrammarError, match="not JSON"):
        Grammar.json_schema("{")


def test_options_reach_the_schemas_inside_other_grammars() -> None:
    source = 'root ::= "<" %json {"type": "array"} ">"'
    assert Grammar.gbnf(source, layout="compact").accepts(b"<[1,2]>")
    assert not Grammar.gbnf(source).accepts(b"<[1,2]>")


def test_reads_remote_documents() -> None:
    remotes = {"https://example.com/size": '{"minimum": 0}'}
    grammar = Grammar.json_schema({"type": "integer", "$ref": "https://example.com/size"}, remotes=remotes)
    assert grammar.accepts(b"3") and not grammar.accepts(b"-3")


def test_describes_mismatches_and_samples() -> None:
    grammar = Grammar.regex("[a-c]{2}")
    assert grammar.mismatch(b"ab") is None
    assert grammar.mismatch(b"ax") == {"at": 1, "expected": ["`a`-`c`"], "complete": False}
    samples = grammar.samples(20, seed=7)
    assert all(grammar.accepts(sample) for sample in samples)
    assert samples == grammar.samples(20, seed=7)
    assert grammar.shortest() == b"aa"
    assert "root" in grammar.to_gbnf()
    assert "unreachable" in Grammar.gbnf('root ::= "a"\nother ::= "b"').warnings[0]


def test_follows_an_output(bytes_vocabulary: Vocabulary) -> None:
    constraint = Constraint(Grammar.regex("ab?"), bytes_vocabulary)
    assert constraint.minimum_tokens == 1
    matcher = constraint.matcher()
    assert matcher.forced_bytes() == b"a"
    assert matcher.allowed() == [ord("a")]
    matcher.commit(ord("a"))
    assert matcher.accepting() and not matcher.complete()
    assert matcher.allowed() == [ord("b"), END]
    assert matcher.allowed(within=0) == [END]
    fork = matcher.fork()
    matcher.commit(ord("b"))
    assert matcher.complete() and len(matcher) == 2 and len(fork) == 1
    matcher.rollback(2)
    assert matcher.tokens == []
    with pytest.raises(NotAllowedError, match="expected `a`"):
        matcher.commit(ord("x"))
    assert not matcher.try_commit(ord("x"))


def test_commits_text_as_one_step(bytes_vocabulary: Vocabulary) -> None:
    matcher = Constraint(Grammar.regex("abc"), bytes_vocabulary).matcher()
    matcher.commit_bytes(b"ab")
    assert matcher.tokens == [None]
    with pytest.raises(NotAllowedError, match="at byte 1"):
        matcher.commit_bytes(b"cc")
    matcher.rollback(1)
    assert matcher.try_commit_bytes(b"abc") and matcher.complete()


def test_closes_within_a_budget(bytes_vocabulary: Vocabulary) -> None:
    schema = {"type": "array", "items": {"type": "string"}}
    matcher = Constraint(Grammar.json_schema(schema), bytes_vocabulary).matcher()
    budget = 12
    output = b""
    while not matcher.complete():
        allowed = matcher.allowed(within=budget - len(matcher))
        token = max(allowed)
        if token == END:
            break
        matcher.commit(token)
        output += bytes([token])
    assert len(output) <= budget
    assert all(isinstance(item, str) for item in json.loads(output.decode(errors="replace")))


def test_explains(bytes_vocabulary: Vocabulary) -> None:
    matcher = Constraint(Grammar.json_schema({"type": "boolean"}), bytes_vocabulary).matcher()
    explanation = matcher.explain()
    assert explanation["tokens"] == 2 and not explanation["may_end"] and explanation["expected"]
    assert matcher.rejection(ord("x"))["offset"] == 0
    assert matcher.rejection(ord("t")) is None


def test_tokenizes_like_the_library(tokenizer_json: str) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    own = Tokenizer.from_json(tokenizer_json, size=1000)
    assert len(own.vocabulary) == 1000
    theirs = tokenizers.Tokenizer.from_str(tokenizer_json)
    text = '{"name": "Mara ü", "age": 28}'
    assert own.encode(text) == theirs.encode(text).ids
    assert own.decode(own.encode(text)) == text.encode()
    matcher = Constraint(Grammar.choices([text]), own.vocabulary).matcher()
    for token in own.encode(text):
        matcher.commit(token)
    assert matcher.accepting()


def test_forces_tokens(tokenizer_json: str) -> None:
    tokenizer = Tokenizer.from_json(tokenizer_json)
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    matcher = Constraint(Grammar.json_schema(schema), tokenizer.vocabulary).matcher()
    forced = matcher.forced_tokens(tokenizer)
    assert forced and matcher.forced_bytes().startswith(tokenizer.decode(forced))


def test_refuses_bad_vocabularies() -> None:
    with pytest.raises(VocabularyError):
        Vocabulary([], [])
    with pytest.raises(VocabularyError, match="out of range"):
        Vocabulary([b"a"], [], special=[7])
    with pytest.raises(VocabularyError):
        Tokenizer.from_json("{}")
    with pytest.raises(VocabularyError, match="Tokenizer.load takes a path"):
        Tokenizer.from_json("tokenizer.json")
    with pytest.raises(TypeError, match="expected the text of a tokenizer.json, as str or bytes.*not int"):
        Tokenizer.from_json(3)
    with pytest.raises(IndexError, match="out of range"):
        Vocabulary([b"a"], []).token(1)


def test_compiles_in_threads_at_once() -> None:
    schema = {"type": "array", "items": {"enum": [f"option {number}" for number in range(2000)]}}
    results: list[bool] = []

    def compile_it() -> None:
        results.append(Grammar.json_schema(schema).accepts(b'["option 7"]'))

    threads = [threading.Thread(target=compile_it) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 4


def test_texts_are_str_or_bytes():
    grammar = formwork.Grammar.choices(["yes", "no"])
    assert grammar.accepts("yes") and grammar.accepts(b"yes") and not grammar.accepts("maybe")
    with pytest.raises(TypeError, match="expected a text as str or bytes, not int"):
        grammar.accepts(3)


def test_one_text_is_no_list_of_choices():
    with pytest.raises(TypeError, match="`choices` is a list of texts"):
        formwork.Grammar.choices("yes")


def test_unknown_names_of_options_are_option_errors():
    with pytest.raises(formwork.OptionError, match="unknown layout `wide`"):
        formwork.Grammar.json_schema({}, layout="wide")
    with pytest.raises(TypeError, match="`order` is the name of an option"):
        formwork.Grammar.json_schema({}, order=3)


def test_tokenizers_are_loaded_from_files(tokenizer_json, tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text(tokenizer_json)
    loaded = Tokenizer.load(path, size=1000)
    assert len(loaded.vocabulary) == 1000
    assert loaded.encode("Mara") == Tokenizer.from_json(tokenizer_json).encode("Mara")
    with pytest.raises(VocabularyError, match="missing"):
        Tokenizer.load(tmp_path / "missing.json")


def test_tokenizers_of_the_package_tokenizers(tokenizer_json):
    tokenizers = pytest.importorskip("tokenizers")
    from formwork.transformers import tokenizer_of, vocabulary_of

    theirs = tokenizers.Tokenizer.from_str(tokenizer_json)
    assert tokenizer_of(theirs).encode("Mara") == theirs.encode("Mara").ids
    assert len(vocabulary_of(theirs)) == theirs.get_vocab_size()
