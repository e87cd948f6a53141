// One workgroup a token and head: joins the rotated part of a query and its projection to the space
// of latent vectors, and scales both.
// Queries before the projection: for each head a plain part and a part to rotate.
@group(0) @binding(1) var<storage, read> y: array<f32>;
// Projections of the plain parts.
@group(0) @binding(2) var<storage, read> projected: array<f32>;
@group(0) @binding(3) var<storage, read> rotations: array<f32>;
// Slot of each token, and the factor of its query.
@group(0) @binding(4) var<storage, read> slots: array<vec2<u32>>;
@group(0) @binding(5) var<storage, read_write> queries: array<vec2<f32>>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let token = workgroup.y;
    let row = token * HEADS + workgroup.x;
    let factor = SCALE * bitcast<f32>(slots[token].y);
    let base = row * (PLAIN + ROPE) + PLAIN;
    for (var p = thread; p < (ROPE + RANK) / 2u; p += 64u) {
        let i = 2u * p;
        var pair = vec2<f32>(0.0);
        if i < ROPE {
            pair = vec2<f32>(turned(base, token, i), turned(base, token, i + 1u));
        } else {
            let at = row * RANK + i - ROPE;
            pair = vec2<f32>(projected[at], projected[at + 1u]);
        }
        queries[row * ((ROPE + RANK) / 2u) + p] = pair * factor;
    }
}
