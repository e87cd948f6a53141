use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange};
use rustc_hash::FxHashMap;

use super::ast::{Ast, Kind};
use super::class;
use super::{NESTING, PatternError, PatternProblem};
use crate::regular::CharSet;

pub(super) fn parse(source: &str) -> Result<Ast, PatternError> {
    Ok(read(source, Dialect::Pattern)?.ast)
}

pub(super) fn read(source: &str, dialect: Dialect) -> Result<Read, PatternError> {
    let mut parser = Parser {
        source,
        at: 0,
        depth: 0,
        flags: Flags::default(),
        dialect,
        ambiguous: None,
        properties: FxHashMap::default(),
        folds: FxHashMap::default(),
    };
    let ast = parser.alternatives()?;
    match parser.peek() {
        None => Ok(Read { ast, ambiguous: parser.ambiguous }),
        Some(_) => Err(PatternProblem::UnopenedGroup.at(parser.at)),
    }
}

/// The syntax that the parser accepts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Dialect {
    /// ECMA-262 with the leniency of the [`ecma`](super) module, as for JSON Schema's `pattern`.
    Pattern,
    /// Also accepts escapes of other engines that ECMA-262 lacks: `\A`, `\z`, `\a`, `\pL` and
    /// `\x{…}`.
    Extended,
}

/// A parsed pattern.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) ast: Ast,
    /// Offset of the first construct that other engines read differently: a class in a class, a
    /// class operator such as `&&`, a class that begins with `]`, or blanks in a count. `None` if
    /// there is no such construct.
    pub(crate) ambiguous: Option<usize>,
}

impl Read {
    /// Reports whether the pattern contains assertions: anchors, word boundaries or look-around.
    pub(crate) fn has_assertions(&self) -> bool {
        !self.ast.is_plain()
    }
}

/// The state of the parser.
pub(super) struct Parser<'a> {
    source: &'a str,
    /// Byte offset of the next character.
    pub(super) at: usize,
    depth: usize,
    flags: Flags,
    pub(super) dialect: Dialect,
    ambiguous: Option<usize>,
    /// Sets of the Unicode properties read so far, by name. `folds` has sets and their case-folded
    /// forms.
    pub(super) properties: FxHashMap<&'a str, CharSet>,
    folds: FxHashMap<CharSet, CharSet>,
}

#[derive(Clone, Copy, Default)]
struct Flags {
    /// `i`: letters match both cases.
    ignore_case: bool,
    /// `s`: `.` also matches line terminators.
    dot_all: bool,
}

impl<'a> Parser<'a> {
    pub(super) fn peek(&self) -> Option<char> {
        self.source[self.at..].chars().next()
    }

    pub(super) fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    /// Skips `text` if it comes next, and reports whether it came next.
    pub(super) fn eat(&mut self, text: &str) -> bool {
        let is_next = self.source[self.at..].starts_with(text);
        if is_next {
            self.at += text.len();
        }
        is_next
    }

    pub(super) fn is_next(&self, text: &str) -> bool {
        self.source[self.at..].starts_with(text)
    }

    /// Reads one ASCII letter and returns it as text. Reads nothing and returns `None` if another
    /// character comes next.
    pub(super) fn letter(&mut self) -> Option<&'a str> {
        let letter =
            self.source[self.at..].get(..1).filter(|c| c.bytes().all(|b| b.is_ascii_alphabetic()))?;
        self.at += 1;
        Some(letter)
    }

    /// Reads the text before the next `end`, and skips `end`. Reads nothing and returns `None` if
    /// there is no `end`.
    pub(super) fn until(&mut self, end: char) -> Option<&'a str> {
        let rest = &self.source[self.at..];
        let len = rest.find(end)?;
        self.at += len + end.len_utf8();
        Some(&rest[..len])
    }

    /// Parses alternatives up to the end of the group or of the pattern.
    fn alternatives(&mut self) -> Result<Ast, PatternError> {
        let offset = self.at;
        let mut alternatives = vec![self.sequence()?];
        while self.eat("|") {
            alternatives.push(self.sequence()?);
        }
        Ok(match alternatives.pop() {
            Some(only) if alternatives.is_empty() => only,
            last => {
                alternatives.extend(last);
                Ast::new(Kind::Alternatives(alternatives), offset)
            }
        })
    }

    fn sequence(&mut self) -> Result<Ast, PatternError> {
        let offset = self.at;
        let mut items = Vec::new();
        while self.peek().is_some_and(|c| c != '|' && c != ')') {
            let Some(atom) = self.atom()? else { continue };
            match self.quantified(atom)? {
                Ast { kind: Kind::Concat(inner), .. } => items.extend(inner),
                item => items.push(item),
            }
        }
        Ok(Ast::new(Kind::Concat(items), offset))
    }

    /// Parses one atom or assertion. Returns `None` for a group that only sets flags.
    fn atom(&mut self) -> Result<Option<Ast>, PatternError> {
        let offset = self.at;
        let kind = match self.next() {
            Some('^') => Kind::Start,
            Some('$') => Kind::End,
            Some('(') => return self.group(offset),
            Some('[') => Kind::Class(self.class(offset)?),
            Some('.') if self.flags.dot_all => Kind::Class(CharSet::any()),
            Some('.') => Kind::Class(class::line_terminators().complement()),
            Some('\\') if self.eat("b") => Kind::WordBoundary { negated: false },
            Some('\\') if self.eat("B") => Kind::WordBoundary { negated: true },
            Some('\\') if self.dialect == Dialect::Extended && self.eat("A") => Kind::Start,
            Some('\\') if self.dialect == Dialect::Extended && self.eat("z") => Kind::End,
            Some('\\') => {
                let set = self.escape(offset)?.into_set();
                Kind::Class(self.folded(set))
            }
            Some('*' | '+' | '?') => return Err(PatternProblem::NothingToRepeat.at(offset)),
            Some('{') if self.counts(offset)?.is_some() => {
                return Err(PatternProblem::NothingToRepeat.at(offset));
            }
            Some(c) => Kind::Class(self.folded(CharSet::single(c))),
            None => Kind::Concat(Vec::new()),
        };
        Ok(Some(Ast::new(kind, offset)))
    }

    /// Returns `set` with the other cases of its letters if the `i` flag is set. Otherwise returns
    /// `set`.
    pub(super) fn folded(&mut self, set: CharSet) -> CharSet {
        if !self.flags.ignore_case {
            return set;
        }
        if let Some(known) = self.folds.get(&set) {
            return known.clone();
        }
        let chars = set.ranges().iter().filter_map(|&(low, high)| {
            Some(ClassUnicodeRange::new(char::from_u32(low)?, char::from_u32(high)?))
        });
        let mut class = ClassUnicode::new(chars);
        let folded = match class.try_case_fold_simple() {
            Ok(()) => class::from_unicode(&class),
            // This build of `regex-syntax` has no case tables.
            Err(_) => set.clone(),
        };
        self.folds.insert(set, folded.clone());
        folded
    }

    /// Records that other engines read the construct at `offset` differently, unless an earlier
    /// construct is recorded.
    pub(super) fn note_ambiguous(&mut self, offset: usize) {
        self.ambiguous.get_or_insert(offset);
    }

    fn group(&mut self, offset: usize) -> Result<Option<Ast>, PatternError> {
        let outer = self.flags;
        let mut look = None;
        if self.eat("?=") {
            look = Some((true, false));
        } else if self.eat("?!") {
            look = Some((true, true));
        } else if self.eat("?<=") {
            look = Some((false, false));
        } else if self.eat("?<!") {
            look = Some((false, true));
        } else if self.eat("?<") || self.eat("?P<") {
            self.group_name()?;
        } else if self.eat("?P=") {
            return Err(PatternProblem::BackReference.at(offset));
        } else if self.eat("?>") {
            return Err(PatternProblem::AtomicGroup.at(offset));
        } else if self.eat("?") && self.set_flags(offset)? {
            return Ok(None);
        }
        self.depth += 1;
        if self.depth > NESTING {
            return Err(PatternProblem::TooDeep.at(offset));
        }
        let inner = self.alternatives()?;
        self.depth -= 1;
        self.flags = outer;
        if !self.eat(")") {
            return Err(PatternProblem::UnclosedGroup.at(offset));
        }
        let Some((is_ahead, negated)) = look else { return Ok(Some(inner)) };
        let inner = Box::new(inner);
        let kind =
            if is_ahead { Kind::LookAhead { inner, negated } } else { Kind::LookBehind { inner, negated } };
        Ok(Some(Ast::new(kind, offset)))
    }

    fn group_name(&mut self) -> Result<(), PatternError> {
        let offset = self.at;
        let name = self.until('>').ok_or_else(|| PatternProblem::GroupName.at(offset))?;
        let is_start = |c: char| c.is_alphabetic() || c == '_' || c == '$';
        let is_name = name.starts_with(is_start) && name.chars().all(|c| is_start(c) || c.is_alphanumeric());
        if is_name { Ok(()) } else { Err(PatternProblem::GroupName.at(offset)) }
    }

    /// Parses flags up to `:` or up to the end of the group that begins at `offset`. Returns true
    /// if the group has ended.
    fn set_flags(&mut self, offset: usize) -> Result<bool, PatternError> {
        let mut value = true;
        loop {
            let at = self.at;
            match self.next() {
                Some(':') => return Ok(false),
                Some(')') if at > offset + 2 => return Ok(true),
                Some('-') if value => value = false,
                Some('i') => self.flags.ignore_case = value,
                Some('s') => self.flags.dot_all = value,
                // These flags select the only behaviour that is supported.
                Some('u') if value => {}
                Some('m') if !value => {}
                Some('m') => return Err(PatternProblem::MultiLine.at(at)),
                Some(c) if c.is_ascii_alphabetic() => return Err(PatternProblem::UnknownFlag.at(at)),
                _ => return Err(PatternProblem::UnknownGroup.at(offset)),
            }
        }
    }

    fn quantified(&mut self, atom: Ast) -> Result<Ast, PatternError> {
        let offset = self.at;
        let (min, max) = if self.eat("*") {
            (0, None)
        } else if self.eat("+") {
            (1, None)
        } else if self.eat("?") {
            (0, Some(1))
        } else if self.eat("{") {
            let Some(counts) = self.counts(offset)? else {
                self.at = offset;
                return Ok(atom);
            };
            counts
        } else {
            return Ok(atom);
        };
        // A lazy quantifier only changes which match is found.
        self.eat("?");
        let is_assertion = matches!(
            atom.kind,
            Kind::Start
                | Kind::End
                | Kind::WordBoundary { .. }
                | Kind::LookAhead { .. }
                | Kind::LookBehind { .. }
        );
        if is_assertion {
            return Err(PatternProblem::NothingToRepeat.at(offset));
        }
        let from = atom.offset;
        Ok(Ast::new(Kind::Repeat { inner: Box::new(atom), min, max }, from))
    }

    /// Parses the counts of `{m}`, `{m,}` or `{m,n}` after the opening brace, at `offset`. If no
    /// such counts follow, reads nothing and returns `None`.
    fn counts(&mut self, offset: usize) -> Result<Option<(u32, Option<u32>)>, PatternError> {
        let rest = &self.source[self.at..];
        let end = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b',').count();
        if !rest[end..].starts_with('}') {
            let blank = |c: char| c.is_ascii_digit() || matches!(c, ',' | ' ');
            let with_blanks = rest.trim_start_matches(' ').starts_with(|c: char| c.is_ascii_digit())
                && rest.trim_start_matches(blank).starts_with('}');
            if with_blanks {
                self.note_ambiguous(offset);
            }
            return Ok(None);
        }
        let (min, max) = match rest[..end].split_once(',') {
            None => (&rest[..end], Some(&rest[..end])),
            Some((min, "")) => (min, None),
            Some((min, max)) => (min, Some(max)),
        };
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !max.is_none_or(is_number) {
            return Ok(None);
        }
        if !is_number(min) {
            let is_missing = min.is_empty() && max.is_some();
            return if is_missing { Err(PatternProblem::CountWithoutMinimum.at(offset)) } else { Ok(None) };
        }
        let number = |text: &str| text.parse().map_err(|_| PatternProblem::CountTooLarge.at(offset));
        let (min, max) = (number(min)?, max.map(number).transpose()?);
        if max.is_some_and(|max| max < min) {
            return Err(PatternProblem::CountsOutOfOrder.at(offset));
        }
        self.at += end + 1;
        Ok(Some((min, max)))
    }
}
