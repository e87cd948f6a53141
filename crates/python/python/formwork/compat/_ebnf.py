"""Reads XGrammar's EBNF notation.

The notation is close to GBNF, with these differences:

- A rule may go on in the next line, because the next rule begins with a name and `::=` in a line of its own.
- `\\x` takes any number of hexadecimal digits. More escapes are known, such as `\\a` and `\\0`.
- `[]` matches nothing, and `[^]` matches any character.
- Names may contain points.
- A rule may end with a lookahead `(= …)`, which only helps XGrammar's speed and is ignored.
- `TagDispatch`, `TokenTagDispatch`, `Token`, `ExcludeToken`, `Regex` and `Substring` are macros.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NoReturn

from formwork.compat._errors import refuse
from formwork.compat._syntax import (
    NOTHING,
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
)

__all__ = ["parse"]

NESTING = 100
"""Maximum number of nested groups."""

ESCAPES = {
    "n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "e": "\x1b", "0": "\0",
    "\\": "\\", '"': '"', "'": "'", "/": "/", "?": "?",
}  # fmt: skip

NAME = re.compile(r"[A-Za-z_.\-][A-Za-z0-9_.\-]*")
INTEGER = re.compile(r"-?[0-9]+")
SPACE = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*")
RULE = re.compile(r"[A-Za-z_.\-][A-Za-z0-9_.\-]*(?:[ \t\r\n]|#[^\r\n]*)*::=")
TOKEN = re.compile(r"(!?)<\[([0-9]+)\]>")
MACROS = {"TagDispatch", "TokenTagDispatch", "Token", "ExcludeToken", "Regex", "Substring"}


@dataclass(frozen=True)
class Argument:
    """An argument of a macro: a text, number, truth value, name, or tuple of arguments."""

    value: Any
    at: int
    key: str | None = None


def parse(source: str, *, gbnf: bool = False) -> dict[str, Expr]:
    """Returns the rules of a grammar by their names, in their order.

    With `gbnf`, the source is GBNF that Formwork has written: `\\x` takes two digits, and `.` is any
    character. Raises `RefusedGrammar` with the place of the first error.
    """
    try:
        return _Parser(source, gbnf).rules()
    except RecursionError:
        refuse("the grammar is nested too deeply for the stack of this thread")


class _Parser:
    def __init__(self, source: str, gbnf: bool) -> None:
        self.source = source
        self.gbnf = gbnf
        self.at = 0
        self.depth = 0
        self.names: list[Name] = []

    def rules(self) -> dict[str, Expr]:
        rules: dict[str, Expr] = {}
        self.skip()
        while self.at < len(self.source):
            start = self.at
            name = self.take(NAME)
            if name is None:
                self.fail("expected the name of a rule")
            self.skip()
            if not self.source.startswith("::=", self.at):
                self.fail("expected `::=`")
            if self.source[:start].rpartition("\n")[2].strip():
                self.fail("a rule must begin at the beginning of a line", start)
            if name in rules:
                self.fail(f"rule `{name}` is defined twice", start)
            self.at += 3
            self.skip()
            rules[name] = self.choice()
            if self.source.startswith("(=", self.at):
                self.lookahead()
        for reference in self.names:
            if reference.name not in rules:
                self.fail(f"rule `{reference.name}` is not defined", reference.at)
        return rules

    def choice(self) -> Expr:
        options = [self.row()]
        while self.source.startswith("|", self.at):
            self.at += 1
            self.skip()
            options.append(self.row())
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def row(self) -> Expr:
        items = [self.item()]
        while not self.is_at_end_of_row():
            items.append(self.item())
        return items[0] if len(items) == 1 else Row(tuple(items))

    def is_at_end_of_row(self) -> bool:
        rest = self.source[self.at : self.at + 2]
        if not rest or rest[0] in "|)" or rest == "(=":
            return True
        return RULE.match(self.source, self.at) is not None

    def item(self) -> Expr:
        expr = self.atom()
        self.skip()
        c = self.source[self.at : self.at + 1]
        if c in ("*", "+", "?") and c:
            self.at += 1
            expr = Repeat(expr, 1 if c == "+" else 0, 1 if c == "?" else None)
        elif c == "{":
            expr = self.counted(expr)
        self.skip()
        return expr

    def atom(self) -> Expr:
        c = self.source[self.at : self.at + 1]
        if c == '"':
            return Literal(self.text())
        if c == "[":
            return self.character_class()
        if c == "(" and not self.source.startswith("(=", self.at):
            return self.group()
        if self.gbnf and c == ".":
            self.at += 1
            return Class((), negated=True)
        if self.gbnf and c in "<!" and c:
            return self.token()
        start = self.at
        name = self.take(NAME)
        if name is None:
            self.fail("expected a text in quotes, a class, a group or the name of a rule")
        if name in MACROS and not self.gbnf:
            self.skip()
            return self.macro(name, start)
        reference = Name(name, start)
        self.names.append(reference)
        return reference

    def group(self) -> Expr:
        start = self.at
        self.at += 1
        self.skip()
        if self.source.startswith(")", self.at):
            self.at += 1
            return Row(())
        self.depth += 1
        if self.depth > NESTING:
            self.fail(f"groups are nested deeper than {NESTING} levels", start)
        inner = self.choice()
        self.depth -= 1
        self.close(start, "group")
        return inner

    def lookahead(self) -> None:
        start = self.at
        self.at += 2
        self.skip()
        self.choice()
        self.close(start, "lookahead")
        self.skip()

    def close(self, start: int, what: str) -> None:
        if not self.source.startswith(")", self.at):
            if self.at == len(self.source):
                self.fail(f"this {what} has no `)`", start)
            self.fail("expected `)`")
        self.at += 1

    def counted(self, expr: Expr) -> Expr:
        start = self.at
        self.at += 1
        low = high = self.count()
        if self.source.startswith(",", self.at):
            self.at += 1
            self.skip()
            high = -1 if self.source.startswith("}", self.at) else self.count(lowest=-1)
        if not self.source.startswith("}", self.at):
            self.fail("expected `,` or `}` in a repetition")
        self.at += 1
        if high != -1 and low > high:
            self.fail(f"the repetition {{{low},{high}}} has its bounds in the wrong order", start)
        return Repeat(expr, low, None if high == -1 else high)

    def count(self, lowest: int = 0) -> int:
        self.skip()
        start = self.at
        digits = self.take(INTEGER)
        if digits is None or len(digits) > 10 or int(digits) < lowest:
            self.fail("expected a count", start)
        self.skip()
        return int(digits)

    def text(self) -> str:
        """Reads a text in quotes."""
        start = self.at
        self.at += 1
        read: list[str] = []
        while not self.source.startswith('"', self.at):
            if self.at == len(self.source) or self.source[self.at] in "\r\n":
                self.fail('this text has no closing `"`', start)
            c = self.character(in_class=False)
            if 0xD800 <= ord(c) < 0xE000:
                self.fail("a surrogate is no character of UTF-8", self.at)
            read.append(c)
        self.at += 1
        return "".join(read)

    def character_class(self) -> Expr:
        start = self.at
        self.at += 1
        negated = self.source.startswith("^", self.at)
        self.at += negated
        ranges: list[tuple[int, int]] = []
        while not self.source.startswith("]", self.at):
            low = high = ord(self.class_character(start))
            rest = self.source[self.at : self.at + 2]
            if rest.startswith("-") and not rest.endswith("]") and len(rest) == 2:
                self.at += 1
                high = ord(self.class_character(start))
            if low > high:
                self.fail("the bounds of a range are in the wrong order", start)
            ranges.append((low, high))
        self.at += 1
        if not ranges and not negated:
            return NOTHING
        return Class(tuple(ranges), negated)

    def class_character(self, start: int) -> str:
        if self.at == len(self.source) or self.source[self.at] in "\r\n":
            self.fail("this class has no closing `]`", start)
        return self.character(in_class=True)

    def character(self, *, in_class: bool) -> str:
        start = self.at
        c = self.source[self.at]
        self.at += 1
        if c != "\\":
            return c
        c = self.source[self.at : self.at + 1]
        self.at += 1
        if c in ESCAPES and c:
            return ESCAPES[c]
        if in_class and c in "-[]^" and c:
            return c
        if c and c in "xuU":
            digits = {"x": 2 if self.gbnf else 0, "u": 4, "U": 8}[c]
            found = re.compile(f"[0-9A-Fa-f]{{{digits}}}" if digits else "[0-9A-Fa-f]+").match(
                self.source, self.at
            )
            if found is not None and len(found[0]) <= 8 and int(found[0], 16) <= 0x10FFFF:
                self.at = found.end()
                return chr(int(found[0], 16))
        self.fail(f"unknown escape `{self.source[start : self.at]}`", start)

    def token(self) -> Expr:
        found = TOKEN.match(self.source, self.at)
        if found is None:
            self.fail("expected a token such as `<[7]>`")
        self.at = found.end()
        return Token((int(found[2]),), bool(found[1]))

    def macro(self, name: str, start: int) -> Expr:
        if not self.source.startswith("(", self.at):
            self.fail(f"expected `(` after `{name}`")
        arguments = self.arguments(start)
        plain = [argument for argument in arguments if argument.key is None]
        named = {argument.key: argument for argument in arguments if argument.key is not None}
        if name in ("Token", "ExcludeToken"):
            self.only(named, (), name)
            return self.token_set(plain, name, start)
        if name == "Regex":
            self.only(named, (), name)
            if len(plain) != 1 or not isinstance(plain[0].value, str):
                self.fail("`Regex` takes one text in quotes", start)
            return Pattern(plain[0].value)
        if name == "Substring":
            self.only(named, (), name)
            return Substring(tuple(self.string(argument, start) for argument in plain))
        self.only(named, ("loop_after_dispatch", "excludes"), name)
        return self.dispatch(name, plain, named, start)

    def token_set(self, plain: list[Argument], name: str, start: int) -> Expr:
        ids = tuple(dict.fromkeys(self.token_id(argument, start) for argument in plain))
        if not ids:
            self.fail(f"`{name}` needs the id of a token", start)
        if name == "Token":
            return Token(ids)
        if len(ids) > 1:
            self.fail("`ExcludeToken` with several tokens is not supported; use a structural tag", start)
        return Token(ids, negated=True)

    def dispatch(self, name: str, plain: list[Argument], named: dict[str, Argument], start: int) -> Expr:
        loop = named.get("loop_after_dispatch", Argument(True, start))
        excludes = named.get("excludes", Argument((), start))
        if not isinstance(loop.value, bool):
            self.fail("`loop_after_dispatch` must be true or false", loop.at)
        if not isinstance(excludes.value, tuple):
            self.fail("`excludes` must be a list in parentheses", excludes.at)
        pairs = [self.pair(argument) for argument in plain]
        if name == "TagDispatch":
            rules = tuple((self.trigger(trigger), rule) for trigger, rule in pairs)
            return Dispatch(rules, loop.value, tuple(self.trigger(item) for item in excludes.value))
        token_rules = tuple((self.token_id(trigger, start), rule) for trigger, rule in pairs)
        excluded = tuple(self.token_id(item, start) for item in excludes.value)
        if len(token_rules) + len(excluded) != 1:
            self.fail("`TokenTagDispatch` needs one token; use a structural tag for several", start)
        return TokenDispatch(token_rules, loop.value, excluded)

    def pair(self, argument: Argument) -> tuple[Argument, Name]:
        value = argument.value
        if not isinstance(value, tuple) or len(value) != 2 or not isinstance(value[1].value, Name):
            self.fail("expected a trigger and the name of a rule, in parentheses", argument.at)
        self.names.append(value[1].value)
        return value[0], value[1].value

    def trigger(self, argument: Argument) -> str:
        if not self.string(argument, argument.at):
            self.fail("a trigger or excluded text must not be empty", argument.at)
        return str(argument.value)

    def string(self, argument: Argument, start: int) -> str:
        if not isinstance(argument.value, str):
            self.fail("expected a text in quotes", argument.at or start)
        return argument.value

    def token_id(self, argument: Argument, start: int) -> int:
        value = argument.value
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            self.fail("expected the id of a token, which is not negative", argument.at or start)
        return value

    def only(self, named: dict[str, Argument], known: tuple[str, ...], name: str) -> None:
        for key, argument in named.items():
            if key not in known:
                self.fail(f"`{name}` with `{key}` is not supported", argument.at)

    def arguments(self, start: int) -> list[Argument]:
        """Reads arguments in parentheses."""
        self.at += 1
        self.skip()
        read: list[Argument] = []
        if self.source.startswith(")", self.at):
            self.at += 1
            return read
        while True:
            read.append(self.argument(start))
            self.skip()
            if self.source.startswith(")", self.at):
                self.at += 1
                return read
            if not self.source.startswith(",", self.at):
                self.fail("expected `,` or `)` in arguments")
            self.at += 1
            self.skip()

    def argument(self, start: int) -> Argument:
        at = self.at
        c = self.source[at : at + 1]
        if c == '"':
            return Argument(self.text(), at)
        if c == "(":
            self.depth += 1
            if self.depth > NESTING:
                self.fail(f"groups are nested deeper than {NESTING} levels", start)
            items = tuple(self.arguments(start))
            self.depth -= 1
            return Argument(items, at)
        digits = self.take(INTEGER)
        if digits is not None and len(digits) <= 10:
            return Argument(int(digits), at)
        name = self.take(NAME)
        if name is None:
            self.fail("expected a text, a number, true, false, a name or a list")
        self.skip()
        if self.source.startswith("=", self.at):
            self.at += 1
            self.skip()
            return Argument(self.argument(start).value, at, name)
        if name in ("true", "false"):
            return Argument(name == "true", at)
        return Argument(Name(name, at), at)

    def take(self, pattern: re.Pattern[str]) -> str | None:
        found = pattern.match(self.source, self.at)
        if found is None:
            return None
        self.at = found.end()
        return found[0]

    def skip(self) -> None:
        """Skips white space and comments."""
        found = SPACE.match(self.source, self.at)
        if found is not None:
            self.at = found.end()

    def fail(self, message: str, at: int | None = None) -> NoReturn:
        before = self.source[: self.at if at is None else at]
        refuse(message, line=before.count("\n") + 1, column=len(before) - before.rfind("\n"))
