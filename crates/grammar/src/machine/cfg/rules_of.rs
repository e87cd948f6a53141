//! The rules that read the bytes of an output.

use super::embedded::Embedded;
use super::rows::{CfgMachine, Item, scan};
use crate::ir::expr::RuleId;
use crate::machine::{Config, Machine};

impl CfgMachine {
    /// Returns the rules that can read the first of `bytes` after `config` if the other bytes follow, sorted.
    /// The program must be [in order](super::Program::in_order).
    pub(crate) fn rules_of(&mut self, config: Config, bytes: &[u8]) -> Vec<RuleId> {
        let Some((&first, rest)) = bytes.split_first() else { return Vec::new() };
        let items = &self.rows[config.index()].items;
        let mut readers: Vec<(RuleId, Item)> = items.iter().map(|&item| (self.rule_of(item), item)).collect();
        readers.sort_unstable();
        let mut rules = Vec::new();
        for readers in readers.chunk_by(|a, b| a.0 == b.0) {
            let mut scanned = Vec::new();
            for &(_, item) in readers {
                scan(&self.program, &mut self.embedded, item, first, &mut scanned);
            }
            let next = self.intern_scanned(scanned);
            if self.after(next, rest) != Config::DEAD {
                rules.push(readers[0].0);
            }
        }
        rules
    }

    /// Returns the config after all of `bytes`; dead if one of them may not follow.
    pub(crate) fn after(&mut self, config: Config, bytes: &[u8]) -> Config {
        bytes.iter().fold(config, |at, &byte| if at == Config::DEAD { at } else { self.step(at, byte) })
    }

    fn rule_of(&self, item: Item) -> RuleId {
        if Embedded::holds(item.dot) {
            self.program.rule_of_embedded(self.embedded.index(item.dot))
        } else {
            self.program.rule_of(item.dot)
        }
    }
}
