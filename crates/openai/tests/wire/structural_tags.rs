//! Structural tags: which texts their formats describe, and which formats are refused.

use formwork_grammar::{Grammar, Limits, Part, SchemaOptions};
use formwork_openai::structural_tag;
use serde_json::{Value, json};

fn compiled(format: &Value) -> Grammar {
    let part = structural_tag(&json!({"type": "structural_tag", "format": format}));
    let part = part.unwrap_or_else(|error| panic!("{format}: {error}"));
    Grammar::of_parts(&part, &SchemaOptions::default(), &Limits::default())
        .unwrap_or_else(|error| panic!("{format}: {error}"))
}

#[track_caller]
fn check(format: &Value, good: &[&str], bad: &[&str]) {
    let grammar = compiled(format);
    for text in good {
        assert!(grammar.accepts(text.as_bytes()), "rejected: {text:?} by {format}");
    }
    for text in bad {
        assert!(!grammar.accepts(text.as_bytes()), "accepted: {text:?} by {format}");
    }
    let shortest = grammar.shortest();
    assert!(grammar.accepts(&shortest), "{}", String::from_utf8_lossy(&shortest));
}

fn any() -> Value {
    json!({"type": "any_text"})
}

fn text(value: &str) -> Value {
    json!({"type": "const_string", "value": value})
}

fn tag(begin: &str, content: &Value, end: &Value) -> Value {
    json!({"type": "tag", "begin": begin, "content": content, "end": end})
}

fn one() -> Value {
    tag("<a>", &text("1"), &json!("</a>"))
}

fn two() -> Value {
    tag("<b>", &text("2"), &json!("</b>"))
}

/// Returns the members of both objects.
fn with(base: &Value, more: &Value) -> Value {
    let mut all = base.clone();
    for (name, value) in more.as_object().expect("an object") {
        all[name] = value.clone();
    }
    all
}

fn sequence(elements: &[Value]) -> Value {
    json!({"type": "sequence", "elements": elements})
}

#[test]
fn reads_formats_without_parts() {
    check(&text("a\n\"b"), &["a\n\"b"], &["", "a"]);
    check(&text(""), &[""], &["a"]);
    check(&json!({"type": "regex", "pattern": "ab|c"}), &["ab", "c"], &["a", "abc"]);
    check(&json!({"type": "grammar", "grammar": "root ::= \"a\"+"}), &["a", "aa"], &["", "b"]);
    let schema = json!({"type": "json_schema", "json_schema": {"type": "integer"}, "style": "json",
        "any_order": false, "max_whitespace_cnt": null, "excludes": []});
    check(&schema, &["12"], &["\"a\"", "1.5"]);
    let whole = structural_tag(&json!({"format": schema})).expect("a structural tag");
    assert_eq!(whole, Part::Json(json!({"type": "integer"}).into()));
}

#[test]
fn reads_all_forms_of_a_structural_tag() {
    let format = json!({"type": "triggered_tags", "triggers": ["<"], "tags": [
        tag("<a>", &json!({"type": "json_schema", "json_schema": true}), &json!(""))]});
    let older = json!({"triggers": ["<"], "structures": [{"begin": "<a>", "schema": true, "end": ""}]});
    let read = |tag: &Value| structural_tag(tag).expect("a structural tag");
    let expected = read(&format);
    for tag in [
        json!({"type": "structural_tag", "format": format}),
        json!({"format": format}),
        with(&older, &json!({"type": "structural_tag"})),
        older,
        format.to_string().into(),
    ] {
        assert_eq!(read(&tag), expected, "{tag}");
    }
}

#[test]
fn free_text_may_contain_all_but_the_excluded_texts() {
    check(&any(), &["", "a\nb\0", "<a>é"], &[]);
    let excluding = json!({"type": "any_text", "excludes": ["ab", "c"]});
    check(&excluding, &["", "a", "ba", "aa"], &["ab", "xaaby", "c"]);
    let followed = sequence(&[any(), text("X")]);
    check(&followed, &["X", "aX", "aXbX"], &["", "a"]);
    let followed = sequence(&[json!({"type": "any_text", "excludes": ["X"]}), text("X")]);
    check(&followed, &["X", "aX"], &["a", "aXbX"]);
    let short = json!({"type": "any_text", "max_chars": 3});
    check(&short, &["", "é日\n"], &["abcd"]);
    check(&with(&short, &json!({"excludes": ["a|", "]"]})), &["a", "|a"], &["a|", "abcd", "x]"]);
}

#[test]
fn free_text_in_a_tag_ends_with_the_tag() {
    let end = json!("</a>");
    check(&tag("<a>", &any(), &end), &["<a></a>", "<a>x</</a>"], &["<a>", "<a></a></a>", "x<a></a>"]);
    let ends = tag("<a>", &any(), &json!(["</a>", "</b>", ""]));
    check(&ends, &["<a>", "<a>x</b>", "<a></a>", "<a></"], &["<a></b></a>"]);
    check(&tag("<", &any(), &json!("aa")), &["<aa", "<aaa", "<baa"], &["<aaaa", "<a"]);
    let inner = tag("<b>", &any(), &json!("</b>"));
    check(&tag("<a>", &inner, &end), &["<a><b></a></b></a>"], &["<a><b></b></b></a>"]);
    let parts = sequence(&[any(), text("p"), any()]);
    check(&tag("<a>", &parts, &end), &["<a>ppp</a>", "<a>xpy</a>"], &["<a></a>p</a>", "<a>p</a></a>"]);
    let either = json!({"type": "or", "elements": [any(), text("</a>k")]});
    check(&tag("<a>", &either, &end), &["<a>x</a>", "<a></a>k</a>"], &["<a></a>x</a>"]);
    let optional = json!({"type": "optional", "content": any()});
    check(&tag("<a>", &optional, &end), &["<a>z</a>", "<a></a>"], &["<a>z</a></a>"]);
    let excluding = json!({"type": "any_text", "excludes": ["zz"]});
    check(&tag("<a>", &excluding, &end), &["<a>z</a>"], &["<a>zz</a>", "<a>z</a></a>"]);
    let short = json!({"type": "any_text", "max_chars": 4});
    check(&tag("<a>", &short, &end), &["<a>1234</a>", "<a></</a>"], &["<a>12345</a>", "<a></a></a>"]);
    check(&tag("", &text("x"), &json!("")), &["x"], &[""]);
    check(&tag("<", &excluding, &json!("")), &["<", "<z"], &["<zz"]);
}

#[test]
fn repeats_formats() {
    let repeated = |kind: &str| json!({"type": kind, "content": text("ab")});
    check(&repeated("optional"), &["", "ab"], &["a", "abab"]);
    check(&repeated("star"), &["", "ab", "abab"], &["aba"]);
    check(&repeated("plus"), &["ab", "abab"], &["", "a"]);
    let repeat = |min: i32, max: i32| with(&repeated("repeat"), &json!({"min": min, "max": max}));
    check(&repeat(1, 2), &["ab", "abab"], &["", "ababab"]);
    check(&repeat(2, -1), &["abab", "abababab"], &["", "ab"]);
    check(&repeat(0, 0), &[""], &["ab"]);
    let free = json!({"type": "any_text", "excludes": ["b"]});
    check(&json!({"type": "star", "content": free}), &["", "a", "acd"], &["b"]);
    check(&json!({"type": "repeat", "min": 2, "max": 3, "content": free}), &["", "a"], &["ab"]);
    // Counts inside of counts need no state for each text, unless a text has many readings.
    let (mut exact, mut vague) = (text("a"), text("a"));
    for _ in 0..4 {
        exact = json!({"type": "repeat", "min": 3, "max": 3, "content": exact});
        vague = json!({"type": "repeat", "min": 0, "max": 1000, "content": vague});
    }
    check(&exact, &[&"a".repeat(81)], &["", &"a".repeat(80), &"a".repeat(82)]);
    let part = structural_tag(&vague).expect("a format");
    let error = Grammar::of_parts(&part, &SchemaOptions::default(), &Limits::default());
    assert!(error.expect_err("too many readings").is_over_limit());
}

#[test]
fn tags_follow_triggers() {
    let tags = json!({"type": "triggered_tags", "triggers": ["<a"], "tags": [one()]});
    let inside = ["<a>1</a>", "x<a>1</a>y<a>1</a>z<", "", "<b"];
    check(&tags, &inside, &["<a", "<a>2</a>"]);
    let excluding = with(&tags, &json!({"excludes": ["x"]}));
    check(&excluding, &["<a>1</a>y", ""], &["x", "<a>1</a>x"]);
    // An excluded text at the end of a trigger counts, but one in a tag does not.
    check(&with(&tags, &json!({"excludes": ["<a>"]})), &["x<a>1</a>"], &[]);
    check(&with(&tags, &json!({"excludes": ["x<a"]})), &["<a>1</a>x"], &["x<a>1</a>"]);
    check(&with(&tags, &json!({"excludes": ["a"]})), &["<"], &["<a>1</a>"]);
    let first = with(&tags, &json!({"at_least_one": true, "excludes": ["x"]}));
    check(&first, &["<a>1</a>", "<a>1</a>y"], &["", "y<a>1</a>", "<a>1</a>x"]);
    let last = with(&tags, &json!({"stop_after_first": true}));
    check(&last, &["", "x", "x<a>1</a>"], &["<a>1</a>x"]);
    // The free text in a tag does not contain the end of the tag, and that of an inner tag has another end.
    check(&tag("[", &tags, &json!("]")), &["[]", "[x<a>1</a>y]"], &["[x]y]", "[<a>1</a>]x]"]);
    let inner = tag("<a>", &tag("(", &any(), &json!(")")), &json!("</a>"));
    let tags = json!({"type": "triggered_tags", "triggers": ["<a"], "tags": [inner]});
    check(&tags, &["x<a>(</a>)</a>"], &["<a>())</a>"]);
    let ends = tag("<a>", &any(), &json!(["</a>", "</b>"]));
    let tags = json!({"type": "triggered_tags", "triggers": ["<a"], "tags": [ends]});
    check(&tags, &["x<a>y</b>z", "<a></a>"], &["<a>"]);
    // The longest of two triggers with the same end fires.
    let tags = json!({"type": "triggered_tags", "triggers": ["x<a", "<a"], "tags": [
        one(), tag("x<a>", &text("2"), &json!(""))]});
    check(&tags, &["<a>1</a>", "x<a>2"], &["x<a>1</a>"]);
}

#[test]
fn patterns_dispatch_to_formats() {
    let rules = |rules: Value| json!({"type": "dispatch", "rules": rules});
    let dispatch = rules(json!([["<a", text("1")], ["<b", sequence(&[text("q"), text("2")])]]));
    check(&dispatch, &["", "x", "x<a1y<bq2z"], &["<a2", "<a"]);
    check(&with(&dispatch, &json!({"loop": false})), &["x", "x<a1"], &["<a1z"]);
    check(&with(&dispatch, &json!({"excludes": ["z"]})), &["x<a1"], &["x<a1z", "z"]);
    // Several formats may follow a pattern, and a pattern may begin with another one.
    check(&rules(json!([["<", text("1")], ["<", text("2")]])), &["<1", "<2"], &["<3"]);
    check(&rules(json!([["<a", text("1")], ["<", text("2")]])), &["<2", "<a1"], &["<a2", "<1"]);
    check(&rules(json!([["ab", text("1")], ["b", text("2")]])), &["ab1", "b2"], &["ab2", "b1"]);
    // The text may contain the end of a tag, but that of a rule may not.
    check(&tag("[", &dispatch, &json!("]")), &["[]", "[x]y]", "[<a1]"], &["[<a]"]);
    check(
        &tag("[", &rules(json!([["<", tag("(", &any(), &json!(")"))]])), &json!("]")),
        &["[<(])]"],
        &["[<(]"],
    );
}

#[test]
fn tags_stand_between_separators() {
    let tags = json!({"type": "tags_with_separator", "separator": ",", "tags": [one(), two()]});
    check(&tags, &["", "<a>1</a>", "<a>1</a>,<b>2</b>,<a>1</a>"], &["<a>1</a>,", ",", "<a>1</a><b>2</b>"]);
    check(&with(&tags, &json!({"at_least_one": true})), &["<a>1</a>"], &[""]);
    let first = with(&tags, &json!({"stop_after_first": true}));
    check(&first, &["", "<b>2</b>"], &["<a>1</a>,<b>2</b>"]);
    check(&with(&first, &json!({"at_least_one": true})), &["<b>2</b>"], &[""]);
    check(&with(&tags, &json!({"separator": ""})), &["<a>1</a><b>2</b>", ""], &["<a>1</a>,<b>2</b>"]);
}

/// A schema with a value of each type.
fn schema() -> Value {
    json!({"type": "object", "properties": {
        "s": {"type": "string"}, "n": {"type": "integer"}, "u": {"type": ["string", "null"]},
        "a": {"type": "array", "items": {"type": "string"}},
        "o": {"type": "object", "properties": {"k": {"type": "boolean"}}, "required": ["k"]},
    }, "required": ["s"], "additionalProperties": false})
}

#[test]
fn writes_objects_in_the_styles_of_calls() {
    let style = |style: &str| json!({"type": "json_schema", "json_schema": schema(), "style": style});
    let qwen = [
        "<parameter=s>5</parameter>",
        "<parameter=s>\n<b>\n</parameter>\n<parameter=n>\n12\n</parameter>\n",
        "<parameter=s></parameter><parameter=u>null</parameter><parameter=a>[\"x\"]</parameter>",
        "\n<parameter=s></parameter><parameter=o>{\"k\": true}</parameter>",
    ];
    let bad = [
        "",
        "<parameter=n>1</parameter>",
        "<parameter=n>1</parameter><parameter=s>a</parameter>",
        "<parameter=s>a</parameter></parameter>",
        "<parameter=s>a</parameter><parameter=n>x</parameter>",
        "<parameter=s>a</parameter><parameter=z>x</parameter>",
    ];
    check(&style("qwen_xml"), &qwen, &bad);
    check(&json!({"type": "qwen_xml_parameter", "json_schema": schema()}), &qwen, &bad);
    check(
        &style("minimax_xml"),
        &["<parameter name=\"s\">5</parameter>\n<parameter name=\"n\">1</parameter>\n"],
        &["<parameter=s>5</parameter>"],
    );
    check(
        &style("deepseek_xml"),
        &[
            "<｜DSML｜parameter name=\"s\" string=\"true\">5</｜DSML｜parameter>\n<｜DSML｜parameter name=\"n\" string=\"false\">1</｜DSML｜parameter>",
            "<｜DSML｜parameter name=\"s\" string=\"true\"></｜DSML｜parameter><｜DSML｜parameter name=\"u\" string=\"false\">null</｜DSML｜parameter>",
        ],
        &["<｜DSML｜parameter name=\"s\" string=\"false\">5</｜DSML｜parameter>"],
    );
    check(
        &style("deepseek_v4_1_xml"),
        &["<｜DSML｜ parameter name=\"s\" string=\"true\">5</｜DSML｜ parameter>"],
        &["<｜DSML｜parameter name=\"s\" string=\"true\">5</｜DSML｜parameter>"],
    );
    check(
        &style("glm_xml"),
        &[
            "<arg_key>s</arg_key>\n<arg_value>5</arg_value>\n<arg_key>n</arg_key><arg_value>1</arg_value>",
            "<arg_key>s</arg_key><arg_value>a</arg_value><arg_key>a</arg_key><arg_value>[]</arg_value>",
        ],
        &["<arg_key>n</arg_key><arg_value>1</arg_value>"],
    );
    check(
        &style("kimi_k3_xml"),
        &[
            "<|open|>argument key=\"s\" type=\"string\"<|sep|>5<|close|>argument<|sep|><|open|>argument key=\"n\" type=\"number\"<|sep|>1<|close|>argument<|sep|>",
        ],
        &["<|open|>argument key=\"s\" type=\"number\"<|sep|>5<|close|>argument<|sep|>"],
    );
    let (open, close) = ("]<]minimax[>[<", "]<]minimax[>[</");
    check(
        &style("minimax_m3_xml"),
        &[
            &format!("{open}s>5{close}s>"),
            &format!(
                "{open}s>a{close}s>\n{open}a>{open}item>x{close}item>{close}a>{open}o>{open}k>true{close}k>{close}o>"
            ),
        ],
        &[&format!("{open}s>a{close}n>"), &format!("{open}s>a{open}b>{close}s>")],
    );
    // Any object has a member of some name, if names are not declared.
    let open = json!({"type": "json_schema", "json_schema": {"additionalProperties": {"type": "number"}}, "style": "qwen_xml"});
    check(
        &open,
        &["", "<parameter=x>1</parameter><parameter=y-z>2</parameter>"],
        &["<parameter=x>a</parameter>"],
    );
    // A call as a whole.
    let call = tag("<tool_call>\n<function=f>\n", &style("qwen_xml"), &json!("</function>\n</tool_call>"));
    let tags = json!({"type": "triggered_tags", "triggers": ["<tool_call>"], "tags": [call]});
    check(
        &tags,
        &["I call.\n<tool_call>\n<function=f>\n<parameter=s>\na\n</parameter>\n</function>\n</tool_call>"],
        &["<tool_call>\n<function=f>\n</function>\n</tool_call>"],
    );
}

#[test]
fn tokens_become_terminals() {
    let read = |format: &Value| structural_tag(format).expect("a format");
    let gbnf = |source: &str| Part::Gbnf(source.to_owned());
    let token = |token: Value| json!({"type": "token", "token": token});
    assert_eq!(read(&token(7.into())), gbnf("root ::= <[7]>"));
    assert_eq!(read(&token("<think>".into())), gbnf("root ::= <think>"));
    let other = json!({"type": "exclude_token", "exclude_tokens": [7, 7]});
    assert_eq!(read(&other), gbnf("root ::= !<[7]>"));
    // The end of a tag is excluded from the tokens in the tag.
    let thought = json!({"type": "tag", "begin": token("<think>".into()), "content": {"type": "any_tokens"},
        "end": token("</think>".into())});
    let parts = ["root ::= <think>", "root ::= !</think>*", "root ::= </think>"].map(gbnf);
    assert_eq!(read(&thought), Part::sequence(parts));
    let call = json!({"begin": token(5.into()), "content": text("a"), "end": token(6.into())});
    let calls = json!({"type": "token_triggered_tags", "trigger_tokens": [5], "tags": [call]});
    let unit = Part::sequence([
        gbnf("root ::= <[5]>"),
        Part::OneOf(vec![Part::sequence([Part::literal("a"), gbnf("root ::= <[6]>")])]),
    ]);
    let rest = || gbnf("root ::= !<[5]>*");
    let more = |least| Part::repeat(Part::sequence([unit.clone(), rest()]), least, None);
    assert_eq!(read(&calls), Part::sequence([rest(), more(0)]));
    assert_eq!(read(&with(&calls, &json!({"at_least_one": true}))), more(1));
    let single = with(&calls, &json!({"at_least_one": true, "stop_after_first": true}));
    assert_eq!(read(&single), unit);
    let dispatch =
        json!({"type": "token_dispatch", "rules": [[5, text("a")], [5, text("b")]], "loop": false});
    let ways = Part::OneOf(vec![Part::literal("a"), Part::literal("b")]);
    let unit = Part::sequence([gbnf("root ::= <[5]>"), ways]);
    assert_eq!(read(&dispatch), Part::sequence([rest(), Part::repeat(unit, 0, Some(1))]));
}

#[test]
fn refuses_what_cannot_be_enforced() {
    let object = json!({"type": "json_schema", "json_schema": true});
    let mut deep = text("a");
    for _ in 0..64 {
        deep = json!({"type": "optional", "content": deep});
    }
    let much = json!({"type": "any_text", "excludes": ["é".repeat(1 << 14)]});
    let cases = [
        (
            json!({"type": "cfg"}),
            "`structural_tag.format.type`: unsupported value `cfg`; supported values: const_string, ",
        ),
        (json!({}), "`structural_tag.format.type`: this field is required"),
        (
            with(&any(), &json!({"max_tokens": 5})),
            "`structural_tag.format.max_tokens`: only null is supported",
        ),
        (with(&any(), &json!({"excludes": [""]})), "`structural_tag.format.excludes[0]`: must not be empty"),
        (with(&any(), &json!({"stop": "x"})), "`structural_tag.format.stop`: unrecognized"),
        (
            with(&object, &json!({"style": "cohere_xml"})),
            "`structural_tag.format.style`: unsupported value `cohere_xml`",
        ),
        (
            with(&object, &json!({"any_order": true})),
            "`structural_tag.format.any_order`: only false is supported",
        ),
        (
            with(&object, &json!({"max_whitespace_cnt": 1})),
            "`structural_tag.format.max_whitespace_cnt`: only null",
        ),
        (with(&object, &json!({"excludes": ["x"]})), "`structural_tag.format.excludes`: only an empty array"),
        (sequence(&[]), "`structural_tag.format.elements`: must not be empty"),
        (
            sequence(&[any(), json!(3)]),
            "`structural_tag.format.elements[1]`: expected an object, found a number",
        ),
        (tag("<a>", &any(), &json!("")), "`structural_tag.format.end`: must not be empty, since free text"),
        (tag("<a>", &any(), &json!([])), "`structural_tag.format.end`: must not be empty"),
        (
            tag("<a>", &sequence(&[any()]), &json!([""])),
            "`structural_tag.format.end`: must not be empty, since",
        ),
        (
            tag("<a>", &json!({"type": "dispatch", "rules": [["b", text("c")]]}), &json!("")),
            "`structural_tag.format.end`: must not be empty, since",
        ),
        (
            json!({"type": "triggered_tags", "triggers": [], "tags": []}),
            "`structural_tag.format.tags`: must not be empty",
        ),
        (
            json!({"type": "triggered_tags", "triggers": ["<"], "tags": [with(&one(), &json!({"begin": {"type": "token", "token": 1}}))]}),
            "`structural_tag.format.tags[0].begin`: expected a string, found an object",
        ),
        (
            json!({"type": "dispatch", "rules": [["a"]]}),
            "`structural_tag.format.rules[0]`: expected 2 entries, found 1",
        ),
        (
            json!({"type": "repeat", "min": 2, "max": 1, "content": any()}),
            "`structural_tag.format.max`: 1 is out of range; expected -1, or at least `min`",
        ),
        (
            json!({"type": "repeat", "min": -1, "max": 1, "content": any()}),
            "`structural_tag.format.min`: -1 is out of range; expected 0..=1048576",
        ),
        (
            json!({"type": "token", "token": "[X]"}),
            "`structural_tag.format.token`: unsupported value `[X]`; supported values: ids, and texts in angle brackets",
        ),
        (
            json!({"type": "exclude_token", "exclude_tokens": [1, 2]}),
            "`structural_tag.format.exclude_tokens`: a format of tokens must exclude exactly 1 token",
        ),
        (
            json!({"type": "any_tokens"}),
            "`structural_tag.format.exclude_tokens`: a format of tokens must exclude",
        ),
        (
            json!({"type": "token_triggered_tags", "trigger_tokens": [1], "tags": [one()]}),
            "`structural_tag.format.tags[0].begin`: must be one of `trigger_tokens`",
        ),
        (deep, "`structural_tag.format.content.content"),
        (
            sequence(&[much.clone(), much.clone(), much]),
            "`structural_tag.format.elements[2].excludes`: the excluded",
        ),
    ];
    for (format, expected) in cases {
        let error = structural_tag(&json!({"format": format})).expect_err(expected).to_string();
        assert!(error.starts_with(expected), "{error}");
    }
    let error = structural_tag(&json!([])).expect_err("no object").to_string();
    assert_eq!(error, "`structural_tag`: expected an object, found an array");
    let error = structural_tag(&json!({"type": "or", "elements": [{}]})).expect_err("no type");
    assert_eq!(error.param(), Some("structural_tag.elements[0].type"));
}

#[test]
fn errors_of_the_grammar_name_the_format() {
    let bad = json!({"type": "regex", "pattern": "("});
    for (format, place) in [
        (sequence(&[any(), bad.clone()]), "format.elements[1]: "),
        (tag("<a>", &json!({"type": "star", "content": bad}), &json!("")), "format.content.content: "),
        (
            json!({"type": "triggered_tags", "triggers": ["<"], "tags": [one(), tag("<b>", &bad, &json!(""))]}),
            "tags[1].content: ",
        ),
        (
            sequence(&[json!({"type": "triggered_tags", "triggers": ["<"], "tags": [
                tag("<b>", &json!({"type": "optional", "content": bad}), &json!(""))]})]),
            "format.elements[0]: tags[0].content: content: ",
        ),
        (json!({"type": "dispatch", "rules": [["<", bad]]}), "tags[0].content: format.rules[0][1]: "),
        (json!({"type": "json_schema", "json_schema": {"type": "string"}, "style": "qwen_xml"}), ""),
    ] {
        let part = structural_tag(&json!({"format": format})).expect("a format");
        let error = Grammar::of_parts(&part, &SchemaOptions::default(), &Limits::default());
        let error = error.expect_err("a wrong pattern").to_string();
        assert!(error.starts_with(place), "{error}");
    }
}
