//! Measurements of the benchmarks. The command line runs them and prints the results. Harnesses for
//! other engines (`peers/`) run the same measurements for comparison.

mod distribution;
pub mod grammars;
pub mod masks;
pub mod throughput;

pub use distribution::Distribution;
