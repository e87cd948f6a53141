//! Dense families that differ from Llama in the norms or in the rotation.

use super::Reader;
use crate::error::Kind;
use crate::spec::fields::Field;
use crate::spec::{ModelSpec, NormPlacement, RopePairing};

impl Reader<'_> {
    pub(super) fn glm4(&self, spec: &mut ModelSpec) -> Result<(), Kind> {
        spec.norms = NormPlacement::Both;
        // The pairs are neighbours in both formats.
        spec.rope_pairing = RopePairing::Interleaved;
        spec.qkv_bias = self.fields.truth(Field("", "attention_bias"))?.unwrap_or(false);
        Ok(())
    }
}
