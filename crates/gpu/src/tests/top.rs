//! The likeliest tokens against plain Rust.

use super::{gpu, noise};
use crate::top::{MOST, Top, TopRow};

/// Returns the number of tokens of the first bins, which have at most [`MOST`] together.
fn count(row: &[f32], mask: &[u64]) -> usize {
    let allowed = (0..row.len()).filter(|token| mask[token / 64] >> (token % 64) & 1 == 1);
    let logits: Vec<f32> = allowed.map(|token| row[token]).collect();
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let within =
        |bins: usize| logits.iter().filter(|logit| ((largest - **logit) * 4.0) < bins as f32).count();
    (0..=64).map(within).take_while(|count| *count <= MOST).last().unwrap_or_default()
}

/// Returns the sum of `exp((logit - largest) / temperature)` over the allowed tokens that are not in
/// `found`.
fn rest(row: &[f32], mask: &[u64], temperature: f32, cap: Option<f32>, found: &TopRow) -> f64 {
    let capped = |logit: f32| match cap {
        Some(cap) => f64::from(cap) * (f64::from(logit) / f64::from(cap)).tanh(),
        None => f64::from(logit),
    };
    let allowed = (0..row.len()).filter(|token| mask[token / 64] >> (token % 64) & 1 == 1);
    let logits: Vec<_> = allowed.map(|token| (token as u32, capped(row[token]))).collect();
    let largest = logits.iter().map(|(_, logit)| *logit).fold(f64::NEG_INFINITY, f64::max);
    let others = logits.iter().filter(|(token, _)| found.tokens.iter().all(|(other, _)| other != token));
    others.map(|(_, logit)| ((logit - largest) / f64::from(temperature)).exp()).sum()
}

#[test]
fn the_likeliest_tokens_are_those_of_the_row() {
    const COUNT: usize = 5000;
    const ROWS: usize = 6;
    let Some(gpu) = gpu() else { return };
    // Rows from flat to steep, masked and whole.
    let rows: Vec<Vec<f32>> = (0..ROWS)
        .map(|row| {
            let steepness = 4f32.powi(row as i32 - 2);
            noise(COUNT, row as u64 + 1).iter().map(|x| (x * x * x + 0.1 * x) * 4.0 * steepness).collect()
        })
        .collect();
    let masks: Vec<Vec<u64>> = (0..ROWS)
        .map(|row| {
            let word = if row % 2 == 0 { u64::MAX } else { 0xfeed_face_dead_beef };
            vec![word; COUNT.div_ceil(64)]
        })
        .collect();
    let temperatures = [1.0, 0.7, 1.5, 0.3, 1.0, 2.0];
    for cap in [None, Some(30.0)] {
        let logits = gpu.upload(&rows.concat()).unwrap();
        let top = Top::new(&gpu, (&logits, ROWS, COUNT), cap);
        for row in 0..ROWS {
            let mask = (row % 2 == 1).then_some(&*masks[row]);
            top.write(&gpu, row, mask, temperatures[row]);
        }
        let (result, stride) = (top.result(), top.stride());
        // Twice, because a pass leaves its counts behind.
        let mut words = Vec::new();
        for _ in 0..2 {
            words = gpu.run_and_read::<u32>(top.steps(ROWS as u32), result, ROWS * stride).unwrap();
        }
        for (row, words) in words.chunks(stride).enumerate() {
            let found = top.row(words);
            let is_allowed = |token: u32| masks[row][token as usize / 64] >> (token % 64) & 1 == 1;
            let expected = rest(&rows[row], &masks[row], temperatures[row], cap, &found);
            assert!(
                (found.rest - expected).abs() <= 1e-5 * expected + 1e-30,
                "row {row}: {} {expected}",
                found.rest
            );
            let least = found.tokens.iter().map(|(_, logit)| *logit).fold(f32::INFINITY, f32::min);
            let above: Vec<(u32, f32)> = (0..)
                .zip(rows[row].iter().copied())
                .filter(|(token, logit)| is_allowed(*token) && *logit >= least)
                .collect();
            assert_eq!(found.tokens, above, "row {row}");
            assert_eq!(found.tokens.len(), count(&rows[row], &masks[row]), "row {row}");
            // The first row is so flat that its nearest bin has more tokens than are returned.
            assert_eq!(found.tokens.is_empty(), row == 0, "row {row}");
        }
    }
}

#[test]
fn rows_with_numbers_that_are_not_finite_have_no_likeliest_tokens() {
    const COUNT: usize = 3000;
    let Some(gpu) = gpu() else { return };
    let mut rows = vec![noise(COUNT, 3); 4];
    rows[0][2900] = f32::NAN;
    rows[1][5] = f32::INFINITY;
    rows[2].fill(f32::NEG_INFINITY);
    // A token that is impossible does not count.
    rows[3].fill(f32::NEG_INFINITY);
    rows[3][70] = -2.5;
    let logits = gpu.upload(&rows.concat()).unwrap();
    let top = Top::new(&gpu, (&logits, 4, COUNT), None);
    (0..4).for_each(|row| top.write(&gpu, row, None, 1.0));
    let (result, stride) = (top.result(), top.stride());
    let words = gpu.run_and_read::<u32>(top.steps(4), result, 4 * stride).unwrap();
    let found: Vec<_> = words.chunks(stride).map(|words| top.row(words).tokens).collect();
    assert_eq!(found, [vec![], vec![], vec![], vec![(70, -2.5)]]);
}
