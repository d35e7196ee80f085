"""What people get wrong, and what they are told: type, name, reason and next step; and nothing is half done."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import quire
from quire import errors
from quire.errors import QuireError
from quire.ledger import MAIN, hint_key
from quire.ledger.records import NEWEST, seal

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def lake(root: Path) -> quire.Lake:
    """`people` with a key and `events` without, one row each."""
    lake = quire.create(root, backfill=False)
    with lake.transaction("tables") as tx:
        tx.create_table("people", [{"id": 1, "name": "Ada"}], schema=SCHEMA, key="id")
        tx.create_table("events", [{"id": 1, "name": "born"}], schema=SCHEMA)
    lake.flush()
    return lake


def check(error: QuireError, kind: type[QuireError], *says: str) -> None:
    """The promise of every error."""
    assert type(error) is kind
    for text in says:
        assert text in str(error), f"{text!r} is not in {str(error)!r}"
    assert error.next, "what to do next"
    assert error.fields, "structured fields"
    told = json.loads(json.dumps(error.to_dict()))
    assert told["kind"] == kind.kind
    assert told["message"] == error.message
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert copy.to_dict() == error.to_dict()
    assert "Traceback" not in str(error)
    assert ".rs:" not in str(error)


def files(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


# -- in a transaction -------------------------------------------------------------------------------------------------


@dataclass
class Case:
    do: Callable[[quire.Transaction], Any]
    kind: type[QuireError]
    says: tuple[str, ...]
    fields: dict[str, Any]


CASES = {
    "wrong type": Case(
        lambda tx: tx["events"].append(pa.table({"id": ["x"], "name": ["y"]})),
        errors.SchemaMismatch,
        ("'id'", "'events'", "int64", "string", "Cast"),
        {"table": "events", "column": "id", "expected": "int64", "actual": "string"},
    ),
    "wrong type in a row": Case(
        lambda tx: tx["events"].append([{"id": "x", "name": "y"}]),
        errors.SchemaMismatch,
        ("'id'", "'events'", "int64"),
        {"table": "events", "column": "id"},
    ),
    "value too large": Case(
        lambda tx: tx["events"].append(pa.table({"id": pa.array([2**63], pa.uint64()), "name": ["y"]})),
        errors.SchemaMismatch,
        ("'id'", "'events'", "int64", "9223372036854775808"),
        {"table": "events", "column": "id"},
    ),
    "missing column": Case(
        lambda tx: tx["events"].append([{"id": 1}]),
        errors.SchemaMismatch,
        ("'events'", "lacks column 'name'", 'missing="null"'),
        {"table": "events", "missing": ["name"]},
    ),
    "extra column": Case(
        lambda tx: tx["events"].append([{"id": 1, "name": "x", "nmae": "y"}]),
        errors.SchemaMismatch,
        ("'events'", "no column 'nmae'", "'id', 'name'", "add_columns"),
        {"table": "events", "unexpected": ["nmae"]},
    ),
    "missing key column": Case(
        lambda tx: tx["people"].upsert([{"name": "x"}]),
        errors.SchemaMismatch,
        ("'people'", "key column 'id'"),
        {"table": "people", "missing": ["id"]},
    ),
    "duplicate keys": Case(
        lambda tx: tx["people"].append([{"id": 7, "name": "x"}, {"id": 7, "name": "y"}]),
        errors.DuplicateKeys,
        ("'people'", "id=7", "one row per key"),
        {"table": "people", "keys": [{"id": 7}]},
    ),
    "null key": Case(
        lambda tx: tx["people"].append([{"id": None, "name": "x"}]),
        errors.DuplicateKeys,
        ("'people'", "null", "'id'"),
        {"table": "people", "column": "id"},
    ),
    "key exists": Case(
        lambda tx: tx["people"].append([{"id": 1, "name": "again"}]),
        errors.KeyConflict,
        ("'people'", "id=1", "upsert"),
        {"table": "people", "keys": [{"id": 1}]},
    ),
    "unknown table": Case(
        lambda tx: tx["poeple"], errors.TableNotFound, ("'poeple'", "Did you mean 'people'?"), {"table": "poeple"}
    ),
    "unknown table far from any": Case(
        lambda tx: tx["zzz"], errors.TableNotFound, ("'zzz'", "events, people"), {"table": "zzz"}
    ),
    "table exists": Case(
        lambda tx: tx.create_table("people", schema=SCHEMA), errors.TableExists, ("'people'",), {"table": "people"}
    ),
    "rename onto a table": Case(
        lambda tx: tx.rename_table("events", "people"), errors.TableExists, ("'people'",), {"table": "people"}
    ),
    "bad table name": Case(
        lambda tx: tx.create_table("a/b", schema=SCHEMA), errors.InvalidName, ("'a/b'", "letters"), {"name": "a/b"}
    ),
    "unknown key column": Case(
        lambda tx: tx.create_table("t", schema=SCHEMA, key="idd"),
        errors.ColumnNotFound,
        ("'idd'", "'t'", "id, name"),
        {"table": "t", "column": "idd"},
    ),
    "bad condition": Case(
        lambda tx: tx["events"].delete("nmae = 'x'"), errors.InvalidExpression, ("nmae",), {"expression": "nmae = 'x'"}
    ),
    "bad expression": Case(
        lambda tx: tx["events"].update({"name": "upper(nmae)"}),
        errors.InvalidExpression,
        ("upper(nmae)",),
        {"expression": "upper(nmae)"},
    ),
    "update of an unknown column": Case(
        lambda tx: tx["events"].update({"nmae": "1"}),
        errors.ColumnNotFound,
        ("'nmae'", "'events'"),
        {"table": "events", "column": "nmae"},
    ),
    "update with a value of the wrong type": Case(
        lambda tx: tx["events"].update(values={"id": "x"}),
        errors.SchemaMismatch,
        ("'id'", "'events'"),
        {"column": "id"},
    ),
    "upsert without a key": Case(
        lambda tx: tx["events"].upsert([{"id": 1, "name": "x"}]),
        errors.InvalidInput,
        ("'events'", 'on="id"'),
        {"table": "events"},
    ),
    "another key than the table's": Case(
        lambda tx: tx["people"].upsert([{"id": 1, "name": "x"}], on="name"),
        errors.InvalidInput,
        ("'people'", "id", "name"),
        {"table": "people"},
    ),
    "unreadable rows": Case(
        lambda tx: tx["events"].append(5), errors.InvalidInput, ("int", "list of dicts"), {"type": "int"}
    ),
    "unknown format": Case(
        lambda tx: tx.create_table("t", schema=SCHEMA, format="parquet"),
        errors.Unsupported,
        ("'parquet'",),
        {"format": "parquet"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_in_a_transaction_is_told_and_nothing_is_committed(lake: quire.Lake, root: Path, name: str) -> None:
    case = CASES[name]
    tx = lake.transaction("a mistake")
    tx["events"].append([{"id": 2, "name": "before the mistake"}])
    with pytest.raises(QuireError) as caught, tx:
        case.do(tx)
    check(caught.value, case.kind, *case.says)
    assert case.fields.items() <= caught.value.fields.items()
    assert tx.status == "discarded"
    again = quire.open(root, read_only=True)
    assert again.head == lake.refresh() == "1.0"
    assert again.tables() == ["events", "people"]
    assert again["people"].to_pylist() == [{"id": 1, "name": "Ada"}]
    assert again["events"].to_pylist() == [{"id": 1, "name": "born"}]


@pytest.mark.parametrize("name", CASES)
def test_after_a_mistake_that_was_caught_the_transaction_goes_on_without_it(lake: quire.Lake, name: str) -> None:
    with lake.transaction("goes on") as tx:
        tx["events"].append([{"id": 2, "name": "before"}])
        with pytest.raises(QuireError):
            CASES[name].do(tx)
        tx["events"].append([{"id": 3, "name": "after"}])
    snap = lake.snapshot()
    assert snap.tables() == ["events", "people"]
    assert [r["name"] for r in snap["events"].to_pylist()] == ["born", "before", "after"]
    assert snap["people"].to_pylist() == [{"id": 1, "name": "Ada"}]
    assert set(lake.log()[0].tables) == {"events"}


def test_a_closed_transaction_is_told_so(lake: quire.Lake) -> None:
    with lake.transaction("done") as tx:
        tx["events"].append([{"id": 2, "name": "x"}])
    for use in (
        tx.commit,
        lambda: tx["events"],
        lambda: tx.create_table("t", schema=SCHEMA),
        lambda: tx.sql("select 1"),
    ):
        with pytest.raises(errors.TransactionClosed) as caught:
            use()
        check(caught.value, errors.TransactionClosed, "committed", "lake.transaction()")
    assert lake["events"].count() == 2


def test_an_unknown_table_of_a_snapshot_is_answered_with_the_nearest(lake: quire.Lake, tmp_path: Path) -> None:
    with pytest.raises(errors.TableNotFound) as caught:
        lake.snapshot()["evnts"]
    check(caught.value, errors.TableNotFound, "'evnts'", "Did you mean 'events'?")
    with pytest.raises(errors.TableNotFound) as caught:
        quire.create(tmp_path / "empty").snapshot()["any"]
    check(caught.value, errors.TableNotFound, "'any'", "create_table")


def test_unknown_branches_tags_and_commits_are_named(lake: quire.Lake, root: Path) -> None:
    looks: list[tuple[type[QuireError], str, Callable[[], Any]]] = [
        (errors.BranchNotFound, "'nope'", lambda: quire.open(root, branch="nope")),
        (errors.TagNotFound, "'nope'", lambda: lake.at(tag="nope")),
        (errors.CommitNotFound, "77.0", lambda: lake.at(commit="77.0")),
        (errors.CommitNotFound, "'nope'", lambda: lake.at(commit="nope")),
    ]
    for kind, says, look in looks:
        with pytest.raises(kind) as caught:
            look()
        check(caught.value, kind, says)
    with pytest.raises(errors.BranchNotFound):
        lake.branch("nope")


# -- the place --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("s4://bucket/lake", ("'s4'", "s3://bucket/lake")),
        ("s3:/bucket/lake", ("'s3:/bucket/lake'", "s3://bucket/lake")),
        ("s3:bucket", ("'s3:bucket'", "s3://bucket/lake")),
        ("s3://", ("'s3://'", "s3://bucket/lake")),
        ("gss://bucket/lake", ("'gss'", "gs://bucket/lake")),
        ("hdfs://name/lake", ("'hdfs'", "s3://")),
        ("file://lake", ("'file://lake'", "file:///")),
        ("s3://bucket/../lake", ("..",)),
        ("s3://key:secret@bucket/lake", ("credentials", "storage options")),
        ("", ("address", "s3://bucket/lake")),
    ],
)
@pytest.mark.parametrize("act", [quire.open, quire.create])
def test_a_mistyped_address_is_told_the_form_it_should_have(
    act: Callable[[str], Any], uri: str, says: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(errors.InvalidUri) as caught:
        act(uri)
    check(caught.value, errors.InvalidUri, *says)
    assert "secret" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_lake_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(errors.LakeNotFound) as caught:
        quire.open(tmp_path / "none")
    check(caught.value, errors.LakeNotFound, str(tmp_path / "none"), "quire.create")
    assert caught.value.fields["uri"] == str(tmp_path / "none")
    assert list(tmp_path.iterdir()) == []


def test_a_lake_that_exists_already(lake: quire.Lake, root: Path) -> None:
    before = files(root)
    with pytest.raises(errors.LakeExists) as caught:
        quire.create(root)
    check(caught.value, errors.LakeExists, str(root), "quire.open")
    assert files(root) == before


@pytest.mark.parametrize("act", [quire.open, quire.create])
def test_a_file_where_a_lake_should_be(act: Callable[[Path], Any], tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_text("mine")
    with pytest.raises(errors.InvalidUri) as caught:
        act(place)
    check(caught.value, errors.InvalidUri, str(place), "is a file")
    assert place.read_text() == "mine"


def test_a_lake_cannot_be_made_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(QuireError) as caught:
        quire.create(tmp_path / "file" / "lake")
    assert isinstance(caught.value, errors.StorageError | errors.InvalidUri)
    check(caught.value, type(caught.value), str(tmp_path / "file" / "lake"))
    assert caught.value.retryable is False
    assert (tmp_path / "file").read_text() == "mine"


def test_a_lake_opened_read_only_says_how_to_write(lake: quire.Lake, root: Path) -> None:
    before = files(root)
    with pytest.raises(errors.ReadOnly) as caught:
        quire.open(root, read_only=True).transaction("x")
    check(caught.value, errors.ReadOnly, str(root), "read_only=True")
    assert caught.value.fields["uri"] == str(root)
    assert files(root) == before


def test_a_place_that_cannot_be_written_is_an_error_and_readers_go_on(lake: quire.Lake, root: Path) -> None:
    """The log's folder is replaced by a file, so that not even a privileged user can write there."""
    tx = lake.transaction("cannot land")
    tx["events"].append([{"id": 2, "name": "x"}])
    snap = lake.snapshot()
    log = next((root / "_quire" / "log").iterdir())
    kept = log.with_name("kept")
    log.rename(kept)
    log.write_text("in the way")
    with pytest.raises(errors.LakeLost) as caught:
        tx.commit()
    check(caught.value, errors.LakeLost, str(root), log.name)
    assert tx.status != "committed"
    assert snap["events"].count() == 1
    log.unlink()
    kept.rename(log)
    assert quire.open(root, read_only=True).head == "1.0"
    with lake.transaction("lands again") as again:
        again["events"].append([{"id": 2, "name": "x"}])
    assert lake["events"].count() == 2


def test_a_store_that_cannot_be_reached_names_the_lake_and_no_secret() -> None:
    options = {
        "aws_endpoint": "http://127.0.0.1:9",
        "allow_http": "true",
        "aws_access_key_id": "AKIAOPEN",
        "aws_secret_access_key": "sesame",
        "aws_region": "us-east-1",
    }
    with pytest.raises(errors.StorageError) as caught:
        quire.open("s3://bucket/lake", storage_options=options)
    check(caught.value, errors.StorageError, "s3://bucket/lake", "reached")
    assert caught.value.retryable
    assert "sesame" not in repr(caught.value.to_dict())
    assert "AKIAOPEN" not in repr(caught.value.to_dict())


# -- what is stored ---------------------------------------------------------------------------------------------------


def edit(path: Path, **fields: Any) -> None:
    held = {**json.loads(path.read_text()), **fields}
    held.pop("sum", None)
    path.write_bytes(seal(json.dumps(held).encode()))


def newest(root: Path) -> Path:
    log = next(p for p in (root / "_quire" / "log").iterdir() if p.is_dir())
    return max(p for p in log.iterdir() if p.name.isdigit())


def test_a_lake_of_a_newer_format_is_refused(lake: quire.Lake, root: Path) -> None:
    edit(root / "_quire" / "format.json", format=999)
    before = files(root)
    for act in (quire.open, lambda uri: quire.open(uri, read_only=True)):
        with pytest.raises(errors.NewerFormat) as caught:
            act(root)
        check(caught.value, errors.NewerFormat, "_quire/format.json", "format 999", f"up to {NEWEST}", "Upgrade Quire")
        assert caught.value.fields == {"object": "_quire/format.json", "found": 999, "supported": NEWEST}
    assert files(root) == before


def test_a_ledger_of_an_unknown_kind_is_refused(lake: quire.Lake, root: Path) -> None:
    edit(root / "_quire" / "format.json", ledger="stone")
    with pytest.raises(errors.Unsupported) as caught:
        quire.open(root)
    check(caught.value, errors.Unsupported, "'stone'", "Upgrade Quire")


def test_a_record_of_a_newer_format_is_refused_by_readers(lake: quire.Lake, root: Path) -> None:
    slot = newest(root)
    edit(slot, format=9)
    with pytest.raises(errors.NewerFormat) as caught:
        quire.open(root)
    check(caught.value, errors.NewerFormat, slot.name, "format 9", f"up to {NEWEST}", "Upgrade Quire")
    assert caught.value.fields["object"].endswith(slot.name)


def test_a_table_of_an_unknown_format_does_not_hide_the_others(lake: quire.Lake, root: Path) -> None:
    slot = newest(root)
    record = json.loads(slot.read_text())
    next(c for c in record["commits"][0]["changes"] if c["name"] == "events")["pin"]["format"] = "stone"
    record.pop("sum")
    slot.write_bytes(seal(json.dumps(record).encode()))
    snap = quire.open(root, read_only=True).snapshot()
    assert snap["people"].to_pylist() == [{"id": 1, "name": "Ada"}]
    with pytest.raises(errors.Unsupported) as caught:
        snap["events"].to_arrow()
    check(caught.value, errors.Unsupported, "'stone'", "Upgrade Quire")


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "cut short": lambda body: body[: len(body) // 2],
    "empty": lambda body: b"",
    "no text": lambda body: b"\x00\xff\xfe",
    "no record": lambda body: b"[1, 2]",
    "another slot": lambda body: json.dumps({**json.loads(body), "slot": 77}).encode(),
    "another branch": lambda body: json.dumps({**json.loads(body), "branch": "other"}).encode(),
    "another past": lambda body: json.dumps({**json.loads(body), "previous": "other"}).encode(),
    "a field of another type": lambda body: json.dumps({**json.loads(body), "time": "noon"}).encode(),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_corrupt_record_is_named_and_nothing_is_changed(lake: quire.Lake, root: Path, damage: str) -> None:
    slot = newest(root)
    good = slot.read_bytes()
    slot.write_bytes(DAMAGE[damage](good))
    before = files(root)
    with pytest.raises(errors.CorruptRecord) as caught:
        quire.open(root)
    check(caught.value, errors.CorruptRecord, str(int(slot.name)), "Restore")
    assert caught.value.fields["reason"]
    assert files(root) == before
    slot.write_bytes(good)
    assert quire.open(root, read_only=True)["events"].count() == 1


@pytest.mark.parametrize("damage", ["cut short", "empty", "no text", "no record"])
def test_a_corrupt_format_file_is_named(lake: quire.Lake, root: Path, damage: str) -> None:
    place = root / "_quire" / "format.json"
    place.write_bytes(DAMAGE[damage](place.read_bytes()))
    with pytest.raises(errors.CorruptRecord) as caught:
        quire.open(root)
    check(caught.value, errors.CorruptRecord, "_quire/format.json", "Restore")
    with pytest.raises(errors.LakeExists):
        quire.create(root)


def test_a_record_in_the_middle_that_is_gone_is_reported(lake: quire.Lake, root: Path) -> None:
    for n in range(3):
        with lake.transaction(f"more {n}") as tx:
            tx["events"].append([{"id": n, "name": "x"}])
    lake.flush()
    last = newest(root)
    (last.parent / f"{2:020d}").unlink()
    with pytest.raises(QuireError) as caught:
        quire.open(root).snapshot()["events"].count()
    check(caught.value, errors.CorruptRecord, "missing")


@pytest.mark.parametrize("body", [b"garbage", b"", b'{"branch": "other", "head": 99}'])
def test_a_hint_that_lies_harms_nobody(lake: quire.Lake, root: Path, body: bytes) -> None:
    hint = root / hint_key(MAIN)
    assert hint.exists()
    hint.write_bytes(body)
    assert quire.open(root, read_only=True).head == "1.0"


@pytest.mark.parametrize(
    ("kind", "change"),
    [(errors.NewerFormat, {"format": 9}), (errors.CorruptRecord, {"previous": "other"}), (errors.CorruptRecord, None)],
)
def test_a_writer_that_meets_a_record_it_cannot_read_commits_nothing(
    lake: quire.Lake, root: Path, kind: type[QuireError], change: dict[str, Any] | None
) -> None:
    """It might have to rebase on what it cannot understand."""
    tx = lake.transaction("too old for this lake")
    tx["events"].append([{"id": 2, "name": "x"}])
    taken = newest(root).with_name(f"{2:020d}")
    shutil.copy(newest(root), taken)
    if change is None:
        taken.write_bytes(b"{")
    else:
        edit(taken, slot=2, **change)
    with pytest.raises(kind) as caught:
        tx.commit()
    check(caught.value, kind, "2")
    assert tx.status != "committed"
    assert tx.status == "discarded"
    assert not taken.with_name(f"{3:020d}").exists()
    taken.unlink()
    assert quire.open(root, read_only=True)["events"].count() == 1


def test_a_data_file_that_is_gone_names_the_table(lake: quire.Lake, root: Path) -> None:
    location = root / lake["events"].describe()["location"]
    shutil.rmtree(location / "data")
    snap = quire.open(root, read_only=True).snapshot()
    with pytest.raises(QuireError) as caught:
        snap["events"].to_arrow()
    check(caught.value, type(caught.value), "events")
    assert snap["people"].count() == 1


def test_a_manifest_that_is_gone_names_the_table(lake: quire.Lake, root: Path) -> None:
    location = root / lake["events"].describe()["location"]
    shutil.rmtree(location / "_versions")
    snap = quire.open(root, read_only=True).snapshot()
    with pytest.raises(errors.SnapshotExpired) as caught:
        snap["events"].to_arrow()
    check(caught.value, errors.SnapshotExpired, "events")


# -- for notebooks ----------------------------------------------------------------------------------------------------


def test_a_real_conflict_is_shown_with_its_facts_and_escaped(tmp_path: Path) -> None:
    evil = "<script>alert('x')</script>"
    mine, theirs = (quire.create(tmp_path / "lake", backfill=False, author=evil, exist_ok=True) for _ in range(2))
    mine.create_table("t", schema=pa.schema([("id", pa.string())]), key="id")
    theirs.refresh()
    late = theirs.transaction("late")
    late["t"].append([{"id": evil}])
    with mine.transaction("first") as tx:
        tx["t"].append([{"id": evil}])
    with pytest.raises(errors.KeyConflict) as caught:
        late.commit()
    check(caught.value, errors.KeyConflict, "'t'", "2.0")
    html = caught.value._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "key-conflict" in html
    assert mine["t"].count() == 1
