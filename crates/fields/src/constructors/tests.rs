use std::fmt::Write;

use crate::{Definition, Format};

const CHARACTER: &str = r#"
var schema = new CompositeField("Character", new JsonField[]
{
    new StringField("name", 3, 20),
    new IntField("age", 0, 120),
    new ChoiceField<string>("class", "warrior", "mage", "rogue"),
    new CompositeField("stats", new JsonField[]
    {
        new IntField("strength", 1, 10),
        new IntField("dexterity", 1, 10),
        new IntField("intelligence", 1, 10),
    }),
});
"#;

const EVENT: &str = r#"
var eventSchema = new VariantField("event",
    new CompositeField("battle", new JsonField[] {
        new IntField("enemy_level", 1, 100),
        new StringField("terrain", 3, 15)
    }),
    new CompositeField("dialogue", new JsonField[] {
        new StringField("speaker", 3, 20),
        new StringField("text", 5, 200)
    })
);
"#;

const SCENE: &str = r#"
var schema = new CompositeField("SceneEvent", new JsonField[]
{
    new ChoiceField<string>("type", "combat", "dialogue", "exploration"),
    new VariantField("content",
        new CompositeField("combat", new JsonField[]
        {
            new IntField("enemyLevel", 1, 100),
            new ChoiceField<string>("enemyType", "goblin", "dragon", "bandit")
        }),
        new CompositeField("dialogue", new JsonField[]
        {
            new StringField("speaker", 3, 20),
            new TemplateStringField("text", "says <generated>", 10, 100)
        })
    )
});

var gbnf = JsonConstraintGenerator.GenerateGBNF(schema);
var template = JsonConstraintGenerator.GenerateTemplate(schema);

File.WriteAllText("scene_event.gbnf", gbnf);
File.WriteAllText("scene_event_template.json", template);
"#;

const SCENE_WRITTEN: &str = r#"var schema = new CompositeField("SceneEvent", new JsonField[]
{
    new ChoiceField<string>("type", "combat", "dialogue", "exploration"),
    new VariantField("content", new JsonField[]
    {
        new CompositeField("combat", new JsonField[]
        {
            new IntField("enemyLevel", 1, 100),
            new ChoiceField<string>("enemyType", "goblin", "dragon", "bandit"),
        }),
        new CompositeField("dialogue", new JsonField[]
        {
            new StringField("speaker", 3, 20),
            new TemplateStringField("text", "says <generated>", 10, 100),
        }),
    }),
});
"#;

fn yaml(text: &str) -> Definition {
    Definition::parse(text, Format::Yaml).expect("well-formed")
}

fn read(text: &str) -> Definition {
    Definition::parse(text, Format::CSharp).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn error(text: &str) -> String {
    Definition::parse(text, Format::CSharp).expect_err(text).to_string()
}

#[test]
fn reads_the_examples_of_the_source() {
    let character = yaml(
        "
name: Character
fields:
  - { name: name, type: string, min_length: 3, max_length: 20 }
  - { name: age, type: int, min: 0, max: 120 }
  - { name: class, type: choice, options: [warrior, mage, rogue] }
  - name: stats
    fields:
      - { name: strength, type: int, min: 1, max: 10 }
      - { name: dexterity, type: int, min: 1, max: 10 }
      - { name: intelligence, type: int, min: 1, max: 10 }
",
    );
    assert_eq!(read(CHARACTER), character);
    assert_eq!(
        read(EVENT).template(),
        "\"<choose one of the following structures>\n\
         {\n  \\\"battle\\\": { \\\"enemy_level\\\": <1–100>, \\\"terrain\\\": <string of 3–15 characters> }\n}\n\
         OR\n\
         {\n  \\\"dialogue\\\": { \\\"speaker\\\": <3–20 chars>, \\\"text\\\": <5–200 chars> }\n}\""
    );
    let scene = yaml(
        "
name: SceneEvent
fields:
  - { name: type, type: choice, options: [combat, dialogue, exploration] }
  - name: content
    type: variant
    variants:
      - name: combat
        fields:
          - { name: enemyLevel, type: int, min: 1, max: 100 }
          - { name: enemyType, type: choice, options: [goblin, dragon, bandit] }
      - name: dialogue
        fields:
          - { name: speaker, type: string, min_length: 3, max_length: 20 }
          - { name: text, type: template, template: says <generated>, min_length: 10, max_length: 100 }
",
    );
    assert_eq!(read(SCENE), scene);
}

#[test]
fn reads_other_spellings() {
    let all = yaml(
        r#"
name: All
fields:
  - { name: "a\"\\\t☃", type: int, min: -5, max: 9223372036854775807, description: how many, optional: true }
  - { name: f, type: float, min: 0.5, max: 1500, decimals: 3 }
  - { name: s, type: string, min_length: 1, max_length: 9, characters: a-z }
  - { name: c, type: choice, options: [1, 2.5, true, x], weights: [1, 2, 3, 4] }
  - { name: b, type: boolean }
  - { name: k, type: constant, value: 'C:\x "y"' }
  - { name: l, type: array, element: { type: int, min: 0, max: 16 }, min_items: 1, max_items: 3 }
  - name: v
    type: variant
    untagged: true
    variants:
      - { name: one, fields: [] }
      - { name: two, type: int, min: 0, max: 16 }
"#,
    );
    let text = r#"
using Game.Llm;
namespace Game;
const int Most = 0x1_0; // sixteen
/* The level of a thing. */
IntField level = new IntField("two", Min: 0, Max: Most);
public static readonly JsonField All = new Game.Llm.CompositeField("All", [
    new IntField("a\"\\\t\u2603", -5, long.MaxValue) { Description = "how " + "many", Optional = true, },
    new FloatField("f", .5, 1.5e3f, 3),
    new StringField("s", MaxLength: 9, MinLength: 1) { Characters = "a-z" },
    new ChoiceField<object>("c", new object[] { 1L, 2.5, true, "x" }) { Weights = new[] { 1, 2d, 3, 4 } },
    new BoolField("b"),
    new ConstantField<string>("k", @"C:\x ""y"""),
    new ArrayField("l", level, 1, 3),
    new VariantField("v", new List<CompositeField> { new CompositeField("one"), level }) { Untagged = true },
]);
"#;
    assert_eq!(read(text), all);
    for text in [
        "static class S\n{\n    public static JsonField Age { get; } = new IntField(\"age\", 0, 9);\n}",
        "static class S { static JsonField Age => new IntField(\"age\", 0, 9); }",
        "static JsonField Age() { return new IntField(\"age\", 0, 9); }",
        "return new IntField(\"age\", 0, 9);",
    ] {
        assert_eq!(read(text), yaml("{ name: age, type: int, min: 0, max: 9 }"), "{text}");
    }
    assert_eq!(read(r#"new ConstantField("x", """a "b" \n""")"#).template(), r#""a \"b\" \\n""#);
    assert_eq!(read(r#"new ConstantField("x", "\ud83d\ude00\x41")"#).template(), "\"\u{1f600}A\"");
}

#[test]
fn writes_what_it_reads() {
    let scene = read(SCENE);
    let text = scene.to_text(Format::CSharp).expect("written");
    assert_eq!(text, SCENE_WRITTEN);
    let odd = yaml(
        r#"
name: "odd \"\\\n\u2028"
fields:
  - { name: f, type: float, min: -0.5, max: 100, decimals: 3, optional: true, probability: 0.25 }
  - { name: c, type: choice, options: [1, 2.5, true, x], weights: [1, 2.5, 3, 4], description: "é😀" }
  - { name: k, type: constant, value: 2.5 }
  - { name: l, type: array, element: { type: array, element: { fields: [{ name: x, type: boolean }] }, max_items: 2 } }
  - { name: v, type: variant, weights: [1, 2], variants: [{ name: a, fields: [] }, { name: b, type: boolean }] }
  - { name: s, type: string, max_length: 3, characters: 'a-z\n' }
"#,
    );
    let text = odd.to_text(Format::CSharp).expect("written");
    assert_eq!(read(&text), odd, "{text}");
    for (definition, expected) in [
        ("{ name: x, type: int, min: 1 }", "x: the constructor of IntField needs `max`"),
        ("{ type: boolean }", "the definition has no name"),
        (
            "{ name: x, type: ref, to: y, definitions: { y: { type: boolean } } }",
            "no constructor defines structures",
        ),
        (
            "{ name: x, type: variant, untagged: true, variants: [{ type: boolean }] }",
            "x: a structure has no name",
        ),
    ] {
        let error = yaml(definition).to_text(Format::CSharp).unwrap_err().to_string();
        assert!(error.starts_with(&format!("the definition cannot be written as C#: {expected}")), "{error}");
    }
}

#[test]
fn errors_have_a_line_and_a_column() {
    let cases = [
        ("", "C#, line 1, column 1: the text has no definition"),
        (
            "var a = new IntField(\"a\", 0, 1",
            "C#, line 1, column 31: expected `,` or `)`, found the end of the text",
        ),
        ("new IntField(\n  \"a\" 0, 1)", "C#, line 2, column 7: expected `,` or `)`, found `0`"),
        (
            "new Field(\"a\")",
            "C#, line 1, column 1: unknown type `Field`; expected one of CompositeField, IntField",
        ),
        ("new IntField(\"a\", 0)", "C#, line 1, column 1: IntField needs the argument Max"),
        (
            "new IntField(\"a\", 0, 1, 2)",
            "C#, line 1, column 25: too many arguments; IntField has Name, Min, Max",
        ),
        ("new IntField(1, 0, 1)", "C#, line 1, column 14: Name: expected a string, found an integer"),
        ("new IntField(\"a\", Name: \"b\", Max: 1)", "C#, line 1, column 25: Name is given twice"),
        (
            "new IntField(\"a\", 0, 1) { Step = 2 }",
            "C#, line 1, column 27: unknown property `Step`; IntField has Name",
        ),
        (
            "new CompositeField(\"é\",\n new IntField(\"a\", 3, 1))",
            "C#, line 2, column 2: a: min (3) is greater than max (1)",
        ),
        (
            "new CompositeField(\"x\", new ArrayField(\"l\",\n  new IntField(\"i\", 3, 1)))",
            "C#, line 2, column 3: l[]: min (3) is greater than max (1)",
        ),
        ("new IntField(\"a\", 0, 1.5)", "C#, line 1, column 22: Max: expected an integer, found a number"),
        (
            "new IntField(\"a\", 0, 99999999999999999999)",
            "C#, line 1, column 22: 99999999999999999999 does not fit",
        ),
        ("new IntField(\"a, 0, 1)\n", "C#, line 1, column 14: the string has no end"),
        ("new IntField(\"\\q\", 0, 1)", "C#, line 1, column 15: unknown escape `\\q`"),
        ("new IntField($\"a\", 0, 1)", "C#, line 1, column 14: interpolated strings are not supported"),
        ("/* new IntField(\"a\", 0, 1)", "C#, line 1, column 1: the comment has no end"),
        ("new CompositeField(\"x\", level)", "C#, line 1, column 25: unknown name `level`"),
        ("new CompositeField(\"x\", 5)", "C#, line 1, column 25: expected a field, found an integer"),
        ("new ChoiceField<string>(\"x\")", "C#, line 1, column 1: $: the choice has no options"),
        (
            "new ChoiceField<string>(\"x\", new IntField(\"a\", 0, 1))",
            "C#, line 1, column 30: Options: expected a literal",
        ),
        (
            "var a = new BoolField(\"a\");\nvar b = new BoolField(\"b\");",
            "C#, line 2, column 9: a second definition; the first",
        ),
        (
            "var a = new BoolField(\"a\");\nvar a = new BoolField(\"b\");",
            "C#, line 2, column 9: the name `a` is declared",
        ),
        ("new BoolField(\"a\") { Optional = true }", "C#, line 1, column 1: $: unknown key `optional`"),
    ];
    for (text, expected) in cases {
        let error = error(text);
        assert!(error.starts_with(expected), "{text}:\n{error}\n{expected}");
    }
}

#[test]
fn reads_declarations_with_types_and_raw_strings_of_several_lines() {
    let definition = read(
        "string[] classes = { \"warrior\", \"mage\", };\n\
         IntField age = new(\"age\", 0, 120) { Optional = true };\n\
         Game.ChoiceField<string>? kind = new(\"kind\", classes);\n\
         var schema = new CompositeField(\"x\", age, kind, new TemplateStringField(\"t\", \"\"\"\n    \
         says\n\n      <generated>\r\n    \"\"\", 1, 9));",
    );
    let expected = yaml(
        r#"
name: x
fields:
  - { name: age, type: int, min: 0, max: 120, optional: true }
  - { name: kind, type: choice, options: [warrior, mage] }
  - { name: t, type: template, template: "says\n\n  <generated>", min_length: 1, max_length: 9 }
"#,
    );
    assert_eq!(definition, expected);
    for (text, expected) in [
        ("BoolField a = new BoolField(new(\"a\"))", "expected the type of a field"),
        ("var a = new(\"a\")", "expected the type of a field"),
        ("new BoolField(\"\"\"a\n\"\"\")", "stand on lines of their own"),
        ("new BoolField(\"\"\"\n  a\n   \"\"\")", "is indented less"),
        ("new BoolField(\"\"\"\n  a", "the string has no end"),
    ] {
        assert!(error(text).contains(expected), "{}", error(text));
    }
}

#[test]
fn rejects_hostile_text_in_bounded_time() {
    let deep = format!("new ChoiceField<int>(\"x\", {}", "[".repeat(100_000));
    assert!(error(&deep).contains("nested deeper than the limit"));
    let mut doubling = "var v0 = new BoolField(\"b\");".to_owned();
    let mut chain = doubling.clone();
    for index in 1..2000 {
        let last = index - 1;
        if index < 100 {
            let _ = write!(doubling, "var v{index} = new CompositeField(\"c\", v{last}, v{last});");
        }
        let _ = write!(chain, "var v{index} = new ArrayField(\"c\", v{last});");
    }
    assert!(error(&doubling).contains("more than 200000 values"), "{}", error(&doubling));
    assert!(error(&chain).contains("nested deeper than the limit"), "{}", error(&chain));
}
