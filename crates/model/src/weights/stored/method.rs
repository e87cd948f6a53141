use serde_json::{Map, Value};

use crate::checkpoint::Checkpoint;
use crate::checkpoint::safetensors::QUANTIZATION;
use crate::error::Kind;

/// Storage of quantised matrices in a checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Method {
    /// Each matrix is one tensor.
    None,
    /// 8-bit floats. If `block` is given, scales are those of blocks with as many rows and columns.
    Float8 { block: Option<[usize; 2]> },
    /// The formats of compressed-tensors. If `block` is given, 8-bit floats may have scales of blocks.
    CompressedTensors { block: Option<[usize; 2]> },
    /// The formats of NVIDIA's Model Optimizer.
    ModelOpt,
    /// GPTQ, with `group` columns per group. If `group` is `None`, a group is a row.
    Gptq { group: Option<usize>, version: GptqVersion },
    /// AWQ, with `group` columns per group. If `group` is `None`, a group is a row.
    Awq { group: Option<usize> },
}

/// Version of GPTQ's tensors. The versions store zero points differently.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum GptqVersion {
    V1,
    V2,
}

/// Formats of compressed-tensors that can be read.
const FORMATS: [&str; 8] = [
    "dense",
    "float-quantized",
    "int-quantized",
    "mixed-precision",
    "mxfp4-pack-quantized",
    "naive-quantized",
    "nvfp4-pack-quantized",
    "pack-quantized",
];
const FORMAT_RULE: &str = "expected one of dense, float-quantized, int-quantized, mixed-precision, \
     mxfp4-pack-quantized, naive-quantized, nvfp4-pack-quantized, pack-quantized";

/// Algorithms of the Model Optimizer whose tensors can be read.
const ALGORITHMS: [&str; 5] = ["FP8", "FP8_PER_CHANNEL_PER_TOKEN", "MIXED_PRECISION", "NVFP4", "W4A16_NVFP4"];
const ALGORITHM_RULE: &str =
    "expected one of FP8, FP8_PER_CHANNEL_PER_TOKEN, MIXED_PRECISION, NVFP4, W4A16_NVFP4";

impl Method {
    /// Reads the method from the field `quantization_config` of a `config.json`.
    ///
    /// # Errors
    /// Returns an error if a field is missing or malformed, or if the method is not supported.
    pub(crate) fn of(checkpoint: &Checkpoint) -> Result<Self, Kind> {
        let Checkpoint::Safetensors(folder) = checkpoint else { return Ok(Self::None) };
        let Some(config) = Object::whole(folder.config(), QUANTIZATION)? else {
            return Ok(Self::None);
        };
        match config.required_text("quant_method")? {
            "fp8" => Ok(Self::Float8 { block: config.block("weight_block_size")? }),
            "compressed-tensors" => compressed_tensors(&config),
            "modelopt" => model_opt(&config),
            "gptq" => gptq(&config),
            "awq" => awq(&config),
            // The experts of gpt-oss are found by the names of their tensors.
            "mxfp4" => Ok(Self::None),
            _ => Err(config.wrong(
                "quant_method",
                "expected one of awq, compressed-tensors, fp8, gptq, modelopt, mxfp4",
            )),
        }
    }
}

fn compressed_tensors(config: &Object<'_>) -> Result<Method, Kind> {
    config.one_of("format", &FORMATS, FORMAT_RULE)?;
    if let Some(sparsity) = config.object("sparsity_config")? {
        sparsity.one_of("format", &["dense"], "expected dense")?;
    }
    if let Some(transforms) = config.object("transform_config")?
        && transforms.object("config_groups")?.is_some_and(|groups| !groups.fields.is_empty())
    {
        return Err(config.wrong("transform_config", "transforms of activations are not supported"));
    }
    let mut block = None;
    if let Some(groups) = config.object("config_groups")? {
        for name in groups.fields.keys() {
            let Some(group) = groups.object(name)? else { continue };
            group.one_of("format", &FORMATS, FORMAT_RULE)?;
            let Some(weights) = group.object("weights")? else { continue };
            let own = weights.block("block_structure")?;
            if own.is_some() && block.is_some() && own != block {
                return Err(weights.wrong("block_structure", "expected the same blocks in all groups"));
            }
            block = block.or(own);
        }
    }
    Ok(Method::CompressedTensors { block })
}

fn model_opt(config: &Object<'_>) -> Result<Method, Kind> {
    config.required_text("quant_algo")?;
    config.one_of("quant_algo", &ALGORITHMS, ALGORITHM_RULE)?;
    if let Some(layers) = config.object("quantized_layers")? {
        for name in layers.fields.keys() {
            if let Some(layer) = layers.object(name)? {
                layer.one_of("quant_algo", &ALGORITHMS, ALGORITHM_RULE)?;
            }
        }
    }
    Ok(Method::ModelOpt)
}

fn gptq(config: &Object<'_>) -> Result<Method, Kind> {
    let version = match config.text("checkpoint_format")? {
        None | Some("gptq") => GptqVersion::V1,
        Some("gptq_v2") => GptqVersion::V2,
        Some(_) => return Err(config.wrong("checkpoint_format", "expected gptq or gptq_v2")),
    };
    Ok(Method::Gptq { group: config.group_len()?, version })
}

fn awq(config: &Object<'_>) -> Result<Method, Kind> {
    if config.text("version")?.is_some_and(|version| !version.eq_ignore_ascii_case("gemm")) {
        return Err(config.wrong("version", "expected gemm"));
    }
    Ok(Method::Awq { group: config.group_len()? })
}

/// An object in a `config.json`.
struct Object<'a> {
    /// Key of the object, for error messages.
    key: String,
    fields: &'a Map<String, Value>,
}

impl<'a> Object<'a> {
    /// Finds the object `key` of a whole configuration.
    fn whole(fields: &'a Map<String, Value>, key: &str) -> Result<Option<Self>, Kind> {
        Self { key: String::new(), fields }.object(key)
    }

    /// Returns the value of a field. The value `null` counts as absent.
    fn get(&self, key: &str) -> Option<&'a Value> {
        self.fields.get(key).filter(|value| !value.is_null())
    }

    /// Returns the full name of a field.
    fn name(&self, key: &str) -> String {
        if self.key.is_empty() { key.to_owned() } else { format!("{}.{key}", self.key) }
    }

    fn wrong(&self, key: &str, rule: &'static str) -> Kind {
        let given = self.get(key).map_or_else(|| "absent".to_owned(), Value::to_string);
        Kind::KeyValue { key: self.name(key), given, rule }
    }

    fn object(&self, key: &str) -> Result<Option<Self>, Kind> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Object(fields)) => Ok(Some(Self { key: self.name(key), fields })),
            Some(_) => Err(self.wrong(key, "expected an object")),
        }
    }

    fn text(&self, key: &str) -> Result<Option<&'a str>, Kind> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.wrong(key, "expected a string")),
        }
    }

    fn required_text(&self, key: &str) -> Result<&'a str, Kind> {
        self.text(key)?.ok_or_else(|| Kind::MissingKey { key: self.name(key) })
    }

    /// Checks that a field, if it is present, has one of the values `known`.
    fn one_of(&self, key: &str, known: &[&str], rule: &'static str) -> Result<(), Kind> {
        if self.text(key)?.is_some_and(|given| !known.contains(&given)) {
            return Err(self.wrong(key, rule));
        }
        Ok(())
    }

    /// Reads the numbers of rows and columns of a block.
    fn block(&self, key: &str) -> Result<Option<[usize; 2]>, Kind> {
        let size = |value: &Value| value.as_u64().filter(|size| (1..1 << 31).contains(size));
        match self.get(key) {
            None => Ok(None),
            Some(Value::Array(sizes)) => {
                match sizes.iter().map(size).collect::<Option<Vec<_>>>().as_deref() {
                    Some(&[rows, columns]) => Ok(Some([rows as usize, columns as usize])),
                    _ => Err(self.wrong(key, "expected two positive sizes below 2^31")),
                }
            }
            Some(_) => Err(self.wrong(key, "expected two positive sizes below 2^31")),
        }
    }

    /// Reads the number of columns of a group. `None` stands for all columns.
    fn group_len(&self) -> Result<Option<usize>, Kind> {
        let key = "group_size";
        match self.get(key).map(Value::as_i64) {
            None => Err(Kind::MissingKey { key: self.name(key) }),
            Some(Some(-1)) => Ok(None),
            Some(Some(len @ 1..0x8000_0000)) => Ok(Some(len as usize)),
            Some(_) => Err(self.wrong(key, "expected -1 or a positive size below 2^31")),
        }
    }
}
