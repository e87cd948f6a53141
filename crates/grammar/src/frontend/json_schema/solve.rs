//! What can be satisfied, in how few bytes, and the program that is left.

use rustc_hash::{FxHashMap, FxHashSet};

use super::Problem;
use super::build::{Draft, DraftNode, DraftObject};
use super::options::SchemaOptions;
use crate::error::{GrammarError, SchemaProblem};
use crate::limits::Limits;
use crate::machine::json::cost::Cost;
use crate::machine::json::layout::Spacing;
use crate::machine::json::number::{NumberDfa, NumberRule};
use crate::machine::json::program::{ArrayRule, JsonProgram, Member, Node, NodeId, ObjectRule, TextRule};
use crate::machine::json::shortest_spelling;
use crate::machine::json::trie::Trie;

/// Turns the graph into a program, or reports that nothing satisfies the root or that branches of a `oneOf` overlap.
pub(super) fn solve(
    draft: Draft,
    root: NodeId,
    options: SchemaOptions,
    limits: &Limits,
) -> Result<JsonProgram, GrammarError> {
    let program = JsonProgram {
        nodes: Vec::with_capacity(draft.nodes.len()),
        root,
        numbers: Vec::new(),
        texts: Vec::new(),
        words: Vec::new(),
        arrays: Vec::new(),
        objects: Vec::new(),
        spacing: Spacing::new(options.layout, options.profile),
        profile: options.profile,
        order: options.order,
    };
    let mut solver =
        Solver { program, limits, automata: FxHashMap::default(), texts: FxHashMap::default(), states: 0 };
    for node in &draft.nodes {
        solver.add_scalars(node)?;
    }
    solver.find_costs(&draft);
    for (id, node) in draft.nodes.into_iter().enumerate() {
        solver.add_containers(id, node)?;
    }
    let Solver { program, .. } = solver;
    if program.nodes[root as usize].cost.is_none() {
        return Err(Problem::new("", "schema", SchemaProblem::Unsatisfiable).into());
    }
    let reached = reached(&program);
    for (owner, pair, pointer) in draft.exclusions {
        if reached.contains(&owner) && !program.nodes[pair as usize].cost.is_none() {
            let reason = "a value may satisfy two branches at once, which cannot be kept out";
            let problem = SchemaProblem::UnsupportedForm { reason };
            return Err(Problem::new(&pointer, "oneOf", problem).into());
        }
    }
    Ok(program)
}

/// The nodes that some text leads to.
fn reached(program: &JsonProgram) -> FxHashSet<NodeId> {
    let mut reached = FxHashSet::from_iter([program.root]);
    let mut todo = vec![program.root];
    while let Some(node) = todo.pop() {
        let node = &program.nodes[node as usize];
        let arrays = node.arrays.iter().map(|&rule| &program.arrays[rule as usize]);
        let items = arrays.flat_map(|rule| rule.prefix.iter().copied().chain(rule.rest));
        let objects = node.objects.iter().map(|&rule| &program.objects[rule as usize]);
        let members = objects
            .flat_map(|rule| rule.members.iter().filter_map(|member| member.node).chain(rule.additional));
        todo.extend(items.chain(members).filter(|&child| reached.insert(child)));
    }
    reached
}

struct Solver<'a> {
    program: JsonProgram,
    limits: &'a Limits,
    automata: FxHashMap<Vec<NumberRule>, Option<u32>>,
    texts: FxHashMap<TextRule, u32>,
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
    fn add_scalars(&mut self, draft: &DraftNode) -> Result<(), GrammarError> {
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
        let free = TextRule { min: 0, max: None };
        let texts = if draft.texts.contains(&free) { std::slice::from_ref(&free) } else { &draft.texts[..] };
        for text in texts {
            node.texts.push(self.text(text));
            node.cost.or(&Cost::new(text.min.saturating_add(2), b'"'));
        }
        if !draft.words.is_empty() && *texts != [TextRule { min: 0, max: None }] {
            let mut words: Vec<&str> = draft.words.iter().map(String::as_str).collect();
            words.sort_unstable();
            words.dedup();
            let trie = Trie::new(words.into_iter());
            self.spend(trie.len())?;
            node.cost.or(&Cost::new(trie.node(0).nearest().len.saturating_add(1), b'"'));
            node.words = Some(self.program.words.len() as u32);
            self.program.words.push(trie);
        }
        self.program.nodes.push(node);
        Ok(())
    }

    fn number(&mut self, rules: &[NumberRule]) -> Result<Option<u32>, GrammarError> {
        // A rule without any bound makes all others superfluous.
        let any = rules.contains(&NumberRule::ANY).then_some(std::slice::from_ref(&NumberRule::ANY));
        let rules = any.unwrap_or(rules);
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
    fn find_costs(&mut self, draft: &Draft) {
        loop {
            let mut changed = false;
            for (id, node) in draft.nodes.iter().enumerate().rev() {
                let mut cost = self.program.nodes[id].cost.clone();
                for array in &node.arrays {
                    cost.or(&self.array_cost(array));
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
                return;
            }
        }
    }

    fn cost(&self, node: NodeId) -> &Cost {
        &self.program.nodes[node as usize].cost
    }

    /// The number of items that can follow one another.
    fn most_items(&self, array: &ArrayRule) -> Option<u32> {
        let possible = |node: &NodeId| !self.cost(*node).is_none();
        let prefix = array.prefix.iter().take_while(|node| possible(node)).count();
        let open = prefix == array.prefix.len() && array.rest.as_ref().is_some_and(possible);
        let most = if open { None } else { Some(prefix as u32) };
        [most, array.max].into_iter().flatten().min()
    }

    fn array_cost(&self, array: &ArrayRule) -> Cost {
        if array.min == 0 {
            return Cost::new(2, b'[');
        }
        if self.most_items(array).is_some_and(|most| most < array.min) {
            return Cost::NONE;
        }
        let spacing = &self.program.spacing;
        let comma = Cost::new(1, b',').and(&spacing.after_comma_cost(1));
        let mut cost = Cost::new(1, b'[').and(&spacing.bracket_cost(1)).and(&comma.times(array.min - 1));
        let prefix = array.prefix.len().min(array.min as usize);
        for &node in &array.prefix[..prefix] {
            cost = cost.and(&self.cost(node).indented());
        }
        if let Some(rest) = array.rest.filter(|_| array.min as usize > prefix) {
            cost = cost.and(&self.cost(rest).indented().times(array.min - prefix as u32));
        }
        cost.and(&spacing.bracket_cost(0)).and(&Cost::new(1, b']'))
    }

    fn object_cost(&self, object: &DraftObject) -> Cost {
        let required: Vec<_> = object.members.iter().filter(|(.., required)| *required).collect();
        let missing = (object.min as usize).saturating_sub(required.len());
        let count = required.len() + missing;
        if object.max.is_some_and(|max| count > max as usize) {
            return Cost::NONE;
        }
        if count == 0 {
            return Cost::new(2, b'{');
        }
        let spacing = &self.program.spacing;
        let mut cost = Cost::new(1, b'{').and(&spacing.bracket_cost(1));
        for (name, node, _) in required {
            cost = cost.and(&self.member_cost(name_len(name), *node));
        }
        let comma = Cost::new(1, b',').and(&spacing.after_comma_cost(1));
        cost = cost.and(&comma.times(count as u32 - 1));
        cost = cost.and(&self.cheapest_members(object, missing));
        cost.and(&spacing.bracket_cost(0)).and(&Cost::new(1, b'}'))
    }

    /// The least cost of some members that are not required.
    fn cheapest_members(&self, object: &DraftObject, missing: usize) -> Cost {
        let mut optional: Vec<_> = object.members.iter().filter(|(.., required)| !required).collect();
        optional.retain(|(_, node, _)| !self.cost(*node).is_none());
        let open = !self.cost(object.additional).is_none();
        let most = optional.len() + usize::from(open);
        if missing > most && !open {
            return Cost::NONE;
        }
        // More undeclared members than one are refused later, if the object is still in the program then.
        let missing = missing.min(most);
        let mut best = vec![Cost::NONE; missing + 1];
        best[0] = Cost::new(0, b'"');
        let other = self.member_cost(self.other_name_len(object), object.additional);
        let costs = optional.iter().map(|(name, node, _)| self.member_cost(name_len(name), *node));
        for cost in costs.chain(open.then_some(other)) {
            for chosen in (0..missing).rev() {
                let with = best[chosen].and(&cost);
                best[chosen + 1].or(&with);
            }
        }
        best.swap_remove(missing)
    }

    fn other_name_len(&self, object: &DraftObject) -> u32 {
        if object.min == 0 || self.cost(object.additional).is_none() {
            return 0;
        }
        names(object).node(0).outside().len - 1
    }

    fn member_cost(&self, name_len: u32, node: NodeId) -> Cost {
        let colon = Cost::new(name_len.saturating_add(3), b'"').and(&self.program.spacing.after_colon_cost());
        colon.and(&self.cost(node).indented())
    }

    /// Completes a node with the arrays and objects that can be satisfied.
    fn add_containers(&mut self, id: usize, draft: DraftNode) -> Result<(), GrammarError> {
        for mut array in draft.arrays {
            array.max = self.most_items(&array);
            if array.max.is_some_and(|max| max < array.min) {
                continue;
            }
            if let Some(max) = array.max {
                array.prefix.truncate(max as usize);
                array.rest = array.rest.filter(|_| array.prefix.len() < max as usize);
            }
            self.program.nodes[id].arrays.push(self.program.arrays.len() as u32);
            self.program.arrays.push(array);
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
        let additional = possible(object.additional);
        if object.min > 1 && additional.is_some() {
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
        Ok(ObjectRule { members, additional, min: object.min, max: object.max, names, next_required })
    }
}

fn names(object: &DraftObject) -> Trie {
    Trie::new(object.members.iter().map(|(name, ..)| name.as_str()))
}

fn name_len(name: &str) -> u32 {
    name.chars().map(|c| shortest_spelling(c).len).sum()
}
