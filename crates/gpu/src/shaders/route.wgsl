// One workgroup a token: scores the experts, and chooses the best ones with their weights.
@group(0) @binding(1) var<storage, read> logits: array<f32>;
// Added to the scores for the choice.
@group(0) @binding(2) var<storage, read> bias: array<f32>;
// Factors of the weights.
@group(0) @binding(3) var<storage, read> factors: array<f32>;
// Number and weight of each chosen expert.
@group(0) @binding(4) var<storage, read_write> choice: array<vec2<u32>>;

// Ranks of experts outside the best groups, and of chosen experts.
const OUTSIDE = -3.0e38;
const CHOSEN = -3.2e38;
const NOTHING = -3.4e38;

var<workgroup> score: array<f32, EXPERTS>;
var<workgroup> rank: array<f32, EXPERTS>;
var<workgroup> group_rank: array<f32, GROUP_COUNT>;
var<workgroup> chosen: array<u32, USED>;
var<workgroup> most: array<f32, 64>;
var<workgroup> place: array<u32, 64>;

// Returns the sum of the threads' values, or the largest of them.
fn joined(value: f32, thread: u32, is_sum: bool) -> f32 {
    workgroupBarrier();
    most[thread] = value;
    for (var step = 32u; step > 0u; step >>= 1u) {
        workgroupBarrier();
        if thread < step {
            let other = most[thread + step];
            most[thread] = select(max(most[thread], other), most[thread] + other, is_sum);
        }
    }
    workgroupBarrier();
    return most[0];
}

// Sets the ranks of all experts outside the best groups. The first of equal groups is better.
fn keep_best_groups(thread: u32) {
    const LEN = EXPERTS / GROUP_COUNT;
    for (var g = thread; g < GROUP_COUNT; g += 64u) {
        var first = NOTHING;
        var second = NOTHING;
        for (var i = 0u; i < LEN; i += 1u) {
            let r = rank[g * LEN + i];
            second = max(second, min(first, r));
            first = max(first, r);
        }
        group_rank[g] = first;
        if BEST_OF_GROUP > 1u && LEN > 1u { group_rank[g] = first + second; }
    }
    workgroupBarrier();
    for (var g = thread; g < GROUP_COUNT; g += 64u) {
        var better = 0u;
        for (var other = 0u; other < GROUP_COUNT; other += 1u) {
            let is_better = group_rank[other] > group_rank[g] || (group_rank[other] == group_rank[g] && other < g);
            better += select(0u, 1u, is_better);
        }
        if better >= USED_GROUPS {
            for (var i = 0u; i < LEN; i += 1u) { rank[g * LEN + i] = OUTSIDE; }
        }
    }
    workgroupBarrier();
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let row = workgroup.x * EXPERTS;
    var peak = NOTHING;
    for (var e = thread; e < EXPERTS; e += 64u) { peak = max(peak, logits[row + e]); }
    let top = joined(peak, thread, false);
    var own = 0.0;
    for (var e = thread; e < EXPERTS; e += 64u) {
        let logit = logits[row + e];
        var value = logit;
        if SOFTMAX { value = exp(logit - top); }
        if SIGMOID { value = 1.0 / (1.0 + exp(-logit)); }
        score[e] = value;
        own += value;
    }
    if SOFTMAX {
        let sum = joined(own, thread, true);
        for (var e = thread; e < EXPERTS; e += 64u) { score[e] /= sum; }
    }
    for (var e = thread; e < EXPERTS; e += 64u) {
        rank[e] = score[e];
        if BIAS { rank[e] += bias[e]; }
    }
    workgroupBarrier();
    if GROUP_COUNT > 1u { keep_best_groups(thread); }
    for (var i = 0u; i < USED; i += 1u) {
        var best = NOTHING;
        var at = 0u;
        for (var e = thread; e < EXPERTS; e += 64u) {
            if rank[e] > best { best = rank[e]; at = e; }
        }
        most[thread] = best;
        place[thread] = at;
        for (var step = 32u; step > 0u; step >>= 1u) {
            workgroupBarrier();
            if thread < step {
                let other = most[thread + step];
                let is_first = place[thread + step] < place[thread];
                if other > most[thread] || (other == most[thread] && is_first) {
                    most[thread] = other;
                    place[thread] = place[thread + step];
                }
            }
        }
        workgroupBarrier();
        if thread == 0u {
            chosen[i] = place[0];
            rank[place[0]] = CHOSEN;
        }
        workgroupBarrier();
    }
    if thread == 0u {
        var sum = 0.0;
        for (var i = 0u; i < USED; i += 1u) {
            if OVER_CHOSEN { score[chosen[i]] = exp(score[chosen[i]] - top); }
            sum += score[chosen[i]];
        }
        var divisor = 1.0;
        if OVER_CHOSEN { divisor = sum; }
        if NORMALISED { divisor *= sum / divisor + ADDED; }
        for (var i = 0u; i < USED; i += 1u) {
            var weight = score[chosen[i]] / divisor * SCALE;
            if FACTORS { weight *= factors[chosen[i]]; }
            choice[workgroup.x * USED + i] = vec2<u32>(chosen[i], bitcast<u32>(weight));
        }
    }
}
