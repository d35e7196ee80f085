"""Laws of the history checker: right databases pass, broken ones are found out, and it agrees with the definition."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.budget import budget

from quire.testing.history import Anomaly, Op, Transaction, append, check, read

# -- what a serial and a snapshot-isolated database do -----------------------------------------------------------------


@dataclass
class Open:
    id: str
    process: int
    base: int
    start: float
    view: dict[str, tuple[int, ...]]
    ops: list[Op] = field(default_factory=list)
    added: dict[str, list[int]] = field(default_factory=dict)


class Database:
    """Snapshot isolation: the first committer wins."""

    def __init__(self) -> None:
        self.versions: list[dict[str, tuple[int, ...]]] = [dict.fromkeys(KEYS, ())]
        self.history: list[Transaction] = []
        self.values, self.ids, self.clock = itertools.count(1), itertools.count(1), itertools.count(1)

    def begin(self, process: int) -> Open:
        base = len(self.versions) - 1
        return Open(f"t{next(self.ids)}", process, base, float(next(self.clock)), dict(self.versions[base]))

    def do(self, one: Open, verb: str, key: str) -> None:
        if verb == "read":
            one.ops.append(read(key, one.view[key]))
            return
        value = next(self.values)
        one.ops.append(append(key, value))
        one.view[key] = (*one.view[key], value)
        one.added.setdefault(key, []).append(value)

    def end(self, one: Open, outcome: str) -> None:
        now = self.versions[-1]
        clash = any(now[k] != self.versions[one.base][k] for k in one.added)
        lands = not clash and outcome in ("ok", "unknown-landed")
        if lands:
            self.versions.append({k: (*v, *one.added.get(k, ())) for k, v in now.items()})
        status: Any = "unknown" if outcome.startswith("unknown") else "ok" if lands else "fail"
        times = {"start": one.start, "end": float(next(self.clock)), "process": one.process, "fresh": True}
        self.history.append(Transaction(one.id, one.ops, status, **times))

    def last_look(self) -> None:
        reader = self.begin(99)
        for key in KEYS:
            self.do(reader, "read", key)
        self.end(reader, "ok")


KEYS = ("x", "y", "z")
OUTCOMES = st.sampled_from(["ok", "ok", "ok", "ok", "fail", "unknown-landed", "unknown-gone"])
BODY = st.lists(st.tuples(st.sampled_from(["read", "append"]), st.sampled_from(KEYS)), min_size=1, max_size=4)


@st.composite
def serial(draw: st.DrawFn) -> Database:
    database = Database()
    for body in draw(st.lists(BODY, max_size=12)):
        one = database.begin(draw(st.integers(0, 2)))
        for verb, key in body:
            database.do(one, verb, key)
        database.end(one, draw(OUTCOMES))
    database.last_look()
    return database


@st.composite
def snapshot_isolated(draw: st.DrawFn) -> Database:
    database = Database()
    first = database.begin(0)
    database.do(first, "append", "x")
    database.do(first, "append", "y")
    database.end(first, "ok")
    running: dict[int, tuple[Open, list[tuple[str, str]]]] = {}
    for process in draw(st.lists(st.integers(0, 3), max_size=40)):
        if process not in running:
            running[process] = (database.begin(process), draw(BODY))
            continue
        one, body = running[process]
        if body:
            database.do(one, *body.pop(0))
        else:
            del running[process]
            database.end(one, draw(OUTCOMES))
    database.last_look()
    return database


@given(serial())
@settings(deadline=None)
def test_what_a_serial_database_does_is_always_clean(database: Database) -> None:
    report = check(database.history, "serializable")
    assert report.ok, str(report)


@given(snapshot_isolated())
@settings(max_examples=budget(30, full=150), deadline=None)
def test_snapshot_isolation_shows_at_most_write_skew(database: Database) -> None:
    report = check(database.history, "snapshot")
    assert report.ok, str(report)
    assert set(check(database.history, "serializable").kinds) <= {"write-skew"}


def test_snapshot_isolation_does_show_write_skew() -> None:
    database = Database()
    a, b = database.begin(0), database.begin(1)
    database.do(a, "read", "x")
    database.do(b, "read", "y")
    database.do(a, "append", "y")
    database.do(b, "append", "x")
    database.end(a, "ok")
    database.end(b, "ok")
    database.last_look()
    assert check(database.history, "serializable").kinds == ["write-skew"]


def change(history: list[Transaction], id: Any, ops: list[Op]) -> list[Transaction]:
    return [replace(t, ops=ops) if t.id == id else t for t in history]


def anomalies(history: list[Transaction]) -> list[Anomaly]:
    return check(history).anomalies


@given(snapshot_isolated(), st.data())
@settings(deadline=None)
def test_a_value_that_vanishes_from_a_read_is_found(database: Database, data: st.DataObject) -> None:
    final = database.history[-1]
    written = [(n, op) for n, op in enumerate(final.ops) if op.value]
    assume(written)
    at, op = data.draw(st.sampled_from(written))
    gone = data.draw(st.sampled_from(op.value))
    writer = next(t for t in database.history if append(op.key, gone) in t.ops)
    assume(writer.status == "ok")
    ops = [*final.ops[:at], read(op.key, [v for v in op.value if v != gone]), *final.ops[at + 1 :]]
    assert anomalies(change(database.history, final.id, ops))


@given(snapshot_isolated(), st.data())
@settings(deadline=None)
def test_a_value_that_shows_twice_or_comes_from_nowhere_or_from_a_failure_is_found(
    database: Database, data: st.DataObject
) -> None:
    final = database.history[-1]
    at, op = data.draw(st.sampled_from(list(enumerate(final.ops))))
    how = data.draw(st.sampled_from(["twice", "nowhere", "failed"]))
    if how == "twice":
        assume(op.value)
        values = [*op.value, data.draw(st.sampled_from(op.value))]
    elif how == "nowhere":
        values = [*op.value, 10_000]
    else:
        failed = [o.value for t in database.history if t.status == "fail" for o in t.ops if o.kind == "append"]
        assume(failed)
        values = [*op.value, data.draw(st.sampled_from(failed))]
    ops = [*final.ops[:at], read(op.key, values), *final.ops[at + 1 :]]
    kinds = {a.kind for a in anomalies(change(database.history, final.id, ops))}
    expected = {
        "twice": {"duplicate-append"},
        "nowhere": {"unwritten-read"},
        "failed": {"dirty-read", "unwritten-read"},
    }
    assert kinds & expected[how]


class Careless(Database):
    """Lets a transaction commit whose keys were written since it began: updates get lost."""

    def end(self, one: Open, outcome: str) -> None:
        one.base = len(self.versions) - 1
        super().end(one, outcome)


@given(st.integers(2, 4), st.sampled_from(KEYS), st.integers(0, 3))
@settings(deadline=None)
def test_a_database_that_loses_updates_is_found_out(writers: int, key: str, before: int) -> None:
    database = Careless()
    for _ in range(before):
        first = database.begin(50)
        database.do(first, "append", key)
        database.end(first, "ok")
    ones = [database.begin(n) for n in range(writers)]
    for one in ones:
        database.do(one, "read", key)
        database.do(one, "append", key)
    for one in ones:
        database.end(one, "ok")
    database.last_look()
    assert check(database.history).kinds == ["lost-update"]


@given(snapshot_isolated(), st.data())
@settings(deadline=None)
def test_a_read_of_an_older_moment_than_the_rest_is_found(database: Database, data: st.DataObject) -> None:
    """The last look sees one key as it was before the last transaction that wrote two keys and was acknowledged."""
    wide = [t for t in database.history if t.status == "ok" and len({o.key for o in t.ops if o.kind == "append"}) > 1]
    assume(wide)
    torn = wide[-1]
    mine = {o.key: o.value for o in reversed(torn.ops) if o.kind == "append"}
    key = data.draw(st.sampled_from(sorted(mine)))
    final = database.history[-1]
    ops = [read(o.key, o.value[: o.value.index(mine[key])]) if o.key == key else o for o in final.ops]
    timeless = [replace(t, start=None, end=None, process=None) for t in change(database.history, final.id, ops)]
    assert {"fractured-read", "read-skew"} & set(check(timeless).kinds)


# -- the definition itself: is there any order of events that explains what was read? ---------------------------------


@st.composite
def arbitrary(draw: st.DrawFn) -> list[Transaction]:
    """Three transactions that read any state that their keys ever had, and a reader that sees all at the end."""
    ones = draw(st.lists(BODY, min_size=3, max_size=3))
    values = itertools.count(1)
    bodies = [[(verb, key, next(values) if verb == "append" else 0) for verb, key in body] for body in ones]
    final: dict[str, list[int]] = {}
    for key in KEYS:
        # Appends of one transaction stay together: nothing that is to be explained here interleaves them.
        groups = [g for body in bodies if (g := [v for verb, k, v in body if verb == "append" and k == key])]
        final[key] = [v for group in draw(st.permutations(groups)) for v in group]
    history = []
    for number, body in enumerate(bodies):
        ops: list[Op] = []
        own: dict[str, list[int]] = {}
        base: dict[str, list[int]] = {}
        for verb, key, value in body:
            mine = {v for _, k, v in body if k == key}
            if verb == "append":
                own.setdefault(key, []).append(value)
                ops.append(append(key, value))
                continue
            if key not in base:
                others = [v for v in final[key] if v not in mine]
                base[key] = others[: draw(st.integers(0, len(others)))]
            ops.append(read(key, [*base[key], *own.get(key, [])]))
        history.append(Transaction(f"t{number}", ops, start=0, end=1))
    look = [read(key, values) for key, values in final.items()]
    return [*history, Transaction("look", look, start=2, end=3, fresh=True)]


def explains(history: list[Transaction], events: tuple[int, ...]) -> bool:
    """Whether these events (the first of a number is its begin, the second its commit) give what was read."""
    state: dict[Any, tuple[Any, ...]] = dict.fromkeys(KEYS, ())
    running: dict[int, dict[Any, tuple[Any, ...]]] = {}
    for number in events:
        if number not in running:
            running[number] = dict(state)
            continue
        base = dict(running[number])
        view = dict(base)
        for op in history[number].ops:
            if op.kind == "append":
                if state[op.key] != base[op.key]:
                    return False  # somebody else wrote it meanwhile
                view[op.key] = (*view[op.key], op.value)
            elif view[op.key] != op.value:
                return False
        state |= {op.key: view[op.key] for op in history[number].ops if op.kind == "append"}
    return all(state[op.key] == op.value for op in history[-1].ops)


SERIAL = [tuple(n for one in order for n in (one, one)) for order in itertools.permutations(range(3))]
OVERLAPPING = sorted(set(itertools.permutations((0, 0, 1, 1, 2, 2))))


@given(arbitrary())
@settings(max_examples=budget(30, full=150), deadline=None)
def test_a_history_is_serializable_exactly_when_some_serial_order_explains_it(history: list[Transaction]) -> None:
    explained = any(explains(history, order) for order in SERIAL)
    report = check(history, "serializable")
    assert report.ok == explained, str(report)


@given(arbitrary())
@settings(max_examples=budget(30, full=150), deadline=None)
def test_a_history_is_snapshot_isolated_exactly_when_some_order_of_begins_and_commits_explains_it(
    history: list[Transaction],
) -> None:
    explained = any(explains(history, order) for order in OVERLAPPING)
    report = check(history, "snapshot")
    assert report.ok == explained, str(report)
