//! Replacement for the module `models` in builds without the feature `candle-models`.

use candle_core::Device;

use super::Network;
use crate::checkpoint::Checkpoint;
use crate::error::Kind;

pub(super) fn check(_: &Checkpoint, unknown: Kind) -> Result<(), Kind> {
    Err(unknown)
}

pub(super) fn open(checkpoint: &Checkpoint, _: Device) -> Result<Network, Kind> {
    let given = checkpoint.architecture()?.to_owned();
    Err(Kind::Architecture { given, known: Vec::new() })
}
