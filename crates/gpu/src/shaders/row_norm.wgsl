// One workgroup a row: normalises some columns, and adds another row.
@group(0) @binding(1) var<storage, read> y: array<f32>;
@group(0) @binding(2) var<storage, read> weight: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> added: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> x: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read_write> codes: array<u32>;
@group(0) @binding(6) var<storage, read_write> heads: array<vec2<u32>>;

var<workgroup> partial: array<f32, 256>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let base = workgroup.x * STRIDE + BEGIN;
    var square = 0.0;
    for (var i = thread; i < WIDTH; i += 256u) { square = fma(y[base + i], y[base + i], square); }
    partial[thread] = square;
    for (var step = 128u; step > 0u; step >>= 1u) {
        workgroupBarrier();
        if thread < step { partial[thread] += partial[thread + step]; }
    }
    workgroupBarrier();
    let scale = inverseSqrt(partial[0] / f32(WIDTH) + EPSILON);
    for (var start = 0u; start < VECTORS; start += 256u) {
        let at = start + thread;
        let used = min(at, WIDTH / 4u - 1u);
        let i = base + 4u * used;
        var v = vec4<f32>(y[i], y[i + 1u], y[i + 2u], y[i + 3u]) * scale * weight[used];
        if ADD { v += added[workgroup.x * VECTORS + used]; }
        v = select(vec4<f32>(0.0), v, at < WIDTH / 4u);
        quantise(workgroup.x * VECTORS + at, v, thread, at < VECTORS);
    }
}
