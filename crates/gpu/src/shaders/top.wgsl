// The likeliest tokens of rows of logits, in three steps. A workgroup has a part of a row. STEP is
// 0: the largest logit of the part;
// 1: the number of logits in each bin, a quarter wide, below the largest of the row;
// 2: the tokens of the first bins, which have at most MOST together, and the sum of the others' weights.
@group(0) @binding(0) var<storage, read> logits: array<u32>;
// For each row, 1 / temperature, and 1 if the row has a mask.
@group(0) @binding(1) var<storage, read> settings: array<vec2<u32>>;
@group(0) @binding(2) var<storage, read> masks: array<u32>;
@group(0) @binding(3) var<storage, read_write> peaks: array<f32>;
@group(0) @binding(4) var<storage, read_write> bins: array<atomic<u32>>;
// For each row, the number of tokens, the sum of each part, and the tokens with their logits.
@group(0) @binding(5) var<storage, read_write> result: array<atomic<u32>>;

// A row without finite logits, and a row with infinity or NaN.
const NOTHING: f32 = -3.4e38;
const INVALID: f32 = 3.4e38;

var<workgroup> values: array<f32, 256>;
var<workgroup> counts: array<atomic<u32>, BINS>;
var<workgroup> used: u32;

// Joins the values of all threads: their largest, or their sum.
fn join(thread: u32, is_sum: bool) -> f32 {
    for (var step = 128u; step > 0u; step >>= 1u) {
        workgroupBarrier();
        if thread < step {
            let other = values[thread + step];
            values[thread] = select(max(values[thread], other), values[thread] + other, is_sum);
        }
    }
    workgroupBarrier();
    return values[0];
}

fn is_allowed(row: u32, token: u32) -> bool {
    if token >= COUNT { return false; }
    if settings[row].y == 0u { return true; }
    return ((masks[row * WORDS + (token >> 5u)] >> (token & 31u)) & 1u) == 1u;
}

fn largest_of_part(row: u32, part: u32, thread: u32) {
    var most = NOTHING;
    for (var i = thread; i < PART; i += 256u) {
        let token = part * PART + i;
        if is_allowed(row, token) {
            let bits = logits[row * COUNT + token];
            if (bits & 0x7f800000u) != 0x7f800000u { most = max(most, bitcast<f32>(bits)); }
            else if bits != 0xff800000u { most = INVALID; }
        }
    }
    values[thread] = most;
    most = join(thread, false);
    if thread == 0u { peaks[row * PARTS + part] = most; }
    if part == 0u {
        if thread < BINS { atomicStore(&bins[row * BINS + thread], 0u); }
        if thread == BINS { atomicStore(&result[row * STRIDE], 0u); }
    }
}

fn largest_of_row(row: u32, thread: u32) -> f32 {
    var most = NOTHING;
    for (var part = thread; part < PARTS; part += 256u) { most = max(most, peaks[row * PARTS + part]); }
    values[thread] = most;
    most = join(thread, false);
    workgroupBarrier();
    return most;
}

// Returns the bin of a finite logit, and a large number if there is none.
fn bin(most: f32, logit: f32) -> u32 {
    if most == INVALID { return 1000u; }
    return u32(min((most - logit) * 4.0, 1000.0));
}

fn count_bins(row: u32, part: u32, thread: u32) {
    if thread < BINS { atomicStore(&counts[thread], 0u); }
    let most = largest_of_row(row, thread);
    for (var i = thread; i < PART; i += 256u) {
        let token = part * PART + i;
        if is_allowed(row, token) {
            let bits = logits[row * COUNT + token];
            if (bits & 0x7f800000u) != 0x7f800000u {
                let at = bin(most, bitcast<f32>(bits));
                if at < BINS { atomicAdd(&counts[at], 1u); }
            }
        }
    }
    workgroupBarrier();
    if thread < BINS {
        let count = atomicLoad(&counts[thread]);
        if count > 0u { atomicAdd(&bins[row * BINS + thread], count); }
    }
}

fn capped(logit: f32) -> f32 {
    // The language allows large errors of its `tanh`.
    if CAPPED { return CAP - 2.0 * CAP / (exp(2.0 / CAP * logit) + 1.0); }
    return logit;
}

fn collect(row: u32, part: u32, thread: u32) {
    if thread < BINS { atomicStore(&counts[thread], atomicLoad(&bins[row * BINS + thread])); }
    let most = largest_of_row(row, thread);
    if thread == 0u {
        var sum = 0u;
        used = 0u;
        for (var at = 0u; at < BINS; at++) {
            sum += atomicLoad(&counts[at]);
            if sum <= MOST { used = at + 1u; }
        }
    }
    workgroupBarrier();
    let limit = used;
    let inverse = bitcast<f32>(settings[row].x);
    var rest = 0.0;
    for (var i = thread; i < PART; i += 256u) {
        let token = part * PART + i;
        if is_allowed(row, token) {
            let bits = logits[row * COUNT + token];
            if (bits & 0x7f800000u) != 0x7f800000u {
                let logit = bitcast<f32>(bits);
                if bin(most, logit) < limit {
                    let at = row * STRIDE + 1u + PARTS + 2u * atomicAdd(&result[row * STRIDE], 1u);
                    atomicStore(&result[at], token);
                    atomicStore(&result[at + 1u], bits);
                } else {
                    rest += exp((capped(logit) - capped(most)) * inverse);
                }
            }
        }
    }
    values[thread] = rest;
    rest = join(thread, true);
    if thread == 0u { atomicStore(&result[row * STRIDE + 1u + part], bitcast<u32>(rest)); }
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    if STEP == 0u { largest_of_part(workgroup.y, workgroup.x, thread); }
    if STEP == 1u { count_bins(workgroup.y, workgroup.x, thread); }
    if STEP == 2u { collect(workgroup.y, workgroup.x, thread); }
}
