// Rounds rows of floats to activations.
@group(0) @binding(1) var<storage, read> y: array<f32>;
@group(0) @binding(2) var<storage, read_write> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> codes: array<u32>;
@group(0) @binding(4) var<storage, read_write> heads: array<vec2<u32>>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let at = workgroup.x * 256u + thread;
    let first = workgroup.y * STRIDE + BEGIN + min(4u * at, WIDTH - 1u);
    let last = vec4<u32>(at * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
    let v = vec4<f32>(y[first], y[first + 1u], y[first + 2u], y[first + 3u]);
    let used = select(vec4<f32>(0.0), v, last < vec4<u32>(WIDTH));
    quantise(workgroup.y * VECTORS + at, used, thread, at < VECTORS);
}
