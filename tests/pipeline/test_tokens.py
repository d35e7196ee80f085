"""A token that was used: nothing is read, nothing is written, and what is told is what was done the first time."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import quire
from quire import pipeline

SCHEMA = """
node Person { name: String @key  age: I32? @range(age, 0..150) }
edge Knows: Person -> Person { since: I32? }
"""
LINES = ['{"id": 1, "v": "a"}', '{"id": 2, "v": "b"}', '{"id": 2, "v": "twice"}', '{"id": "x"}']
PEOPLE = ['{"name": "Ada", "age": 36}', '{"name": "Bo", "age": 7}', '{"name": "Cy", "age": 900}']
KNOWS = ['{"from": "Ada", "to": "Bo"}', '{"from": "Ada", "to": "Nobody"}']


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    folder = tmp_path / "raw"
    folder.mkdir()
    for name, lines in {"t": LINES, "people": PEOPLE, "knows": KNOWS}.items():
        (folder / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return folder


@pytest.fixture
def filled(lake: quire.Lake) -> quire.Lake:
    quire.Graph(lake).apply_schema(SCHEMA)
    lake.create_table("t", [{"id": 1, "v": "old"}], key="id")
    return lake


PLAN: dict[str, Any] = {
    "sources": [
        {"files": "t.jsonl", "table": "t"},
        {"files": "people.jsonl", "node": "Person"},
        {"files": "knows.jsonl", "edge": "Knows"},
    ]
}
"""Rows that are there already, that come twice, that do not fit, that break a rule alone and with others."""


def told(done: pipeline.Loaded) -> dict[str, Any]:
    """What the log has of a run: all but files and reasons."""
    return {name: (fed.inserted, fed.updated, fed.removed, fed.rejected) for name, fed in done.tables.items()}


@pytest.mark.parametrize("token", ["opaque", "stream"])
@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_run_whose_token_was_used_does_no_work_and_tells_of_the_first(
    filled: quire.Lake, raw: Path, tmp_path: Path, mode: Any, token: str
) -> None:
    given = quire.token() if token == "opaque" else quire.StreamToken("days", 7)
    how: dict[str, Any] = {"token": given, "skip_rejects": True, "base": raw, "rejects": tmp_path / "rejects"}
    first = pipeline.run(filled, PLAN, mode=mode, **how)
    assert told(first) == {
        "t": {"append": (1, 0, 0, 3), "overwrite": (2, 0, 1, 2)}[mode],
        "Person": (2, 0, 0, 1),
        "Knows": (1, 0, 0, 1),
    }
    assert not first.repeated
    head, written = filled.head, sorted((tmp_path / "rejects").iterdir())
    filled.transaction("others go on").discard()
    with filled.transaction("others go on") as tx:
        tx["t"].upsert([{"id": 9, "v": "later"}])
    shutil.rmtree(raw)
    again = pipeline.run(quire.open(filled.uri), PLAN, mode=mode, **how)
    assert again.receipt is not None
    assert again.receipt.repeated
    assert again.repeated
    assert (again.receipt.commit, again.receipt.tables) == (head, first.receipt and first.receipt.tables)
    assert (told(again), again.rejected, again.rows) == (told(first), first.rejected, first.rows)
    assert sorted((tmp_path / "rejects").iterdir()) == written


def test_a_merge_whose_token_was_used_tells_what_it_inserted_and_updated(filled: quire.Lake, raw: Path) -> None:
    token = quire.token()
    graph = quire.Graph(filled)
    graph.load([{"type": "Person", "data": {"name": "Ada", "age": 1}}])
    plan = {"mode": "merge", "sources": PLAN["sources"][:2]}
    first = pipeline.run(filled, plan, base=raw, token=token, skip_rejects=True)
    assert told(first) == {"t": (1, 1, 0, 2), "Person": (1, 1, 0, 1)}
    again = pipeline.run(filled, plan, base=raw, token=token, skip_rejects=True)
    assert (told(again), again.repeated) == (told(first), True)


def test_a_dry_run_of_what_was_done_says_so(filled: quire.Lake, raw: Path) -> None:
    token = quire.token()
    pipeline.run(filled, PLAN, base=raw, token=token, skip_rejects=True)
    again = pipeline.run(filled, PLAN, base=raw, token=token, dry_run=True)
    assert (again.dry_run, again.repeated, again.rejected) == (True, True, 5)


def test_a_position_of_a_stream_that_was_passed_over_is_done_and_no_commit_is_named(
    filled: quire.Lake, raw: Path
) -> None:
    pipeline.run(filled, PLAN, base=raw, token=quire.StreamToken("days", 7), skip_rejects=True)
    again = pipeline.run(filled, PLAN, base=raw, token=quire.StreamToken("days", 6))
    assert again.receipt is not None
    assert (again.receipt.repeated, again.receipt.commit, again.tables, again.rejected) == (True, None, {}, 0)


def test_a_load_whose_token_was_used_reads_nothing(filled: quire.Lake) -> None:
    graph, token = quire.Graph(filled), quire.StreamToken("people", 1)
    rows = [{"type": "Person", "data": {"name": name, "age": age}} for name, age in (("Ada", 3), ("Bo", 900))]
    first = graph.load(rows, skip_rejects=True, options={"token": token})

    def read() -> Any:
        raise AssertionError("the source is read")
        yield

    again = graph.load(read(), skip_rejects=True, options={"token": token})
    assert (again.types, again.rejected, again.repeated) == (first.types, 1, True)
    assert again.receipt is not None
    assert first.receipt is not None
    assert (again.receipt.commit, again.receipt.time) == (first.receipt.commit, first.receipt.time)


def test_who_is_told_in_the_middle_that_another_was_faster_tells_of_the_other(filled: quire.Lake, raw: Path) -> None:
    token = quire.token()
    rival = quire.open(filled.uri)

    def progress(what: str, done: int, total: int) -> None:
        if what == "commit" and done < total:
            with rival.transaction("rival", token=token) as tx:
                tx["t"].upsert([{"id": 5, "v": "rival"}])

    done = pipeline.run(filled, PLAN, base=raw, token=token, skip_rejects=True, progress=progress)
    assert (done.repeated, told(done)) == (True, {"t": (1, 0, 0, 0)})
    assert sorted(row["id"] for row in filled["t"].to_pylist()) == [1, 5]


@pytest.mark.parametrize("fresh", [False, True])
def test_a_transaction_says_before_any_work_that_its_token_was_used(lake: quire.Lake, fresh: bool) -> None:
    lake.create_table("t", schema=pa.schema([("id", pa.int64())]))
    token = quire.token()
    behind = quire.open(lake.uri)
    with lake.transaction("first", token=token) as tx:
        assert tx.repeated() is None
        tx["t"].append([{"id": 1}])
    assert tx.repeated() is None
    late = behind.transaction("again", token=token, fresh=fresh)
    if not fresh:  # what this handle knows does not say it yet: the commit does
        assert late.repeated() is None
        late.commit()
    told = late.repeated()
    assert told is not None
    assert (told.commit, told.tables["t"].added) == (lake.head, 1)
    with pytest.raises(quire.QuireError, match="committed"):
        late["t"].append([{"id": 2}])


def test_transact_does_not_run_what_another_process_has_done(lake: quire.Lake) -> None:
    lake.create_table("t", schema=pa.schema([("id", pa.int64())]))
    token, behind, ran = quire.token(), quire.open(lake.uri), []
    with lake.transaction("first", token=token) as tx:
        tx["t"].append([{"id": 1}])
    assert behind.transact(lambda tx: ran.append(tx), token=token, fresh=True) is None
    assert ran == []
