//! Checks and corrections of the layers of any family.

use super::{LAYERS, Reader};
use crate::checkpoint::Family;
use crate::error::Kind;
use crate::spec::fields::Field;
use crate::spec::{FeedForwardSpec, LayerSpec, MixerSpec, ModelSpec};

impl Reader<'_> {
    /// Removes the layers of drafts, which GGUF files count among the layers.
    pub(super) fn leave_out_drafts(&self, spec: &mut ModelSpec) -> Result<(), Kind> {
        let drafts = self.fields.size_or_none(Field("nextn_predict_layers", ""))?.unwrap_or(0);
        let layers = spec.layers.len().saturating_sub(drafts);
        let rule = "it must exceed the number of layers for drafts";
        self.fields.rule(layers > 0, LAYERS, spec.layers.len(), rule)?;
        spec.layers.truncate(layers);
        Ok(())
    }

    /// Returns the layer of the head for drafts, if the checkpoint has a head of one layer. It attends,
    /// and has the feed-forward block of the last layer.
    pub(super) fn draft_head(&self, spec: &ModelSpec) -> Option<LayerSpec> {
        if !matches!(self.family, Family::Qwen35 | Family::Qwen3Next) || !spec.abilities.generates {
            return None;
        }
        let count = self.fields.size_or_none(Field("nextn_predict_layers", "mtp_num_hidden_layers"));
        let index = spec.layers.len();
        let tensor = self.names().with_draft_layer(index).layer(index, "nextn.eh_proj") + ".weight";
        let is_there = matches!(count, Ok(Some(1))) && self.checkpoint.tensor(&tensor).is_some();
        let attention = spec.attentions().last().filter(|_| is_there);
        let mixer = MixerSpec::Attention(*attention?.1);
        Some(LayerSpec { mixer, feed_forward: spec.layers.last()?.feed_forward })
    }

    /// Checks that each layer has a mixer, unless the family has layers of one block. Also checks that
    /// no expert that computes every token is left unread.
    pub(super) fn check_layers(&self, spec: &ModelSpec) -> Result<(), Kind> {
        let field = Field("attention.head_count_kv", "layer_types");
        for (index, layer) in spec.layers.iter().enumerate() {
            let is_single =
                self.family == Family::NemotronH && layer.feed_forward != FeedForwardSpec::Nothing;
            let is_whole = layer.mixer != MixerSpec::Nothing || is_single;
            self.fields.rule(is_whole, field, 0, "a layer has neither attention nor a state")?;
            let lacks_shared = layer.feed_forward.experts().is_some_and(|experts| experts.shared.is_none());
            let tensor = self.names().layer(index, "ffn_up_shexp") + ".weight";
            if lacks_shared && self.checkpoint.tensor(&tensor).is_some() {
                return Err(self.fields.missing(self.shared_field()));
            }
        }
        Ok(())
    }
}
