//! The machine for context-free grammars: GBNF, regular expressions and choices.
//!
//! A [`Program`](program::Program) holds the rules as automata over bytes and rule calls. A
//! [row](rows) is a set of positions in these automata, each with its return. Rows are Earley sets
//! in which positions of the input are replaced by interned rows. Inputs that lead to the same
//! positions and returns share a row. Every step from a row over a byte can therefore be cached for
//! good.

mod build;
mod class_run;
mod collapse;
mod determinise;
mod embedded;
mod endless;
mod frames;
mod merge;
mod nfa;
mod program;
mod returns;
mod rows;
mod rules_of;
mod search;
mod simplify;
mod states;
mod worklist;

pub(crate) use program::Program;
pub(crate) use rows::CfgMachine;
