// One workgroup a token: adds a block's output to the residual stream, multiplies the stream by a
// factor, and normalises it.
@group(0) @binding(1) var<storage, read> y: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> post_weight: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> weight: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> bias: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read_write> residual: array<vec4<f32>>;
@group(0) @binding(6) var<storage, read_write> x: array<vec4<f32>>;
@group(0) @binding(7) var<storage, read_write> codes: array<u32>;
@group(0) @binding(8) var<storage, read_write> heads: array<vec2<u32>>;

var<workgroup> partial: array<f32, 256>;

// Returns the sum of the threads' values. All threads have it after the call.
fn total(value: f32, thread: u32) -> f32 {
    workgroupBarrier();
    partial[thread] = value;
    for (var step = 128u; step > 0u; step >>= 1u) {
        workgroupBarrier();
        if thread < step { partial[thread] += partial[thread + step]; }
    }
    workgroupBarrier();
    return partial[0];
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let base = workgroup.x * VECTORS;
    // Factor of the output that is added.
    var factor = SCALE;
    if POST {
        var square = 0.0;
        for (var at = thread; at < USED; at += 256u) { square += dot(y[base + at], y[base + at]); }
        factor = inverseSqrt(total(square, thread) / WIDTH + EPSILON);
    }
    if ADD {
        for (var at = thread; at < USED; at += 256u) {
            var added = y[base + at] * factor;
            if POST { added = added * post_weight[at] * SCALE; }
            residual[base + at] = (residual[base + at] + added) * STREAM;
        }
    }
    var mean = 0.0;
    if CENTRED {
        var sum = 0.0;
        for (var at = thread; at < USED; at += 256u) { sum += dot(residual[base + at], vec4<f32>(1.0)); }
        mean = total(sum, thread) / WIDTH;
    }
    var scale = 1.0;
    if NORM {
        var square = 0.0;
        for (var at = thread; at < USED; at += 256u) {
            let v = residual[base + at] - mean;
            square += dot(v, v);
        }
        scale = inverseSqrt(total(square, thread) / WIDTH + EPSILON);
    }
    if OUT {
        for (var start = 0u; start < VECTORS; start += 256u) {
            let at = start + thread;
            let used = min(at, USED - 1u);
            var v = residual[base + used];
            if NORM { v = (v - mean) * scale * weight[used]; }
            if BIAS { v += bias[used]; }
            v = select(vec4<f32>(0.0), v, at < USED);
            quantise(base + at, v, thread, at < VECTORS);
        }
    }
}
