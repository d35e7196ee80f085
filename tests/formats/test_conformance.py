"""All table formats pass one suite, and agree on random races."""

from __future__ import annotations

import contextlib
import io
import json
import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from tests.budget import FULL, budget

import quire
from quire.formats.delta import DeltaFormat
from quire.formats.delta.files.deletion_vectors import Vector
from quire.formats.lance import LanceFormat
from quire.ledger import new_id
from quire.store import Store
from quire.testing import memory
from quire.testing.formats import Bench, FormatConformance, rows
from quire.testing.formats.bench import LOCATION
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


pytest.mark.sampled()(FormatConformance.test_every_statement_after_every_other)


class TestMemoryTablesOnDisk(FormatConformance):
    @pytest.fixture(autouse=True)
    def known(self) -> None:
        memory.install()

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


class PlainDelta:
    """A client that reads the folder and writes to it, and knows nothing of who owns the commits of a table."""

    def __init__(self, store: Store, location: str) -> None:
        self._store = store.below(location)

    def version(self) -> int:
        return max(int(e.key[-25:-5]) for e in self._store.list("_delta_log") if re.fullmatch(LOG, e.key))

    def rows(self) -> list[dict[str, Any]]:
        schema, files = self._files()
        found = []
        for add in files.values():
            rows = pq.read_table(pa.BufferReader(self._store.get(add["path"]))).to_pylist()
            vector = add.get("deletionVector")
            gone = set(self._gone(vector)) if vector else set()
            found += [{n: row.get(n) for n in schema} for i, row in enumerate(rows) if i not in gone]
        return found

    def _gone(self, told: dict[str, Any]) -> list[int]:
        vector = msgspec.convert(told, Vector)
        return vector.rows(None if vector.storage_type == "i" else self._store.get(vector.file())).tolist()

    def _files(self) -> tuple[list[str], dict[str, Any]]:
        schema: list[str] = []
        files: dict[str, Any] = {}
        for version in range(self.version() + 1):
            actions = [json.loads(line) for line in self._store.get(f"_delta_log/{version:020d}.json").splitlines()]
            for action in actions:
                if "metaData" in action:
                    schema = [f["name"] for f in json.loads(action["metaData"]["schemaString"])["fields"]]
                files.pop(action.get("remove", {}).get("path"), None)
            files.update({a["add"]["path"]: a["add"] for a in actions if "add" in a})
        return schema, files

    def append(self, data: pa.Table) -> None:
        sink = io.BytesIO()
        pq.write_table(data, sink)
        path, body = f"data/foreign-{new_id()}.parquet", sink.getvalue()
        self._store.put(path, body)
        stats = json.dumps({"numRecords": data.num_rows})
        add = {"path": path, "partitionValues": {}, "size": len(body), "modificationTime": 1, "dataChange": True}
        self._commit("WRITE", [{"add": {**add, "stats": stats}}])

    def delete(self, where: str) -> None:
        raise NotImplementedError

    def _commit(self, operation: str, actions: list[Any]) -> None:
        info = {"commitInfo": {"timestamp": 1, "inCommitTimestamp": 1, "operation": operation}}
        body = "\n".join(json.dumps(action) for action in (info, *actions)).encode()
        self._store.create(f"_delta_log/{self.version() + 1:020d}.json", body, mine=body.__eq__)


LOG = r"_delta_log/\d{20}\.json"


class TestDeltaTables(FormatConformance):
    indexes = False

    @pytest.fixture
    def format(self) -> Callable[[Store], DeltaFormat]:
        return lambda store: DeltaFormat(store, "the-lake")

    def plain(self, store: Store, location: str) -> PlainDelta:
        return PlainDelta(store, location)

    # Tables have no indexes.
    test_an_index_is_listed_replaced_and_dropped = None
    test_indexes_are_extended_to_new_rows = None
    test_compaction_and_indexes_together = None
    test_an_index_moves_with_its_rows = None

    # Clients of Delta do not write to a table whose commits have an owner. What one wrote that does is never
    # overwritten (see above), but it is not adopted either.
    test_what_a_plain_writer_did_is_kept = None
    test_a_foreign_append_is_adopted_as_it_is = None
    test_a_foreign_delete_is_adopted = None
    test_foreign_rows_are_moved_onto_what_came_since = None
    test_foreign_rows_that_break_the_key_are_refused = None
    test_a_foreign_change_of_rows_that_changed_since_is_refused = None
    test_an_adoption_loses_its_race_quietly = None
    test_a_table_is_registered_as_it_is = None

    def test_a_pin_is_promoted_once(self, bench: Bench) -> None:
        """A published commit is the staged one, byte by byte: it was written before the lake's commit had its id."""
        first = bench.create(rows(1))
        assert bench.format.promote(first, commit="1.0", table="t").outcome == "current"
        second = bench.change(first, lambda w: w.rows.append(rows(2), missing="error"))
        third = bench.change(second, lambda w: w.rows.delete("id = 1"))
        staged = {e.key: bench.store.get(e.key) for e in bench.store.list(LOCATION) if "_staged_commits" in e.key}
        done = bench.format.promote(third, commit="3.0", table="t")
        assert (done.table, done.outcome, done.version) == ("t", "promoted", 2)
        published = [bench.store.get(f"{LOCATION}/_delta_log/{v:020d}.json") for v in (1, 2)]
        assert sorted(published) == sorted(staged.values())
        head = bench.again().head(second)
        assert (head.version, head.counter, head.commit) == (2, third.counter, None)
        for pin in (second, third):
            again = bench.again().promote(pin, commit="3.0", table="t")
            assert again.outcome == "current"

    def test_a_linear_version_is_told_from_others(self, bench: Bench) -> None:
        first = bench.create(rows(1))
        second = bench.change(first, lambda w: w.rows.append(rows(2), missing="error"))
        third = bench.change(second, lambda w: w.rows.append(rows(3), missing="error"))
        other = bench.change(first, lambda w: w.rows.append(rows(7), missing="error"))
        bench.format.promote(second, commit="2.0", table="t")
        format_ = bench.again()
        assert format_.is_at(first, 0, "1.0")
        assert format_.is_at(second, 1, "2.0")
        assert not format_.is_at(other, 1, "2.0")
        assert not format_.is_at(third, 2, "3.0")
        assert not format_.is_at(second, 0, "2.0")


# -- the same history on all -----------------------------------------------------------------------------------------

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
    max_examples=budget(4, full=40),
    deadline=None,
    derandomize=FULL,
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
def test_all_formats_tell_the_same_history(plan: list[Step], key: str | None) -> None:
    memory.install()
    without_indexes = [step for step in plan if step[0] != "say" or step[2].verb != "index"]
    in_delta = list(history(f"memory://{new_id()}", "delta", key, without_indexes))
    assert list(history(f"memory://{new_id()}", "memory", key, without_indexes)) == in_delta
    with tempfile.TemporaryDirectory(dir=SHM) as place:
        in_lance = list(history(f"{place}/lake", "lance", key, plan))
    in_memory = list(history(f"memory://{new_id()}", "memory", key, plan))
    assert in_memory == in_lance
