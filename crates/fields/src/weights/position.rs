//! Position in an output that is read byte by byte, with the shares of the weighted choices so far.

use std::sync::Arc;

use super::plan::{Follower, Part, Plan, Set};

/// Position in a JSON text. Cloning must be cheap, because a clone reads each candidate token.
#[derive(Clone, Default)]
pub(super) struct Position {
    at: At,
    open: Option<Arc<Open>>,
    /// Sum of the logarithms of the shares of all completed choices. `current` is the logarithm of
    /// the share of the unfinished choice, or 0.
    over: f64,
    current: f64,
}

/// Open object or list, with the container around it in `within`.
struct Open {
    within: Option<Arc<Self>>,
    container: Container,
}

#[derive(Clone)]
enum Container {
    /// Candidates for the object, which are the nodes that are still possible, and the name of the
    /// current member as JSON text.
    Object(Set, Arc<[u8]>),
    /// Nodes that are possible for an item of the list.
    Array(Set),
}

#[derive(Clone, Default)]
enum At {
    /// Before a value, with the nodes that are possible for the value.
    Value(Set),
    /// In a string, number, `true` or `false`.
    Literal(Literal),
    /// Before a member name or the end of an object.
    Member,
    /// In a member name. The bytes are the name so far, including the opening quote.
    Name(Vec<u8>, Escape),
    /// Between a member name and its colon. The bytes are the name, including both quotes.
    Colon(Vec<u8>),
    /// After a value.
    After,
    /// After a byte that does not match the definition. No later byte leaves this state.
    #[default]
    Lost,
}

#[derive(Clone)]
struct Literal {
    set: Set,
    is_string: bool,
    escape: Escape,
    /// Bytes of the value so far. `None` if no choice or constant is possible.
    text: Option<Vec<u8>>,
    /// Share of the options that begin with the value's first byte, if this byte excluded all other
    /// kinds. Otherwise 1. All shares of the choice are divided by this value, because weights
    /// decide between the options of a choice, not between kinds.
    left: f64,
}

/// Position relative to a backslash in a string: `Yes` directly after a backslash that starts an
/// escape.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Escape {
    No,
    Yes,
}

impl Escape {
    /// Reads the next byte of a string. Returns true if the byte is the closing quote.
    fn closes(&mut self, byte: u8) -> bool {
        let closes = *self == Self::No && byte == b'"';
        *self = if *self == Self::No && byte == b'\\' { Self::Yes } else { Self::No };
        closes
    }
}

impl Position {
    pub(super) fn start(plan: &Plan) -> Self {
        Self { at: At::Value(Arc::clone(&plan.root)), ..Self::default() }
    }

    /// Returns the logarithm of the product of all shares so far. A token's bias is the increase of
    /// this value.
    pub(super) fn log_share(&self) -> f64 {
        self.over + self.current
    }

    pub(super) const fn is_lost(&self) -> bool {
        matches!(self.at, At::Lost)
    }

    /// Reports whether a weighted choice may begin with the next byte, or is unfinished.
    pub(super) fn is_weighted(&self, plan: &Plan) -> bool {
        match &self.at {
            At::Value(set) => set.iter().any(|&id| plan.weighted(&[id]).is_some()),
            At::Literal(scalar) => {
                // The byte after a number or boolean may decide about the next member.
                plan.weighted(&scalar.set).is_some() || (!scalar.is_string && self.followers(plan).is_some())
            }
            At::Member | At::Name(..) | At::After => self.followers(plan).is_some(),
            At::Colon(_) | At::Lost => false,
        }
    }

    /// Returns what may follow the last member of the open object, with probabilities. Returns
    /// `None` if no weight decides, or if several objects remain possible.
    fn followers<'p>(&self, plan: &'p Plan) -> Option<Vec<Follower<'p>>> {
        let Container::Object(objects, name) = &self.open.as_ref()?.container else { return None };
        let object = plan.object(objects)?;
        object.followers(if name.is_empty() { None } else { Some(object.index(name)?) })
    }

    /// Updates the share of the decision about the next member. `is_left` selects the members that
    /// remain possible, by name, with `None` for the end of the object. The position becomes lost
    /// if none remains. If `is_final` is true, the decision has been made.
    fn decide(&mut self, plan: &Plan, is_final: bool, is_left: impl Fn(Option<&[u8]>) -> bool) -> bool {
        let Some(followers) = self.followers(plan) else { return true };
        let left = followers.into_iter().filter(|(name, _)| is_left(*name));
        let share: f64 = left.map(|(_, share)| share).sum();
        if share <= 0.0 {
            return false;
        }
        if is_final {
            self.over += share.ln();
            self.current = 0.0;
        } else {
            self.current = share.ln();
        }
        true
    }

    pub(super) fn extend(&mut self, plan: &Plan, bytes: &[u8]) {
        for &byte in bytes {
            self.byte(plan, byte);
        }
    }

    /// Handles the end of the output, which completes an unfinished number, `true` or `false`.
    pub(super) fn end(&mut self, plan: &Plan) {
        if let At::Literal(scalar) = &self.at
            && !scalar.is_string
        {
            let scalar = scalar.clone();
            self.finish(plan, &scalar);
        }
    }

    fn byte(&mut self, plan: &Plan, byte: u8) {
        match std::mem::take(&mut self.at) {
            At::Value(set) => self.begin(plan, set, byte),
            At::Literal(scalar) => self.scalar(plan, scalar, byte),
            At::Member => match byte {
                b'"' if self.decide(plan, false, |name| name.is_some()) => {
                    self.at = At::Name(vec![byte], Escape::No);
                }
                b'}' if self.decide(plan, true, |name| name.is_none()) => self.close(),
                b' ' => self.at = At::Member,
                _ => {}
            },
            At::Name(mut name, mut escape) => {
                name.push(byte);
                let is_whole = escape.closes(byte);
                let is_possible = |known: Option<&[u8]>| {
                    known.is_some_and(|known| if is_whole { known == name } else { known.starts_with(&name) })
                };
                if self.decide(plan, is_whole, is_possible) {
                    self.at = if is_whole { At::Colon(name) } else { At::Name(name, escape) };
                }
            }
            At::Colon(name) if byte == b':' => self.value_of(plan, &name),
            At::After => self.after(plan, byte),
            At::Colon(_) | At::Lost => {}
        }
    }

    /// Reads a byte before a value: a space, the first byte of the value, or the end of an empty
    /// list. Line breaks may precede the whole text.
    fn begin(&mut self, plan: &Plan, set: Set, byte: u8) {
        let is_array = |open: &Arc<Open>| matches!(open.container, Container::Array(_));
        match byte {
            b' ' => self.at = At::Value(set),
            b'\n' if self.open.is_none() => self.at = At::Value(set),
            b']' if self.open.as_ref().is_some_and(is_array) => self.close(),
            b'{' => {
                let objects = self.kept(plan, &set, |node| matches!(node, Part::Object(_)));
                self.enter(Container::Object(objects, Arc::default()), At::Member);
            }
            b'[' => {
                let arrays = self.kept(plan, &set, |node| matches!(node, Part::Array(_)));
                let items = union(plan, &arrays, |node| match node {
                    Part::Array(items) => Some(items),
                    _ => None,
                });
                self.enter(Container::Array(Arc::clone(&items)), At::Value(items));
            }
            _ => {
                let literals = self.kept(plan, &set, |node| may_begin(node, byte));
                let tells = literals.iter().any(|&id| matches!(plan.node(id), Part::Choice(_)));
                let begins = |option: &[u8]| option.first() == Some(&byte);
                let left = match plan.weighted(&literals).filter(|_| set.len() > 1) {
                    Some(options) => options.share(begins),
                    None => 1.0,
                };
                let scalar = Literal {
                    left,
                    set: literals,
                    is_string: byte == b'"',
                    escape: Escape::No,
                    text: tells.then(|| vec![byte]),
                };
                self.go_on(plan, scalar);
            }
        }
    }

    fn scalar(&mut self, plan: &Plan, mut scalar: Literal, byte: u8) {
        if !scalar.is_string && matches!(byte, b',' | b'}' | b']' | b' ') {
            self.finish(plan, &scalar);
            if matches!(self.at, At::After) {
                self.after(plan, byte);
            }
            return;
        }
        if let Some(text) = &mut scalar.text {
            text.push(byte);
        }
        if scalar.is_string && scalar.escape.closes(byte) {
            self.finish(plan, &scalar);
        } else {
            self.go_on(plan, scalar);
        }
    }

    /// Updates the share of an unfinished value. The position becomes lost if no option of a
    /// weighted choice begins with the value so far.
    fn go_on(&mut self, plan: &Plan, scalar: Literal) {
        if let (Some(options), Some(text)) = (plan.weighted(&scalar.set), &scalar.text) {
            let share = options.share(|option| option.starts_with(text));
            if share <= 0.0 {
                return;
            }
            self.current = (share / scalar.left).ln();
        }
        self.at = At::Literal(scalar);
    }

    /// Completes a value. Removes the candidates for the open object that do not allow this value
    /// for the current member.
    fn finish(&mut self, plan: &Plan, scalar: &Literal) {
        self.at = At::After;
        let Some(text) = &scalar.text else { return };
        if let Some(options) = plan.weighted(&scalar.set) {
            let share = options.share(|option| option == text);
            if share <= 0.0 {
                self.at = At::Lost;
                return;
            }
            self.over += (share / scalar.left).ln();
            self.current = 0.0;
        }
        let first = text.first().copied().unwrap_or_default();
        self.narrow(plan, |node| match node {
            Part::Choice(options) => options.has(text),
            node => may_begin(node, first),
        });
    }

    fn value_of(&mut self, plan: &Plan, name: &[u8]) {
        let Some(open) = self.open.take() else { return };
        let Container::Object(objects, _) = &open.container else { return };
        let member = |node: &'_ Part| member_of(node, name).is_some();
        let objects: Set = objects.iter().copied().filter(|&id| member(plan.node(id))).collect();
        let values = union(plan, &objects, |node| member_of(node, name));
        self.open.clone_from(&open.within);
        self.enter(Container::Object(objects, name.into()), At::Value(values));
    }

    /// Returns the nodes of `set` that satisfy `is_kept`. Removes the candidates for the open object
    /// whose current member has no such node.
    fn kept(&mut self, plan: &Plan, set: &Set, is_kept: impl Fn(&Part) -> bool) -> Set {
        self.narrow(plan, &is_kept);
        set.iter().copied().filter(|&id| is_kept(plan.node(id))).collect()
    }

    /// Removes the candidates for the open object whose current member has no node that satisfies
    /// `may_be`.
    fn narrow(&mut self, plan: &Plan, may_be: impl Fn(&Part) -> bool) {
        let Some(open) = &self.open else { return };
        let Container::Object(objects, name) = &open.container else { return };
        if objects.len() < 2 {
            return;
        }
        let has = |id: &usize| {
            member_of(plan.node(*id), name).is_some_and(|set| set.iter().any(|&id| may_be(plan.node(id))))
        };
        let container = Container::Object(objects.iter().copied().filter(has).collect(), Arc::clone(name));
        self.open = Some(Arc::new(Open { within: open.within.clone(), container }));
    }

    fn enter(&mut self, container: Container, at: At) {
        self.open = Some(Arc::new(Open { within: self.open.take(), container }));
        self.at = at;
    }

    fn close(&mut self) {
        self.open = self.open.take().and_then(|open| open.within.clone());
        self.at = At::After;
    }

    #[allow(clippy::collapsible_match, reason = "a guard cannot change the position")]
    fn after(&mut self, plan: &Plan, byte: u8) {
        self.at = At::Lost;
        match (byte, self.open.as_ref().map(|open| &open.container)) {
            (b' ', _) => self.at = At::After,
            (b',', Some(Container::Object(..))) => {
                if self.decide(plan, false, |name| name.is_some()) {
                    self.at = At::Member;
                }
            }
            (b',', Some(Container::Array(items))) => self.at = At::Value(Arc::clone(items)),
            (b'}' | b']', Some(_)) => {
                if self.decide(plan, true, |name| name.is_none()) {
                    self.close();
                }
            }
            _ => {}
        }
    }
}

/// Returns the nodes that are possible for the member `name`. Returns `None` if the node is not an
/// object or has no such member.
fn member_of<'p>(node: &'p Part, name: &[u8]) -> Option<&'p Set> {
    match node {
        Part::Object(object) => object.member(name),
        _ => None,
    }
}

/// Returns the union of the sets that `lead` returns for the nodes.
fn union<'p>(plan: &'p Plan, nodes: &[usize], lead: impl Fn(&'p Part) -> Option<&'p Set>) -> Set {
    let sets: Vec<&Set> = nodes.iter().filter_map(|&id| lead(plan.node(id))).collect();
    if let [only] = sets.as_slice() {
        return Arc::clone(only);
    }
    let mut all: Vec<usize> = sets.into_iter().flat_map(|set| set.iter().copied()).collect();
    all.sort_unstable();
    all.dedup();
    all.into()
}

/// Reports whether a string, number or boolean of the kind `node` may begin with `byte`.
fn may_begin(node: &Part, byte: u8) -> bool {
    match node {
        Part::Text => byte == b'"',
        Part::Number => byte == b'-' || byte.is_ascii_digit(),
        Part::Boolean => matches!(byte, b't' | b'f'),
        Part::Choice(options) => options.begins(byte),
        Part::Object(_) | Part::Array(_) => false,
    }
}
