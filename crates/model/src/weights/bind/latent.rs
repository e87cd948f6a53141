//! Binding of latent attention.

use super::{Binder, stored};
use crate::error::Kind;
use crate::spec::LatentSpec;
use crate::weights::matrix::{Origin, Purpose, RowFormat};
use crate::weights::{LatentQuery, LatentWeights, Linear, Matrix};
use formwork_kernels::Encoding;

impl Binder<'_> {
    pub(super) fn latent(&self, index: usize, shape: LatentSpec) -> Result<LatentWeights, Kind> {
        let hidden = self.spec.hidden;
        let name = |part: &str| self.names.layer(index, part);
        let norm = |part: &str, len| self.norm(&(name(part) + ".weight"), len);
        let queries = shape.heads * (shape.plain_dim + shape.rope_dim);
        let query = match shape.query_rank {
            None => LatentQuery::Direct(self.linear(&name("attn_q"), hidden, queries)?),
            Some(rank) => LatentQuery::Compressed {
                down: self.linear(&name("attn_q_a"), hidden, rank)?,
                norm: norm("attn_q_a_norm", rank)?,
                up: self.linear(&name("attn_q_b"), rank, queries)?,
            },
        };
        let (key, value) = self.keys_and_values_by_head(index, shape)?;
        Ok(LatentWeights {
            shape,
            query,
            latent: self.linear(&name("attn_kv_a_mqa"), hidden, shape.rank + shape.rope_dim)?,
            latent_norm: norm("attn_kv_a_norm", shape.rank)?,
            key,
            value,
            output: self.linear(&name("attn_output"), shape.heads * shape.value_dim, hidden)?,
        })
    }

    /// Reads the projections from and to the space of latent vectors. They are two tensors, the first
    /// of them transposed, or one tensor with the rows of the keys and of the values of each head.
    fn keys_and_values_by_head(
        &self,
        index: usize,
        shape: LatentSpec,
    ) -> Result<(Vec<Linear>, Vec<Linear>), Kind> {
        let LatentSpec { heads, rank, plain_dim, value_dim, .. } = shape;
        let whole = |weight| Linear { weight, bias: None };
        let name = |part: &str| self.names.layer(index, part) + ".weight";
        let both = name("attn_kv_b");
        if self.checkpoint.tensor(&both).is_none() && self.checkpoint.tensor(&name("attn_k_b")).is_some() {
            let dims = |columns: usize, rows: usize| [columns as u64, rows as u64, heads as u64];
            let keys = self.stacked(&name("attn_k_b"), &dims(plain_dim, rank), plain_dim, rank * heads)?;
            let values = self.stacked(&name("attn_v_b"), &dims(rank, value_dim), rank, value_dim * heads)?;
            let parts = |all: &Matrix, part: &str, rows: usize| -> Result<Vec<Linear>, Kind> {
                let factors = stored::factors(self.checkpoint, &name(part), 1)?;
                let head = |head: usize| all.slice(head * rows..(head + 1) * rows).scaled(factors[0]);
                Ok((0..heads).map(|index| whole(head(index))).collect())
            };
            return Ok((parts(&keys, "attn_k_b", rank)?, parts(&values, "attn_v_b", value_dim)?));
        }
        let of_head = plain_dim + value_dim;
        // The keys are transposed, and then converted if that was requested.
        let exact = Self { quantize: None, ..*self };
        let all = exact.matrix(&both, rank, heads * of_head)?;
        let keys = (0..heads).map(|head| {
            let first = head * of_head;
            whole(self.converted(transposed(self.purpose, &all.slice(first..first + plain_dim))))
        });
        let values = (0..heads).map(|head| {
            let first = head * of_head + plain_dim;
            whole(self.converted(all.slice(first..first + value_dim)))
        });
        Ok((keys.collect(), values.collect()))
    }
}

/// Transposes a matrix. The result has 16-bit floats if the elements have at most 16 bits, and 32-bit
/// floats otherwise. Blocks of quantised elements run along rows, so they cannot be kept.
fn transposed(purpose: Purpose, matrix: &Matrix) -> Matrix {
    let (rows, columns) = (matrix.rows, matrix.columns);
    let encoding = match matrix.encoding() {
        float @ (Encoding::F32 | Encoding::Bf16) => float,
        _ => Encoding::F16,
    };
    let format = RowFormat { encoding, bytes: rows * encoding.block().1 };
    let transposed = Matrix::owned(purpose, format, columns, rows, || {
        let mut values = vec![0.0; rows * columns];
        matrix.dequantize(0..rows, &mut values);
        let element = |index: usize| values[index % rows * columns + index / rows];
        let elements = (0..rows * columns).map(element);
        match encoding {
            Encoding::F32 => elements.flat_map(f32::to_le_bytes).collect(),
            Encoding::Bf16 => elements.flat_map(|x| half::bf16::from_f32(x).to_le_bytes()).collect(),
            _ => elements.flat_map(|x| half::f16::from_f32(x).to_le_bytes()).collect(),
        }
    });
    transposed.with_origin(matrix.origin().map(Origin::transposed))
}
