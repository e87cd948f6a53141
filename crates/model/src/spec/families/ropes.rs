//! Rotary frequencies, and the growth of attention scores in long contexts.

use super::{ROPE_DIMS, Reader, THETA};
use crate::checkpoint::Family;
use crate::error::Kind;
use crate::spec::fields::{Field, Fields};
use crate::spec::{LongFactors, ModelSpec, RopeScaling, RopeSpec, Temperature, Yarn};

const SCALING: Field = Field("rope.scaling.type", "rope_type");
const FACTOR: Field = Field("rope.scaling.factor", "factor");
const ORIGINAL: Field = Field("rope.scaling.original_context_length", "original_max_position_embeddings");
const MAGNITUDE: Field = Field("rope.scaling.attn_factor", "attention_factor");
const MAGNITUDE_OWN: Field = Field("", "mscale");
const MAGNITUDE_ALL: Field = Field("rope.scaling.yarn_log_multiplier", "mscale_all_dim");
const TEMPERATURE: Field = Field("attention.temperature_scale", "llama_4_scaling_beta");
const BETA_FAST: Field = Field("rope.scaling.yarn_beta_fast", "beta_fast");
const BETA_SLOW: Field = Field("rope.scaling.yarn_beta_slow", "beta_slow");
const BASE_FACTOR: Field = Field("", "alpha");
const TRUNCATE: Field = Field("", "truncate");

/// Part of a head that GLM-4 rotates, unless the configuration states another one.
const GLM4_ROTATED: f32 = 0.5;

impl Reader<'_> {
    /// Reads the growth of the attention scores in long contexts.
    pub(super) fn temperature(&self, spec: &mut ModelSpec) -> Result<(), Kind> {
        let fields = self.fields;
        let ropes =
            fields.within("rope_parameters").or_else(|| fields.within("rope_scaling")).unwrap_or(fields);
        if let Some(beta) = ropes.positive(TEMPERATURE)? {
            spec.temperature = Some(Temperature { beta, original: ropes.size(ORIGINAL)? });
        }
        Ok(())
    }

    pub(super) fn rope_dims(&self, head_dim: usize) -> Result<usize, Kind> {
        if !self.fields.is_config() {
            return Ok(self.fields.optional_size(ROPE_DIMS)?.unwrap_or(head_dim));
        }
        if let Some(dims) = self.fields.optional_size(Field("", "rotary_dim"))? {
            return Ok(dims);
        }
        let fraction = match self.fields.within("rope_parameters") {
            Some(ropes) => ropes.float(ROPE_DIMS)?.or(self.fields.float(ROPE_DIMS)?),
            None => self.fields.float(ROPE_DIMS)?,
        };
        let usual = if self.family == Family::Glm4 { GLM4_ROTATED } else { 1.0 };
        Ok((head_dim as f32 * fraction.unwrap_or(usual)) as usize)
    }

    /// Reads the frequencies of all layers, or of the layers with full attention if windowed layers
    /// have their own.
    pub(super) fn rope(&self, spec: &ModelSpec, dims: usize) -> Result<RopeSpec, Kind> {
        let fields = self.fields;
        let nested = fields.within("rope_parameters");
        let nested = nested.map(|ropes| ropes.within("full_attention").unwrap_or(ropes));
        let scaling = nested.or_else(|| fields.within("rope_scaling"));
        let theta = match nested {
            Some(nested) => nested.positive(THETA)?.or(fields.positive(THETA)?),
            None => fields.positive(THETA)?,
        };
        let theta = theta.unwrap_or(10_000.0);
        fields.rule(theta > 1.0, THETA, theta, "it must be above 1")?;
        let scaling = match (scaling, fields) {
            (Some(scaling), _) => self.scaling(scaling, (theta, dims), spec)?,
            (None, Fields::Gguf(..)) => self.scaling(fields, (theta, dims), spec)?,
            (None, Fields::Config(_)) => RopeScaling::None,
        };
        Ok(RopeSpec { dims, theta, scaling })
    }

    /// Reads the scaling from `fields`. In a `config.json` the fields of the scaling are in a
    /// nested object.
    pub(super) fn scaling(
        &self,
        fields: Fields<'_>,
        (theta, dims): (f32, usize),
        spec: &ModelSpec,
    ) -> Result<RopeScaling, Kind> {
        let pairs = dims / 2;
        if let Some(factors) = self.checkpoint.floats("rope_freqs.weight", pairs)? {
            return Ok(RopeScaling::Factors(factors));
        }
        let kind = fields.text(SCALING)?.or(fields.text(Field("", "type"))?);
        // Hunyuan has this factor, and then ignores the length of the text.
        if let (Some("dynamic"), Some(alpha)) = (kind, fields.positive(BASE_FACTOR)?) {
            return Ok(RopeScaling::larger_base(dims, alpha));
        }
        let factor =
            || -> Result<f32, Kind> { fields.positive(FACTOR)?.ok_or_else(|| fields.missing(FACTOR)) };
        let original = || match fields.optional_size(ORIGINAL)? {
            Some(original) => Ok(original),
            None => self.fields.optional_size(ORIGINAL).map(|original| original.unwrap_or(spec.context)),
        };
        Ok(match kind {
            // Older GGUF files have a factor but no type. Their scaling is linear.
            None if !fields.is_config() => match fields.positive(FACTOR)? {
                Some(factor) => RopeScaling::Linear { factor },
                None => self
                    .long_factors(fields, original()?, (spec, pairs))?
                    .map_or(RopeScaling::None, RopeScaling::Long),
            },
            // A factor without a type is an error: computing without scaling would silently give
            // wrong results.
            None if fields.positive(FACTOR)?.is_some() => return Err(fields.missing(SCALING)),
            None | Some("none" | "default") => RopeScaling::None,
            // A part of the pairs of a whole head rotates; the frequencies are those of the whole head.
            Some("proportional") => {
                let fraction = fields.positive(ROPE_DIMS)?.unwrap_or(1.0);
                let rotated = (pairs as f32 * fraction) as usize;
                let factor = |pair: usize| if pair < rotated { 1.0 } else { f32::INFINITY };
                RopeScaling::Factors((0..pairs).map(factor).collect())
            }
            Some("linear") => RopeScaling::Linear { factor: factor()? },
            Some("llama3") => {
                let low = fields.positive(Field("", "low_freq_factor"))?.unwrap_or(1.0);
                let high = fields.positive(Field("", "high_freq_factor"))?.unwrap_or(4.0);
                let field = Field("", "high_freq_factor");
                fields.rule(low < high, field, high, "it must be above low_freq_factor")?;
                RopeScaling::llama3((theta, dims), factor()?, (low, high), original()?)
            }
            Some("yarn") => RopeScaling::Yarn(self.yarn(fields, factor()?, original()?)?),
            Some("longrope" | "su") => {
                let factors = self.long_factors(fields, original()?, (spec, pairs))?;
                let missing = || {
                    if fields.is_config() {
                        fields.missing(Field("", "long_factor"))
                    } else {
                        Kind::MissingTensor { tensor: "rope_factors_long.weight".to_owned() }
                    }
                };
                RopeScaling::Long(factors.ok_or_else(missing)?)
            }
            Some(other) => {
                let rule = "expected none, linear, llama3, yarn or longrope";
                let key = fields.name(SCALING);
                return Err(Kind::KeyValue { key, given: other.to_owned(), rule });
            }
        })
    }

    pub(super) fn yarn(&self, fields: Fields<'_>, factor: f32, original: usize) -> Result<Yarn, Kind> {
        // Some models state the exponents of two magnitudes, whose ratio is the magnitude.
        let all = fields.float(MAGNITUDE_ALL)?.filter(|all| *all != 0.0);
        let own = if fields.is_config() {
            fields.float(MAGNITUDE_OWN)?.filter(|own| *own != 0.0)
        } else {
            Some(1.0)
        };
        let usual = match (own, all) {
            // These files do not contain the first exponent. It equals the second in all models.
            (Some(_), Some(_)) if self.family == Family::DeepSeek && !fields.is_config() => 1.0,
            (Some(own), Some(all)) => Yarn::magnitude_of(factor, own) / Yarn::magnitude_of(factor, all),
            _ => Yarn::magnitude_of(factor, 1.0),
        };
        let given = fields.positive(MAGNITUDE)?;
        // A GGUF file's factor multiplies the usual magnitude; a `config.json` states the final
        // value.
        let magnitude = match (given, fields.is_config()) {
            (Some(given), true) => given,
            (given, _) => given.unwrap_or(1.0) * usual,
        };
        Ok(Yarn {
            factor,
            original,
            beta_fast: fields.positive(BETA_FAST)?.unwrap_or(32.0),
            beta_slow: fields.positive(BETA_SLOW)?.unwrap_or(1.0),
            truncate: fields.truth(TRUNCATE)?.unwrap_or(fields.is_config() || self.family != Family::GptOss),
            magnitude,
        })
    }

    pub(super) fn long_factors(
        &self,
        fields: Fields<'_>,
        original: usize,
        (spec, pairs): (&ModelSpec, usize),
    ) -> Result<Option<LongFactors>, Kind> {
        let factors = |tensor: &str, key: &'static str| match self.checkpoint.floats(tensor, pairs)? {
            Some(factors) => Ok(Some(factors)),
            None => fields.numbers(key),
        };
        let long = factors("rope_factors_long.weight", "long_factor")?;
        let short = factors("rope_factors_short.weight", "short_factor")?;
        let (Some(long), Some(short)) = (long, short) else { return Ok(None) };
        for (list, key) in [(&long, "long_factor"), (&short, "short_factor")] {
            let positive = list.len() == pairs && list.iter().all(|&factor| factor > 0.0);
            fields.rule(positive, Field(key, key), list.len(), "expected one positive factor per pair")?;
        }
        fields.rule(original > 1, ORIGINAL, original, "it must be more than 1")?;
        let stretched = spec.context as f32 / original as f32;
        let usual =
            if stretched > 1.0 { (1.0 + stretched.ln() / (original as f32).ln()).sqrt() } else { 1.0 };
        let magnitude = fields.positive(MAGNITUDE)?.unwrap_or(usual);
        Ok(Some(LongFactors { short, long, original, magnitude }))
    }
}
