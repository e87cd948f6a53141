//! Measurements of the benchmarks. The command line runs the measurements and prints the results.
//! Programs in `peers/` run the same measurements with other engines.

mod distribution;
pub mod grammars;
pub mod masks;
pub mod throughput;
pub mod tool_sets;

pub use distribution::Distribution;
