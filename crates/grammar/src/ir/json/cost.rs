//! Least number of bytes that a value can take.

use smallvec::{SmallVec, smallvec};

use super::needs::Amount;

/// Length of a shortest text in bytes, and its first byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shortest {
    pub(crate) len: u32,
    /// First byte of the text. Meaningless if `len` is 0.
    pub(crate) first: u8,
}

impl Shortest {
    pub(crate) const fn new(len: u32, first: u8) -> Self {
        Self { len, first }
    }

    /// Returns this text followed by `rest` more bytes.
    pub(crate) const fn then(self, rest: u32) -> Self {
        Self { len: self.len.saturating_add(rest), first: self.first }
    }

    /// Returns this text preceded by a text with the given length and first byte.
    pub(crate) const fn after(self, (bytes, first): (u32, u8)) -> Self {
        if bytes == 0 { self } else { Self { len: self.len.saturating_add(bytes), first } }
    }

    /// Returns the shorter of this text and `other`, or this text if they are equally long.
    pub(crate) fn or(self, other: Option<Self>) -> Self {
        other.filter(|other| other.len < self.len).unwrap_or(self)
    }

    /// Returns the shorter of two texts. Either text may be missing.
    pub(crate) fn shorter(a: Option<Self>, b: Option<Self>) -> Option<Self> {
        a.map(|a| a.or(b)).or(b)
    }
}

/// Least number of bytes that a value takes, as a function of the value's depth.
///
/// In the pretty layout, a line inside the value grows by two bytes per level. The shortest value
/// thus depends on the depth. For example, `[\n  0\n]` has 7 bytes at depth 0 and 11 bytes at depth
/// 1, where a string of 10 bytes is shorter.
///
/// The cost is the minimum of several lines `bytes + 2 · lines · depth`, which are functions of the
/// depth. No stored line lies above another one at all depths. All other layouts have a single line
/// with slope 0.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Cost(SmallVec<[Line; 2]>);

/// The function `bytes + 2 · lines · depth`, for a text with `lines` line breaks. `first` is the
/// first byte of the text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Line {
    bytes: u32,
    lines: u32,
    first: u8,
}

impl Cost {
    /// The cost if no value exists.
    pub(crate) const NONE: Self = Self(SmallVec::new_const());

    /// Creates the cost of a text without line breaks.
    pub(crate) fn new(bytes: u32, first: u8) -> Self {
        Self(smallvec![Line { bytes, lines: 0, first }])
    }

    /// Returns the cost of a gap of white space with `bytes` bytes at depth 0 and `lines` line
    /// breaks. The gap is `levels` deeper than the value around it.
    pub(crate) fn gap((bytes, lines): (u32, u32), levels: u32) -> Self {
        Self(smallvec![Line { bytes: bytes + 2 * lines * levels, lines, first: b' ' }])
    }

    /// Creates the cost of a text with the given amount and first byte.
    pub(crate) fn of(Amount { bytes, lines }: Amount, first: u8) -> Self {
        Self(smallvec![Line { bytes, lines, first }])
    }

    /// Returns the line with the fewest bytes at `depth`, or `None` if no value exists.
    pub(crate) fn line_at(&self, depth: u32) -> Option<Amount> {
        let lines = self.0.iter().map(|&Line { bytes, lines, .. }| Amount { bytes, lines });
        lines.min_by_key(|line| line.at(depth))
    }

    pub(crate) fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the length and first byte of the shortest text at `depth`, or `None` if no value
    /// exists.
    pub(crate) fn at(&self, depth: u32) -> Option<Shortest> {
        let lens = self.0.iter().map(|line| {
            let indent = line.lines.saturating_mul(2).saturating_mul(depth);
            Shortest::new(line.bytes.saturating_add(indent), line.first)
        });
        lens.min_by_key(|shortest| shortest.len)
    }

    /// Changes the cost to the minimum of both costs.
    pub(crate) fn or(&mut self, other: &Self) {
        for &line in &other.0 {
            let below = |a: &Line, b: &Line| a.bytes <= b.bytes && a.lines <= b.lines;
            if !self.0.iter().any(|kept| below(kept, &line)) {
                self.0.retain(|kept| !below(&line, kept));
                self.0.push(line);
            }
        }
        self.0.sort_unstable_by_key(|line| line.bytes);
        self.drop_hidden();
    }

    /// Drops lines that are not the minimum at any depth.
    ///
    /// The steepest lines come first. Of consecutive lines `a`, `b` and `line`, `b` stays only if
    /// the depth at which `b` falls below `a` is smaller than the depth at which `line` falls below
    /// `b`.
    fn drop_hidden(&mut self) {
        // The depth at which `b`, the flatter line, falls below `a`, as a fraction.
        let meet = |a: &Line, b: &Line| (u64::from(b.bytes - a.bytes), u64::from(a.lines - b.lines));
        if self.0.len() <= 2 {
            return;
        }
        let mut kept: SmallVec<[Line; 2]> = SmallVec::with_capacity(self.0.len());
        for &line in &self.0 {
            while let [.., a, b] = kept[..] {
                let ((ab, ab_per), (bc, bc_per)) = (meet(&a, &b), meet(&b, &line));
                if u128::from(ab) * u128::from(bc_per) < u128::from(bc) * u128::from(ab_per) {
                    break;
                }
                kept.pop();
            }
            kept.push(line);
        }
        self.0 = kept;
    }

    /// Returns the cost of a text with this cost, followed by a text with the cost `other`.
    pub(crate) fn and(&self, other: &Self) -> Self {
        let mut sum = Self::NONE;
        for a in &self.0 {
            let pairs = other.0.iter().map(|b| Line {
                bytes: a.bytes.saturating_add(b.bytes),
                lines: a.lines.saturating_add(b.lines),
                first: a.first,
            });
            for line in pairs {
                sum.or(&Self(smallvec![line]));
            }
        }
        sum
    }

    /// Returns the cost of `count` consecutive texts that each have this cost.
    pub(crate) fn times(&self, count: u32) -> Self {
        let scaled = |line: &Line| Line {
            bytes: line.bytes.saturating_mul(count),
            lines: line.lines.saturating_mul(count),
            first: line.first,
        };
        Self(self.0.iter().map(scaled).collect())
    }

    /// Returns the cost of the same value one level deeper.
    pub(crate) fn indented(&self) -> Self {
        let deeper =
            |line: &Line| Line { bytes: line.bytes.saturating_add(line.lines.saturating_mul(2)), ..*line };
        let mut cost = Self::NONE;
        cost.or(&Self(self.0.iter().map(deeper).collect()));
        cost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_cheapest_line_at_every_depth() {
        let lines = [(3, 9), (5, 5), (9, 4), (11, 2), (12, 2), (40, 0), (30, 1), (60, 0)];
        let mut cost = Cost::NONE;
        for (bytes, lines) in lines {
            cost.or(&Cost(smallvec![Line { bytes, lines, first: 0 }]));
        }
        for depth in 0..40 {
            let least = lines.iter().map(|(bytes, lines)| bytes + 2 * lines * depth).min();
            assert_eq!(cost.at(depth).map(|s| s.len), least, "depth {depth}");
        }
    }
}
