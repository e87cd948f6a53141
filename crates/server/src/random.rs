use std::hash::{BuildHasher, Hasher, RandomState};

/// Returns 64 random bits for ids and default seeds.
///
/// Ids give access to stored responses, so the bits come from the operating system. If the system call
/// fails, they come from the keys of a hash map, which are easier to guess.
pub(crate) fn random() -> u64 {
    getrandom::u64().unwrap_or_else(|_| RandomState::new().build_hasher().finish())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn numbers_differ_in_all_bits() {
        let numbers: HashSet<u64> = (0..1000).map(|_| random()).collect();
        assert_eq!(numbers.len(), 1000);
        let (and, or) = numbers.iter().fold((u64::MAX, 0), |(and, or), number| (and & number, or | number));
        assert_eq!((and, or), (0, u64::MAX));
    }
}
