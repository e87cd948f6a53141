//! GGUF files, versions 2 and 3.
//!
//! [`Gguf`] maps a file and reads its directory, which consists of the metadata and the location of
//! every tensor. The elements of metadata arrays are not copied from the file. Reading a directory
//! with a vocabulary of 262,144 tokens takes a few milliseconds.
//!
//! [`Gguf::open`] validates the whole directory: every tensor lies inside the file, and no two
//! tensors overlap. Counts are checked against the size of the file before any memory is allocated
//! for them.
//!
//! The [GGUF specification](https://github.com/ggml-org/ggml/blob/master/docs/gguf.md) describes
//! the format. To open a split file, pass the path of its first part. Big-endian files are not
//! supported.

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

/// Directory entry of a tensor: its name, shape, type and location.
#[derive(Clone, PartialEq, Debug)]
pub struct TensorInfo {
    /// Name of the tensor.
    pub name: String,
    /// Dimensions, fastest-running first. A matrix has the shape `[columns, rows]`.
    pub shape: Vec<u64>,
    /// Storage type of the elements.
    pub dtype: TensorType,
    /// Index of the file that contains the tensor, starting at 0. Only split checkpoints have
    /// several files.
    pub file: usize,
    /// Offset of the tensor's data from the start of its file, in bytes.
    pub offset: usize,
    /// Size of the tensor's data in bytes.
    pub byte_len: usize,
}

impl TensorInfo {
    /// Returns the number of elements.
    pub fn elements(&self) -> u64 {
        self.shape.iter().product()
    }
}

/// Content of a file before the tensor data.
#[derive(Debug, Default)]
struct Directory {
    version: u32,
    metadata: Vec<(String, Value)>,
    keys: FxHashMap<String, usize>,
    tensors: Vec<TensorInfo>,
    names: FxHashMap<String, usize>,
}

/// A mapped and validated GGUF file, or all parts of a split file.
#[derive(Clone, Debug)]
pub struct Gguf {
    /// Maps of the files. The first one contains the metadata.
    maps: Arc<[Arc<FileMap>]>,
    directory: Arc<Directory>,
}

fn open_part(path: &Path) -> Result<(Arc<FileMap>, Directory), LoadError> {
    let map = FileMap::open(path)?;
    let directory = Directory::parse(&map).map_err(|kind| LoadError::new(path, kind))?;
    Ok((Arc::new(map), directory))
}

impl Gguf {
    /// Maps a file and reads its directory. If the file is the first part of a split file, opens
    /// all parts.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or is malformed, or if a part is missing. The
    /// error contains the path of the file and the location in it.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, LoadError> {
        let (map, mut directory) = open_part(path.as_ref())?;
        let mut maps = vec![map];
        split::read_others(&mut maps, &mut directory)?;
        Ok(Self { maps: maps.into(), directory: Arc::new(directory) })
    }

    /// Returns the path that was opened: the file, or the first part of a split file.
    pub fn path(&self) -> &Path {
        self.maps[0].path()
    }

    pub(crate) fn maps(&self) -> &[Arc<FileMap>] {
        &self.maps
    }

    /// Returns the version of the format, 2 or 3.
    pub fn version(&self) -> u32 {
        self.directory.version
    }

    /// Returns the size of the file in bytes, or the total size of all parts of a split file.
    pub fn byte_len(&self) -> usize {
        self.maps.iter().map(|map| map.len()).sum()
    }

    /// Returns all metadata as pairs of key and value, in the order of the file.
    pub fn metadata(&self) -> &[(String, Value)] {
        &self.directory.metadata
    }

    /// Returns the directory entries of all tensors, in the order of the file.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.directory.tensors
    }

    /// Returns the metadata value of `key`, or `None` if the file does not have this key.
    pub fn value(&self, key: &str) -> Option<&Value> {
        self.directory.keys.get(key).map(|&index| &self.directory.metadata[index].1)
    }

    /// Returns the directory entry of the tensor `name`, or `None` if the file does not have this
    /// tensor.
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.directory.names.get(name).map(|&index| &self.directory.tensors[index])
    }

    /// Returns an iterator over the elements of a metadata array. The elements are read from the
    /// file.
    ///
    /// # Errors
    /// The iterator yields an error for each string that is not UTF-8.
    pub fn array_values(&self, array: &Array) -> impl Iterator<Item = Result<Value, LoadError>> + use<'_> {
        array.values(&self.maps[0]).map(|value| value.map_err(|kind| self.error(kind)))
    }

    /// Returns an iterator over the elements of an array of strings, borrowed from the file.
    /// Returns `None` if the elements are not strings.
    ///
    /// # Errors
    /// The iterator yields an error for each string that is not UTF-8.
    pub fn array_strings(
        &self,
        array: &Array,
    ) -> Option<impl Iterator<Item = Result<&str, LoadError>> + use<'_>> {
        let strings = array.strings(&self.maps[0])?;
        Some(strings.map(|text| text.map_err(|kind| self.error(kind))))
    }

    /// Formats a metadata value for display. Shows at most `limit` elements of an array.
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

/// Minimum size of a metadata entry in bytes: the length of an empty key, a type and a value of one
/// byte.
const LEAST_ENTRY: usize = 8 + 4 + 1;
/// Minimum size of a tensor's directory entry in bytes: the length of an empty name, a rank of 0, a
/// type and an offset.
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

    /// Reads the directory entry of a tensor. The offset in the entry is relative to the start of
    /// the tensor data. [`Directory::place_tensors`] makes it relative to the start of the file.
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

    /// Makes the offsets of all tensors relative to the start of the file. Returns an error if a
    /// tensor does not lie inside the file, or if two tensors overlap.
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

/// Returns an error if two tensors of a file overlap.
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
