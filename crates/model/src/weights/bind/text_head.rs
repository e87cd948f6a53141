//! Binding of the weights at the two ends of models for whole texts.

use formwork_lm::Ranking;

use super::Binder;
use crate::checkpoint::{Checkpoint, DenseModule};
use crate::error::Kind;
use crate::spec::Family;
use crate::weights::text_head::{Dense, DenseActivation, InputWeights, RankHead, TextHead};

/// Answers of a language model that scores documents, the relevant one first.
const ANSWERS: [&str; 2] = ["yes", "no"];

impl Binder<'_> {
    /// Reads the vectors that are added to those of tokens.
    pub(super) fn input(&self) -> Result<InputWeights, Kind> {
        let Some(encoder) = self.spec.encoder else { return Ok(InputWeights::default()) };
        let hidden = self.spec.hidden;
        let positions = self.names.global("position_embd") + ".weight";
        let exact = Binder { quantize: None, ..*self };
        let positions = encoder.positions.then(|| {
            let rows = self.checkpoint.vocabulary(&positions)?.max(self.spec.context);
            exact.matrix(&positions, hidden, rows)
        });
        let token_types = encoder.token_types.map_or(Ok(Vec::new()), |count| {
            let name = self.names.global("token_types") + ".weight";
            self.checkpoint.values(&name, &[hidden as u64, count as u64])
        })?;
        let norm = encoder.norm.then(|| self.layer_norm(&self.names.global("token_embd_norm"), hidden));
        Ok(InputWeights {
            positions: positions.transpose()?,
            token_types: token_types.chunks_exact(hidden).map(<[f32]>::to_vec).collect(),
            norm: norm.transpose()?,
        })
    }

    /// Reads the layers after the pooling. `head` is the name of the output head.
    pub(super) fn text_head(&self, head: &str) -> Result<TextHead, Kind> {
        let ranking = self.spec.abilities.ranking.as_ref();
        Ok(TextHead {
            dense: self.dense_layers()?,
            ranking: ranking.map(|ranking| self.rank_head(ranking, head)).transpose()?,
        })
    }

    fn dense_layers(&self) -> Result<Vec<Dense>, Kind> {
        match self.checkpoint {
            Checkpoint::Safetensors(model) => {
                let modules = model.modules().map_or(&[][..], |modules| &modules.dense);
                Ok(modules.iter().map(dense_module).collect())
            }
            Checkpoint::Gguf(_) => {
                let mut inputs = self.spec.hidden;
                let mut layers = Vec::new();
                for name in ["dense_2", "dense_3"] {
                    let tensor = format!("{name}.weight");
                    if self.checkpoint.tensor(&tensor).is_some() {
                        let outputs = self.checkpoint.vocabulary(&tensor)?;
                        layers.push(self.dense(name, inputs, outputs, DenseActivation::Identity)?);
                        inputs = outputs;
                    }
                }
                Ok(layers)
            }
        }
    }

    fn rank_head(&self, ranking: &Ranking, head: &str) -> Result<RankHead, Kind> {
        let hidden = self.spec.hidden;
        let plain = |labels| RankHead { hidden: None, norm: None, labels, is_probability: true };
        let is_config = matches!(self.checkpoint, Checkpoint::Safetensors(_));
        let names: &[&str] = if is_config { &["classifier", "score"] } else { &["cls.output"] };
        let labels = names.iter().find(|name| self.checkpoint.tensor(&format!("{name}.weight")).is_some());
        let Some(labels) = labels else {
            if ranking.template.is_none() || !is_config {
                return Err(Kind::MissingTensor { tensor: format!("{}.weight", names[0]) });
            }
            return self.answers(head).map(plain);
        };
        let shape = &self.checkpoint.tensor(&format!("{labels}.weight")).map(|info| info.shape.clone());
        let count = shape.as_ref().and_then(|shape| shape.get(1)).map_or(1, |&count| count as usize);
        let expected = if ranking.template.is_some() { 2 } else { 1 };
        if count > expected {
            let rule = "a reranker has one label, or the two labels `yes` and `no`";
            return Err(Kind::KeyValue { key: "num_labels".to_owned(), given: count.to_string(), rule });
        }
        let labels = self.dense(labels, hidden, count, DenseActivation::Identity)?;
        let pooler = match self.spec_family() {
            Family::Bert if is_config => Some((self.names.global("cls"), DenseActivation::Tanh)),
            Family::ModernBert if is_config => Some(("head.dense".to_owned(), DenseActivation::Gelu)),
            _ if self.checkpoint.tensor("cls.weight").is_some() => {
                let is_modern = self.spec_family() == Family::ModernBert;
                let activation = if is_modern { DenseActivation::Gelu } else { DenseActivation::Tanh };
                Some(("cls".to_owned(), activation))
            }
            _ => None,
        };
        let pooler = pooler.map(|(name, activation)| self.dense(&name, hidden, hidden, activation));
        let norm = ["head.norm", "cls.norm"].into_iter().find(|name| {
            self.spec_family() == Family::ModernBert
                && self.checkpoint.tensor(&format!("{name}.weight")).is_some()
        });
        let norm = norm.map(|name| self.layer_norm(name, hidden)).transpose()?;
        Ok(RankHead {
            hidden: pooler.transpose()?,
            norm: norm.map(|norm| (norm, self.spec.norm_epsilon)),
            is_probability: match self.checkpoint {
                Checkpoint::Safetensors(model) => model.scores_are_probabilities()?,
                Checkpoint::Gguf(_) => true,
            },
            labels,
        })
    }

    /// Reads the rows of the output head that belong to the two answers.
    fn answers(&self, head: &str) -> Result<Dense, Kind> {
        let names = [head.to_owned(), self.names.global("token_embd") + ".weight"];
        let name = names.iter().find(|name| self.checkpoint.tensor(name).is_some()).unwrap_or(&names[1]);
        let matrix = self.vocabulary_matrix(name)?;
        let tokenizer = self.checkpoint.tokenizer().map_err(|_| Kind::NoAnswer { answer: ANSWERS[0] })?;
        let mut weight = vec![0.0; 2 * self.spec.hidden];
        for (answer, row) in ANSWERS.into_iter().zip(weight.chunks_exact_mut(self.spec.hidden)) {
            let tokens = tokenizer.encode_fragment(answer).unwrap_or_default();
            match tokens[..] {
                [token] if token.index() < matrix.rows => {
                    matrix.dequantize(token.index()..token.index() + 1, row);
                }
                _ => return Err(Kind::NoAnswer { answer }),
            }
        }
        Ok(Dense { weight, bias: None, activation: DenseActivation::Identity })
    }

    fn dense(
        &self,
        name: &str,
        inputs: usize,
        outputs: usize,
        activation: DenseActivation,
    ) -> Result<Dense, Kind> {
        dense(self.checkpoint, name, [inputs, outputs], activation)
    }

    fn spec_family(&self) -> Family {
        self.names.family()
    }
}

fn dense_module(module: &DenseModule) -> Dense {
    let activation = if module.is_tanh { DenseActivation::Tanh } else { DenseActivation::Identity };
    Dense { weight: module.weight.clone(), bias: module.bias.clone(), activation }
}

fn dense(
    checkpoint: &Checkpoint,
    name: &str,
    [inputs, outputs]: [usize; 2],
    activation: DenseActivation,
) -> Result<Dense, Kind> {
    let tensor = format!("{name}.weight");
    let (inputs, outputs_len) = (inputs as u64, outputs as u64);
    // A matrix of one row may be stored as a vector.
    let is_flat = checkpoint.tensor(&tensor).is_some_and(|info| info.shape.len() == 1) && outputs == 1;
    let shape = if is_flat { vec![inputs] } else { vec![inputs, outputs_len] };
    let weight = checkpoint.values(&tensor, &shape)?;
    let bias = format!("{name}.bias");
    let bias = checkpoint.tensor(&bias).map(|_| checkpoint.values(&bias, &[outputs_len])).transpose()?;
    Ok(Dense { weight, bias, activation })
}
