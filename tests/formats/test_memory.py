"""The memory format where it is more than the protocol: its own files, its SQL, a lake of it."""

from __future__ import annotations

import ast
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pyarrow as pa
import pytest

import quire
from quire.errors import FormatError, InvalidExpression, SchemaMismatch, SnapshotExpired, StorageError, Unsupported
from quire.filters import read_filter
from quire.formats import Search
from quire.ledger import new_id
from quire.store import Store
from quire.store.address import parse
from quire.store.backend import Failure, Reason
from quire.testing import memory
from quire.testing.formats import Bench, rows
from quire.testing.memory import MemoryFormat, PlainTable, sql
from quire.testing.memory.files import Version, parse_type, type_name
from quire.testing.s3 import SeaweedFS


@pytest.fixture
def bench() -> Bench:
    return Bench(lambda store: MemoryFormat(store, "the-lake"), f"memory://{new_id()}")


# -- a lake of it -----------------------------------------------------------------------------------------------------


@pytest.fixture(params=["disk", "memory", pytest.param("s3", marks=pytest.mark.s3)])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    memory.install()
    options: dict[str, str] = {}
    uri = {"disk": str(tmp_path / "lake"), "memory": f"memory://{new_id()}"}.get(request.param, "")
    if request.param == "s3":
        server: SeaweedFS = request.getfixturevalue("s3")
        uri, options = server.uri(f"memory-{new_id()}"), server.options
    with quire.create(uri, storage_options=options, backfill=False) as made:
        yield made


def test_a_lake_holds_tables_of_it(lake: quire.Lake) -> None:
    with lake.transaction("first") as tx:
        tx.create_table("t", rows(1, 2), key="id", format="memory")
        tx.create_table("log", rows(1), format="memory")
    with lake.transaction("second") as tx:
        tx["t"].upsert(rows(2, 3, times=5), on="id")
        tx["log"].append(rows(9))
        assert tx["t"].count() == 3
    snapshot = lake.snapshot()
    joined = snapshot.sql("select t.v from t join log using (id) order by 1").to_arrow()
    assert joined["v"].to_pylist() == [10]
    assert snapshot["t"].describe()["format"] == "memory"
    lake.optimize()
    assert lake.snapshot()["t"].count() == 3
    assert not lake.verify().findings
    lake.revert(lake.log()[0].id)
    assert sorted(lake.snapshot()["log"].to_arrow()["id"].to_pylist()) == [1, 9]


def test_a_lake_backfills_and_adopts_it(tmp_path: Path) -> None:
    memory.install()
    with quire.create(tmp_path / "lake", backfill=False) as lake:
        lake.create_table("t", rows(1, 2), key="id", format="memory")
        with lake.transaction() as tx:
            tx["t"].delete("id = 1")
        assert [p.outcome for p in lake.backfill()] == ["promoted"]
        plain = PlainTable(Store.open(tmp_path / "lake"), lake.snapshot()["t"].describe()["location"])
        assert [r["id"] for r in plain.rows()] == [2]
        plain.append(rows(7))
        assert lake.adopt("t").commit is not None
        assert sorted(lake.snapshot()["t"].to_arrow()["id"].to_pylist()) == [2, 7]


# -- its own files ----------------------------------------------------------------------------------------------------


def test_every_byte_goes_through_the_store(bench: Bench) -> None:
    pin = bench.change(bench.create(rows(1)), lambda w: w.rows.append(rows(2), missing="error"))
    bench.format.promote(pin, commit="2.0", table="t")
    names = sorted(e.key.removeprefix("tables/t/").rpartition("/")[0] for e in bench.store.list(""))
    assert names == ["data", "data", "head", "head", "versions", "versions"]
    state = msgspec.json.decode(bench.store.get(f"tables/t/versions/{pin.version}.json"), type=Version)
    assert state.properties == {"lake": "the-lake", "write": "w"}
    assert [(f.name, f.type, f.nullable) for f in state.fields] == [
        ("id", "int64", True),
        ("v", "int64", True),
        ("w", "string", True),
    ]


def test_nothing_is_remembered_unless_asked_for(bench: Bench) -> None:
    pin = bench.create(rows(1))
    remembering = MemoryFormat(bench.store, "the-lake", cached=8)
    views = [bench.format.open(pin, "t"), remembering.open(pin, "t")]
    assert [v.scan().read_all().num_rows for v in views] == [1, 1]
    for entry in list(bench.store.list("tables/t/data")):
        bench.store.delete(entry.key)
    with pytest.raises(SnapshotExpired):
        views[0].scan().read_all()
    assert views[1].scan().read_all().num_rows == 1


def test_what_is_remembered_is_bounded(bench: Bench) -> None:
    remembering = MemoryFormat(bench.store, "the-lake", cached=4)
    pin = bench.parts((1,), (2,), (3,), (4,), (5,), (6,))
    assert remembering.open(pin).scan().read_all().num_rows == 6
    [folder] = remembering._folders.values()
    assert len(folder._cache) == 4


def test_a_table_that_cleans_itself_is_left_alone(bench: Bench) -> None:
    first = bench.create(rows(1))
    PlainTable(bench.store, first.location).configure(auto_cleanup="1")
    with pytest.raises(Unsupported):
        bench.format.register(first.location)
    format_ = bench.format
    found = format_.foreign(first, format_.head(first))
    assert found.ops == ("schema",)
    pin = format_.graft(first, found, same=True, key=(), write="w", table="t").stage().pin
    later = bench.change(pin, lambda w: w.rows.append(rows(2), missing="error"))
    assert format_.promote(later, commit="3.0", table="t").outcome == "blocked"
    assert format_.open(later).config() == {"auto_cleanup": "1"}


class Lossy:
    """A backend that does what it is asked, and whose answers about some keys are lost while `mute` is set."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.mute = inner, ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def create(self, key: str, data: bytes) -> None:
        self.inner.create(key, data)
        self._answer(key)

    def get(self, key: str) -> bytes:
        self._answer(key)
        return bytes(self.inner.get(key))

    def _answer(self, key: str) -> None:
        if self.mute and self.mute in key:
            raise Failure(Reason.FAILED, "the answer was lost")


@pytest.fixture
def lossy(bench: Bench) -> tuple[Lossy, MemoryFormat]:
    backend: Any = Lossy(bench.store._backend)
    return backend, MemoryFormat(Store(parse(bench.uri), {}, backend), "the-lake")


def test_a_promotion_whose_outcome_is_unknown_is_behind(bench: Bench, lossy: tuple[Lossy, MemoryFormat]) -> None:
    backend, format_ = lossy
    pin = bench.change(bench.create(rows(1)), lambda w: w.rows.append(rows(2), missing="error"))
    backend.mute = "head/00000000000000000002"
    assert format_.promote(pin, commit="2.0", table="t").outcome == "behind"
    backend.mute = ""
    assert format_.promote(pin, commit="2.0", table="t").outcome == "current"


def test_a_file_that_may_not_have_been_written_is_not_used(bench: Bench, lossy: tuple[Lossy, MemoryFormat]) -> None:
    backend, format_ = lossy
    pin = bench.create(rows(1))
    work = format_.begin(pin, write="w", table="t")
    backend.mute = "data/"
    with pytest.raises(StorageError):
        work.rows.append(rows(2), missing="error")
    assert not work.changed
    backend.mute = ""
    work.rows.append(rows(3), missing="error")
    backend.mute = "versions/"
    with pytest.raises(StorageError):
        work.stage()
    backend.mute = ""
    assert bench.content(work.stage().pin) == [(1, 10, "a"), (3, 30, "a")]


def test_what_cannot_be_read_is_a_format_error(bench: Bench) -> None:
    pin = bench.create(rows(1))
    for path in (f"versions/{pin.version}.json", *[n for n in bench.format.files(pin, "t") if n.startswith("data/")]):
        body = bench.store.get(f"tables/t/{path}")
        bench.store.put(f"tables/t/{path}", body[: len(body) // 2])
        with pytest.raises(FormatError):
            bench.format.open(pin).scan().read_all()
        bench.store.put(f"tables/t/{path}", body)
    assert bench.format.open(pin).count() == 1


def test_old_plain_versions_are_forgotten_by_store_time(bench: Bench) -> None:
    pins = [bench.create(rows(1))]
    for i in (2, 3):
        pins.append(bench.change(pins[-1], lambda w, i=i: w.rows.overwrite(rows(i), (), schema="keep")))  # type: ignore[misc]
        bench.format.promote(pins[-1], commit=f"{i}.0", table="t")
    heads = sorted(bench.store.list("tables/t/head"), key=lambda e: e.key)

    def named(since: datetime) -> list[str]:
        return sorted(n for n in bench.format.plain_files("tables/t", since) if n.startswith("head/"))

    everything = [e.key.removeprefix("tables/t/") for e in heads]
    assert named(datetime(2200, 1, 1, tzinfo=UTC)) == everything[-1:]
    assert named(heads[-1].modified) == everything[-2:] or heads[-2].modified == heads[-1].modified
    assert named(datetime(2000, 1, 1, tzinfo=UTC)) == everything


def test_it_has_no_clock_and_no_chance_of_its_own() -> None:
    """Everything it does can be replayed from a seed: ids come from the ledger, times from the store."""
    taken = {"time", "random", "secrets", "uuid", "asyncio", "concurrent", "multiprocessing", "os"}
    folder = Path(memory.__file__).parent
    for file in folder.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not taken & {n.split(".")[0] for n in names}, f"{file.name}:{getattr(node, 'lineno', 0)}"
            assert not any(n.startswith(("lance", "quire.formats.lance")) for n in names), file.name
    assert len(list(folder.glob("*.py"))) > 5


def test_other_objects_beside_the_heads_are_no_versions(bench: Bench) -> None:
    pin = bench.create(rows(1))
    bench.store.put("tables/t/head/notes.txt", b"x")
    bench.store.put("tables/t/head/9.json", b"{}")
    assert bench.format.head(pin).version == 1


# -- its types and its SQL --------------------------------------------------------------------------------------------


def test_types_are_stored_by_name() -> None:
    kinds = [pa.int8(), pa.uint64(), pa.float16(), pa.float32(), pa.bool_(), pa.large_string()]
    kinds += [pa.list_(pa.int64()), pa.list_(pa.float32(), 3)]
    assert [parse_type(type_name(kind, "c", "t")) for kind in kinds] == kinds
    for kind in (pa.timestamp("us"), pa.binary(), pa.struct([("a", pa.int8())]), pa.list_(pa.list_(pa.int8()))):
        with pytest.raises(SchemaMismatch):
            type_name(kind, "c", "t")


def test_numbers_that_are_none_come_back(bench: Bench) -> None:
    data = pa.table({"f": [float("inf"), float("-inf"), float("nan"), -0.0, None]})
    found = bench.format.open(bench.create(data)).scan().read_all()
    assert str(found.to_pylist()) == str(data.to_pylist())


def test_there_is_no_search(bench: Bench) -> None:
    with pytest.raises(Unsupported):
        bench.format.open(bench.create(rows(1))).scan(search=Search(text="x"))


SQL_ROWS: dict[str, list[Any]] = {
    "i": [1, 2, None, -7],
    "f": [0.5, None, 2.0, 1e9],
    "s": ["a", "it's", "", None],
    "b": [True, False, None, True],
}
SQL_SCHEMA = pa.schema([("i", pa.int64()), ("f", pa.float64()), ("s", pa.string()), ("b", pa.bool_())])
SIMPLE = [
    *("i = 1", "i <> 1", "i != 1", "i < 2", "i <= 2", "i > -8", "i >= 2", "1 = i", "f = 2.0", "f > i", "b", "not b"),
    *("b = true", "s = 'it''s'", "s > 'a'", "s = ''", "i is null", "i is not null", "i in (1, 2)", "i not in (1, 5)"),
    *("s in ('a', 'x')", "i in (1, null)", "i between 1 and 2", "i not between 1 and 2", "i = null", "not (i = null)"),
    *("i = 1 or b", "i = 1 and b", "i = 1 or b and s = 'a'", "(i = 1 or b) and s = 'a'", "not i = 1 or b", "true"),
    *("false", "null", "true and null", "i + 1 = 2", "i - 1 = 0", "i * 2 = 4", "-i = 7", "i % 2 = 1", "i % 3 = -1"),
    *("2 * (i + 1) = 4", "`i` = 1", "`s` = '`'", "I = 1 or TRUE", "i=1 AND b", "i + f > 1", "i * 1.5 > 1"),
]


@pytest.mark.parametrize("text", SIMPLE)
def test_conditions_are_what_duckdb_says(text: str) -> None:
    given = pa.table([pa.array(SQL_ROWS[f.name], f.type) for f in SQL_SCHEMA], schema=SQL_SCHEMA)
    with duckdb.connect() as connection:
        connection.register("given", given)
        written = text.replace("`", '"') if "'`'" not in text else text.replace("`s`", "s")
        [*said] = connection.execute(f"select ({written}) from given").fetchall()
    assert sql.matches(text, SQL_SCHEMA, SQL_ROWS, 4) == [i for i, (value,) in enumerate(said) if value]


def test_plain_conditions_need_no_duckdb() -> None:
    kinds = tuple(zip(SQL_SCHEMA.names, SQL_SCHEMA.types, strict=True))
    found = {text: read_filter(text, SQL_SCHEMA).condition for text in SIMPLE}
    beyond = [text for text in SIMPLE if sql._compiled(found[text], kinds) is None]
    arithmetic = [text for text in SIMPLE if any(sign in text for sign in ("+", " - ", "*", "%", "-i"))]
    assert set(beyond) - set(arithmetic) == {
        *("f = 2.0", "f > i", "i = null", "not (i = null)", "i in (1, null)", "null", "true and null"),
    }


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("i + 1", pa.int64(), [2, 3, None, -6]),
        ("i / 2", pa.float64(), [0.5, 1.0, None, -3.5]),
        ("i // 2", pa.int64(), [0, 1, None, -3]),
        ("f / 2", pa.float64(), [0.25, None, 1.0, 5e8]),
        ("s", pa.string(), ["a", "it's", "", None]),
        ("i > 1", pa.bool_(), [False, True, None, False]),
        ("'x'", pa.string(), ["x"] * 4),
        ("length(s)", pa.int64(), [1, 4, 0, None]),
        ("case when b then i else 0 end", pa.int64(), [1, 0, 0, -7]),
    ],
)
def test_expressions_have_values_and_a_type(text: str, kind: pa.DataType, expected: list[Any]) -> None:
    found = sql.value(text, "x", SQL_SCHEMA, SQL_ROWS, 4)
    assert (found.type, found.to_pylist()) == (kind, expected)


@pytest.mark.parametrize(
    "text",
    [
        *("", "i", "i +", "= 1", "x = 1", "i = 'x'", "(i = 1", "i = 1)", "s", "i = 1; select 1", "sum(i)"),
        *("1 as x", "i = 1) from rows --"),
    ],
)
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(InvalidExpression) as caught:
        sql.matches(text, SQL_SCHEMA, SQL_ROWS, 4)
    assert caught.value.next


def test_numbers_that_grow_too_large_are_refused() -> None:
    with pytest.raises(InvalidExpression):
        sql.compute("i * 9223372036854775807", "i", SQL_SCHEMA, SQL_ROWS, 4)
