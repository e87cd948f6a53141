//! Prompt templates: the JSON text that a model has to write, with placeholders instead of values.
//!
//! Outside lists and variants, a template is JSON with an indentation of two spaces. Each
//! placeholder is a string.
//!
//! A list or variant is described within one such string. Its contents are written on one line,
//! with unquoted placeholders and with a space after each opening brace. The braces of a variant's
//! tags have their own lines. Within a variant, placeholders have a short form, except for strings
//! in the first structure. All forms are described in
//! `grammars/fields/README.md` of the repository.

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

/// Returns the prompt template of a definition. Stops soon after `most` bytes, wherever that is.
pub(crate) fn template(definition: &Definition, options: TemplateOptions, most: usize) -> String {
    let mut writer = Writer {
        definition,
        options,
        most,
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
        if writer.is_full() {
            break;
        }
        writer.out.push_str("\n\n");
        writer.out.push_str(name);
        writer.out.push_str(":\n");
        writer.path = vec![name.to_owned()];
        writer.enter(name, |writer, kind| writer.json(kind, None, Presence::Required, 0));
    }
    writer.out
}

/// Optionality of a value, and its probability.
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
    /// Length in bytes after which nothing more is written.
    most: usize,
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
        if self.is_full() {
            return;
        }
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
        if self.is_full() {
            return;
        }
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

    const fn is_full(&self) -> bool {
        self.before + self.out.len() > self.most
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
mod tests;
