// Activates the gate, and multiplies it by the up projection if there is one.
@group(0) @binding(1) var<storage, read> gates: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> ups: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> x: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> codes: array<u32>;
@group(0) @binding(5) var<storage, read_write> heads: array<vec2<u32>>;

// The error function by formula 7.1.26 in Abramowitz and Stegun, with an error of at most 2e-7.
fn erf(x: vec4<f32>) -> vec4<f32> {
    let m = abs(x);
    let t = 1.0 / (1.0 + 0.3275911 * m);
    let p = ((((1.0614054 * t - 1.4531521) * t + 1.4214138) * t - 0.28449672) * t + 0.25482960) * t;
    return sign(x) * (1.0 - p * exp(-m * m));
}

fn activated(g: vec4<f32>, u: vec4<f32>) -> vec4<f32> {
    ACTIVATION
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let at = workgroup.x * 256u + thread;
    let column = min(at, VECTORS - 1u);
    let last = vec4<u32>(at * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
    let v = activated(gates[workgroup.y * STRIDE + column], ups[workgroup.y * UP_STRIDE + UP_BEGIN + column]);
    let used = select(vec4<f32>(0.0), v, last < vec4<u32>(WIDTH));
    quantise(workgroup.y * VECTORS + at, used, thread, at < VECTORS);
}
