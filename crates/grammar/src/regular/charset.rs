use std::sync::Arc;

/// The largest code point.
pub(super) const LAST: u32 = 0x0010_FFFF;
const BEFORE_SURROGATES: u32 = 0xD7FF;
const AFTER_SURROGATES: u32 = 0xE000;

/// A set of code points (Unicode scalar values): sorted, disjoint, non-adjacent inclusive ranges.
///
/// Surrogates are never members. The set of all code points therefore has two ranges, one before
/// and one after the surrogates.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct CharSet(Arc<[(u32, u32)]>);

impl CharSet {
    /// Returns the set of all code points.
    pub(crate) fn any() -> Self {
        Self(Arc::new([(0, BEFORE_SURROGATES), (AFTER_SURROGATES, LAST)]))
    }

    /// Returns the empty set.
    pub(crate) fn none() -> Self {
        Self(Arc::new([]))
    }

    /// Creates the union of inclusive ranges, in any order. A range whose start is greater than its
    /// end is empty.
    pub(crate) fn new(ranges: impl IntoIterator<Item = (char, char)>) -> Self {
        Self::from_code_points(ranges.into_iter().map(|(low, high)| (low.into(), high.into())))
    }

    /// Creates the union of inclusive ranges of numbers, in any order. Surrogates in the ranges are
    /// dropped.
    pub(crate) fn from_code_points(ranges: impl IntoIterator<Item = (u32, u32)>) -> Self {
        let mut parts = Vec::new();
        for (low, high) in ranges {
            for (first, last) in [(0, BEFORE_SURROGATES), (AFTER_SURROGATES, LAST)] {
                let part = (low.max(first), high.min(last));
                if part.0 <= part.1 {
                    parts.push(part);
                }
            }
        }
        parts.sort_unstable();
        let mut ranges: Vec<(u32, u32)> = Vec::with_capacity(parts.len());
        for (low, high) in parts {
            match ranges.last_mut() {
                Some(last) if low <= last.1 + 1 => last.1 = last.1.max(high),
                _ => ranges.push((low, high)),
            }
        }
        Self(ranges.into())
    }

    /// Creates the set of one code point.
    pub(crate) fn single(c: char) -> Self {
        Self(Arc::new([(c.into(), c.into())]))
    }

    #[cfg(test)]
    pub(crate) fn union(&self, other: &Self) -> Self {
        Self::from_code_points(self.0.iter().chain(&*other.0).copied())
    }

    pub(crate) fn intersect(&self, other: &Self) -> Self {
        let (mut left, mut right) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut ranges = Vec::new();
        while let (Some(&&a), Some(&&b)) = (left.peek(), right.peek()) {
            let common = (a.0.max(b.0), a.1.min(b.1));
            if common.0 <= common.1 {
                ranges.push(common);
            }
            if a.1 < b.1 {
                left.next()
            } else {
                right.next()
            };
        }
        Self(ranges.into())
    }

    pub(crate) fn complement(&self) -> Self {
        let mut next = 0;
        let mut gaps = Vec::with_capacity(self.0.len() + 1);
        for &(low, high) in &*self.0 {
            if next < low {
                gaps.push((next, low - 1));
            }
            next = high + 1;
        }
        gaps.push((next, LAST));
        Self::from_code_points(gaps)
    }

    /// Returns the members of this set that are not in `other`.
    pub(crate) fn without(&self, other: &Self) -> Self {
        self.intersect(&other.complement())
    }

    pub(crate) fn is_subset(&self, other: &Self) -> bool {
        let mut ranges = other.0.iter();
        let mut outer = ranges.next();
        self.0.iter().all(|&(low, high)| {
            while outer.is_some_and(|outer| outer.1 < low) {
                outer = ranges.next();
            }
            outer.is_some_and(|&(first, last)| first <= low && high <= last)
        })
    }

    pub(crate) fn contains(&self, c: char) -> bool {
        let c = u32::from(c);
        let after = self.0.partition_point(|&(low, _)| low <= c);
        after > 0 && c <= self.0[after - 1].1
    }

    /// Returns the ranges: sorted, disjoint and non-adjacent, with inclusive ends.
    pub(crate) fn ranges(&self) -> &[(u32, u32)] {
        &self.0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Returns the first code point after `last`. Skips the surrogates.
pub(super) const fn after(last: u32) -> u32 {
    if last == BEFORE_SURROGATES { AFTER_SURROGATES } else { last + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_sorted_merged_and_free_of_surrogates() {
        let set = CharSet::new([('x', 'z'), ('a', 'b'), ('c', 'd'), ('z', 'y')]);
        assert_eq!(set.ranges(), [(97, 100), (120, 122)]);
        assert_eq!(
            CharSet::from_code_points([(0xD700, 0xE100)]).ranges(),
            [(0xD700, 0xD7FF), (0xE000, 0xE100)]
        );
        assert!(CharSet::from_code_points([(0xD800, 0xDFFF)]).is_empty());
    }

    #[test]
    fn the_boolean_operations_obey_their_laws() {
        let set = CharSet::new([('a', 'f'), ('k', 'p'), ('\u{D000}', '\u{F000}')]);
        let other = CharSet::new([('\0', 'b'), ('m', '\u{E000}')]);
        assert_eq!(set.complement().complement(), set);
        assert_eq!(set.union(&set.complement()), CharSet::any());
        assert!(set.intersect(&set.complement()).is_empty());
        assert_eq!(CharSet::any().complement(), CharSet::none());
        assert_eq!(set.union(&other).complement(), set.complement().intersect(&other.complement()));
        assert_eq!(set.without(&other), set.intersect(&other.complement()));
        let common = set.intersect(&other);
        assert!(common.is_subset(&set) && common.is_subset(&other) && CharSet::none().is_subset(&common));
        assert!(!set.is_subset(&other) && !other.is_subset(&set) && set.is_subset(&CharSet::any()));
        for c in ['\0', 'a', 'b', 'c', 'f', 'g', 'k', 'p', 'q', '\u{CFFF}', '\u{E000}', '\u{F001}'] {
            assert_eq!(set.contains(c), !set.complement().contains(c), "{c:?}");
            assert_eq!(set.intersect(&other).contains(c), set.contains(c) && other.contains(c), "{c:?}");
            assert_eq!(set.union(&other).contains(c), set.contains(c) || other.contains(c), "{c:?}");
        }
    }
}
