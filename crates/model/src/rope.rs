//! Rotary position embeddings.

use formwork_kernels::Team;
use smallvec::SmallVec;

use crate::ops::some_rows;
use crate::spec::{ModelSpec, RopePairing};

/// Minimum number of angles for a parallel task.
const ANGLES: usize = 1 << 9;

/// The rotary frequencies of a model, in one or more sets. A layer with rotary embeddings uses one
/// of the sets.
#[derive(Debug)]
pub(crate) struct Rope {
    pairing: RopePairing,
    sets: Vec<Frequencies>,
}

#[derive(Debug)]
struct Frequencies {
    /// Angle per position of each pair of elements, in radians. Shape: `[dims / 2]`.
    radians: Vec<f32>,
    /// Factor by which the rotated elements of a head are multiplied.
    magnitude: f32,
}

/// Cosines and sines of the angles at some positions, for one set of frequencies. They include the
/// factor `magnitude` of the set.
pub(crate) struct Rotation {
    pairing: RopePairing,
    pub(crate) pairs: usize,
    /// Cosines, of shape `[positions, pairs]`. `sin` has the same shape.
    pub(crate) cos: Vec<f32>,
    pub(crate) sin: Vec<f32>,
}

impl Rope {
    /// Computes the frequencies for sequences of up to `context` tokens.
    pub(crate) fn new(spec: &ModelSpec, context: usize) -> Self {
        let sets = spec
            .ropes
            .iter()
            .map(|rope| Frequencies { radians: rope.frequencies(context), magnitude: rope.magnitude() });
        Self { pairing: spec.rope_pairing, sets: sets.collect() }
    }

    /// Computes the rotations at `positions`. The result has one element per set of frequencies.
    pub(crate) fn rotations(&self, team: &Team, positions: impl Iterator<Item = usize>) -> Vec<Rotation> {
        let positions: Vec<usize> = positions.collect();
        let rotation = |Frequencies { radians, magnitude }: &Frequencies| {
            let pairs = radians.len();
            let (mut cos, mut sin) = (vec![0.0; pairs * positions.len()], vec![0.0; pairs * positions.len()]);
            let rows = cos.chunks_exact_mut(pairs).zip(sin.chunks_exact_mut(pairs)).zip(&positions);
            let mut rows: SmallVec<[_; 1]> = rows.collect();
            team.for_chunks(&mut rows, ANGLES / pairs + 1, |_, rows| {
                for ((cos, sin), at) in rows {
                    for ((cos, sin), radians) in cos.iter_mut().zip(&mut **sin).zip(radians) {
                        let angle = **at as f32 * radians;
                        (*cos, *sin) = (angle.cos() * magnitude, angle.sin() * magnitude);
                    }
                }
            });
            drop(rows);
            Rotation { pairing: self.pairing, pairs, cos, sin }
        };
        self.sets.iter().map(rotation).collect()
    }
}

impl Rotation {
    /// Removes the angles of the first `positions` positions.
    pub(crate) fn skip(&mut self, positions: usize) {
        for angles in [&mut self.cos, &mut self.sin] {
            angles.drain(..positions * self.pairs);
        }
    }

    /// Rotates the heads of all tokens in `rows`, of shape `[tokens, heads, head_dim]`. Row `i` of
    /// the rotation applies to token `i`.
    ///
    /// `len` is the number of elements per token. Elements of a head beyond its rotary part are
    /// unchanged.
    pub(crate) fn apply(&self, team: &Team, rows: &mut [f32], len: usize, head_dim: usize) {
        let some = some_rows(len);
        team.for_chunks(rows, some, |chunk, rows| {
            for (token, heads) in (chunk * (some / len)..).zip(rows.chunks_exact_mut(len)) {
                self.apply_to(token, heads, head_dim);
            }
        });
    }

    /// Rotates the heads of one token with row `token` of the rotation.
    fn apply_to(&self, token: usize, heads: &mut [f32], head_dim: usize) {
        let row = token * self.pairs..(token + 1) * self.pairs;
        let (cos, sin) = (&self.cos[row.clone()], &self.sin[row]);
        for head in heads.chunks_exact_mut(head_dim) {
            let rotary = &mut head[..2 * self.pairs];
            match self.pairing {
                RopePairing::Interleaved => {
                    for ((pair, cos), sin) in rotary.as_chunks_mut::<2>().0.iter_mut().zip(cos).zip(sin) {
                        *pair = [pair[0] * cos - pair[1] * sin, pair[0] * sin + pair[1] * cos];
                    }
                }
                RopePairing::Halves => {
                    let (first, second) = rotary.split_at_mut(self.pairs);
                    for (((a, b), cos), sin) in first.iter_mut().zip(second).zip(cos).zip(sin) {
                        (*a, *b) = (*a * cos - *b * sin, *a * sin + *b * cos);
                    }
                }
            }
        }
    }
}
