//! What can be satisfied, in how few bytes, and the program that is left.

use rustc_hash::{FxHashMap, FxHashSet};

use super::Problem;
use super::build::{Draft, DraftArray, DraftNode, DraftObject, Overlap};
use super::conjoin::StringSet;
use super::options::SchemaOptions;
use super::read::Strings;
use crate::error::{GrammarError, SchemaProblem};
use crate::limits::Limits;
use crate::machine::json::cost::Cost;
use crate::machine::json::layout::Spacing;
use crate::machine::json::number::{NumberDfa, NumberRule};
use crate::machine::json::program::{
    ArrayRule, Counts, FREE, JsonProgram, LanguageRule, Member, Node, NodeId, ObjectRule, TextRule, Way,
};
use crate::machine::json::shortest_spelling;
use crate::machine::json::trie::Trie;
use crate::regular::{ExprId, Expressions};

/// The graph turned into a program.
pub(super) enum Solved {
    Program(JsonProgram),
    /// Some branches of `oneOf`s have values in common: the graph has to be built again with each keeping out the others.
    Overlapping(Vec<Overlap>),
}

/// Turns the graph into a program, or reports that nothing satisfies the root.
pub(super) fn solve(
    mut draft: Draft,
    mut strings: Strings,
    root: NodeId,
    options: SchemaOptions,
    limits: &Limits,
) -> Result<Solved, GrammarError> {
    let program = JsonProgram {
        nodes: Vec::with_capacity(draft.nodes.len()),
        root,
        numbers: Vec::new(),
        texts: vec![TextRule::ANY],
        words: Vec::new(),
        languages: std::mem::take(&mut draft.languages),
        language_rules: Vec::new(),
        arrays: Vec::new(),
        objects: Vec::new(),
        spacing: Spacing::new(options.layout, options.profile),
        profile: options.profile,
        order: options.order,
    };
    let mut solver = Solver {
        program,
        limits,
        automata: FxHashMap::default(),
        texts: FxHashMap::from_iter([(TextRule::ANY, FREE)]),
        languages: FxHashMap::default(),
        states: 0,
    };
    for node in &draft.nodes {
        let place = node.place.and_then(|atom| strings.places.get(&atom)).cloned().unwrap_or_default();
        solver.add_scalars(node, &mut strings).map_err(|error| error.at(&place))?;
    }
    solver.find_costs(&draft)?;
    for (id, node) in draft.nodes.into_iter().enumerate() {
        solver.add_containers(id, node)?;
    }
    let Solver { program, .. } = solver;
    if program.nodes[root as usize].cost.is_none() {
        return Err(Problem::new("", "schema", SchemaProblem::Unsatisfiable).into());
    }
    let reached = reached(&program);
    let overlapping = draft
        .exclusions
        .into_iter()
        .filter(|(owner, pair, _)| reached.contains(owner) && !program.nodes[*pair as usize].cost.is_none());
    let overlapping: Vec<_> = overlapping.map(|(_, _, overlap)| overlap).collect();
    if overlapping.is_empty() { Ok(Solved::Program(program)) } else { Ok(Solved::Overlapping(overlapping)) }
}

/// The most states of one language of strings, so that no pattern takes long.
pub(super) const LANGUAGE_STATES: usize = 1 << 14;

/// The nodes that some text leads to.
fn reached(program: &JsonProgram) -> FxHashSet<NodeId> {
    let mut reached = FxHashSet::from_iter([program.root]);
    let mut todo = vec![program.root];
    while let Some(node) = todo.pop() {
        let node = &program.nodes[node as usize];
        let arrays = node.arrays.iter().map(|&rule| &program.arrays[rule as usize]);
        let items =
            arrays.flat_map(|rule| rule.prefix.iter().flatten().chain(&rule.rest)).map(|way| way.node);
        let objects = node.objects.iter().map(|&rule| &program.objects[rule as usize]);
        let members = objects.flat_map(|rule| {
            let others = rule.others.iter().flatten().map(|way| way.node);
            rule.members.iter().filter_map(|member| member.node).chain(others)
        });
        todo.extend(items.chain(members).filter(|&child| reached.insert(child)));
    }
    reached
}

struct Solver<'a> {
    program: JsonProgram,
    limits: &'a Limits,
    automata: FxHashMap<Vec<NumberRule>, Option<u32>>,
    texts: FxHashMap<TextRule, u32>,
    languages: FxHashMap<ExprId, Option<u32>>,
    states: usize,
}

impl Solver<'_> {
    fn spend(&mut self, states: usize) -> Result<(), GrammarError> {
        self.states += states;
        if self.states > self.limits.states {
            return Err(GrammarError::limit("automaton states", self.states, self.limits.states));
        }
        Ok(())
    }

    /// Adds a node with all but its arrays and objects.
    fn add_scalars(&mut self, draft: &DraftNode, strings: &mut Strings) -> Result<(), GrammarError> {
        let mut node = Node { null: draft.null, bools: draft.bools, ..Node::default() };
        let scalars = [(draft.null, 4, b'n'), (draft.bools[0], 5, b'f'), (draft.bools[1], 4, b't')];
        for (_, bytes, first) in scalars.iter().filter(|(present, ..)| *present) {
            node.cost.or(&Cost::new(*bytes, *first));
        }
        node.number = self.number(&draft.numbers)?;
        if let Some(number) = node.number {
            let (bytes, first) = self.program.numbers[number as usize].closing(0);
            node.cost.or(&Cost::new(bytes, first));
        }
        self.add_strings(draft, &mut node, strings)?;
        self.program.nodes.push(node);
        Ok(())
    }

    fn add_strings(
        &mut self,
        draft: &DraftNode,
        node: &mut Node,
        strings: &mut Strings,
    ) -> Result<(), GrammarError> {
        let plain = |text: &&StringSet| text.language == Expressions::EVERYTHING;
        if draft.texts.iter().filter(plain).any(|text| text.length == TextRule::ANY) {
            node.texts.push(FREE);
            node.cost.or(&Cost::new(2, b'"'));
            return Ok(());
        }
        for text in draft.texts.iter().filter(plain) {
            node.texts.push(self.text(&text.length));
            node.cost.or(&Cost::new(text.length.min.saturating_add(2), b'"'));
        }
        // The least length is part of the language; the greatest is counted, for it may be large.
        let mut languages: Vec<(Option<u32>, Vec<ExprId>)> = Vec::new();
        for text in draft.texts.iter().filter(|text| !plain(text)) {
            let language = strings.at_least(text.language, text.length.min);
            match languages.iter_mut().find(|(max, _)| *max == text.length.max) {
                Some((_, all)) => all.push(language),
                None => languages.push((text.length.max, vec![language])),
            }
        }
        for (max, all) in languages {
            let language = strings.expressions.any_of(all);
            if let Some((rule, cost)) = self.language_rule(language, max, strings)? {
                node.languages.push(rule);
                node.cost.or(&cost);
            }
        }
        if !draft.words.is_empty() {
            let mut words: Vec<&str> = draft.words.iter().map(String::as_str).collect();
            words.sort_unstable();
            words.dedup();
            let trie = Trie::new(words.into_iter());
            self.spend(trie.len())?;
            node.cost.or(&Cost::new(trie.node(0).nearest().len.saturating_add(1), b'"'));
            node.words = Some(self.program.words.len() as u32);
            self.program.words.push(trie);
        }
        Ok(())
    }

    /// The rule for strings of a language and at most some length, and what the shortest costs, if there are such strings.
    fn language_rule(
        &mut self,
        language: ExprId,
        max: Option<u32>,
        strings: &mut Strings,
    ) -> Result<Option<(u32, Cost)>, GrammarError> {
        let Some(language) = self.language(language, strings)? else { return Ok(None) };
        let texts = &self.program.languages[language as usize];
        let start = texts.dfa().start();
        let max = max.filter(|&max| texts.longest().is_none_or(|longest| longest > max));
        let least = match max {
            None => texts.nearest_any(start),
            Some(max) => texts.fewest(start).filter(|&(chars, _)| chars <= max).map(|(_, way)| way),
        };
        let Some(least) = least else { return Ok(None) };
        let free = self.text(&TextRule { min: 0, max });
        let rule = LanguageRule { language, max, free };
        let rules = &mut self.program.language_rules;
        let id = rules.iter().position(|known| *known == rule).unwrap_or(rules.len());
        if id == rules.len() {
            rules.push(rule);
        }
        Ok(Some((id as u32, Cost::new(least.len.saturating_add(1), b'"'))))
    }

    /// The automaton of a language, unless that is empty.
    fn language(&mut self, language: ExprId, strings: &mut Strings) -> Result<Option<u32>, GrammarError> {
        if let Some(&known) = self.languages.get(&language) {
            return Ok(known);
        }
        let limit = LANGUAGE_STATES.min(self.limits.states);
        let texts = strings
            .texts(language, limit)
            .map_err(|given| GrammarError::limit("states of a pattern's automaton", given, limit))?;
        self.spend(texts.dfa().len())?;
        let id = texts.nearest_any(texts.dfa().start()).map(|_| self.program.languages.len() as u32);
        if id.is_some() {
            self.program.languages.push(texts);
        }
        self.languages.insert(language, id);
        Ok(id)
    }

    fn number(&mut self, rules: &[NumberRule]) -> Result<Option<u32>, GrammarError> {
        // A rule without any bound makes all others superfluous.
        let any = rules.iter().position(|rule| *rule == NumberRule::ANY);
        let rules = any.map_or(rules, |any| &rules[any..=any]);
        if rules.is_empty() {
            return Ok(None);
        }
        if let Some(&known) = self.automata.get(rules) {
            return Ok(known);
        }
        let limit = self.limits.states.saturating_sub(self.states);
        let automaton = NumberDfa::new(rules, self.program.profile, limit).map_err(|given| {
            GrammarError::limit("automaton states", self.states + given, self.limits.states)
        })?;
        let id = automaton.as_ref().map(|_| self.program.numbers.len() as u32);
        self.spend(automaton.as_ref().map_or(0, NumberDfa::len))?;
        self.program.numbers.extend(automaton);
        self.automata.insert(rules.to_vec(), id);
        Ok(id)
    }

    fn text(&mut self, rule: &TextRule) -> u32 {
        let texts = &mut self.program.texts;
        *self.texts.entry(rule.clone()).or_insert_with(|| {
            texts.push(rule.clone());
            texts.len() as u32 - 1
        })
    }

    /// The least fixpoint of the costs: rounds over all nodes until none gets cheaper. Children mostly come after their
    /// parents, so a round runs backwards and few are needed.
    fn find_costs(&mut self, draft: &Draft) -> Result<(), GrammarError> {
        loop {
            let mut changed = false;
            for (id, node) in draft.nodes.iter().enumerate().rev() {
                let mut cost = self.program.nodes[id].cost.clone();
                for array in &node.arrays {
                    cost.or(&self.array_cost(array)?);
                }
                for object in &node.objects {
                    cost.or(&self.object_cost(object));
                }
                if cost != self.program.nodes[id].cost {
                    self.program.nodes[id].cost = cost;
                    changed = true;
                }
            }
            if !changed {
                return Ok(());
            }
        }
    }

    fn cost(&self, node: NodeId) -> &Cost {
        &self.program.nodes[node as usize].cost
    }

    /// Of some ways to be an item or a member, those that a value satisfies.
    fn possible(&self, ways: &[Way]) -> Vec<Way> {
        ways.iter().copied().filter(|way| !self.cost(way.node).is_none()).collect()
    }

    fn cheapest(&self, ways: &[Way]) -> Cost {
        let mut cost = Cost::NONE;
        for way in ways {
            cost.or(self.cost(way.node));
        }
        cost
    }

    /// The array with what cannot be satisfied cut off, if anything is left.
    fn array(&mut self, array: &DraftArray) -> Result<Option<ArrayRule>, GrammarError> {
        let prefix: Vec<_> =
            array.prefix.iter().map(|ways| self.possible(ways)).take_while(|ways| !ways.is_empty()).collect();
        let open = prefix.len() == array.prefix.len();
        let rest = if open { self.possible(&array.rest) } else { Vec::new() };
        let most = if rest.is_empty() { Some(prefix.len() as u32) } else { None };
        let max = [most, array.max].into_iter().flatten().min();
        let (min, counters) = (array.min, array.counters.clone());
        let mut rule = ArrayRule { prefix, rest, min, max, counters, after: FxHashMap::default() };
        if let Some(max) = rule.max {
            if max < rule.min {
                return Ok(None);
            }
            rule.prefix.truncate(max as usize);
            if rule.prefix.len() == max as usize {
                rule.rest.clear();
            }
        }
        if !rule.counters.is_empty() {
            rule.after = self.after_items(&rule)?;
        }
        Ok(Some(rule))
    }

    /// With counters: from the end of an item, in every state that the array can be in, to the end of the array.
    fn after_items(&mut self, rule: &ArrayRule) -> Result<FxHashMap<(u32, Counts), Cost>, GrammarError> {
        let start = (0, Counts::default());
        let mut states = vec![start];
        let mut edges: Vec<Vec<(usize, Way)>> = Vec::new();
        let mut ids = FxHashMap::from_iter([(start, 0)]);
        while let Some(&(items, counts)) = states.get(edges.len()) {
            let mut out = Vec::new();
            let more = rule.max.is_none_or(|max| items < max);
            for &way in rule.item(items).iter().filter(|_| more) {
                let Some(counts) = rule.raise(counts, way.bits) else { continue };
                let next = (rule.count(items), counts);
                let id = *ids.entry(next).or_insert_with(|| {
                    states.push(next);
                    states.len() - 1
                });
                out.push((id, way));
            }
            edges.push(out);
            self.spend(1)?;
        }
        let spacing = &self.program.spacing;
        let end = spacing.bracket_cost(0).and(&Cost::new(1, b']'));
        let comma = Cost::new(1, b',').and(&spacing.after_comma_cost(1));
        let ends = states.iter().map(|(items, counts)| rule.closable(*items, *counts));
        let mut costs: Vec<_> = ends.map(|ends| if ends { end.clone() } else { Cost::NONE }).collect();
        loop {
            let mut changed = false;
            for at in (0..states.len()).rev() {
                let mut cost = costs[at].clone();
                for &(to, way) in edges[at].iter().filter(|&&(to, _)| to != at) {
                    let item = comma.and(&self.cost(way.node).indented());
                    cost.or(&item.and(&costs[to]));
                }
                changed |= cost != costs[at];
                costs[at] = cost;
            }
            if !changed {
                let states = states.into_iter().zip(costs);
                return Ok(states.filter(|(_, cost)| !cost.is_none()).collect());
            }
        }
    }

    fn array_cost(&mut self, array: &DraftArray) -> Result<Cost, GrammarError> {
        let Some(rule) = self.array(array)? else { return Ok(Cost::NONE) };
        if rule.closable(0, Counts::default()) {
            return Ok(Cost::new(2, b'['));
        }
        let spacing = &self.program.spacing;
        let start = Cost::new(1, b'[').and(&spacing.bracket_cost(1));
        if !rule.counters.is_empty() {
            let mut cost = Cost::NONE;
            for way in rule.item(0) {
                let Some(counts) = rule.raise(Counts::default(), way.bits) else { continue };
                let Some(after) = rule.after.get(&(rule.count(0), counts)) else { continue };
                cost.or(&start.and(&self.cost(way.node).indented()).and(after));
            }
            return Ok(cost);
        }
        let comma = Cost::new(1, b',').and(&spacing.after_comma_cost(1));
        let mut cost = start.and(&comma.times(rule.min - 1));
        let prefix = rule.prefix.len().min(rule.min as usize);
        for ways in &rule.prefix[..prefix] {
            cost = cost.and(&self.cheapest(ways).indented());
        }
        if rule.min as usize > prefix {
            cost = cost.and(&self.cheapest(&rule.rest).indented().times(rule.min - prefix as u32));
        }
        Ok(cost.and(&spacing.bracket_cost(0)).and(&Cost::new(1, b']')))
    }

    fn object_cost(&self, object: &DraftObject) -> Cost {
        let required: Vec<_> = object.members.iter().filter(|(.., required)| *required).collect();
        let covers = if object.obligations == 0 {
            vec![Cost::new(0, b'"')]
        } else {
            let mut covers = self.covers(object);
            covers.insert(0, Cost::NONE);
            covers
        };
        let mut cost = Cost::NONE;
        for (met, cover) in covers.iter().enumerate().filter(|(_, cover)| !cover.is_none()) {
            let missing = (object.min as usize).saturating_sub(required.len() + met);
            let count = required.len() + met + missing;
            if object.max.is_some_and(|max| count > max as usize) {
                continue;
            }
            if count == 0 {
                return Cost::new(2, b'{');
            }
            let spacing = &self.program.spacing;
            let mut one = Cost::new(1, b'{').and(&spacing.bracket_cost(1));
            for (name, node, _) in &required {
                one = one.and(&self.member_cost(name_len(name), *node));
            }
            let comma = Cost::new(1, b',').and(&spacing.after_comma_cost(1));
            one = one.and(&comma.times(count as u32 - 1)).and(cover);
            one = one.and(&self.cheapest_members(object, missing));
            cost.or(&one.and(&spacing.bracket_cost(0)).and(&Cost::new(1, b'}')));
        }
        cost
    }

    /// The least that one, two, … undeclared members cost that meet all obligations together.
    fn covers(&self, object: &DraftObject) -> Vec<Cost> {
        let all = usize::from(object.obligations);
        let mut best = vec![Cost::NONE; all + 1];
        best[0] = Cost::new(0, b'"');
        let mut covers = Vec::new();
        for _ in 0..object.obligations.count_ones() {
            let mut next = vec![Cost::NONE; all + 1];
            for (met, before) in best.iter().enumerate().filter(|(_, before)| !before.is_none()) {
                for meeting in 1..=object.obligations {
                    let other = self.cheapest_other(object, meeting);
                    next[met | usize::from(meeting)].or(&before.and(&other));
                }
            }
            covers.push(next[all].clone());
            best = next;
        }
        covers
    }

    /// The cheapest undeclared member that meets some obligations.
    fn cheapest_other(&self, object: &DraftObject, meeting: u8) -> Cost {
        let mut cost = Cost::NONE;
        for (label, ways) in object.others.iter().enumerate() {
            let ways = ways.iter().filter(|way| meeting & !way.bits == 0 && !self.cost(way.node).is_none());
            let mut ways = ways.peekable();
            if ways.peek().is_none() {
                continue;
            }
            let Some(name) = self.other_name_len(object, label as u32) else { continue };
            for way in ways {
                cost.or(&self.member_cost(name, way.node));
            }
        }
        cost
    }

    fn other_name_len(&self, object: &DraftObject, label: u32) -> Option<u32> {
        let end = match object.labels {
            Some(labels) => {
                let texts = &self.program.languages[labels as usize];
                texts.nearest(texts.dfa().start(), label)?
            }
            None => names(object).node(0).outside(),
        };
        Some(end.len - 1)
    }

    fn is_open(&self, object: &DraftObject) -> bool {
        object.others.iter().flatten().any(|way| !self.cost(way.node).is_none())
    }

    /// The least cost of some members that are not required.
    fn cheapest_members(&self, object: &DraftObject, missing: usize) -> Cost {
        if missing == 0 {
            return Cost::new(0, b'"');
        }
        let mut optional: Vec<_> = object.members.iter().filter(|(.., required)| !required).collect();
        optional.retain(|(_, node, _)| !self.cost(*node).is_none());
        let open = self.is_open(object);
        let most = optional.len() + usize::from(open);
        if missing > most && !open {
            return Cost::NONE;
        }
        // More undeclared members than one are refused later, if the object is still in the program then.
        let missing = missing.min(most);
        let mut best = vec![Cost::NONE; missing + 1];
        best[0] = Cost::new(0, b'"');
        let other = self.cheapest_other(object, 0);
        let costs = optional.iter().map(|(name, node, _)| self.member_cost(name_len(name), *node));
        for cost in costs.chain(open.then_some(other)) {
            for chosen in (0..missing).rev() {
                let with = best[chosen].and(&cost);
                best[chosen + 1].or(&with);
            }
        }
        best.swap_remove(missing)
    }

    fn member_cost(&self, name_len: u32, node: NodeId) -> Cost {
        let colon = Cost::new(name_len.saturating_add(3), b'"').and(&self.program.spacing.after_colon_cost());
        colon.and(&self.cost(node).indented())
    }

    /// Completes a node with the arrays and objects that can be satisfied.
    fn add_containers(&mut self, id: usize, draft: DraftNode) -> Result<(), GrammarError> {
        for array in draft.arrays {
            if self.array_cost(&array)?.is_none() {
                continue;
            }
            let Some(rule) = self.array(&array)? else { continue };
            self.program.nodes[id].arrays.push(self.program.arrays.len() as u32);
            self.program.arrays.push(rule);
        }
        for object in draft.objects {
            if self.object_cost(&object).is_none() {
                continue;
            }
            let rule = self.object(&object)?;
            self.program.nodes[id].objects.push(self.program.objects.len() as u32);
            self.program.objects.push(rule);
        }
        Ok(())
    }

    fn object(&mut self, object: &DraftObject) -> Result<ObjectRule, GrammarError> {
        let possible = |node: NodeId| Some(node).filter(|&node| !self.cost(node).is_none());
        let others: Vec<_> = object.others.iter().map(|ways| self.possible(ways)).collect();
        if object.min > 1 && others.iter().any(|ways| !ways.is_empty()) {
            let reason = "more than one is supported only where all names are declared";
            let problem = SchemaProblem::UnsupportedForm { reason };
            return Err(Problem::new(&object.min_pointer, "minProperties", problem).into());
        }
        let names = names(object);
        let members: Vec<_> = object
            .members
            .iter()
            .map(|(name, node, required)| Member {
                node: possible(*node),
                required: *required,
                name_len: name_len(name),
            })
            .collect();
        let mut next_required = vec![members.len() as u32; members.len() + 1];
        for (at, member) in members.iter().enumerate().rev() {
            next_required[at] = if member.required { at as u32 } else { next_required[at + 1] };
        }
        self.spend(names.len() + members.len())?;
        let DraftObject { labels, obligations, min, max, .. } = *object;
        Ok(ObjectRule { members, others, labels, obligations, min, max, names, next_required })
    }
}

fn names(object: &DraftObject) -> Trie {
    Trie::new(object.members.iter().map(|(name, ..)| name.as_str()))
}

fn name_len(name: &str) -> u32 {
    name.chars().map(|c| shortest_spelling(c).len).sum()
}
