/// Bounds on the cost of a grammar.
///
/// A grammar that exceeds a limit is refused with an error. The error has the required amount and
/// the limit. A grammar is never relaxed to stay within a limit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Maximum size of a GBNF, Lark or regular expression source, in bytes. The default is 4 MiB. Regular
    /// expressions are also limited to 128 KiB.
    pub source_bytes: usize,
    /// Maximum nesting depth in the source, for example of groups and subschemas. The default is 256.
    pub nesting: usize,
    /// Maximum number of automaton states of a compiled grammar. Each copy of a counted repetition
    /// has states of its own. The default is 262,144.
    pub states: usize,
    /// Maximum work of one compilation, in steps of about 10 ns, over all stages. The default is
    /// 33,554,432 steps.
    pub work: usize,
    /// Maximum memory that one compilation may hold, in bytes, over all stages. The default is 192
    /// MiB.
    pub bytes: usize,
    /// Maximum length of the shortest output, in bytes. The default is 64 KiB.
    ///
    /// In a context-free grammar, the limit also applies to each position in a rule: the shortest
    /// text from there to the end of the rule must not be longer.
    pub shortest_bytes: usize,
    /// Maximum memory of one generation of a [`Constraint`](crate::Constraint)'s caches, in bytes.
    /// The default is 256 MiB.
    ///
    /// The caches hold machine states and masks. If they exceed the limit, they are replaced by a
    /// new, empty generation.
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
