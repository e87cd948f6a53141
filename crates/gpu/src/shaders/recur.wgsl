// Linear recurrence of a head: for each token, S = decay * S + key * change, and the output is the
// product of S and the query. A thread has a column of the state of a segment.
// Queries, keys and values, after the convolution.
@group(0) @binding(2) var<storage, read> x: array<f32>;
// The block's projections, among them rates and time steps.
@group(0) @binding(3) var<storage, read> mixed: array<f32>;
// Bias of the time step, and growth in a time step of 1, of each head.
@group(0) @binding(4) var<storage, read> heads: array<vec2<f32>>;
// Vectors of four rows.
@group(0) @binding(5) var<storage, read_write> state: array<vec4<f32>>;
@group(0) @binding(6) var<storage, read_write> y: array<f32>;

var<workgroup> key: array<vec4<f32>, QUADS>;
var<workgroup> query: array<vec4<f32>, QUADS>;
var<workgroup> squares: array<vec2<f32>, 64>;

fn load(at: u32) -> vec4<f32> { return vec4<f32>(x[at], x[at + 1u], x[at + 2u], x[at + 3u]); }

fn softplus(v: f32) -> f32 {
    let e = exp(min(v, 20.0));
    // The logarithm of 1 + e is exact for a small e only as a series.
    let small = e * (1.0 - e * (0.5 - e * (0.33333334 - e * 0.25)));
    return select(select(log(1.0 + e), small, e < 0.03), v, v > 20.0);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let head = workgroup.x / CHUNKS;
    let column = workgroup.x % CHUNKS * 64u + thread;
    let used = min(column, COLUMNS - 1u);
    let segment = segments[workgroup.y];
    #r var s_$r = vec4<f32>(0.0);
    if segment.before != NOWHERE {
        let before = (segment.before * HEADS + head) * QUADS * COLUMNS + used;
        #r s_$r = state[before + $ru * COLUMNS];
    }
    for (var token = segment.first; token < segment.first + segment.count; token += 1u) {
        let row = token * STRIDE;
        workgroupBarrier();
        var square = vec2<f32>(0.0);
        for (var i = thread; i < QUADS; i += 64u) {
            let q = load(row + QUERIES + SHARED_HEAD * ROWS + 4u * i);
            let k = load(row + KEYS + SHARED_HEAD * ROWS + 4u * i);
            query[i] = q;
            key[i] = k;
            square += vec2<f32>(dot(q, q), dot(k, k));
        }
        var factor = vec2<f32>(1.0);
        if DELTA {
            squares[thread] = square;
            for (var step = 32u; step > 0u; step >>= 1u) {
                workgroupBarrier();
                if thread < step { squares[thread] += squares[thread + step]; }
            }
            workgroupBarrier();
            factor = inverseSqrt(squares[0] + 1e-6) * vec2<f32>(QUERY_SCALE, 1.0);
        }
        workgroupBarrier();
        let value = x[row + VALUES + head * COLUMNS + used];
        var time = softplus(mixed[token * MIXED + TIMES + head] + heads[head].x);
        if !DELTA { time = clamp(time, LEAST, MOST); }
        let decay = exp(heads[head].y * time);
        var change = value * time;
        if DELTA {
            var sum = vec4<f32>(0.0);
            #r sum = fma(s_$r, key[$r], sum);
            let stored = ((sum.x + sum.y) + (sum.z + sum.w)) * factor.y;
            let rate = 1.0 / (1.0 + exp(-mixed[token * MIXED + RATES + head]));
            change = rate * (value - decay * stored);
        }
        let added = vec4<f32>(change * factor.y);
        var out = vec4<f32>(0.0);
        #begin r
        s_$r = fma(vec4<f32>(decay), s_$r, key[$r] * added);
        out = fma(s_$r, query[$r], out);
        #end
        if column < COLUMNS {
            y[token * (HEADS * COLUMNS) + head * COLUMNS + column] = ((out.x + out.y) + (out.z + out.w)) * factor.x;
        }
    }
    if column < COLUMNS {
        let after = (segment.after * HEADS + head) * QUADS * COLUMNS + column;
        #r state[after + $ru * COLUMNS] = s_$r;
    }
}
