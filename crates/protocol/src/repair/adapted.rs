//! Texts adapted before a model is asked about them.

use super::{Reader, Reading, Shape};
use crate::adapt::{AdaptError, AdaptOptions, Adapter};
use crate::directives::parser;

/// Reads as the shape does, and what does not fit as the adapter does.
pub(super) fn reader(shape: Shape, options: AdaptOptions) -> Result<Reader, AdaptError> {
    let adapter = Adapter::new(shape.schema(), options)?;
    Ok(std::sync::Arc::new(move |text: &str| Ok(read(&shape, &adapter, text))))
}

fn read(shape: &Shape, adapter: &Adapter, text: &str) -> Reading {
    let as_it_is = shape.read(text);
    if as_it_is.is_valid() {
        return as_it_is;
    }
    // What the shape finds is what is adapted: there may be examples beside it.
    let found = as_it_is.written().filter(|_| as_it_is.is_telling());
    let adaptation = adapter.adapt(found.unwrap_or_else(|| parser::without_thoughts(text)));
    let Some(value) = adaptation.value() else { return as_it_is };
    let mut reading = shape.check(value.clone());
    reading.written = adaptation.written();
    reading.adapted = adaptation.transforms().map(str::to_owned).collect();
    // An object that says nothing does not stand for a text that may stand for itself.
    let is_silent = shape.of_text(text).is_some() && !reading.is_telling();
    if !is_silent && as_it_is.is_worse_than(&reading) && !reading.loses(&as_it_is) {
        reading
    } else {
        as_it_is
    }
}
