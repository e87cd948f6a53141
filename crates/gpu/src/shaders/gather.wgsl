// Copies rows of the residual stream.
@group(0) @binding(1) var<storage, read> rows: array<u32>;
@group(0) @binding(2) var<storage, read> stream: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> gathered: array<vec4<f32>>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let at = workgroup.x * 64u + thread;
    if at < VECTORS { gathered[workgroup.y * VECTORS + at] = stream[rows[workgroup.y] * VECTORS + at]; }
}
