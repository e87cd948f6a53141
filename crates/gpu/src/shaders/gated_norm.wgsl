// One workgroup a token: adds a share of the values to the outputs of a recurrence, gates and
// normalises them, and rounds the result.
@group(0) @binding(1) var<storage, read> y: array<f32>;
// The block's projections, among them the gate.
@group(0) @binding(2) var<storage, read> mixed: array<f32>;
// Values, after the convolution.
@group(0) @binding(3) var<storage, read> values: array<f32>;
// Share of each head's values.
@group(0) @binding(4) var<storage, read> skip: array<f32>;
@group(0) @binding(5) var<storage, read> weight: array<f32>;
@group(0) @binding(6) var<storage, read_write> x: array<vec4<f32>>;
@group(0) @binding(7) var<storage, read_write> codes: array<u32>;
@group(0) @binding(8) var<storage, read_write> heads: array<vec2<u32>>;

var<workgroup> partial: array<f32, 256>;
var<workgroup> factor: array<f32, NORMS>;

fn gate(token: u32, i: u32) -> f32 {
    let g = mixed[token * MIXED + GATES + i];
    return g / (1.0 + exp(-g));
}

// Returns an element before its norm.
fn element(token: u32, i: u32) -> f32 {
    var v = y[token * LEN + i];
    if SKIP { v = fma(skip[i / DIM], values[token * STRIDE + i], v); }
    if GATE_FIRST { v *= gate(token, i); }
    return v;
}

fn result(token: u32, i: u32) -> f32 {
    let used = min(i, LEN - 1u);
    var v = element(token, used) * factor[used / (LEN / NORMS)] * weight[used % WEIGHTS];
    if !GATE_FIRST { v *= gate(token, used); }
    return select(0.0, v, i < LEN);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let token = workgroup.x;
    const WIDTH = LEN / NORMS;
    let lane = thread % LANES;
    for (var start = 0u; start < NORMS; start += 256u / LANES) {
        let norm = start + thread / LANES;
        var square = 0.0;
        if norm < NORMS {
            for (var i = lane; i < WIDTH; i += LANES) {
                let v = element(token, norm * WIDTH + i);
                square = fma(v, v, square);
            }
        }
        partial[thread] = square;
        for (var step = LANES / 2u; step > 0u; step >>= 1u) {
            workgroupBarrier();
            if lane < step { partial[thread] += partial[thread + step]; }
        }
        workgroupBarrier();
        if lane == 0u && norm < NORMS { factor[norm] = inverseSqrt(partial[thread] / f32(WIDTH) + EPSILON); }
        workgroupBarrier();
    }
    for (var start = 0u; start < VECTORS; start += 256u) {
        let at = start + thread;
        let i = 4u * at;
        let v = vec4<f32>(result(token, i), result(token, i + 1u), result(token, i + 2u), result(token, i + 3u));
        quantise(token * VECTORS + at, v, thread, at < VECTORS);
    }
}
