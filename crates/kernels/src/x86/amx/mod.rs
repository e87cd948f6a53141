//! Tile registers (AMX): products of sixteen rows with sixteen tokens at a time.
//!
//! A register holds up to sixteen lines of 64 bytes. In `C += A * B`, the lines of `A` are tokens,
//! and the columns of `B` are rows of weights. A line of `B` holds four elements of each of sixteen
//! rows, so an unpacked piece is such a line without further conversion. The sums are exact. The
//! remaining arithmetic is that of the other tiers and gives the same bits.

#[cfg(all(test, target_os = "linux"))]
mod emulator;
mod products;

use std::arch::asm;
use std::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};
use std::sync::OnceLock;

pub(crate) use self::products::products;
pub(crate) use super::avx512::{
    add_values, advance, bounds, expand_keys, expand_values, float_products, key_products, quantize,
    quantize_words, rests, word_products,
};
use crate::layout::{PIECES, PLANE, TILE_ROWS};

static USABLE: OnceLock<bool> = OnceLock::new();

/// Size of a line of a register, in bytes. This is also the distance between contiguous lines in
/// memory.
const LINE: usize = PLANE;
/// Integer sums of a product, `[token][row]`.
type Integers = [[i32; TILE_ROWS]; TILE_ROWS];

/// Reports whether this process may use the tile registers and whether their products are correct.
pub(crate) fn is_usable() -> bool {
    *USABLE.get_or_init(|| {
        #[cfg(all(test, target_os = "linux"))]
        if !(is_present() && is_permitted()) {
            emulator::install();
            return computes();
        }
        is_present() && is_permitted() && computes()
    })
}

/// Reports whether the processor has tile registers with products of bytes, and whether the system
/// saves them per thread.
fn is_present() -> bool {
    const OSXSAVE: u32 = 1 << 27;
    const TILES_AND_BYTES: u32 = 1 << 24 | 1 << 25;
    /// State components of the registers' configuration and contents.
    const STATES: u64 = 1 << 17 | 1 << 18;
    if __cpuid(0).eax < 7 || __cpuid(1).ecx & OSXSAVE == 0 {
        return false;
    }
    // SAFETY: the `OSXSAVE` bit says that the system has enabled the instruction.
    let states = unsafe { enabled_states() };
    __cpuid_count(7, 0).edx & TILES_AND_BYTES == TILES_AND_BYTES && states & STATES == STATES
}

/// Returns the state components that the system has enabled.
///
/// # Safety
/// The processor must have XSAVE, and the system must have enabled it (`OSXSAVE`).
#[target_feature(enable = "xsave")]
unsafe fn enabled_states() -> u64 {
    // SAFETY: the caller ensures the instruction.
    unsafe { _xgetbv(0) }
}

/// Asks the system for permission to use the registers. Linux requires this because they enlarge
/// the state of every thread.
#[cfg(target_os = "linux")]
fn is_permitted() -> bool {
    const ARCH_REQ_XCOMP_PERM: libc::c_ulong = 0x1023;
    const XFEATURE_XTILEDATA: libc::c_ulong = 18;
    // SAFETY: the call reads and writes no memory of this process.
    unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0 }
}

#[cfg(not(target_os = "linux"))]
fn is_permitted() -> bool {
    false
}

/// Computes products of every shape and compares them with their definition. Returns false on a
/// faulty processor or a faulty emulation.
fn computes() -> bool {
    let x: [[i8; LINE]; TILE_ROWS] =
        std::array::from_fn(|t| std::array::from_fn(|i| (t * 89 + i * 37) as u8 as i8));
    let weights: [[i8; LINE]; PIECES] =
        std::array::from_fn(|p| std::array::from_fn(|i| (p * 53 + i * 101 + 7) as u8 as i8));
    let is_right = |tokens: usize, pieces: usize| {
        let mut integers = [[[-1; TILE_ROWS]; TILE_ROWS]; 2];
        let (first, second) = integers.split_at_mut(1);
        // SAFETY: the registers are present and permitted, or emulated. All pointers refer to as
        // many lines as the shape reads or writes.
        unsafe {
            Shape { tokens, pieces }.configure();
            let halves = [x.as_ptr().cast(), x.as_ptr().cast::<i8>().add(LINE / 2)];
            let weights = [weights.as_ptr().cast(), weights[PIECES - pieces..].as_ptr().cast()];
            multiply(halves, LINE, weights, [&raw mut first[0], &raw mut second[0]]);
            release();
        }
        let defined = |half: usize, t: usize, row: usize| -> i32 {
            let weights = &weights[if half == 0 { 0 } else { PIECES - pieces }..][..pieces];
            let products = weights.iter().enumerate().flat_map(|(piece, weights)| {
                let x = &x[t][half * LINE / 2 + 4 * piece..][..4];
                x.iter().zip(&weights[4 * row..]).map(|(&x, &weight)| i32::from(x) * i32::from(weight))
            });
            products.sum()
        };
        (0..2).all(|half| {
            (0..tokens).all(|t| (0..TILE_ROWS).all(|row| integers[half][t][row] == defined(half, t, row)))
        })
    };
    [(16, PIECES), (8, PIECES), (16, PIECES / 2), (8, PIECES / 2)].into_iter().all(|(t, p)| is_right(t, p))
}

/// The dimensions of a product for which the registers are configured.
#[derive(Clone, Copy)]
struct Shape {
    /// Number of tokens, at most 16.
    tokens: usize,
    /// Number of pieces, at most 8. A piece has four elements.
    pieces: usize,
}

/// Configuration of all registers, in the processor's format.
#[repr(C, align(64))]
struct Configuration {
    palette: u8,
    start: u8,
    reserved: [u8; 14],
    line_bytes: [u16; 16],
    lines: [u8; 16],
}

impl Shape {
    /// Configures this thread's registers for [`multiply`]: 0 and 1 contain sums, 4 and 5
    /// activations, 6 and 7 weights.
    ///
    /// # Safety
    /// This process must be allowed to use the tile registers ([`is_usable`]). `tokens` must be at
    /// most 16, and `pieces` at most 8.
    unsafe fn configure(self) {
        let mut all =
            Configuration { palette: 1, start: 0, reserved: [0; 14], line_bytes: [0; 16], lines: [0; 16] };
        let shapes = [(self.tokens, LINE), (self.tokens, 4 * self.pieces), (self.pieces, LINE)];
        for (registers, (lines, bytes)) in [[0, 1], [4, 5], [6, 7]].into_iter().zip(shapes) {
            for register in registers {
                all.lines[register] = lines as u8;
                all.line_bytes[register] = bytes as u16;
            }
        }
        // SAFETY: the caller ensures the registers and a valid shape. The instruction reads `all` only.
        unsafe {
            asm!("ldtilecfg [{all}]", all = in(reg) &raw const all, options(nostack, readonly));
        }
    }
}

/// Releases the registers, so that the system need not save their contents any more.
///
/// # Safety
/// This process must be allowed to use the tile registers ([`is_usable`]).
unsafe fn release() {
    // SAFETY: the caller ensures the registers. The instruction uses no memory.
    unsafe {
        asm!("tilerelease", options(nostack, nomem));
    }
}

/// Computes two independent products, so that the processor can work on one while the other waits.
///
/// # Safety
/// The registers must be configured with a [`Shape`]. Each pointer of `x` must be valid for reading
/// the shape's number of tokens, as lines of `4 * pieces` bytes with a distance of `stride` bytes.
/// Each pointer of `weights` must be valid for reading `pieces` contiguous lines. Each pointer of
/// `integers` must be valid for writing all lines of the tokens.
#[inline(always)]
unsafe fn multiply(x: [*const i8; 2], stride: usize, weights: [*const i8; 2], integers: [*mut Integers; 2]) {
    // SAFETY: the caller ensures configured registers and valid pointers.
    unsafe {
        asm!(
            "tilezero tmm0",
            "tileloadd tmm4, [{x0} + {stride}]",
            "tileloadd tmm6, [{weights0} + {line}]",
            "tilezero tmm1",
            "tileloadd tmm5, [{x1} + {stride}]",
            "tileloadd tmm7, [{weights1} + {line}]",
            "tdpbssd tmm0, tmm4, tmm6",
            "tdpbssd tmm1, tmm5, tmm7",
            "tilestored [{integers0} + {line}], tmm0",
            "tilestored [{integers1} + {line}], tmm1",
            x0 = in(reg) x[0],
            x1 = in(reg) x[1],
            stride = in(reg) stride,
            weights0 = in(reg) weights[0],
            weights1 = in(reg) weights[1],
            integers0 = in(reg) integers[0],
            integers1 = in(reg) integers[1],
            line = in(reg) LINE,
            out("tmm0") _,
            out("tmm1") _,
            out("tmm4") _,
            out("tmm5") _,
            out("tmm6") _,
            out("tmm7") _,
            options(nostack, preserves_flags)
        );
    }
}
