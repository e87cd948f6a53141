//! The extension `mask_view`: what a constraint did to each token of an output.

use formwork_engine::TokenMask;
use formwork_openai::{MaskedToken, TokenOrigin};
use formwork_vocab::Vocabulary;

use crate::choice::spelling;
use crate::places::{Place, Places};

/// Maximum number of offsets to search for the beginning of the content.
const SEARCH: usize = 4096;

/// The tokens of one output, with the places of their text.
///
/// Call [`token`](Self::token) for each token, [`show`](Self::show) for the text that tokens complete, and
/// [`content`](Self::content) for the part of this text that is content.
#[derive(Default)]
pub struct MaskViews {
    /// Tokens that have not been taken, each with the offset of its text.
    pending: Vec<(TokenMask, usize)>,
    /// Text of all tokens.
    text: Vec<u8>,
    /// Number of bytes of the text that were shown.
    shown: usize,
    places: Places,
    /// Offset in `text` of the content, once it is known.
    content_at: Option<usize>,
    /// Offset in `text` up to which `places` have read the content.
    read: usize,
}

impl MaskViews {
    /// Creates the view of an output. The prompt already has the content `begun`.
    pub fn new(mut places: Places, begun: &str) -> Self {
        places.read(begun.as_bytes());
        Self { places, ..Self::default() }
    }

    /// Adds the next token.
    pub fn token(&mut self, mask: TokenMask, vocabulary: &Vocabulary) {
        let start = self.text.len();
        if vocabulary.kind(mask.token).is_text() {
            self.text.extend_from_slice(vocabulary.bytes(mask.token));
        }
        self.pending.push((mask, start));
    }

    /// Notes that the next text was shown, whose tokens were added before.
    pub const fn show(&mut self, text: &str) {
        self.shown += text.len();
    }

    /// Notes the next content, a part of the text that was shown.
    pub fn content(&mut self, content: &str) {
        if self.content_at.is_none() && !content.is_empty() {
            let shown = &self.text[..self.shown.min(self.text.len())];
            let last = shown.len().checked_sub(content.len());
            // Readers hold back little text, so content is near the end of what was shown.
            let mut offsets = last.into_iter().flat_map(|last| (0..=last).rev().take(SEARCH));
            self.content_at = offsets.find(|&at| shown[at..].starts_with(content.as_bytes()));
        }
    }

    /// Notes that the next text was shown and is content.
    pub fn show_content(&mut self, text: &str) {
        self.show(text);
        self.content(text);
    }

    /// Returns the tokens since the last call.
    pub fn take(&mut self, vocabulary: &Vocabulary) -> Vec<formwork_openai::TokenMask> {
        let pending = std::mem::take(&mut self.pending);
        pending.into_iter().map(|(mask, start)| self.view(&mask, start, vocabulary)).collect()
    }

    fn view(
        &mut self,
        mask: &TokenMask,
        start: usize,
        vocabulary: &Vocabulary,
    ) -> formwork_openai::TokenMask {
        let (token, bytes) = spelling(mask.token, vocabulary);
        let end = start + if vocabulary.kind(mask.token).is_text() { bytes.len() } else { 0 };
        let top = mask.top.iter().map(|seen| {
            let (token, bytes) = spelling(seen.token, vocabulary);
            let (probability, allowed) = (seen.probability, seen.is_allowed);
            MaskedToken { token, id: seen.token.0, bytes, probability, allowed }
        });
        let Place { path, rules } = self.place(start, end);
        formwork_openai::TokenMask {
            token,
            id: mask.token.0,
            bytes,
            start,
            end,
            origin: origin(mask.origin),
            allowed: mask.allowed,
            probability: mask.probability,
            removed: mask.removed,
            path,
            rules,
            top: top.collect(),
        }
    }

    /// Returns the place of the token with the text `start..end`. Must be called in order.
    fn place(&mut self, start: usize, end: usize) -> Place {
        let Some(at) = self.content_at else { return Place::default() };
        // A token may begin before the content, with the last bytes of a tag. Tokens whose text was not known
        // to be content have no place.
        let start = start.max(at);
        let (Some(skipped), Some(token)) =
            (self.text.get(self.read.max(at)..start), self.text.get(start..end))
        else {
            return Place::default();
        };
        self.places.read(skipped);
        self.read = end;
        self.places.read(token)
    }
}

const fn origin(origin: formwork_engine::TokenOrigin) -> TokenOrigin {
    match origin {
        formwork_engine::TokenOrigin::Sampled => TokenOrigin::Sampled,
        formwork_engine::TokenOrigin::OnlyToken => TokenOrigin::OnlyToken,
        formwork_engine::TokenOrigin::OnlyText => TokenOrigin::OnlyText,
        formwork_engine::TokenOrigin::ReasoningBudget => TokenOrigin::ReasoningBudget,
        formwork_engine::TokenOrigin::TokenBudget => TokenOrigin::TokenLimit,
    }
}
