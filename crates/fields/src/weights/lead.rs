//! The text before the JSON text of an output: thoughts and markers.

use std::sync::Arc;

/// The text before the JSON text of an output, such as thoughts. The default is no text.
///
/// A token with bytes of the lead and of the JSON text gets no bias.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Lead {
    /// The text directly before the JSON text, such as `</think>`. `None` if the output is only JSON text.
    pub close: Option<String>,
    /// The text with which the lead begins, such as `<think>`, if the output may lack a lead. An output that begins
    /// neither with this text nor with `close` is only JSON text. `None` if each output has a lead.
    pub open: Option<String>,
    /// Start of the output that is not generated. The guide reads it first.
    pub begun: String,
}

/// Reader of a lead.
#[derive(Clone, Debug)]
pub(super) enum Reading {
    /// The text so far may be the start of a lead.
    Start(Arc<Lead>, Vec<u8>),
    /// In the lead. The bytes are the last ones of the text so far.
    Lead(Arc<Lead>, Vec<u8>),
    /// In the JSON text.
    Json,
}

impl Reading {
    pub(super) fn start(lead: &Arc<Lead>) -> Self {
        match (&lead.close, &lead.open) {
            (None, _) => Self::Json,
            (Some(_), Some(_)) => Self::Start(Arc::clone(lead), Vec::new()),
            (Some(_), None) => Self::Lead(Arc::clone(lead), Vec::new()),
        }
    }

    /// Returns true if the next byte may belong to the JSON text.
    pub(super) fn may_be_json(&self) -> bool {
        match self {
            Self::Start(_, text) => text.is_empty(),
            Self::Lead(..) => false,
            Self::Json => true,
        }
    }

    /// Reads bytes, and returns those of them that belong to the JSON text.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut json = Vec::new();
        for &byte in bytes {
            if self.is_json_from(byte, &mut json) {
                json.push(byte);
            }
        }
        json
    }

    /// Reads a byte. Returns true if it belongs to the JSON text. Adds earlier bytes to `json` that turn out to
    /// belong to it.
    fn is_json_from(&mut self, byte: u8, json: &mut Vec<u8>) -> bool {
        match self {
            Self::Json => return true,
            Self::Start(_, text) if text.is_empty() && byte.is_ascii_whitespace() => {}
            Self::Start(lead, text) => {
                text.push(byte);
                let [open, close] = [&lead.open, &lead.close].map(|text| text.as_deref().unwrap_or_default());
                if text == close.as_bytes() {
                    *self = Self::Json;
                } else if text == open.as_bytes() {
                    *self = Self::Lead(Arc::clone(lead), std::mem::take(text));
                } else if !open.as_bytes().starts_with(text) && !close.as_bytes().starts_with(text) {
                    text.pop();
                    json.append(text);
                    *self = Self::Json;
                    return true;
                }
            }
            Self::Lead(lead, text) => {
                text.push(byte);
                let close = lead.close.as_deref().unwrap_or_default();
                if text.ends_with(close.as_bytes()) {
                    *self = Self::Json;
                } else if text.len() >= 2 * close.len() + 64 {
                    text.drain(..text.len() - close.len());
                }
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lead(open: Option<&str>) -> Arc<Lead> {
        let (close, open) = (Some("</t>".to_owned()), open.map(str::to_owned));
        Arc::new(Lead { close, open, begun: String::new() })
    }

    fn json(lead: &Arc<Lead>, text: &str) -> String {
        let mut reading = Reading::start(lead);
        let json: Vec<u8> = text.bytes().flat_map(|byte| reading.read(&[byte])).collect();
        let whole = Reading::start(lead).read(text.as_bytes());
        assert_eq!(json, whole, "the pieces do not matter");
        String::from_utf8(json).expect("of ASCII")
    }

    #[test]
    fn json_follows_the_lead() {
        let long = format!("a<</t>{{}}{}", "b".repeat(500));
        assert_eq!(json(&lead(None), &long), long[6..]);
        assert_eq!(json(&lead(Some("<t>")), "\n<t>x</t>{}"), "{}");
        assert_eq!(json(&lead(Some("<t>")), "{\"a\": 1}</t>"), "{\"a\": 1}</t>");
        assert_eq!(json(&lead(Some("<t>")), "<u></t>{}"), "<u></t>{}");
        assert_eq!(json(&lead(Some("<t>")), "</t>\n{}"), "\n{}");
        assert_eq!(json(&Arc::default(), "<t>"), "<t>");
    }

    #[test]
    fn memory_does_not_grow_with_the_lead() {
        let mut reading = Reading::start(&lead(None));
        for _ in 0..1000 {
            assert!(reading.read(b"thought ").is_empty());
        }
        let Reading::Lead(_, text) = &reading else { panic!("still in the lead") };
        assert!(text.len() < 100);
        assert_eq!(reading.read(b" </t>1"), b"1");
    }
}
