// Returns an element of a rotated vector, which is in `y` from `base` on.
fn turned(base: u32, token: u32, i: u32) -> f32 {
    const COUNT = ROPE / 2u;
    let p = select(i % COUNT, i / 2u, INTERLEAVED);
    let is_second = select(i >= COUNT, (i & 1u) == 1u, INTERLEAVED);
    let a = y[base + select(p, 2u * p, INTERLEAVED)];
    let b = y[base + select(p + COUNT, 2u * p + 1u, INTERLEAVED)];
    let c = rotations[ROTATION + (token * 2u) * COUNT + p];
    let s = rotations[ROTATION + (token * 2u + 1u) * COUNT + p];
    return select(a * c - b * s, a * s + b * c, is_second);
}
