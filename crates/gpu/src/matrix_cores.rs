//! Hardware that multiplies blocks of matrices ("matrix cores", "tensor cores").
//!
//! `wgpu` calls its support experimental, and the kernel was not tuned on such hardware.
//! [`choose_matrix_cores`](crate::choose_matrix_cores) therefore uses it only where it gives the results
//! of other kernels in less time.

/// Hardware that multiplies square blocks of 16-bit floats, with sums in 32 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MatrixCores {
    /// Rows and columns of a block.
    pub size: u32,
    /// Number of threads of a subgroup.
    pub subgroup: u32,
}

impl MatrixCores {
    /// Memory of a workgroup, in bytes.
    const MEMORY: u32 = 2 * 1152 * 8 + 4 * 16 * 16 * 4 + 64 * 4;

    /// Returns the features that a device needs.
    pub(crate) fn features() -> wgpu::Features {
        wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX
            | wgpu::Features::SHADER_F16
            | wgpu::Features::SUBGROUP
    }

    /// Allows a device to use features that `wgpu` calls experimental.
    #[allow(unsafe_code, reason = "wgpu asks for it before its experimental features can be used")]
    pub(crate) fn experimental() -> wgpu::ExperimentalFeatures {
        // SAFETY: The kernel stays within its buffers, and is used only where its results agree with those
        // of other kernels.
        unsafe { wgpu::ExperimentalFeatures::enabled() }
    }

    /// Returns the matrix cores of an adapter, with the largest blocks. `None` if the environment variable
    /// `FORMWORK_MATRIX_CORES` is 0.
    pub(crate) fn of(adapter: &wgpu::Adapter) -> Option<Self> {
        use wgpu::CooperativeScalarType::{F16, F32};
        if std::env::var_os("FORMWORK_MATRIX_CORES").is_some_and(|value| value == "0") {
            return None;
        }
        let (info, limits) = (adapter.get_info(), adapter.limits());
        // Panels in the memory of a workgroup are arrays of vectors. Metal loads blocks from arrays of
        // scalars only.
        let is_vulkan = info.backend == wgpu::Backend::Vulkan;
        // Kernels need to know the number of subgroups of a workgroup.
        let subgroup = info.subgroup_min_size;
        let is_fixed = subgroup == info.subgroup_max_size
            && 4 * subgroup <= limits.max_compute_invocations_per_workgroup;
        let has_memory = limits.max_compute_workgroup_storage_size >= Self::MEMORY;
        if !adapter.features().contains(Self::features()) || !is_vulkan || !is_fixed || !has_memory {
            return None;
        }
        let shapes = adapter.cooperative_matrix_properties();
        let has = |size: u32| {
            shapes.iter().any(|shape| {
                [shape.m_size, shape.n_size, shape.k_size] == [size; 3]
                    && (shape.ab_type, shape.cr_type) == (F16, F32)
            })
        };
        [16, 8].into_iter().find(|size| has(*size)).map(|size| Self { size, subgroup })
    }
}
