// Joins the spans of attention of a token, and rounds the result.
@group(0) @binding(1) var<storage, read> sums: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> stats: array<vec2<f32>>;
// First row and number of rows of each token.
@group(0) @binding(3) var<storage, read> parts: array<vec2<u32>>;
@group(0) @binding(4) var<storage, read> sinks: array<f32>;
@group(0) @binding(5) var<storage, read> y: array<f32>;
@group(0) @binding(6) var<storage, read_write> x: array<vec4<f32>>;
@group(0) @binding(7) var<storage, read_write> codes: array<u32>;
@group(0) @binding(8) var<storage, read_write> heads: array<vec2<u32>>;

const NOTHING = -3.0e38;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let at = workgroup.x * 256u + thread;
    let used = min(at, USED - 1u);
    let head = used / (DIM / 4u);
    let part = parts[workgroup.y];
    var most = NOTHING;
    var sum = 0.0;
    var v = vec4<f32>(0.0);
    for (var i = 0u; i < part.y; i += 1u) {
        let stat = stats[(part.x + i) * HEADS + head];
        let joined = max(most, stat.x);
        let old = select(exp(most - joined), 0.0, most == NOTHING);
        let own = select(exp(stat.x - joined), 0.0, stat.x == NOTHING);
        sum = fma(sum, old, stat.y * own);
        v = fma(v, vec4<f32>(old), sums[(part.x + i) * USED + used] * own);
        most = joined;
    }
    if SINKS {
        let joined = max(most, sinks[head]);
        let old = exp(most - joined);
        sum = fma(sum, old, exp(sinks[head] - joined));
        v = v * old;
    }
    v /= sum;
    if GATED {
        let first = workgroup.y * STRIDE + GATES + 4u * used;
        let g = vec4<f32>(y[first], y[first + 1u], y[first + 2u], y[first + 3u]);
        v /= 1.0 + exp(-g);
    }
    v = select(vec4<f32>(0.0), v, at < USED);
    quantise(workgroup.y * VECTORS + at, v, thread, at < VECTORS);
}
