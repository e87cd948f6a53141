"""Translates XGrammar's EBNF notation to GBNF, the notation that Formwork compiles."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from formwork._native import Grammar
from formwork.compat import _ebnf
from formwork.compat._errors import RefusedGrammar, refusals_as, refuse
from formwork.compat._syntax import (
    Choice,
    Class,
    Dispatch,
    Expr,
    Literal,
    Name,
    Pattern,
    Repeat,
    Row,
    Substring,
    Token,
    TokenDispatch,
    spell,
)

__all__ = ["to_gbnf"]

ROOT = "root"
EMPTY = Row(())

TRIGGERS = 1 << 12
"""Maximum number of characters of all triggers and excluded texts of one dispatch."""

SOURCE = 4 << 20
"""Maximum number of characters of a grammar."""


def to_gbnf(source: str, root: str = ROOT) -> str:
    """Returns a grammar in XGrammar's EBNF as GBNF. `root` names the rule that the output matches.

    Raises `RefusedGrammar` with the line and column if the grammar is malformed or uses something that
    Formwork has no counterpart for.
    """
    if len(source) > SOURCE:
        refuse(f"the grammar has {len(source)} characters, and the limit is {SOURCE}")
    try:
        return _translated(source, root)
    except RecursionError:
        refuse("the grammar is nested too deeply for the stack of this thread")


def _translated(source: str, root: str) -> str:
    rules = _ebnf.parse(source)
    if root not in rules:
        refuse(f"the root rule `{root}` is not defined")
    translator = _Translator(rules)
    translated = {name: translator.plain(expr, name) for name, expr in rules.items()}
    translated |= translator.added
    names = _names(translated, root)
    order = [root, *(name for name in translated if name != root)]
    return "".join(f"{names[name]} ::= {spell(translated[name], names)}\n" for name in order)


def _names(rules: dict[str, Expr], root: str) -> dict[str, str]:
    """Returns the name of each rule in GBNF, which has no points. The root rule is called `root`."""
    names = {root: ROOT}
    used = {ROOT}
    for name in rules:
        if name == root:
            continue
        base = candidate = name.replace(".", "-")
        number = 2
        while candidate in used or (candidate != name and candidate in rules):
            candidate = f"{base}-{number}"
            number += 1
        names[name] = candidate
        used.add(candidate)
    return names


@dataclass
class _Translator:
    """Replaces the macros of a grammar by rules."""

    rules: dict[str, Expr]
    added: dict[str, Expr] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    """The last number in the names of added rules, by the beginning of the name."""

    def plain(self, expr: Expr, rule: str) -> Expr:
        """Returns `expr`, a part of the rule `rule`, without macros."""
        if isinstance(expr, Row):
            return Row(tuple(self.plain(item, rule) for item in expr.items))
        if isinstance(expr, Choice):
            return Choice(tuple(self.plain(option, rule) for option in expr.options))
        if isinstance(expr, Repeat):
            return Repeat(self.plain(expr.item, rule), expr.low, expr.high)
        if isinstance(expr, Dispatch):
            return self.dispatch(expr, rule)
        if isinstance(expr, TokenDispatch):
            return self.token_dispatch(expr, rule)
        if isinstance(expr, Substring):
            return self.substring(expr, rule)
        if isinstance(expr, Pattern):
            return self.pattern(expr, rule)
        return expr

    def reserve(self, rule: str, what: str) -> Name:
        """Adds a rule with a new name made of `rule` and `what`."""
        base = name = f"{rule}-{what}"
        number = self.numbers.get(base, 0)
        while number == 0 or name in self.rules or name in self.added:
            number += 1
            name = f"{base}-{number}"
        self.numbers[base] = number
        self.added[name] = EMPTY
        return Name(name)

    def dispatch(self, expr: Dispatch, rule: str) -> Expr:
        """Returns a reference to rules for the states of an automaton that searches for the triggers.

        Each state is a beginning of a trigger or of an excluded text that the free text ends with.
        """
        for excluded in expr.excludes:
            for trigger, _ in expr.rules:
                if trigger.startswith(excluded):
                    refuse(f"the excluded text {excluded!r} begins the trigger {trigger!r}")
        states = _States([trigger for trigger, _ in expr.rules], list(expr.excludes))
        names: dict[int, Name] = {}
        for state in states.free():
            names[state] = self.reserve(rule, "text")
        for state, name in names.items():
            options: list[Expr] = [EMPTY]
            moved: list[tuple[int, int]] = []
            for c, (target, fired) in sorted(states.moves(state).items()):
                moved.append((ord(c), ord(c)))
                if fired is None and target is not None:
                    options.append(Row((Literal(c), names[target])))
                elif fired is not None:
                    content = expr.rules[fired][1]
                    after = (names[0],) if expr.loop else ()
                    options.append(Row((Literal(c), content, *after)))
            options.append(Row((Class(tuple(moved), negated=True), names[0])))
            self.added[name.name] = Choice(tuple(options))
        return names[0]

    def token_dispatch(self, expr: TokenDispatch, rule: str) -> Expr:
        name = self.reserve(rule, "tokens")
        watched = tuple(token for token, _ in expr.rules) + expr.excludes
        options: list[Expr] = [EMPTY, Row((Token(watched, negated=True), name))]
        for token, content in expr.rules:
            options.append(Row((Token((token,)), content, *((name,) if expr.loop else ()))))
        self.added[name.name] = Choice(tuple(options))
        return name

    def substring(self, expr: Substring, rule: str) -> Expr:
        names = [self.reserve(rule, "chunks") for _ in range(len(expr.chunks) + 1)]
        for chunk, name, after in zip(expr.chunks, names, names[1:]):
            self.added[name.name] = Choice((EMPTY, Row((Literal(chunk), after))))
        return Choice(tuple(names))

    def pattern(self, expr: Pattern, rule: str) -> Expr:
        with refusals_as(RefusedGrammar):
            rules = _ebnf.parse(Grammar.regex(expr.pattern).to_gbnf(), gbnf=True)
        names = {name: self.reserve(rule, "pattern") for name in rules}
        for name, body in rules.items():
            self.added[names[name].name] = _renamed(body, names)
        return names[ROOT]


def _renamed(expr: Expr, names: dict[str, Name]) -> Expr:
    if isinstance(expr, Name):
        return names[expr.name]
    if isinstance(expr, Row):
        return Row(tuple(_renamed(item, names) for item in expr.items))
    if isinstance(expr, Choice):
        return Choice(tuple(_renamed(option, names) for option in expr.options))
    if isinstance(expr, Repeat):
        return Repeat(_renamed(expr.item, names), expr.low, expr.high)
    return expr


class _States:
    """An Aho-Corasick automaton for triggers and excluded texts. State 0 is the empty text."""

    def __init__(self, triggers: list[str], excludes: list[str]) -> None:
        total = sum(map(len, triggers)) + sum(map(len, excludes))
        if total > TRIGGERS:
            refuse(f"triggers and excluded texts have {total} characters, and the limit is {TRIGGERS}")
        self.children: list[dict[str, int]] = [{}]
        self.fail = [0]
        self.fired: list[int | None] = [None]
        self.excluded = [False]
        for index, trigger in enumerate(triggers):
            state = self._insert(trigger)
            if self.fired[state] is not None:
                refuse(f"the trigger {trigger!r} occurs twice")
            self.fired[state] = index
        for text in excludes:
            self.excluded[self._insert(text)] = True
        self._link()

    def _insert(self, text: str) -> int:
        state = 0
        for c in text:
            following = self.children[state].get(c)
            if following is None:
                following = self.children[state][c] = len(self.children)
                self.children.append({})
                self.fail.append(0)
                self.fired.append(None)
                self.excluded.append(False)
            state = following
        return state

    def _link(self) -> None:
        """Sets the longest proper suffix of each state that is a state, breadth first."""
        queue = deque(self.children[0].values())
        while queue:
            state = queue.popleft()
            suffix = self.fail[state]
            self.excluded[state] = self.excluded[state] or self.excluded[suffix]
            if self.fired[state] is None:
                self.fired[state] = self.fired[suffix]
            for c, following in self.children[state].items():
                self.fail[following] = self._target(suffix, c)
                queue.append(following)

    def _target(self, state: int, c: str) -> int:
        while c not in self.children[state] and state:
            state = self.fail[state]
        return self.children[state].get(c, 0)

    def free(self) -> list[int]:
        """Returns the states in which the text is still free, breadth first."""
        found = [0]
        for state in found:
            found += [
                target
                for target in self.children[state].values()
                if self.fired[target] is None and not self.excluded[target]
            ]
        return found

    def moves(self, state: int) -> dict[str, tuple[int | None, int | None]]:
        """Returns the characters that do not lead back to state 0.

        Each character has the state that follows, or None, and the index of the trigger that is complete, or
        None. Both are None if the character would complete an excluded text.
        """
        moves: dict[str, tuple[int | None, int | None]] = {}
        at = state
        while True:
            for c in self.children[at]:
                if c not in moves:
                    target = self.children[at][c]
                    if self.excluded[target]:
                        moves[c] = (None, None)
                    elif self.fired[target] is not None:
                        moves[c] = (None, self.fired[target])
                    else:
                        moves[c] = (target, None)
            if at == 0:
                return moves
            at = self.fail[at]
