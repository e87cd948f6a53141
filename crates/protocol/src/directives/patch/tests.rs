use proptest::prelude::*;

use super::*;

#[test]
fn normalizes_operations_of_models() {
    for (given, expected) in [
        // Names from RFC 6902, and variants.
        (
            json!({ "op": "add", "path": "/draft/a", "value": 1 }),
            json!({ "op": "set", "path": "/draft/a", "value": 1 }),
        ),
        (
            json!({ "op": "replace", "path": "/draft/a", "value": 1 }),
            json!({ "op": "set", "path": "/draft/a", "value": 1 }),
        ),
        (json!({ "op": "remove", "path": "/draft/a" }), json!({ "op": "delete", "path": "/draft/a" })),
        (
            json!({ "op": "push", "path": "/draft/a", "value": 1 }),
            json!({ "op": "append", "path": "/draft/a", "value": 1 }),
        ),
        (
            json!({ "op": "add", "path": "/draft/a/-", "value": 1 }),
            json!({ "op": "append", "path": "/draft/a", "value": 1 }),
        ),
        (
            json!({ "op": "set", "path": "/draft/a/-", "value": 1 }),
            json!({ "op": "append", "path": "/draft/a", "value": 1 }),
        ),
        (
            json!({ "op": "insert", "path": "a/-", "index": 0, "value": 1 }),
            json!({ "op": "append", "path": "/draft/a", "index": 0, "value": 1 }),
        ),
        (
            json!({ "op": "append", "path": "/draft/a/-", "value": 1 }),
            json!({ "op": "append", "path": "/draft/a", "value": 1 }),
        ),
        (
            json!({ "path": "/ui_state/a/-", "value": 1 }),
            json!({ "op": "append", "path": "/ui_state/a", "value": 1 }),
        ),
        (json!({ "op": "delete", "path": "/draft/a/-" }), json!({ "op": "delete", "path": "/draft/a/-" })),
        (
            json!({ "op": " Replace ", "path": "/draft/a", "value": 1 }),
            json!({ "op": "set", "path": "/draft/a", "value": 1 }),
        ),
        (
            json!({ "op": "SET", "path": "/draft/a", "value": 1 }),
            json!({ "op": "set", "path": "/draft/a", "value": 1 }),
        ),
        // A missing, null or blank name.
        (
            json!({ "path": "/draft/a", "value": null }),
            json!({ "op": "set", "path": "/draft/a", "value": null }),
        ),
        (
            json!({ "op": " ", "path": "/draft/a", "value": 1 }),
            json!({ "op": "set", "path": "/draft/a", "value": 1 }),
        ),
        (json!({ "op": null, "path": "/draft/a" }), json!({ "op": "delete", "path": "/draft/a" })),
        (json!({ "path": "/draft/a" }), json!({ "op": "delete", "path": "/draft/a" })),
        // Paths.
        (
            json!({ "op": "set", "path": "a/b", "value": 1 }),
            json!({ "op": "set", "path": "/draft/a/b", "value": 1 }),
        ),
        (
            json!({ "op": "set", "path": "draft/a", "value": 1 }),
            json!({ "op": "set", "path": "/draft/a", "value": 1 }),
        ),
        (
            json!({ "op": "set", "path": "ui_state/a", "value": 1 }),
            json!({ "op": "set", "path": "/ui_state/a", "value": 1 }),
        ),
        (
            json!({ "op": "set", "path": " drafts/a ", "value": 1 }),
            json!({ "op": "set", "path": "/draft/drafts/a", "value": 1 }),
        ),
        // Invalid operations stay unchanged so that validation reports them.
        (json!({ "op": "move", "path": "/draft/a" }), json!({ "op": "move", "path": "/draft/a" })),
        (json!({ "op": 7, "path": 7 }), json!({ "op": 7, "path": 7 })),
        (
            json!({ "op": "set", "path": "/other/a", "value": 1 }),
            json!({ "op": "set", "path": "/other/a", "value": 1 }),
        ),
        (json!({ "op": "set", "path": "", "value": 1 }), json!({ "op": "set", "path": "", "value": 1 })),
        (json!("set"), json!("set")),
    ] {
        assert_eq!(normalize_patch_ops(json!([given])), json!([expected]), "{given}");
    }
    let one = json!({ "path": "a", "value": 1 });
    assert_eq!(normalize_patch_ops(one), json!([{ "op": "set", "path": "/draft/a", "value": 1 }]));
    assert_eq!(normalize_patch_ops(json!("set")), json!("set"));
    assert_eq!(normalize_patch_ops(Value::Null), Value::Null);
}

#[test]
fn a_payload_may_be_a_single_operation() {
    let normal = |payload: Value| {
        let mut payload = payload.as_object().cloned().expect("an object");
        normalize_payload(&mut payload);
        Value::Object(payload)
    };
    let ops = json!([{ "op": "set", "path": "/draft/a", "value": 1 }]);
    assert_eq!(normal(json!({ "path": "a", "value": 1, "why": "x" })), json!({ "why": "x", "ops": ops }));
    assert_eq!(
        normal(json!({ "ops": { "path": "a", "value": 1 }, "path": "b" })),
        json!({ "ops": ops, "path": "b" })
    );
    assert_eq!(normal(json!({ "other": 1 })), json!({ "other": 1 }));
    for payload in [
        json!({ "patch": [{ "path": "a", "value": 1 }] }),
        json!({ "operations": [{ "op": "add", "path": "a", "value": 1 }] }),
        json!({ "operations": { "op": "add", "path": "a", "value": 1 } }),
        json!({ "patch": { "ops": [{ "path": "a", "value": 1 }] } }),
        json!({ "ops": { "operations": [{ "path": "a", "value": 1 }] } }),
        json!({ "ops": r#"[{"path": "a", "value": 1}]"# }),
        json!({ "patch": r#"{"path": "a", "value": 1}"# }),
    ] {
        assert_eq!(normal(payload.clone()), json!({ "ops": ops }), "{payload}");
    }
    // What is not a patch stays unchanged, so that validation reports it.
    for payload in [
        json!({ "patch": "v2" }),
        json!({ "operations": 3 }),
        json!({ "ops": "[" }),
        json!({ "patch": { "a": 1 } }),
    ] {
        assert_eq!(normal(payload.clone()), payload);
    }
    let both = json!({ "ops": ops, "patch": [] });
    assert_eq!(normal(both.clone()), both);
}

#[test]
fn reports_invalid_operations() {
    for (op, code) in [
        (json!("set"), "OP_NOT_AN_OBJECT"),
        (json!({ "path": "/draft/a", "value": 1 }), "UNKNOWN_OP"),
        (json!({ "op": "add", "path": "/draft/a", "value": 1 }), "UNKNOWN_OP"),
        (json!({ "op": 1, "path": "/draft/a", "value": 1 }), "UNKNOWN_OP"),
        (json!({ "op": "set", "value": 1 }), "MISSING_PATH"),
        (json!({ "op": "set", "path": 1, "value": 1 }), "INVALID_PATH"),
        (json!({ "op": "set", "path": "draft/a", "value": 1 }), "INVALID_PATH"),
        (json!({ "op": "set", "path": "/other/a", "value": 1 }), "INVALID_PATH"),
        (json!({ "op": "set", "path": "/drafts/a", "value": 1 }), "INVALID_PATH"),
        (json!({ "op": "set", "path": "/draft", "value": 1 }), "INVALID_PATH"),
        (json!({ "op": "set", "path": "/draft/", "value": 1 }), "INVALID_PATH"),
        (json!({ "op": "set", "path": "/draft/a//b", "value": 1 }), "INVALID_PATH"),
        (json!({ "op": "set", "path": "/draft/a~b", "value": 1 }), "INVALID_PATH"),
        (json!({ "op": "set", "path": "/draft/a/-", "value": 1 }), "INVALID_PATH"),
        (json!({ "op": "set", "path": "/draft/a" }), "MISSING_VALUE"),
        (json!({ "op": "append", "path": "/draft/a" }), "MISSING_VALUE"),
        (json!({ "op": "insert", "path": "/draft/a", "index": 0 }), "MISSING_VALUE"),
        (json!({ "op": "insert", "path": "/draft/a", "value": 1 }), "MISSING_INDEX"),
        (json!({ "op": "insert", "path": "/draft/a", "value": 1, "index": -1 }), "INVALID_INDEX"),
        (json!({ "op": "insert", "path": "/draft/a", "value": 1, "index": "0" }), "INVALID_INDEX"),
        (json!({ "op": "insert", "path": "/draft/a", "value": 1, "index": 1.5 }), "INVALID_INDEX"),
    ] {
        let fine = json!({ "op": "delete", "path": "/ui_state/a/0" });
        let issues = validate_patch_ops(&json!([fine, op]));
        assert_eq!(issues.len(), 1, "{op}");
        assert_eq!((issues[0].code.as_str(), &issues[0].details), (code, &Some(json!({ "op": 1 }))), "{op}");
    }
    for ops in [json!({}), json!("x"), Value::Null] {
        assert_eq!(validate_patch_ops(&ops)[0].code, "OPS_NOT_AN_ARRAY");
    }
    let fine = json!([
        { "op": "set", "path": "/draft/a", "value": null, "note": "kept" },
        { "op": "delete", "path": "/draft/a", "value": 1 },
        { "op": "append", "path": "/ui_state/a~0b~1c", "value": {} },
        { "op": "insert", "path": "/draft/a", "value": [], "index": 0 },
    ]);
    assert_eq!(validate_patch_ops(&fine), []);
    assert_eq!(validate_patch_ops(&json!([])), []);
}

fn any_op() -> impl Strategy<Value = Value> {
    let name = prop_oneof![
        Just(Value::Null),
        "(set|delete|append|insert|add|replace|remove|push|Set| add |move||\\?)".prop_map(Value::from),
        Just(json!(7)),
    ];
    let path = prop_oneof![
        "(/|)(draft|ui_state|other|)(/|)(a|b/0|-|a~0|~|)(/-|)( |)".prop_map(Value::from),
        Just(json!(7)),
    ];
    let member = |value: BoxedStrategy<Value>| proptest::option::of(value);
    let value = prop_oneof![Just(Value::Null), Just(json!(1)), Just(json!([1]))].boxed();
    let index = prop_oneof![Just(json!(0)), Just(json!("0")), Just(json!(-1))].boxed();
    (member(name.boxed()), member(path.boxed()), member(value), member(index)).prop_map(
        |(name, path, value, index)| {
            let members = [("op", name), ("path", path), ("value", value), ("index", index)];
            let given = members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
            Value::Object(given.collect())
        },
    )
}

proptest! {
    #[test]
    fn normalizing_keeps_normal_operations(ops in proptest::collection::vec(any_op(), 0..4)) {
        let given = Value::Array(ops);
        let normal = normalize_patch_ops(given.clone());
        prop_assert_eq!(&normalize_patch_ops(normal.clone()), &normal);
        if validate_patch_ops(&given).is_empty() {
            prop_assert_eq!(&normal, &given);
        }
        // Normalization adds no issues.
        prop_assert!(validate_patch_ops(&normal).len() <= validate_patch_ops(&given).len());
    }

    #[test]
    fn applying_valid_operations_never_panics(ops in proptest::collection::vec(any_op(), 0..6)) {
        let mut document = json!({ "draft": { "a": [1], "b": [{}] }, "ui_state": { "a": {} } });
        let _ = apply(&mut document, &normalize_patch_ops(ops.into()));
    }
}
