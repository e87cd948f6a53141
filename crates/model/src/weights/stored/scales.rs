use super::source::Source;
use crate::error::Kind;

/// The scales of the rows of a matrix.
pub(super) struct Scales {
    /// Divided by [`Scales::factor`].
    values: Vec<f32>,
    /// Factor of all scales: a power of two.
    pub(super) factor: f32,
    /// Number of scales of a row.
    pub(super) per_row: usize,
    /// Number of columns that share a scale. The last group of a row may be shorter.
    pub(super) columns: usize,
    /// Number of rows that share their scales.
    rows: usize,
    /// Number of rows of each matrix.
    rows_of_one: usize,
}

impl Scales {
    /// Reads the scales of the tensor `part`.
    ///
    /// There is one scale for all elements, one per row, one per group of a row, or one per
    /// `block`. A block is given as numbers of rows and columns.
    pub(super) fn read(source: &Source<'_>, part: &str, block: Option<[usize; 2]>) -> Result<Self, Kind> {
        let given = source.shape(part)?;
        let &Source { count, rows, columns, .. } = source;
        // Dimensions of 1 have no meaning, except where the matrix has a dimension of 1 itself.
        let sizes: Vec<usize> = given.iter().map(|&dim| dim as usize).filter(|&dim| dim > 1).collect();
        let is = |expected: [usize; 3]| sizes.iter().copied().eq(expected.into_iter().filter(|&dim| dim > 1));
        let blocks = |[high, wide]: [usize; 2]| [columns.div_ceil(wide), rows.div_ceil(high), count];
        let [rows_each, columns_each] = match (block, given) {
            (Some(block), _) if is(blocks(block)) => block,
            _ if sizes.is_empty() || is([1, 1, count]) => [rows, columns],
            _ if is([1, rows, count]) => [1, columns],
            (None, &[groups, rows_given]) if rows_given == rows as u64 && count == 1 => {
                [1, group_len(source, part, groups as usize)?]
            }
            _ => {
                let expected = block.map_or([1, rows, count], blocks);
                return Err(source.wrong_shape(part, if count == 1 { &expected[..2] } else { &expected }));
            }
        };
        let mut values = source.scales(part)?;
        if values.len() == 1 {
            // One scale for all experts.
            values = vec![values[0]; count];
        }
        Ok(Self::new(values, columns.div_ceil(columns_each), columns_each, (rows_each, rows)))
    }

    /// Reads the scales of the tensor `part`, which has one row of scales per group of `len`
    /// columns.
    pub(super) fn read_transposed(source: &Source<'_>, part: &str, len: usize) -> Result<Self, Kind> {
        let (groups, rows) = (source.columns.div_ceil(len), source.rows);
        if source.shape(part)? != [rows as u64, groups as u64] {
            return Err(source.wrong_shape(part, &[rows, groups]));
        }
        let values = source.scales(part)?;
        let row = |row: usize| (0..groups).map(move |group| group * rows + row);
        let values = (0..rows).flat_map(row).map(|at| values[at]).collect();
        Ok(Self::new(values, groups, len, (1, rows)))
    }

    fn new(
        mut values: Vec<f32>,
        per_row: usize,
        columns: usize,
        (rows, rows_of_one): (usize, usize),
    ) -> Self {
        let factor = power_below(values.iter().copied().fold(0.0, f32::max));
        for value in &mut values {
            *value /= factor;
        }
        Self { values, factor, per_row, columns, rows, rows_of_one }
    }

    /// Returns the scales of a row.
    pub(super) fn row(&self, row: usize) -> &[f32] {
        let (matrix, row) = (row / self.rows_of_one, row % self.rows_of_one);
        let at = (matrix * self.rows_of_one.div_ceil(self.rows) + row / self.rows) * self.per_row;
        &self.values[at..at + self.per_row]
    }
}

/// Returns the number of columns in each of `groups` groups of a row.
fn group_len(source: &Source<'_>, part: &str, groups: usize) -> Result<usize, Kind> {
    if groups > 0 && source.columns.is_multiple_of(groups) {
        return Ok(source.columns / groups);
    }
    let (given, columns) = (groups, source.columns);
    Err(Kind::Groups { tensor: source.name(part), given, columns })
}

/// Returns the power of two by which scales of at most `largest` are divided.
///
/// The kernels store scales in 16 bits. The largest quotient is between 2⁸ and 2⁹, so that products
/// with codes do not overflow. Quotients below the largest by a factor of up to 2²² keep all 11
/// significant bits.
fn power_below(largest: f32) -> f32 {
    let exponent = (largest.to_bits() >> 23) as i32 - 127 - 8;
    // Scales that are all 0, or subnormal, need no factor.
    if largest < f32::MIN_POSITIVE { 1.0 } else { (exponent.max(-126) as f32).exp2() }
}
