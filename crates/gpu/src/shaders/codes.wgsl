// Reads groups of 32 weights. The constants MORE_TYPE and SCALE_TYPE are the types of the planes.
struct Batch { tokens: u32, rows: u32, unused: vec2<u32> }
@group(0) @binding(0) var<uniform> batch: Batch;
@group(0) @binding(1) var<storage, read> plane: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> more: array<MORE_TYPE>;
@group(0) @binding(3) var<storage, read> scale_plane: array<SCALE_TYPE>;

const LOW = vec4<u32>(0x0f0f0f0fu);

struct Codes { low: vec4<u32>, high: vec4<u32> }
