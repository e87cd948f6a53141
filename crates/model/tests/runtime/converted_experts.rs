//! Mixtures of experts, as llama.cpp's converter writes them.

use super::Converter;
use crate::writer::Writer;

impl Converter<'_> {
    pub(super) fn expert_count(&self) -> Option<u32> {
        let keys = ["num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"];
        keys.into_iter().find_map(|key| self.size(key)).filter(|&count| count > 0)
    }

    /// Returns the keys of the mixtures with their values.
    pub(super) fn expert_sizes(&self) -> Vec<(&'static str, u32)> {
        let Some(experts) = self.expert_count() else { return Vec::new() };
        let first = |keys: &[&str]| keys.iter().find_map(|key| self.size(key));
        let used = first(&["num_experts_per_tok", "top_k_experts", "moe_k"]).unwrap();
        let mut sizes = vec![("expert_count", experts), ("expert_used_count", used)];
        if self.architecture == "ernie4_5-moe" {
            // The width of the tensors is another one.
            let odd = self.size("intermediate_size").unwrap() / self.size("num_key_value_heads").unwrap();
            sizes.push(("expert_shared_feed_forward_length", odd));
        }
        if !matches!(self.golden.model_type(), "mixtral" | "olmoe") {
            let width = first(&["moe_intermediate_size", "intermediate_size"]).unwrap();
            sizes.push(("expert_feed_forward_length", width));
        }
        for (name, config) in [
            ("leading_dense_block_count", "first_k_dense_replace"),
            ("leading_dense_block_count", "num_dense_layers"),
            ("leading_dense_block_count", "moe_layer_start_index"),
            ("interleave_moe_layer_step", "moe_layer_interval"),
            ("expert_shared_feed_forward_length", "shared_expert_intermediate_size"),
            ("expert_shared_feed_forward_length", "moe_shared_expert_intermediate_size"),
            ("moe_latent_size", "moe_latent_size"),
            ("expert_shared_count", "n_shared_experts"),
            ("expert_shared_count", "moe_num_shared_experts"),
            ("expert_group_count", "n_group"),
            ("expert_group_used_count", "topk_group"),
        ] {
            sizes.extend(self.size(config).map(|size| (name, size)));
        }
        sizes
    }

    /// Writes the experts' matrices. All matrices of the same kind form one tensor.
    pub(super) fn experts(&self, writer: &mut Writer) {
        let Some(count) = self.expert_count() else { return };
        let hidden = u64::from(self.size("hidden_size").unwrap());
        let width = self.size("moe_intermediate_size").or(self.size("intermediate_size")).unwrap().into();
        let dense = ["first_k_dense_replace", "num_dense_layers", "moe_layer_start_index"];
        let dense = dense.into_iter().find_map(|key| self.size(key)).unwrap_or(0);
        for layer in dense..self.size("num_hidden_layers").unwrap() {
            if self.architecture == "gpt-oss" {
                self.gpt_oss_experts(writer, layer, (count as usize, hidden, width));
                continue;
            }
            if self.architecture == "gemma4" {
                let values = |name: &str| self.golden.values(&format!("model.layers.{layer}.experts.{name}"));
                let name = |part: &str| format!("blk.{layer}.ffn_{part}_exps.weight");
                let experts = u64::from(count);
                self.write(writer, &name("gate_up"), &[hidden, 2 * width, experts], &values("gate_up_proj"));
                self.write(writer, &name("down"), &[width, hidden, experts], &values("down_proj"));
                continue;
            }
            if self.hybrid_experts(writer, layer, u64::from(count)) {
                continue;
            }
            let block = match self.golden.model_type() {
                "mixtral" | "minimax_m2" => "block_sparse_moe",
                "lfm2_moe" => "feed_forward",
                _ => "mlp",
            };
            for (own, part) in [("gate", "w1"), ("down", "w2"), ("up", "w3")] {
                let part = if block == "mlp" { format!("{own}_proj") } else { part.to_owned() };
                let name =
                    |expert: u32| format!("model.layers.{layer}.{block}.experts.{expert}.{part}.weight");
                let values: Vec<f32> =
                    (0..count).flat_map(|expert| self.golden.values(&name(expert))).collect();
                let (columns, rows) = if own == "down" { (width, hidden) } else { (hidden, width) };
                let own = format!("blk.{layer}.ffn_{own}_exps.weight");
                self.write(writer, &own, &[columns, rows, count.into()], &values);
            }
        }
    }

    fn gpt_oss_experts(&self, writer: &mut Writer, layer: u32, (count, hidden, width): (usize, u64, u64)) {
        let golden = |name: &str| self.golden.values(&format!("model.layers.{layer}.mlp.experts.{name}"));
        let (both, both_bias) = (golden("gate_up_proj"), golden("gate_up_proj_bias"));
        let (down, down_bias) = (golden("down_proj"), golden("down_proj_bias"));
        let (h, w) = (hidden as usize, width as usize);
        for (own, first) in [("gate", 0), ("up", 1)] {
            let element = |expert: usize, row: usize, column: usize| {
                both[(expert * h + column) * 2 * w + 2 * row + first]
            };
            let values = (0..count).flat_map(|e| (0..w).flat_map(move |r| (0..h).map(move |c| (e, r, c))));
            let values: Vec<f32> = values.map(|(e, r, c)| element(e, r, c)).collect();
            let name = format!("blk.{layer}.ffn_{own}_exps");
            let shape = [hidden, width, count as u64];
            self.write(writer, &format!("{name}.weight"), &shape, &values);
            let bias: Vec<f32> = both_bias.iter().skip(first).step_by(2).copied().collect();
            self.write(writer, &format!("{name}.bias"), &shape[1..], &bias);
        }
        let values = (0..count).flat_map(|e| (0..h).flat_map(move |r| (0..w).map(move |c| (e, r, c))));
        let values: Vec<f32> = values.map(|(e, r, c)| down[(e * w + c) * h + r]).collect();
        let name = format!("blk.{layer}.ffn_down_exps");
        let shape = [width, hidden, count as u64];
        self.write(writer, &format!("{name}.weight"), &shape, &values);
        self.write(writer, &format!("{name}.bias"), &shape[1..], &down_bias);
    }
}
