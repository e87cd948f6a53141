use std::sync::Arc;

use serde_json::{Value, json};

use crate::{
    Around, Brackets, Grammar, Limits, Literals, Names, Nested, Notation, Part, RawSection, SchemaOptions,
    Strings,
};

fn text(text: &str) -> Part {
    Part::literal(text)
}

fn brackets(texts: [&str; 4]) -> Brackets {
    let [open, separator, close, empty] = texts.map(text);
    Brackets { open, separator, close, empty }
}

/// The notation of `<p=NAME>`, a line, and `</p>`, with JSON inside.
pub(crate) fn tagged() -> Notation {
    let around = Around { before: text(">\n"), after: text("\n</p>\n") };
    let (yes, no) = (["True", "true"], ["False", "false"]);
    Notation {
        object: brackets(["", "", "", ""]),
        array: brackets(["[", ", ", "]", "[]"]),
        name_open: text("<p="),
        name_close: None,
        item_name: None,
        names: Names::Without(">".to_owned()),
        around: std::array::from_fn(|_| around.clone()),
        strings: Strings::Raw { avoid: vec!["</p>".to_owned()], nested_open: None, section: None },
        literals: Literals {
            null: vec!["None".to_owned(), "null".to_owned()],
            no: no.map(str::to_owned).to_vec(),
            yes: yes.map(str::to_owned).to_vec(),
        },
        nested: Nested::Json,
    }
}

/// The notation of `{name:value}` with `<|"|>` around strings at every depth.
fn braced() -> Notation {
    let around = Around { before: text(":"), after: text("") };
    Notation {
        object: brackets(["{", ",", "}", "{}"]),
        array: brackets(["[", ",", "]", "[]"]),
        name_open: text(""),
        name_close: None,
        item_name: None,
        names: Names::Without(":,{}[]<".to_owned()),
        around: std::array::from_fn(|_| around.clone()),
        strings: Strings::Quoted {
            open: text("<|\"|>"),
            close: text("<|\"|>"),
            avoid: vec!["<|\"|>".to_owned()],
        },
        literals: Literals::json(),
        nested: Nested::Same,
    }
}

/// The notation of `name='value'`, with literals of Python inside.
fn python() -> Notation {
    let values = Notation {
        object: brackets(["{", ", ", "}", "{}"]),
        array: brackets(["[", ", ", "]", "[]"]),
        name_open: text("'"),
        name_close: None,
        item_name: None,
        names: Names::Without("'\\".to_owned()),
        around: std::array::from_fn(|_| Around { before: text("': "), after: text("") }),
        strings: Strings::Python,
        literals: Literals {
            null: vec!["None".to_owned()],
            no: vec!["False".to_owned()],
            yes: vec!["True".to_owned()],
        },
        nested: Nested::Same,
    };
    Notation {
        object: brackets(["", ", ", "", ""]),
        name_open: text(""),
        names: Names::Identifiers,
        around: std::array::from_fn(|_| Around { before: text("="), after: text("") }),
        nested: Nested::Other(Box::new(values.clone())),
        ..values
    }
}

/// The notation of `~<name>value~</name>` at every depth, with items as `~<item>`.
fn nested() -> Notation {
    let around = Around { before: text(">"), after: text("~</") };
    let inside = Notation {
        object: brackets(["", "", "", ""]),
        array: brackets(["", "", "", ""]),
        name_open: text("~<"),
        name_close: Some(text(">")),
        item_name: Some("item".to_owned()),
        names: Names::Tags,
        around: std::array::from_fn(|_| around.clone()),
        strings: Strings::Raw {
            avoid: vec!["~</".to_owned()],
            nested_open: Some("~<".to_owned()),
            section: None,
        },
        literals: Literals { null: vec![String::new()], ..Literals::json() },
        nested: Nested::Same,
    };
    Notation { nested: Nested::Other(Box::new(inside.clone())), ..inside }
}

/// The notation of `<p=NAME>value</p>`, with sections for strings.
fn sections() -> Notation {
    let around = Around { before: text(">"), after: text("</p>") };
    Notation {
        around: std::array::from_fn(|_| around.clone()),
        strings: Strings::Raw {
            avoid: ["<", "&", "\n"].map(str::to_owned).to_vec(),
            nested_open: None,
            section: Some(RawSection { open: "<![".to_owned(), close: "]]>".to_owned() }),
        },
        ..tagged()
    }
}

/// The notation of [`python`], in which objects are JSON unless they are in an array.
fn python_arrays() -> Notation {
    let mut notation = python();
    if let Nested::Other(inner) = notation.nested {
        notation.nested = Nested::OtherArrays(inner);
    }
    notation
}

#[test]
fn writes_arrays_in_another_notation_than_objects() {
    let object_of = |value: &Value| object(&json!({ "k": value }), &[]);
    let deep = object_of(&json!({ "type": "array", "items": { "type": "boolean" } }));
    let schema =
        object(&json!({ "a": { "type": "array", "items": [{ "type": "string" }, deep] }, "o": deep }), &[]);
    check(
        &schema,
        python_arrays(),
        &["", "a=[]", "a=['x']", "a=['x', {'k': [True]}], o={\"k\": [true, false]}", "o={}"],
        &["a=[\"x\"]", "a=['x', {\"k\": [true]}]", "o={'k': [True]}", "o={\"k\": [True]}"],
    );
}

fn compiled(schema: &Value, notation: Notation) -> Result<Grammar, crate::GrammarError> {
    let part = Part::Arguments { schema: schema.clone().into(), notation: Arc::new(notation) };
    let part = Part::sequence([part, text("!")]);
    Grammar::of_parts(&part, &SchemaOptions::default(), &Limits::default())
}

fn object(properties: &Value, required: &[&str]) -> Value {
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

#[track_caller]
fn check(schema: &Value, notation: Notation, good: &[&str], bad: &[&str]) {
    let grammar = compiled(schema, notation).expect("a grammar");
    let shortest = grammar.shortest();
    assert!(grammar.accepts(&shortest), "{}", String::from_utf8_lossy(&shortest));
    for text in good {
        assert!(grammar.accepts(format!("{text}!").as_bytes()), "rejected: {text}");
    }
    for text in bad {
        assert!(!grammar.accepts(format!("{text}!").as_bytes()), "accepted: {text}");
    }
}

#[test]
fn writes_members_in_tags() {
    let schema = object(
        &json!({
            "s": { "type": "string" },
            "n": { "type": "integer", "minimum": 1 },
            "b": { "type": "boolean" },
            "u": { "type": ["string", "null", "number"] },
            "a": { "type": "array", "items": { "type": "string", "maxLength": 2 }, "uniqueItems": true },
            "m": { "type": "string", "maxLength": 4 },
            "e": { "enum": ["x", "a\nb", 5, "5"] },
            "p": { "type": "string", "pattern": "^[a-z<]+$" },
            "o": { "anyOf": [{ "type": "object", "properties": { "k": { "const": 1 } } }, { "type": "string" }] },
        }),
        &[],
    );
    check(
        &schema,
        tagged(),
        &[
            "",
            "<p=s>\n\n</p>\n",
            "<p=s>\na <b>\n</b> </p \n</p>\n",
            "<p=s>\n5\n</p>\n<p=n>\n12\n</p>\n<p=b>\nTrue\n</p>\n",
            "<p=b>\nfalse\n</p>\n",
            "<p=u>\nNone\n</p>\n",
            "<p=u>\n-1.5\n</p>\n",
            "<p=u>\nnone\n</p>\n",
            "<p=u>\n5 \n</p>\n",
            "<p=a>\n[\"a\", \"b\"]\n</p>\n",
            "<p=m>\n</p\n\n</p>\n",
            "<p=e>\na\nb\n</p>\n",
            "<p=e>\n5\n</p>\n",
            "<p=p>\na<\n</p>\n",
            "<p=o>\n{\"k\": 1}\n</p>\n",
            "<p=o>\n [\n</p>\n",
        ],
        &[
            "<p=s>a</p>\n",
            "<p=s>\na</p>\n",
            "<p=s>\na</p>\n</p>\n",
            "<p=n>\n0\n</p>\n",
            "<p=b>\n1\n</p>\n",
            "<p=b>\nTrue\n</p>\n<p=s>\n5\n</p>\n",
            "<p=a>\n[\"a\", \"a\"]\n</p>\n",
            "<p=m>\nabcde\n</p>\n",
            "<p=m>\n</p>\n\n</p>\n",
            "<p=p>\nA\n</p>\n",
            "<p=o>\n{\"k\": 2}\n</p>\n",
            "<p=o>\n{x\n</p>\n",
            "<p=x>\n1\n</p>\n",
        ],
    );
}

#[test]
fn writes_bare_names_at_every_depth() {
    let schema = object(
        &json!({
            "s": { "type": "string", "maxLength": 3 },
            "o": object(&json!({ "t": { "type": "array", "items": { "type": ["string", "number"] }, "minItems": 1 } }), &["t"]),
            "z": { "type": "null" },
        }),
        &["s"],
    );
    check(
        &schema,
        braced(),
        &["{s:<|\"|><|\"<|\"|>}", "{s:<|\"|>{}'<|\"|>,o:{t:[<|\"|>[1<|\"|>,2,-3.5]},z:null}"],
        &["{}", "{s:<|\"|>abcd<|\"|>}", "{s:\"a\"}", "{s:<|\"|>a<|\"|>,o:{t:[]}}", "{\"s\":<|\"|>a<|\"|>}"],
    );
    let open = json!({ "type": "object", "properties": { "a": { "type": "null" } }, "additionalProperties": { "type": ["number", "object"] } });
    check(
        &open,
        braced(),
        &["{}", "{a:null,b:1}", "{b:{c:<|\"|>x<|\"|>,d:[{}]},ä:2}"],
        &["{a:1}", "{b:null}", "{:1}"],
    );
    let empty = object(&json!({}), &[]);
    check(&empty, braced(), &["{}"], &["", "{a:1}"]);
}

#[test]
fn writes_literals_of_python() {
    let schema = object(
        &json!({
            "path": { "type": "string" },
            "deep": { "type": "boolean" },
            "more": object(&json!({ "k": { "enum": ["it's", null, true] }, "l": { "type": "array", "items": { "type": "string" } } }), &[]),
        }),
        &["path"],
    );
    check(
        &schema,
        python(),
        &[
            "path='a.txt'",
            r#"path='it\'s "1"\n\\', deep=True"#,
            r"path='', more={'k': 'it\'s'}",
            "path='é', deep=False, more={'k': None, 'l': ['a', 'b']}",
            "path='', more={}",
        ],
        &[
            "",
            "path=\"a\"",
            "path='a'b'",
            "path='a',deep=True",
            "path='\n'",
            "path='a', deep=true",
            r"path='\q'",
        ],
    );
}

#[test]
fn refuses_what_a_notation_cannot_write() {
    for (schema, reason) in [
        (object(&json!({ "a>b": {} }), &[]), "the name \"a>b\""),
        (object(&json!({ "a": { "enum": ["x</p>"] } }), &[]), "the string \"x</p>\""),
        (
            json!({ "type": "object", "additionalProperties": { "type": "string" }, "maxProperties": 3 }),
            "undeclared members",
        ),
        (object(&json!({ "a": { "pattern": "</p>", "type": "string" } }), &[]), "every string of a pattern"),
    ] {
        let error = compiled(&schema, tagged()).unwrap_err();
        assert!(error.is_notation() && error.to_string().contains(reason), "{error}");
    }
    // These have no rules, or words whose type cannot be told: as JSON, all of them compile.
    let words = json!({ "$id": "l", "enum": ["1", "auto"] });
    let by_id =
        json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/l" } }, "$defs": { "l": words } });
    let sets = json!({ "a": { "type": "array", "items": { "type": "string" }, "uniqueItems": true } });
    let long = json!({ "a": { "type": "string", "maxLength": 40_000 } });
    assert!(compiled(&object(&long, &[]), tagged()).is_ok());
    for (schema, notation) in [
        (by_id, tagged()),
        (object(&sets, &[]), braced()),
        (object(&long, &[]), braced()),
        (object(&json!({ " a": {} }), &[]), tagged()),
    ] {
        let error = compiled(&schema, notation).unwrap_err();
        assert!(error.is_notation(), "{schema}: {error}");
        assert!(Grammar::json_schema(&schema, &SchemaOptions::default(), &Limits::default()).is_ok());
    }
    // Names do not begin or end with white space, because readers remove it.
    let open = json!({ "type": "object", "additionalProperties": { "type": "null" } });
    check(&open, tagged(), &["<p=a b>\nNone\n</p>\n"], &["<p= a>\nNone\n</p>\n", "<p=a >\nNone\n</p>\n"]);
    let huge = object(&json!({ "a": { "type": "string", "maxLength": 1_000_000 } }), &[]);
    assert!(compiled(&huge, tagged()).unwrap_err().is_notation());
    // A string that is not between other values needs no such care.
    assert!(compiled(&object(&json!({ "a>b": { "enum": ["x</p>"] } }), &[]), braced()).is_ok());
}

#[test]
fn writes_tags_at_every_depth() {
    let item = json!({ "type": "object", "properties": { "k": { "type": "string" } }, "additionalProperties": { "type": "number" } });
    let schema = object(
        &json!({
            "s": { "type": "string" },
            "l": { "type": "array", "items": { "type": "string" } },
            "o": item,
            "u": { "type": ["string", "null", "array", "number"], "items": { "type": ["boolean", "null"] } },
            "n": { "type": ["null", "integer"] },
            "e": { "enum": ["", null, "null", [], {}] },
            "t": { "type": ["array", "object"], "maxItems": 1, "additionalProperties": { "type": "null" } },
            "r": { "$ref": "#/properties/l" },
        }),
        &[],
    );
    let whole = |name: &str, inside: &str| format!("~<{name}>{inside}~</{name}>");
    let written = |parts: &[(&str, &str)]| -> Vec<String> {
        parts.iter().map(|(name, inside)| whole(name, inside)).collect()
    };
    let good = written(&[
        ("s", ""),
        ("s", "5"),
        ("s", "~<k>"),
        ("s", "null\n<b>"),
        ("l", ""),
        ("l", "~<item>5~</item>~<item>~</item>"),
        ("r", "~<item>true~</item>"),
        ("o", ""),
        ("o", "~<k>~</k>~<x>1~</x>"),
        ("u", ""),
        ("u", "null"),
        ("u", "-1.5"),
        ("u", "[]"),
        ("u", "~<item>true~</item>~<item>~</item>"),
        ("n", ""),
        ("n", "5"),
        ("e", ""),
        ("e", "null"),
        ("t", ""),
        ("t", "~<item>~<x>~</x>~</item>"),
        ("t", "~<items>~</items>"),
    ]);
    let bad = written(&[
        ("s", "a~</b"),
        ("l", "a"),
        ("l", "[]"),
        ("l", "~<it>a~</it>"),
        ("o", "~<k>a~</x>"),
        ("o", "~<x>a~</x>"),
        ("u", "~<it"),
        ("n", "null"),
        ("n", "a"),
        ("e", "a"),
        ("t", "~<item>~</item>~<x>~</x>"),
    ]);
    let both = [good[1].clone() + &good[5]];
    let good: Vec<&str> = good.iter().chain(&both).map(String::as_str).collect();
    check(&schema, nested(), &good, &bad.iter().map(String::as_str).collect::<Vec<_>>());
    for (properties, required, reason) in [
        (json!({ "a b": {} }), vec![], "the name \"a b\""),
        (json!({ "a": { "enum": ["x~</"] } }), vec![], "the string \"x~</\""),
        (json!({ "a": { "type": ["array", "object"], "properties": { "item": {} } } }), vec![], "\"item\""),
        (json!({ "a": { "$ref": "#/$defs/b" } }), vec!["a"], "cannot be told from other values"),
    ] {
        let mut schema = object(&properties, &required);
        // The types are not found behind a URI.
        schema["$defs"] = json!({ "b": { "$id": "https://example.com/b", "type": "null" } });
        let error = compiled(&schema, nested()).unwrap_err();
        assert!(error.is_notation() && error.to_string().contains(reason), "{reason}: {error}");
    }
    // A schema that contains itself.
    let tree = object(&json!({ "v": { "type": "string" }, "t": { "$ref": "#" } }), &[]);
    check(
        &tree,
        nested(),
        &["", "~<v>5~</v>", "~<t>~<v>5~</v>~<t>~</t>~</t>"],
        &["~<t>5~</t>", "~<t>~<v>5~</t>"],
    );
}

#[test]
fn writes_special_characters_in_sections() {
    let schema = object(
        &json!({
            "s": { "type": "string" },
            "u": { "type": ["string", "number"] },
            "m": { "type": "string", "pattern": "^<?[a-c]{1,3}$" },
            "e": { "enum": ["x", "a\nb", "5", 5] },
            "n": { "type": "integer" },
        }),
        &[],
    );
    check(
        &schema,
        sections(),
        &[
            "<p=s>a]]>b</p>",
            "<p=s><![a<b></p>\n&]]></p>",
            "<p=s></p><p=u>5</p>",
            "<p=u><![5]]></p>",
            "<p=m>abc</p>",
            "<p=m><![<abc]]></p>",
            "<p=m><![abc]]></p>",
            "<p=e><![a\nb]]></p>",
            "<p=e><![5]]></p>",
            "<p=e>5</p>",
            "<p=n>5</p>",
        ],
        &[
            "<p=s>a<b</p>",
            "<p=s>a&b</p>",
            "<p=s>a\nb</p>",
            "<p=s><![a]]>b]]></p>",
            "<p=m><abc</p>",
            "<p=m><![abcd]]></p>",
            "<p=e>a\nb</p>",
            "<p=n><![5]]></p>",
        ],
    );
    let only_marked = object(&json!({ "a": { "enum": ["<]]>"] } }), &[]);
    assert!(compiled(&only_marked, sections()).unwrap_err().is_notation());
}

/// A raw string with a maximum length cannot contain the text after the value, however long it may be.
#[test]
fn bounds_the_length_of_raw_strings() {
    for max in [0, 1, 7, 300, 20_000] {
        let schema =
            object(&json!({ "m": { "type": "string", "minLength": 1.min(max), "maxLength": max } }), &["m"]);
        let grammar = compiled(&schema, tagged()).expect("a grammar");
        let accepts = |value: &str| grammar.accepts(format!("<p=m>\n{value}\n</p>\n!").as_bytes());
        for c in ["a", "é", "€", "😀", "\n", "<"] {
            assert!(accepts(&c.repeat(max)), "{max} of {c:?}");
            assert!(!accepts(&c.repeat(max + 1)), "{} of {c:?}", max + 1);
        }
        assert_eq!(accepts(""), max == 0);
        assert!(!accepts("</p>"));
        assert_eq!(accepts("</p"), max >= 3);
    }
}

#[test]
fn a_bounded_raw_string_is_not_read_as_another_type() {
    let schema = object(&json!({ "u": { "type": ["string", "null"], "maxLength": 5 } }), &["u"]);
    check(
        &schema,
        tagged(),
        &["<p=u>\nnull\n</p>\n", "<p=u>\nnulls\n</p>\n", "<p=u>\nnul\n</p>\n"],
        &["<p=u>\nnullnull\n</p>\n"],
    );
}

#[test]
fn raw_strings_have_no_gbnf() {
    let schema = |kind: &str| object(&json!({ "m": { "type": kind } }), &["m"]);
    let error =
        compiled(&schema("string"), tagged()).expect("a grammar").to_gbnf().expect_err("a raw string");
    assert!(error.to_string().contains("it has raw strings"), "{error}");
    let number = compiled(&schema("integer"), tagged()).expect("a grammar");
    let gbnf = Grammar::gbnf(&number.to_gbnf().expect("rules"), &Limits::default()).expect("GBNF");
    for (text, accepted) in [("<p=m>\n5\n</p>\n!", true), ("<p=m>\nx\n</p>\n!", false)] {
        assert_eq!((number.accepts(text.as_bytes()), gbnf.accepts(text.as_bytes())), (accepted, accepted));
    }
}
