//! A reader that adapts invalid texts before the model is asked for a repair.

use super::{Reader, Reading, Shape};
use crate::adapt::{AdaptError, AdaptOptions, Adapter};
use crate::object;

/// Creates a reader that reads texts by `shape` and adapts the texts that `shape` rejects.
pub(super) fn reader(shape: Shape, options: AdaptOptions) -> Result<Reader, AdaptError> {
    let adapter = Adapter::new(shape.schema(), options)?;
    Ok(std::sync::Arc::new(move |text: &str| Ok(read(&shape, &adapter, text))))
}

fn read(shape: &Shape, adapter: &Adapter, text: &str) -> Reading {
    let as_it_is = shape.read(text);
    if as_it_is.is_valid() {
        return as_it_is;
    }
    // Adapts only the value that the shape found, because the rest of the text may contain
    // examples.
    let found = as_it_is.written().filter(|_| as_it_is.is_telling());
    let adaptation = adapter.adapt(found.unwrap_or_else(|| object::without_thoughts(text)));
    let Some(value) = adaptation.value() else { return as_it_is };
    let mut reading = shape.check(value.clone());
    reading.written = adaptation.written();
    reading.adapted = adaptation.transforms().map(str::to_owned).collect();
    // An object without content must not replace a text that can stand for the answer.
    let is_silent = shape.of_text(text).is_some() && !reading.is_telling();
    if !is_silent && as_it_is.is_worse_than(&reading) && !reading.loses(&as_it_is) {
        reading
    } else {
        as_it_is
    }
}
