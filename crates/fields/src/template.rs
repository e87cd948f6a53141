//! Prompt templates: the JSON text that a model has to write, with placeholders instead of values.
//!
//! Outside lists and variants, a template is JSON with an indentation of two spaces. Each
//! placeholder is a string.
//!
//! A list or variant is described within one such string. Its contents are written on one line,
//! with unquoted placeholders and with a space after each opening brace. The braces of a variant's
//! tags have their own lines. Within a variant, placeholders have a short form, except for strings
//! in the first structure. All forms are described in `grammars/fields/README.md`.

mod words;

use self::words::{
    Form, filled, in_brackets, in_percent, integer, number, one_line, options, quoted, shares, string,
};
use crate::Definition;
use crate::field::{Array, Kind, Member, Variant};
use crate::path::is_plain;

/// Length of the output, in bytes, above which no structure is shown twice. A placeholder such as
/// `<the same as stats>` then refers to the first occurrence.
const LONG: usize = 1 << 16;

/// Nesting depth from which a referenced structure is shown below the template instead of in its
/// place. A single structure nests to about the same depth, so twice this depth bounds the
/// recursion.
const DEEP: usize = 64;

/// Options for the prompt template of a definition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TemplateOptions {
    /// True if the template shows weights as percentages, such as `"a" (70%)`. Set this to false if
    /// a guide applies the weights ([`Definition::weights`]). Otherwise the weights take effect
    /// twice.
    pub shares: bool,
}

impl Default for TemplateOptions {
    fn default() -> Self {
        Self { shares: true }
    }
}

/// Returns the prompt template of a definition.
pub(crate) fn template(definition: &Definition, options: TemplateOptions) -> String {
    let mut writer = Writer {
        definition,
        options,
        shown: Vec::new(),
        open: Vec::new(),
        below: Vec::new(),
        path: Vec::new(),
        depth: 0,
        out: String::new(),
        before: 0,
    };
    writer.json(definition.root(), None, Presence::Required, 0);
    let mut done = 0;
    while let Some(&name) = writer.below.get(done) {
        done += 1;
        writer.out.push_str("\n\n");
        writer.out.push_str(name);
        writer.out.push_str(":\n");
        writer.path = vec![name.to_owned()];
        writer.enter(name, |writer, kind| writer.json(kind, None, Presence::Required, 0));
    }
    writer.out
}

/// Whether a value may be omitted, and how often it is present.
#[derive(Clone, Copy, PartialEq)]
enum Presence {
    Required,
    Optional(Option<f64>),
}

impl Presence {
    const fn of(member: &Member) -> Self {
        if member.optional { Self::Optional(member.probability) } else { Self::Required }
    }
}

/// Returns the text of the placeholder for a kind without parts, such as `integer between 0–120`.
pub(crate) fn values(kind: &Kind) -> Option<String> {
    Some(match kind {
        Kind::Int(int) => integer(int, Form::Long),
        Kind::Float(float) => number(float, Form::Long),
        Kind::String(text) => string(text, Form::Long),
        Kind::Choice(choice) => options(choice, false),
        Kind::Constant(value) => value.text(),
        Kind::Template(template) => filled(template, None),
        _ => return None,
    })
}

struct Writer<'d> {
    definition: &'d Definition,
    options: TemplateOptions,
    /// Names of structures that have been shown, each with the path of the field that shows it.
    shown: Vec<(&'d str, String)>,
    /// Names of structures that enclose the current field, each with the path of the field that
    /// shows it.
    open: Vec<(&'d str, String)>,
    /// Names of structures to be shown below the template.
    below: Vec<&'d str>,
    /// Steps from the root to the current field, as written in a path: `.name`, `["a b"]` or `[]`.
    path: Vec<String>,
    depth: usize,
    out: String,
    /// Length in bytes of the output before the current placeholder. While a placeholder is being
    /// written, `out` only contains its text. At other times, the length is zero.
    before: usize,
}

impl<'d> Writer<'d> {
    /// Writes a value on indented lines, as JSON. A value that needs a placeholder becomes a string
    /// with the placeholder as its text.
    fn json(&mut self, kind: &'d Kind, hint: Option<&'d str>, presence: Presence, indent: usize) {
        let optional = presence != Presence::Required;
        let hint = hint.or(kind.description());
        let kind = kind.plain();
        match kind {
            Kind::Composite(composite) if !optional => {
                self.before_object(hint);
                self.object(&composite.fields, indent);
            }
            Kind::Constant(value) if !optional => self.out.push_str(&value.text()),
            Kind::Ref(name) if !optional && !self.is_known(name) => {
                self.enter(name, |writer, kind| writer.json(kind, hint, Presence::Required, indent));
            }
            Kind::Template(template) if !optional => {
                let text = quoted(&filled(template, hint));
                self.out.push_str(&text);
            }
            _ => {
                let before = std::mem::take(&mut self.out);
                self.before = before.len();
                match kind {
                    Kind::Variant(variant) if !optional => self.variant(variant, hint),
                    _ => self.inline_member(kind, hint, presence, Form::Long),
                }
                let text = std::mem::replace(&mut self.out, before);
                self.before = 0;
                // Keep line breaks unescaped, so that each structure of a variant has its own line.
                let lines: Vec<String> = text.split('\n').map(quoted).collect();
                let lines: Vec<&str> = lines.iter().map(|line| &line[1..line.len() - 1]).collect();
                self.out.push('"');
                self.out.push_str(&lines.join("\n"));
                self.out.push('"');
            }
        }
    }

    fn object(&mut self, members: &'d [Member], indent: usize) {
        if members.is_empty() {
            self.out.push_str("{}");
            return;
        }
        self.out.push_str("{\n");
        for (index, member) in members.iter().enumerate() {
            self.out.push_str(if index > 0 { ",\n" } else { "" });
            self.out.push_str(&"  ".repeat(indent + 1));
            self.out.push_str(&quoted(&member.name));
            self.out.push_str(": ");
            self.within(name_step(&member.name), |writer| {
                writer.json(&member.kind, None, Presence::of(member), indent + 1);
            });
        }
        self.out.push('\n');
        self.out.push_str(&"  ".repeat(indent));
        self.out.push('}');
    }

    /// Writes a description, if any, in front of an object. An object has no placeholder that could
    /// contain the description.
    fn before_object(&mut self, hint: Option<&str>) {
        if let Some(hint) = hint {
            self.out.push('<');
            self.out.push_str(&one_line(hint));
            self.out.push_str("> ");
        }
    }

    fn inline_member(&mut self, kind: &'d Kind, hint: Option<&'d str>, presence: Presence, form: Form) {
        if let Presence::Optional(probability) = presence {
            let share = probability.filter(|_| self.options.shares).map(in_percent);
            self.out.push_str("<optional");
            self.out.push_str(&share.unwrap_or_default());
            self.out.push_str(": ");
        }
        self.inline(kind, hint, form);
        if presence != Presence::Required {
            self.out.push('>');
        }
    }

    /// Writes a value on the current line, with unquoted placeholders.
    fn inline(&mut self, kind: &'d Kind, hint: Option<&'d str>, form: Form) {
        let hint = hint.or(kind.description());
        match kind.plain() {
            Kind::Int(int) => self.placeholder(&integer(int, form), hint),
            Kind::Float(float) => self.placeholder(&number(float, form), hint),
            Kind::String(text) => self.placeholder(&string(text, form), hint),
            Kind::Choice(choice) => self.placeholder(&options(choice, self.options.shares), hint),
            Kind::Boolean => self.placeholder("true or false", hint),
            Kind::Constant(value) => self.out.push_str(&value.text()),
            Kind::Composite(composite) => {
                self.before_object(hint);
                self.members(&composite.fields, form);
            }
            Kind::Variant(variant) => self.short_variant(variant, hint, form),
            Kind::Template(template) => self.out.push_str(&quoted(&filled(template, hint))),
            Kind::Array(array) => self.array(array, hint, form),
            Kind::Ref(name) if self.is_known(name) => {
                let place = self.place_of(name);
                self.placeholder(&place, hint);
            }
            Kind::Ref(name) => self.enter(name, |writer, kind| writer.inline(kind, hint, form)),
            // A checked kind has at most one description.
            Kind::Described(_) => {}
        }
    }

    fn placeholder(&mut self, what: &str, hint: Option<&str>) {
        self.out.push('<');
        self.out.push_str(what);
        self.out.push_str(&in_brackets(hint));
        self.out.push('>');
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
            self.within(name_step(&member.name), |writer| {
                writer.inline_member(&member.kind, None, Presence::of(member), form);
            });
        }
        self.out.push_str(" }");
    }

    /// Writes the placeholder of a variant, followed by each structure on its own lines.
    fn variant(&mut self, variant: &'d Variant, hint: Option<&str>) {
        let shares = self.shares(variant);
        self.placeholder(&format!("choose one of the following structures{shares}"), hint);
        self.out.push('\n');
        self.structures(variant, Form::Long, ["{\n  ", "\n}", "\nOR\n"]);
    }

    fn short_variant(&mut self, variant: &'d Variant, hint: Option<&str>, form: Form) {
        self.out.push_str("<one of");
        let shares = self.shares(variant);
        self.out.push_str(&shares);
        self.out.push_str(&in_brackets(hint));
        self.out.push_str(": ");
        self.structures(variant, form, ["{ ", " }", " OR "]);
        self.out.push('>');
    }

    /// Returns the weights of a variant as percentages, if the template shows weights.
    fn shares(&self, variant: &Variant) -> String {
        shares(if self.options.shares { &variant.weights } else { &[] })
    }

    /// Writes the structures of a variant. `open` and `close` enclose a tag and its structure, and
    /// `between` separates the structures.
    fn structures(&mut self, variant: &'d Variant, form: Form, [open, close, between]: [&str; 3]) {
        for (index, branch) in variant.variants.iter().enumerate() {
            let form = form.within_structure(index);
            self.out.push_str(if index > 0 { between } else { "" });
            if let Some(name) = branch.name.as_deref().filter(|_| !variant.untagged) {
                self.out.push_str(open);
                self.out.push_str(&quoted(name));
                self.out.push_str(": ");
                self.within(name_step(name), |writer| writer.inline(&branch.kind, None, form));
                self.out.push_str(close);
            } else {
                let step = format!("[option {}]", index + 1);
                self.within(step, |writer| writer.inline(&branch.kind, None, form));
            }
        }
    }

    fn array(&mut self, array: &'d Array, hint: Option<&str>, form: Form) {
        let items = match (array.min_items, array.max_items) {
            (0, None) => "items".to_owned(),
            (min, None) => format!("{min} or more items"),
            (min, Some(max)) => format!("{min}–{max} items"),
        };
        self.out.push_str("<list of ");
        self.out.push_str(&items);
        self.out.push_str(&in_brackets(hint));
        self.out.push_str(", each: ");
        self.within("[]".to_owned(), |writer| writer.inline(&array.element, None, form));
        self.out.push('>');
    }

    /// Calls `write` with `step` appended to the current path.
    fn within(&mut self, step: String, write: impl FnOnce(&mut Self)) {
        self.path.push(step);
        self.depth += 1;
        write(self);
        self.depth -= 1;
        self.path.pop();
    }

    /// Reports whether a placeholder refers to the structure `name`, instead of the structure being
    /// shown in place.
    fn is_known(&self, name: &str) -> bool {
        let is_in = |list: &[(&str, String)]| list.iter().any(|(known, _)| *known == name);
        is_in(&self.open)
            || self.depth >= DEEP
            || self.below.contains(&name)
            || (self.before + self.out.len() > LONG && is_in(&self.shown))
    }

    /// Returns the text of a placeholder that refers to the structure `name`. If the structure has
    /// not been shown, schedules it to be shown below the template.
    fn place_of(&mut self, name: &'d str) -> String {
        let places = self.open.iter().rev().chain(&self.shown);
        let place = places.into_iter().find(|(known, _)| *known == name).map(|(_, place)| place);
        match place {
            Some(place) if place.is_empty() => "the same as the whole".to_owned(),
            Some(place) => format!("the same as {place}"),
            None => {
                if !self.below.contains(&name) {
                    self.below.push(name);
                }
                format!("{name}, as below")
            }
        }
    }

    fn enter(&mut self, name: &'d str, write: impl FnOnce(&mut Self, &'d Kind)) {
        // A checked definition contains every referenced structure.
        let Some(kind) = self.definition.definition(name) else { return };
        let place = self.path.concat();
        let place = place.strip_prefix('.').unwrap_or(&place).to_owned();
        self.open.push((name, place));
        self.depth += 1;
        write(self, kind);
        self.depth -= 1;
        self.shown.extend(self.open.pop());
    }
}

/// Returns the path step of the member `name`: `.name`, or `["name"]` if quotes are needed.
fn name_step(name: &str) -> String {
    if is_plain(name) { format!(".{name}") } else { format!("[{}]", quoted(name)) }
}

#[cfg(test)]
mod tests {
    use crate::Definition;
    use crate::builder::{
        array, boolean, choice, composite, constant, described, field, float, int, reference, string,
        template, untagged, variant, weighted,
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
}
