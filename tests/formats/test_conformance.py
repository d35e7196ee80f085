"""Both table formats pass one suite, and agree on random races."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

import quire
from quire.formats.lance import LanceFormat
from quire.ledger import new_id
from quire.store import Store
from quire.testing import memory
from quire.testing.formats import FormatConformance
from quire.testing.memory import MemoryFormat, PlainTable


class PlainMemory:
    def __init__(self, store: Store, location: str) -> None:
        self._table = PlainTable(store, location)

    def version(self) -> int:
        return self._table.version

    def rows(self) -> list[dict[str, Any]]:
        return self._table.rows()

    def append(self, data: pa.Table) -> None:
        self._table.append(data)

    def delete(self, where: str) -> None:
        self._table.delete(where)


class PlainLance:
    def __init__(self, store: Store, location: str) -> None:
        self._uri = store.child_uri(location)

    def version(self) -> int:
        return int(lance.dataset(self._uri).version)

    def rows(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = lance.dataset(self._uri).to_table().to_pylist()
        return found

    def append(self, data: pa.Table) -> None:
        lance.write_dataset(data, self._uri, mode="append")

    def delete(self, where: str) -> None:
        lance.dataset(self._uri).delete(where)


class TestMemoryTablesOnDisk(FormatConformance):
    @pytest.fixture
    def format(self) -> Callable[[Store], MemoryFormat]:
        return lambda store: MemoryFormat(store, "the-lake")

    def plain(self, store: Store, location: str) -> PlainMemory:
        return PlainMemory(store, location)


class TestMemoryTablesInMemory(TestMemoryTablesOnDisk):
    @pytest.fixture
    def uri(self, tmp_path: Path) -> str:
        return f"memory://{new_id()}"


class TestMemoryTablesThatRemember(TestMemoryTablesInMemory):
    @pytest.fixture
    def format(self) -> Callable[[Store], MemoryFormat]:
        return lambda store: MemoryFormat(store, "the-lake", cached=8)


class TestLanceTables(FormatConformance):
    @pytest.fixture
    def format(self) -> Callable[[Store], LanceFormat]:
        return lambda store: LanceFormat(store, "the-lake")

    def plain(self, store: Store, location: str) -> PlainLance:
        return PlainLance(store, location)


# -- the same history on both -----------------------------------------------------------------------------------------

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64()), ("w", pa.int64())])
SHM = next((p for p in ("/dev/shm",) if Path(p).is_dir()), None)
"""Where files live in memory, if anywhere."""

Step = tuple[Any, ...]


@dataclass(frozen=True)
class Say:
    """One statement on the table, named by its verb."""

    verb: str
    rows: tuple[tuple[int, int | None, int | None], ...] = ()
    low: int = 0
    high: int = 0

    def run(self, table: Any) -> Any:
        where = f"id >= {self.low} and id < {self.high}"
        match self.verb:
            case "patch":
                return table.upsert([{"id": i, "w": w} for i, _, w in self.rows], on="id")
            case "upsert":
                return table.upsert(self.arrow(), on="id")
            case "update":
                return table.update({"v": "v + 1"}, where=where)
            case "rekey":
                return table.update({"id": f"id + {self.high}"}, where=f"id = {self.low}")
            case "delete":
                return table.delete(where)
            case "index":
                return table.create_index("v", "BTREE", replace=True)
            case "add":
                return table.add_columns({f"x{self.low}": "id + 1"})
            case "drop":
                return table.drop_columns(["w"])
            case "wrong":
                return table.delete("nowhere = 1")
        return getattr(table, self.verb)(self.arrow())

    def arrow(self) -> pa.Table:
        return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in self.rows], schema=SCHEMA)


class World:
    """Two writers and an upkeep on one table, and what came of every step."""

    def __init__(self, uri: str, format_: str, key: str | None) -> None:
        self.upkeep = quire.create(uri, backfill=False, author="upkeep")
        with self.upkeep.transaction() as tx:
            first = Say("append", tuple((i, 10 * i, 0) for i in range(4))).arrow()
            tx.create_table("t", first, key=key, format=format_)
        with self.upkeep.transaction() as tx:
            tx["t"].append(Say("append", tuple((i, 10 * i, 0) for i in (4, 5))).arrow())
        self.writers = [quire.open(uri, backfill=False, author=f"writer {i}") for i in range(2)]
        self.open: dict[int, Any] = {}
        self.trace: list[Any] = []

    def close(self) -> None:
        for lake in (*self.writers, self.upkeep):
            lake.close()

    def say(self, actor: int, statement: Say) -> None:
        tx = self._transaction(actor)
        try:
            outcome: Any = statement.run(tx["t"])
        except quire.QuireError as error:
            outcome = error.kind
        self.trace.append((actor, statement.verb, str(outcome)))

    def read(self, actor: int) -> None:
        tx = self._transaction(actor)
        self.trace.append((actor, "reads", content(tx["t"]), tx["t"].count("id > 2")))

    def commit(self, actor: int) -> None:
        tx = self.open.pop(actor, None)
        if tx is None:
            return
        try:
            receipt = tx.commit()
            outcome: Any = ("committed", receipt.rebased > 0, receipt.replayed > 0)
        except quire.QuireError as error:
            outcome = (error.kind, error.retryable)
        self.upkeep.refresh()
        now = self.upkeep.snapshot()["t"]
        self.trace.append((actor, outcome, content(now), now.count(), now.describe()["version"]))

    def optimize(self) -> None:
        self.upkeep.refresh()
        self.upkeep.optimize(["t"])

    def _transaction(self, actor: int) -> Any:
        if actor not in self.open:
            self.writers[actor].refresh()
            self.open[actor] = self.writers[actor].transaction(f"writer {actor}")
        return self.open[actor]


def content(table: Any) -> list[Any]:
    return sorted((tuple(sorted(r.items())) for r in table.to_arrow().to_pylist()), key=repr)


def history(uri: str, format_: str, key: str | None, plan: list[Step]) -> Iterator[Any]:
    world = World(uri, format_, key)
    with contextlib.closing(world):
        for verb, *rest in plan:
            getattr(world, verb)(*rest)
        for actor in (0, 1):
            world.commit(actor)
    yield from world.trace


ids = st.integers(0, 7)
numbers = st.one_of(st.none(), st.integers(100, 103))
few = st.tuples(ids, st.integers(1, 3)).map(lambda r: (r[0], r[0] + r[1]))


def with_rows(verb: str, *, unique: bool = True) -> st.SearchStrategy[Say]:
    by = (lambda r: r[0]) if unique else None
    which = st.integers(5, 11) if verb == "append" else ids  # most of them new: in a table with a key it is an insert
    rows = st.lists(st.tuples(which, numbers, numbers), min_size=1, max_size=3, unique_by=by)
    return rows.map(lambda rows: Say(verb, tuple(rows)))


def with_where(verb: str) -> st.SearchStrategy[Say]:
    return few.map(lambda r: Say(verb, low=r[0], high=r[1]))


COMMON = [with_rows(v) for v in ("append", "append", "upsert", "patch")]
COMMON += [with_where(v) for v in ("update", "delete", "rekey")]
RARE = [with_rows("append", unique=False), with_rows("overwrite")]
RARE += [with_where(v) for v in ("index", "add", "drop", "wrong")]
SAYS = st.integers(0, 14).flatmap(lambda n: st.one_of(RARE) if n == 14 else st.one_of(COMMON))


@st.composite
def plans(draw: st.DrawFn) -> list[Step]:
    """Rounds in which two programs work on the same rows and then commit, one or both, in any order."""
    plan: list[Step] = []
    for _ in range(draw(st.integers(1, 3))):
        for actor in (0, 1):
            plan.extend(("say", actor, say) for say in draw(st.lists(SAYS, min_size=1, max_size=2)))
            if draw(st.integers(0, 5)) == 5:
                plan.append(("read", actor))
        if draw(st.integers(0, 4)) == 4:
            plan.append(("optimize",))
        plan.extend(("commit", actor) for actor in draw(st.permutations((0, 1)))[: draw(st.integers(1, 2))])
    return plan


@pytest.mark.slow
@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
)
@given(plans(), st.sampled_from(["id", None]))
@example(
    [
        ("say", 0, Say("delete", low=0, high=2)),
        ("say", 1, Say("upsert", ((5, 100, 100), (8, 101, 101)))),
        ("optimize",),
        ("commit", 1),
        ("commit", 0),
    ],
    "id",
)
@example([("say", 0, Say("rekey", low=1, high=20)), ("say", 1, Say("append", ((21, 1, 1),))), ("commit", 1)], "id")
def test_both_formats_tell_the_same_history(plan: list[Step], key: str | None) -> None:
    memory.install()
    with tempfile.TemporaryDirectory(dir=SHM) as place:
        in_lance = list(history(f"{place}/lake", "lance", key, plan))
    in_memory = list(history(f"memory://{new_id()}", "memory", key, plan))
    assert in_memory == in_lance
