/// Bounds on what a grammar may cost. Exceeding one is an error that gives both figures, never a silent relaxation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes of grammar source.
    pub source_bytes: usize,
    /// Depth of nesting in the source: groups, subschemas.
    pub nesting: usize,
    /// States of all automata of a compiled grammar, counted loops unrolled.
    pub states: usize,
    /// Steps of work of one compilation, about ten nanoseconds each, all stages together.
    pub work: usize,
    /// Bytes of memory that one compilation may hold, all stages together.
    pub bytes: usize,
    /// Bytes of the shortest output, and of the shortest way out of any place of a context-free grammar.
    pub shortest_bytes: usize,
    /// Bytes of configurations and masks that one generation of a constraint's caches may hold before a new one starts.
    pub cache_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            source_bytes: 4 << 20,
            nesting: 256,
            states: 1 << 18,
            work: 2 << 24,
            bytes: 192 << 20,
            shortest_bytes: 1 << 16,
            cache_bytes: 256 << 20,
        }
    }
}
