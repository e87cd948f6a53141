"""XGrammar's interface: JSON Schema, regular expressions, Lark, combined grammars and structural tags."""

from __future__ import annotations

import json

import pytest
from peer import peer_module
from xgrammar_helpers import (
    PERSON,
    accepts,
    allowed,
    info,
    xgr,
)

torch = pytest.importorskip("torch")
pydantic = pytest.importorskip("pydantic")
numpy = pytest.importorskip("numpy")
Grammar = xgr.Grammar


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (
            PERSON,
            ['{"a":1}', '{ "a" : 1 , "b" : "x" }', '{"a":1,\r\n\t"b":"x"}', '{"a":1,"c":1e5}', '{"a":-2}'],
            ['{"b":"x","a":1}', '{"a":1,"d":2}', '{"a":"1"}', '{}', '{"a":1,}', '{"a":01}', '{"a":1.5}'],
        ),
        ({"type": "string"}, ['"x"', '"\\u00e9\\/\\n\\""', '"\u00e9"', '"\x7f"'], ['"\t"', '"\\x"', '"']),
        ({"type": "number"}, ["1", "1.0", "1e5", "1E+5", "-0", "-1.5"], ["01", ".5", "1.", "+1"]),
        ({"type": "integer"}, ["0", "-7", "123456789012345678901"], ["1.5", "01", "-"]),
        ({"type": "boolean"}, ["true", "false"], ["True"]),
        ({"type": "null"}, ["null"], ["None"]),
        ({"type": ["integer", "null"]}, ["1", "null"], ['"a"']),
        ({"enum": [1, "a", None]}, ["1", '"a"', "null"], ["2", '"b"']),
        ({"const": "a"}, ['"a"'], ['"b"']),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, ["1", '"a"'], ["true"]),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "integer"}}}, ["1"], ['"a"']),
        ({"type": "string", "minLength": 1, "maxLength": 2}, ['"a"', '"\u65e5\u65e5"'], ['""', '"abc"']),
        ({"type": "string", "pattern": "^a+$"}, ['"aa"'], ['"b"', '""']),
        ({"type": "integer", "minimum": 3, "maximum": 10}, ["3", "10"], ["2", "11"]),
        ({"type": "number", "minimum": 0.5}, ["0.5", "1", "1.5"], ["0.4", "0"]),
        ({"type": "array", "items": {"type": "integer"}}, ["[]", "[1]", "[1, 2]"], ["[1,]", '["a"]']),
        ({"type": "array", "items": {}, "minItems": 1, "maxItems": 2}, ["[1]", "[1,2]"], ["[]", "[1,2,3]"]),
        ({"type": "array", "prefixItems": [{"type": "integer"}]}, ["[1]"], ["[1,2]"]),
        ({"type": "object"}, ["{}", '{"x": {"y": [1]}}'], ["[]"]),
        ({"type": "object", "additionalProperties": {"type": "string"}}, ['{"z":"x"}', "{}"], ['{"z":1}']),
        (
            {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": "string"}},
            ['{"a":1,"z":"x"}', '{"z":"x"}'],
            ['{"z":1}'],
        ),
        ({"type": "object", "properties": {"a": {}}, "minProperties": 1}, ['{"a":1}'], ["{}"]),
        ({}, ["1", '{"x":1}', "[null]"], ["", "x"]),
        ({"type": "string", "format": "date"}, ['"2020-01-01"'], ['"x"', '"2020-13-01"']),
    ],
)  # fmt: skip
def test_json_schema(schema, good, bad):
    grammar = Grammar.from_json_schema(json.dumps(schema))
    for text in good:
        assert accepts(grammar, text), text
    for text in bad:
        assert not accepts(grammar, text), text


def test_takes_schemas_in_several_forms():
    class Model(pydantic.BaseModel):
        name: str
        age: int | None = None

    for schema in (Model, Model.model_json_schema(), json.dumps(Model.model_json_schema())):
        grammar = Grammar.from_json_schema(schema)
        assert accepts(grammar, '{"name": "x", "age": null}')
        assert not accepts(grammar, '{"age": 1}')
    with pytest.raises(ValueError):
        Grammar.from_json_schema(3)
    with pytest.raises(RuntimeError):
        Grammar.from_json_schema("{")
    with pytest.raises(RuntimeError):
        Grammar.from_json_schema('{"type": "unknown"}')
    with pytest.raises(RuntimeError):
        Grammar.from_json_schema("false")


VALUES = [
    {"a": [1, 2], "o": {"z": 1}},
    {"a": [], "o": {}},
    {},
]
NESTED = {
    "type": "object",
    "properties": {
        "a": {"type": "array", "items": {"type": "integer"}},
        "o": {"type": "object", "properties": {"z": {"type": "integer"}}},
    },
}


@pytest.mark.parametrize(
    "options",
    [{}, {"separators": (",", ":")}, {"separators": (", ", ": ")}, {"indent": 2}],
)
def test_writes_as_json_dumps(options):
    grammar = Grammar.from_json_schema(NESTED, any_whitespace=False, **options)
    for value in VALUES:
        assert accepts(grammar, json.dumps(value, **options))
    assert not accepts(grammar, json.dumps(VALUES[0]).replace(" ", "  "))
    assert accepts(Grammar.from_json_schema(NESTED), json.dumps(VALUES[0], indent=3))


@pytest.mark.ours
@pytest.mark.parametrize(
    "options",
    [
        {"any_whitespace": False, "indent": 4},
        {"any_whitespace": False, "separators": ("; ", ":")},
        {"max_whitespace_cnt": 2},
    ],
)
def test_refuses_layouts_that_formwork_does_not_have(options):
    with pytest.raises(RuntimeError, match="not supported"):
        Grammar.from_json_schema(NESTED, **options)


def test_a_limit_of_white_space_must_be_positive():
    with pytest.raises(RuntimeError):
        Grammar.from_json_schema(NESTED, max_whitespace_cnt=0)


def test_strict_mode_closes_objects_and_arrays():
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    assert not accepts(Grammar.from_json_schema(schema), '{"b":1}')
    assert accepts(Grammar.from_json_schema(schema, strict_mode=False), '{"b":1}')
    schema = {"type": "array", "prefixItems": [{"type": "integer"}]}
    assert not accepts(Grammar.from_json_schema(schema), "[1,2]")
    assert accepts(Grammar.from_json_schema(schema, strict_mode=False), "[1,2]")


def test_members_may_have_any_order():
    schema = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
    assert not accepts(Grammar.from_json_schema(schema), '{"b":1,"a":2}')
    assert accepts(Grammar.from_json_schema(schema, any_order=True), '{"b":1,"a":2}')


@pytest.mark.ours
def test_never_accepts_an_invalid_value():
    schema = {"type": "object", "properties": {"a": {}}, "required": ["a", "z"]}
    assert not accepts(Grammar.from_json_schema(schema), '{"a":1}')
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    assert not accepts(Grammar.from_json_schema(schema, any_order=True), '{"a":1,"a":1}')
    assert not accepts(Grammar.from_json_schema({"not": {"type": "integer"}}), "1")


def test_builtin_json_is_an_object_or_array():
    grammar = Grammar.builtin_json_grammar()
    for text in ["[]", '{"a": [1, {"b": null}]}', "[1 ,\n2]"]:
        assert accepts(grammar, text)
    for text in ["1", '"a"', "[1,]", "{a: 1}", "[1"]:
        assert not accepts(grammar, text)


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        ("abc", ["abc"], ["ab", "abcd"]),
        ("a|bc", ["a", "bc"], ["b"]),
        ("[a-z]+\\d{2,3}", ["a12", "zz123"], ["a1", "12"]),
        ("^a$", ["a"], [""]),
        ("(a(?:b)?)*", ["", "aaba"], ["b"]),
        (".", ["x", "\u65e5"], ["", "xy"]),
        ("[^a]", ["b"], ["a"]),
        ("\\.\\*\\[", [".*["], ["a"]),
        ("\\u0041\\x42", ["AB"], ["ab"]),
    ],
)
def test_regex(pattern, good, bad):
    grammar = Grammar.from_regex(pattern)
    for text in good:
        assert accepts(grammar, text), text
    for text in bad:
        assert not accepts(grammar, text), text


def test_refuses_malformed_regexes():
    for pattern in ["(", "[a", "a{2,1}", "*"]:
        with pytest.raises(RuntimeError):
            Grammar.from_regex(pattern)


def test_lark():
    grammar = Grammar.from_lark('start: "a" WORD\nWORD: /[b-d]+/\n')
    assert accepts(grammar, "abcd") and not accepts(grammar, "a")
    with pytest.raises(RuntimeError):
        Grammar.from_lark("start: missing")


def test_concat_and_union():
    regex, ebnf, schema = (
        Grammar.from_regex("a+"),
        Grammar.from_ebnf('root ::= "b"'),
        Grammar.from_json_schema("{}"),
    )
    both = Grammar.concat(regex, ebnf, schema)
    assert accepts(both, "aab[1]") and not accepts(both, "b1") and not accepts(both, "aab")
    either = Grammar.union(regex, ebnf, Grammar.builtin_json_grammar())
    assert accepts(either, "aa") and accepts(either, "b") and accepts(either, "[]")
    assert not accepts(either, "ab")
    nested = Grammar.concat(Grammar.union(regex, ebnf), Grammar.from_regex("x"))
    assert accepts(nested, "bx") and accepts(nested, "aax") and not accepts(nested, "x")


def test_serializes_grammars():
    for grammar in (
        Grammar.from_ebnf('root ::= "a"'),
        Grammar.from_regex("a"),
        Grammar.from_json_schema('{"const": "a"}'),
        Grammar.concat(Grammar.from_regex("a"), Grammar.from_regex("b")),
    ):
        again = Grammar.deserialize_json(grammar.serialize_json())
        for text in ["a", '"a"', "ab", "b"]:
            assert accepts(again, text) == accepts(grammar, text)


def test_a_grammar_has_a_text():
    assert "root ::=" in str(Grammar.from_ebnf('root ::= "a"'))
    assert "root ::=" in str(Grammar.from_regex("a|b"))
    assert str(Grammar.from_json_schema(PERSON))


def tag(form):
    return {"type": "structural_tag", "format": form}


def const(value):
    return {"type": "const_string", "value": value}


CALL = {
    "type": "triggered_tags",
    "triggers": ["<f"],
    "tags": [
        {
            "begin": "<f=a>",
            "content": {
                "type": "json_schema",
                "json_schema": {
                    "type": "object",
                    "properties": {"x": {"type": "integer"}},
                    "required": ["x"],
                },
            },
            "end": "</f>",
        }
    ],
}


@pytest.mark.parametrize(
    ("form", "good", "bad"),
    [
        (
            CALL,
            ["", "hi", '<f=a>{"x":1}</f>', 'hi <f=a>{"x": 1}</f> bye'],
            ["<f=b>", '<f=a>{"x": 1, "y":2}</f>', "<f=a>"],
        ),
        (const("ab"), ["ab"], ["a", ""]),
        ({"type": "any_text"}, ["", "abc"], []),
        ({"type": "any_text", "excludes": ["b"]}, ["", "a"], ["abc"]),
        ({"type": "sequence", "elements": [const("a"), {"type": "any_text"}]}, ["a", "ab"], ["b"]),
        ({"type": "or", "elements": [const("a"), const("b")]}, ["a", "b"], ["c", "ab"]),
        ({"type": "regex", "pattern": "[a-c]+"}, ["abc"], ["d"]),
        ({"type": "grammar", "grammar": 'root ::= my.x "y"\nmy.x ::=\n "x"'}, ["xy"], ["x"]),
        ({"type": "tag", "begin": "<", "content": {"type": "any_text"}, "end": ">"}, ["<>", "<a>"], ["<a>b", "<a>>"]),
        ({"type": "tag", "begin": "<", "content": {"type": "any_text"}, "end": ["]", ">"]}, ["<a]", "<a>"], ["<a"]),
        ({"type": "optional", "content": const("a")}, ["", "a"], ["aa"]),
        ({"type": "plus", "content": const("a")}, ["a", "aa"], [""]),
        ({"type": "star", "content": const("a")}, ["", "a", "aa"], ["b"]),
        ({"type": "repeat", "min": 1, "max": 2, "content": const("a")}, ["a", "aa"], ["", "aaa"]),
        ({"type": "repeat", "min": 1, "max": -1, "content": const("a")}, ["a", "aaaa"], [""]),
        (
            {
                "type": "tags_with_separator",
                "separator": ",",
                "tags": [{"type": "tag", "begin": "<", "content": const("a"), "end": ">"}],
            },
            ["", "<a>", "<a>,<a>"],
            ["<a><a>", "<a>,"],
        ),
        (
            {"type": "dispatch", "rules": [["<f>", const("a")]], "loop": True, "excludes": ["z"]},
            ["", "<f>a", "x<f>ax"],
            ["<f>b", "z"],
        ),
        (
            {
                "type": "json_schema",
                "json_schema": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
                "style": "qwen_xml",
            },
            ["<parameter=a>x</parameter>", "<parameter=a>\nx\n</parameter>"],
            ["<parameter=b>x</parameter>", '{"a": "x"}'],
        ),
    ],
)  # fmt: skip
def test_structural_tags(form, good, bad):
    for given in (tag(form), json.dumps(tag(form)), xgr.StructuralTag.from_json(tag(form))):
        grammar = Grammar.from_structural_tag(given)
        for text in good:
            assert accepts(grammar, text), text
        for text in bad:
            assert not accepts(grammar, text), text


def token(name):
    return {"type": "token", "token": name}


@pytest.mark.parametrize("names", [(2, 3), ("<think>", "</think>")])
def test_structural_tags_with_tokens(names):
    words = ["a", "b", "<think>", "</think>", "</s>", "<call>"]
    compiler = xgr.GrammarCompiler(info(words))
    begin, end = names
    form = {"type": "tag", "begin": token(begin), "content": const("ab"), "end": token(end)}
    found = xgr.GrammarMatcher(compiler.compile_structural_tag(tag(form)))
    for given, expected in ((2, [0]), (0, [1]), (1, [3]), (3, [4])):
        assert found.accept_token(given)
        assert allowed(found, 6) == expected
    form = {"type": "sequence", "elements": [token(begin), {"type": "exclude_token", "exclude_tokens": [0]}]}
    found = xgr.GrammarMatcher(compiler.compile_structural_tag(tag(form)))
    assert found.accept_token(2)
    assert allowed(found, 6) == [1, 2, 3, 5]


def test_the_old_form_of_structural_tags():
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}}
    items = [xgr.StructuralTagItem(begin="<f=a>", schema=schema, end="</f>")]
    for grammar in (
        Grammar.from_structural_tag(items, ["<f"]),
        Grammar.from_structural_tag(xgr.StructuralTag.from_legacy_structural_tag(items, ["<f"])),
    ):
        assert accepts(grammar, 'a<f=a>{"x":1}</f>b') and not accepts(grammar, "<f")
    with pytest.raises(xgr.InvalidStructuralTagError):
        Grammar.from_structural_tag(items, ["<g"])


def test_refuses_malformed_structural_tags():
    with pytest.raises(xgr.InvalidJSONError):
        Grammar.from_structural_tag("{")
    for given in ("{}", tag({"type": "unknown"}), tag({"type": "const_string"}), tag(3)):
        with pytest.raises(xgr.InvalidStructuralTagError):
            Grammar.from_structural_tag(given)
    for arguments in ((), (3,), (1, 2)):
        with pytest.raises(TypeError):
            Grammar.from_structural_tag(*arguments)
    with pytest.raises(pydantic.ValidationError):
        xgr.StructuralTag.from_json({"type": "structural_tag"})


@pytest.mark.ours
def test_refuses_nesting_that_is_too_deep():
    deep = "[" * 100_000
    for call in (Grammar.from_json_schema, Grammar.from_structural_tag, Grammar.deserialize_json):
        with pytest.raises(xgr.InvalidJSONError):
            call(deep)
    form = {"type": "any_text"}
    for _ in range(150):
        form = {"type": "optional", "content": form}
    with pytest.raises(xgr.InvalidStructuralTagError):
        Grammar.from_structural_tag(tag(form))


def test_the_classes_of_structural_tags():
    module = peer_module("xgrammar.structural_tag")
    given = xgr.StructuralTag(
        format=module.SequenceFormat(
            elements=[
                module.ConstStringFormat(value="a"),
                module.OptionalFormat(content=module.RegexFormat(pattern="b+")),
                module.TagFormat(begin="<", content=module.AnyTextFormat(), end=">"),
            ]
        )
    )
    assert xgr.StructuralTag.from_json(given.model_dump_json()) == given
    grammar = Grammar.from_structural_tag(given)
    assert accepts(grammar, "abb<x>") and accepts(grammar, "a<>") and not accepts(grammar, "bb<>")
