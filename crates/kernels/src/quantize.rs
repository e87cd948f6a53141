use half::{bf16, f16};

use crate::encoding::Encoding;

/// Function that converts floats into the blocks of an encoding.
///
/// The first argument contains the floats, a whole number of blocks. The second argument receives
/// the blocks; its length is their size in bytes.
pub type Quantize = fn(&[f32], &mut [u8]);

/// Returns the function that converts floats into blocks of `encoding`, or `None` if this crate
/// only reads the encoding.
///
/// Scales are chosen to keep the squared error of each block small. In blocks of 256, large
/// elements weigh more.
pub const fn quantizer(encoding: Encoding) -> Option<Quantize> {
    Some(match encoding {
        Encoding::F32 => |values, out| each_block(values, out, |[x]: &[f32; 1]| x.to_le_bytes()),
        Encoding::F16 => {
            |values, out| each_block(values, out, |[x]: &[f32; 1]| f16::from_f32(*x).to_le_bytes())
        }
        Encoding::Bf16 => {
            |values, out| each_block(values, out, |[x]: &[f32; 1]| bf16::from_f32(*x).to_le_bytes())
        }
        Encoding::Q4_0 => |values, out| each_block(values, out, q4_0),
        Encoding::Q8_0 => |values, out| each_block(values, out, q8_0),
        Encoding::Q4K => |values, out| each_block(values, out, q4_k),
        Encoding::Q6K => |values, out| each_block(values, out, q6_k),
        _ => return None,
    })
}

fn each_block<const LEN: usize, const BYTES: usize>(
    values: &[f32],
    out: &mut [u8],
    block: impl Fn(&[f32; LEN]) -> [u8; BYTES],
) {
    for (values, out) in values.as_chunks().0.iter().zip(out.as_chunks_mut().0) {
        *out = block(values);
    }
}

/// Rounds `x` to the nearest integer, and halves away from zero, as the reference implementation
/// does. The compiler turns this into vector code, but leaves `f32::round` as a call.
fn round(x: f32) -> f32 {
    let whole = x.trunc();
    if (x - whole).abs() >= 0.5 { whole + 1_f32.copysign(x) } else { whole }
}

/// Returns the reciprocal of `x`, or 0 for 0.
fn reciprocal(x: f32) -> f32 {
    if x == 0.0 { 0.0 } else { x.recip() }
}

/// Returns the element with the largest absolute value.
fn extreme(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |most: f32, &x| if x.abs() > most.abs() { x } else { most })
}

/// Encodes a block. The scale comes first, then sixteen bytes: byte `i` contains element `i` in its
/// low nibble and element `i + 16` in its high nibble.
fn q4_0(values: &[f32; 32]) -> [u8; 18] {
    // The extreme becomes -8, the level without a counterpart.
    let scale = extreme(values) / -8.0;
    let inverse = reciprocal(scale);
    let code = |x: f32| (x * inverse + 8.5).clamp(0.0, 15.0) as u8;
    let mut block = [0; 18];
    block[..2].copy_from_slice(&f16::from_f32(scale).to_le_bytes());
    for (byte, i) in block[2..].iter_mut().zip(0..) {
        *byte = code(values[i]) | code(values[i + 16]) << 4;
    }
    block
}

/// Encodes a block: one scale, then the elements as signed bytes.
fn q8_0(values: &[f32; 32]) -> [u8; 34] {
    let scale = extreme(values).abs() / 127.0;
    let inverse = reciprocal(scale);
    let mut block = [0; 34];
    block[..2].copy_from_slice(&f16::from_f32(scale).to_le_bytes());
    for (byte, x) in block[2..].iter_mut().zip(values) {
        *byte = round(x * inverse).clamp(-127.0, 127.0) as i8 as u8;
    }
    block
}

/// Encodes a block: the units of the scales and of the offsets, the 6-bit scales and offsets of the
/// 8 groups, and the codes. Two groups share 32 bytes of codes, as low and high nibbles.
fn q4_k(values: &[f32; 256]) -> [u8; 144] {
    let groups = values.as_chunks::<32>().0;
    let mut fits = [Affine::default(); 8];
    for (fit, group) in fits.iter_mut().zip(groups) {
        *fit = Affine::fit(group);
    }
    let most = |of: fn(&Affine) -> f32| fits.iter().map(of).fold(0.0, f32::max);
    let scale = f16::from_f32(most(|fit| fit.scale) / 63.0);
    let offset = f16::from_f32(most(|fit| fit.offset) / 63.0);
    let six_bits = |x: f32, unit: f16| round(x * reciprocal(unit.to_f32())).clamp(0.0, 63.0);

    let mut block = [0; 144];
    block[..2].copy_from_slice(&scale.to_le_bytes());
    block[2..4].copy_from_slice(&offset.to_le_bytes());
    let (head, codes) = block[4..].split_at_mut(12);
    for (i, (fit, group)) in fits.iter().zip(groups).enumerate() {
        let (group_scale, group_offset) = (six_bits(fit.scale, scale), six_bits(fit.offset, offset));
        pack_six_bits(head, i, group_scale as u8, group_offset as u8);
        let inverse = reciprocal(scale.to_f32() * group_scale);
        let offset = offset.to_f32() * group_offset;
        for (byte, x) in codes[i / 2 * 32..].iter_mut().zip(group) {
            let code = round((x + offset) * inverse).clamp(0.0, 15.0) as u8;
            *byte |= code << (i % 2 * 4);
        }
    }
    block
}

/// Adds the 6-bit scale and offset of group `i` to the 12 bytes `head`, which start as zeros. The
/// first four groups have the low 6 bits of a byte for each value. The others have nibbles in the
/// last four bytes; their upper 2 bits are the top bits of the bytes of the first four groups.
fn pack_six_bits(head: &mut [u8], i: usize, scale: u8, offset: u8) {
    if i < 4 {
        head[i] |= scale;
        head[i + 4] |= offset;
    } else {
        head[i + 4] |= scale & 15 | (offset & 15) << 4;
        head[i - 4] |= scale >> 4 << 6;
        head[i] |= offset >> 4 << 6;
    }
}

/// Encodes a block: the low 4 bits of the codes, their upper 2 bits, the 8-bit scales of the 16
/// groups, and the scale of the block.
fn q6_k(values: &[f32; 256]) -> [u8; 210] {
    let groups = values.as_chunks::<16>().0;
    let mut scales = [0.0; 16];
    for (scale, group) in scales.iter_mut().zip(groups) {
        *scale = symmetric_scale(group);
    }
    // The extreme becomes -128, the level without a counterpart.
    let scale = f16::from_f32(extreme(&scales) / -128.0);
    let inverse = reciprocal(scale.to_f32());

    let mut block = [0; 210];
    let (low, rest) = block.split_at_mut(128);
    let (high, rest) = rest.split_at_mut(64);
    for (i, group) in groups.iter().enumerate() {
        let group_scale = round(scales[i] * inverse).clamp(-128.0, 127.0);
        rest[i] = group_scale as i8 as u8;
        let inverse = reciprocal(scale.to_f32() * group_scale);
        for (j, x) in group.iter().enumerate() {
            let code = (round(x * inverse) + 32.0).clamp(0.0, 63.0) as u8;
            // A half of the block has four runs of 32 elements.
            let (half, run, at) = (i / 8, i % 8 / 2, i % 2 * 16 + j);
            low[half * 64 + run % 2 * 32 + at] |= (code & 15) << (run / 2 * 4);
            high[half * 32 + at] |= code >> 4 << (run * 2);
        }
    }
    rest[16..].copy_from_slice(&scale.to_le_bytes());
    block
}

/// An approximation of elements by `scale * level - offset`, with levels from 0 to 15 and an offset
/// of at least 0.
#[derive(Clone, Copy, Default)]
struct Affine {
    scale: f32,
    offset: f32,
}

impl Affine {
    /// Tries several step sizes, and for each computes the best scale and offset for the resulting
    /// levels. Returns the pair with the least weighted squared error.
    fn fit(values: &[f32; 32]) -> Self {
        let least = values.iter().copied().fold(0.0, f32::min);
        let range = values.iter().copied().fold(least, f32::max) - least;
        if range == 0.0 {
            return Self { scale: 0.0, offset: -least };
        }
        let mean_square = values.iter().map(|x| x * x).sum::<f32>() / values.len() as f32;
        let weights = values.map(|x| mean_square.sqrt() + x.abs());
        let mut best = (f32::INFINITY, Self { scale: range / 15.0, offset: -least });
        for step in 0..=20 {
            let inverse = (step as f32).mul_add(0.1, 14.0) / range;
            let levels = values.map(|x| round((x - least) * inverse).clamp(0.0, 15.0));
            let found = Self::regression(values, &weights, &levels);
            let error = found.error(values, &weights, &levels);
            if error < best.0 {
                best = (error, found);
            }
        }
        best.1
    }

    /// Returns the scale and offset with the least weighted squared error for given levels.
    fn regression(values: &[f32; 32], weights: &[f32; 32], levels: &[f32; 32]) -> Self {
        let [mut w, mut wl, mut wll, mut wx, mut wlx] = [0.0; 5];
        for ((x, weight), level) in values.iter().zip(weights).zip(levels) {
            w += weight;
            wl += weight * level;
            wll += weight * level * level;
            wx += weight * x;
            wlx += weight * level * x;
        }
        let determinant = w * wll - wl * wl;
        // Equal levels have a determinant of 0, up to rounding, and then no unique solution.
        let is_solvable = determinant > 1e-5 * w * wll;
        let offset = if is_solvable { (wl * wlx - wll * wx) / determinant } else { 0.0 };
        if offset > 0.0 {
            Self { scale: (w * wlx - wl * wx) / determinant, offset }
        } else {
            Self { scale: wlx * reciprocal(wll), offset: 0.0 }
        }
    }

    fn error(self, values: &[f32; 32], weights: &[f32; 32], levels: &[f32; 32]) -> f32 {
        let each = values.iter().zip(weights).zip(levels).map(|((x, weight), level)| {
            let error = self.scale * level - self.offset - x;
            weight * error * error
        });
        each.sum()
    }
}

/// Returns the scale with which `scale * level` approximates the elements best, for levels from -32
/// to 31. The squared error of an element is weighted by the square of the element.
fn symmetric_scale(values: &[f32; 16]) -> f32 {
    let extreme = extreme(values);
    if extreme == 0.0 {
        return 0.0;
    }
    // For given levels the best scale is `wlx / wll`, and it reduces the error by `wlx * scale`.
    let mut best = (-1.0, 0.0);
    for step in 0..=18 {
        let inverse = (step as f32).mul_add(0.1, 31.1) / -extreme;
        let [mut wlx, mut wll] = [0.0; 2];
        for x in values {
            let level = round(x * inverse).clamp(-32.0, 31.0);
            wlx += x * x * level * x;
            wll += x * x * level * level;
        }
        let scale = wlx * reciprocal(wll);
        if wlx * scale > best.0 {
            best = (wlx * scale, scale);
        }
    }
    best.1
}
