//! GGUF files, versions 2 and 3.
//!
//! [`Gguf`] maps a file and reads its directory: the metadata, of which arrays stay in the file, and the place of every
//! tensor. Everything the file claims is checked here, once: after [`Gguf::open`] every tensor lies inside the file, no
//! two overlap, and a count never made the reader allocate more than the file could fill. Reading a directory with a
//! vocabulary of 262,144 tokens takes a few milliseconds.
//!
//! The format is described in the [GGUF specification](https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). A file
//! that was split is opened by its first part. Big-endian files are not supported.

mod cursor;
pub(crate) mod split;
mod tensor_type;
mod value;

use std::path::Path;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use self::cursor::Cursor;
pub use self::tensor_type::TensorType;
pub use self::value::{Array, Value, ValueKind};
use crate::LoadError;
use crate::error::Kind;
use crate::file_map::FileMap;

/// A tensor's entry in the directory.
#[derive(Clone, PartialEq, Debug)]
pub struct TensorInfo {
    /// The tensor's name.
    pub name: String,
    /// Its dimensions, the fastest-running first: a matrix is `[columns, rows]`.
    pub shape: Vec<u64>,
    /// How its elements are stored.
    pub dtype: TensorType,
    /// Which of the checkpoint's files it is in, from 0.
    pub file: usize,
    /// Where it starts, in bytes from the start of the file.
    pub offset: usize,
    /// How many bytes it takes.
    pub byte_len: usize,
}

impl TensorInfo {
    /// How many elements it has.
    pub fn elements(&self) -> u64 {
        self.shape.iter().product()
    }
}

/// What a file says about itself before the tensor data.
#[derive(Debug, Default)]
struct Directory {
    version: u32,
    metadata: Vec<(String, Value)>,
    keys: FxHashMap<String, usize>,
    tensors: Vec<TensorInfo>,
    names: FxHashMap<String, usize>,
}

/// A GGUF file, or the parts of one that was split, mapped and checked.
#[derive(Clone, Debug)]
pub struct Gguf {
    /// The first has the metadata.
    maps: Arc<[Arc<FileMap>]>,
    directory: Arc<Directory>,
}

fn open_part(path: &Path) -> Result<(Arc<FileMap>, Directory), LoadError> {
    let map = FileMap::open(path)?;
    let directory = Directory::parse(&map).map_err(|kind| LoadError::new(path, kind))?;
    Ok((Arc::new(map), directory))
}

impl Gguf {
    /// Maps a file and reads its directory; if it is the first part of several, all of them.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, LoadError> {
        let (map, mut directory) = open_part(path.as_ref())?;
        let mut maps = vec![map];
        split::read_others(&mut maps, &mut directory)?;
        Ok(Self { maps: maps.into(), directory: Arc::new(directory) })
    }

    /// Where the file was opened.
    pub fn path(&self) -> &Path {
        self.maps[0].path()
    }

    pub(crate) fn maps(&self) -> &[Arc<FileMap>] {
        &self.maps
    }

    /// The version of the format, 2 or 3.
    pub fn version(&self) -> u32 {
        self.directory.version
    }

    /// The size of the file, or of all its parts, in bytes.
    pub fn byte_len(&self) -> usize {
        self.maps.iter().map(|map| map.len()).sum()
    }

    /// All metadata, in the file's order.
    pub fn metadata(&self) -> &[(String, Value)] {
        &self.directory.metadata
    }

    /// All tensors, in the file's order.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.directory.tensors
    }

    /// The value of a key.
    pub fn value(&self, key: &str) -> Option<&Value> {
        self.directory.keys.get(key).map(|&index| &self.directory.metadata[index].1)
    }

    /// The entry of a tensor.
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.directory.names.get(name).map(|&index| &self.directory.tensors[index])
    }

    /// The elements of an array, read from the file one by one.
    ///
    /// # Errors
    /// Per element: when a string is not UTF-8.
    pub fn array_values(&self, array: &Array) -> impl Iterator<Item = Result<Value, LoadError>> + use<'_> {
        array.values(&self.maps[0]).map(|value| value.map_err(|kind| self.error(kind)))
    }

    /// The strings of an array, borrowed from the file; `None` when it holds something else.
    ///
    /// # Errors
    /// Per element: when a string is not UTF-8.
    pub fn array_strings(
        &self,
        array: &Array,
    ) -> Option<impl Iterator<Item = Result<&str, LoadError>> + use<'_>> {
        let strings = array.strings(&self.maps[0])?;
        Some(strings.map(|text| text.map_err(|kind| self.error(kind))))
    }

    /// A value as text for people; of an array at most `limit` elements.
    pub fn preview(&self, value: &Value, limit: usize) -> String {
        let Value::Array(array) = value else { return value.to_string() };
        let shown = self.array_values(array).take(limit);
        let mut parts: Vec<String> = shown
            .map(|element| element.map_or_else(|_| "(not UTF-8)".to_owned(), |value| value.to_string()))
            .collect();
        if array.len() > limit {
            parts.push(format!("… {} more", array.len() - limit));
        }
        format!("[{}]", parts.join(", "))
    }

    pub(crate) fn error(&self, kind: impl Into<Kind>) -> LoadError {
        LoadError::new(self.path(), kind)
    }
}

/// The least bytes of a metadata entry: an empty key, a type and a one-byte value.
const LEAST_ENTRY: usize = 8 + 4 + 1;
/// The least bytes of a tensor's entry: an empty name, no dimensions, a type and an offset.
const LEAST_TENSOR: usize = 8 + 4 + 4 + 8;
const MAX_RANK: u32 = 4;
const DEFAULT_ALIGNMENT: u64 = 32;

impl Directory {
    fn parse(file: &[u8]) -> Result<Self, Kind> {
        let mut cursor = Cursor::new(file);
        let magic = cursor.take(4, "the magic number")?;
        if magic != b"GGUF" {
            return Err(Kind::Magic { given: magic.to_vec() });
        }
        let version = cursor.u32("the version")?;
        if !matches!(version, 2 | 3) {
            return Err(Kind::Version { given: version });
        }
        let tensor_count = cursor.count("tensors", LEAST_TENSOR)?;
        let entry_count = cursor.count("metadata entries", LEAST_ENTRY)?;
        let mut directory = Self { version, ..Self::default() };
        for _ in 0..entry_count {
            directory.read_entry(&mut cursor)?;
        }
        let alignment = directory.alignment()?;
        for _ in 0..tensor_count {
            directory.read_tensor(&mut cursor, alignment)?;
        }
        directory.place_tensors(cursor.at(), file.len(), alignment)?;
        Ok(directory)
    }

    fn read_entry(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Kind> {
        let at = cursor.at();
        let key = cursor.string("a metadata key")?.to_owned();
        let value = value::read(cursor, &key)?;
        if self.keys.insert(key.clone(), self.metadata.len()).is_some() {
            return Err(Kind::DuplicateKey { key, at });
        }
        self.metadata.push((key, value));
        Ok(())
    }

    fn alignment(&self) -> Result<u64, Kind> {
        let Some(&index) = self.keys.get("general.alignment") else { return Ok(DEFAULT_ALIGNMENT) };
        match &self.metadata[index].1 {
            Value::Unsigned(given @ 8..=65536) if given.is_power_of_two() => Ok(*given),
            Value::Unsigned(given) => Err(Kind::Alignment { given: *given }),
            other => Err(Kind::KeyType {
                key: "general.alignment".to_owned(),
                given: other.kind_name(),
                expected: "an unsigned integer",
            }),
        }
    }

    /// Reads one entry; its offset still counts from the start of the tensor data.
    fn read_tensor(&mut self, cursor: &mut Cursor<'_>, alignment: u64) -> Result<(), Kind> {
        let at = cursor.at();
        let tensor = cursor.string("a tensor's name")?.to_owned();
        let rank = cursor.u32("a tensor's rank")?;
        if rank > MAX_RANK {
            return Err(Kind::Rank { tensor, given: rank, limit: MAX_RANK, at });
        }
        let shape = (0..rank).map(|_| cursor.u64("a tensor's shape")).collect::<Result<Vec<_>, _>>()?;
        let type_id = cursor.u32("a tensor's type")?;
        let offset = cursor.u64("a tensor's offset")?;
        let Some(dtype) = TensorType::from_id(type_id) else {
            return Err(Kind::TensorType { tensor, given: type_id, at });
        };
        let block_len = dtype.block_len() as u64;
        let columns = shape.first().copied().unwrap_or(1);
        if columns % block_len != 0 {
            return Err(Kind::RowLength { tensor, given: columns, limit: block_len, dtype: dtype.name() });
        }
        let byte_len = shape
            .iter()
            .try_fold(1u64, |product, &dim| product.checked_mul(dim))
            .filter(|&elements| elements > 0)
            .and_then(|elements| (elements / block_len).checked_mul(dtype.block_bytes() as u64))
            .filter(|&bytes| isize::try_from(bytes).is_ok());
        let Some(byte_len) = byte_len else {
            return Err(Kind::ImpossibleShape { tensor, shape, at });
        };
        if offset % alignment != 0 {
            return Err(Kind::TensorAlignment { tensor, given: offset, limit: alignment });
        }
        if self.names.insert(tensor.clone(), self.tensors.len()).is_some() {
            return Err(Kind::DuplicateTensor { tensor, at });
        }
        let (offset, byte_len) = (offset as usize, byte_len as usize);
        self.tensors.push(TensorInfo { name: tensor, shape, dtype, file: 0, offset, byte_len });
        Ok(())
    }

    /// Turns offsets into the data section into offsets into the file, and checks that each tensor has bytes of its own.
    fn place_tensors(&mut self, directory_end: usize, file_len: usize, alignment: u64) -> Result<(), Kind> {
        let data = directory_end.next_multiple_of(alignment as usize);
        for tensor in &mut self.tensors {
            let at = data.saturating_add(tensor.offset);
            if at.saturating_add(tensor.byte_len) > file_len {
                let (at, len, limit) = (at as u64, tensor.byte_len as u64, file_len as u64);
                return Err(Kind::TensorOutside { tensor: tensor.name.clone(), at, len, limit });
            }
            tensor.offset = at;
        }
        no_overlap(&self.tensors)
    }
}

/// Each tensor of a file must have bytes of its own.
pub(crate) fn no_overlap(tensors: &[TensorInfo]) -> Result<(), Kind> {
    let mut order: Vec<&TensorInfo> = tensors.iter().collect();
    order.sort_unstable_by_key(|tensor| tensor.offset);
    match order.windows(2).find(|pair| pair[0].offset + pair[0].byte_len > pair[1].offset) {
        None => Ok(()),
        Some(pair) => Err(Kind::Overlap {
            first: pair[0].name.clone(),
            second: pair[1].name.clone(),
            at: pair[1].offset as u64,
        }),
    }
}
