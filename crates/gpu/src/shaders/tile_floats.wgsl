// A pitch of 65 vectors keeps neighbouring rows in different banks.
var<workgroup> w_part: array<vec4<f32>, 520>;
var<workgroup> x_part: array<vec4<f32>, 520>;

// 64 rows and 64 tokens a workgroup; a thread has four of each. One group at a time is in workgroup
// memory, and each product adds the groups in order.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let first_row = workgroup.x * 64u;
    let first_token = workgroup.y * 64u;
    let own_row = thread / 16u;
    let own_token = thread % 16u;
    #rt var acc_$r_$t = 0.0;
    for (var group = 0u; group < GROUPS; group += 1u) {
        for (var i = thread; i < 512u; i += 256u) {
            let q = i & 7u;
            let row = min(first_row + (i >> 3u), OUTPUTS - 1u);
            let token = min(first_token + (i >> 3u), batch.tokens - 1u);
            w_part[q * 65u + (i >> 3u)] = vector(row, group, q);
            x_part[q * 65u + (i >> 3u)] = x[(token * GROUPS + group) * 8u + q];
        }
        workgroupBarrier();
        for (var q = 0u; q < 8u; q += 1u) {
            #t let x_$t = x_part[q * 65u + own_token + 16u * $tu];
            #r let w_$r = w_part[q * 65u + own_row + 16u * $ru];
            #rt acc_$r_$t = fma(w_$r.x, x_$t.x, fma(w_$r.y, x_$t.y, acc_$r_$t));
            #rt acc_$r_$t = fma(w_$r.z, x_$t.z, fma(w_$r.w, x_$t.w, acc_$r_$t));
        }
        workgroupBarrier();
    }
    #begin r
    let output_$r = first_row + own_row + 16u * $ru;
    if output_$r < OUTPUTS {
        #t if first_token + own_token + 16u * $tu < batch.tokens { y[(first_token + own_token + 16u * $tu) * STRIDE + FIRST + output_$r] = EPILOGUE; }
    }
    #end
}
