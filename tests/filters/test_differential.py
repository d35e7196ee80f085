"""Random filters through every face that takes one: they find the rows that DuckDB finds in a table of its own.

`make differential-filters FILTERS=10000` looks longer, and `make test-all` as long.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.budget import budget
from tests.filters.arrow_grammar import ArrowFilters
from tests.filters.grammar import SCHEMA, Filters, rows

import quire
from quire.cli import program
from quire.errors import InvalidExpression
from quire.filters import arrow, read_filter
from quire.formats import task_table
from quire.testing import memory

FILTERS = int(os.environ.get("QUIRE_FILTERS", budget(60, full=10_000)))
SEED = int(os.environ.get("QUIRE_SEED", "1"))
ROWS = 90
GONE = "id in (3, 33, 63)"
OTHERS = budget(1, full=4)
"""Through so many other faces each filter goes, in turn, beside the scans."""
INDEXED = {
    **dict.fromkeys(("id", "Order", "count_all", "f", "select", "s", "d", "ts", "tz", "dec", "tms", "there"), "BTREE"),
    **dict.fromkeys(("u8", "ünï"), "BITMAP"),
    "l": "LABEL_LIST",
}

IN_MEMORY = [f.name for f in SCHEMA if f.name not in ("d", "ts", "tz", "tms", "there", "dec", "bin", "st")]
Face = Callable[[Any], list[int]]
OF_PYARROW = ["scan", "count", "limit and offset", "own writes", "vectors", "texts", "vectors and texts"]
"""The faces that take an expression of pyarrow too."""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> quire.Lake:
    """The same rows in three tables: fragments with deletions, also with indexes, and in memory."""
    memory.install()
    made = quire.create(str(tmp_path_factory.mktemp("filters") / "lake"), backfill=False)
    random = Random(SEED)
    parts = [rows(random, first, 30) for first in range(0, ROWS, 30)]
    with made.transaction("make") as tx:
        tx.create_table("bare", parts[0])
        tx.create_table("indexed", parts[0])
        tx.create_table("kept", parts[0].select(IN_MEMORY), format="memory")
    for part in parts[1:]:
        with made.transaction("grow") as tx:
            tx["bare"].append(part)
            tx["indexed"].append(part)
            tx["kept"].append(part.select(IN_MEMORY))
    with made.transaction("index") as tx:
        for column, kind in INDEXED.items():
            tx["indexed"].create_index(column, kind)
        tx["indexed"].create_index("body", "INVERTED")
    for name in ("bare", "indexed", "kept"):
        with made.transaction("delete") as tx:
            tx[name].delete(GONE)
    return made


@pytest.fixture(scope="module")
def oracle(lake: quire.Lake) -> Iterator[duckdb.DuckDBPyConnection]:
    """A table of DuckDB's own: no format, no filter of pyarrow, no index."""
    given = lake["bare"].to_arrow()
    wide = pa.schema([f.with_type(pa.float32()) if f.type == pa.float16() else f for f in given.schema])
    with duckdb.connect(config={"threads": "1"}) as connection:
        connection.execute("set TimeZone = 'UTC'")
        connection.register("given", given.cast(wide))
        connection.execute("create table t as select * from given")
        yield connection


class Undone(Exception):
    """Ends a transaction whose work is not kept."""


def faces(lake: quire.Lake, name: str) -> dict[str, Face]:
    """What takes a filter, each as a function from the filter to the ids that it finds."""
    snapshot = lake.snapshot()
    table = snapshot[name]
    everything = ids(table.scan(columns=["id"]))

    def scanned(filter: str) -> list[int]:
        return ids(table.scan(columns=["id"], filter=filter))

    def counted(filter: str) -> list[int]:
        found = scanned(filter)
        assert table.count(filter) == len(found), f"count and scan differ: {filter}"
        return found

    def undone(work: Callable[[Any], list[int]]) -> list[int]:
        found: list[int] = []
        try:
            with lake.transaction() as tx:
                found = work(tx[name])
                raise Undone
        except Undone:
            return found

    def deleted(filter: str) -> list[int]:
        def work(target: Any) -> list[int]:
            count = target.delete(filter)
            left = set(ids(target.scan(columns=["id"])))
            assert count == len(everything) - len(left)
            return [id for id in everything if id not in left]

        return undone(work)

    def updated(filter: str) -> list[int]:
        def work(target: Any) -> list[int]:
            target.update(values={"mark": True}, where=filter)
            return [r["id"] for r in target.scan(columns=["id", "mark"]).to_pylist() if r["mark"]]

        return undone(work)

    def computed(filter: str) -> list[int]:
        def work(target: Any) -> list[int]:
            target.update({"mark": filter})
            return [r["id"] for r in target.scan(columns=["id", "mark"]).to_pylist() if r["mark"]]

        return undone(work)

    def new_column(filter: str) -> list[int]:
        def work(target: Any) -> list[int]:
            target.add_columns({"found": filter})
            return [r["id"] for r in target.scan(columns=["id", "found"]).to_pylist() if r["found"]]

        return undone(work)

    def exported(filter: str) -> list[int]:
        """By the command line, into a file."""
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "rows.parquet")
            if program.run(["export", lake.uri, name, file, f"--filter={filter}", "--columns", "id", "--json"]):
                raise InvalidExpression("The command failed.", next="See its output.")
            return list(pq.read_table(file)["id"].to_pylist())

    def own_writes(filter: str) -> list[int]:
        def work(target: Any) -> list[int]:
            late = table.scan(filter="id >= 60").to_arrow()
            target.delete("id >= 60")
            target.append(late)
            return ids(target.scan(columns=["id"], filter=filter))

        return undone(work)

    def limited(filter: str) -> list[int]:
        found = ids(table.scan(columns=["s", "id"], filter=filter, limit=50))
        return found + ids(table.scan(columns=["id"], filter=filter, offset=50))

    made: dict[str, Face] = {
        "sql": lambda filter: ids(snapshot.sql(f'select id from "{name}" where {filter}')),
        "scan": scanned,
        "count": counted,
        "limit and offset": limited,
        "delete": deleted,
        "update where": updated,
        "update to the filter": computed,
        "new column": new_column,
        "exported": exported,
        "own writes": own_writes,
    }
    if name != "kept":
        place, parts = table.parts()
        numbers = [number for number, _ in parts]
        made["executors"] = lambda filter: [
            id
            for batch in task_table(place).read_rows(numbers, ["id"], filter)
            for id in batch.column("id").to_pylist()
        ]
        made["vectors"] = lambda filter: ids(
            table.search([0.0, 1.0], column="v", limit=ROWS, filter=filter, columns=["id"])
        )
    if name == "indexed":
        made["texts"] = lambda filter: ids(table.search("common", limit=ROWS, filter=filter, columns=["id"]))
        made["vectors and texts"] = lambda filter: ids(
            table.search(
                vector=[0.0, 1.0], text="common", vector_column="v", text_column="body",
                limit=ROWS, filter=filter, columns=["id"],
            )
        )  # fmt: skip
    return made


def in_turn(others: list[tuple[str, str]], number: int) -> list[tuple[str, str]]:
    return [others[(number * OTHERS + n) % len(others)] for n in range(OTHERS)]


def ids(found: Any) -> list[int]:
    return [int(id) for id in found.to_arrow().column("id").to_pylist()]


@pytest.mark.timeout(14_400)
@pytest.mark.parametrize("half", [0, 1])
def test_every_face_finds_what_duckdb_finds(lake: quire.Lake, oracle: duckdb.DuckDBPyConnection, half: int) -> None:
    """Every filter is scanned for in all three tables, and goes through some of the other faces, in turn."""
    grammar = Filters(Random(f"{SEED} {half}"))
    asked = {name: faces(lake, name) for name in ("bare", "indexed", "kept")}
    others = [(name, face) for name, made in asked.items() for face in made if face != "scan"]
    wrong: list[str] = []
    failed = 0
    for number in range(FILTERS // 2):
        filter, plain = grammar.draw()
        try:
            said = sorted(id for (id,) in oracle.execute(f"select id from t where ({plain})").fetchall())
        except duckdb.Error:
            failed += 1
            continue
        in_memory = {*read_filter(filter, SCHEMA).whole.columns} <= {*IN_MEMORY}
        for name, face in [*((name, "scan") for name in asked), *in_turn(others, number)]:
            if name == "kept" and not in_memory:
                continue
            try:
                found = sorted(asked[name][face](plain if face == "sql" else filter))
            except InvalidExpression as error:
                wrong.append(f"{face} of {name}: {filter}\n  is refused: {error}")
                continue
            if found != said:
                wrong.append(f"{face} of {name}: {filter}\n  finds {found}, not {said}")
    assert not wrong, f"{len(wrong)} answers differ:\n" + "\n".join(wrong[:10])
    assert failed < FILTERS // 4


@pytest.mark.timeout(14_400)
@pytest.mark.parametrize("half", [0, 1])
def test_an_expression_of_pyarrow_finds_everywhere_what_pyarrow_finds(lake: quire.Lake, half: int) -> None:
    """The oracle is pyarrow on a table in memory. As many as are plain enough for Lance go to it, and others do not."""
    grammar = ArrowFilters(Random(f"{SEED} {half} arrow"))
    given = lake["bare"].to_arrow()
    asked = {name: faces(lake, name) for name in ("bare", "indexed")}
    others = [(name, face) for name, made in asked.items() for face in OF_PYARROW if face in made and face != "scan"]
    plain, wrong = 0, []
    for number in range(FILTERS // 2):
        filter = grammar.draw()
        said = sorted(given.filter(filter)["id"].to_pylist())
        plain += arrow.plain(filter, SCHEMA) is not None
        for name, face in [*((name, "scan") for name in asked), *in_turn(others, number)]:
            found = sorted(asked[name][face](filter))
            if found != said:
                wrong.append(f"{face} of {name}: {filter}\n  finds {found}, not {said}")
    assert not wrong, f"{len(wrong)} answers differ:\n" + "\n".join(wrong[:10])
    assert FILTERS // 10 < plain < FILTERS // 2
