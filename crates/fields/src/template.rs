//! The template: what a model is to write, with placeholders in the places of values.
//!
//! Outside lists and variants it is JSON, indented by two spaces, with a string for each placeholder. What a list or a variant is
//! made of is told within one such string, on one line: there placeholders stand without quotes, members after a brace and a
//! space, and within a variant placeholders are short.
//!
//! | | outside variants | within |
//! |---|---|---|
//! | int | `<integer between 0–120>` | `<0–120>` |
//! | float | `<number between 0.5–1.5>` | `<0.5–1.5>` |
//! | string | `<string of 3–20 characters>` | `<3–20 chars>` |
//! | template string | `says <text of 10–100 characters>` | the same |
//! | choice | `<choice between ["a", "b"]>` | the same |
//! | weighted choice | `<choice between ["a" (70%), "b" (30%)]>` | the same |
//! | boolean | `<true or false>` | the same |
//! | constant | the value itself | the same |
//! | array | `<list of 1–4 items, each: …>` | the same |
//! | optional member | `<optional: …>` | the same |
//! | variant | `<choose one of the following structures>`, and a structure on each line, with `OR` between | `<one of: … OR …>` |
//! | structure that is shown already | `<tree, as above>` | the same |
//!
//! Where a bound is missing: `<integer of at least 0>`, `<integer of at most 9>`, `<integer>`, `<string of 3 or more characters>`,
//! `<string>`, `<list of 3 or more items, each: …>`, `<list of items, each: …>`; within variants `<at least 0>`, `<at most 9>`,
//! `<integer>`, `<3 or more chars>`, `<string>`.

use std::fmt::Display;

use crate::Definition;
use crate::field::{Array, Choice, Float, Int, Kind, Member, Scalar, Template, Text, Variant};

/// The length from which on a structure that was shown is not shown again, though it would end.
const LONG: usize = 1 << 16;

/// The depth from which on no further structure is shown: that of fields in one.
const DEEP: usize = 64;

/// The template of a definition.
pub(crate) fn template(definition: &Definition) -> String {
    let mut writer =
        Writer { definition, shown: Vec::new(), open: Vec::new(), out: String::new(), before: 0 };
    writer.json(definition.root(), false, 0);
    writer.out
}

/// How much room a placeholder has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Long,
    Short,
}

struct Writer<'d> {
    definition: &'d Definition,
    /// The structures that are shown already.
    shown: Vec<&'d str>,
    /// Those that the text is in.
    open: Vec<&'d str>,
    out: String,
    /// The length of what comes before `out`.
    before: usize,
}

impl<'d> Writer<'d> {
    /// A value as JSON, which is a string where it is a placeholder.
    fn json(&mut self, kind: &'d Kind, optional: bool, indent: usize) {
        match kind {
            Kind::Composite(composite) if !optional && !composite.fields.is_empty() => {
                self.out.push_str("{\n");
                for (index, member) in composite.fields.iter().enumerate() {
                    self.out.push_str(if index > 0 { ",\n" } else { "" });
                    self.out.push_str(&"  ".repeat(indent + 1));
                    self.out.push_str(&quoted(&member.name));
                    self.out.push_str(": ");
                    self.json(&member.kind, member.optional, indent + 1);
                }
                self.out.push('\n');
                self.out.push_str(&"  ".repeat(indent));
                self.out.push('}');
            }
            Kind::Composite(_) if !optional => self.out.push_str("{}"),
            Kind::Constant(value) if !optional => self.out.push_str(&value.text()),
            Kind::Ref(name) if !optional && !self.is_known(name) => {
                self.enter(name, |writer, kind| writer.json(kind, false, indent));
            }
            Kind::Template(template) if !optional => {
                let text = quoted(&filled(template));
                self.out.push_str(&text);
            }
            _ => {
                let before = std::mem::take(&mut self.out);
                self.before = before.len();
                self.inline_member(kind, optional, Form::Long);
                let text = std::mem::replace(&mut self.out, before);
                self.before = 0;
                // Line breaks stay, so that each structure of a variant has its line.
                let lines: Vec<String> = text.split('\n').map(quoted).collect();
                let lines: Vec<&str> = lines.iter().map(|line| &line[1..line.len() - 1]).collect();
                self.out.push('"');
                self.out.push_str(&lines.join("\n"));
                self.out.push('"');
            }
        }
    }

    fn inline_member(&mut self, kind: &'d Kind, optional: bool, form: Form) {
        if optional {
            self.out.push_str("<optional: ");
        }
        self.inline(kind, form);
        if optional {
            self.out.push('>');
        }
    }

    /// A value within a text.
    fn inline(&mut self, kind: &'d Kind, form: Form) {
        match kind {
            Kind::Int(int) => self.out.push_str(&integer(int, form)),
            Kind::Float(float) => self.out.push_str(&number(float, form)),
            Kind::String(text) => self.out.push_str(&string(text, form)),
            Kind::Choice(choice) => self.out.push_str(&options(choice)),
            Kind::Boolean => self.out.push_str("<true or false>"),
            Kind::Constant(value) => self.out.push_str(&value.text()),
            Kind::Composite(composite) => self.members(&composite.fields, form),
            Kind::Variant(variant) if form == Form::Short => self.short_variant(variant),
            Kind::Variant(variant) => self.variant(variant),
            Kind::Template(template) => self.out.push_str(&quoted(&filled(template))),
            Kind::Array(array) => self.array(array, form),
            Kind::Ref(name) if self.is_known(name) => {
                self.out.push('<');
                self.out.push_str(name);
                self.out.push_str(", as above>");
            }
            Kind::Ref(name) => self.enter(name, |writer, kind| writer.inline(kind, form)),
        }
    }

    fn members(&mut self, members: &'d [Member], form: Form) {
        if members.is_empty() {
            self.out.push_str("{}");
            return;
        }
        for (index, member) in members.iter().enumerate() {
            self.out.push_str(if index > 0 { ", " } else { "{ " });
            self.out.push_str(&quoted(&member.name));
            self.out.push_str(": ");
            self.inline_member(&member.kind, member.optional, form);
        }
        self.out.push_str(" }");
    }

    /// A structure on each line.
    fn variant(&mut self, variant: &'d Variant) {
        self.out.push_str("<choose one of the following structures>\n");
        self.structures(variant, "\nOR\n");
    }

    fn short_variant(&mut self, variant: &'d Variant) {
        self.out.push_str("<one of: ");
        self.structures(variant, " OR ");
        self.out.push('>');
    }

    fn structures(&mut self, variant: &'d Variant, between: &str) {
        for (index, branch) in variant.variants.iter().enumerate() {
            self.out.push_str(if index > 0 { between } else { "" });
            match branch.name.as_deref().filter(|_| !variant.untagged) {
                Some(name) => {
                    self.out.push_str("{ ");
                    self.out.push_str(&quoted(name));
                    self.out.push_str(": ");
                    self.inline(&branch.kind, Form::Short);
                    self.out.push_str(" }");
                }
                None => self.inline(&branch.kind, Form::Short),
            }
        }
    }

    fn array(&mut self, array: &'d Array, form: Form) {
        let items = match (array.min_items, array.max_items) {
            (0, None) => "items".to_owned(),
            (min, None) => format!("{min} or more items"),
            (min, Some(max)) => format!("{min}–{max} items"),
        };
        self.out.push_str("<list of ");
        self.out.push_str(&items);
        self.out.push_str(", each: ");
        self.inline(&array.element, form);
        self.out.push('>');
    }

    /// Whether a structure is told by its name.
    fn is_known(&self, name: &str) -> bool {
        self.open.contains(&name)
            || self.open.len() >= DEEP
            || (self.before + self.out.len() > LONG && self.shown.contains(&name))
    }

    fn enter(&mut self, name: &'d str, write: impl FnOnce(&mut Self, &'d Kind)) {
        // A checked definition has all of its structures.
        let Some(kind) = self.definition.definition(name) else { return };
        self.open.push(name);
        write(self, kind);
        self.open.pop();
        self.shown.push(name);
    }
}

fn quoted(text: &str) -> String {
    Scalar::from(text).text()
}

fn integer(int: &Int, form: Form) -> String {
    bounds(int.min, int.max, "integer", form)
}

fn number(float: &Float, form: Form) -> String {
    bounds(float.min, float.max, "number", form)
}

fn bounds<N: Display>(min: Option<N>, max: Option<N>, what: &str, form: Form) -> String {
    let of = if form == Form::Long { format!("{what} of ") } else { String::new() };
    match (min, max) {
        (Some(min), Some(max)) if form == Form::Long => format!("<{what} between {min}–{max}>"),
        (Some(min), Some(max)) => format!("<{min}–{max}>"),
        (Some(min), None) => format!("<{of}at least {min}>"),
        (None, Some(max)) => format!("<{of}at most {max}>"),
        (None, None) => format!("<{what}>"),
    }
}

fn string(text: &Text, form: Form) -> String {
    match (length(text), form) {
        (None, _) => "<string>".to_owned(),
        (Some(length), Form::Long) => format!("<string of {length} characters>"),
        (Some(length), Form::Short) => format!("<{length} chars>"),
    }
}

/// The bounds of a length, where there are any.
fn length(text: &Text) -> Option<String> {
    match (text.min_length, text.max_length) {
        (0, None) => None,
        (min, None) => Some(format!("{min} or more")),
        (min, Some(max)) => Some(format!("{min}–{max}")),
    }
}

/// A template string with a placeholder in each place.
fn filled(template: &Template) -> String {
    let place = match length(&template.text) {
        Some(length) => format!("<text of {length} characters>"),
        None => "<text>".to_owned(),
    };
    template.literals().join(&place)
}

fn options(choice: &Choice) -> String {
    let total: f64 = choice.weights.iter().sum();
    let share = |index: usize| match choice.weights.get(index) {
        Some(weight) => format!(" ({})", percent(weight / total)),
        None => String::new(),
    };
    let options = choice.options.iter().enumerate();
    let options: Vec<String> = options.map(|(index, option)| option.text() + &share(index)).collect();
    format!("<choice between [{}]>", options.join(", "))
}

/// A share for people: whole percents, and one digit below those.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let digits = if percent >= 1.0 { 0 } else { (-percent.log10()).ceil().clamp(1.0, 9.0) as usize };
    format!("{percent:.digits$}%")
}

#[cfg(test)]
mod tests {
    use crate::Definition;
    use crate::builder::{
        array, boolean, choice, composite, constant, field, float, int, reference, string, template,
        untagged, variant, weighted,
    };
    use crate::field::{Array, Float, Int, Kind, Text};
    use crate::{DefinitionBuilder, FieldsError};

    fn alone(kind: impl Into<Kind>) -> String {
        Definition::new("alone", kind).expect("well-formed").template()
    }

    /// What is told within a variant.
    fn within(kind: impl Into<Kind>) -> String {
        let text = alone(variant([("v", kind.into())]));
        let text = text
            .strip_prefix("\"<choose one of the following structures>\n{ \\\"v\\\": ")
            .expect("a variant");
        text.strip_suffix(" }\"").expect("a variant").to_owned()
    }

    #[test]
    fn each_kind_has_a_long_and_a_short_form() {
        let kinds: [(Kind, &str, &str); 12] = [
            (int(-17, 250).into(), "<integer between -17–250>", "<-17–250>"),
            (float(0.5, 1.5).into(), "<number between 0.5–1.5>", "<0.5–1.5>"),
            (string(3, 20).into(), "<string of 3–20 characters>", "<3–20 chars>"),
            (string(5, 5).into(), "<string of 5–5 characters>", "<5–5 chars>"),
            (boolean(), "<true or false>", "<true or false>"),
            (choice([1, 2]).into(), "<choice between [1, 2]>", "<choice between [1, 2]>"),
            (Int { min: Some(0), max: None }.into(), "<integer of at least 0>", "<at least 0>"),
            (Float { max: Some(9.0), ..Float::default() }.into(), "<number of at most 9>", "<at most 9>"),
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
            alone(template("a <generated> b <generated>", 1, 5)),
            "\"a <text of 1–5 characters> b <text of 1–5 characters>\""
        );
        assert_eq!(
            within(template("say \"<generated>\"", 1, 5)),
            r#"\"say \\\"<text of 1–5 characters>\\\"\""#
        );
        assert_eq!(
            (alone(constant("a\"b")), within(constant(true))),
            (r#""a\"b""#.to_owned(), "true".to_owned())
        );
    }

    #[test]
    fn options_are_json_within_json() {
        assert_eq!(
            alone(choice(["a\"b", "\\", "\n", "é"])),
            r#""<choice between [\"a\\\"b\", \"\\\\\", \"\\n\", \"é\"]>""#
        );
        let weights = weighted([("a", 700.0), ("b", 298.0), ("c", 1.5), ("d", 0.5)]);
        assert_eq!(
            alone(weights),
            r#""<choice between [\"a\" (70%), \"b\" (30%), \"c\" (0.1%), \"d\" (0.05%)]>""#
        );
    }

    #[test]
    fn lists_and_optional_members_are_told_on_one_line() {
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
    fn variants_within_variants_stay_on_their_line() {
        let inner = variant([("x", int(1, 2).into()), ("y", Kind::Boolean)]);
        let either = untagged([Kind::from(inner), string(1, 3).into()]);
        assert_eq!(
            alone(variant([("a", either), ("b", untagged([constant(1), constant("z")]))])),
            "\"<choose one of the following structures>\n\
             { \\\"a\\\": <one of: <one of: { \\\"x\\\": <1–2> } OR { \\\"y\\\": <true or false> }> OR <1–3 chars>> }\n\
             OR\n\
             { \\\"b\\\": <one of: 1 OR \\\"z\\\"> }\""
        );
    }

    #[test]
    fn structures_are_shown_within_themselves_by_name() -> Result<(), FieldsError> {
        let tree = composite([field("value", int(0, 9)), field("trees", array(0, 2, reference("tree")))]);
        let two = composite([field("one", reference("tree")), field("other", reference("tree"))]);
        let definition = DefinitionBuilder::new(two).define("tree", tree).build()?;
        let tree = "{\n    \"value\": \"<integer between 0–9>\",\n    \"trees\": \"<list of 0–2 items, each: <tree, as above>>\"\n  }";
        assert_eq!(definition.template(), format!("{{\n  \"one\": {tree},\n  \"other\": {tree}\n}}"));
        Ok(())
    }
}
