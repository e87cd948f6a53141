//! Ways to compute `a * b + c`.

/// A way to compute `a * b + c`. Loops for [`vectorised`](crate::vectorised) take it as a type parameter, because
/// only the caller knows the instructions that they are compiled for.
pub trait MultiplyAdd {
    /// Returns `a * b + c`.
    fn multiply_add(a: f32, b: f32, c: f32) -> f32;
}

/// Rounds once. Without an instruction for it, this calls a function.
#[derive(Clone, Copy, Debug)]
pub struct Fused;

/// Rounds once if the target of the build has an instruction for it, and else twice.
#[derive(Clone, Copy, Debug)]
pub struct AsBuilt;

impl MultiplyAdd for Fused {
    #[inline(always)]
    fn multiply_add(a: f32, b: f32, c: f32) -> f32 {
        a.mul_add(b, c)
    }
}

impl MultiplyAdd for AsBuilt {
    #[inline(always)]
    fn multiply_add(a: f32, b: f32, c: f32) -> f32 {
        if cfg!(any(target_feature = "fma", target_arch = "aarch64")) { a.mul_add(b, c) } else { a * b + c }
    }
}
