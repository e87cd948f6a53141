var<workgroup> w_low: array<vec4<u32>, 128>;
var<workgroup> w_high: array<vec4<u32>, 128>;
var<workgroup> w_scales: array<vec4<f32>, 128>;
var<workgroup> x_low: array<vec4<u32>, 128>;
var<workgroup> x_high: array<vec4<u32>, 128>;
var<workgroup> x_heads: array<vec2<u32>, 128>;

// 64 rows and 64 tokens a workgroup; a thread has four of each. Two groups at a time are in workgroup
// memory, and each product adds the groups in order.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let first_row = workgroup.x * 64u;
    let first_token = workgroup.y * 64u;
    let own_row = thread / 16u;
    let own_token = thread % 16u;
    let place = thread & 127u;
    let row = min(first_row + (place & 63u), OUTPUTS - 1u);
    let token = min(first_token + (place & 63u), batch.tokens - 1u);
    #rt var acc_$r_$t = 0.0;
    for (var start = 0u; start < GROUPS; start += 2u) {
        let group = start + (place >> 6u);
        if thread < 128u {
            // Groups beyond the last add zeros.
            w_scales[place] = vec4<f32>(0.0);
            w_low[place] = vec4<u32>(0u);
            w_high[place] = vec4<u32>(0u);
            if group < GROUPS {
                let c = codes(row * GROUPS + group);
                w_low[place] = c.low;
                w_high[place] = c.high;
                w_scales[place] = scales(row, group);
            }
        } else {
            x_low[place] = vec4<u32>(0u);
            x_high[place] = vec4<u32>(0u);
            x_heads[place] = vec2<u32>(0u);
            if group < GROUPS {
                let at = token * GROUPS + group;
                x_low[place] = x[at * 2u];
                x_high[place] = x[at * 2u + 1u];
                x_heads[place] = heads[at];
            }
        }
        workgroupBarrier();
        for (var part = 0u; part < 128u; part += 64u) {
            #t let x0_$t = x_low[part + own_token + 16u * $tu];
            #t let x1_$t = x_high[part + own_token + 16u * $tu];
            #t let head_$t = x_heads[part + own_token + 16u * $tu];
            #t let step_$t = bitcast<f32>(head_$t.x);
            #t let low_sum_$t = bitcast<i32>(head_$t.y << 16u) >> 16u;
            #t let high_sum_$t = bitcast<i32>(head_$t.y) >> 16u;
            #r let codes_$r = Codes(w_low[part + own_row + 16u * $ru], w_high[part + own_row + 16u * $ru]);
            #r let s_$r = w_scales[part + own_row + 16u * $ru];
            BODY
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
