//! Fallback parser with the syntax of the `regex` crate, for notation that ECMA-262 does not have.
//!
//! Examples are flags such as `(?x)`, nested classes and class operators (`[a-z&&[^aeiou]]`), POSIX
//! classes (`[[:alpha:]]`), and repetitions of repetitions (`a**`). `\d`, `\w` and `\s` keep their
//! ECMA-262 meaning.

use regex_syntax::ast::parse::ParserBuilder;
use regex_syntax::ast::{
    Ast, ClassBracketed, ClassPerl, ClassPerlKind, ClassSet, ClassSetItem, ClassSetRange, ClassSetUnion,
    Literal, LiteralKind, Span,
};
use regex_syntax::hir::translate::Translator;
use regex_syntax::hir::{Class, Hir, HirKind, Look};

use super::Edges;
use crate::Limits;
use crate::ir::expr::Expr;
use crate::regular::ecma;

/// Translates a pattern. Returns `None` if the `regex` crate rejects the pattern, or if the pattern
/// has assertions other than anchors at its ends.
pub(super) fn read(pattern: &str, limits: &Limits) -> Option<Expr> {
    let parse = || ParserBuilder::new().nest_limit(limits.nesting as u32).build().parse(pattern).ok();
    let mut ast = parse()?;
    replace(&mut ast, true);
    let hir = Translator::new().translate(pattern, &ast).or_else(|_| {
        // With Unicode disabled, a class must not contain characters beyond ASCII, so `\s` keeps
        // its own set.
        let mut ast = parse().unwrap_or_else(|| Ast::empty(Span::splat(ast.span().start)));
        replace(&mut ast, false);
        Translator::new().translate(pattern, &ast)
    });
    of_whole(&hir.ok()?)
}

/// Translates a whole expression. Returns `None` if the expression has assertions other than anchors at its
/// ends.
pub(in crate::frontend) fn of_whole(hir: &Hir) -> Option<Expr> {
    translate(hir, Edges { start: true, end: true })
}

/// Replaces `\d` and `\w` by the sets of ECMA-262, and also `\s` if `spaces` is true. Recursion is
/// safe, because the parser limits the nesting depth.
fn replace(ast: &mut Ast, spaces: bool) {
    match ast {
        Ast::ClassPerl(class) => {
            if let Some(set) = bracketed(class, spaces) {
                *ast = Ast::class_bracketed(set);
            }
        }
        Ast::ClassBracketed(class) => replace_in_set(&mut class.kind, spaces),
        Ast::Repetition(repetition) => replace(&mut repetition.ast, spaces),
        Ast::Group(group) => replace(&mut group.ast, spaces),
        Ast::Alternation(alternation) => alternation.asts.iter_mut().for_each(|ast| replace(ast, spaces)),
        Ast::Concat(concat) => concat.asts.iter_mut().for_each(|ast| replace(ast, spaces)),
        Ast::Empty(_)
        | Ast::Flags(_)
        | Ast::Literal(_)
        | Ast::Dot(_)
        | Ast::Assertion(_)
        | Ast::ClassUnicode(_) => {}
    }
}

fn replace_in_set(set: &mut ClassSet, spaces: bool) {
    match set {
        ClassSet::Item(item) => replace_in_item(item, spaces),
        ClassSet::BinaryOp(operation) => {
            replace_in_set(&mut operation.lhs, spaces);
            replace_in_set(&mut operation.rhs, spaces);
        }
    }
}

fn replace_in_item(item: &mut ClassSetItem, spaces: bool) {
    match item {
        ClassSetItem::Perl(class) => {
            if let Some(set) = bracketed(class, spaces) {
                *item = ClassSetItem::Bracketed(Box::new(set));
            }
        }
        ClassSetItem::Bracketed(class) => replace_in_set(&mut class.kind, spaces),
        ClassSetItem::Union(union) => union.items.iter_mut().for_each(|item| replace_in_item(item, spaces)),
        ClassSetItem::Empty(_)
        | ClassSetItem::Literal(_)
        | ClassSetItem::Range(_)
        | ClassSetItem::Ascii(_)
        | ClassSetItem::Unicode(_) => {}
    }
}

fn bracketed(class: &ClassPerl, spaces: bool) -> Option<ClassBracketed> {
    let letter = match class.kind {
        ClassPerlKind::Digit => 'd',
        ClassPerlKind::Word => 'w',
        ClassPerlKind::Space if spaces => 's',
        ClassPerlKind::Space => return None,
    };
    let span = class.span;
    let literal = |c| Literal { span, kind: LiteralKind::Verbatim, c };
    let ranges = ecma::set_of_escape(letter)?;
    let items = ranges.ranges().iter().filter_map(|&(low, high)| {
        let (low, high) = char::from_u32(low).zip(char::from_u32(high))?;
        Some(ClassSetItem::Range(ClassSetRange { span, start: literal(low), end: literal(high) }))
    });
    let kind = ClassSet::Item(ClassSetItem::Union(ClassSetUnion { span, items: items.collect() }));
    Some(ClassBracketed { span, negated: class.negated, kind })
}

/// Translates an expression at the position `edges`. Drops anchors that always hold there. Returns
/// `None` if the expression has any other assertion.
fn translate(hir: &Hir, edges: Edges) -> Option<Expr> {
    Some(match hir.kind() {
        HirKind::Empty => Expr::empty(),
        HirKind::Look(Look::Start) if edges.start => Expr::empty(),
        HirKind::Look(Look::End) if edges.end => Expr::empty(),
        HirKind::Look(_) => return None,
        HirKind::Literal(literal) => Expr::Literal(literal.0.to_vec()),
        HirKind::Class(Class::Unicode(class)) => {
            Expr::Class(class.iter().map(|range| (range.start(), range.end())).collect())
        }
        HirKind::Class(Class::Bytes(class)) => {
            Expr::Bytes(class.iter().map(|range| (range.start(), range.end())).collect())
        }
        HirKind::Repetition(repetition) => {
            let edges = edges.in_repetition(repetition.max);
            let expr = Box::new(translate(&repetition.sub, edges)?);
            Expr::Repeat { expr, min: repetition.min, max: repetition.max }
        }
        HirKind::Capture(capture) => translate(&capture.sub, edges)?,
        HirKind::Concat(parts) => {
            let is_empty = |hir: &&Hir| hir.properties().maximum_len() == Some(0);
            let leading = parts.iter().take_while(is_empty).count();
            let trailing = parts.iter().rev().take_while(is_empty).count();
            let translated = parts.iter().enumerate();
            let translated = translated
                .map(|(at, part)| translate(part, edges.of_part(at, parts.len(), leading, trailing)));
            Expr::Sequence(translated.collect::<Option<_>>()?)
        }
        HirKind::Alternation(parts) => {
            Expr::Alternatives(parts.iter().map(|part| translate(part, edges)).collect::<Option<_>>()?)
        }
    })
}
