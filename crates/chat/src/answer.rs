//! The grammar of a whole answer.

use formwork_grammar::{Part, Trigger};
use formwork_vocab::TokenId;

use crate::arguments::Arguments;
use crate::format::{CallFormat, ChatFormat, Section, Tags, Thoughts};
use crate::harmony::{Harmony, RECIPIENT};
use crate::tags::Marked;
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
        self.answer_after(0, content, tools, thoughts)
    }

    /// Returns the grammar of an [answer](Self::answer) in a conversation that has `calls` calls so far.
    ///
    /// Some formats number the calls. Then the first call has the next number. The numbers of the calls
    /// after it are free, because a grammar would need one copy of the tools for each number.
    pub fn answer_after(
        &self,
        calls: u32,
        content: &Content,
        tools: &Tools,
        thoughts: Thoughts,
    ) -> Option<Part> {
        // Without a grammar, gpt-oss could think again after its thoughts were ended.
        let is_bounded = self.harmony.is_some() && thoughts == Thoughts::Begun;
        if tools.tools.is_empty() && *content == Content::Free && !is_bounded {
            return None;
        }
        if let Some(harmony) = &self.harmony {
            return Some(harmony.answer(content, tools, thoughts));
        }
        let body = self.body(calls, content, tools, thoughts == Thoughts::InContent);
        let Some(tags) = &self.thoughts else { return Some(body) };
        let gaps = Part::Choices(["", "\n", "\n\n"].map(str::to_owned).to_vec());
        let until_closed = || {
            let (trigger, rest) = tags.close.trigger()?;
            let then = Part::sequence([rest.part(), gaps.clone()]);
            let mut triggers = vec![(trigger, then)];
            // A control token is never part of a text. A marker that is text must not be there either,
            // because a call in the thoughts would not be read.
            let marker = self.call_marker(content, tools);
            triggers.extend(marker.map(|marker| (Trigger::Text(marker), Part::OneOf(Vec::new()))));
            Some(Part::Text { triggers, may_end: false })
        };
        let thinks = match thoughts {
            Thoughts::None | Thoughts::InContent => return Some(body),
            Thoughts::Begun => until_closed()?,
            Thoughts::Possible => {
                let mut ways = vec![Part::literal(""), Part::sequence([tags.open.part(), until_closed()?])];
                ways.extend(tags.closes_alone.then(|| Part::sequence([tags.close.part(), gaps.clone()])));
                Part::OneOf(ways)
            }
        };
        Some(Part::sequence([thinks, body]))
    }

    /// Returns the text that starts a call, if there are tools and the text is not a control token.
    fn call_marker(&self, content: &Content, tools: &Tools) -> Option<String> {
        let shaped = matches!(content, Content::Shaped(_));
        match self.calls_beside(shaped && !tools.required).trigger()? {
            (Trigger::Text(marker), _) if !tools.tools.is_empty() => Some(marker),
            _ => None,
        }
    }

    /// Returns true if an answer without tools consists of its content only.
    pub fn is_plain(&self, thoughts: Thoughts) -> bool {
        self.harmony.is_none()
            && thoughts == Thoughts::None
            && self.calls.content_open.is_empty()
            && self.calls.section.is_none()
    }

    fn body(&self, calls: u32, content: &Content, tools: &Tools, in_content: bool) -> Part {
        let shaped = matches!(content, Content::Shaped(_));
        let mut format = self.calls_beside(shaped && !tools.required);
        let number = self.numbering.after(calls);
        format.open = format.open.numbered(number);
        if let Some(section) = &format.section {
            let calls = (!tools.tools.is_empty())
                .then(|| Part::sequence([format.open.part(), format.list(number, tools)]));
            return section.body(content, calls, tools.required, in_content);
        }
        let content_open = Part::literal(format.content_open.as_str());
        if tools.tools.is_empty() {
            return match content {
                Content::Shaped(part) => Part::sequence([content_open, part.clone()]),
                Content::Free => Part::any_text(),
            };
        }
        let list = format.list(number, tools);
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
                let first = format.bracket();
                Part::OneOf(vec![Part::Regex(format!(r"\s*([^\{first}\s][\s\S]*)?")), whole()])
            }
        }
    }
}

impl Section {
    /// Returns the grammar of a section of content, and the `calls` after the section. If `in_content` is
    /// true, the prompt ends inside the section.
    fn body(&self, content: &Content, calls: Option<Part>, required: bool, in_content: bool) -> Part {
        let Tags { open, close, .. } = &self.tags;
        let open = if in_content { Part::literal("") } else { open.part() };
        let end = Part::OneOf(vec![Part::literal(""), self.end.part()]);
        match (content, calls) {
            (_, Some(calls)) if required => Part::sequence([open, close.part(), calls]),
            (Content::Shaped(part), calls) => {
                let shaped = Part::sequence([part.clone(), close.part(), end]);
                let calls = calls.map(|calls| Part::sequence([close.part(), calls]));
                let ways = std::iter::once(shaped).chain(calls).collect();
                Part::sequence([open, Part::OneOf(ways)])
            }
            (Content::Free, calls) => {
                let after = Part::OneOf(std::iter::once(end).chain(calls).collect());
                let triggers =
                    close.trigger().map(|(trigger, rest)| (trigger, Part::sequence([rest.part(), after])));
                Part::sequence([
                    open,
                    Part::Text { triggers: triggers.into_iter().collect(), may_end: false },
                ])
            }
        }
    }
}

impl CallFormat {
    /// Returns the grammar of calls after their opening: names, arguments, separators and the
    /// closing. The first call has the number `number`.
    fn list(&self, number: u32, tools: &Tools) -> Part {
        let (separator, max) = match &self.separator {
            Some(separator) if tools.parallel => (separator.part(), MAX_CALLS),
            _ => (Part::literal(""), 1),
        };
        let list = |max: u32| Part::List {
            item: Box::new(self.call(&self.between, tools)),
            separator: Box::new(separator.clone()),
            max: Some(max),
        };
        let list = if self.between.has_number() {
            let first = self.call(&self.between.numbered(number), tools);
            let more = (max > 1).then(|| Part::sequence([separator.clone(), list(max - 1)]));
            let ways = std::iter::once(Part::literal("")).chain(more);
            Part::sequence([first, Part::OneOf(ways.collect())])
        } else {
            list(max)
        };
        let ways = [Part::literal(""), self.turn_end.part()];
        let turn_end = if self.turn_end.0.is_empty() { Part::literal("") } else { Part::OneOf(ways.into()) };
        Part::sequence([list, self.close.part(), turn_end])
    }

    /// Returns the grammar of one call, with the text `between` after its name.
    fn call(&self, between: &Marked, tools: &Tools) -> Part {
        let call = |tool: &Tool| {
            let arguments = match &self.arguments {
                Arguments::Json => arguments(tool),
                Arguments::Members { layout, notation } => layout.part(notation, tool),
            };
            Part::sequence([Part::literal(tool.name.as_str()), between.part(), arguments])
        };
        Part::OneOf(tools.tools.iter().map(call).collect())
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
