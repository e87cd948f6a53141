use std::hash::{BuildHasher, Hasher, RandomState};

/// Returns 64 random bits for ids and default seeds. Not suitable for secrets.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
