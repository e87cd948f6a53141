use super::cost::Cost;
use crate::options::{Layout, Profile};

/// Maximum size of one gap of a generated text with flexible white space, in bytes.
const GENERATED_GAP: u8 = 16;

/// The white space between the tokens of a JSON text, by position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spacing {
    /// White space before and after the whole value.
    pub(crate) around: Gap,
    /// White space after `[` and `{`, and before `]` and `}`, in arrays and objects that are not
    /// empty.
    pub(crate) bracket: Gap,
    pub(crate) before_comma: Gap,
    pub(crate) after_comma: Gap,
    pub(crate) before_colon: Gap,
    pub(crate) after_colon: Gap,
}

/// The white space that one position must or may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Gap {
    None,
    Space,
    /// A line break and the indentation of the position.
    Line,
    /// At most this number of bytes, which are spaces and line breaks.
    UpTo(u8),
    /// Any white space that JSON allows, of any length.
    Any,
}

/// The part of a gap that has not been read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum GapRest {
    /// Exactly `left` more bytes. The first byte is a line break if `line` is true, and all other
    /// bytes are spaces.
    Fixed {
        left: u32,
        line: bool,
    },
    /// At most this number of bytes, which are spaces and line breaks.
    UpTo(u8),
    Any,
}

/// Effect of a byte on a [`GapRest`].
pub(crate) enum GapStep {
    /// The byte is part of the gap. The rest of the gap follows.
    Within(GapRest),
    /// The gap has ended, and the byte belongs to the next token.
    Past,
    /// The byte is not allowed here.
    Reject,
}

impl Spacing {
    pub(crate) const fn new(layout: Layout, profile: Profile) -> Self {
        let (bracket, after_comma, after_colon) = match (layout, profile) {
            (Layout::Compact, _) => (Gap::None, Gap::None, Gap::None),
            (Layout::Spaced, _) => (Gap::None, Gap::Space, Gap::Space),
            (Layout::Pretty, _) => (Gap::Line, Gap::Line, Gap::Space),
            (Layout::Flexible | Layout::Inside, Profile::Generate) => {
                let gap = Gap::UpTo(GENERATED_GAP);
                (gap, gap, gap)
            }
            (Layout::Flexible | Layout::Inside, Profile::Accept) => (Gap::Any, Gap::Any, Gap::Any),
        };
        let elsewhere = if matches!(bracket, Gap::Any) { Gap::Any } else { Gap::None };
        Self {
            around: if matches!(layout, Layout::Inside) { Gap::None } else { elsewhere },
            bracket,
            before_comma: elsewhere,
            after_comma,
            before_colon: elsewhere,
            after_colon,
        }
    }

    /// Returns the least cost of the gap after an opening or before a closing bracket. The gap is
    /// `levels` deeper than the value with the bracket.
    pub(crate) fn bracket_cost(&self, levels: u32) -> Cost {
        Cost::gap(self.bracket.least(), levels)
    }

    /// Returns the least cost of the gap after a comma. The gap is `levels` deeper than the value
    /// with the comma.
    pub(crate) fn after_comma_cost(&self, levels: u32) -> Cost {
        Cost::gap(self.after_comma.least(), levels)
    }

    /// Returns the least cost of the gap after a colon.
    pub(crate) fn after_colon_cost(&self) -> Cost {
        Cost::gap(self.after_colon.least(), 0)
    }
}

impl Gap {
    /// Returns the state at the start of the gap, at a position that is indented by `depth` levels.
    pub(crate) const fn rest(self, depth: u32) -> GapRest {
        match self {
            Self::None => GapRest::Fixed { left: 0, line: false },
            Self::Space => GapRest::Fixed { left: 1, line: false },
            Self::Line => GapRest::Fixed { left: 1 + 2 * depth, line: true },
            Self::UpTo(bytes) => GapRest::UpTo(bytes),
            Self::Any => GapRest::Any,
        }
    }

    /// Returns the least number of bytes of the gap at depth 0, and the number of its line breaks.
    pub(crate) const fn least(self) -> (u32, u32) {
        match self {
            Self::None | Self::UpTo(_) | Self::Any => (0, 0),
            Self::Space => (1, 0),
            Self::Line => (1, 1),
        }
    }

    /// Returns the least number of bytes of the gap at a position that is indented by `depth`
    /// levels.
    pub(crate) const fn least_at(self, depth: u32) -> u32 {
        let (bytes, lines) = self.least();
        bytes + 2 * lines * depth
    }
}

impl GapRest {
    pub(crate) fn step(self, byte: u8) -> GapStep {
        match (self, byte) {
            (Self::Fixed { left: 0, .. }, _) => GapStep::Past,
            (Self::Fixed { left, line: true }, b'\n') | (Self::Fixed { left, line: false }, b' ') => {
                GapStep::Within(Self::Fixed { left: left - 1, line: false })
            }
            (Self::Fixed { .. }, _) | (Self::UpTo(0), b' ' | b'\n') => GapStep::Reject,
            (Self::UpTo(left), b' ' | b'\n') => GapStep::Within(Self::UpTo(left - 1)),
            (Self::Any, b' ' | b'\n' | b'\t' | b'\r') => GapStep::Within(Self::Any),
            (Self::UpTo(_) | Self::Any, _) => GapStep::Past,
        }
    }

    /// Returns the least number of bytes that complete the gap, and the first of them.
    pub(crate) const fn closing(self) -> (u32, u8) {
        match self {
            Self::Fixed { left, line } => (left, if line { b'\n' } else { b' ' }),
            Self::UpTo(_) | Self::Any => (0, b' '),
        }
    }

    pub(crate) const fn is_fixed(self) -> bool {
        matches!(self, Self::Fixed { .. })
    }
}
