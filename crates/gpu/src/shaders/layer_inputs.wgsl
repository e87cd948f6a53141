// One workgroup a layer and token: normalises the projection of the token's embedding, and adds the
// layer's own embedding of the token.
@group(0) @binding(1) var<storage, read> embedded: array<f32>;
@group(0) @binding(2) var<storage, read> weight: array<f32>;
@group(0) @binding(3) var<storage, read_write> inputs: array<f32>;

var<workgroup> partial: array<f32, 64>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let base = (workgroup.y * LAYERS + workgroup.x) * WIDTH;
    var square = 0.0;
    for (var i = thread; i < WIDTH; i += 64u) { square = fma(inputs[base + i], inputs[base + i], square); }
    partial[thread] = square;
    for (var step = 32u; step > 0u; step >>= 1u) {
        workgroupBarrier();
        if thread < step { partial[thread] += partial[thread + step]; }
    }
    workgroupBarrier();
    let scale = inverseSqrt(partial[0] / f32(WIDTH) + EPSILON);
    for (var i = thread; i < WIDTH; i += 64u) {
        inputs[base + i] = (inputs[base + i] * scale * weight[i] + embedded[base + i]) * 0.70710678;
    }
}
