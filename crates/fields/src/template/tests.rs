use crate::Definition;
use crate::builder::{
    array, boolean, choice, composite, constant, described, field, float, int, reference, string, template,
    untagged, variant, weighted,
};
use crate::field::{Array, Float, Int, Kind, Text};
use crate::{DefinitionBuilder, FieldsError};

fn alone(kind: impl Into<Kind>) -> String {
    Definition::new("alone", kind).expect("well-formed").template()
}

/// Returns the template of `kind` as the second structure of a variant.
fn within(kind: impl Into<Kind>) -> String {
    let text = alone(variant([("u", Kind::Boolean), ("v", kind.into())]));
    let (_, text) = text.split_once("\nOR\n{\n  \\\"v\\\": ").expect("a variant");
    text.strip_suffix("\n}\"").expect("a variant").to_owned()
}

#[test]
fn strings_of_the_first_structure_explain_the_short_form() {
    let place = || composite([field("at", string(3, 15)), field("x", int(1, 9))]);
    let list = || array(1, 2, variant([("c", string(1, 2)), ("d", string(3, 4))]));
    assert_eq!(
        alone(variant([("a", Kind::from(place())), ("b", place().into())])),
        "\"<choose one of the following structures>\n\
             {\n  \\\"a\\\": { \\\"at\\\": <string of 3–15 characters>, \\\"x\\\": <1–9> }\n}\n\
             OR\n\
             {\n  \\\"b\\\": { \\\"at\\\": <3–15 chars>, \\\"x\\\": <1–9> }\n}\""
    );
    assert_eq!(
        alone(untagged([Kind::from(list()), list().into()])),
        "\"<choose one of the following structures>\n\
             <list of 1–2 items, each: <one of: { \\\"c\\\": <string of 1–2 characters> } OR { \\\"d\\\": <3–4 chars> }>>\n\
             OR\n\
             <list of 1–2 items, each: <one of: { \\\"c\\\": <1–2 chars> } OR { \\\"d\\\": <3–4 chars> }>>\""
    );
}

#[test]
fn each_kind_has_a_long_and_a_short_form() {
    let kinds: [(Kind, &str, &str); 15] = [
        (int(-17, 250).into(), "<integer between -17–250>", "<-17–250>"),
        (float(0.5, 1.5).into(), "<number between 0.5–1.5>", "<0.5–1.5>"),
        (string(3, 20).into(), "<string of 3–20 characters>", "<3–20 chars>"),
        (string(5, 5).into(), "<string of 5–5 characters>", "<5–5 chars>"),
        (boolean(), "<true or false>", "<true or false>"),
        (choice([1, 2]).into(), "<choice between [1, 2]>", "<choice between [1, 2]>"),
        (Int { min: Some(0), max: None }.into(), "<integer of at least 0>", "<at least 0>"),
        (Float { max: Some(9.0), ..Float::default() }.into(), "<number of at most 9>", "<at most 9>"),
        (
            float(-0.0, 1.0).decimals(3).into(),
            "<number between 0–1 with at most 3 decimals>",
            "<0–1 with at most 3 decimals>",
        ),
        (
            Float::at_least(1.0).decimals(0).into(),
            "<number of at least 1 without decimals>",
            "<at least 1 without decimals>",
        ),
        (
            string(3, 20).of("a-z\\-".parse().expect("a set")).into(),
            r"<string of 3–20 characters of [\\-a-z]>",
            r"<3–20 chars of [\\-a-z]>",
        ),
        (Int::default().into(), "<integer>", "<integer>"),
        (
            Text { min_length: 3, ..Text::default() }.into(),
            "<string of 3 or more characters>",
            "<3 or more chars>",
        ),
        (Text::default().into(), "<string>", "<string>"),
        (
            array(1, 4, int(0, 9)).into(),
            "<list of 1–4 items, each: <integer between 0–9>>",
            "<list of 1–4 items, each: <0–9>>",
        ),
    ];
    for (kind, long, short) in kinds {
        assert_eq!(alone(kind.clone()), format!("\"{long}\""));
        assert_eq!(within(kind), short);
    }
    assert_eq!(
        alone(template("says <generated>", 0, 9).of("^,".parse().expect("a set"))),
        "\"says <text of 0–9 characters of [^,]>\""
    );
    assert_eq!(
        alone(template("a <generated> b <generated>", 1, 5)),
        "\"a <text of 1–5 characters> b <text of 1–5 characters>\""
    );
    assert_eq!(within(template("say \"<generated>\"", 1, 5)), r#"\"say \\\"<text of 1–5 characters>\\\"\""#);
    assert_eq!(
        (alone(constant("a\"b")), within(constant(true))),
        (r#""a\"b""#.to_owned(), "true".to_owned())
    );
}

#[test]
fn options_are_escaped_as_nested_json() {
    assert_eq!(
        alone(choice(["a\"b", "\\", "\n", "é"])),
        r#""<choice between [\"a\\\"b\", \"\\\\\", \"\\n\", \"é\"]>""#
    );
    let weights = weighted([("a", 700.0), ("b", 298.0), ("c", 1.5), ("d", 0.5)]);
    assert_eq!(
        alone(weights),
        r#""<choice between [\"a\" (70%), \"b\" (30%), \"c\" (0.1%), \"d\" (0.05%)]>""#
    );
    let shares = |weights: [f64; 2]| {
        let text = alone(weighted([(1, weights[0]), (2, weights[1])]));
        text[18..text.len() - 3].to_owned()
    };
    assert_eq!(shares([999.0, 1.0]), "1 (99.9%), 2 (0.1%)");
    assert_eq!(shares([1e9, 1.0]), "1 (over 99.999%), 2 (under 0.001%)");
    assert_eq!(alone(weighted([(1, 3.0)])), r#""<choice between [1 (100%)]>""#);
}

#[test]
fn lists_and_optional_members_are_written_on_one_line() {
    let item = composite([
        field("name", string(1, 9)),
        field("count", int(1, 5)).optional(),
        field("none", composite([])),
    ]);
    let any = Array { element: Box::new(Kind::Boolean), min_items: 0, max_items: None };
    let all = composite([
        field("items", array(0, 3, item.clone())),
        field("flags", any),
        field("title", string(1, 30)).optional(),
        field("best", item).optional(),
        field("empty", composite([])),
    ]);
    let item = r#"{ \"name\": <string of 1–9 characters>, \"count\": <optional: <integer between 1–5>>, \"none\": {} }"#;
    assert_eq!(
        alone(all),
        format!(
            "{{\n  \"items\": \"<list of 0–3 items, each: {item}>\",\n  \"flags\": \"<list of items, each: <true or false>>\",\n  \
                 \"title\": \"<optional: <string of 1–30 characters>>\",\n  \"best\": \"<optional: {item}>\",\n  \"empty\": {{}}\n}}"
        )
    );
}

#[test]
fn weights_are_shown_on_request() {
    let either =
        || crate::builder::weighted_variant([("a", Kind::Boolean, 3.0), ("b", int(0, 1).into(), 1.0)]);
    let all = composite([
        field("x", int(0, 9)).probability(0.25),
        field("y", either()),
        field("z", array(1, 2, either())),
    ]);
    let definition = Definition::new("all", all).expect("well-formed");
    let with = "{\n  \"x\": \"<optional (25%): <integer between 0–9>>\",\n  \
            \"y\": \"<choose one of the following structures, with shares of 75%, 25%>\n\
            {\n  \\\"a\\\": <true or false>\n}\nOR\n{\n  \\\"b\\\": <0–1>\n}\",\n  \
            \"z\": \"<list of 1–2 items, each: <one of, with shares of 75%, 25%: \
            { \\\"a\\\": <true or false> } OR { \\\"b\\\": <0–1> }>>\"\n}";
    assert_eq!(definition.template(), with);
    let without = with.replace(" (25%)", "").replace(", with shares of 75%, 25%", "");
    assert_eq!(definition.template_with(crate::TemplateOptions { shares: false }), without);
}

#[test]
fn variants_within_variants_stay_on_their_line() {
    let inner = variant([("x", int(1, 2).into()), ("y", Kind::Boolean)]);
    let either = untagged([Kind::from(inner), string(1, 3).into()]);
    assert_eq!(
        alone(variant([("a", either), ("b", untagged([constant(1), constant("z")]))])),
        "\"<choose one of the following structures>\n\
             {\n  \\\"a\\\": <one of: <one of: { \\\"x\\\": <1–2> } OR { \\\"y\\\": <true or false> }> OR <1–3 chars>>\n}\n\
             OR\n\
             {\n  \\\"b\\\": <one of: 1 OR \\\"z\\\">\n}\""
    );
}

#[test]
fn variants_within_lists_stay_on_their_line() {
    let either = || untagged([Kind::from(int(1, 2)), string(1, 3).into()]);
    assert_eq!(
        alone(array(1, 4, either())),
        r#""<list of 1–4 items, each: <one of: <1–2> OR <1–3 chars>>>""#
    );
    assert_eq!(
        alone(composite([field("a", either()).optional()])),
        "{\n  \"a\": \"<optional: <one of: <1–2> OR <1–3 chars>>>\"\n}"
    );
}

#[test]
fn hints_are_in_placeholders() {
    let stats = composite([field("level", int(1, 9)).describe("how\n strong")]);
    let kinds: [(Kind, &str, &str); 8] = [
        (int(0, 9).into(), "\"<integer between 0–9 (HINT)>\"", "<0–9 (HINT)>"),
        (boolean(), "\"<true or false (HINT)>\"", "<true or false (HINT)>"),
        (
            array(1, 4, described("each", int(0, 9))).into(),
            "\"<list of 1–4 items (HINT), each: <integer between 0–9 (each)>>\"",
            "<list of 1–4 items (HINT), each: <0–9 (each)>>",
        ),
        (
            stats.into(),
            "<HINT> {\n  \"level\": \"<integer between 1–9 (how strong)>\"\n}",
            "<HINT> { \\\"level\\\": <1–9 (how strong)> }",
        ),
        (
            untagged([int(1, 2), int(5, 6)]).into(),
            "\"<choose one of the following structures (HINT)>\n<1–2>\nOR\n<5–6>\"",
            "<one of (HINT): <1–2> OR <5–6>>",
        ),
        (
            template("a <generated>", 1, 5).into(),
            "\"a <text of 1–5 characters (HINT)>\"",
            "\\\"a <text of 1–5 characters (HINT)>\\\"",
        ),
        (choice([1, 2]).into(), "\"<choice between [1, 2] (HINT)>\"", "<choice between [1, 2] (HINT)>"),
        (constant(1), "1", "1"),
    ];
    for (kind, long, short) in kinds {
        let kind = described("HINT", kind);
        assert_eq!(alone(kind.clone()), long);
        assert_eq!(within(kind), short);
    }
}

#[test]
fn refers_to_structures_shown_elsewhere() -> Result<(), FieldsError> {
    let quest = composite([field("steps", array(0, 2, reference("quest"))).optional()]);
    let log = composite([field("quests", array(1, 3, reference("quest")))]);
    let definition = DefinitionBuilder::new(log).define("quest", quest.clone()).build()?;
    assert!(definition.template().contains("<the same as quests[]>"), "{}", definition.template());
    let whole = DefinitionBuilder::new(reference("quest")).define("quest", quest).build()?;
    assert!(whole.template().contains("<the same as the whole>"), "{}", whole.template());
    // A chain of structures that is too deep to be shown in place.
    let mut builder = DefinitionBuilder::new(reference("d0")).define("d300", int(0, 7));
    for index in 0..300 {
        let next = array(0, 1, reference(format!("d{}", index + 1)));
        builder = builder.define(format!("d{index}"), composite([field("x", next)]));
    }
    let template = builder.build()?.template();
    assert!(template.contains(", as below>") && template.contains("<integer between 0–7>"), "{template}");
    for line in template.lines().filter(|line| line.contains(", as below>")) {
        let (before, _) = line.split_once(", as below>").unwrap();
        let (_, name) = before.rsplit_once('<').unwrap();
        assert!(template.contains(&format!("\n\n{name}:\n{{")), "{name} is not below");
    }
    Ok(())
}

#[test]
fn writes_long_chains_of_references_without_deep_recursion() -> Result<(), FieldsError> {
    let mut builder = DefinitionBuilder::new(reference("d0")).define("d300", int(0, 7));
    for index in 0..300 {
        let mut kind = reference(format!("d{}", index + 1));
        for _ in 0..58 {
            kind = array(0, 1, kind).into();
        }
        builder = builder.define(format!("d{index}"), kind);
    }
    assert!(builder.build()?.template().contains("<integer between 0–7>"));
    Ok(())
}

#[test]
fn recursive_structures_are_referenced_by_name() -> Result<(), FieldsError> {
    let tree = composite([field("value", int(0, 9)), field("trees", array(0, 2, reference("tree")))]);
    let two = composite([field("one", reference("tree")), field("other", reference("tree"))]);
    let definition = DefinitionBuilder::new(two).define("tree", tree).build()?;
    let tree = "{\n    \"value\": \"<integer between 0–9>\",\n    \"trees\": \"<list of 0–2 items, each: <the same as PLACE>>\"\n  }";
    let (one, other) = (tree.replace("PLACE", "one"), tree.replace("PLACE", "other"));
    assert_eq!(definition.template(), format!("{{\n  \"one\": {one},\n  \"other\": {other}\n}}"));
    Ok(())
}
