//! Split GGUF files, whose parts are named `NAME-00001-of-00003.gguf` and so on. The metadata of
//! the model is in the first part.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Directory, Value, open_part};
use crate::LoadError;
use crate::error::Kind;
use crate::file_map::FileMap;

const COUNT: &str = "split.count";
const INDEX: &str = "split.no";
const MOST_PARTS: u64 = 99_999;
const TENSORS: &str = "split.tensors.count";

/// Opens the other parts of a split file and adds their tensors to `directory`. Does nothing if the
/// file is not split.
pub(super) fn read_others(maps: &mut Vec<Arc<FileMap>>, directory: &mut Directory) -> Result<(), LoadError> {
    let path = maps[0].path().to_owned();
    let fail = |kind| LoadError::new(&path, kind);
    let count = directory.split(COUNT).map_err(fail)?.unwrap_or(1);
    if count <= 1 {
        return Ok(());
    }
    if count > MOST_PARTS {
        let (key, given) = (COUNT.to_owned(), count.to_string());
        return Err(fail(Kind::KeyValue { key, given, rule: "it must be at most 99999" }));
    }
    let index = directory.split(INDEX).map_err(fail)?.unwrap_or(0);
    if index >= count {
        return Err(fail(Kind::KeyValue {
            key: INDEX.to_owned(),
            given: index.to_string(),
            rule: "it must be below split.count",
        }));
    }
    if index != 0 {
        let first = part(&path, index, 0, count).map(|first| first.display().to_string());
        return Err(fail(Kind::NotFirstPart { index: index + 1, count, first: first.unwrap_or_default() }));
    }
    for index in 1..count {
        let Some(path) = part(&path, 0, index, count) else {
            return Err(fail(Kind::PartName { count }));
        };
        let (map, other) = open_part(&path)?;
        let fail = |kind| LoadError::new(&path, kind);
        let told = (other.split(INDEX).map_err(fail)?, other.split(COUNT).map_err(fail)?);
        if told != (Some(index), Some(count)) {
            return Err(fail(Kind::OtherPart { index: index + 1, count }));
        }
        for mut tensor in other.tensors {
            tensor.file = maps.len();
            if directory.names.insert(tensor.name.clone(), directory.tensors.len()).is_some() {
                return Err(fail(Kind::DuplicateTensor { tensor: tensor.name, at: tensor.offset }));
            }
            directory.tensors.push(tensor);
        }
        maps.push(map);
    }
    let (given, expected) = (directory.tensors.len() as u64, directory.split(TENSORS).map_err(fail)?);
    if expected.is_some_and(|expected| expected != given) {
        return Err(fail(Kind::PartTensors { given, expected: expected.unwrap_or(0) }));
    }
    Ok(())
}

/// Returns the path of the part with index `index`. `path` is the path of the part with index
/// `known`. Indices start at 0.
///
/// Returns `None` if the name of `path` is not that of part `known` among `count` parts.
fn part(path: &Path, known: u64, index: u64, count: u64) -> Option<PathBuf> {
    let (stem, number, told) = parse(path.file_name()?.to_str()?)?;
    let fits = (number, told) == (known + 1, count);
    fits.then(|| path.with_file_name(name(stem, index + 1, count)))
}

/// Returns the file name of a part. `number` is the number of the part, starting at 1.
pub(crate) fn name(stem: &str, number: u64, count: u64) -> String {
    format!("{stem}-{number:05}-of-{count:05}.gguf")
}

/// Splits the file name of a part into the stem, the number of the part and the number of parts.
/// Returns `None` for other file names.
pub(crate) fn parse(name: &str) -> Option<(&str, u64, u64)> {
    let (rest, count) = name.strip_suffix(".gguf")?.rsplit_once("-of-")?;
    let (stem, number) = rest.rsplit_once('-')?;
    let parse = |text: &str| if text.len() == 5 { text.parse().ok() } else { None };
    Some((stem, parse(number)?, parse(count)?))
}

impl Directory {
    fn split(&self, key: &str) -> Result<Option<u64>, Kind> {
        let Some(&index) = self.keys.get(key) else { return Ok(None) };
        match self.metadata[index].1 {
            Value::Unsigned(number) => Ok(Some(number)),
            Value::Signed(number) => Ok(u64::try_from(number).ok()),
            ref other => {
                let (given, expected) = (other.kind_name(), "an unsigned integer");
                Err(Kind::KeyType { key: key.to_owned(), given, expected })
            }
        }
    }
}
