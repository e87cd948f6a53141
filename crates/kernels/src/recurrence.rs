//! Linear recurrences: each token updates a state matrix and reads its output from it. They are the
//! core of the gated delta rule and of Mamba2.
//!
//! The state `S` of a head has a row for each element of a key and a column for each element of a
//! value. A token with key `k`, query `q`, value `v` and decay `a` computes
//!
//! ```text
//! S ← a · S + k · dᵀ        out = Sᵀ · q
//! ```
//!
//! where `d` is `v`, or `β · (v - a · Sᵀ · k)` with the delta rule and its rate `β`.
//!
//! The columns do not depend on each other. A task computes [`COLUMNS`] of them for all tokens of a
//! run, so this part of the state stays in the processor's first-level cache. Tokens are always
//! computed one after the other, so the results do not depend on how a text is divided into runs.
//!
//! A sum over the rows has four partial sums: row `i` is added to partial sum `i % 4`. The result is
//! `(0 + 1) + (2 + 3)`.

use crate::tier::{Tier, with_tier};

/// Number of columns of a state that are computed together.
pub const COLUMNS: usize = 16;

/// Number of partial sums in a sum over the rows of a state.
const CHAINS: usize = 4;

/// A vector for each token: `len` elements at multiples of `stride`.
#[derive(Clone, Copy, Debug)]
pub struct Vectors<'a> {
    elements: &'a [f32],
    stride: usize,
    len: usize,
}

impl<'a> Vectors<'a> {
    /// Creates vectors of `len` elements. The vector of token `t` starts at element `t * stride` of
    /// `elements`.
    pub const fn new(elements: &'a [f32], stride: usize, len: usize) -> Self {
        Self { elements, stride, len }
    }

    /// Returns the vector of a token.
    fn of(self, token: usize) -> &'a [f32] {
        &self.elements[token * self.stride..][..self.len]
    }
}

/// Inputs of a head for the tokens of a run.
#[derive(Clone, Copy, Debug)]
pub struct Recurrence<'a> {
    /// Keys, as long as the state has rows.
    pub keys: Vectors<'a>,
    /// Queries, as long as the state has rows.
    pub queries: Vectors<'a>,
    /// Values, as long as the state has columns.
    pub values: Vectors<'a>,
    /// Factors of the state, one for each token.
    pub decays: Vectors<'a>,
    /// Rates of the delta rule, one for each token. `None` without the delta rule.
    pub rates: Option<Vectors<'a>>,
}

/// Computes columns of a head for all tokens of a run: those from `first` on, at most [`COLUMNS`].
///
/// `state` has an element for each row of the state, and `out` has one for each token of the run.
///
/// # Panics
/// Panics if a vector of `run` is missing, or if keys and queries are not as long as the state.
pub fn advance(run: &Recurrence<'_>, first: usize, state: &mut [[f32; COLUMNS]], out: &mut [[f32; COLUMNS]]) {
    advance_by(Tier::best(), run, first, state, out);
}

#[allow(unsafe_code, reason = "kernels need the instructions of their tier")]
fn advance_by(
    tier: Tier,
    run: &Recurrence<'_>,
    first: usize,
    state: &mut [[f32; COLUMNS]],
    out: &mut [[f32; COLUMNS]],
) {
    tier.check();
    let lens = (run.keys.len, run.queries.len);
    assert_eq!(lens, (state.len(), state.len()), "keys and queries must be as long as the state");
    with_tier!(tier,
        // SAFETY: `check` asserts that the processor has the tier.
        kernels => unsafe { kernels::advance(run, first, state, out) },
        portable => advance_columns(run, first, state, out)
    );
}

/// Does the work of [`advance`], in plain loops that each tier compiles for its instructions.
#[inline(always)]
pub(crate) fn advance_columns(
    run: &Recurrence<'_>,
    first: usize,
    state: &mut [[f32; COLUMNS]],
    out: &mut [[f32; COLUMNS]],
) {
    for (token, out) in out.iter_mut().enumerate() {
        let (key, query) = (run.keys.of(token), run.queries.of(token));
        let decay = run.decays.of(token)[0];
        let mut change = [0.0; COLUMNS];
        for (change, value) in change.iter_mut().zip(&run.values.of(token)[first..]) {
            *change = *value;
        }
        if let Some(rates) = run.rates {
            let mut sums = [[0.0; COLUMNS]; CHAINS];
            let (rows, rest) = state.as_chunks::<CHAINS>();
            let (keys, keys_of_rest) = key.as_chunks::<CHAINS>();
            for (rows, keys) in rows.iter().zip(keys) {
                for chain in 0..CHAINS {
                    add_product(&mut sums[chain], &rows[chain], keys[chain]);
                }
            }
            for (chain, (row, key)) in rest.iter().zip(keys_of_rest).enumerate() {
                add_product(&mut sums[chain], row, *key);
            }
            let (stored, rate) = (sum_of_chains(sums), rates.of(token)[0]);
            for (change, stored) in change.iter_mut().zip(stored) {
                *change = rate * (*change - decay * stored);
            }
        }
        let mut sums = [[0.0; COLUMNS]; CHAINS];
        let (rows, rest) = state.as_chunks_mut::<CHAINS>();
        let (keys, keys_of_rest) = key.as_chunks::<CHAINS>();
        let (queries, queries_of_rest) = query.as_chunks::<CHAINS>();
        for (rows, (keys, queries)) in rows.iter_mut().zip(keys.iter().zip(queries)) {
            for chain in 0..CHAINS {
                update(&mut rows[chain], decay, &change, keys[chain]);
                add_product(&mut sums[chain], &rows[chain], queries[chain]);
            }
        }
        let inputs = keys_of_rest.iter().zip(queries_of_rest);
        for (chain, (row, (key, query))) in rest.iter_mut().zip(inputs).enumerate() {
            update(row, decay, &change, *key);
            add_product(&mut sums[chain], row, *query);
        }
        *out = sum_of_chains(sums);
    }
}

/// Computes `row = decay * row + change * key`.
#[inline(always)]
fn update(row: &mut [f32; COLUMNS], decay: f32, change: &[f32; COLUMNS], key: f32) {
    for (element, change) in row.iter_mut().zip(change) {
        *element = change.mul_add(key, decay * *element);
    }
}

/// Computes `sum += row * factor`.
#[inline(always)]
fn add_product(sum: &mut [f32; COLUMNS], row: &[f32; COLUMNS], factor: f32) {
    for (sum, element) in sum.iter_mut().zip(row) {
        *sum = element.mul_add(factor, *sum);
    }
}

#[inline(always)]
fn sum_of_chains([first, second, third, fourth]: [[f32; COLUMNS]; CHAINS]) -> [f32; COLUMNS] {
    let mut sums = [0.0; COLUMNS];
    for (column, sum) in sums.iter_mut().enumerate() {
        *sum = (first[column] + second[column]) + (third[column] + fourth[column]);
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::noise;

    const TOKENS: usize = 5;

    impl<'a> Vectors<'a> {
        /// Returns the vectors from token `token` on.
        fn after(self, token: usize) -> Self {
            let elements: &'a [f32] = &self.elements[token * self.stride..];
            Self { elements, ..self }
        }
    }

    /// Inputs of a head with states of `rows` by `columns` elements.
    struct Case {
        rows: usize,
        columns: usize,
        /// Keys, queries, values, decays and rates of the tokens.
        inputs: [Vec<f32>; 5],
        has_rates: bool,
    }

    impl Case {
        fn new(rows: usize, columns: usize, has_rates: bool) -> Self {
            let lens = [rows, rows, columns, 1, 1];
            let mut seed = 0;
            let inputs = lens.map(|len| {
                seed += 1;
                noise(len * TOKENS, seed)
            });
            Self { rows, columns, inputs, has_rates }
        }

        fn recurrence(&self) -> Recurrence<'_> {
            let [keys, queries, values, decays, rates] = &self.inputs;
            let vectors = |elements, len| Vectors::new(elements, len, len);
            Recurrence {
                keys: vectors(keys, self.rows),
                queries: vectors(queries, self.rows),
                values: vectors(values, self.columns),
                decays: vectors(decays, 1),
                rates: self.has_rates.then(|| vectors(rates, 1)),
            }
        }

        /// Computes the output of each token directly from the definition. Shape: `[tokens, columns]`.
        fn by_definition(&self) -> Vec<f64> {
            let run = self.recurrence();
            let mut out = Vec::new();
            let mut state = vec![vec![0.0f64; self.columns]; self.rows];
            let of = |vectors: Vectors<'_>, token| -> Vec<f64> {
                vectors.of(token).iter().map(|x| f64::from(*x)).collect()
            };
            for token in 0..TOKENS {
                let [key, query, value] = [run.keys, run.queries, run.values].map(|x| of(x, token));
                state.iter_mut().flatten().for_each(|x| *x *= of(run.decays, token)[0]);
                for column in 0..self.columns {
                    let stored: f64 = (0..self.rows).map(|row| state[row][column] * key[row]).sum();
                    let change = match run.rates {
                        Some(rates) => of(rates, token)[0] * (value[column] - stored),
                        None => value[column],
                    };
                    (0..self.rows).for_each(|row| state[row][column] += key[row] * change);
                    out.push((0..self.rows).map(|row| state[row][column] * query[row]).sum());
                }
            }
            out
        }

        /// Computes the output of each token, in runs of the given lengths.
        fn by_kernel(&self, tier: Tier, runs: &[usize]) -> Vec<f32> {
            let whole = self.recurrence();
            let mut out = vec![0.0; TOKENS * self.columns];
            for first in (0..self.columns).step_by(COLUMNS) {
                let mut state = vec![[0.0; COLUMNS]; self.rows];
                let mut start = 0;
                for len in runs {
                    let run = Recurrence {
                        keys: whole.keys.after(start),
                        queries: whole.queries.after(start),
                        values: whole.values.after(start),
                        decays: whole.decays.after(start),
                        rates: whole.rates.map(|rates| rates.after(start)),
                    };
                    let mut part = vec![[f32::NAN; COLUMNS]; *len];
                    advance_by(tier, &run, first, &mut state, &mut part);
                    for (token, part) in (start..).zip(part) {
                        let columns = &mut out[token * self.columns..(token + 1) * self.columns][first..];
                        columns.iter_mut().zip(part).for_each(|(out, given)| *out = given);
                    }
                    start += len;
                }
            }
            out
        }
    }

    #[test]
    fn matches_the_definition_with_the_same_bits_in_all_tiers_and_runs() {
        for (rows, columns) in [(1, 1), (6, 16), (16, 20), (128, 32)] {
            for has_rates in [false, true] {
                let case = Case::new(rows, columns, has_rates);
                let expected = case.by_definition();
                let portable = case.by_kernel(Tier::Portable, &[TOKENS]);
                for (given, expected) in portable.iter().zip(&expected) {
                    let tolerance = 1e-5 * expected.abs().max(1.0) * rows as f64;
                    assert!((f64::from(*given) - expected).abs() < tolerance, "{given} {expected}");
                }
                for tier in Tier::available() {
                    for runs in [&[TOKENS][..], &[1; TOKENS], &[2, 3]] {
                        assert_eq!(case.by_kernel(tier, runs), portable, "{tier:?}, runs of {runs:?}");
                    }
                }
            }
        }
    }
}
