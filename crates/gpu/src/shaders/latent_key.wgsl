// One workgroup a token: normalises the latent vector, rotates the other part of the key, and writes
// both as the key and as the value.
// The latent vector, and the part to rotate.
@group(0) @binding(1) var<storage, read> y: array<f32>;
@group(0) @binding(2) var<storage, read> weight: array<f32>;
@group(0) @binding(3) var<storage, read> rotations: array<f32>;
// Slot of each token, and the factor of its query.
@group(0) @binding(4) var<storage, read> slots: array<vec2<u32>>;
@group(0) @binding(5) var<storage, read_write> keys: array<PAIR>;
@group(0) @binding(6) var<storage, read_write> values: array<PAIR>;

var<workgroup> partial: array<f32, 64>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let token = workgroup.x;
    let base = token * (RANK + ROPE);
    var square = 0.0;
    for (var i = thread; i < RANK; i += 64u) { square = fma(y[base + i], y[base + i], square); }
    partial[thread] = square;
    for (var step = 32u; step > 0u; step >>= 1u) {
        workgroupBarrier();
        if thread < step { partial[thread] += partial[thread + step]; }
    }
    workgroupBarrier();
    let scale = inverseSqrt(partial[0] / f32(RANK) + EPSILON);
    let slot = slots[token].x;
    const PAIRS = (ROPE + RANK) / 2u;
    for (var p = thread; p < PAIRS; p += 64u) {
        let i = 2u * p;
        var pair = vec2<f32>(0.0);
        if i < ROPE {
            pair = vec2<f32>(turned(base + RANK, token, i), turned(base + RANK, token, i + 1u));
        } else {
            let at = i - ROPE;
            pair = vec2<f32>(y[base + at] * weight[at], y[base + at + 1u] * weight[at + 1u]) * scale;
        }
        keys[(slot / 64u * PAIRS + p) * 64u + slot % 64u] = STORE(pair);
        values[slot * PAIRS + p] = STORE(pair);
    }
}
