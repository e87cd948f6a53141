//! The definitions in `grammars/fields/`, and the examples from the original design of fields.

use std::path::PathBuf;
use std::sync::Arc;

use formwork_fields::builder::{choice, composite, field, int, string, template, variant};
use formwork_fields::{Definition, Format};
use formwork_grammar::{Constraint, Limits};
use formwork_tests::random::{self, Random};
use formwork_vocab::Tokenizer;
use serde_json::Value;

use crate::grammars::{folder, through_masks};

const EXAMPLES: [&str; 3] = ["character.json", "scene-event.yaml", "quest-log.toml"];

fn read(name: &str) -> String {
    std::fs::read_to_string(folder().join("fields").join(name)).expect("readable")
}

/// Reads a shipped definition.
pub(crate) fn example(name: &str) -> Definition {
    let format = Format::of(&PathBuf::from(name)).expect("a known extension");
    Definition::parse(&read(name), format).expect("well-formed")
}

/// Builds the definition of a character in Rust.
fn character() -> Definition {
    let stats = ["strength", "dexterity", "intelligence"].map(|name| field(name, int(1, 10)));
    let fields = [
        field("name", string(3, 20)),
        field("age", int(0, 120)),
        field("class", choice(["warrior", "mage", "rogue"])),
        field("stats", composite(stats)),
    ];
    Definition::new("Character", composite(fields)).expect("well-formed")
}

/// Builds the definition of a scene event in Rust.
fn scene_event() -> Definition {
    let combat =
        [field("enemyLevel", int(1, 100)), field("enemyType", choice(["goblin", "dragon", "bandit"]))];
    let dialogue = [field("speaker", string(3, 20)), field("text", template("says <generated>", 10, 100))];
    let content = variant([("combat", composite(combat)), ("dialogue", composite(dialogue))]);
    let kinds = choice(["combat", "dialogue", "exploration"]);
    Definition::new("SceneEvent", composite([field("type", kinds), field("content", content)]))
        .expect("well-formed")
}

#[test]
fn files_say_what_the_builder_says() {
    assert_eq!(example("character.json"), character());
    assert_eq!(example("scene-event.yaml"), scene_event());
}

#[test]
fn templates_are_in_the_normal_form() {
    let character = "\
{
  \"name\": \"<string of 3–20 characters>\",
  \"age\": \"<integer between 0–120>\",
  \"class\": \"<choice between [\\\"warrior\\\", \\\"mage\\\", \\\"rogue\\\"]>\",
  \"stats\": {
    \"strength\": \"<integer between 1–10>\",
    \"dexterity\": \"<integer between 1–10>\",
    \"intelligence\": \"<integer between 1–10>\"
  }
}";
    assert_eq!(self::character().template(), character);
    let scene_event = "\
{
  \"type\": \"<choice between [\\\"combat\\\", \\\"dialogue\\\", \\\"exploration\\\"]>\",
  \"content\": \"<choose one of the following structures>
{
  \\\"combat\\\": { \\\"enemyLevel\\\": <1–100>, \\\"enemyType\\\": <choice between [\\\"goblin\\\", \\\"dragon\\\", \\\"bandit\\\"]> }
}
OR
{
  \\\"dialogue\\\": { \\\"speaker\\\": <3–20 chars>, \\\"text\\\": \\\"says <text of 10–100 characters>\\\" }
}\"
}";
    assert_eq!(self::scene_event().template(), scene_event);
    for name in EXAMPLES {
        let stem = name.split('.').next().expect("a name");
        assert_eq!(example(name).template() + "\n", read(&format!("{stem}.template.txt")), "{name}");
    }
}

#[test]
fn variants_are_written_as_in_the_original_design() {
    let battle = [field("enemy_level", int(1, 100)), field("terrain", string(3, 15))];
    let dialogue = [field("speaker", string(3, 20)), field("text", string(5, 200))];
    let event = variant([("battle", composite(battle)), ("dialogue", composite(dialogue))]);
    let event = Definition::new("Event", composite([field("event", event)])).expect("well-formed");
    let expected = "\
{
  \"event\": \"<choose one of the following structures>
{
  \\\"battle\\\": { \\\"enemy_level\\\": <1–100>, \\\"terrain\\\": <string of 3–15 characters> }
}
OR
{
  \\\"dialogue\\\": { \\\"speaker\\\": <3–20 chars>, \\\"text\\\": <5–200 chars> }
}\"
}";
    assert_eq!(event.template(), expected);
}

#[test]
fn the_root_rule_has_the_name_of_the_structure() {
    let gbnf = scene_event().gbnf();
    assert!(gbnf.starts_with("root ::= SceneEvent\nSceneEvent ::= "), "{gbnf}");
    assert!(gbnf.contains("\ntype ::= \"\\\"combat\\\"\" | "), "{gbnf}");
    let unnamed = ["名前", "root"].map(|name| Definition::new(name, int(1, 3)).expect("well-formed").gbnf());
    assert_eq!(unnamed, ["root ::= [1-3]\n", "root ::= [1-3]\n"]);
    let same = Definition::new("age", composite([field("age", int(1, 3))])).expect("well-formed");
    assert_eq!(same.gbnf(), "root ::= age\nage ::= \"{\\\"age\\\": \" age-2 \"}\"\nage-2 ::= [1-3]\n");
}

#[test]
fn cases_are_accepted_and_rejected_by_all() {
    let vocabulary = Arc::new(random::vocabulary(&mut Random::new(7)));
    let tokenizer = Tokenizer::greedy((*vocabulary).clone());
    for name in EXAMPLES {
        let definition = example(name);
        let stem = name.split('.').next().expect("a name");
        let cases: Value = serde_json::from_str(&read(&format!("{stem}.cases.json"))).expect("JSON");
        let grammar = definition.grammar(&Limits::default()).expect("within limits");
        let constraint = Constraint::new(&grammar, Arc::clone(&vocabulary)).expect("without terminals");
        let schema = jsonschema::validator_for(&definition.schema()).expect("a schema");
        for (list, expected) in [("accept", true), ("reject", false)] {
            let texts: Vec<String> = serde_json::from_value(cases[list].clone()).expect("texts");
            assert!(texts.len() > 2);
            for text in texts {
                let value: Value = serde_json::from_str(&text).expect("JSON");
                assert_eq!(grammar.accepts(text.as_bytes()), expected, "{name}: {text}");
                assert_eq!(through_masks(&constraint, &tokenizer, &text), expected, "{name}: {text}");
                assert_eq!(schema.is_valid(&value), expected, "{name}: {text}");
                assert_eq!(definition.validate(&text).is_empty(), expected, "{name}: {text}");
            }
        }
        let other = serde_json::to_string(
            &serde_json::from_str::<Value>(cases["accept"][0].as_str().unwrap()).unwrap(),
        );
        assert!(definition.validate(&other.unwrap()).is_empty(), "spelt without blanks");
    }
}
