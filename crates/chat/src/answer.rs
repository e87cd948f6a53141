//! The grammar of a whole answer.

use formwork_grammar::{Part, Trigger};
use formwork_vocab::TokenId;

use crate::arguments::Arguments;
use crate::format::{CallFormat, ChatFormat, Thoughts};
use crate::harmony::{Harmony, RECIPIENT};
use crate::tool::{Tool, Tools};

/// Maximum number of messages before the last one in an answer of gpt-oss.
const MAX_MESSAGES: u32 = 32;

/// Maximum number of calls in one answer.
const MAX_CALLS: u32 = 64;

/// Content of an answer that calls no tool.
#[derive(Clone, PartialEq, Debug)]
pub enum Content {
    /// Any text.
    Free,
    /// Text that a grammar produces.
    Shaped(Part),
}

impl ChatFormat {
    /// Returns the grammar of a whole answer, or `None` if any text is allowed. `thoughts` states
    /// whether the answer starts with thoughts.
    ///
    /// After the thoughts, the model chooses between content and a call of one of the `tools`. Free
    /// content may also be followed by a call. If [`Tools::required`] is true, only calls are
    /// allowed.
    pub fn answer(&self, content: &Content, tools: &Tools, thoughts: Thoughts) -> Option<Part> {
        // Without a grammar, gpt-oss could think again after its thoughts were ended.
        let is_bounded = self.harmony.is_some() && thoughts == Thoughts::Begun;
        if tools.tools.is_empty() && *content == Content::Free && !is_bounded {
            return None;
        }
        if let Some(harmony) = &self.harmony {
            return Some(harmony.answer(content, tools, thoughts));
        }
        let body = self.body(content, tools);
        let Some(tags) = &self.thoughts else { return Some(body) };
        let gaps = Part::Choices(["", "\n", "\n\n"].map(str::to_owned).to_vec());
        let until_closed = || {
            let (trigger, rest) = tags.close.trigger()?;
            let then = Part::sequence([rest.part(), gaps.clone()]);
            Some(Part::Text { triggers: vec![(trigger, then)], may_end: false })
        };
        let thinks = match thoughts {
            Thoughts::None => return Some(body),
            Thoughts::Begun => until_closed()?,
            Thoughts::Possible => {
                let mut ways = vec![Part::literal(""), Part::sequence([tags.open.part(), until_closed()?])];
                ways.extend(tags.closes_alone.then(|| Part::sequence([tags.close.part(), gaps.clone()])));
                Part::OneOf(ways)
            }
        };
        Some(Part::sequence([thinks, body]))
    }

    /// Returns true if an answer without tools consists of its content only.
    pub fn is_plain(&self, thoughts: Thoughts) -> bool {
        self.harmony.is_none() && thoughts == Thoughts::None && self.calls.content_open.is_empty()
    }

    fn body(&self, content: &Content, tools: &Tools) -> Part {
        let shaped = matches!(content, Content::Shaped(_));
        let format = self.calls_beside(shaped && !tools.required);
        let content_open = Part::literal(format.content_open.as_str());
        if tools.tools.is_empty() {
            return match content {
                Content::Shaped(part) => Part::sequence([content_open, part.clone()]),
                Content::Free => Part::any_text(),
            };
        }
        let list = format.list(tools);
        let whole = || Part::sequence([format.open.part(), list.clone()]);
        if tools.required {
            return whole();
        }
        match (content, format.trigger()) {
            (Content::Shaped(part), _) => {
                Part::OneOf(vec![Part::sequence([content_open, part.clone()]), whole()])
            }
            (Content::Free, Some((trigger, rest))) => {
                let then = Part::sequence([rest.part(), list.clone()]);
                let text = Part::Text { triggers: vec![(trigger, then)], may_end: true };
                if format.content_open.is_empty() {
                    text
                } else {
                    Part::OneOf(vec![Part::sequence([content_open, text]), whole()])
                }
            }
            // The first character that is not whitespace decides.
            (Content::Free, None) => {
                Part::OneOf(vec![Part::Regex(r"\s*([^{\s][\s\S]*)?".to_owned()), whole()])
            }
        }
    }
}

impl CallFormat {
    /// Returns the grammar of calls after their opening: names, arguments, separators and the
    /// closing.
    fn list(&self, tools: &Tools) -> Part {
        let item = tools.tools.iter().map(|tool| {
            let arguments = match &self.arguments {
                Arguments::Json => arguments(tool),
                Arguments::Members { layout, notation } => layout.part(notation, tool),
            };
            Part::sequence([Part::literal(tool.name.as_str()), self.between.part(), arguments])
        });
        let (separator, max) = match &self.separator {
            Some(separator) if tools.parallel => (separator.part(), MAX_CALLS),
            _ => (Part::literal(""), 1),
        };
        let list = Part::List {
            item: Box::new(Part::OneOf(item.collect())),
            separator: Box::new(separator),
            max: Some(max),
        };
        let ways = [Part::literal(""), self.turn_end.part()];
        let turn_end = if self.turn_end.0.is_empty() { Part::literal("") } else { Part::OneOf(ways.into()) };
        Part::sequence([list, self.close.part(), turn_end])
    }
}

impl Harmony {
    /// Returns the grammar of an answer: thoughts, then the final message or calls.
    fn answer(&self, content: &Content, tools: &Tools, thoughts: Thoughts) -> Part {
        let on = |channel: &str| Part::sequence([Part::Token(self.channel), Part::literal(channel)]);
        let header = |channel: &str| Part::sequence([on(channel), Part::Token(self.message)]);
        let next = || Part::sequence([Part::Token(self.start), Part::literal("assistant")]);
        let thinks = until(self.end, next());
        // Messages before the last one.
        let before = |messages: Vec<Part>| {
            let list = Part::List {
                item: Box::new(Part::OneOf(messages)),
                separator: Box::new(Part::literal("")),
                max: Some(MAX_MESSAGES),
            };
            Part::OneOf(vec![Part::literal(""), list])
        };
        let message = |channel: &str| Part::sequence([header(channel), thinks.clone()]);
        let mut ways = Vec::new();
        if !tools.required {
            let words = match content {
                Content::Free => Part::any_text(),
                Content::Shaped(part) => part.clone(),
            };
            ways.push(Part::sequence([before(vec![message("analysis")]), header("final"), words]));
        }
        let calls = tools.tools.iter().map(|tool| {
            // The recipient may stand after the channel or before it, and models do not always mark
            // the type of the arguments.
            let recipient = format!("{RECIPIENT}{}", tool.name);
            let constrained = || Part::sequence([Part::Token(self.constrain), Part::literal("json")]);
            let after = [on("commentary "), Part::literal(format!("{recipient} ")), constrained()];
            let before = [
                Part::literal(format!(" {recipient}")),
                on("commentary "),
                Part::OneOf(vec![constrained(), Part::literal("json")]),
            ];
            let header = Part::OneOf(vec![Part::sequence(after), Part::sequence(before)]);
            Part::sequence([header, Part::Token(self.message), arguments(tool)])
        });
        let calls: Vec<Part> = calls.collect();
        if !calls.is_empty() {
            // Before a call, a model may also tell the user what it does.
            let mut messages = vec![message("analysis")];
            messages.extend((*content == Content::Free).then(|| message("commentary")));
            ways.push(Part::sequence([before(messages), Part::OneOf(calls)]));
        }
        match thoughts {
            Thoughts::Begun => Part::sequence([thinks.clone(), Part::OneOf(ways)]),
            _ => Part::OneOf(ways),
        }
    }
}

/// Returns the grammar of a tool's arguments.
fn arguments(tool: &Tool) -> Part {
    Part::at(tool.place.as_str(), tool.arguments())
}

/// Returns the grammar of any text that ends with `token`, followed by `then`.
fn until(token: TokenId, then: Part) -> Part {
    Part::Text { triggers: vec![(Trigger::Token(token), then)], may_end: false }
}
