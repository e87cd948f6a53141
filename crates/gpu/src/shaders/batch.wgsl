struct Batch { tokens: u32, rows: u32, items: u32, unused: u32 }
@group(0) @binding(0) var<uniform> batch: Batch;
