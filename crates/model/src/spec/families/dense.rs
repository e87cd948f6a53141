//! Dense families that differ from Llama in the norms or in the rotation.

use super::{Reader, WINDOW};
use crate::error::Kind;
use crate::spec::fields::Field;
use crate::spec::{ModelSpec, NormKind, NormPlacement, QkNorm, RopePairing};

/// EXAONE 4 has one layer with full attention in this number of layers.
const EXAONE4_GLOBAL_EVERY: usize = 4;
/// Cohere2 has one layer with full attention in this number of layers.
const COHERE2_GLOBAL_EVERY: usize = 4;
/// Factor for the logits of Cohere2, unless the checkpoint states another one.
const COHERE2_LOGIT_SCALE: f32 = 0.0625;

impl Reader<'_> {
    pub(super) fn glm4(&self, spec: &mut ModelSpec) -> Result<(), Kind> {
        spec.norms = NormPlacement::Both;
        // The pairs are neighbours in both formats.
        spec.rope_pairing = RopePairing::Interleaved;
        spec.qkv_bias = self.fields.truth(Field("", "attention_bias"))?.unwrap_or(false);
        Ok(())
    }

    /// Reads Cohere2. Layers without a window have no rotary embeddings.
    pub(super) fn cohere2(&self, spec: &mut ModelSpec) -> Result<(), Kind> {
        let fields = self.fields;
        spec.norms = NormPlacement::Parallel;
        spec.norm_kind = NormKind::LayerNorm;
        // The pairs are neighbours in both formats.
        spec.rope_pairing = RopePairing::Interleaved;
        let scale = fields.positive(Field("logit_scale", "logit_scale"))?;
        spec.logit_scale = scale.unwrap_or(COHERE2_LOGIT_SCALE);
        fields.size(WINDOW)?;
        self.windows(spec, |layer| !(layer + 1).is_multiple_of(COHERE2_GLOBAL_EVERY))?;
        rotate_windowed(spec);
        Ok(())
    }

    /// Reads the windows of EXAONE 4. Layers without a window have no rotary embeddings, unless no layer
    /// has a window.
    pub(super) fn exaone4(&self, spec: &mut ModelSpec) -> Result<(), Kind> {
        spec.norms = NormPlacement::After;
        spec.qk_norm = Some(QkNorm::PerHead);
        self.windows(spec, |layer| !(layer + 1).is_multiple_of(EXAONE4_GLOBAL_EVERY))?;
        if spec.attentions().any(|(_, attention)| attention.window.is_some()) {
            rotate_windowed(spec);
        }
        Ok(())
    }
}

/// Removes the rotary embeddings of all layers without a window.
fn rotate_windowed(spec: &mut ModelSpec) {
    let full = spec.attentions_mut().filter(|(_, attention)| attention.window.is_none());
    full.for_each(|(_, attention)| attention.rope = None);
}
