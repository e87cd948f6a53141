//! A writer of GGUF files.

use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};

const ALIGNMENT: usize = 32;

/// Function that may write a tensor in its own way. Returns false if it did not.
pub(crate) type Encode = fn(&mut Writer, name: &str, shape: &[u64], values: &[f32]) -> bool;

#[derive(Default)]
pub(crate) struct Writer {
    /// Called for each tensor before it is written.
    encode: Option<Encode>,
    entries: Vec<u8>,
    entry_count: u64,
    directory: Vec<u8>,
    tensor_count: u64,
    data: Vec<u8>,
}

impl Writer {
    pub(crate) fn encoding_by(encode: Encode) -> Self {
        Self { encode: Some(encode), ..Self::default() }
    }

    fn entry(&mut self, key: &str, kind: u32, value: &[u8]) {
        string(&mut self.entries, key);
        self.entries.extend(kind.to_le_bytes());
        self.entries.extend(value);
        self.entry_count += 1;
    }

    pub(crate) fn u32(&mut self, key: &str, value: u32) {
        self.entry(key, 4, &value.to_le_bytes());
    }

    pub(crate) fn f32(&mut self, key: &str, value: f32) {
        self.entry(key, 6, &value.to_le_bytes());
    }

    pub(crate) fn string(&mut self, key: &str, value: &str) {
        let mut bytes = Vec::new();
        string(&mut bytes, value);
        self.entry(key, 8, &bytes);
    }

    pub(crate) fn strings(&mut self, key: &str, values: &[String]) {
        let mut bytes = 8u32.to_le_bytes().to_vec();
        bytes.extend((values.len() as u64).to_le_bytes());
        for value in values {
            string(&mut bytes, value);
        }
        self.entry(key, 9, &bytes);
    }

    pub(crate) fn u32s(&mut self, key: &str, values: &[u32]) {
        let mut bytes = 4u32.to_le_bytes().to_vec();
        bytes.extend((values.len() as u64).to_le_bytes());
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        self.entry(key, 9, &bytes);
    }

    pub(crate) fn bools(&mut self, key: &str, values: &[bool]) {
        let mut bytes = 7u32.to_le_bytes().to_vec();
        bytes.extend((values.len() as u64).to_le_bytes());
        bytes.extend(values.iter().map(|&value| u8::from(value)));
        self.entry(key, 9, &bytes);
    }

    pub(crate) fn bool(&mut self, key: &str, value: bool) {
        self.entry(key, 7, &[value.into()]);
    }

    pub(crate) fn nested(&mut self, key: &str) {
        let mut bytes = 9u32.to_le_bytes().to_vec();
        bytes.extend(0u64.to_le_bytes());
        self.entry(key, 9, &bytes);
    }

    /// Adds a tensor. `shape` has the fastest-running dimension first.
    pub(crate) fn tensor(&mut self, name: &str, shape: &[u64], dtype: GgmlDType, values: &[f32]) {
        if self.encode.is_some_and(|encode| encode(self, name, shape, values)) {
            return;
        }
        let id = match dtype {
            GgmlDType::F32 => 0u32,
            GgmlDType::Q4_0 => 2,
            GgmlDType::Q8_0 => 8,
            GgmlDType::BF16 => 30,
            other => panic!("no number for {other:?}"),
        };
        let tensor = Tensor::from_slice(values, values.len(), &Device::Cpu).unwrap();
        let bytes = QTensor::quantize(&tensor, dtype).unwrap().data().unwrap().into_owned();
        self.raw_tensor(name, shape, (id, self.data.len() as u64), &bytes);
    }

    /// Adds a tensor whose entry may be invalid. `place` is the number of its type and its offset.
    pub(crate) fn raw_tensor(&mut self, name: &str, shape: &[u64], place: (u32, u64), bytes: &[u8]) {
        string(&mut self.directory, name);
        self.directory.extend((shape.len() as u32).to_le_bytes());
        for dim in shape {
            self.directory.extend(dim.to_le_bytes());
        }
        self.directory.extend(place.0.to_le_bytes());
        self.directory.extend(place.1.to_le_bytes());
        self.tensor_count += 1;
        self.data.extend(bytes);
        self.data.resize(self.data.len().next_multiple_of(ALIGNMENT), 0);
    }

    pub(crate) fn data_len(&self) -> u64 {
        self.data.len() as u64
    }

    pub(crate) fn finish(&self) -> Vec<u8> {
        let mut file = b"GGUF".to_vec();
        file.extend(3u32.to_le_bytes());
        file.extend(self.tensor_count.to_le_bytes());
        file.extend(self.entry_count.to_le_bytes());
        file.extend(&self.entries);
        file.extend(&self.directory);
        file.resize(file.len().next_multiple_of(ALIGNMENT), 0);
        file.extend(&self.data);
        file
    }
}

fn string(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text.as_bytes());
}
