// The small steps of a layer; each reads and writes one shared buffer, so that a barrier precedes it.
struct Shape { count: u32, unused0: u32, unused1: u32, unused2: u32 }
@group(0) @binding(0) var<uniform> shape: Shape;
@group(0) @binding(1) var<storage, read_write> y: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> codes: array<u32>;
@group(0) @binding(4) var<storage, read_write> heads: array<vec2<u32>>;

var<workgroup> partial: array<f32, 256>;
var<workgroup> sums: array<i32, 256>;

fn largest(v: vec4<f32>) -> f32 { return max(max(v.x, v.y), max(v.z, v.w)); }

// Rounds four values to codes; eight neighbouring threads share a step, and four share a sum of codes.
fn quantise(at: u32, v: vec4<f32>, thread: u32) {
    partial[thread] = largest(abs(v));
    workgroupBarrier();
    let first = thread & ~7u;
    let low = vec4<f32>(partial[first], partial[first + 1u], partial[first + 2u], partial[first + 3u]);
    let high = vec4<f32>(partial[first + 4u], partial[first + 5u], partial[first + 6u], partial[first + 7u]);
    let most = largest(max(low, high));
    let inverse = select(0.0, 127.0 / most, most > 0.0);
    let rounded = vec4<i32>(round(v * inverse));
    sums[thread] = rounded.x + rounded.y + rounded.z + rounded.w;
    workgroupBarrier();
    if at < shape.count / 4u {
        x[at] = v;
        codes[at] = pack4xI8(rounded);
        if (thread & 3u) == 0u {
            let sum = sums[thread] + sums[thread + 1u] + sums[thread + 2u] + sums[thread + 3u];
            heads[at / 4u] = vec2<u32>(bitcast<u32>(most / 127.0), bitcast<u32>(sum));
        }
    }
}

// One workgroup: RMSNorm of y into x, codes and heads.
@compute @workgroup_size(256)
fn norm(@builtin(local_invocation_index) thread: u32) {
    var sum = 0.0;
    for (var at = thread; at < shape.count / 4u; at += 256u) { sum += dot(y[at], y[at]); }
    partial[thread] = sum;
    for (var step = 128u; step > 0u; step >>= 1u) {
        workgroupBarrier();
        if thread < step { partial[thread] += partial[thread + step]; }
    }
    workgroupBarrier();
    let scale = inverseSqrt(partial[0] / f32(shape.count) + 1e-5);
    workgroupBarrier();
    for (var start = 0u; start < shape.count / 4u; start += 256u) {
        quantise(start + thread, y[start + thread] * scale, thread);
    }
}

// 1,024 values a workgroup, from y into x, codes and heads.
@compute @workgroup_size(256)
fn combine(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let at = workgroup.x * 256u + thread;
    quantise(at, y[at], thread);
}

// Four values a thread.
@compute @workgroup_size(64)
fn touch(@builtin(global_invocation_id) thread: vec3<u32>) {
    if thread.x < shape.count / 4u { y[thread.x] = y[thread.x] * 0.5 + 0.25; }
}

// The largest of 2,048 values a workgroup, into x.
@compute @workgroup_size(256)
fn best(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let first = workgroup.x * 512u + thread;
    let last = shape.count / 4u - 1u;
    partial[thread] = largest(max(y[min(first, last)], y[min(first + 256u, last)]));
    for (var step = 128u; step > 0u; step >>= 1u) {
        workgroupBarrier();
        if thread < step { partial[thread] = max(partial[thread], partial[thread + step]); }
    }
    if thread == 0u { x[workgroup.x] = vec4<f32>(partial[0]); }
}
