"""Tables from the command line."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from tests.cli.conftest import Run, rows

import quire


def test_tables_are_listed_with_rows_version_and_key(run: Run, lake: str) -> None:
    assert run("tables", lake).lines() == [
        ["table", "rows", "version", "key", "commit"],
        ["events", "2", "1", "1.0"],
        ["people", "3", "2", "id", "2.0"],
    ]
    assert run("tables", lake, "--json").json == {
        "branch": "main",
        "commit": "2.0",
        "tables": [
            {"name": "events", "rows": 2, "version": 1, "key": [], "commit": "1.0"},
            {"name": "people", "rows": 3, "version": 2, "key": ["id"], "commit": "2.0"},
        ],
    }


def test_tables_are_listed_as_they_were(run: Run, lake: str) -> None:
    assert run("tables", lake, "--at", "1.0", "--json").json["tables"][1]["rows"] == 2
    assert run("tables", lake, "--at", "0").out == "no tables\n"


def test_a_table_is_created_from_a_schema(run: Run, lake: str) -> None:
    schema = "id:int64!,name:string,vec:float32[4]"
    ran = run("table", "create", lake, "docs", "--schema", schema, "--key", "id", "-m", "docs", "--json")

    assert ran.json["commit"] == "3.0"
    assert ran.json["tables"]["docs"]["ops"] == ["create"]
    made = quire.open(lake, read_only=True)["docs"]
    assert made.key == ("id",)
    assert made.schema.field("vec").type == pa.list_(pa.float32(), 4)
    assert not made.schema.field("id").nullable


def test_a_table_is_created_from_a_file(run: Run, lake: str) -> None:
    Path("cities.csv").write_text("id,name\n1,Oslo\n2,Bern\n")
    ran = run("table", "create", lake, "cities", "--from", "cities.csv", "--key", "id")

    assert ran.out == "committed 3.0 on main\n  cities: create +2 -0, version 1\n"
    assert rows(lake, "cities") == [{"id": 1, "name": "Oslo"}, {"id": 2, "name": "Bern"}]


def test_a_schema_types_the_file_it_is_created_from(run: Run, lake: str) -> None:
    text = "id,code\n1,007\n"
    schema = "id:int32,code:string"
    run("table", "create", lake, "codes", "--from", "-", "--format", "csv", "--schema", schema, stdin=text)

    assert rows(lake, "codes") == [{"id": 1, "code": "007"}]
    assert quire.open(lake, read_only=True)["codes"].schema.field("id").type == pa.int32()


def test_a_table_needs_columns_from_somewhere(run: Run, lake: str) -> None:
    ran = run("table", "create", lake, "nothing", code=2)
    assert "--schema" in ran.err
    assert "--from" in ran.err


def test_a_file_that_breaks_off_creates_nothing(run: Run, lake: str) -> None:
    body = '{"id": 1}\n' * 20_000 + "oops\n"
    ran = run("table", "create", lake, "broken", "--from", "-", "--format", "jsonl", "--json", stdin=body, code=2)

    assert ran.json["error"]["kind"] == "invalid-input"
    assert ran.json["error"]["line"] == 20_001
    assert "broken" not in quire.open(lake, read_only=True).tables()


def test_a_name_is_taken_once(run: Run, lake: str) -> None:
    assert run("table", "create", lake, "people", "--schema", "id:int64", "--json", code=3).json["error"]["kind"] == (
        "table-exists"
    )


def test_a_table_is_renamed_and_dropped(run: Run, lake: str) -> None:
    run("table", "rename", lake, "events", "happenings")
    assert quire.open(lake, read_only=True).tables() == ["happenings", "people"]

    assert run("table", "drop", lake, "happenings", "--json").json["tables"]["happenings"]["ops"] == ["drop"]
    assert quire.open(lake, read_only=True).tables() == ["people"]
    assert len(rows(lake, "events", commit="2.0")) == 2


def test_a_table_is_described(run: Run, lake: str) -> None:
    found = run("table", "describe", lake, "people", "--json").json
    assert (found["name"], found["rows"], found["version"], found["key"]) == ("people", 3, 2, ["id"])
    assert [c["name"] for c in found["columns"]] == ["id", "name"]
    assert run("table", "describe", lake, "people", "--at", "1", "--json").json["rows"] == 2

    text = run("table", "describe", lake, "people").out
    assert "int64" in text
    assert found["location"] in text


def test_indexes_are_built_shown_and_dropped(run: Run, lake: str) -> None:
    run("table", "index", lake, "people", "id")
    run("table", "index", lake, "people", "name", "--kind", "BITMAP", "--name", "by_name")

    found = run("table", "describe", lake, "people", "--json").json["indexes"]
    assert {i["name"]: i["columns"] for i in found} == {"id_idx": ["id"], "by_name": ["name"]}
    assert "by_name" in run("table", "describe", lake, "people").out

    assert run("table", "index", lake, "people", "id", "--json", code=3).json["error"]["kind"] == "already-exists"
    run("table", "index", lake, "people", "id", "--replace")
    run("table", "drop-index", lake, "people", "by_name")
    found = run("table", "describe", lake, "people", "--json").json["indexes"]
    assert [i["name"] for i in found] == ["id_idx"]


def test_an_index_takes_options(run: Run, lake: str) -> None:
    with quire.open(lake) as handle, handle.transaction() as tx:
        rows = [{"id": i, "vec": [float(i % 7), float(i), 0.0, 1.0]} for i in range(300)]
        schema = pa.schema([("id", pa.int64()), ("vec", pa.list_(pa.float32(), 4))])
        tx.create_table("vectors", pa.Table.from_pylist(rows, schema=schema))

    run("table", "index", lake, "vectors", "vec", "--kind", "IVF_FLAT", "--option", "num_partitions=2")

    [found] = run("table", "describe", lake, "vectors", "--json").json["indexes"]
    assert found["columns"] == ["vec"]
    assert found["rows_indexed"] == 300


def test_columns_are_added_renamed_and_dropped(run: Run, lake: str) -> None:
    run("table", "add-column", lake, "people", "upper", "--expr", "upper(name)")
    run("table", "add-column", lake, "people", "age", "--type", "int32")
    run("table", "rename-column", lake, "people", "upper", "loud")
    assert rows(lake, "people")[0] == {"id": 1, "name": "Ada", "loud": "ADA", "age": None}

    run("table", "drop-column", lake, "people", "loud")
    assert rows(lake, "people")[0] == {"id": 1, "name": "Ada", "age": None}


@pytest.mark.parametrize("given", [[], ["--type", "int8", "--expr", "id"]])
def test_a_new_column_has_a_type_or_an_expression(run: Run, lake: str, given: list[str]) -> None:
    assert "--type" in run("table", "add-column", lake, "people", "x", *given, code=2).err


def test_an_existing_lance_table_is_registered_where_it_lies(run: Run, lake: str) -> None:
    lance.write_dataset(pa.table({"id": [1, 2]}), "plain.lance")

    ran = run("register", lake, "plain", "plain.lance", "--key", "id", "--json")

    assert ran.json["tables"]["plain"]["ops"] == ["register"]
    assert rows(lake, "plain") == [{"id": 1}, {"id": 2}]
    refused = run("append", lake, "plain", "-", "--format", "jsonl", "--json", stdin='{"id": 3}', code=6)
    assert refused.json["error"]["kind"] == "outside-lake"
    named = ("--external", "plain.lance")
    run("append", lake, "plain", "-", "--format", "jsonl", *named, stdin='{"id": 3}')
    assert len(rows(lake, "plain")) == 3


def test_a_place_without_a_table_is_not_registered(run: Run, lake: str) -> None:
    ran = run("register", lake, "plain", "nowhere.lance", code=None)
    assert ran.code in (2, 3)
    assert "nowhere.lance" in ran.err


def test_a_column_changes_its_type_and_whether_it_may_be_null(run: Run, lake: str) -> None:
    run("table", "alter-column", lake, "events", "v", "--type", "float32")
    run("table", "alter-column", lake, "events", "id", "--required", "-m", "must be")
    columns = {c["name"]: c for c in run("table", "describe", lake, "events", "--json").json["columns"]}
    assert (columns["v"]["type"], columns["id"]["nullable"]) == ("float", False)
    run("table", "alter-column", lake, "events", "id", "--nullable")
    assert run("table", "alter-column", lake, "events", "v", "--json", code=2).json["error"]["next"]
    assert run("table", "alter-column", lake, "people", "id", "--type", "string", "--json", code=6).json["error"]


def test_a_database_is_registered_as_a_whole(run: Run, lake: str, tmp_path: Path) -> None:
    for name in ("one", "two"):
        lance.write_dataset(pa.table({"id": [1, 1]}), str(tmp_path / f"shop/{name}.lance"))
    shop = str(tmp_path / "shop")

    planned = run("register-all", lake, shop, "--key", "two=id", "--dry-run", "--json", code=2).json
    assert [(t["table"], bool(t["problem"])) for t in planned["tables"]] == [("one", False), ("two", True)]
    assert run("register-all", lake, shop, "--key", "two=id", "--json", code=2).json["error"]["problems"].keys() == {
        "two"
    }
    assert "nothing was written" in run("register-all", lake, shop, "--dry-run").out

    done = run("register-all", lake, shop, "--prefix", "shop_", "-m", "all of it", "--json").json
    assert [t["table"] for t in done["tables"]] == ["shop_one", "shop_two"]
    assert rows(lake, "shop_two") == [{"id": 1}, {"id": 1}]
    assert run("take-over", lake, "shop_one", "--external", shop).out
