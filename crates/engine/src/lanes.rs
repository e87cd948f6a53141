//! Maximum and sum of a row, in lanes so that the compiler can vectorise the loops.

/// Returns the largest number, or negative infinity if there is none.
pub(crate) fn largest(values: &[f32]) -> f32 {
    const LANES: usize = 16;
    let larger = |a: f32, b: f32| if b > a { b } else { a };
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let (whole, rest) = values.as_chunks::<LANES>();
    for values in whole {
        for (lane, &value) in lanes.iter_mut().zip(values) {
            *lane = larger(*lane, value);
        }
    }
    rest.iter().copied().chain(lanes).fold(f32::NEG_INFINITY, larger)
}

/// Returns the sum of the weights.
pub(crate) fn total(weights: &[f32]) -> f64 {
    const LANES: usize = 8;
    let mut lanes = [0f64; LANES];
    let (whole, rest) = weights.as_chunks::<LANES>();
    for weights in whole {
        for (lane, &weight) in lanes.iter_mut().zip(weights) {
            *lane += f64::from(weight);
        }
    }
    lanes.into_iter().chain(rest.iter().copied().map(f64::from)).sum()
}
