use formwork_vocab::Tokenizer;
use formwork_vocab::tokenizer::GgufTokenizer;

use crate::LoadError;
use crate::error::Kind;
use crate::gguf::{Array, Gguf, Value};

/// Creates the tokenizer that the metadata of a GGUF file describes. The file need not contain
/// tensors.
///
/// # Errors
/// Returns an error if a field is missing or has the wrong type, or if the fields do not define a
/// valid tokenizer.
pub fn tokenizer(file: &Gguf) -> Result<Tokenizer, LoadError> {
    Tokenizer::from_gguf(gguf_tokenizer(file)?).map_err(|error| file.error(error))
}

/// Returns the tokenizer fields in the metadata of a GGUF file.
///
/// # Errors
/// Returns an error if a required field is missing or a field has the wrong type.
pub(crate) fn gguf_tokenizer(file: &Gguf) -> Result<GgufTokenizer, LoadError> {
    let fields = Fields { file };
    Ok(GgufTokenizer {
        name: fields.text("general.name")?,
        model: fields.required("tokenizer.ggml.model", fields.text("tokenizer.ggml.model")?)?,
        pre: fields.text("tokenizer.ggml.pre")?,
        tokens: fields.required("tokenizer.ggml.tokens", fields.texts("tokenizer.ggml.tokens")?)?,
        token_type: fields.list("tokenizer.ggml.token_type", "integers", |value| match *value {
            Value::Signed(kind) => i32::try_from(kind).ok(),
            Value::Unsigned(kind) => i32::try_from(kind).ok(),
            _ => None,
        })?,
        scores: fields.list("tokenizer.ggml.scores", "floats", |value| match *value {
            Value::Float(score) => Some(score as f32),
            _ => None,
        })?,
        merges: fields.texts("tokenizer.ggml.merges")?.unwrap_or_default(),
        bos: fields.id("tokenizer.ggml.bos_token_id")?,
        eos: fields.id("tokenizer.ggml.eos_token_id")?,
        eot: fields.id("tokenizer.ggml.eot_token_id")?,
        eom: fields.id("tokenizer.ggml.eom_token_id")?,
        cls: fields.id("tokenizer.ggml.cls_token_id")?,
        sep: fields.id("tokenizer.ggml.seperator_token_id")?,
        unknown: fields.id("tokenizer.ggml.unknown_token_id")?,
        add_eos: fields.truth("tokenizer.ggml.add_eos_token")?,
        add_sep: fields.truth("tokenizer.ggml.add_sep_token")?,
        add_bos: fields.truth("tokenizer.ggml.add_bos_token")?,
        add_space_prefix: fields.truth("tokenizer.ggml.add_space_prefix")?,
    })
}

/// Typed access to the metadata of a file. Methods return `None` if the key is missing, and an
/// error if its value has another type.
struct Fields<'a> {
    file: &'a Gguf,
}

impl Fields<'_> {
    fn wrong_type(&self, key: &str, given: &Value, expected: &'static str) -> LoadError {
        self.file.error(Kind::KeyType { key: key.to_owned(), given: given.kind_name(), expected })
    }

    fn required<T>(&self, key: &str, value: Option<T>) -> Result<T, LoadError> {
        value.ok_or_else(|| self.file.error(Kind::MissingKey { key: key.to_owned() }))
    }

    fn text(&self, key: &str) -> Result<Option<String>, LoadError> {
        match self.file.value(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(other) => Err(self.wrong_type(key, other, "a string")),
        }
    }

    fn truth(&self, key: &str) -> Result<Option<bool>, LoadError> {
        match self.file.value(key) {
            None => Ok(None),
            Some(&Value::Bool(truth)) => Ok(Some(truth)),
            Some(other) => Err(self.wrong_type(key, other, "a bool")),
        }
    }

    /// Returns a token id. Returns `None` if the key is missing, or if the value is -1 or
    /// `u32::MAX`. Some files use these values for a missing token.
    fn id(&self, key: &str) -> Result<Option<u32>, LoadError> {
        let id = match self.file.value(key) {
            None | Some(Value::Signed(-1)) => return Ok(None),
            Some(&Value::Unsigned(id)) => u32::try_from(id).ok(),
            Some(&Value::Signed(id)) => u32::try_from(id).ok(),
            Some(other) => return Err(self.wrong_type(key, other, "a token id")),
        };
        Ok(id.filter(|&id| id != u32::MAX))
    }

    fn array(&self, key: &str) -> Result<Option<&Array>, LoadError> {
        match self.file.value(key) {
            None => Ok(None),
            Some(Value::Array(array)) => Ok(Some(array)),
            Some(other) => Err(self.wrong_type(key, other, "an array")),
        }
    }

    fn texts(&self, key: &str) -> Result<Option<Vec<String>>, LoadError> {
        let Some(array) = self.array(key)? else { return Ok(None) };
        let strings = self
            .file
            .array_strings(array)
            .ok_or_else(|| self.wrong_type(key, &Value::Array(array.clone()), "an array of strings"))?;
        strings.map(|text| text.map(str::to_owned)).collect::<Result<_, _>>().map(Some)
    }

    fn list<T>(
        &self,
        key: &str,
        expected: &'static str,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<Vec<T>, LoadError> {
        let Some(array) = self.array(key)? else { return Ok(Vec::new()) };
        let values = self.file.array_values(array);
        values
            .map(|value| {
                value.and_then(|value| read(&value).ok_or_else(|| self.wrong_type(key, &value, expected)))
            })
            .collect()
    }
}
