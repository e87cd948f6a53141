//! What the benchmarks measure and how. The command line runs them and prints what they find; harnesses for other engines
//! (`peers/`) run the same measurements beside them.

mod distribution;
pub mod grammars;
pub mod masks;
pub mod throughput;

pub use distribution::Distribution;
