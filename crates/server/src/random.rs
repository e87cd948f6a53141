use std::hash::{BuildHasher, Hasher, RandomState};

/// 64 random bits, for ids and for the seeds of requests that give none. Not for secrets.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
