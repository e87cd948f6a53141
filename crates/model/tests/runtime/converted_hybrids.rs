//! The changes that llama.cpp's converter makes in models with convolutions and recurrences.

use serde_json::Value;

use super::Converter;
use crate::writer::Writer;

impl Converter<'_> {
    fn text(&self, key: &str) -> Option<&str> {
        self.config(key).and_then(Value::as_str)
    }

    fn has(&self, layer: u32, part: &str) -> bool {
        let names = ["model", "backbone"].map(|root| format!("{root}.layers.{layer}.{part}"));
        names.iter().any(|name| self.golden.tensors.contains_key(name))
    }

    /// Writes the shape of the mixers, and what differs from layer to layer.
    pub(super) fn hybrid(&self, writer: &mut Writer) {
        let key = |name: &str| format!("{}.{name}", self.architecture);
        let layers = 0..self.size("num_hidden_layers").unwrap();
        let size = |names: &[&str]| names.iter().find_map(|name| self.size(name));
        let heads = self.size("num_key_value_heads").unwrap();
        let is_qwen = self.architecture.starts_with("qwen");
        if is_qwen {
            writer.u32(&key("attention.head_count_kv"), heads);
            let is_recurrent: Vec<bool> = layers.map(|layer| self.has(layer, "linear_attn.A_log")).collect();
            if self.architecture == "qwen35" {
                writer.bools(&key("attention.recurrent_layers"), &is_recurrent);
            } else {
                writer.u32(&key("full_attention_interval"), self.size("full_attention_interval").unwrap());
            }
            if self.architecture == "qwen35" {
                writer.u32(&key("feed_forward_length"), self.size("intermediate_size").unwrap());
            }
        } else {
            let attends =
                |layer| self.has(layer, "self_attn.k_proj.weight") || self.has(layer, "mixer.k_proj.weight");
            let heads: Vec<u32> =
                layers.clone().map(|layer| if attends(layer) { heads } else { 0 }).collect();
            writer.u32s(&key("attention.head_count_kv"), &heads);
            let width = |layer| {
                let names = ["feed_forward.w1.weight", "mlp.gate_proj.weight", "mixer.up_proj.weight"];
                let name = names.iter().find(|name| self.has(layer, name))?;
                let names = ["model", "backbone"].map(|root| format!("{root}.layers.{layer}.{name}"));
                names.iter().find_map(|name| Some(self.golden.tensors.get(name)?[0] as u32))
            };
            let usual = self.size("intermediate_size").unwrap();
            match self.architecture {
                "nemotron_h_moe" => {
                    let widths: Vec<u32> = layers.map(|layer| width(layer).unwrap_or(0)).collect();
                    writer.u32s(&key("feed_forward_length"), &widths);
                }
                _ => writer.u32(&key("feed_forward_length"), width(0).unwrap_or(usual)),
            }
        }
        if let Some(kernel) = self.size("conv_L_cache") {
            writer.u32(&key("shortconv.l_cache"), kernel);
        }
        let Some(heads) = size(&["linear_num_value_heads", "mamba_n_heads", "mamba_num_heads"]) else {
            return;
        };
        let width = size(&["linear_value_head_dim", "mamba_d_head", "mamba_head_dim"]).unwrap();
        for (name, value) in [
            ("ssm.time_step_rank", heads),
            ("ssm.inner_size", heads * width),
            ("ssm.group_count", size(&["linear_num_key_heads", "mamba_n_groups", "n_groups"]).unwrap()),
            ("ssm.state_size", size(&["linear_key_head_dim", "mamba_d_state", "ssm_state_size"]).unwrap()),
            ("ssm.conv_kernel", size(&["linear_conv_kernel_dim", "mamba_d_conv", "conv_kernel"]).unwrap()),
        ] {
            writer.u32(&key(name), value);
        }
        if self.architecture == "granitehybrid" {
            let shared = self.size("shared_intermediate_size").unwrap();
            writer.u32(&key("expert_shared_feed_forward_length"), shared);
            let rotates = self.text("position_embedding_type") != Some("nope");
            writer.bool(&key("rope.scaling.finetuned"), rotates);
        }
    }

    /// Writes a tensor that is changed in a way of its own. Returns false for all others.
    pub(super) fn hybrid_tensor(&self, writer: &mut Writer, name: &str) -> bool {
        let Some((layer, part)) = name.split_once("layers.").and_then(|(_, rest)| rest.split_once('.'))
        else {
            return false;
        };
        let own = |part: &str| format!("blk.{layer}.{part}");
        let values = self.golden.values(name);
        let shape = &self.golden.tensors[name];
        let columns = *shape.last().unwrap();
        let (_, kind) = part.split_once('.').unwrap_or(("", part));
        match (part, kind) {
            ("shared_mlp.input_linear.weight", _) => {
                let (gate, up) = values.split_at(values.len() / 2);
                let shared = if self.expert_count().is_some() { "_shexp" } else { "" };
                let shape = [columns as u64, shape[0] as u64 / 2];
                self.write(writer, &own(&format!("ffn_gate{shared}.weight")), &shape, gate);
                self.write(writer, &own(&format!("ffn_up{shared}.weight")), &shape, up);
            }
            ("shared_mlp.output_linear.weight", _) => {
                let shared = if self.expert_count().is_some() { "_shexp" } else { "" };
                let name = own(&format!("ffn_down{shared}.weight"));
                self.write(writer, &name, &[columns as u64, shape[0] as u64], &values);
            }
            ("mlp.shared_expert_gate.weight", _) => {
                writer.tensor(&own("ffn_gate_inp_shexp.weight"), &[columns as u64], F32, &values);
            }
            (_, "A_log") => {
                let growth: Vec<f32> = self.by_value_head(&values, 1).iter().map(|log| -log.exp()).collect();
                let shape: &[u64] =
                    if part.starts_with("linear_attn") { &[shape[0] as u64] } else { &[1, shape[0] as u64] };
                writer.tensor(&own("ssm_a"), shape, F32, &growth);
            }
            (_, "D") => writer.tensor(&own("ssm_d"), &[1, shape[0] as u64], F32, &values),
            (_, "dt_bias") => {
                let values = self.by_value_head(&values, 1);
                writer.tensor(&own("ssm_dt.bias"), &[shape[0] as u64], F32, &values);
            }
            (_, "conv.weight") => {
                writer.tensor(
                    &own("shortconv.conv.weight"),
                    &[columns as u64, shape[0] as u64],
                    F32,
                    &values,
                );
            }
            (_, "conv1d.weight") => {
                let values = self.values_last(&values, columns);
                writer.tensor(&own("ssm_conv1d.weight"), &[columns as u64, shape[0] as u64], F32, &values);
            }
            (_, "conv1d.bias") => writer.tensor(&own("ssm_conv1d.bias"), &[shape[0] as u64], F32, &values),
            ("linear_attn.norm.weight", _) => {
                writer.tensor(&own("ssm_norm.weight"), &[shape[0] as u64], F32, &values);
            }
            ("mamba.norm.weight" | "mixer.norm.weight", _) => {
                let groups = self.size("mamba_n_groups").or(self.size("n_groups")).unwrap() as usize;
                let shape = [(shape[0] / groups) as u64, groups as u64];
                writer.tensor(&own("ssm_norm.weight"), &shape, F32, &values);
            }
            ("linear_attn.in_proj_qkvz.weight", _) => {
                let (mixed, gates) = self.split_by_key_head(&values, columns);
                for (part, values) in [("attn_qkv", mixed), ("attn_gate", gates)] {
                    let shape = [columns as u64, (values.len() / columns) as u64];
                    self.write(writer, &own(&format!("{part}.weight")), &shape, &values);
                }
            }
            ("linear_attn.in_proj_qkv.weight", _) => {
                let values = self.values_last(&values, columns);
                self.write(writer, &own("attn_qkv.weight"), &[columns as u64, shape[0] as u64], &values);
            }
            ("linear_attn.out_proj.weight", _) => {
                let values = self.columns_by_value_head(&values, columns);
                self.write(writer, &own("ssm_out.weight"), &[columns as u64, shape[0] as u64], &values);
            }
            ("mamba.in_proj.weight" | "mixer.in_proj.weight", _) => {
                self.write(writer, &own("ssm_in.weight"), &[columns as u64, shape[0] as u64], &values);
            }
            ("mamba.out_proj.weight" | "mixer.out_proj.weight", _) => {
                self.write(writer, &own("ssm_out.weight"), &[columns as u64, shape[0] as u64], &values);
            }
            ("linear_attn.in_proj_ba.weight", _) => {
                self.write(writer, &own("ssm_ba.weight"), &[columns as u64, shape[0] as u64], &values);
            }
            (_, "in_proj_z.weight" | "in_proj_a.weight" | "in_proj_b.weight") => {
                let rows = if kind == "in_proj_z.weight" { self.value_dim() } else { 1 };
                let values = self.by_value_head(&values, rows * columns);
                let part = match kind {
                    "in_proj_z.weight" => "attn_gate",
                    "in_proj_a.weight" => "ssm_alpha",
                    _ => "ssm_beta",
                };
                let name = own(&format!("{part}.weight"));
                self.write(writer, &name, &[columns as u64, shape[0] as u64], &values);
            }
            _ => return false,
        }
        true
    }

    fn value_dim(&self) -> usize {
        self.size("linear_value_head_dim").unwrap() as usize
    }

    /// Reorders the value heads of Qwen3.5, of `len` elements each, so that neighbouring heads have
    /// different key heads. Returns the elements of other models unchanged.
    fn by_value_head(&self, values: &[f32], len: usize) -> Vec<f32> {
        if !self.architecture.starts_with("qwen35") {
            return values.to_vec();
        }
        let key_heads = self.size("linear_num_key_heads").unwrap() as usize;
        let heads = values.len() / len;
        let shared = heads / key_heads;
        let source = |head: usize| head % key_heads * shared + head / key_heads;
        (0..heads).flat_map(|head| values[source(head) * len..][..len].to_vec()).collect()
    }

    /// Reorders the rows of the values, which follow those of queries and keys.
    fn values_last(&self, rows: &[f32], columns: usize) -> Vec<f32> {
        if !self.architecture.starts_with("qwen") {
            return rows.to_vec();
        }
        let keys = self.size("linear_num_key_heads").unwrap() * self.size("linear_key_head_dim").unwrap();
        let (keys, values) = rows.split_at(2 * keys as usize * columns);
        [keys.to_vec(), self.by_value_head(values, self.value_dim() * columns)].concat()
    }

    /// Reorders the columns of a matrix whose inputs are values.
    fn columns_by_value_head(&self, values: &[f32], columns: usize) -> Vec<f32> {
        let len = self.value_dim();
        values.chunks(columns).flat_map(|row| self.by_value_head(row, len)).collect()
    }

    /// Splits the rows of Qwen3-Next's projection, which are grouped by key heads, into those of
    /// queries, keys and values, and those of gates.
    fn split_by_key_head(&self, rows: &[f32], columns: usize) -> (Vec<f32>, Vec<f32>) {
        let size = |name| self.size(name).unwrap() as usize;
        let (heads, dim) = (size("linear_num_key_heads"), size("linear_key_head_dim"));
        let values = size("linear_num_value_heads") / heads * self.value_dim();
        let part = |first: usize, len: usize| -> Vec<f32> {
            let groups = rows.chunks(2 * (dim + values) * columns);
            groups.flat_map(|group| group[first * columns..(first + len) * columns].to_vec()).collect()
        };
        let mixed = [part(0, dim), part(dim, dim), part(2 * dim, values)].concat();
        (mixed, part(2 * dim + values, values))
    }

    /// Writes the experts of a layer that are stored in another way than one by one with a gate.
    /// Returns false for all others.
    pub(super) fn hybrid_experts(&self, writer: &mut Writer, layer: u32, count: u64) -> bool {
        let own = |part: &str| format!("blk.{layer}.ffn_{part}_exps.weight");
        let stacked = [
            ("block_sparse_moe.input_linear.weight", "block_sparse_moe.output_linear.weight"),
            ("mlp.experts.gate_up_proj", "mlp.experts.down_proj"),
        ];
        if let Some((both, down)) = stacked.into_iter().find(|(both, _)| self.has(layer, both)) {
            let values = |name: &str| self.golden.values(&format!("model.layers.{layer}.{name}"));
            let shape = &self.golden.tensors[&format!("model.layers.{layer}.{both}")];
            let (width, hidden) = (shape[1] / 2, shape[2]);
            let (both, down) = (values(both), values(down));
            let shape = [hidden as u64, width as u64, count];
            for (part, first) in [("gate", 0), ("up", width)] {
                let experts = both.chunks(2 * width * hidden);
                let experts = experts.flat_map(|expert| expert[first * hidden..][..width * hidden].to_vec());
                self.write(writer, &own(part), &shape, &experts.collect::<Vec<_>>());
            }
            self.write(writer, &own("down"), &[width as u64, hidden as u64, count], &down);
            return true;
        }
        if self.architecture != "nemotron_h_moe" {
            return false;
        }
        if self.has(layer, "mixer.experts.0.up_proj.weight") {
            for part in ["up", "down"] {
                let name =
                    |expert| format!("backbone.layers.{layer}.mixer.experts.{expert}.{part}_proj.weight");
                let shape = &self.golden.tensors[&name(0)];
                let values: Vec<f32> =
                    (0..count).flat_map(|expert| self.golden.values(&name(expert))).collect();
                self.write(writer, &own(part), &[shape[1] as u64, shape[0] as u64, count], &values);
            }
        }
        true
    }
}

const F32: candle_core::quantized::GgmlDType = candle_core::quantized::GgmlDType::F32;
