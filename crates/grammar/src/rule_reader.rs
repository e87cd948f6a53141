//! [`RuleReader`]: the rules of a grammar that the tokens of an output belong to.

use std::sync::Arc;

use crate::Grammar;
use crate::ir::expr::{Expr, RuleId, Rules};
use crate::ledger::Ledger;
use crate::machine::cfg::{CfgMachine, Program};
use crate::machine::{Config, Machine};

/// Maximum memory of the automaton, in bytes. The reader finds no more rules beyond it.
const MAX_BYTES: usize = 32 << 20;

/// Names the rules of a GBNF or Lark grammar that the tokens of one output belong to.
///
/// ```
/// use formwork_grammar::{Grammar, Limits, RuleReader};
/// let source = r#"
///     root ::= sum
///     sum ::= number (" + " number)*
///     number ::= [0-9]+
/// "#;
/// let grammar = Grammar::gbnf(source, &Limits::default())?;
/// let mut reader = RuleReader::new(&grammar).expect("a grammar with rules");
/// assert_eq!(reader.push(b"12"), ["number"]);
/// assert_eq!(reader.push(b" + "), ["sum"]);
/// # Ok::<(), formwork_grammar::GrammarError>(())
/// ```
pub struct RuleReader {
    machine: CfgMachine,
    config: Config,
    names: Arc<[String]>,
}

impl RuleReader {
    /// Creates a reader of an output of `grammar`.
    ///
    /// Returns `None` if the grammar has no rules with names. Also returns `None` if it only keeps to
    /// its limits with rules that are copied into their callers.
    pub fn new(grammar: &Grammar) -> Option<Self> {
        let (rules, limits) = grammar.source_rules()?;
        let program = Arc::new(Program::in_order(rules, limits, &Ledger::new(limits)).ok()?);
        CfgMachine::check(&program).ok()?;
        let mut machine = CfgMachine::new(program);
        let config = machine.start();
        Some(Self { machine, config, names: names(rules).into() })
    }

    /// Returns a reader of another output of the same grammar.
    #[must_use]
    pub fn restarted(&self) -> Self {
        let mut machine = CfgMachine::new(self.machine.program());
        let config = machine.start();
        Self { machine, config, names: Arc::clone(&self.names) }
    }

    /// Reads the next bytes, usually those of a token. Returns the rules that can have the first of
    /// them, in the order of their first mention.
    ///
    /// A byte belongs to the rule whose own literal, class, expression or schema has it. If several
    /// rules can have it, only those count that allow all of `bytes`. Text that `%ignore` allows
    /// belongs to `%ignore`.
    ///
    /// Returns an empty list if `bytes` is empty, after a byte that the grammar does not allow, after a token
    /// terminal, and beyond 32 MiB of automaton.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<&str> {
        if self.config == Config::DEAD || self.machine.byte_len() > MAX_BYTES {
            self.config = Config::DEAD;
            return Vec::new();
        }
        let mut rules: Vec<usize> = Vec::new();
        for rule in self.machine.rules_of(self.config, bytes) {
            // Several schemas may belong to one rule.
            if !rules.iter().any(|&known| self.names[known] == self.names[rule.index()]) {
                rules.push(rule.index());
            }
        }
        self.config = self.machine.after(self.config, bytes);
        rules.into_iter().map(|rule| &*self.names[rule]).collect()
    }
}

/// Returns the name of each rule. A rule without a name, such as that of a schema, gets the name of
/// the rule that mentions it.
fn names(rules: &Rules) -> Vec<String> {
    let mut names = rules.names.clone();
    // Only the rule of the `%ignore` statements has no line.
    for (name, _) in names.iter_mut().zip(&rules.lines).filter(|(_, line)| **line == 0) {
        "%ignore".clone_into(name);
    }
    for (expr, name) in rules.exprs.iter().zip(&rules.names) {
        for called in calls(expr) {
            if names[called.index()].is_empty() {
                names[called.index()].clone_from(name);
            }
        }
    }
    names
}

/// Returns the rules that an expression mentions.
fn calls(expr: &Expr) -> Vec<RuleId> {
    let mut calls = Vec::new();
    let mut open = vec![expr];
    while let Some(expr) = open.pop() {
        match expr {
            Expr::Rule(rule) => calls.push(*rule),
            Expr::Sequence(parts) | Expr::Alternatives(parts) => open.extend(parts),
            Expr::Repeat { expr, .. } => open.push(expr),
            Expr::Literal(_) | Expr::Class(_) | Expr::Bytes(_) => {}
        }
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GrammarError, Limits};

    fn rules(grammar: Result<Grammar, GrammarError>, tokens: &[&str]) -> Vec<String> {
        let mut reader = RuleReader::new(&grammar.expect("a grammar")).expect("a grammar with rules");
        tokens.iter().map(|token| reader.push(token.as_bytes()).join(" ")).collect()
    }

    fn gbnf(source: &str, tokens: &[&str]) -> Vec<String> {
        rules(Grammar::gbnf(source, &Limits::default()), tokens)
    }

    #[test]
    fn tokens_belong_to_the_innermost_rule() {
        let source = r#"
            root ::= sum "\n"
            sum ::= product | sum (" + " | " - ") product
            product ::= factor | product (" * " | " / ") factor
            factor ::= number | "(" sum ")"
            number ::= "0" | [1-9] [0-9]{0,3}
        "#;
        let tokens = ["12", " +", " (", "3", " ", "* 0", ")", "\n", "x", "1"];
        let expected = ["number", "sum", "sum", "number", "sum product", "product", "factor", "root", "", ""];
        assert_eq!(gbnf(source, &tokens), expected);
    }

    #[test]
    fn a_token_excludes_rules_that_cannot_have_all_of_it() {
        let source = r#"
            root ::= yes | no | yet
            no ::= "no"
            yet ::= "yet"
            yes ::= "yes" "!"?
        "#;
        assert_eq!(gbnf(source, &["ye", "s"]), ["yes yet", "yes"]);
        assert_eq!(gbnf(source, &["yet", "!"]), ["yet", ""]);
    }

    #[test]
    fn schemas_and_tail_calls_belong_to_the_rule_that_has_them() {
        let source = r#"
            root ::= "a" value
            value ::= %json {"type": "integer"} | "(" list
            list ::= %json {"type": "boolean"} ("," list)? | ")"
        "#;
        assert_eq!(gbnf(source, &["a", "1", "2"]), ["root", "value", "value"]);
        assert_eq!(gbnf(source, &["a(", "tr", "ue", ",", ")"]), ["root", "list", "list", "list", "list"]);
    }

    #[test]
    fn rules_and_terminals_of_lark_have_their_names() {
        let source = "start: NAME \"=\" value\nvalue: NUMBER | NAME\nNAME: /[a-z]+/\n%import common.NUMBER\n%ignore \" \"";
        let found = rules(Grammar::lark(source, &Limits::default()), &["ab", " ", "=", "1"]);
        assert_eq!(found, ["NAME", "%ignore", "start", "NUMBER"]);
    }

    #[test]
    fn other_grammars_have_no_rules() {
        let limits = Limits::default();
        assert!(RuleReader::new(&Grammar::regex("a+", &limits).expect("a grammar")).is_none());
        assert!(RuleReader::new(&Grammar::choices(&["a"], &limits).expect("a grammar")).is_none());
    }

    #[test]
    fn memory_is_bounded() {
        let source = "root ::= \"(\" root \")\" root | \"\"";
        let grammar = Grammar::gbnf(source, &Limits::default()).expect("a grammar");
        let mut reader = RuleReader::new(&grammar).expect("a grammar with rules");
        for _ in 0..1 << 20 {
            reader.push(b"(");
        }
        assert!(reader.machine.byte_len() < 2 * MAX_BYTES);
    }
}
