// A row of a panel has 16 vectors of two groups, and two that keep neighbouring rows in different banks.
var<workgroup> w_part: array<vec4<f16>, 1152>;
var<workgroup> x_part: array<vec4<f16>, 1152>;
// A block of results of each subgroup.
var<workgroup> results: array<f32, RESULTS>;
// Power of two by which the activations of each token are divided, so that they fit 16 bits.
var<workgroup> factors: array<f32, 64>;

fn write(result: f32, output: u32, token: u32) {
    if output < OUTPUTS && token < batch.tokens { y[token * STRIDE + FIRST + output] = EPILOGUE; }
}

// 64 rows and 64 tokens a workgroup of four subgroups. A subgroup has 32 of each, in blocks of SIZE.
@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
    @builtin(subgroup_id) subgroup: u32,
) {
    let first_row = workgroup.x * 64u;
    let first_token = workgroup.y * 64u;
    let own_row = (subgroup & 1u) * 32u;
    let own_token = (subgroup >> 1u) * 32u;
    // Two parts of the groups of each token.
    for (var i = thread; i < 128u; i += THREADS) {
        let first_group = min(first_token + (i & 63u), batch.tokens - 1u) * GROUPS;
        // Floats that are not negative compare like their bits.
        var most = 0u;
        for (var group = i >> 6u; group < GROUPS; group += 2u) { most = max(most, heads[first_group + group].x); }
        results[i] = bitcast<f32>(most);
    }
    workgroupBarrier();
    for (var i = thread; i < 64u; i += THREADS) {
        let most = bitcast<u32>(max(results[i], results[i + 64u]));
        factors[i] = bitcast<f32>(clamp(most >> 23u, 1u, 253u) << 23u);
    }
    workgroupBarrier();
    #rt var acc_$r_$t = coop_matSIZExSIZE<f32, C>();
    for (var start = 0u; start < GROUPS; start += 2u) {
        for (var i = thread; i < 128u; i += THREADS) {
            let place = i & 63u;
            let group = start + (i >> 6u);
            let at = place * 18u + (i >> 6u) * 8u;
            // Groups beyond the last add zeros.
            #q var w_$q = vec4<f16>();
            #q var x_$q = vec4<f16>();
            if group < GROUPS {
                let weights = values(min(first_row + place, OUTPUTS - 1u), group);
                #q w_$q = vec4<f16>(weights[$q]);
                let x_group = min(first_token + place, batch.tokens - 1u) * GROUPS + group;
                let low = x[x_group * 2u];
                let high = x[x_group * 2u + 1u];
                let words = array<u32, 8>(low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w);
                // The reciprocal of the power of two.
                let factor = bitcast<f32>(0x7f000000u - bitcast<u32>(factors[place]));
                let step = bitcast<f32>(heads[x_group].x) * factor;
                #q x_$q = vec4<f16>(vec4<f32>(unpack4xI8(words[$q])) * step);
            }
            #q w_part[at + $qu] = w_$q;
            #q x_part[at + $qu] = x_$q;
        }
        workgroupBarrier();
        for (var k = 0u; k < 16u; k += SIZEu / 4u) {
            #r let a_$r = coopLoadT<coop_matSIZExSIZE<f16, A>>(&w_part[(own_row + SIZEu * $ru) * 18u + k], 18u);
            #t let b_$t = coopLoad<coop_matSIZExSIZE<f16, B>>(&x_part[(own_token + SIZEu * $tu) * 18u + k], 18u);
            #rt acc_$r_$t = coopMultiplyAdd(a_$r, b_$t, acc_$r_$t);
        }
        workgroupBarrier();
    }
    #begin r
    #t coopStore(acc_$r_$t, &results[subgroup * SQUARE], SIZEu); workgroupBarrier(); write_block(vec2<u32>(first_row, first_token), vec2<u32>($ru, $tu), thread); workgroupBarrier();
    #end
}

// Writes the blocks of all subgroups that have these numbers within a subgroup.
fn write_block(first: vec2<u32>, block: vec2<u32>, thread: u32) {
    for (var i = thread; i < RESULTS; i += THREADS) {
        let subgroup = i / SQUARE;
        let row = (subgroup & 1u) * 32u + block.x * SIZEu + i % SIZEu;
        let token = (subgroup >> 1u) * 32u + block.y * SIZEu + i / SIZEu % SIZEu;
        write(results[i] * factors[token], first.x + row, first.y + token);
    }
}
