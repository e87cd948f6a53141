// The largest of 2,048 values of a token, its first place, and the number of equal ones.
@group(0) @binding(1) var<storage, read> y: array<f32>;
@group(0) @binding(2) var<storage, read_write> best: array<vec4<u32>>;

var<workgroup> value: array<f32, 256>;
var<workgroup> place: array<u32, 256>;
var<workgroup> equal: array<u32, 256>;

// Joins two ranges, of which the first has the lower places.
fn join(low: u32, high: u32) {
    let is_equal = value[low] == value[high];
    if value[high] > value[low] {
        value[low] = value[high]; place[low] = place[high]; equal[low] = equal[high];
    } else if is_equal {
        place[low] = min(place[low], place[high]); equal[low] += equal[high];
    }
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let count = COUNT;
    let first = workgroup.x * 2048u;
    var most = -3.4e38; var at = 0u; var same = 0u;
    for (var i = thread; i < 2048u; i += 256u) {
        if first + i < count {
            let v = y[workgroup.y * COUNT + first + i];
            if v > most { most = v; at = first + i; same = 1u; }
            else if v == most { same += 1u; }
        }
    }
    value[thread] = most; place[thread] = at; equal[thread] = same;
    for (var step = 128u; step > 0u; step >>= 1u) {
        workgroupBarrier();
        if thread < step { join(thread, thread + step); }
    }
    if thread == 0u {
        best[workgroup.y * PARTS + workgroup.x] = vec4<u32>(bitcast<u32>(value[0]), place[0], equal[0], 0u);
    }
}
