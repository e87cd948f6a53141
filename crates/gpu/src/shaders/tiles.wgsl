// Sorts the pairs of a token and an expert by expert, and divides the pairs of each expert into
// tiles. One workgroup.
@group(0) @binding(1) var<storage, read> choice: array<vec2<u32>>;
// Expert, first pair and number of pairs of each tile, and from PAIRS on the sorted pairs.
@group(0) @binding(2) var<storage, read_write> list: array<u32>;

// Number of pairs of each expert, and then the first of them.
var<workgroup> begin: array<u32, EXPERTS>;
// First tile of each expert.
var<workgroup> tile: array<u32, EXPERTS>;
var<workgroup> total: u32;

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) thread: u32) {
    let pairs = batch.tokens * USED;
    let load = (pairs + EXPERTS - 1u) / EXPERTS;
    var size = 1u;
    while size < load && size < 8u { size *= 2u; }
    for (var e = thread; e < EXPERTS; e += 256u) {
        var count = 0u;
        for (var p = 0u; p < pairs; p += 1u) { count += select(0u, 1u, choice[p].x == e); }
        begin[e] = count;
    }
    workgroupBarrier();
    if thread == 0u {
        var first = 0u;
        var tiles = 0u;
        for (var e = 0u; e < EXPERTS; e += 1u) {
            let count = begin[e];
            begin[e] = first;
            tile[e] = tiles;
            first += count;
            tiles += (count + size - 1u) / size;
        }
        total = tiles;
    }
    workgroupBarrier();
    for (var e = thread; e < EXPERTS; e += 256u) {
        var end = begin[e];
        for (var p = 0u; p < pairs; p += 1u) {
            if choice[p].x == e { list[PAIRS + end] = p; end += 1u; }
        }
        var at = 3u * tile[e];
        for (var first = begin[e]; first < end; first += size) {
            list[at] = e;
            list[at + 1u] = first;
            list[at + 2u] = min(size, end - first);
            at += 3u;
        }
    }
    // Tiles beyond the last have no pairs.
    let tiles = min(pairs, EXPERTS + pairs / size);
    for (var at = 3u * (total + thread); at < 3u * tiles; at += 768u) {
        list[at] = 0u;
        list[at + 1u] = 0u;
        list[at + 2u] = 0u;
    }
}
