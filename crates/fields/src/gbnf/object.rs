//! Rules of objects. Members are in order, with commas between the members that are present.

use super::{GROUP, Way, Writer};
use crate::field::{Composite, Member, Scalar};
use crate::gbnf::expr::Expr;

impl<'d> Writer<'d> {
    pub(super) fn object(&mut self, composite: &'d Composite, way: &mut Way<'d>) -> Expr {
        let mut pairs = Vec::with_capacity(composite.fields.len());
        for member in &composite.fields {
            pairs.push(self.pair(member, way));
        }
        let members = match composite.fields.iter().position(|member| !member.optional) {
            Some(first) => around(pairs, &composite.fields, first),
            None => self.all_optional(pairs, way),
        };
        Expr::sequence([Expr::text("{")].into_iter().chain(members).chain([Expr::text("}")]))
    }

    fn pair(&mut self, member: &'d Member, way: &mut Way<'d>) -> Vec<Expr> {
        way.push(&member.name);
        let value = self.value(&member.kind, way);
        way.pop();
        vec![Expr::text(format!("{}: ", Scalar::from(member.name.as_str()).text())), value]
    }

    /// Returns the members of an object without required members. Any member can be first, followed
    /// by any selection of later members.
    fn all_optional(&mut self, pairs: Vec<Vec<Expr>>, way: &mut Way<'d>) -> Vec<Expr> {
        let mut firsts = Vec::with_capacity(pairs.len());
        let mut rest: Option<Expr> = None;
        for (index, pair) in pairs.into_iter().enumerate().rev() {
            let mut first = pair.clone();
            first.extend(rest.clone());
            firsts.push(Expr::sequence(first));
            if index > 0 {
                let this = Expr::sequence([Expr::text(", ")].into_iter().chain(pair)).optional();
                // The tail that consists of the last member is short enough to be inlined.
                rest = Some(match rest {
                    None => this,
                    Some(rest) => {
                        let mut way = way.clone();
                        way.push("rest");
                        self.rule(&way, &Expr::sequence([this, rest]))
                    }
                });
            }
        }
        firsts.reverse();
        if firsts.is_empty() {
            return Vec::new();
        }
        let is_long = firsts.len() > GROUP;
        let members = Expr::alternatives(firsts);
        let members = if is_long { self.rule_of("members", &members, way) } else { members };
        vec![members.optional()]
    }
}

/// Returns the members of an object whose first required member has the index `first`. Members
/// before `first` end with a comma. Members after `first` start with a comma.
fn around(pairs: Vec<Vec<Expr>>, members: &[Member], first: usize) -> Vec<Expr> {
    let comma = || Expr::text(", ");
    let mut parts = Vec::new();
    for (index, (pair, member)) in pairs.into_iter().zip(members).enumerate() {
        if index < first {
            parts.push(Expr::sequence(pair.into_iter().chain([comma()])).optional());
        } else if member.optional {
            parts.push(Expr::sequence([comma()].into_iter().chain(pair)).optional());
        } else {
            parts.extend((index > first).then(comma));
            parts.extend(pair);
        }
    }
    parts
}
