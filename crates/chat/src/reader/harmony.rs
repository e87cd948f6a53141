use formwork_vocab::TokenId;

use super::Deltas;
use crate::harmony::{Harmony, RECIPIENT};

/// Reader of messages on channels.
pub(super) struct Channels {
    harmony: Harmony,
    place: Place,
}

enum Place {
    /// In text between messages.
    Between,
    /// In a header, with its text so far.
    Header(String),
    Thought,
    Content,
    /// In a call's arguments. Has the function's name until the first argument text arrives.
    Arguments(Option<String>),
}

impl Channels {
    /// Creates a reader of an answer that starts with a header, or inside the thoughts.
    pub(super) fn new(harmony: &Harmony, in_thoughts: bool) -> Self {
        // A header may name the recipient before the first channel token.
        let place = if in_thoughts { Place::Thought } else { Place::Header(String::new()) };
        Self { harmony: harmony.clone(), place }
    }

    pub(super) fn text(&mut self, text: &str, deltas: &mut Deltas) {
        match &mut self.place {
            Place::Between => {}
            Place::Header(header) => header.push_str(text),
            Place::Thought => deltas.thought(text),
            Place::Content => deltas.content(text),
            Place::Arguments(name) => {
                if let Some(name) = name.take() {
                    deltas.call(&name);
                }
                deltas.arguments(text);
            }
        }
    }

    pub(super) const fn is_outside_content(&self) -> bool {
        !matches!(self.place, Place::Content)
    }

    pub(super) fn control(&mut self, token: TokenId) {
        let Harmony { start, channel, constrain, message, end, call } = self.harmony;
        let place = std::mem::replace(&mut self.place, Place::Between);
        self.place = match place {
            Place::Header(header) if token == message => Self::body(&header),
            Place::Header(header) if [channel, constrain].contains(&token) => Place::Header(header + " "),
            _ if [start, channel].contains(&token) => Place::Header(String::new()),
            _ if [end, call].contains(&token) => Place::Between,
            other => other,
        };
    }

    /// Returns the kind of body that follows a header.
    fn body(header: &str) -> Place {
        if let Some((_, rest)) = header.split_once(RECIPIENT) {
            let name = rest.split_whitespace().next().unwrap_or_default();
            return Place::Arguments(Some(name.to_owned()));
        }
        if header.split_whitespace().any(|word| word == "analysis") { Place::Thought } else { Place::Content }
    }
}
