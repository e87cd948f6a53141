use super::cost::Cost;
use crate::options::{Layout, Profile};

/// Bytes of whitespace that [`Layout::Flexible`] allows in one gap of a generated text.
const GENERATED_GAP: u8 = 16;

/// What whitespace goes where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spacing {
    /// Before and after the whole value.
    pub(crate) around: Gap,
    /// After `[` and `{`, and before `]` and `}` of arrays and objects that are not empty.
    pub(crate) bracket: Gap,
    pub(crate) before_comma: Gap,
    pub(crate) after_comma: Gap,
    pub(crate) before_colon: Gap,
    pub(crate) after_colon: Gap,
}

/// The whitespace of one kind of place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Gap {
    None,
    Space,
    /// A line break and the indentation of the place.
    Line,
    /// Up to this many spaces and line breaks.
    UpTo(u8),
    /// Any whitespace that JSON has, of any length.
    Any,
}

/// What is left of a gap.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum GapRest {
    /// Exactly this many bytes are to come, the first a line break if set, all others spaces.
    Fixed {
        left: u32,
        line: bool,
    },
    UpTo(u8),
    Any,
}

/// What a byte does in a gap.
pub(crate) enum GapStep {
    /// It is part of the gap.
    Within(GapRest),
    /// The gap is over and the byte belongs to what follows.
    Past,
    Reject,
}

impl Spacing {
    pub(crate) const fn new(layout: Layout, profile: Profile) -> Self {
        let (bracket, after_comma, after_colon) = match (layout, profile) {
            (Layout::Compact, _) => (Gap::None, Gap::None, Gap::None),
            (Layout::Spaced, _) => (Gap::None, Gap::Space, Gap::Space),
            (Layout::Pretty, _) => (Gap::Line, Gap::Line, Gap::Space),
            (Layout::Flexible, Profile::Generate) => {
                let gap = Gap::UpTo(GENERATED_GAP);
                (gap, gap, gap)
            }
            (Layout::Flexible, Profile::Accept) => (Gap::Any, Gap::Any, Gap::Any),
        };
        let elsewhere = if matches!(bracket, Gap::Any) { Gap::Any } else { Gap::None };
        Self {
            around: elsewhere,
            bracket,
            before_comma: elsewhere,
            after_comma,
            before_colon: elsewhere,
            after_colon,
        }
    }

    /// The least cost of the gap inside a bracket, `levels` deeper than the value that it belongs to.
    pub(crate) fn bracket_cost(&self, levels: u32) -> Cost {
        Cost::gap(self.bracket.least(), levels)
    }

    pub(crate) fn after_comma_cost(&self, levels: u32) -> Cost {
        Cost::gap(self.after_comma.least(), levels)
    }

    pub(crate) fn after_colon_cost(&self) -> Cost {
        Cost::gap(self.after_colon.least(), 0)
    }
}

impl Gap {
    /// The whole gap, in a place indented by `depth` levels.
    pub(crate) const fn rest(self, depth: u32) -> GapRest {
        match self {
            Self::None => GapRest::Fixed { left: 0, line: false },
            Self::Space => GapRest::Fixed { left: 1, line: false },
            Self::Line => GapRest::Fixed { left: 1 + 2 * depth, line: true },
            Self::UpTo(bytes) => GapRest::UpTo(bytes),
            Self::Any => GapRest::Any,
        }
    }

    /// Its least number of bytes, as `(bytes at depth 0, whether it is a line)`.
    pub(crate) const fn least(self) -> (u32, u32) {
        match self {
            Self::None | Self::UpTo(_) | Self::Any => (0, 0),
            Self::Space => (1, 0),
            Self::Line => (1, 1),
        }
    }

    /// Its least number of bytes in a place indented by `depth` levels.
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

    /// The least number of bytes to come, and the first of them.
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
