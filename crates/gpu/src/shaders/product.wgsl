var<workgroup> partial: array<f32, PARTIALS>;

// LANES threads share a row, and each thread works on ROWS rows and TOKENS tokens at once.
@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let lane = thread % LANES;
    let first = (workgroup.x * (THREADS / LANES) + thread / LANES) * ROWS;
    let token = workgroup.y * TOKENS;
    let outputs = OUTPUTS;
    #r let output_$r = min(first + $ru, outputs - 1u);
    #r let row_$r = PICK;
    #t let at_$t = min(token + $tu, batch.tokens - 1u) * GROUPS;
    #rt var acc_$r_$t = 0.0;
    // Nothing is read for rows that are not needed.
    let groups = select(0u, GROUPS, NEEDED);
    for (var group = lane; group < groups; group += LANES) {
        BODY
    }
    JOIN
    if lane == 0u {
        #rt if first + $ru < outputs GUARD && token + $tu < batch.tokens { y[(token + $tu) * STRIDE + FIRST + output_$r] = EPILOGUE; }
    }
}
