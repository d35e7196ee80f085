"""Values that Python has no form for, wherever they are shown, compared or written."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.rowfiles.reading import read_files

import quire
from quire.conversion import held
from quire.errors import DuplicateKeys, InvalidInput, KeyConflict, QuireError, SchemaMismatch
from quire.rowfiles import write as writers
from quire.rowfiles.kinds import kind_of

FAR: dict[str, tuple[pa.Array, str]] = {
    "timestamp": (pa.array([2**62, 0]).cast(pa.timestamp("us")), "+148108-07-06T14:00:27.387904"),
    "timestamp with zone": (
        pa.array([2**62, 0]).cast(pa.timestamp("us", "Europe/Berlin")),
        "+148108-07-06T14:00:27.387904Z",
    ),
    "before": (pa.array([-(2**62), 0]).cast(pa.timestamp("us")), "-144169-06-28T09:59:32.612096"),
    "date": (pa.array([2**30, 0], pa.int32()).cast(pa.date32()), "+2941775-04-07"),
}


@pytest.mark.parametrize("name", FAR)
def test_a_far_value_is_text_and_its_neighbours_are_not(name: str) -> None:
    column, text = FAR[name]
    far, near = held.values(column)
    assert far == text
    assert near == column[1].as_py()
    nested = pa.array([[column[0]], [column[1]]], pa.list_(column.type))
    assert held.values(nested) == [[text], [column[1].as_py()]]
    in_struct = pa.StructArray.from_arrays([column], ["a"])
    assert held.values(in_struct) == [{"a": text}, {"a": near}]


@pytest.mark.parametrize("name", FAR)
def test_a_table_of_far_keys_has_only_errors_of_quire(tmp_path: Path, name: str) -> None:
    column, text = FAR[name]
    data = pa.table({"k": column, "n": [1, 2]})
    lake = quire.create(tmp_path / "lake")
    lake.create_table("t", data, key="k")
    table = lake["t"]

    for read in (table.to_pylist, lambda: table.scan().to_pylist(), lambda: lake.sql("select k from t").to_pylist()):
        with pytest.raises(InvalidInput, match="Column 'k' has a value that Python cannot hold") as caught:
            read()
        assert caught.value.fields["column"] == "k"
    assert table.to_arrow().sort_by("n").equals(data)
    assert text[:30] in repr(table)
    with lake.transaction("keys") as tx:
        with pytest.raises(KeyConflict, match=text.replace("+", r"\+")):
            tx["t"].insert(data)
        with pytest.raises(DuplicateKeys, match=text.replace("+", r"\+")):
            tx["t"].upsert(pa.concat_tables([data, data]))
        assert tx["t"].insert(data, exists="ignore") == {"inserted": 0, "ignored": 2}
        assert tx["t"].upsert(data) == {"inserted": 0, "updated": 2}
        tx["t"].require_keys(data.select(["k"]))
        with pytest.raises(QuireError):
            tx["t"].require_absent(data.select(["k"]))
        tx.discard()
    narrow = pa.timestamp("ns", "UTC") if "zone" in name else pa.timestamp("ns")
    with pytest.raises(SchemaMismatch, match="row 0"):
        lake.create_table("narrow", data, schema=pa.schema({"k": narrow, "n": pa.int64()}))


def test_the_command_line_prints_far_values(tmp_path: Path) -> None:
    lake = quire.create(tmp_path / "lake")
    lake.create_table("t", pa.table({"k": FAR["date"][0]}))
    command = [sys.executable, "-m", "quire", "sql", str(tmp_path / "lake"), "select k from t"]
    for more in ([], ["--json"]):
        ran = subprocess.run([*command, *more], capture_output=True, text=True, check=True)
        assert "+2941775-04-07" in ran.stdout


NANOSECONDS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.time64("ns"), [1, None, 3_600_000_000_000]),
    (pa.timestamp("ns"), [1, None, -1]),
    (pa.timestamp("ns", "UTC"), [1, None, -1]),
    (pa.duration("ns"), [1, None, -90_061_000_000_005]),
    (pa.duration("us"), [1, None, -(2**62)]),
    (pa.duration("s"), [1, None, 2**62]),
]


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
@pytest.mark.parametrize("nested", ["plain", "list", "struct", "list of structs"])
@pytest.mark.parametrize(("kind", "numbers"), NANOSECONDS, ids=[str(kind) for kind, _ in NANOSECONDS])
def test_text_files_keep_every_digit_of_a_time(
    tmp_path: Path, kind: pa.DataType, numbers: list[Any], nested: str, suffix: str
) -> None:
    column = pa.array(numbers, pa.int64()).cast(kind)
    if nested != "plain":
        struct = pa.StructArray.from_arrays([column], ["a"])
        offsets = pa.array([0, 1, 2, 3], pa.int32())
        made = {"list": pa.ListArray.from_arrays(offsets, column), "struct": struct}
        column = made[nested] if nested in made else pa.ListArray.from_arrays(offsets, struct)
    table = pa.table({"v": column, "n": [1, 2, 3]})
    path = str(tmp_path / f"a.{suffix}")
    writers.write(iter(table.to_batches()), table.schema, path, kind_of(path, None))
    assert read_files([path], None, table.schema).read_all().equals(table)


@pytest.mark.parametrize("name", FAR)
def test_csv_refuses_what_it_has_no_form_for(tmp_path: Path, name: str) -> None:
    table = pa.table({"v": FAR[name][0]})
    path = str(tmp_path / "a.csv")
    with pytest.raises(InvalidInput, match="Column 'v' has a time that CSV has no form for"):
        writers.write(iter(table.to_batches()), table.schema, path, kind_of(path, None))


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("P2W", pa.duration("s"), dt.timedelta(14)),
        ("PT1H2M3.5S", pa.duration("ms"), dt.timedelta(hours=1, minutes=2, seconds=3.5)),
        ("-P1DT0.0S", pa.duration("s"), dt.timedelta(-1)),
        ("P", pa.duration("s"), None),
        ("PT", pa.duration("s"), None),
        ("1 days", pa.duration("s"), None),
        ("PT0.5S", pa.duration("s"), None),
        ("P999999999999999D", pa.duration("ns"), None),
    ],
)
def test_durations_are_read_whole_or_refused(tmp_path: Path, text: str, kind: pa.DataType, value: Any) -> None:
    (tmp_path / "a.csv").write_text(f"v,w\n{text},\n")
    read = read_files([str(tmp_path / "a.csv")], None, pa.schema({"v": kind, "w": pa.string()}))
    if value is not None:
        assert read.read_all()["v"].to_pylist() == [value]
        return
    with pytest.raises(SchemaMismatch, match="line 2: Column 'v'"):
        read.read_all()
