//! Computes the length of a thread's shortest completion, or finds that the thread has none.
//!
//! The length is the minimum over the choices that the thread has next. The cost of a choice is the
//! number of its own bytes, plus the bytes of the shortest value of its node, plus the bytes that
//! the stack still needs. Lengths saturate at `u32::MAX`.
//!
//! If an item that must differ may still become a value seen, the length is only a lower bound, and
//! [`search`](super::search) finds the exact length. In all other cases, the length is exact.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::groups::{AfterNames, nodes_of};
use super::intern::{Stack, UNCOUNTED};
use super::names::{NO_NAMES, NamesId, UNKNOWN, UNREAD};
use super::{Frame, JsonMachine, OUTSIDE, ROOT, StackId, State};
use crate::ir::json::cost::Shortest;
use crate::ir::json::needs::{Amount, Kind, Lengths, NameCounts, Needs, shortest_only};
use crate::ir::json::program::{ArrayRule, LanguageRule, Member, NodeChoice, ObjectRule};
use crate::ir::json::shortest_spelling;
use crate::ir::json::spelling::Decode;
use crate::ir::json::texts::Texts;
use crate::ir::json::values::{NOTHING, SetId};
use crate::options::Order;

/// Maximum number of declared names that are compared one by one to find the name with the shortest
/// completion. Above it, all names are computed together.
const FEW: usize = 256;
/// The same limit for objects that count their members, where each name takes a sum over all
/// members.
const FEW_COUNTED: usize = 8;
/// The same limit for members in any order, multiplied by the number of the object's members.
const FEW_TIMES_MEMBERS: usize = 1 << 11;

/// The state of an object: its rule, the members seen, the number of members or the id of the
/// excluded alternatives, the pending obligations, the names seen, and the depth.
pub(super) type ObjectKey = (u32, u32, u32, u8, NamesId, u32);

/// The number of names seen of each length, as `(length, number)`. The key is an object rule, a
/// label and a set of names.
pub(super) type SeenLengths = ((u32, u32, NamesId), Arc<[(u32, u32)]>);

/// For each node in the trie of declared names, the shortest text from there, through a declared
/// name, to the end of the object.
pub(super) type Nearest = (ObjectKey, Arc<[Option<Shortest>]>);

impl JsonMachine {
    /// Returns the shortest completion of a thread, ignoring that the current item may have to
    /// differ from other items.
    pub(super) fn closing(&self, stack: StackId, state: State) -> Option<Shortest> {
        let program = &*self.program;
        let top = self.interner.stack(stack);
        match state {
            State::Value { node, gap } => {
                Some(self.value(node, top.depth)?.after(gap.closing()).then(top.total))
            }
            State::Literal { literal, at } => {
                let rest = &literal.text()[usize::from(at)..];
                Some(Shortest::new(rest.len() as u32, rest[0]).then(top.total))
            }
            State::Number { dfa, state } => match program.numbers[dfa as usize].closing(state) {
                (0, _) => self.after_value(stack),
                (len, first) => Some(Shortest::new(len, first).then(top.total)),
            },
            State::Text { rule, chars, decode } => {
                let open = u32::from(decode != Decode::Whole);
                let more = program.texts[rule as usize].min.saturating_sub(chars + open);
                let end = Shortest::new(more.saturating_add(1), if more > 0 { b' ' } else { b'"' });
                Some(end.after(decode.closing()).then(top.total))
            }
            State::Language { rule, state, chars, decode } => {
                Some(self.language(rule, state, chars, decode)?.then(top.total))
            }
            State::Word { trie, at, decode } => Some(self.word(trie, at, decode)?.then(top.total)),
            State::ArrayStart { gap } => self.array_start(top, gap.closing()),
            State::ObjectStart { .. } if top.closable => {
                Some(Shortest::new(1, b'}').then(self.interner.stack(top.parent).total))
            }
            State::KeyStart { gap } | State::ObjectStart { gap } => {
                Some(self.key_start(top)?.after((1, b'"')).after(gap.closing()))
            }
            State::Key { at, other, name, decode } => {
                let known = name != UNKNOWN && (name != UNREAD || at != OUTSIDE);
                let spelled = match name {
                    UNREAD if at != OUTSIDE => self.object_rule(stack)?.names.node(at).spelled(),
                    _ => self.names.spelled(name),
                };
                let place = NamePlace { at, other, rivals: self.names.rivals(name), spelled };
                self.key(top, place, decode, known)
            }
            State::Colon { node, gap } => {
                let gap_after = program.spacing.after_colon.least_at(top.depth);
                let value = self.value(node, top.depth)?.len.saturating_add(gap_after);
                Some(Shortest::new(1, b':').then(value).after(gap.closing()).then(top.total))
            }
            State::AfterValue => self.after_value(stack),
            State::Close { gap } => {
                let bracket = Shortest::new(1, top.frame?.bracket());
                Some(bracket.after(gap.closing()).then(self.interner.stack(top.parent).total))
            }
            State::End => Some(Shortest::new(0, 0)),
        }
    }

    pub(super) fn value(&self, node: u32, depth: u32) -> Option<Shortest> {
        self.program.nodes[node as usize].cost.at(depth)
    }

    fn after_value(&self, stack: StackId) -> Option<Shortest> {
        if stack == ROOT {
            return Some(Shortest::new(0, 0));
        }
        let top = self.interner.stack(stack);
        let bracket = Shortest::new(1, top.frame?.bracket());
        let gap = self.program.spacing.bracket.rest(top.depth - 1).closing();
        let first = if top.closable { bracket.after(gap).first } else { b',' };
        Some(Shortest::new(top.total, first))
    }

    fn language(&self, rule: u32, state: u32, chars: u32, decode: Decode) -> Option<Shortest> {
        let LanguageRule { language, max, .. } = self.program.language_rules[rule as usize];
        let texts = &self.program.languages[language as usize];
        let profile = self.program.profile;
        match (max, decode) {
            (None, Decode::Whole) => texts.nearest_any(state),
            (None, _) => texts.after_char(state, decode, profile, |state| texts.nearest_any(state)),
            (Some(max), Decode::Whole) => {
                let (fewest, way) = texts.fewest(state)?;
                (chars + fewest <= max).then_some(way)
            }
            (Some(max), _) => texts.fewest_after_char(state, decode, profile, max.saturating_sub(chars)),
        }
    }

    fn word(&self, trie: u32, at: u32, decode: Decode) -> Option<Shortest> {
        let trie = &self.program.words[trie as usize];
        let node = trie.node(at);
        if decode == Decode::Whole {
            return Some(node.nearest());
        }
        let finished = node.children.iter().filter_map(|&(c, child)| {
            Some(decode.finish(c, self.program.profile)?.then(trie.node(child).nearest().len))
        });
        finished.min_by_key(|way| way.len)
    }

    fn array_start(&self, top: &Stack, gap: (u32, u8)) -> Option<Shortest> {
        let Some(Frame::Array { rule, seen, .. }) = top.frame else { return None };
        let array = &self.program.arrays[rule as usize];
        let below = self.interner.stack(top.parent).total;
        if array.repeats.is_none() && array.closable(0, &[]) {
            return Some(Shortest::new(1, b']').then(below));
        }
        if array.required.is_some() {
            let plan = self.plan((rule, seen), (0, UNCOUNTED), top.depth, None)?;
            let rest = self.between(plan.items - 1, top.depth).saturating_add(plan.bytes);
            return Some(Shortest::new(rest, plan.first).after(gap).then(below));
        }
        let first = |way: &NodeChoice| {
            let counts = array.raise(&[], way.bits)?;
            let after = match array.repeats {
                Some(_) => self.after_unpaired((rule, NOTHING), array.count(0), top.depth)?,
                None => self.after_item(array, array.count(0), &counts, top.depth)?,
            };
            Some(self.value(way.node, top.depth)?.after(gap).then(after).then(below))
        };
        array.item(0).iter().filter_map(first).min_by_key(|way| way.len)
    }

    /// Returns the least number of bytes from the end of an item to the end of its array. `None` if
    /// the array cannot be completed.
    ///
    /// `items` is the number of items, including this item. The items stand at `depth`.
    pub(super) fn after_item(&self, rule: &ArrayRule, items: u32, counts: &[u16], depth: u32) -> Option<u32> {
        if !rule.counters.is_empty() {
            return rule.to_end(items, counts, depth - 1);
        }
        self.up_to(rule, items, rule.min, depth)
    }

    /// Returns the least number of bytes from the end of an item to the end of its array, if the
    /// array has at least `min` items and no counters.
    fn up_to(&self, rule: &ArrayRule, items: u32, min: u32, depth: u32) -> Option<u32> {
        let spacing = &self.program.spacing;
        let mut total = spacing.bracket.least_at(depth - 1) + 1;
        let comma = 1 + spacing.after_comma.least_at(depth);
        let prefix = rule.prefix.len() as u32;
        for index in items..min.min(prefix) {
            let item = self.value(rule.item(index).first()?.node, depth)?;
            total = total.saturating_add(comma).saturating_add(item.len);
        }
        let rest = min.saturating_sub(items.max(prefix));
        if rest > 0 {
            let item = self.value(rule.rest.first()?.node, depth)?;
            total = total.saturating_add((comma.saturating_add(item.len)).saturating_mul(rest));
        }
        Some(total)
    }

    /// Returns the least number of bytes from the end of an item to the end of its array, if two
    /// items of the array must be equal.
    ///
    /// No two items before this item are equal, but this item may be equal to an earlier one. The
    /// items stand at `depth`.
    pub(super) fn after_unpaired(&self, (rule, seen): (u32, SetId), items: u32, depth: u32) -> Option<u32> {
        let array = &self.program.arrays[rule as usize];
        let from = array.repeats.as_ref()?.from;
        let equal = self.until_equal((rule, seen), items).map_or(0, |count| count - u32::from(items > from));
        self.up_to(array, items, array.min.max(items.saturating_add(equal)), depth)
    }

    /// Returns the number of bytes to add to [`after_unpaired`](Self::after_unpaired) if the
    /// current item is not equal to an earlier one. `None` if the array then has no room for two
    /// equal items.
    pub(super) fn one_more_equal(&self, (rule, seen): (u32, SetId), items: u32, depth: u32) -> Option<u32> {
        let array = &self.program.arrays[rule as usize];
        if items <= array.repeats.as_ref()?.from {
            return Some(0);
        }
        let count = self.until_equal((rule, seen), items)?;
        let all = self.up_to(array, items, array.min.max(items.saturating_add(count)), depth)?;
        Some(all - self.after_unpaired((rule, seen), items, depth)?)
    }

    /// Returns the number of further items after which two items are equal, if each further item
    /// has the shortest text.
    ///
    /// Returns `None` if the array has no room for these items.
    pub(super) fn until_equal(&self, (rule, seen): (u32, SetId), items: u32) -> Option<u32> {
        let array = &self.program.arrays[rule as usize];
        let from = array.repeats.as_ref()?.from;
        if items <= from {
            return Some(from + 2 - items);
        }
        let cheapest = self.items.cheapest.get(&rule);
        let known = cheapest.is_some_and(|&cheapest| self.items.values.has(seen, cheapest));
        let count = if known { 1 } else { 2 };
        array.max.is_none_or(|max| max.saturating_sub(items) >= count).then_some(count)
    }

    /// Returns the least number of bytes from the end of an item to the end of its array, not
    /// counting the bytes of further items.
    ///
    /// `items` further items follow, which stand at `depth`.
    pub(super) fn between(&self, items: u32, depth: u32) -> u32 {
        let spacing = &self.program.spacing;
        let comma = 1 + spacing.after_comma.least_at(depth);
        (spacing.bracket.least_at(depth - 1) + 1).saturating_add(comma.saturating_mul(items))
    }

    /// Returns the least number of bytes from the end of a member to the end of the object. `None`
    /// if the object cannot be completed.
    ///
    /// The object has `members` complete members, which stand at `depth`, and the `pending`
    /// obligations. The declared members for which `seen` is true may not follow, and neither may
    /// the undeclared `names`.
    pub(super) fn after_member(
        &self,
        names: SeenNames,
        seen: impl Fn(usize) -> bool,
        (members, pending): (u32, u8),
        depth: u32,
    ) -> Option<u32> {
        let rule = &self.program.objects[names.rule as usize];
        if !rule.groups.is_empty() {
            return self.after_grouped(rule, seen, self.interner.set(members), depth);
        }
        let mut total = self.program.spacing.bracket.least_at(depth - 1) + 1;
        let mut required = 0;
        let mut optional = Vec::new();
        let unseen = rule.members.iter().enumerate().filter(|&(index, _)| !seen(index));
        for member in unseen.map(|(_, member)| member) {
            if member.required {
                required += 1;
                total = total.saturating_add(self.member(member, depth)?);
            } else if rule.min > 0 && member.node.is_some() {
                optional.extend(self.member(member, depth));
            }
        }
        let members = members + required;
        if pending == 0 && members >= rule.min {
            return rule.max.is_none_or(|max| members <= max).then_some(total);
        }
        let most = rule.min.saturating_sub(members).saturating_add(pending.count_ones());
        let optional = optional.into_iter().map(Amount::bytes).collect();
        let kinds = self.kinds(names, most, depth)?;
        let needs = Needs { depth, optional, kinds, pending, members, min: rule.min, max: rule.max };
        let (rest, _) = needs.least()?;
        Some(total.saturating_add(rest.bytes))
    }

    /// Returns the kinds of undeclared members that may follow, one for each label, with their
    /// costs. The costs include a comma and the quotes of the name.
    ///
    /// The object needs at most `most` of these members. Returns `None` if there are too many names
    /// to count.
    pub(super) fn kinds(&self, names: SeenNames, most: u32, depth: u32) -> Option<Vec<Kind>> {
        let rule = &self.program.objects[names.rule as usize];
        let comma = 1 + self.program.spacing.after_comma.least_at(depth);
        let mut kinds = Vec::new();
        for (label, ways) in (0..).zip(&rule.others).filter(|(_, ways)| !ways.is_empty()) {
            let mut of_label = Vec::with_capacity(ways.len());
            for way in ways {
                of_label.push((
                    way.bits as u8,
                    Amount::bytes(self.after_name(way.node, depth)?.saturating_add(comma + 2)),
                ));
            }
            kinds.push(Kind { names: self.names_left(names, label, most)?, ways: of_label });
        }
        Some(kinds)
    }

    /// Returns the lengths of at least `most` of the shortest unused names with a label, as
    /// [`Lengths`].
    fn names_left(&self, names: SeenNames, label: u32, most: u32) -> Option<Lengths> {
        let rule = &self.program.objects[names.rule as usize];
        let texts = rule.labels.map(|labels| &self.program.languages[labels as usize]);
        let seen = self.names.count(names.seen);
        if let (1, 0, None, Some(texts)) = (most, seen, names.taken, texts) {
            return Some(shortest_only(texts.nearest(texts.dfa().start(), label)));
        }
        let mut counts = self.name_counts.borrow_mut();
        let counts = counts.entry((names.rule, label)).or_insert_with(|| match texts {
            Some(texts) => NameCounts::labelled(texts.dfa(), label),
            None => NameCounts::others(rule.members.iter().map(|member| member.name_len)),
        });
        let mut left = counts.shortest(u64::from(most) + u64::from(seen) + 1)?;
        let taken = names.taken.filter(|&(other, _)| other == label).map(|(_, length)| length);
        let seen = self.seen_lengths(names, label, texts);
        for (length, count) in seen.iter().copied().chain(taken.map(|length| (length, 1))) {
            if let Ok(at) = left.binary_search_by_key(&length, |&(length, _): &(u32, u32)| length) {
                left[at].1 = left[at].1.saturating_sub(count);
            }
        }
        Some(left)
    }

    /// Returns the number of names seen with a label, by the length of the name.
    fn seen_lengths(&self, names: SeenNames, label: u32, texts: Option<&Arc<Texts>>) -> Arc<[(u32, u32)]> {
        /// Number of results in the cache. Repeated calls occur within one step, which uses one or
        /// two sets of names.
        const KEPT: usize = 16;
        if self.names.count(names.seen) == 0 {
            return Arc::default();
        }
        let key = (names.rule, label, names.seen);
        let mut kept = self.seen_lengths.borrow_mut();
        if let Some((_, known)) = kept.iter().find(|(known, _)| *known == key) {
            return Arc::clone(known);
        }
        let label_of = |name: &str| match texts {
            Some(texts) => {
                let dfa = texts.dfa();
                let end = name.chars().try_fold(dfa.start(), |state, c| dfa.next(state, c));
                end.map_or(0, |end| dfa.label(end))
            }
            None => 0,
        };
        let seen = self.names.all(names.seen).into_iter().filter(|name| label_of(name) == label);
        let mut lengths: BTreeMap<u32, u32> = BTreeMap::new();
        for name in seen {
            *lengths.entry(name.chars().map(|c| shortest_spelling(c).len).sum()).or_default() += 1;
        }
        let lengths: Arc<[(u32, u32)]> = lengths.into_iter().collect();
        kept.truncate(KEPT - 1);
        kept.push_front((key, Arc::clone(&lengths)));
        lengths
    }

    /// Returns the least number of bytes of a comma and a declared member at `depth`. `None` if no
    /// value satisfies the member's schema.
    pub(super) fn member(&self, member: &Member, depth: u32) -> Option<u32> {
        self.member_text(member.name_len, member.node?, depth)
    }

    fn member_text(&self, name_len: u32, node: u32, depth: u32) -> Option<u32> {
        let comma = 1 + self.program.spacing.after_comma.least_at(depth);
        Some((comma + name_len + 2).saturating_add(self.after_name(node, depth)?))
    }

    /// Returns the least number of bytes from the closing quote of a name to the end of the
    /// member's value.
    pub(super) fn after_name(&self, node: u32, depth: u32) -> Option<u32> {
        let colon = 1 + self.program.spacing.after_colon.least_at(depth);
        Some(self.value(node, depth)?.len.saturating_add(colon))
    }

    /// Returns the shortest completion right after the opening quote of a name.
    fn key_start(&self, top: &Stack) -> Option<Shortest> {
        let Some(Frame::Object { rule, names, .. }) = top.frame else { return None };
        let labels = self.program.objects[rule as usize].labels;
        let other = labels.map_or(0, |labels| self.program.languages[labels as usize].dfa().start());
        self.key(top, NamePlace { at: 0, other, rivals: names, spelled: 0 }, Decode::Whole, true)
    }

    /// Returns the shortest completion from inside a name, through the best name that the text may
    /// still become.
    ///
    /// `known` is true if the characters of the name so far are known. A name with unknown
    /// characters certainly differs from all names seen.
    fn key(&self, top: &Stack, place: NamePlace, decode: Decode, known: bool) -> Option<Shortest> {
        let Some(Frame::Object { rule: id, seen, members, pending, names }) = top.frame else { return None };
        let rule = &self.program.objects[id as usize];
        let object = Object { machine: self, id, rule, seen, members, pending, names, top };
        let below = self.interner.stack(top.parent).total;
        let NamePlace { at, other, rivals, .. } = place;
        let declared = if at == OUTSIDE { None } else { object.declared(at, decode) };
        let undeclared = if known && (rivals != NO_NAMES || object.needs_more()) {
            object.undeclared(place, decode)
        } else {
            match rule.labels {
                Some(labels) => object.labelled(&self.program.languages[labels as usize], other, decode),
                None => object.unlabelled(at, decode),
            }
        };
        Some(Shortest::shorter(declared, undeclared)?.then(below))
    }
}

/// The undeclared names that an object of rule `rule` has seen. `taken` is the label and the length
/// of one more name, or `None` if there is no further name.
#[derive(Clone, Copy)]
pub(super) struct SeenNames {
    pub(super) rule: u32,
    pub(super) seen: NamesId,
    pub(super) taken: Option<(u32, u32)>,
}

/// A place in a name: `at` is a node in the trie of declared names, `other` is a state of the
/// language that labels undeclared names, and `rivals` are the remainders of the names seen.
#[derive(Clone, Copy)]
pub(super) struct NamePlace {
    pub(super) at: u32,
    pub(super) other: u32,
    pub(super) rivals: NamesId,
    /// Least number of bytes that spell the characters of the name so far.
    pub(super) spelled: u32,
}

/// The object on top of a stack, while a name is read. The fields from `seen` to `names` are those
/// of its [`Frame`].
pub(super) struct Object<'a> {
    pub(super) machine: &'a JsonMachine,
    pub(super) id: u32,
    pub(super) rule: &'a ObjectRule,
    pub(super) seen: u32,
    pub(super) members: u32,
    pub(super) pending: u8,
    pub(super) names: NamesId,
    pub(super) top: &'a Stack,
}

impl Object<'_> {
    /// Reports whether further members may be needed after the member whose name is being read.
    const fn needs_more(&self) -> bool {
        self.pending != 0 || self.rule.min > 1
    }

    /// Returns the shortest text from the trie node `at`, through a declared name, to the end of
    /// the object. `decode` is the state of the character being read.
    fn declared(&self, at: u32, decode: Decode) -> Option<Shortest> {
        if decode == Decode::Whole {
            return self.nearest(at);
        }
        let children = self.rule.names.node(at).children.iter();
        let ways = children.filter_map(|&(c, child)| {
            let end = decode.finish(c, self.machine.program.profile)?;
            Some(end.then(self.nearest(child)?.len))
        });
        ways.min_by_key(|way| way.len)
    }

    /// Returns the shortest text from a place in a name, through an undeclared name, to the end of
    /// the object. The object has no language that labels undeclared names.
    fn unlabelled(&self, at: u32, decode: Decode) -> Option<Shortest> {
        let profile = self.machine.program.profile;
        let outside = self.after_other(0, None)?;
        if at == OUTSIDE {
            return Some(Shortest::new(1, b'"').after(decode.closing()).then(outside));
        }
        let names = &self.rule.names;
        let node = names.node(at);
        if decode == Decode::Whole {
            return Some(node.outside().then(outside));
        }
        let through_child = node.children.iter().filter_map(|&(c, child)| {
            Some(decode.finish(c, profile)?.then(names.node(child).outside().len).then(outside))
        });
        let ranges = decode.candidates(profile).into_iter();
        let mut ends = ranges.flat_map(|(low, high)| low..=high).filter_map(|code| {
            let c = char::from_u32(code).filter(|&c| node.child(c).is_none())?;
            decode.finish(c, profile)
        });
        let leaving = ends.next().map(|end| end.then(1).then(outside));
        Shortest::shorter(through_child.min_by_key(|way| way.len), leaving)
    }

    /// Returns the shortest text from a place in a name, through an undeclared name, to the end of
    /// the object. The language `texts` labels undeclared names.
    fn labelled(&self, texts: &Texts, other: u32, decode: Decode) -> Option<Shortest> {
        if other == OUTSIDE {
            return None;
        }
        let after: Vec<_> =
            (0..self.rule.others.len() as u32).map(|label| self.after_other(label, None)).collect();
        let rest = |state| {
            let ways = after
                .iter()
                .zip(0..)
                .filter_map(|(&after, label)| Some(texts.nearest(state, label)?.then(after?)));
            ways.min_by_key(|way| way.len)
        };
        match decode {
            Decode::Whole => rest(other),
            // The bytes read so far of the character have been forgotten ([`Decode::forget`]).
            _ if texts.dfa().is_free(other) => Some(rest(other)?.after(decode.closing())),
            _ => texts.after_char(other, decode, self.machine.program.profile, rest),
        }
    }

    /// Returns the shortest text from the trie node `at`, through a declared name below it, to the
    /// end of the object.
    fn nearest(&self, at: u32) -> Option<Shortest> {
        if !self.rule.groups.is_empty() {
            let after = self.after_names();
            let after = after.declared(self);
            let below = self.rule.names.words_below(at);
            let ways = below.filter_map(|(index, rest)| Some(rest.then(after[index as usize]?)));
            return ways.min_by_key(|way| way.len);
        }
        let may_follow = match self.machine.program.order {
            Order::Declared => {
                let required = self.rule.next_required[self.seen as usize] as usize;
                self.seen as usize..(required + 1).min(self.rule.members.len())
            }
            Order::Any => 0..self.rule.members.len(),
        };
        let few = match self.machine.program.order {
            Order::Declared if self.rule.counts() => FEW_COUNTED,
            Order::Declared => FEW,
            Order::Any => FEW_TIMES_MEMBERS / self.rule.members.len().max(1),
        };
        if may_follow.len() > few && self.rule.names.count_below(at) > few {
            return self.nearest_of_many()[at as usize];
        }
        let below = self
            .rule
            .names
            .words_among(at, may_follow)
            .filter_map(|(index, rest)| Some(rest.then(self.after_declared_name(index as usize)?)));
        below.min_by_key(|way| way.len)
    }

    /// Returns the least number of bytes from the closing quote of the declared name at `index` to the
    /// end of the object.
    ///
    /// Returns `None` if the name may not come.
    fn after_declared_name(&self, index: usize) -> Option<u32> {
        self.after_name_and(index, || self.after_choice(Some(index), self.pending, None))
    }

    /// Returns the least number of bytes from the closing quote of the declared name at `index` to the
    /// end of the object.
    ///
    /// This is the number of bytes up to the end of the member's value, plus the result of `after`.
    /// Returns `None` if the name may not come, or if `after` returns `None`.
    fn after_name_and(&self, index: usize, after: impl FnOnce() -> Option<u32>) -> Option<u32> {
        if !self.machine.may_follow(self.rule, (self.seen, self.members), index) {
            return None;
        }
        let value = self.machine.after_name(self.rule.members[index].node?, self.top.depth)?;
        Some(value.saturating_add(after()?))
    }

    /// Returns the result of [`nearest`](Self::nearest) for each node of the trie. The results are
    /// cached.
    fn nearest_of_many(&self) -> Arc<[Option<Shortest>]> {
        let key = (self.id, self.seen, self.members, self.pending, self.names, self.top.depth);
        let mut known = self.machine.nearest.borrow_mut();
        match &*known {
            Some((of, nearest)) if *of == key => Arc::clone(nearest),
            _ => {
                let is_any_order = self.machine.program.order == Order::Any;
                let filled = self.pending == 0 && is_any_order;
                let nearest: Arc<[_]> = if filled {
                    let fill = self.fill();
                    let after = |index| self.after_filled(fill.as_ref()?, index);
                    self.rule.names.nearest(|index| self.after_name_and(index, || after(index))).into()
                } else {
                    self.rule.names.nearest(|index| self.after_declared_name(index)).into()
                };
                *known = Some((key, Arc::clone(&nearest)));
                nearest
            }
        }
    }

    /// Returns the least number of bytes from the closing quote of an undeclared name to the end of
    /// the object. `None` if no undeclared name may come.
    ///
    /// The name has the label `label`. `taken` is its label and length, if they are known.
    pub(super) fn after_other(&self, label: u32, taken: Option<(u32, u32)>) -> Option<u32> {
        let position = self.rule.next_required.get(self.seen as usize);
        if self.machine.program.order == Order::Declared
            && position.is_some_and(|&next| (next as usize) < self.rule.members.len())
        {
            return None;
        }
        let ways = self.rule.others.get(label as usize)?.iter().filter_map(|way| {
            let value = self.machine.after_name(way.node, self.top.depth)?;
            Some(value.saturating_add(self.after_choice(None, way.unmet(self.pending), taken)?))
        });
        ways.min()
    }

    /// Returns the least numbers of bytes after the names of an object with groups. Cached for all places in a
    /// name.
    fn after_names(&self) -> Arc<AfterNames> {
        let key = (self.id, self.seen, self.members, self.top.depth);
        if let Some(known) = self.machine.grouped.borrow().get(&key) {
            return Arc::clone(known);
        }
        let all = Arc::new(AfterNames::new(self));
        let bytes = 128 + self.rule.members.len() * size_of::<Option<u32>>();
        self.machine.grouped.borrow_mut().insert(key, Arc::clone(&all));
        self.machine.grouped_bytes.set(self.machine.grouped_bytes.get() + bytes);
        all
    }

    /// Returns the least number of bytes from the end of a member's value to the end of the object, if
    /// the member comes next.
    ///
    /// The member is the declared member at `index`, or an undeclared member if `index` is `None`.
    /// `pending` has the obligations after the member. `taken` is the label and the length of an
    /// undeclared name, if they are known.
    fn after_choice(&self, index: Option<usize>, pending: u8, taken: Option<(u32, u32)>) -> Option<u32> {
        let depth = self.top.depth;
        if !self.rule.groups.is_empty() {
            // The bytes after declared members of such objects are only in `AfterNames::declared`.
            debug_assert!(index.is_none(), "the member is undeclared");
            return self.after_names().undeclared;
        }
        if !self.rule.counts() && self.pending == 0 {
            let required = index.map(|index| &self.rule.members[index]).filter(|member| member.required);
            let paid = required.map_or(Some(0), |member| self.machine.member(member, depth))?;
            return Some(self.top.own - paid);
        }
        let skipped = |other: usize| self.is_skipped(index, other);
        let names = SeenNames { rule: self.id, seen: self.names, taken };
        self.machine.after_member(names, skipped, (self.members + 1, pending), depth)
    }

    /// Reports whether the declared member `other` may not come after the member `chosen`, which is
    /// undeclared if `chosen` is `None`.
    pub(super) fn is_skipped(&self, chosen: Option<usize>, other: usize) -> bool {
        match (chosen, self.machine.program.order) {
            (Some(chosen), Order::Declared) => other <= chosen,
            (Some(chosen), Order::Any) => other == chosen || self.machine.has_seen(self.seen, other),
            (None, Order::Declared) => true,
            (None, Order::Any) => self.machine.has_seen(self.seen, other),
        }
    }
}

impl JsonMachine {
    pub(super) fn has_seen(&self, seen: u32, index: usize) -> bool {
        match self.program.order {
            Order::Declared => index < seen as usize,
            Order::Any => self.interner.set_has(seen, index),
        }
    }

    /// Reports whether the declared member at `index` may come next.
    pub(super) fn may_follow(&self, rule: &ObjectRule, (seen, members): (u32, u32), index: usize) -> bool {
        let in_order =
            self.program.order == Order::Any || index <= rule.next_required[seen as usize] as usize;
        let possible = in_order && rule.members[index].node.is_some() && !self.has_seen(seen, index);
        if !possible || rule.groups.is_empty() {
            return possible;
        }
        let out = self.interner.set(members);
        let mut nodes = nodes_of(rule, out, index).into_iter();
        nodes.any(|node| self.out_after(rule, (seen, out), Some((index, node))).is_some())
    }
}
