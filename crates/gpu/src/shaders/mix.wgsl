// Adds the weighted outputs of a token's experts, and the output of the shared expert.
@group(0) @binding(1) var<storage, read> choice: array<vec2<u32>>;
// Outputs of the pairs of a token and an expert.
@group(0) @binding(2) var<storage, read> routed: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> shared_output: array<vec4<f32>>;
// Logit of the factor of the shared expert.
@group(0) @binding(4) var<storage, read> shared_gate: array<f32>;
@group(0) @binding(5) var<storage, read_write> y: array<vec4<f32>>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let at = workgroup.x * 64u + thread;
    if at >= VECTORS { return; }
    let token = workgroup.y;
    var sum = vec4<f32>(0.0);
    if ROUTED {
        for (var i = token * USED; i < token * USED + USED; i += 1u) {
            sum = fma(vec4<f32>(bitcast<f32>(choice[i].y)), routed[i * VECTORS + at], sum);
        }
    } else {
        sum = y[token * VECTORS + at];
    }
    if SHARED {
        var factor = 1.0;
        if GATED { factor = 1.0 / (1.0 + exp(-shared_gate[token])); }
        sum = fma(vec4<f32>(factor), shared_output[token * VECTORS + at], sum);
    }
    y[token * VECTORS + at] = sum;
}
