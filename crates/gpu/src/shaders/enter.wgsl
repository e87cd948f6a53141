// One workgroup a token and head: normalises and rotates queries and keys, scales queries, and
// writes keys and values to their block.
@group(0) @binding(1) var<storage, read> y: array<f32>;
@group(0) @binding(2) var<storage, read> query_weight: array<f32>;
@group(0) @binding(3) var<storage, read> key_weight: array<f32>;
// Cosines of the rotated pairs of each token, then their sines.
@group(0) @binding(4) var<storage, read> rotations: array<f32>;
// Slot of each token, and the factor of its query.
@group(0) @binding(5) var<storage, read> slots: array<vec2<u32>>;
@group(0) @binding(6) var<storage, read_write> queries: array<vec2<f32>>;
@group(0) @binding(7) var<storage, read_write> keys: array<PAIR>;
@group(0) @binding(8) var<storage, read_write> values: array<PAIR>;

var<workgroup> head: array<f32, DIM>;
var<workgroup> turned: array<f32, DIM>;
var<workgroup> partial: array<f32, 64>;

// Returns the weight of an element of a head. Values have none.
fn weight(head_index: u32, i: u32) -> f32 {
    if head_index < HEADS { return query_weight[select(i, head_index * DIM + i, WHOLE)]; }
    if head_index < HEADS + KV_HEADS { return key_weight[select(i, (head_index - HEADS) * DIM + i, WHOLE)]; }
    return 1.0;
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let token = workgroup.y;
    let slot = slots[token].x;
    let is_query = workgroup.x < HEADS;
    let is_key = !is_query && workgroup.x < HEADS + KV_HEADS;
    let row = token * STRIDE;
    let is_value = !is_query && !is_key;
    // Values can be the keys before their norm and rotation.
    var first = row + workgroup.x * DIM;
    if ONE_PROJECTION && is_value { first -= KV_HEADS * DIM; }
    // Sum of squares of the head, or of all heads of the token.
    var square = 0.0;
    if NORM && (is_query || is_key) {
        if WHOLE {
            let begin = select(row + HEADS * DIM, row, is_query);
            let count = select(KV_HEADS, HEADS, is_query) * DIM;
            for (var i = thread; i < count; i += 64u) { square += y[begin + i] * y[begin + i]; }
            square /= f32(count);
        } else {
            for (var i = thread; i < DIM; i += 64u) { square += y[first + i] * y[first + i]; }
            square /= f32(DIM);
        }
    }
    if VALUE_NORM && is_value {
        for (var i = thread; i < DIM; i += 64u) { square += y[first + i] * y[first + i]; }
        square /= f32(DIM);
    }
    partial[thread] = square;
    for (var step = 32u; step > 0u; step >>= 1u) {
        workgroupBarrier();
        if thread < step { partial[thread] += partial[thread + step]; }
    }
    workgroupBarrier();
    let scale = inverseSqrt(partial[0] + EPSILON);
    for (var i = thread; i < DIM; i += 64u) {
        var v = y[first + i];
        if (NORM && !is_value) || (VALUE_NORM && is_value) { v *= scale; }
        if NORM && !ROTATED { v *= weight(workgroup.x, i); }
        head[i] = v;
        turned[i] = v;
    }
    workgroupBarrier();
    if is_query || is_key {
        for (var p = thread; p < PAIRS; p += 64u) {
            let i = select(p, 2u * p, INTERLEAVED);
            let j = select(p + PAIRS, 2u * p + 1u, INTERLEAVED);
            let c = rotations[ROTATION + (token * 2u) * PAIRS + p];
            let s = rotations[ROTATION + (token * 2u + 1u) * PAIRS + p];
            turned[i] = head[i] * c - head[j] * s;
            turned[j] = head[i] * s + head[j] * c;
        }
    }
    workgroupBarrier();
    if NORM && ROTATED {
        for (var i = thread; i < DIM; i += 64u) { turned[i] *= weight(workgroup.x, i); }
        workgroupBarrier();
    }
    let factor = SCALE * bitcast<f32>(slots[token].y);
    for (var p = thread; p < DIM / 2u; p += 64u) {
        let pair = vec2<f32>(turned[2u * p], turned[2u * p + 1u]);
        if is_query {
            queries[(token * HEADS + workgroup.x) * (DIM / 2u) + p] = pair * factor;
        } else if is_key {
            let block = (slot / 64u) * KV_HEADS + workgroup.x - HEADS;
            keys[(block * (DIM / 2u) + p) * 64u + slot % 64u] = STORE(pair);
        } else {
            let block = (slot / 64u) * KV_HEADS + workgroup.x - HEADS - KV_HEADS;
            values[(block * 64u + slot % 64u) * (DIM / 2u) + p] = STORE(pair);
        }
    }
}
