var<workgroup> partial: array<f32, PARTIALS>;

// As the product of all rows, for the pairs of a token and one of its experts. A workgroup has one
// tile: some pairs of one expert. `list` has the expert, the first pair and the number of pairs of
// each tile, and then the pairs, sorted by expert.
@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let lane = thread % LANES;
    let first = (workgroup.x * (THREADS / LANES) + thread / LANES) * ROWS;
    let expert = list[3u * workgroup.y];
    let begin = list[3u * workgroup.y + 1u];
    let count = list[3u * workgroup.y + 2u];
    #r let output_$r = min(first + $ru, OUTPUTS - 1u);
    // Rows of other parts are computed by other steps.
    #r let place_$r = expert * OUTPUTS + output_$r - ABSENT;
    #r let row_$r = min(place_$r, LAST);
    #t let pair_$t = list[PAIRS + begin + min($tu, max(count, 1u) - 1u)];
    #t let at_$t = pair_$t / SHARING * GROUPS;
    #rt var acc_$r_$t = 0.0;
    // Nothing is read for rows that are not needed.
    let groups = select(0u, GROUPS, count > 0u && first < OUTPUTS && (NEEDED));
    for (var group = lane; group < groups; group += LANES) {
        BODY
    }
    JOIN
    if lane == 0u {
        #rt if first + $ru < OUTPUTS && place_$r <= LAST && $tu < count { y[pair_$t * STRIDE + FIRST + output_$r] = EPILOGUE; }
    }
}
