//! The tiers of processor instructions, and the only code that branches on a tier.

use std::sync::OnceLock;

#[cfg(target_arch = "x86_64")]
use crate::x86;

/// Evaluates `$call` with `$kernels` bound to the module with the kernels of `$tier`. For the
/// portable tier, evaluates `$portable`.
///
/// The modules have the same functions. Each function needs the instructions of its tier.
macro_rules! with_tier {
    ($tier:expr, $kernels:ident => $call:expr, portable => $portable:expr) => {
        match $tier {
            $crate::tier::Tier::Portable => $portable,
            #[cfg(target_arch = "x86_64")]
            $crate::tier::Tier::Avx2 => {
                use $crate::x86::avx2 as $kernels;
                $call
            }
            #[cfg(target_arch = "x86_64")]
            $crate::tier::Tier::AvxVnni => {
                use $crate::x86::avx_vnni as $kernels;
                $call
            }
            #[cfg(target_arch = "x86_64")]
            $crate::tier::Tier::Avx512Vnni => {
                use $crate::x86::avx512 as $kernels;
                $call
            }
            #[cfg(target_arch = "x86_64")]
            $crate::tier::Tier::Amx => {
                use $crate::x86::amx as $kernels;
                $call
            }
            #[cfg(target_arch = "aarch64")]
            $crate::tier::Tier::Neon => {
                use $crate::neon::plain as $kernels;
                $call
            }
            #[cfg(target_arch = "aarch64")]
            $crate::tier::Tier::NeonDot => {
                use $crate::neon::dot as $kernels;
                $call
            }
            _ => unreachable!("tier of another architecture"),
        }
    };
}
pub(crate) use with_tier;

/// Calls a function of plain loops. They are compiled for the vectors and fused multiply-adds of AVX2, and for
/// those of AVX-512, which are used from the tier [`Tier::Avx512Vnni`] up.
///
/// A build assumes the oldest processor of its target. On x86-64, plain loops then use vectors of 16 bytes, and
/// each `f32::mul_add` calls a function. All versions compute the same bits, because the compiler neither
/// fuses nor reorders floating-point operations.
///
/// Functions with `::<_>` after their name are an exception. They get a [`MultiplyAdd`](crate::MultiplyAdd) as
/// their type parameter, so the portable version may differ from the others by rounding.
///
/// The called function and all functions in its loops must be `#[inline(always)]`. Otherwise they are compiled
/// for the oldest processor, even if they are closures.
///
/// ```
/// #[inline(always)]
/// fn double(values: &mut [f32]) {
///     values.iter_mut().for_each(|value| *value *= 2.0);
/// }
///
/// let mut values = [1.0f32, 2.0, 3.0];
/// let all: &mut [f32] = &mut values;
/// formwork_kernels::vectorised!(double(all: &mut [f32]));
/// assert_eq!(values, [2.0, 4.0, 6.0]);
/// ```
#[cfg(target_arch = "x86_64")]
#[macro_export]
macro_rules! vectorised {
    ($loops:ident($($name:ident: $type:ty),+) $(-> $output:ty)?) => {
        $crate::vectorised!(@ $loops, $loops, ($($name: $type),+) $(-> $output)?)
    };
    ($loops:ident::<_>($($name:ident: $type:ty),+) $(-> $output:ty)?) => {
        $crate::vectorised!(
            @ $loops::<$crate::Fused>, $loops::<$crate::AsBuilt>, ($($name: $type),+) $(-> $output)?
        )
    };
    (@ $fused:expr, $as_built:expr, ($($name:ident: $type:ty),+) $(-> $output:ty)?) => {{
        #[target_feature(enable = "avx2,fma,f16c")]
        fn for_avx2($($name: $type),+) $(-> $output)? {
            $fused($($name),+)
        }
        #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl")]
        fn for_avx512($($name: $type),+) $(-> $output)? {
            $fused($($name),+)
        }
        let tier = $crate::Tier::best();
        if tier < $crate::Tier::Avx2 {
            $as_built($($name),+)
        } else {
            // SAFETY: the tier is only used if the processor has its instructions.
            #[allow(unsafe_code, reason = "functions for newer processors need their instructions")]
            unsafe {
                if tier < $crate::Tier::Avx512Vnni { for_avx2($($name),+) } else { for_avx512($($name),+) }
            }
        }
    }};
}

/// Calls a function of plain loops. On this architecture, a build assumes the vectors that the loops need.
#[cfg(not(target_arch = "x86_64"))]
#[macro_export]
macro_rules! vectorised {
    ($loops:ident($($name:ident: $type:ty),+) $(-> $output:ty)?) => {
        $loops($($name),+)
    };
    ($loops:ident::<_>($($name:ident: $type:ty),+) $(-> $output:ty)?) => {
        $loops::<$crate::AsBuilt>($($name),+)
    };
}

static BEST: OnceLock<Tier> = OnceLock::new();

/// A set of processor instructions for which this crate has kernels.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Tier {
    /// Plain loops, in whatever instructions the compiler chooses.
    Portable,
    /// Vectors of 16 bytes (NEON).
    Neon,
    /// NEON with dot products of four bytes per lane.
    NeonDot,
    /// Vectors of 32 bytes (AVX2, FMA and F16C).
    Avx2,
    /// AVX2 with dot products of four bytes per lane (AVX-VNNI).
    AvxVnni,
    /// Vectors of 64 bytes with dot products of four bytes per lane (AVX-512 with VNNI).
    Avx512Vnni,
    /// AVX-512 with VNNI, and tile registers for products with many tokens (AMX).
    Amx,
}

impl Tier {
    /// Returns the tiers that this processor supports, from slow to fast.
    pub fn available() -> Vec<Self> {
        [Self::Portable, Self::Neon, Self::NeonDot, Self::Avx2, Self::AvxVnni, Self::Avx512Vnni, Self::Amx]
            .into_iter()
            .filter(|tier| tier.is_available())
            .collect()
    }

    /// Returns the tier that kernels use: the one set by [`Tier::force`], or else the fastest that
    /// this processor supports.
    pub fn best() -> Self {
        *BEST.get_or_init(|| Self::available().pop().unwrap_or(Self::Portable))
    }

    /// Makes kernels use this tier, for measurements. Returns false if the processor lacks the tier
    /// or if kernels already use another one.
    pub fn force(self) -> bool {
        self.is_available() && *BEST.get_or_init(|| self) == self
    }

    #[cfg(target_arch = "x86_64")]
    fn is_available(self) -> bool {
        let avx2 = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c");
        match self {
            Self::Portable => true,
            Self::Neon | Self::NeonDot => false,
            Self::Avx2 => avx2,
            Self::AvxVnni => avx2 && (is_x86_feature_detected!("avxvnni") || x86::has_stand_in()),
            Self::Avx512Vnni => {
                avx2 && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512vnni")
            }
            Self::Amx => Self::Avx512Vnni.is_available() && x86::has_amx(),
        }
    }

    #[cfg(target_arch = "aarch64")]
    fn is_available(self) -> bool {
        match self {
            Self::Portable | Self::Neon => true,
            Self::NeonDot => std::arch::is_aarch64_feature_detected!("dotprod"),
            Self::Avx2 | Self::AvxVnni | Self::Avx512Vnni | Self::Amx => false,
        }
    }

    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    fn is_available(self) -> bool {
        self == Self::Portable
    }

    /// Panics if the processor lacks the tier.
    pub(crate) fn check(self) {
        assert!(self.is_available(), "the processor does not support {self:?}");
    }
}
