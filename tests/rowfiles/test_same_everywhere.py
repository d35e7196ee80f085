"""The same file gives the same rows, or the same error at the same place, whoever reads it.

A case is a file and what it holds: the values of its column `v`, or the line that is wrong. Every way in reads it: into
a table and into a graph, by the command line, the library and pipelines, in this process, by tasks that are pickled,
and (in the full tier) on Spark.
"""

from __future__ import annotations

import datetime as dt
import gzip
import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.conftest import Run

import quire
from quire import pipeline
from quire.errors import InvalidInput, QuireError
from quire.testing.tasks import PickledTasks

KINDS: dict[str, tuple[pa.DataType, str | None]] = {
    "int64": (pa.int64(), "I64"),
    "uint64": (pa.uint64(), "U64"),
    "double": (pa.float64(), "F64"),
    "float": (pa.float32(), "F32"),
    "decimal(38,10)": (pa.decimal128(38, 10), None),
    "string": (pa.string(), "String"),
    "bool": (pa.bool_(), "Bool"),
    "date": (pa.date32(), "Date"),
    "timestamp": (pa.timestamp("us", "UTC"), "DateTime"),
    "float[2]": (pa.list_(pa.float32(), 2), "Vector(2)"),
    "int64[]": (pa.list_(pa.int64()), "[I64]"),
    "string[]": (pa.list_(pa.string()), "[String]"),
}
"""Types of tables, and of properties of a graph where there is one."""


@dataclass(frozen=True)
class Wrong:
    """A row or line that is refused."""

    line: int
    column: bool = True
    """Whether the error is about the value of the column."""


@dataclass(frozen=True)
class Unread:
    """A file that is refused as a whole."""

    said: str


Body = str | bytes | Callable[[], bytes]


def csv(*values: str) -> str:
    return "v,w\n" + "".join(f"{value},\n" for value in values)


def jsonl(*values: str) -> str:
    return "".join(f'{{"v": {value}, "w": null}}\n' for value in values)


def parquet(values: Any) -> Callable[[], bytes]:
    def write() -> bytes:
        sink = io.BytesIO()
        pq.write_table(table(values), sink)
        return sink.getvalue()

    return write


def arrow(values: Any, make: Any = pa.ipc.new_file) -> Callable[[], bytes]:
    def write() -> bytes:
        sink = io.BytesIO()
        rows = table(values)
        with make(sink, rows.schema) as writer:
            writer.write_table(rows)
        return sink.getvalue()

    return write


def table(values: Any) -> pa.Table:
    column = values if isinstance(values, pa.Array) else pa.array(values)
    return pa.table({"v": column, "w": pa.nulls(len(column), pa.string())})


NOON = dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)
LARGE = 2**53 + 1

CASES: list[tuple[str, str, Body, Any]] = [
    # kinds and names
    (".csv", "int64", csv("1", "2"), [1, 2]),
    (".tsv", "int64", csv("1", "2").replace(",", "\t"), [1, 2]),
    (".jsonl", "int64", jsonl("1", "2"), [1, 2]),
    (".ndjson", "int64", jsonl("1"), [1]),
    (".json", "int64", jsonl("1"), [1]),
    (".JSON", "int64", jsonl("1"), [1]),
    (".parquet", "int64", parquet([1, 2]), [1, 2]),
    (".arrow", "int64", arrow([1, 2]), [1, 2]),
    (".feather", "int64", arrow([1, 2]), [1, 2]),
    (".arrows", "int64", arrow([1, 2], pa.ipc.new_stream), [1, 2]),
    (".csv.gz", "int64", lambda: gzip.compress(csv("1").encode()), [1]),
    (".jsonl.zst", "int64", lambda: pa.compress(jsonl("1").encode(), "zstd", asbytes=True), [1]),
    (".arrows.zst", "int64", lambda: pa.compress(arrow([1], pa.ipc.new_stream)(), "zstd", asbytes=True), [1]),
    (".txt", "int64", csv("1"), Unread("has no known format")),
    # files that are none
    (".csv", "int64", "", Unread("cannot be read: Empty CSV file")),
    (".parquet", "int64", "hello", Unread("cannot be read")),
    (".arrow", "int64", "hello", Unread("cannot be read")),
    (".csv.gz", "int64", lambda: gzip.compress(csv(*["1"] * 999).encode())[:-12], Unread("Truncated")),
    # lines
    (".csv", "string", "\ufeffv,w\r\na,\r\n\r\nb,\r\n", ["a", "b"]),
    (".csv", "string", csv('"a\nb"', "c"), ["a\nb", "c"]),
    (".csv", "string", csv('""', "", "a"), ["", None, "a"]),
    (".csv", "string", csv("a\0b", " a "), ["a\0b", " a "]),
    (".csv", "int64", csv('"1"', "", "x"), Wrong(4)),
    (".csv", "int64", 'v,w\n1,"a\n\nb"\n\nx,\n', Wrong(6)),
    (".csv", "int64", "v,w\n1,\n2\n", Wrong(3, column=False)),
    (".csv", "int64", "v,w\n1,,\n", Wrong(2, column=False)),
    (".csv", "string", b"v,w\nok,\ncaf\xe9,\n", Unread("line 3 is not UTF-8 text")),
    (".csv", "string", b"v,caf\xe9\nok,\n", Unread("line 1 is not UTF-8 text")),
    (".jsonl", "int64", "\ufeff" + jsonl("1").replace("\n", "\r\n") + "\r\n\n" + jsonl("2"), [1, 2]),
    (".jsonl", "int64", jsonl("1") + "\n{oops\n", Wrong(3, column=False)),
    (".jsonl", "int64", '[{"v": 1, "w": null}]\n', Wrong(1, column=False)),
    (".jsonl", "string", b'{"v": "ok", "w": null}\n{"v": "caf\xe9", "w": null}\n', Wrong(2, column=False)),
    (".jsonl", "string", jsonl('"\\ud800"'), Wrong(1, column=False)),
    (".jsonl", "string", jsonl("[" * 3000 + "]" * 3000), Wrong(1, column=False)),
    (".jsonl", "int64", jsonl("1") + '{"v": 1, "v": 2, "w": null}\n', Wrong(2, column=False)),
    (".jsonl", "int64", '{"v": 1, "\\u0076": 1, "w": null}\n', Wrong(1, column=False)),
    (".jsonl", "string", '{"v": "\\"v\\": 1", "w": null}\n{"v": "a:", "w": null, "w": null}\n', Wrong(2, column=False)),
    (".jsonl", "string", jsonl('"{\\"v\\": 1, \\"v\\": 2}"'), ['{"v": 1, "v": 2}']),
    # whole numbers
    (".csv", "int64", csv(" 7 ", "007", "1.0", "1e3", "-0"), [7, 7, 1, 1000, 0]),
    (".csv", "int64", csv("1", "1.5"), Wrong(3)),
    (".csv", "int64", csv("9223372036854775808"), Wrong(2)),
    (".csv", "uint64", csv("18446744073709551615"), [2**64 - 1]),
    (".jsonl", "int64", jsonl("1.0", "2e3", '"7"', str(LARGE), f"{LARGE}.0"), [1, 2000, 7, LARGE, LARGE]),
    (".jsonl", "int64", jsonl("1", "1.5"), Wrong(2)),
    (".jsonl", "int64", jsonl("1", '"x"'), Wrong(2)),
    (".jsonl", "int64", jsonl("true"), Wrong(1)),
    (".jsonl", "int64", jsonl("9223372036854775808"), Wrong(1)),
    (".jsonl", "uint64", jsonl("18446744073709551615"), [2**64 - 1]),
    (".parquet", "int64", parquet(pa.array([1, None], pa.int32())), [1, None]),
    (".parquet", "int64", parquet([1.0, 2.0]), [1, 2]),
    (".parquet", "int64", parquet([1.0, 2.5]), Wrong(2)),
    # floats and decimals
    (".csv", "float", csv("0.1", "1"), [0.10000000149011612, 1.0]),
    (".csv", "double", csv("0.1", "1e3", "-2"), [0.1, 1000.0, -2.0]),
    (".csv", "double", csv("1", str(LARGE)), Wrong(3)),
    (".csv", "double", csv("one"), Wrong(2)),
    (".csv", "float", csv("1e39"), Wrong(2)),
    (".jsonl", "double", jsonl("0.1", "1", '"1.5"'), [0.1, 1.0, 1.5]),
    (".jsonl", "double", jsonl("1.5", str(LARGE)), Wrong(2)),
    (".jsonl", "double", jsonl("1", "1e400"), Wrong(2)),
    (".jsonl", "float", jsonl("1e39"), Wrong(1)),
    (".parquet", "float", parquet([0.1, 1e39]), Wrong(2)),
    (".csv", "decimal(38,10)", csv("1234567890123456789.0123456789"), [Decimal("1234567890123456789.0123456789")]),
    (".jsonl", "decimal(38,10)", jsonl("1234567890123456789.0123456789", '"0.5"', "1"), None),
    (".jsonl", "decimal(38,10)", jsonl("1", "0.12345678901"), Wrong(2)),
    # text, true and false
    (".csv", "string", csv("007", "NA", "true"), ["007", "NA", "true"]),
    (".jsonl", "string", jsonl('"007"', '"é\\n"', "null"), ["007", "é\n", None]),
    (".jsonl", "string", jsonl("5"), Wrong(1)),
    (".parquet", "string", parquet(pa.array(["a", "b"]).dictionary_encode()), ["a", "b"]),
    (".csv", "bool", csv("true", "FALSE", "1"), [True, False, True]),
    (".csv", "bool", csv("true", "yes"), Wrong(3)),
    (".jsonl", "bool", jsonl("true", '"false"'), [True, False]),
    (".jsonl", "bool", jsonl("true", '"yes"'), Wrong(2)),
    # times
    (".csv", "date", csv("2024-02-29", "2024-02-29T00:00:00"), [dt.date(2024, 2, 29)] * 2),
    (".csv", "date", csv("2024-02-30"), Wrong(2)),
    (".csv", "date", csv("2024-2-9"), Wrong(2)),
    (".jsonl", "date", jsonl('"2024-02-29"', '"2024-02-29T00:00:00"'), [dt.date(2024, 2, 29)] * 2),
    (".jsonl", "date", jsonl('"2024-02-29T01:00:00"'), Wrong(1)),
    (".csv", "timestamp", csv("2024-01-01T14:00:00+02:00", "2024-01-01 12:00:00", "2024-01-01T12:00"), [NOON] * 3),
    (".csv", "timestamp", csv("2024-01-01T12:00:00.123456789Z"), Wrong(2)),
    (".jsonl", "timestamp", jsonl('"2024-01-01T14:00:00+02:00"', '"2024-01-01 12:00:00"'), [NOON] * 2),
    (".jsonl", "timestamp", jsonl("1700000000"), Wrong(1)),
    (".parquet", "timestamp", parquet(pa.array([1], pa.timestamp("ns", "UTC"))), Wrong(1)),
    # lists
    (".csv", "float[2]", csv('"[1, 2.5]"', ""), [[1.0, 2.5], None]),
    (".csv", "float[2]", csv('"[1, 2]"', '"[1]"'), Wrong(3)),
    (".csv", "float[2]", csv("oops"), Wrong(2)),
    (".jsonl", "float[2]", jsonl("[1, 2.5]", "null"), [[1.0, 2.5], None]),
    (".jsonl", "float[2]", jsonl("[1, 2]", "[1]"), Wrong(2)),
    (".parquet", "float[2]", parquet([[1.0, 2.5]]), [[1.0, 2.5]]),
    (".csv", "int64[]", csv('"[1, 2]"', "[]"), [[1, 2], []]),
    (".csv", "string[]", csv('"[""a"", ""b""]"'), [["a", "b"]]),
    (".jsonl", "int64[]", jsonl(f"[{LARGE}, 1.0]", "[]"), [[LARGE, 1], []]),
    (".jsonl", "int64[]", jsonl("[1]", '[1, "x"]'), Wrong(2)),
]
FITS: dict[tuple[str, str], list[Any]] = {
    (".jsonl", "decimal(38,10)"): [Decimal("1234567890123456789.0123456789"), Decimal("0.5"), Decimal(1)]
}


# -- the ways in ------------------------------------------------------------------------------------------------------


@dataclass
class Here:
    folder: Path
    run: Run

    def lake(self, kind: str) -> quire.Lake:
        lake = quire.create(self.folder / "lake")
        lake.create_table("t", schema=pa.schema([("v", KINDS[kind][0]), ("w", pa.string())]))
        return lake

    def graph(self, kind: str) -> quire.Graph:
        graph = quire.Graph(quire.create(self.folder / "lake"))
        graph.apply_schema(f"node T {{ v: {KINDS[kind][1]}?  w: String? }}")
        return graph

    def command(self, *arguments: object) -> QuireError | None:
        ran = self.run(*arguments, "--json", code=None)
        if not ran.code:
            return None
        error = ran.json["error"]
        assert error["kind"] != "unexpected", ran
        return QuireError(error["message"], **{k: v for k, v in error.items() if k not in ("message", "kind", "next")})


def appended(here: Here, path: Path, kind: str) -> QuireError | None:
    return here.command("append", here.lake(kind).uri, "t", path)


def created(here: Here, path: Path, kind: str) -> QuireError | None:
    lake = quire.create(here.folder / "lake")
    columns = f"v:{'timestamp[us,UTC]' if kind == 'timestamp' else kind},w:string"
    return here.command("table", "create", lake.uri, "t", "--from", path, "--schema", columns)


def commanded(here: Here, path: Path, kind: str) -> QuireError | None:
    return here.command("load", here.graph(kind).lake.uri, path, "--type", "T")


def caught(work: Callable[[], Any]) -> QuireError | None:
    try:
        work()
    except QuireError as error:
        return error
    return None


def loaded(engine: Any) -> Callable[[Here, Path, str], QuireError | None]:
    def load(here: Here, path: Path, kind: str) -> QuireError | None:
        graph = here.graph(kind)
        return caught(lambda: graph.load(str(path), type="T", engine=engine))

    return load


def piped(target: str, engine: Any) -> Callable[[Here, Path, str], QuireError | None]:
    def run(here: Here, path: Path, kind: str) -> QuireError | None:
        lake = here.lake(kind) if target == "table" else here.graph(kind).lake
        feed = {"files": str(path), target: "t" if target == "table" else "T"}
        return caught(lambda: pipeline.run(lake, {"sources": [feed]}, engine=engine))

    return run


SPARK = {"graph.load on Spark": "node:T", "pipeline on Spark": "t"}
WAYS: dict[str, tuple[str, Callable[[Here, Path, str], QuireError | None]]] = {
    "quire append": ("t", appended),
    "quire table create": ("t", created),
    "quire load": ("node:T", commanded),
    "graph.load": ("node:T", loaded("local")),
    "graph.load by tasks": ("node:T", loaded(PickledTasks())),
    "pipeline into a table": ("t", piped("table", "local")),
    "pipeline into a table by tasks": ("t", piped("table", PickledTasks())),
    "pipeline into a type": ("node:T", piped("node", "local")),
}


def names(cases: list[tuple[str, str, Body, Any]]) -> list[str]:
    return [f"{number}{suffix}-{kind}" for number, (suffix, kind, _, _) in enumerate(cases)]


@pytest.mark.parametrize("way", WAYS)
def test_a_file_gives_the_same_rows_or_the_same_error(
    way: str, run: Run, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert differing(*WAYS[way], run, tmp_path_factory) == []


@pytest.mark.full
@pytest.mark.parametrize("way", SPARK)
def test_so_does_spark(way: str, spark: Any, run: Run, tmp_path_factory: pytest.TempPathFactory) -> None:
    read = loaded(spark) if way == "graph.load on Spark" else piped("table", spark)
    assert differing(SPARK[way], read, run, tmp_path_factory) == []


def differing(
    stored_as: str,
    read: Callable[[Here, Path, str], QuireError | None],
    run: Run,
    tmp_path_factory: pytest.TempPathFactory,
) -> list[tuple[str, Any, Any]]:
    """The cases in which something else is read: what is expected, and what is found."""
    found_otherwise = []
    for name, (suffix, kind, body, expected) in zip(names(CASES), CASES, strict=True):
        if KINDS[kind][1] is None and stored_as != "t":
            continue
        folder = tmp_path_factory.mktemp("case")
        path = folder / f"rows{suffix}"
        data = body() if callable(body) else body
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        wanted = FITS[suffix, kind] if expected is None else expected
        error = read(Here(folder, run), path, kind)
        found = told(error) if error is not None else values(folder, stored_as)
        if not agrees(found, wanted):
            found_otherwise.append((name, wanted, found))
    return found_otherwise


def values(folder: Path, stored_as: str) -> list[Any]:
    return [row["v"] for row in quire.open(folder / "lake").snapshot()[stored_as].scan().to_pylist()]


def told(error: QuireError) -> tuple[str, int | None, str | None]:
    """What is said, with the line and the column that are blamed."""
    violations = error.fields.get("violations")
    if violations:
        first = violations[0]
        return first["message"], first["line"], first.get("property")
    place = re.search(r", (?:line|row) (\d+):", error.message)
    return error.message, int(place[1]) if place else None, error.fields.get("column")


def agrees(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, Unread):
        return isinstance(found, tuple) and wanted.said in found[0]
    if isinstance(wanted, Wrong):
        return isinstance(found, tuple) and found[1:] == (wanted.line, "v" if wanted.column else None)
    return bool(found == wanted)


# -- CSV in other forms -----------------------------------------------------------------------------------------------

ODD = "'v';w\n'Köln; am Rhein';NA\nBonn;x\n".encode("latin-1")
FORM = {"delimiter": ";", "quote": "'", "null": "NA", "encoding": "latin-1"}
OPTIONS = [f"--{name}={value}" for name, value in FORM.items()]
TOWNS = [("Köln; am Rhein", None), ("Bonn", "x")]


def test_csv_in_another_form_is_read_by_all(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "odd.csv"
    path.write_bytes(ODD)
    found = []
    for number, read in enumerate((_append, _create, _load, _graph_load, _graph_tasks, _pipe, _pipe_node)):
        folder = tmp_path / str(number)
        folder.mkdir()
        here = Here(folder, run)
        stored_as, error = read(here, str(path))
        assert error is None, (read, error)
        rows = quire.open(folder / "lake").snapshot()[stored_as].scan().to_pylist()
        found.append([(row["v"], row["w"]) for row in rows])
    assert found == [TOWNS] * len(found)


def _append(here: Here, path: str) -> tuple[str, QuireError | None]:
    return "t", here.command("append", here.lake("string").uri, "t", path, *OPTIONS)


def _create(here: Here, path: str) -> tuple[str, QuireError | None]:
    lake = quire.create(here.folder / "lake")
    return "t", here.command("table", "create", lake.uri, "t", "--from", path, *OPTIONS)


def _load(here: Here, path: str) -> tuple[str, QuireError | None]:
    return "node:T", here.command("load", here.graph("string").lake.uri, path, "--type", "T", *OPTIONS)


def _graph_load(here: Here, path: str) -> tuple[str, QuireError | None]:
    return "node:T", caught(lambda: here.graph("string").load(path, type="T", csv=FORM))


def _graph_tasks(here: Here, path: str) -> tuple[str, QuireError | None]:
    return "node:T", caught(lambda: here.graph("string").load(path, type="T", csv=FORM, engine=PickledTasks()))


def _pipe(here: Here, path: str) -> tuple[str, QuireError | None]:
    feed = {"files": path, "table": "t", "csv": FORM}
    return "t", caught(lambda: pipeline.run(here.lake("string"), {"sources": [feed]}))


def _pipe_node(here: Here, path: str) -> tuple[str, QuireError | None]:
    feed = {"files": path, "node": "T", "csv": FORM}
    return "node:T", caught(lambda: pipeline.run(here.graph("string").lake, {"sources": [feed]}))


@pytest.mark.parametrize("way", WAYS)
def test_a_file_that_looks_as_if_it_had_another_delimiter_is_told_of(
    way: str, run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "odd.csv"
    path.write_text("v;w\n1;\n")
    error = WAYS[way][1](Here(tmp_path, run), path, "int64")
    assert error is not None or way == "quire table create"
    if way not in ("quire append", "quire table create"):  # these warn: `test_csv_options`
        assert "looks as if its fields were separated by ';'" in told(error)[0]  # type: ignore[arg-type]


@pytest.mark.parametrize("csv", [{"delimiter": ";;"}, {"separator": ";"}, {"encoding": "klingon"}, {"header": "no"}])
def test_a_form_that_cannot_be_is_refused(csv: dict[str, Any], tmp_path: Path, run: Run) -> None:
    graph = Here(tmp_path, run).graph("int64")
    with pytest.raises(InvalidInput):
        graph.load("rows.csv", type="T", csv=csv)
    with pytest.raises(InvalidInput):
        pipeline.run(graph.lake, {"sources": [{"files": "rows.csv", "node": "T", "csv": csv}]})
