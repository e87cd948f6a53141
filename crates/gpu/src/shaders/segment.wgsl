// Tokens of a sequence in the pass, and the slots of the states before and after them.
struct Segment { first: u32, count: u32, before: u32, after: u32 }
@group(0) @binding(1) var<storage, read> segments: array<Segment>;
// Slot of the state before the first token of a sequence, which has zeros.
const NOWHERE = 0xffffffffu;
