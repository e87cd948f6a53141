//! A reference implementation of the forward pass: as simple as possible, in `f64` and without a
//! cache.

use candle_core::quantized::GgmlDType;
use formwork_lm::{Role, Wanted};
use formwork_vocab::TokenId;

use crate::tiny::{self, Tiny};
use crate::tiny::{EPSILON, HEADS, HIDDEN, KV_HEADS, VOCABULARY, WINDOW};

type Rows = Vec<Vec<f64>>;

impl Tiny {
    fn is(&self, architecture: &str) -> bool {
        self.architecture == architecture
    }

    fn vector(&self, name: &str) -> Option<Vec<f64>> {
        self.weights.get(name).map(|values| values.iter().map(|&v| f64::from(v)).collect())
    }

    fn linear(&self, name: &str, x: &[f64]) -> Vec<f64> {
        let weights = &self.weights[&format!("{name}.weight")];
        let bias = self.vector(&format!("{name}.bias"));
        let rows = weights.chunks_exact(x.len()).enumerate();
        rows.map(|(row, weights)| {
            let sum: f64 = weights.iter().zip(x).map(|(&w, x)| f64::from(w) * x).sum();
            sum + bias.as_ref().map_or(0.0, |bias| bias[row])
        })
        .collect()
    }

    fn norm(&self, name: &str, x: &[f64]) -> Vec<f64> {
        let Some(weight) = self.vector(&format!("{name}.weight")) else { return x.to_vec() };
        let groups = x.chunks_exact(weight.len());
        let normed = groups.flat_map(|x| {
            let mean = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
            let root = (mean + f64::from(EPSILON)).sqrt();
            x.iter().zip(&weight).map(move |(x, w)| x / root * w).collect::<Vec<_>>()
        });
        normed.collect()
    }

    fn is_local(&self, layer: usize) -> bool {
        self.is("gemma3") && !(layer + 1).is_multiple_of(6)
    }

    fn rotate(&self, layer: usize, position: usize, heads: &mut [f64]) {
        let theta: f64 = if self.is_local(layer) { 10_000.0 } else { 50_000.0 };
        let factors = self.vector("rope_freqs.weight");
        let pairs = self.head_dim / 2;
        for head in heads.chunks_exact_mut(self.head_dim) {
            for pair in 0..pairs {
                let factor = factors.as_ref().map_or(1.0, |factors| factors[pair]);
                let angle = position as f64 * theta.powf(-(pair as f64) / pairs as f64) / factor;
                let (i, j) = if self.is("llama") { (2 * pair, 2 * pair + 1) } else { (pair, pair + pairs) };
                let (a, b) = (head[i], head[j]);
                head[i] = a * angle.cos() - b * angle.sin();
                head[j] = a * angle.sin() + b * angle.cos();
            }
        }
    }

    fn attention(&self, layer: usize, x: &[Vec<f64>]) -> Rows {
        let name = |part: &str| format!("blk.{layer}.{part}");
        let dim = self.head_dim;
        let projected = |part: &str| -> Rows { x.iter().map(|x| self.linear(&name(part), x)).collect() };
        let (mut q, mut k, v) = (projected("attn_q"), projected("attn_k"), projected("attn_v"));
        for position in 0..x.len() {
            q[position] = self.norm(&name("attn_q_norm"), &q[position]);
            k[position] = self.norm(&name("attn_k_norm"), &k[position]);
            self.rotate(layer, position, &mut q[position]);
            self.rotate(layer, position, &mut k[position]);
        }
        let attend = |position: usize| {
            let from = if self.is_local(layer) { (position + 1).saturating_sub(WINDOW) } else { 0 };
            let mut out = Vec::new();
            for head in 0..HEADS {
                let kv = head / (HEADS / KV_HEADS) * dim;
                let query = &q[position][head * dim..(head + 1) * dim];
                let score = |at: usize| {
                    let dot: f64 = query.iter().zip(&k[at][kv..kv + dim]).map(|(q, k)| q * k).sum();
                    (dot / (dim as f64).sqrt()).exp()
                };
                let scores: Vec<f64> = (from..=position).map(score).collect();
                let total: f64 = scores.iter().sum();
                out.extend((0..dim).map(|i| {
                    scores.iter().zip(from..).map(|(s, at)| s / total * v[at][kv + i]).sum::<f64>()
                }));
            }
            let out = self.linear(&name("attn_output"), &out);
            self.norm(&name("post_attention_norm"), &out)
        };
        (0..x.len()).map(attend).collect()
    }

    fn feed_forward(&self, layer: usize, x: &[f64]) -> Vec<f64> {
        let name = |part: &str| format!("blk.{layer}.{part}");
        let x = self.norm(&name("ffn_norm"), x);
        let activation = |x: f64| {
            if self.is("gemma3") {
                0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3))).tanh())
            } else {
                x / (1.0 + (-x).exp())
            }
        };
        let (gate, up) = (self.linear(&name("ffn_gate"), &x), self.linear(&name("ffn_up"), &x));
        let gated: Vec<f64> = gate.iter().zip(up).map(|(&g, u)| activation(g) * u).collect();
        self.norm(&name("post_ffw_norm"), &self.linear(&name("ffn_down"), &gated))
    }

    /// Computes the logits after every token.
    fn forward(&self, tokens: &[TokenId]) -> Rows {
        let scale = if self.is("gemma3") { (HIDDEN as f64).sqrt() } else { 1.0 };
        let table = &self.weights["token_embd.weight"];
        let row = |t: &TokenId| &table[t.index() * HIDDEN..(t.index() + 1) * HIDDEN];
        let mut x: Rows =
            tokens.iter().map(|t| row(t).iter().map(|&v| f64::from(v) * scale).collect()).collect();
        for layer in 0..self.layers {
            let normed: Rows = x.iter().map(|x| self.norm(&format!("blk.{layer}.attn_norm"), x)).collect();
            for (x, y) in x.iter_mut().zip(self.attention(layer, &normed)) {
                x.iter_mut().zip(y).for_each(|(x, y)| *x += y);
            }
            for x in &mut x {
                let y = self.feed_forward(layer, x);
                x.iter_mut().zip(y).for_each(|(x, y)| *x += y);
            }
        }
        let head = if self.weights.contains_key("output.weight") { "output" } else { "token_embd" };
        x.iter().map(|x| self.linear(head, &self.norm("output_norm", x))).collect()
    }
}

#[test]
fn every_architecture_computes_its_definition_on_both_paths() {
    for architecture in ["llama", "qwen2", "qwen3", "gemma3"] {
        let tiny = tiny::tiny(architecture, GgmlDType::F32);
        let model = tiny::open(&tiny.file).unwrap();
        let tokens = tiny::tokens(40, 1);
        let expected = tiny.forward(&tokens);
        for role in [Role::Prompt, Role::Generated] {
            let mut model = model.language_model();
            // The first `split` tokens are one run, and the others are appended one by one.
            for split in [40, 17, 16, 1] {
                let sequence = model.open();
                let (first, rest) = tokens.split_at(split);
                let mut given = vec![tiny::append(&mut *model, sequence, first, role, Wanted::All).unwrap()];
                for token in rest {
                    given.push(tiny::append(&mut *model, sequence, &[*token], role, Wanted::All).unwrap());
                }
                for (given, expected) in given.iter().zip(&expected[split - 1..]) {
                    assert_eq!(given.len(), VOCABULARY);
                    for (given, expected) in given.iter().zip(expected) {
                        let error = (f64::from(*given) - expected).abs();
                        assert!(error < 1e-4, "{architecture} {role:?} {split}: {given} {expected}");
                    }
                }
            }
        }
    }
}
