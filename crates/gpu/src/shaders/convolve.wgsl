// Causal convolution of each channel over the last tokens. A thread has a channel of a segment.
@group(0) @binding(2) var<storage, read> x: array<f32>;
// Factors of the tokens, oldest first.
@group(0) @binding(3) var<storage, read> factors: array<f32>;
@group(0) @binding(4) var<storage, read> bias: array<f32>;
// Inputs of the last tokens, oldest first.
@group(0) @binding(5) var<storage, read_write> state: array<f32>;
@group(0) @binding(6) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let channel = workgroup.x * 64u + thread;
    if channel >= CHANNELS { return; }
    let segment = segments[workgroup.y];
    var factor: array<f32, KERNEL>;
    for (var i = 0u; i < KERNEL; i += 1u) { factor[i] = factors[i * CHANNELS + channel]; }
    var inputs: array<f32, KERNEL>;
    for (var i = 0u; i < KERNEL - 1u; i += 1u) {
        inputs[i] = 0.0;
        if segment.before != NOWHERE {
            inputs[i] = state[(segment.before * (KERNEL - 1u) + i) * CHANNELS + channel];
        }
    }
    for (var token = segment.first; token < segment.first + segment.count; token += 1u) {
        let row = token * STRIDE;
        var input = x[row + INPUT + channel];
        if GATED { input *= x[row + channel]; }
        inputs[KERNEL - 1u] = input;
        var sum = 0.0;
        if BIAS { sum = bias[channel]; }
        for (var i = 0u; i < KERNEL; i += 1u) { sum = fma(factor[i], inputs[i], sum); }
        for (var i = 0u; i < KERNEL - 1u; i += 1u) { inputs[i] = inputs[i + 1u]; }
        if GATED { sum *= x[row + CHANNELS + channel]; } else { sum /= 1.0 + exp(-sum); }
        y[token * CHANNELS + channel] = sum;
    }
    for (var i = 0u; i < KERNEL - 1u; i += 1u) {
        state[(segment.after * (KERNEL - 1u) + i) * CHANNELS + channel] = inputs[i];
    }
}
