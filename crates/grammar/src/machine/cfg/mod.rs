//! The machine for context-free grammars: GBNF, regular expressions, choices.
//!
//! A [`Program`](program::Program) holds the rules as automata over bytes and rule calls. A [`Row`](rows) is a set of
//! places in these automata, each with where to return to; rows are Earley sets in which a position of the input is
//! replaced by the interned row itself. Two inputs after which the same things may follow lead to the same row, so the
//! (row, byte) → row steps can be remembered for good.

mod build;
mod class_run;
mod collapse;
mod embedded;
mod endless;
mod frames;
mod merge;
mod nfa;
mod program;
mod returns;
mod rows;
mod simplify;
mod worklist;

pub(crate) use program::Program;
pub(crate) use rows::CfgMachine;
