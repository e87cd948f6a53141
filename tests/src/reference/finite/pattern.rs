//! A matcher of regular expressions that tries all possibilities. Supports literals, classes,
//! groups, look-ahead, alternatives, repetition and anchors.

use std::collections::BTreeSet;

/// A parsed regular expression.
enum Node {
    /// One character. If the flag is false, it must be in the list; if true, it must not be in the
    /// list.
    Class(Vec<char>, bool),
    Start,
    End,
    /// A look-ahead. If the flag is true, the look-ahead is negative.
    Ahead(Box<Node>, bool),
    All(Vec<Node>),
    Any(Vec<Node>),
    Repeat(Box<Node>, usize, usize),
}

/// Reports whether `pattern` matches at some position of `text`.
///
/// # Panics
/// Panics if the pattern uses syntax that the module does not support.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let mut parser = Parser { rest: pattern.chars().collect() };
    parser.rest.reverse();
    let node = parser.alternatives();
    assert!(parser.rest.is_empty(), "not a pattern of the reference: {pattern}");
    let text: Vec<char> = text.chars().collect();
    (0..=text.len()).any(|from| !ends(&node, &text, from).is_empty())
}

/// Returns the positions where a match of `node` that begins at `from` can end.
fn ends(node: &Node, text: &[char], from: usize) -> BTreeSet<usize> {
    let here = |holds: bool| if holds { BTreeSet::from([from]) } else { BTreeSet::new() };
    match node {
        Node::Class(chars, negated) => {
            let matched = text.get(from).is_some_and(|c| chars.contains(c) != *negated);
            if matched { BTreeSet::from([from + 1]) } else { BTreeSet::new() }
        }
        Node::Start => here(from == 0),
        Node::End => here(from == text.len()),
        Node::Ahead(node, negated) => here(ends(node, text, from).is_empty() == *negated),
        Node::All(nodes) => nodes.iter().fold(here(true), |froms, node| {
            froms.into_iter().flat_map(|from| ends(node, text, from)).collect()
        }),
        Node::Any(nodes) => nodes.iter().flat_map(|node| ends(node, text, from)).collect(),
        Node::Repeat(node, min, max) => {
            let mut reached = BTreeSet::new();
            let mut froms = here(true);
            // More rounds than `min` plus the number of characters reach no new positions.
            for round in 0..=(*max).min(*min + text.len() + 1) {
                if round >= *min {
                    reached.extend(&froms);
                }
                froms = froms.into_iter().flat_map(|from| ends(node, text, from)).collect();
            }
            reached
        }
    }
}

struct Parser {
    /// Remaining characters in reverse order.
    rest: Vec<char>,
}

impl Parser {
    fn eat(&mut self, c: char) -> bool {
        let eaten = self.rest.last() == Some(&c);
        if eaten {
            self.rest.pop();
        }
        eaten
    }

    fn alternatives(&mut self) -> Node {
        let mut nodes = vec![self.sequence()];
        while self.eat('|') {
            nodes.push(self.sequence());
        }
        Node::Any(nodes)
    }

    fn sequence(&mut self) -> Node {
        let mut nodes = Vec::new();
        while self.rest.last().is_some_and(|c| !['|', ')'].contains(c)) {
            let node = self.item();
            nodes.push(self.repeated(node));
        }
        Node::All(nodes)
    }

    fn item(&mut self) -> Node {
        match self.rest.pop() {
            Some('^') => Node::Start,
            Some('$') => Node::End,
            Some('[') => self.class(),
            Some('(') => {
                let look = self.eat('?').then(|| self.rest.pop());
                let node = self.alternatives();
                assert!(self.eat(')'), "a group is not closed");
                match look.flatten() {
                    Some('=') => Node::Ahead(Box::new(node), false),
                    Some('!') => Node::Ahead(Box::new(node), true),
                    _ => node,
                }
            }
            Some(c) => Node::Class(vec![c], false),
            None => Node::All(Vec::new()),
        }
    }

    fn class(&mut self) -> Node {
        let negated = self.eat('^');
        let mut chars = Vec::new();
        while let Some(c) = self.rest.pop().filter(|&c| c != ']') {
            chars.push(c);
        }
        Node::Class(chars, negated)
    }

    fn repeated(&mut self, node: Node) -> Node {
        let (min, max) = match self.rest.last() {
            Some('*') => (0, usize::MAX),
            Some('+') => (1, usize::MAX),
            Some('?') => (0, 1),
            Some('{') => {
                let mut bounds = String::new();
                while let Some(c) = self.rest.pop().filter(|&c| c != '}') {
                    bounds.push(c);
                }
                let bounds = bounds.trim_start_matches('{');
                let (min, max) = bounds.split_once(',').unwrap_or((bounds, bounds));
                self.rest.push('}');
                (min.parse().unwrap_or(0), max.parse().unwrap_or(usize::MAX))
            }
            _ => return node,
        };
        self.rest.pop();
        Node::Repeat(Box::new(node), min, max)
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn matches_by_trying() {
        let yes =
            [("", "x"), ("b", "abc"), ("^a*$", ""), ("^(ab|b){2}$", "bab"), ("^(?!a)", "b"), ("[^a]", "ab")];
        let no = [
            ("^b", "ab"),
            ("^a+$", ""),
            ("^(ab|b){2}$", "ab"),
            ("^(?!a)", "ab"),
            ("[^a]", "aa"),
            ("a{2,3}", "a"),
        ];
        for (pattern, text) in yes {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in no {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }
}
