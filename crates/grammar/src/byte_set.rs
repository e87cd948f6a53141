use std::fmt;

/// A set of bytes, for example the bytes that can come next in an output.
///
/// ```
/// use formwork_grammar::ByteSet;
/// let set: ByteSet = b"019}\"".iter().copied().collect();
/// assert_eq!(set.to_string(), r#"`"`, `0`-`1`, `9` or `}`"#);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ByteSet([u64; 4]);

impl ByteSet {
    /// The set of all 256 bytes.
    pub(crate) const ALL: Self = Self([u64::MAX; 4]);

    /// Creates the set of all bytes less than `end`.
    pub(crate) const fn below(end: u8) -> Self {
        let mut words = [0; 4];
        let mut byte = 0;
        while byte < end {
            words[byte as usize / 64] |= 1 << (byte % 64);
            byte += 1;
        }
        Self(words)
    }

    pub(crate) fn without(mut self, bytes: &[u8]) -> Self {
        for &byte in bytes {
            self.0[usize::from(byte) / 64] &= !(1 << (byte % 64));
        }
        self
    }

    pub(crate) const fn insert(&mut self, byte: u8) {
        self.0[byte as usize / 64] |= 1 << (byte % 64);
    }

    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.insert(byte);
        }
    }

    pub(crate) fn insert_range(&mut self, low: u8, high: u8) {
        for (word, first) in self.0.iter_mut().zip((0..=u8::MAX).step_by(64)) {
            let (low, high) = (low.max(first), high.min(first + 63));
            if low <= high {
                *word |= u64::MAX >> (63 - (high - low)) << (low - first);
            }
        }
    }

    /// Reports whether the set contains `byte`.
    pub const fn contains(&self, byte: u8) -> bool {
        self.0[byte as usize / 64] >> (byte % 64) & 1 == 1
    }

    /// Returns the number of bytes in the set.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Reports whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; 4]
    }

    /// Returns an iterator over the bytes, in increasing order.
    pub fn iter(&self) -> impl Iterator<Item = u8> + '_ {
        self.0.iter().zip((0..=u8::MAX).step_by(64)).flat_map(|(&word, first)| {
            let rest = |&rest: &u64| Some(rest & (rest - 1)).filter(|&rest| rest != 0);
            let words = std::iter::successors(Some(word).filter(|&word| word != 0), rest);
            words.map(move |rest| first + rest.trailing_zeros() as u8)
        })
    }

    /// Returns the bytes as inclusive ranges `(low, high)`, in increasing order. The ranges do not
    /// touch each other.
    pub fn ranges(&self) -> Vec<(u8, u8)> {
        let mut ranges: Vec<(u8, u8)> = Vec::new();
        for byte in self.iter() {
            match ranges.last_mut() {
                Some((_, high)) if *high + 1 == byte => *high = byte,
                _ => ranges.push((byte, byte)),
            }
        }
        ranges
    }
}

impl std::ops::BitAnd for ByteSet {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at] & other.0[at]))
    }
}

impl std::ops::BitOr for ByteSet {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at] | other.0[at]))
    }
}

impl std::ops::Not for ByteSet {
    type Output = Self;

    fn not(self) -> Self {
        Self(self.0.map(|word| !word))
    }
}

impl FromIterator<u8> for ByteSet {
    fn from_iter<I: IntoIterator<Item = u8>>(bytes: I) -> Self {
        let mut set = Self::default();
        for byte in bytes {
            set.insert(byte);
        }
        set
    }
}

/// Formats the set for humans, for example as `` `a`-`c` or a character beyond ASCII ``.
///
/// ASCII bytes are shown as characters. All bytes from 0x80 up are shown as one phrase, whether or
/// not the set contains all of them. The empty set is shown as `nothing`.
impl fmt::Display for ByteSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = Vec::new();
        let mut non_ascii = false;
        for (low, high) in self.ranges() {
            non_ascii |= high >= 0x80;
            let high = high.min(0x7f);
            match high.checked_sub(low) {
                None => {}
                Some(0) => parts.push(quoted(low)),
                Some(_) => parts.push(format!("{}-{}", quoted(low), quoted(high))),
            }
        }
        if non_ascii {
            parts.push("a character beyond ASCII".to_owned());
        }
        match parts.as_slice() {
            [] => f.write_str("nothing"),
            [one] => f.write_str(one),
            [rest @ .., last] => write!(f, "{} or {last}", rest.join(", ")),
        }
    }
}

fn quoted(byte: u8) -> String {
    match byte {
        b'"' | b'\'' => format!("`{}`", byte as char),
        _ => format!("`{}`", byte.escape_ascii()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_inserted_whole() {
        for (low, high) in
            [(0, 0), (0, 255), (3, 70), (63, 64), (64, 127), (191, 192), (200, 255), (255, 255), (9, 8)]
        {
            let mut set = ByteSet::default();
            set.insert_range(low, high);
            assert_eq!(set.iter().collect::<Vec<_>>(), (low..=high).collect::<Vec<_>>());
            assert_eq!(set.ranges().len(), usize::from(low <= high));
        }
    }
}
