//! How few bytes a value can take.

use super::needs::Amount;

/// The length of a shortest text, and its first byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shortest {
    pub(crate) len: u32,
    /// Of no meaning where `len` is zero.
    pub(crate) first: u8,
}

impl Shortest {
    pub(crate) const fn new(len: u32, first: u8) -> Self {
        Self { len, first }
    }

    /// This text and then `rest` more bytes.
    pub(crate) const fn then(self, rest: u32) -> Self {
        Self { len: self.len.saturating_add(rest), first: self.first }
    }

    /// `(bytes, first)` and then this text.
    pub(crate) const fn after(self, (bytes, first): (u32, u8)) -> Self {
        if bytes == 0 { self } else { Self { len: self.len.saturating_add(bytes), first } }
    }

    pub(crate) fn or(self, other: Option<Self>) -> Self {
        other.filter(|other| other.len < self.len).unwrap_or(self)
    }

    /// The shorter of two that may not exist.
    pub(crate) fn shorter(a: Option<Self>, b: Option<Self>) -> Option<Self> {
        a.map(|a| a.or(b)).or(b)
    }
}

/// The least number of bytes that some value takes, as a function of the depth at which it stands.
///
/// In the pretty layout a line inside the value is two bytes longer per level, so what is shortest depends on the depth:
/// `[\n  0\n]` at depth 0 has 7 bytes, but 11 at depth 1, where a string of 10 is shorter. The least of several lines
/// `bytes + 2 · lines · depth` is kept as the lines themselves; no line lies above another one everywhere. In all other
/// layouts there is one, and it is level.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Cost(Vec<Line>);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Line {
    bytes: u32,
    lines: u32,
    first: u8,
}

impl Cost {
    /// No value exists.
    pub(crate) const NONE: Self = Self(Vec::new());

    pub(crate) fn new(bytes: u32, first: u8) -> Self {
        Self(vec![Line { bytes, lines: 0, first }])
    }

    /// The cost of a gap's `(bytes, lines)`, `levels` deeper than the value it is in.
    pub(crate) fn gap((bytes, lines): (u32, u32), levels: u32) -> Self {
        Self(vec![Line { bytes: bytes + 2 * lines * levels, lines, first: b' ' }])
    }

    pub(crate) fn of(Amount { bytes, lines }: Amount, first: u8) -> Self {
        Self(vec![Line { bytes, lines, first }])
    }

    /// What is least at a depth.
    pub(crate) fn line_at(&self, depth: u32) -> Option<Amount> {
        let lines = self.0.iter().map(|&Line { bytes, lines, .. }| Amount { bytes, lines });
        lines.min_by_key(|line| line.at(depth))
    }

    pub(crate) const fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn at(&self, depth: u32) -> Option<Shortest> {
        let lens = self.0.iter().map(|line| {
            let indent = line.lines.saturating_mul(2).saturating_mul(depth);
            Shortest::new(line.bytes.saturating_add(indent), line.first)
        });
        lens.min_by_key(|shortest| shortest.len)
    }

    /// Either of two values.
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

    /// Drops lines that are nowhere below all others: the steepest come first, and each must pass below its predecessor
    /// before its successor does.
    fn drop_hidden(&mut self) {
        // The depth at which `b`, the flatter one, passes below `a`, as a fraction.
        let meet = |a: &Line, b: &Line| (u64::from(b.bytes - a.bytes), u64::from(a.lines - b.lines));
        let mut kept: Vec<Line> = Vec::with_capacity(self.0.len());
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

    /// One value and then the other.
    pub(crate) fn and(&self, other: &Self) -> Self {
        let mut sum = Self::NONE;
        for a in &self.0 {
            let pairs = other.0.iter().map(|b| Line {
                bytes: a.bytes.saturating_add(b.bytes),
                lines: a.lines.saturating_add(b.lines),
                first: a.first,
            });
            for line in pairs {
                sum.or(&Self(vec![line]));
            }
        }
        sum
    }

    /// `count` values of the same cost, one after the other.
    pub(crate) fn times(&self, count: u32) -> Self {
        let scaled = |line: &Line| Line {
            bytes: line.bytes.saturating_mul(count),
            lines: line.lines.saturating_mul(count),
            first: line.first,
        };
        Self(self.0.iter().map(scaled).collect())
    }

    /// The cost where the value stands one level deeper.
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
    fn the_least_line_at_every_depth_is_kept() {
        let lines = [(3, 9), (5, 5), (9, 4), (11, 2), (12, 2), (40, 0), (30, 1), (60, 0)];
        let mut cost = Cost::NONE;
        for (bytes, lines) in lines {
            cost.or(&Cost(vec![Line { bytes, lines, first: 0 }]));
        }
        for depth in 0..40 {
            let least = lines.iter().map(|(bytes, lines)| bytes + 2 * lines * depth).min();
            assert_eq!(cost.at(depth).map(|s| s.len), least, "depth {depth}");
        }
    }
}
