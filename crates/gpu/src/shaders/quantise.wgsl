var<workgroup> magnitudes: array<f32, 256>;
var<workgroup> code_sums: array<i32, 256>;

// Writes four activations of each of 256 threads, as floats and rounded to 8 bits. `at` is the index
// of the first in vectors of four. Eight neighbouring threads share a step. Steps that are
// subnormal, infinite or NaN give zeros, as on the CPU.
fn quantise(at: u32, v: vec4<f32>, thread: u32, is_inside: bool) {
    let a = abs(v);
    magnitudes[thread] = max(max(a.x, a.y), max(a.z, a.w));
    workgroupBarrier();
    let first = thread & ~7u;
    let m01 = max(magnitudes[first], magnitudes[first + 1u]);
    let m23 = max(magnitudes[first + 2u], magnitudes[first + 3u]);
    let m45 = max(magnitudes[first + 4u], magnitudes[first + 5u]);
    let m67 = max(magnitudes[first + 6u], magnitudes[first + 7u]);
    let step = max(max(m01, m23), max(m45, m67)) / 127.0;
    let is_normal = step >= 0x1p-126f && step <= 0x1.fffffep127f;
    let inverse = select(0.0, 1.0 / step, is_normal);
    let q = vec4<i32>(clamp(round(v * inverse), vec4<f32>(-127.0), vec4<f32>(127.0)));
    code_sums[thread] = q.x + q.y + q.z + q.w;
    workgroupBarrier();
    if is_inside {
        x[at] = v;
        codes[at] = pack4xI8(q);
        if thread == first {
            let low = code_sums[first] + code_sums[first + 1u] + code_sums[first + 2u] + code_sums[first + 3u];
            let high = code_sums[first + 4u] + code_sums[first + 5u] + code_sums[first + 6u] + code_sums[first + 7u];
            heads[at / 8u] = vec2<u32>(bitcast<u32>(step), u32(low & 0xffff) | (u32(high) << 16u));
        }
    }
}
