//! Storage of weight matrices on the device.
//!
//! A row consists of groups of 32 weights. A group has codes, and scales that turn integers into
//! weights. The codes of all rows form one plane, and the scales another: neighbouring threads then
//! read neighbouring words. Types with 5 or 6 bits have a third plane with the high bits.
//!
//! | types | codes | scales of a group | bits per weight |
//! |---|---|---|---|
//! | `Q4_0`, `Q5_0`, `Q8_0`, `IQ4_NL` | 4, 5 or 8 bits | one `f16` | 4.5, 5.5, 8.5, 8.5 |
//! | `Q4_1`, `Q5_1` | 4 or 5 bits | scale and offset as `f16` | 5, 6 |
//! | `Q4_K`, `Q5_K` | 4 or 5 bits | the header of the block, as in the file | 4.5, 5.5 |
//! | `Q6_K` | 6 bits | two bytes and the block's `f16` | 7 |
//! | `Q3_K` | 4 bits | two `f32` | 6 |
//! | `Q2_K` | 4 bits | two scales and two offsets as `f32` | 8 |
//! | all others | 8 bits | as `Q3_K` or `Q2_K` | 10 or 12 |
//! | `F16`, `BF16`, `F32` | floats | none | 16, 32 |
//!
//! Rows of floats are padded with zeros to whole groups.

use formwork_kernels::{Encoding, GROUP, WeightGroup, each_group, group_shape};
use half::f16;
use rayon::prelude::*;

use crate::{Buffer, Gpu, GpuError};

/// Form of the codes of a group.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Codes {
    /// Signed bytes.
    Bytes,
    /// 4 bits: the low halves of 16 bytes are the first 16 codes, the high halves the others.
    Nibbles,
    /// [`Codes::Nibbles`] with one high bit each in a further plane.
    FiveBits,
    /// [`Codes::Nibbles`] with two high bits each in a further plane.
    SixBits,
    /// 16-bit floats with a 5-bit exponent.
    F16,
    /// The upper halves of 32-bit floats.
    Bf16,
    /// 32-bit floats.
    F32,
}

/// Form of the scales of a group.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Scales {
    /// None: the codes are floats.
    Nothing,
    /// One `f16`.
    Half,
    /// Scale and offset, as `f16`.
    HalfPair,
    /// Headers of blocks of eight groups: two `f16`, and scales and minima of six bits.
    Header,
    /// Two signed bytes, and the `f16` that they are factors of.
    Small,
    /// Scales of the two halves, as `f32`.
    Pair,
    /// Scales and offsets of the two halves, as `f32`.
    Four,
}

/// Storage of a matrix.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Storage {
    /// Form of the codes.
    pub codes: Codes,
    /// Form of the scales.
    pub scales: Scales,
    /// Number to subtract from a code.
    pub bias: i8,
}

impl Codes {
    /// Returns true if codes are floats.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::Bf16 | Self::F32)
    }

    /// Returns the size of a group in the first two planes, in bytes.
    const fn bytes(self) -> [usize; 2] {
        match self {
            Self::Bytes => [32, 0],
            Self::Nibbles => [16, 0],
            Self::FiveBits => [16, 4],
            Self::SixBits => [16, 8],
            Self::F16 | Self::Bf16 => [64, 0],
            Self::F32 => [128, 0],
        }
    }
}

impl Storage {
    /// Returns the storage of matrices with this encoding.
    pub fn of(encoding: Encoding) -> Self {
        let new = |codes, scales, bias| Self { codes, scales, bias };
        match encoding {
            Encoding::F32 => new(Codes::F32, Scales::Nothing, 0),
            Encoding::F16 => new(Codes::F16, Scales::Nothing, 0),
            Encoding::Bf16 => new(Codes::Bf16, Scales::Nothing, 0),
            Encoding::Q4_0 => new(Codes::Nibbles, Scales::Half, 8),
            Encoding::Q4_1 => new(Codes::Nibbles, Scales::HalfPair, 0),
            Encoding::Q5_0 => new(Codes::FiveBits, Scales::Half, 16),
            Encoding::Q5_1 => new(Codes::FiveBits, Scales::HalfPair, 0),
            Encoding::Q8_0 | Encoding::Iq4Nl => new(Codes::Bytes, Scales::Half, 0),
            Encoding::Q4K => new(Codes::Nibbles, Scales::Header, 0),
            Encoding::Q5K => new(Codes::FiveBits, Scales::Header, 0),
            Encoding::Q6K => new(Codes::SixBits, Scales::Small, 32),
            Encoding::Q2K => new(Codes::Nibbles, Scales::Four, 0),
            Encoding::Q3K => new(Codes::Nibbles, Scales::Pair, 4),
            _ => {
                let has_offsets = group_shape(encoding).is_some_and(|shape| shape.offsets);
                new(Codes::Bytes, if has_offsets { Scales::Four } else { Scales::Pair }, 0)
            }
        }
    }

    /// Returns the size of a row of `groups` groups in the three planes, in bytes. The scales of
    /// [`Scales::Half`] share words, so their rows can have half a word.
    fn row_bytes(self, groups: usize) -> [usize; 3] {
        let [first, second] = self.codes.bytes();
        let scales = match self.scales {
            Scales::Nothing => 0,
            Scales::Half => 2 * groups,
            Scales::HalfPair | Scales::Small => 4 * groups,
            Scales::Header => 16 * groups.div_ceil(8),
            Scales::Pair => 8 * groups,
            Scales::Four => 16 * groups,
        };
        [first * groups, second * groups, scales]
    }
}

/// Returns the size on the device of a matrix, in bytes.
pub fn bytes_of_matrix(encoding: Encoding, rows: usize, columns: usize) -> usize {
    rows * Storage::of(encoding).row_bytes(columns.div_ceil(GROUP)).iter().sum::<usize>()
}

/// The rows of a matrix, as in the file.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// Bytes of all rows.
    pub bytes: &'a [u8],
    /// Size of a row in bytes.
    pub row_bytes: usize,
    /// Encoding of the rows.
    pub encoding: Encoding,
    /// Number of weights in a row.
    pub columns: usize,
}

impl Rows<'_> {
    fn count(&self) -> usize {
        self.bytes.len() / self.row_bytes.max(1)
    }
}

/// Some rows of a matrix on the device, of a size that kernels can bind.
#[derive(Clone)]
pub struct Part {
    /// Index of the first row.
    pub first: u32,
    /// Number of rows.
    pub rows: u32,
    /// The planes.
    pub planes: [Buffer; 3],
}

/// A matrix on the device, with one output per row.
#[derive(Clone)]
pub struct Matrix {
    /// Storage of the rows.
    pub storage: Storage,
    /// Number of rows.
    pub rows: u32,
    /// Number of groups in a row.
    pub groups: u32,
    /// The rows, in parts.
    pub parts: Vec<Part>,
}

impl Matrix {
    /// Copies matrices of equal width and encoding to the device, as one matrix with all their rows.
    ///
    /// # Errors
    /// Returns an error if the device has no memory.
    pub fn upload(gpu: &Gpu, matrices: &[Rows<'_>]) -> Result<Self, GpuError> {
        let storage = matrices.first().map_or(Storage::of(Encoding::F32), |rows| Storage::of(rows.encoding));
        let columns = matrices.first().map_or(0, |rows| rows.columns);
        let groups = columns.div_ceil(GROUP);
        let sizes = storage.row_bytes(groups);
        let widest = sizes.iter().copied().max().unwrap_or(1).max(1);
        // An even number, so that no part begins within a word of scales.
        let most = ((gpu.limits().binding as usize / widest).max(2) & !1).min(1 << 30);
        let lines: Vec<&[u8]> =
            matrices.iter().flat_map(|rows| rows.bytes.chunks_exact(rows.row_bytes.max(1))).collect();
        debug_assert_eq!(lines.len(), matrices.iter().map(Rows::count).sum::<usize>());
        let mut parts = Vec::new();
        for (index, lines) in lines.chunks(most).enumerate() {
            let encoding = matrices[0].encoding;
            // A plane without bytes has one for each row, so that it can be cut like the others.
            let mut planes = sizes.map(|size| vec![0; size.max(1) * lines.len()]);
            let [first, second, third] = &mut planes;
            lines
                .par_iter()
                .zip(first.par_chunks_exact_mut(sizes[0].max(1)))
                .zip(second.par_chunks_exact_mut(sizes[1].max(1)))
                .zip(third.par_chunks_exact_mut(sizes[2].max(1)))
                .for_each(|(((line, first), second), third)| {
                    pack(storage, encoding, line, [first, second, third]);
                });
            let [first, second, third] = planes;
            let upload = |mut plane: Vec<u8>, size: usize| {
                plane.resize(plane.len().next_multiple_of(4), 0);
                gpu.upload(if size == 0 { &[] } else { &plane[..] })
            };
            parts.push(Part {
                first: (index * most) as u32,
                rows: lines.len() as u32,
                planes: [upload(first, sizes[0])?, upload(second, sizes[1])?, upload(third, sizes[2])?],
            });
        }
        Ok(Self { storage, rows: lines.len() as u32, groups: groups as u32, parts })
    }

    /// Returns the size of a row in bytes.
    pub fn row_bytes(&self) -> usize {
        self.storage.row_bytes(self.groups as usize).iter().sum()
    }
}

/// Packs one row into the planes of `storage`.
fn pack(storage: Storage, encoding: Encoding, row: &[u8], [codes, more, scales]: [&mut [u8]; 3]) {
    if storage.codes.is_float() {
        codes[..row.len()].copy_from_slice(row);
        return;
    }
    let [code_bytes, more_bytes] = storage.codes.bytes();
    let mut index = 0;
    each_group(encoding, row, |group| {
        let codes = &mut codes[index * code_bytes..][..code_bytes];
        if storage.codes == Codes::Bytes {
            codes.copy_from_slice(bytemuck::cast_slice(&group.integers));
        } else {
            let levels = group.integers.map(|integer| integer.wrapping_add(storage.bias) as u8);
            for (i, code) in codes.iter_mut().enumerate() {
                *code = levels[i] & 15 | levels[i + 16] << 4;
            }
            high_bits(levels, storage.codes, &mut more[index * more_bytes..][..more_bytes]);
        }
        pack_scales(storage.scales, index, &group, scales);
        index += 1;
    });
    let (len, bytes) = encoding.block();
    let blocks = row.chunks_exact(bytes);
    match storage.scales {
        Scales::Header => {
            for (block, head) in blocks.zip(scales.chunks_exact_mut(16)) {
                head.copy_from_slice(&block[..16]);
            }
        }
        Scales::Small => {
            // Sixteen bytes of scales and an `f16` end a block.
            for (block, heads) in blocks.zip(scales.chunks_exact_mut(len / GROUP * 4)) {
                let (small, half) = block[bytes - 18..].split_at(16);
                for (head, small) in heads.chunks_exact_mut(4).zip(small.chunks_exact(2)) {
                    head[..2].copy_from_slice(small);
                    head[2..].copy_from_slice(half);
                }
            }
        }
        _ => {}
    }
}

/// Writes the bits of levels from the fifth on. The bits of level `4 * quad + byte` are in this
/// byte of a word, from bit `quad` (five bits) or bit `2 * (quad % 4)` (six bits) on.
fn high_bits(levels: [u8; GROUP], codes: Codes, out: &mut [u8]) {
    for (i, level) in levels.into_iter().enumerate() {
        let (quad, byte) = (i / 4, i % 4);
        match codes {
            Codes::FiveBits => out[byte] |= (level >> 4 & 1) << quad,
            Codes::SixBits => out[quad / 4 * 4 + byte] |= (level >> 4 & 3) << (quad % 4 * 2),
            _ => {}
        }
    }
}

/// Writes the scales of group `index`. Scales in the headers of blocks are copied elsewhere.
fn pack_scales(form: Scales, index: usize, group: &WeightGroup, out: &mut [u8]) {
    let ([low, high], [low_offset, high_offset]) = (group.scales, group.offsets);
    // The scale was an `f16` in the file, so no bits are lost.
    let half = |value: f32| f16::from_f32(value).to_le_bytes();
    match form {
        Scales::Nothing | Scales::Header | Scales::Small => {}
        Scales::Half => out[index * 2..][..2].copy_from_slice(&half(low)),
        Scales::HalfPair => {
            out[index * 4..][..2].copy_from_slice(&half(low));
            out[index * 4 + 2..][..2].copy_from_slice(&half(low_offset));
        }
        Scales::Pair => out[index * 8..][..8].copy_from_slice(bytemuck::bytes_of(&[low, high])),
        Scales::Four => {
            let all = [low, high, low_offset, high_offset];
            out[index * 16..][..16].copy_from_slice(bytemuck::bytes_of(&all));
        }
    }
}
