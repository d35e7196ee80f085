"""Statements of SQL that change a lake, cut into parts. Expressions and queries stay text, for Spark to read."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from quire.errors import InvalidInput

_TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?\*/)"""
    r"""|(?P<string>[rR]?'(?:[^'\\]|\\.|'')*'|[rR]?"(?:[^"\\]|\\.|"")*")"""
    r"""|(?P<quoted>`(?:[^`]|``)+`)"""
    r"""|(?P<word>[^\W\d]\w*|\d[\w.]*)"""
    r"""|(?P<sign>[<>!=]=|<>|\|\||->|.)""",
    re.DOTALL,
)
QUERIES = ("SELECT", "WITH", "VALUES", "FROM", "TABLE", "(")


@dataclass(frozen=True)
class Token:
    kind: str
    text: str
    start: int
    end: int

    @property
    def word(self) -> str:
        """A keyword in capitals; a name in backticks is none."""
        return "" if self.kind in ("quoted", "string") else self.text.upper()


@dataclass(frozen=True)
class Clause:
    """One WHEN of a MERGE."""

    when: str
    """`matched`, `new` (not matched), or `left` (not matched by source)."""
    condition: str | None
    action: str
    """`update`, `insert` or `delete`."""
    values: dict[str, str] | None = None
    """Expressions by column; None for `SET *` and `INSERT *`."""


@dataclass(frozen=True)
class SqlStatement:
    kind: str
    table: str = ""
    alias: str = ""
    columns: tuple[str, ...] = ()
    values: dict[str, str] = field(default_factory=dict)
    condition: str | None = None
    query: str = ""
    source_alias: str = ""
    clauses: tuple[Clause, ...] = ()
    key: tuple[str, ...] = ()
    says: frozenset[str] = frozenset()
    """Words such as `if exists` that change what the statement does."""


def names(text: str) -> list[str]:
    """Everything in a statement that could name a table, in small letters, as often as it is there."""
    return [_name(token).lower() for token in tokens(text) if token.kind in ("word", "quoted")]


def tokens(text: str) -> list[Token]:
    """The tokens of a statement, without spaces and comments."""
    found = [Token(str(m.lastgroup), m.group(), m.start(), m.end()) for m in _TOKEN.finditer(text)]
    some = [token for token in found if token.kind != "space"]
    while some and some[-1].text == ";":
        some.pop()
    return some


def parsed(text: str) -> SqlStatement:
    """A statement, or `InvalidInput` with the place at which it is none that a lake knows."""
    return _Parser(text).statement()


def _name(token: Token) -> str:
    return token.text[1:-1].replace("``", "`") if token.kind == "quoted" else token.text


class _Parser:
    def __init__(self, text: str) -> None:
        self.text, self.tokens, self.at = text, tokens(text), 0

    # -- tokens -----------------------------------------------------------------------------------------------

    def peek(self, ahead: int = 0) -> str:
        at = self.at + ahead
        return self.tokens[at].word if at < len(self.tokens) else ""

    def take(self, *words: str) -> bool:
        """Go past these words if they come next."""
        if any(self.peek(i) != word for i, word in enumerate(words)):
            return False
        self.at += len(words)
        return True

    def must(self, *words: str) -> None:
        if not self.take(*words):
            self.fail(f"{' '.join(words)} is expected")

    def fail(self, why: str) -> None:
        found = self.tokens[self.at] if self.at < len(self.tokens) else None
        where = f"at {found.text!r}, character {found.start + 1}" if found else "at its end"
        raise InvalidInput(
            f"The statement cannot be read {where}: {why}.",
            next="It runs queries, INSERT, UPDATE, DELETE, MERGE INTO, CREATE, ALTER, DROP and TRUNCATE TABLE.",
            position=found.start if found else len(self.text),
        )

    def name(self) -> str:
        if self.at >= len(self.tokens) or self.tokens[self.at].kind not in ("word", "quoted"):
            self.fail("a name is expected")
        self.at += 1
        found = _name(self.tokens[self.at - 1])
        if self.peek() == ".":
            self.fail("tables of the lake are named by one word, in backticks if need be")
        return found

    def column(self) -> str:
        """The column that is assigned: `c`, `t.c`."""
        self.at += 1
        while self.take("."):
            self.at += 1
        return _name(self.tokens[self.at - 1])

    def alias(self, *ends: str) -> str:
        if self.take("AS"):
            return self.name()
        return self.name() if self.at < len(self.tokens) and self.peek() not in ends else ""

    def until(self, *ends: str) -> str:
        """The text up to one of some words, outside of parentheses and CASE, or to the end."""
        start, depth = self.at, 0
        while self.at < len(self.tokens):
            word = self.peek()
            if depth == 0 and word in ends:
                break
            depth += (word in ("(", "[", "CASE")) - (word in (")", "]", "END"))
            if depth < 0:
                break
            self.at += 1
        if start == self.at:
            self.fail("something is missing here")
        return self.text[self.tokens[start].start : self.tokens[self.at - 1].end]

    def parenthesized(self) -> list[str]:
        """The parts of a list in parentheses, as text."""
        self.must("(")
        parts = [self.until(",")]
        while self.take(","):
            parts.append(self.until(","))
        self.must(")")
        return parts

    def end(self) -> None:
        if self.at < len(self.tokens):
            self.fail("the statement should end here")

    def rest(self) -> str:
        return self.until()

    # -- statements -------------------------------------------------------------------------------------------

    def statement(self) -> SqlStatement:
        if not self.tokens:
            raise InvalidInput("There is no statement.", next="Write one, such as select * from t.")
        if self.peek() in QUERIES:
            return SqlStatement("query", query=self.text[: self.tokens[-1].end])
        for words, read in (
            (("INSERT",), self.insert),
            (("DELETE", "FROM"), self.delete),
            (("UPDATE",), self.update),
            (("MERGE", "INTO"), self.merge),
            (("CREATE",), self.create),
            (("DROP", "TABLE"), self.drop),
            (("TRUNCATE", "TABLE"), lambda: SqlStatement("truncate", self.name())),
            (("ALTER", "TABLE"), self.alter),
        ):
            if self.take(*words):
                found = read()
                self.end()
                return found
        self.fail("no statement for a lake begins so")
        raise AssertionError

    def insert(self) -> SqlStatement:
        says = {"overwrite"} if self.take("OVERWRITE") else set()
        if not says:
            self.must("INTO")
        self.take("TABLE")
        table, condition = self.name(), None
        columns: tuple[str, ...] = ()
        if self.take("BY", "NAME"):
            says.add("by name")
        elif self.peek() == "(" and self.peek(1) not in QUERIES:
            columns = tuple(_name(tokens(part)[0]) for part in self.parenthesized())
        if self.take("REPLACE", "WHERE"):
            condition = self.until(*QUERIES[:-1])
        return SqlStatement(
            "insert", table, columns=columns, condition=condition, query=self.rest(), says=frozenset(says)
        )

    def delete(self) -> SqlStatement:
        table, alias = self.name(), self.alias("WHERE")
        condition = self.rest() if self.take("WHERE") else None
        return SqlStatement("delete", table, alias or table, condition=condition)

    def update(self) -> SqlStatement:
        table, alias = self.name(), self.alias("SET")
        self.must("SET")
        values = self.assignments("WHERE")
        condition = self.rest() if self.take("WHERE") else None
        return SqlStatement("update", table, alias or table, values=values, condition=condition)

    def assignments(self, *ends: str) -> dict[str, str]:
        found: dict[str, str] = {}
        while True:
            column = self.column()
            self.must("=")
            found[column] = self.until(",", *ends)
            if not self.take(","):
                return found

    def merge(self) -> SqlStatement:
        table, alias = self.name(), self.alias("USING")
        self.must("USING")
        source = self.group() if self.peek() == "(" else self.text_of_name()
        source_alias = self.alias("ON") or ("" if source.startswith("(") else source)
        self.must("ON")
        condition = self.until("WHEN")
        clauses = []
        while self.take("WHEN"):
            clauses.append(self.clause())
        if not clauses:
            self.fail("WHEN is expected")
        return SqlStatement(
            "merge",
            table,
            alias or table,
            condition=condition,
            query=source,
            source_alias=source_alias,
            clauses=tuple(clauses),
        )

    def group(self) -> str:
        """The text from a parenthesis to the one that closes it."""
        start, depth = self.at, 0
        while self.at < len(self.tokens):
            depth += (self.peek() == "(") - (self.peek() == ")")
            self.at += 1
            if depth == 0:
                return self.text[self.tokens[start].start : self.tokens[self.at - 1].end]
        self.fail(") is expected")
        raise AssertionError

    def text_of_name(self) -> str:
        start = self.at
        self.at += 1
        while self.take("."):
            self.at += 1
        return self.text[self.tokens[start].start : self.tokens[self.at - 1].end]

    def clause(self) -> Clause:
        when = "new" if self.take("NOT") else "matched"
        self.must("MATCHED")
        if when == "new" and self.take("BY"):
            when = "left" if self.take("SOURCE") else "new"
            if when == "new":
                self.must("TARGET")
        condition = self.until("THEN") if self.take("AND") else None
        self.must("THEN")
        if when != "new" and self.take("DELETE"):
            return Clause(when, condition, "delete")
        if when != "new" and self.take("UPDATE", "SET"):
            if self.take("*"):
                return Clause(when, condition, "update")
            return Clause(when, condition, "update", self.assignments("WHEN"))
        if when == "new" and self.take("INSERT"):
            if self.take("*"):
                return Clause(when, condition, "insert")
            columns = [_name(tokens(part)[-1]) for part in self.parenthesized()]
            self.must("VALUES")
            values = self.parenthesized()
            if len(values) != len(columns):
                self.fail(f"{len(columns)} columns and {len(values)} values")
            return Clause(when, condition, "insert", dict(zip(columns, values, strict=True)))
        self.fail("UPDATE SET, DELETE or INSERT is expected")
        raise AssertionError

    def create(self) -> SqlStatement:
        says = {"or replace"} if self.take("OR", "REPLACE") else set()
        self.must("TABLE")
        if self.take("IF", "NOT", "EXISTS"):
            says.add("if not exists")
        table = self.name()
        parts = self.parenthesized() if self.peek() == "(" else []
        columns, key = [], []
        for part in parts:
            given = tokens(part)
            words = [token.word for token in given]
            if words[:2] == ["PRIMARY", "KEY"]:
                key += [_name(token) for token in given[2:] if token.kind in ("word", "quoted")]
            elif words[-2:] == ["PRIMARY", "KEY"]:
                key.append(_name(given[0]))
                columns.append(part[: given[-2].start].strip())
            else:
                columns.append(part)
        if self.take("USING") and self.name().lower() != "quire":
            self.fail("tables of a lake are made USING quire, or without USING")
        query = self.rest() if self.take("AS") else ""
        if bool(query) == bool(columns):
            self.fail("columns or AS with a query are expected")
        return SqlStatement("create", table, columns=tuple(columns), key=tuple(key), query=query, says=frozenset(says))

    def drop(self) -> SqlStatement:
        says = frozenset({"if exists"} if self.take("IF", "EXISTS") else ())
        return SqlStatement("drop", self.name(), says=says)

    def alter(self) -> SqlStatement:
        table = self.name()
        if self.take("RENAME", "TO"):
            return SqlStatement("rename table", table, alias=self.name())
        if self.take("RENAME", "COLUMN"):
            old = self.name()
            self.must("TO")
            return SqlStatement("rename column", table, columns=(old, self.name()))
        for verb in ("ADD", "DROP"):
            if self.take(verb, "COLUMNS") or self.take(verb, "COLUMN"):
                parts = self.parenthesized() if self.peek() == "(" else [self.until(",")]
                return SqlStatement(f"{verb.lower()} columns", table, columns=tuple(parts))
        self.fail("ADD, DROP or RENAME COLUMN, or RENAME TO, is expected")
        raise AssertionError
