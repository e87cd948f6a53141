@group(0) @binding(4) var<storage, read> x: array<X_TYPE>;
// The step of each group of activations, and the sums of its two halves as 16-bit integers.
@group(0) @binding(5) var<storage, read> heads: array<vec2<u32>>;
@group(0) @binding(6) var<storage, read> list: array<u32>;
@group(0) @binding(7) var<storage, read> bias: array<f32>;
@group(0) @binding(8) var<storage, read_write> y: array<f32>;
