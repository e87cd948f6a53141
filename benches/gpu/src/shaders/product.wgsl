// y = W x for TOKENS columns; LANES threads share a row, and each thread works on ROWS rows at once.
struct Shape { k: u32, rows: u32, outputs: u32, unused: u32 }

@group(0) @binding(0) var<uniform> shape: Shape;
@group(0) @binding(1) var<storage, read> weights: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> words: array<u32>;
@group(0) @binding(3) var<storage, read> x: array<X_TYPE>;
// A step (f32) and a sum of codes (i32) for each 16 codes.
@group(0) @binding(4) var<storage, read> heads: array<vec2<u32>>;
@group(0) @binding(5) var<storage, read> list: array<u32>;
@group(0) @binding(6) var<storage, read_write> y: array<f32>;

var<workgroup> partial: array<f32, PARTIALS>;

// Returns the scales, then the minima, of groups 2 * pair and 2 * pair + 1 of a Q4_K block.
fn scales(head: vec4<u32>, pair: u32) -> vec4<u32> {
    let words = head.yzw >> vec3<u32>((pair & 1u) * 16u);
    let near = words.xy & vec2<u32>(0x3f3fu);
    let nibbles = vec2<u32>(words.z, words.z >> 4u) & vec2<u32>(0x0f0fu);
    let far = nibbles | ((words.xy & vec2<u32>(0xc0c0u)) >> vec2<u32>(2u));
    let both = select(far, near, pair < 2u);
    return vec4<u32>(both.x & 0xffu, both.x >> 8u, both.y & 0xffu, both.y >> 8u) & vec4<u32>(0xffu);
}

// Returns the matrix row of an output.
fn pick(output: u32) -> u32 { return PICK; }

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let lane = thread % LANES;
    let first = (workgroup.x * (THREADS / LANES) + thread / LANES) * ROWS;
    #r let row_$r = pick(min(first + $ru, shape.outputs - 1u));
    #r let base_$r = row_$r * STRIDE;
    #rt var acc_$r_$t = 0.0;
    for (var unit = lane; unit < shape.k / UNIT; unit += LANES) {
        BODY
    }
    JOIN
    if lane == 0u {
        #rt if first + $ru < shape.outputs { y[$tu * shape.outputs + first + $ru] = sum_$r_$t; }
    }
}
