struct Batch { tokens: u32, rows: u32, unused: vec2<u32> }
@group(0) @binding(0) var<uniform> batch: Batch;
