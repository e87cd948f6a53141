use serde_json::json;

use crate::builder::{choice, composite, field, float, int, string, template};
use crate::field::{Kind, Template, Text};
use crate::{Definition, SchemaOptions};

/// Returns the kind of the member `a` after an export and an import.
fn round_trip(kind: impl Into<Kind>, options: SchemaOptions) -> Kind {
    let definition = Definition::new("x", composite([field("a", kind)])).expect("well-formed");
    let schema = definition.schema_with(options);
    let back = Definition::from_schema(&schema).unwrap_or_else(|error| panic!("{error}: {schema}"));
    match back.root() {
        Kind::Composite(composite) => composite.fields[0].kind.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_exported_schema_gives_the_same_definition() {
    let lower = || crate::characters::parse("a-z\\n").expect("a class");
    let kinds: Vec<Kind> = vec![
        int(-1, 5).into(),
        float(0.0, 3.0).decimals(2).into(),
        float(-0.1, 0.2).decimals(1).into(),
        string(3, 20).into(),
        Text::at_least(2).of(lower()).into(),
        template("says <generated>", 10, 100).into(),
        Template::at_least("<generated><generated>", 1).into(),
        template("a.b*[c]^$ (<generated>) \\ {<generated>}\n\u{7f}é", 1, 9).into(),
        Template::at_least("<generated><generated>!", 0).into(),
        template("to <generated>", 0, 9).of(lower()).into(),
        choice(["a", "b"]).into(),
    ];
    for kind in kinds {
        for multiple_of in [false, true] {
            assert_eq!(round_trip(kind.clone(), SchemaOptions { multiple_of }), kind);
        }
    }
}

#[test]
fn only_lists_of_all_decimals_become_a_number() {
    let read = |options: serde_json::Value| {
        Definition::from_schema(&json!({ "enum": options })).expect("a definition").root().clone()
    };
    assert_eq!(read(json!([0.5, 0.6, 0.7])), float(0.5, 0.7).decimals(1).into());
    for options in
        [json!([0, 0.5, 1]), json!([0.5, 0.7]), json!([1, 2, 3]), json!([0.2, 0.1]), json!([0.1, "a"])]
    {
        assert!(matches!(read(options.clone()), Kind::Choice(_)), "{options}");
    }
}

#[test]
fn other_patterns_are_refused() {
    for pattern in ["^a+$", "^[a-z]*b?$", "^(a|b)[c]*$", "^[a]*-[b]*$", "a[b]*", "^\\d[a]*$"] {
        let error = Definition::from_schema(&json!({ "type": "string", "pattern": pattern }));
        assert!(error.is_err_and(|error| error.to_string().contains("pattern")), "{pattern}");
    }
}
