// Attention of some query heads of some tokens of a sequence, which share a head of keys and values.
// An item names the tokens and the positions.
struct Item {
    // First token of the pass, number of tokens, position of the first.
    token: u32, count: u32, position: u32,
    // Index of the sequence's first block in `table`.
    table: u32,
    // Positions, from a multiple of 64.
    begin: u32, end: u32,
    // Row of `sums` and `stats` for the first token.
    row: u32,
    unused: u32,
}
@group(0) @binding(1) var<storage, read> items: array<Item>;
@group(0) @binding(2) var<storage, read> table: array<u32>;
@group(0) @binding(3) var<storage, read> queries: array<vec2<f32>>;
@group(0) @binding(4) var<storage, read> keys: array<PAIR>;
@group(0) @binding(5) var<storage, read> values: array<PAIR>;
@group(0) @binding(6) var<storage, read_write> sums: array<vec2<f32>>;
// Largest score, and sum of exponentials.
@group(0) @binding(7) var<storage, read_write> stats: array<vec2<f32>>;

const PAIRS = DIM / 2u;
const NOTHING = -3.0e38;
var<workgroup> query: array<vec2<f32>, QUERIES * PAIRS>;
var<workgroup> scores: array<f32, QUERIES * SPAN>;
var<workgroup> tree: array<f32, QUERIES * 64u>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let item = items[workgroup.x];
    let kv_head = workgroup.y / CHUNKS;
    let first_head = kv_head * GROUP + (workgroup.y % CHUNKS) * QUERY_HEADS;
    for (var i = thread; i < QUERIES * PAIRS; i += 64u) {
        let q = i / PAIRS;
        let token = item.token + min(q / QUERY_HEADS, item.count - 1u);
        query[i] = queries[(token * HEADS + first_head + q % QUERY_HEADS) * PAIRS + i % PAIRS];
    }
    #q var most_$q = NOTHING;
    #q var sum_$q = 0.0;
    #qd var all_$q_$d = vec2<f32>(0.0);
    for (var start = item.begin; start < item.end; start += SPAN) {
        let len = min(SPAN, item.end - start);
        workgroupBarrier();
        #q var peak_$q = NOTHING;
        for (var b = 0u; b < len; b += 64u) {
            let at = b + thread;
            let p = start + at;
            // Positions beyond the last are in the block, and masked.
            let base = (table[item.table + (start + b) / 64u] * KV_HEADS + kv_head) * PAIRS * 64u + thread;
            #q var dot_$q = 0.0;
            for (var d = 0u; d < PAIRS; d += UNROLLED) {
                #u let k_$u = LOAD(keys[base + (d + $uu) * 64u]);
                #uq dot_$q = fma(query[$qu * PAIRS + d + $uu].x, k_$u.x, fma(query[$qu * PAIRS + d + $uu].y, k_$u.y, dot_$q));
            }
            #begin q
            let token_$q = $qu / QUERY_HEADS;
            // A window moves with the token, except at the beginning.
            let seen_$q = SEEN;
            let is_seen_$q = at < len && p <= item.position + token_$q && p >= seen_$q;
            let score_$q = select(NOTHING, CAP(dot_$q), is_seen_$q);
            scores[$qu * SPAN + at] = score_$q;
            peak_$q = max(peak_$q, score_$q);
            #end
        }
        #q tree[$qu * 64u + thread] = peak_$q;
        for (var step = 32u; step > 0u; step >>= 1u) {
            workgroupBarrier();
            if thread < step {
                #q tree[$qu * 64u + thread] = max(tree[$qu * 64u + thread], tree[$qu * 64u + thread + step]);
            }
        }
        workgroupBarrier();
        #q let top_$q = tree[$qu * 64u];
        workgroupBarrier();
        #q var weights_$q = 0.0;
        for (var at = thread; at < len; at += 64u) {
            #begin q
            let score_$q = scores[$qu * SPAN + at];
            let weight_$q = select(exp(score_$q - top_$q), 0.0, score_$q == NOTHING);
            scores[$qu * SPAN + at] = weight_$q;
            weights_$q += weight_$q;
            #end
        }
        #q tree[$qu * 64u + thread] = weights_$q;
        for (var step = 32u; step > 0u; step >>= 1u) {
            workgroupBarrier();
            if thread < step {
                #q tree[$qu * 64u + thread] += tree[$qu * 64u + thread + step];
            }
        }
        workgroupBarrier();
        #qd var acc_$q_$d = vec2<f32>(0.0);
        for (var b = 0u; b < len; b += 64u) {
            let count = min(64u, len - b);
            let base = (table[item.table + (start + b) / 64u] * KV_HEADS + kv_head) * 64u * PAIRS;
            #d let pair_$d = base + min(thread + 64u * $du, PAIRS - 1u);
            var i = 0u;
            for (; i + 8u <= count; i += 8u) {
                #vd let v_$v_$d = LOAD(values[pair_$d + (i + $vu) * PAIRS]);
                #vqd acc_$q_$d = fma(vec2<f32>(scores[$qu * SPAN + b + i + $vu]), v_$v_$d, acc_$q_$d);
            }
            for (; i < count; i += 1u) {
                #d let v_$d = LOAD(values[pair_$d + i * PAIRS]);
                #qd acc_$q_$d = fma(vec2<f32>(scores[$qu * SPAN + b + i]), v_$d, acc_$q_$d);
            }
        }
        // Joins the span with those before it, as `combine` does.
        #begin q
        let new_$q = max(most_$q, top_$q);
        let old_$q = select(exp(most_$q - new_$q), 0.0, most_$q == NOTHING);
        let own_$q = select(exp(top_$q - new_$q), 0.0, top_$q == NOTHING);
        sum_$q = fma(sum_$q, old_$q, tree[$qu * 64u] * own_$q);
        #d all_$q_$d = fma(all_$q_$d, vec2<f32>(old_$q), acc_$q_$d * own_$q);
        most_$q = new_$q;
        #end
    }
    #begin q
    if $qu / QUERY_HEADS < item.count {
        let row = (item.row + $qu / QUERY_HEADS) * HEADS + first_head + $qu % QUERY_HEADS;
        if thread == 0u { stats[row] = vec2<f32>(most_$q, sum_$q); }
        #d if thread + 64u * $du < PAIRS { sums[row * PAIRS + thread + 64u * $du] = all_$q_$d; }
    }
    #end
}
