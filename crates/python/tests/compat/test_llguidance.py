"""llguidance's interface: tokenizers, grammars and tags of version 1.9.1."""

from __future__ import annotations

import json

import pytest
from llguidance_helpers import (
    AB,
    ABC,
    END,
    SIZE,
    TOOL,
    Bytes,
    LLMatcher,
    accepts,
    allowed,
    lark,
    ll,
    matcher,
)
from peer import peer_module

numpy = pytest.importorskip("numpy")
arrays = peer_module("llguidance.numpy")


def test_describes_the_tokenizer(tokenizer):
    assert (tokenizer.vocab_size, tokenizer.eos_token, tokenizer.eos_tokens) == (SIZE, END, [END])
    assert tokenizer.is_canonical
    assert tokenizer.is_special_token(TOOL) and tokenizer.is_special_token(END)
    assert not tokenizer.is_special_token(ABC) and not tokenizer.is_special_token(999)


def test_encodes(tokenizer):
    assert tokenizer.tokenize_str("abc") == [97, 98, 99]
    assert tokenizer.tokenize_bytes(b"ab\xff") == [97, 98, 255]
    assert tokenizer.greedy_tokenize("abcab\u00e9") == [ABC, AB, 0xC3, 0xA9]


def test_decodes(tokenizer):
    assert tokenizer.decode_bytes([97, ABC, TOOL]) == b"aabc<tool>"
    assert tokenizer.decode_bytes([999]) == b"<[999]>"
    assert tokenizer.decode_str([ABC, 0xC3, 0xA9]) == "abc\u00e9"
    assert (
        tokenizer.dbg_tokens([97, ABC, END, TOOL, 255])
        == "\u27e6a\u2027abc\u2027\u227aEOS\u227b\u2027<tool>\u2027\u227aHEX[ff]\u227b\u27e7"
    )
    assert tokenizer.test_trace_tokens([97, 300]) == "a\u2027\u227aOOB[300]\u227b"


def test_encodes_what_no_later_text_changes(tokenizer):
    assert tokenizer.tokenize_partial(b"abcab") == ([97, 98, 99], b"ab")
    assert tokenizer.tokenize_partial(b"ab", recent_tokens=[97]) == ([], b"ab")


def test_takes_other_end_tokens():
    wrapper = ll.TokenizerWrapper(Bytes())
    assert ll.LLTokenizer(wrapper, eos_token=[END, TOOL]).eos_tokens == [END, TOOL]
    given = ll.LLTokenizer(wrapper, eos_token=TOOL)
    assert given.eos_token == TOOL
    found = LLMatcher(given, lark('start: "a"*'), log_level=0)
    assert allowed(found) == [97, TOOL]
    assert found.consume_token(TOOL) and found.is_stopped()
    with pytest.raises(ValueError):
        ll.LLTokenizer(wrapper, eos_token=999)


def test_refuses_other_tokenizers():
    for given in ("missing/tokenizer.json", "{}"):
        with pytest.raises(ValueError):
            ll.LLTokenizer(given)
    with pytest.raises(ValueError):
        ll.LLTokenizer(3)


@pytest.fixture(scope="module")
def tokenizer_json():
    tokenizers = pytest.importorskip("tokenizers")
    model = tokenizers.Tokenizer(tokenizers.models.BPE())
    model.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=280,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    model.train_from_iterator(['{"name": "abc", "age": 12}'] * 4, trainer)
    return model


def test_reads_a_tokenizer_json(tokenizer_json, tmp_path):
    text = tokenizer_json.to_str()
    path = tmp_path / "tokenizer.json"
    path.write_text(text, encoding="utf-8")
    for given in (text, str(path)):
        read = ll.LLTokenizer(given)
        assert read.vocab_size == tokenizer_json.get_vocab_size()
        assert read.eos_tokens == [1]
        assert read.is_special_token(0)
        assert read.tokenize_str("name abc") == tokenizer_json.encode("name abc").ids
        assert read.decode_str(read.tokenize_str('{"name": "\u00e9"}')) == '{"name": "\u00e9"}'
    padded = ll.LLTokenizer(text, n_vocab=320, eos_token=0)
    assert (padded.vocab_size, padded.eos_tokens) == (320, [0])
    with pytest.raises(ValueError):
        ll.LLTokenizer(text, n_vocab=20)


def test_reads_a_tokenizer_of_transformers(tokenizer_json):
    transformers = pytest.importorskip("transformers")
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer_json, eos_token="</s>")
    from_tokenizer = peer_module("llguidance.hf").from_tokenizer
    assert from_tokenizer(fast).eos_tokens == [1]
    assert from_tokenizer(fast, n_vocab=300, eos_token=0).eos_tokens == [0]
    with pytest.raises(ValueError):
        from_tokenizer(object())


def test_follows_a_text_of_a_real_tokenizer(tokenizer_json):
    read = ll.LLTokenizer(tokenizer_json.to_str())
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    found = LLMatcher(read, LLMatcher.grammar_from_json_schema(schema), log_level=0)
    for token in tokenizer_json.encode('{"name": "x\u00e9y"}').ids:
        assert token in allowed(found)
        assert found.consume_token(token)
    assert found.is_accepting() and 1 in allowed(found)


def test_formats_of_grammars(tokenizer):
    for format, text, good, bad in (
        ("lark", 'start: "a"', "a", "b"),
        ("gbnf", 'root ::= "a" | [b-c]+', "bc", "d"),
        ("ebnf", 'start: "a"', "a", "b"),
        ("grammar", 'root ::= my-rule?\nmy-rule ::= "x" "y"', "xy", "x"),
        ("json_schema", '{"type": "integer"}', "12", "x"),
        ("json", '{"type": "integer"}', "12", "x"),
        ("regex", "a+|b", "aa", "ab"),
        ("choice", '["yes", "no"]', "no", "y"),
        ("choice", ["yes", "no"], "yes", "maybe"),
    ):
        grammar = ll.grammar_from(format, text)
        assert isinstance(grammar, str)
        assert accepts(tokenizer, grammar, good)
        assert not accepts(tokenizer, grammar, bad)
    text = '{"grammars": [{"lark_grammar": "start: \\"a\\""}]}'
    assert ll.grammar_from("llguidance", text) == text
    assert accepts(tokenizer, text, "a")
    with pytest.raises(ValueError):
        ll.grammar_from("unknown", "")


OBJECT = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["b"],
}


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (OBJECT, ['{"b":1}', '{"a":1,"b":2}', '{ "b" : 1 }', '{"b":1,"z":[1]}'], ['{"b":2,"a":1}', '{"a":1}', "{}"]),
        ({}, ["1", '"a"', "[1, 2]", '{"a":[{}]}'], ["x", ""]),
        (True, ["1"], ["x"]),
        ({"type": "string"}, ['"\u00e9"', '"\\n\\""'], ['"\t"', '"']),
        ({"type": "number"}, ["1e5", "-0", "1.50"], ["01", "."]),
        ({"type": "string", "minLength": 1, "maxLength": 2}, ['"a"'], ['""', '"abc"']),
        ({"const": "a"}, ['"a"'], ['"b"']),
        ({"enum": [{"x": [1, 2]}, 3]}, ['{"x":[1,2]}', '{"x": [1, 2]}', "3"], ["4"]),
        ({"type": "array", "prefixItems": [{"type": "integer"}]}, ["[1,2]", "[]"], ['["a"]']),
        ({"type": "array", "items": {"type": "boolean"}, "minItems": 1}, ["[true]"], ["[]"]),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, ["1", "null"], ["true"]),
        ({"type": "integer", "minimum": 3, "maximum": 10}, ["3", "10"], ["2", "11"]),
    ],
)  # fmt: skip
def test_json_schema(tokenizer, schema, good, bad):
    grammar = LLMatcher.grammar_from_json_schema(schema)
    for text in good:
        assert accepts(tokenizer, grammar, text), text
    for text in bad:
        assert not accepts(tokenizer, grammar, text), text


def test_layouts_of_json(tokenizer):
    def grammar(**options):
        return LLMatcher.grammar_from_json_schema(OBJECT, overrides={"whitespace_flexible": False, **options})

    assert accepts(tokenizer, grammar(), '{"a":1,"b":2}')
    assert not accepts(tokenizer, grammar(), '{"a": 1, "b": 2}')
    spaced = grammar(item_separator=", ", key_separator=": ")
    assert accepts(tokenizer, spaced, '{"a": 1, "b": 2}')
    assert not accepts(tokenizer, spaced, '{"a":1,"b":2}')


def test_options_in_the_schema(tokenizer):
    schema = {**OBJECT, "x-guidance": {"whitespace_flexible": False}}
    assert not accepts(tokenizer, LLMatcher.grammar_from_json_schema(schema), '{"b": 1}')
    grammar = LLMatcher.grammar_from_json_schema(schema, defaults={"whitespace_flexible": True})
    assert not accepts(tokenizer, grammar, '{"b": 1}')
    grammar = LLMatcher.grammar_from_json_schema(json.dumps(schema), overrides={"whitespace_flexible": True})
    assert accepts(tokenizer, grammar, '{"b": 1}')


@pytest.mark.parametrize(
    ("source", "good", "bad"),
    [
        ('start: "a" WORD\nWORD: /[a-z]+/\n%ignore /[ ]+/', ["ab", "a b"], ["a", " ab"]),
        ('start: %json {"type": "integer"} "x"', ["1x", "12x"], ["x"]),
        ('start: a{2,3}\na: "x"', ["xx", "xxx"], ["x", "xxxx"]),
        ('start: "a".."c"', ["a", "b", "c"], ["d"]),
        ('%llguidance {}\n\nstart: "a"', ["a"], ["b"]),
        ('start: "x @y" | / @z/', ["x @y", " @z"], ["x"]),
        ('start: "A"i', ["a", "A"], ["b"]),
        ('start: expr\nexpr: expr "+" expr | /[0-9]/', ["1", "1+2+3"], ["1+"]),
        ('start: ("a" | "b")+ "c"?', ["a", "abac"], ["c"]),
        ('start: "(" start ")" | "x"', ["x", "((x))"], ["(x"]),
    ],
)
def test_lark(tokenizer, source, good, bad):
    for text in good:
        assert accepts(tokenizer, lark(source), text), text
    for text in bad:
        assert not accepts(tokenizer, lark(source), text), text


def test_special_tokens_in_lark(tokenizer):
    found = matcher(tokenizer, 'start: <tool> "a"')
    assert allowed(found) == [TOOL]
    assert found.consume_tokens([TOOL, 97]) and found.is_accepting()
    assert not accepts(tokenizer, lark('start: <tool> "a"'), "<tool>a")


def test_regexes(tokenizer):
    for pattern, good, bad in (
        ("a|b", "b", "ab"),
        ("^a$", "a", "b"),
        ("[^a]\\d{2}", "b12", "a12"),
        ("(?i)abc", "aBC", "abd"),
        ("a/b", "a/b", "ab"),
    ):
        grammar = LLMatcher.grammar_from_regex(pattern)
        assert accepts(tokenizer, grammar, good)
        assert not accepts(tokenizer, grammar, bad)


def test_validates_grammars(tokenizer):
    assert LLMatcher.validate_grammar(lark('start: "a"')) == ""
    assert LLMatcher.validate_grammar(lark('start: "a"'), tokenizer) == ""
    assert LLMatcher.validate_grammar(lark("start: missing")) != ""
    assert LLMatcher.validate_grammar_with_warnings(lark('start: "a"')) == (False, [])
    is_error, messages = LLMatcher.validate_grammar_with_warnings(lark("start: missing"))
    assert is_error and len(messages) == 1
    for text in ("", "[]", "{}", '{"grammars": []}', '{"grammars": [{}]}', '{"type": "integer"}'):
        assert LLMatcher.validate_grammar(text) != ""


@pytest.mark.ours
def test_refuses_what_cannot_be_enforced():
    for options in ({"whitespace_pattern": " *"}, {"json_allowed_escapes": "n"}, {"unknown": 1}):
        assert LLMatcher.validate_grammar(LLMatcher.grammar_from_json_schema({}, overrides=options)) != ""
    assert "line 2" in LLMatcher.validate_grammar('start: "a@b"\n  | @other')
    with pytest.raises(ValueError):
        LLMatcher.grammar_from_json_schema("{")


@pytest.mark.ours
def test_enforces_what_llguidance_does_not(tokenizer):
    grammar = LLMatcher.grammar_from_json_schema({"type": "integer", "not": {"const": 3}})
    assert accepts(tokenizer, grammar, "4") and not accepts(tokenizer, grammar, "3")
    grammar = LLMatcher.grammar_from_json_schema({"oneOf": [{"type": "integer"}, {"minimum": 5}]})
    assert accepts(tokenizer, grammar, "4") and not accepts(tokenizer, grammar, "6")


def test_translates_gbnf():
    module = peer_module("llguidance.gbnf_to_lark")
    translated = module.gbnf_to_lark('root ::= "a" b-c{2,} | [^x]\nb-c ::= ("d" | "e")? "f"')
    assert "start" in translated and "::=" not in translated
    assert LLMatcher.validate_grammar(translated) == ""
    assert module.any_to_lark('start: "a"') == 'start: "a"'
    with pytest.raises(module.GbnfToLarkError):
        module.any_to_lark("zzz")


@pytest.mark.ours
def test_translated_gbnf_is_the_same_language(tokenizer):
    module = peer_module("llguidance.gbnf_to_lark")
    source = 'root ::= ("a" | [b-c/]+ "\\n")* my-end?\nmy-end ::= "\\"" [^"\\\\]* "\\"" | ()'
    translated = module.gbnf_to_lark(source)
    gbnf = ll.grammar_from("gbnf", source)
    for text in ("", "a", "b/\n", 'a"x"', '"', '"\\"', 'b"'):
        assert accepts(tokenizer, translated, text) == accepts(tokenizer, gbnf, text), text


def test_regexes_for_lark():
    assert ll.regex_to_lark("\\d/[\\w]\\s", "d") == "[0-9]\\/[\\w]\\s"
    assert ll.regex_to_lark("\\d\\w\\s", "") == "\\d\\w\\s"
    assert ll.regex_to_lark("\\d\\w\\s", "dws") == "[0-9][0-9a-zA-Z_][ \\t\\n\\r\\f\\v]"


def test_old_compilers(tokenizer):
    assert accepts(tokenizer, ll.JsonCompiler().compile('{"type": "integer"}'), "12")
    assert accepts(tokenizer, ll.LarkCompiler().compile('start: "a"'), "a")
    assert accepts(tokenizer, ll.RegexCompiler().compile("a+"), "aa")
    with pytest.raises(ValueError):
        ll.LarkCompiler().compile("start: missing")


def test_tags_after_a_text(tokenizer):
    tags = [
        ll.StructTag(trigger="<f", begin="<f=a>", grammar={"type": "integer"}, end="</f>"),
        ll.StructTag(trigger="<f", begin="<f=b>", grammar='{"type": "boolean"}', end="</f>"),
    ]
    grammar = ll.StructTag.to_grammar(tags)
    for text in ("", "abc", "<f=a>1</f>", "x<f=a>1</f>y<f=b>true</f>"):
        assert accepts(tokenizer, grammar, text), text
    for text in ("<f=c>", "<f=a>true</f>", "<f"):
        assert not accepts(tokenizer, grammar, text), text


def test_tags_after_a_token(tokenizer):
    tag = ll.StructTag(trigger="<tool>", begin="<tool>x", grammar='start: "a"', end="e")
    found = LLMatcher(tokenizer, ll.StructTag.to_grammar([tag]), log_level=0)
    assert not found.is_error(), found.get_error()
    assert found.consume_tokens([ord("z"), TOOL, ord("x"), 97, ord("e")])
    assert found.is_accepting() and not found.is_stopped()
    assert not found.consume_tokens([TOOL, 97])


def test_checks_tags():
    with pytest.raises(AssertionError):
        ll.StructTag(trigger="", begin="a", grammar={}, end="")
    with pytest.raises(AssertionError):
        ll.StructTag(trigger="<b", begin="<a", grammar={}, end="")
    with pytest.raises(AssertionError):
        ll.StructTag.to_grammar([])


def test_limits():
    limits = ll.LLParserLimits(max_items_in_row=10)
    assert limits.max_items_in_row == 10 and limits.initial_lexer_fuel == 1_000_000
    assert limits.precompute_large_lexemes is True


def test_the_public_names(tokenizer):
    names = """LLTokenizer LLMatcher LLInterpreter LLExecutor LLParserLimits JsonCompiler LarkCompiler
    RegexCompiler TokenizerWrapper grammar_from GrammarFormat StructTag regex_to_lark get_version
    __version__""".split()
    for name in names:
        assert getattr(ll, name) is not None
    assert set(names) <= set(ll.__all__)
    assert isinstance(ll.get_version(), str)
    limits = ll.LLParserLimits()
    assert not LLMatcher(tokenizer, 'start: "a"', log_level=0, limits=limits).is_error()
    assert ll.LLTokenizer.general_slices() is not None and tokenizer.with_slices([]).vocab_size == SIZE
