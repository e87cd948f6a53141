// Copies eight vectors a thread, or only reads them.
struct Shape { stride: u32, magic: u32, unused0: u32, unused1: u32 }
@group(0) @binding(0) var<uniform> shape: Shape;
@group(0) @binding(1) var<storage, read> a: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> b: array<vec4<u32>>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let at = workgroup.x * 2048u + thread;
    let v0 = a[at]; let v1 = a[at + 256u]; let v2 = a[at + 512u]; let v3 = a[at + 768u];
    let v4 = a[at + 1024u]; let v5 = a[at + 1280u]; let v6 = a[at + 1536u]; let v7 = a[at + 1792u];
    WRITE
}
