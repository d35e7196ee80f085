"""What tables, results and records show of themselves at a prompt and in a notebook."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import quire
from quire.lake import display

EVIL = "<script>alert('x')</script>"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> quire.Lake:
    made = quire.create(tmp_path_factory.mktemp("shown") / "lake", author=EVIL, backfill=False)
    with made.transaction(EVIL) as tx:
        tx.create_table("people", [{"id": i, "name": "Ada" if i else ""} for i in range(30)], key="id")
        tx.create_table("evil", pa.table({EVIL: [EVIL, None]}))
        tx.create_table("wide", pa.table({f"c{i}": ["x" * 60] for i in range(40)}))
        tx.create_table("empty", schema=pa.schema([("id", pa.int64())]))
    return made


# -- rows -------------------------------------------------------------------------------------------------------------


def test_head_gives_the_first_rows(lake: quire.Lake) -> None:
    assert [row["id"] for row in lake["people"].head().to_pylist()] == [0, 1, 2, 3, 4]
    assert lake["people"].head(2, columns=["name"]).to_pylist() == [{"name": ""}, {"name": "Ada"}]
    assert lake["empty"].head().to_pylist() == []


def test_the_length_of_a_table_is_its_rows_and_an_empty_one_is_still_true(lake: quire.Lake) -> None:
    assert (len(lake["people"]), len(lake["empty"])) == (30, 0)
    assert lake["empty"]
    assert lake.at(commit="0.0")
    assert len(lake.at(commit="0.0")) == 0
    tx = lake.transaction()
    tx["empty"].append([{"id": 1}])
    assert len(tx["empty"]) == 1
    tx["empty"].delete("true")
    assert len(tx["empty"]) == 0
    assert tx["empty"]
    tx.discard()


def test_a_table_shows_its_first_rows_and_says_what_it_leaves_out(lake: quire.Lake) -> None:
    lines = repr(lake["people"]).splitlines()
    assert lines[0] == "<Table 'people' version 1, 30 rows>"
    assert lines[1:4] == ["id  name", '0   ""', "1   Ada"]
    assert len(lines) == 2 + display.ROWS + 1
    assert lines[-1] == "… 20 more rows"
    assert "<td>Ada</td>" in lake["people"]._repr_html_()
    assert "int64" in lake["people"]._repr_html_()
    assert repr(lake["empty"]) == "<Table 'empty' version 1, 0 rows>\nid"


def test_a_wide_table_shows_as_many_columns_as_fit_into_a_line(lake: quire.Lake) -> None:
    lines = repr(lake["wide"]).splitlines()
    assert lines[-1] == "… 37 more columns"
    assert all(len(line) <= display.LINE + 2 for line in lines)


def test_a_preview_reads_no_more_than_it_shows(lake: quire.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    from quire.formats.lance.view import LanceView

    asked: list[dict[str, Any]] = []
    scan = LanceView.scan
    monkeypatch.setattr(LanceView, "scan", lambda self, **given: asked.append(given) or scan(self, **given))
    for shown in (lake["wide"].__repr__, lake["wide"]._repr_html_):
        shown()
    assert [(len(given["columns"]), given["limit"]) for given in asked] == [(display.COLUMNS, display.ROWS)] * 2


@pytest.mark.parametrize("look", [repr, lambda rows: rows._repr_html_()])
def test_results_show_their_first_rows_and_can_be_read_afterwards(lake: quire.Lake, look: Any) -> None:
    found = (
        lake.sql("select id, name from people order by id"),
        lake["people"].scan(columns=["id", "name"]),
        lake["people"].head(30),
    )
    for rows in found:
        shown = look(rows)
        assert "not read yet" in shown
        assert "Ada" in shown
        assert "more rows" in shown
        assert look(rows) == shown, "looking twice shows the same"
        assert [row["id"] for row in rows.to_pylist()] == list(range(30))
        assert "Ada" not in look(rows)


def test_every_way_of_reading_gives_all_rows_after_a_look(lake: quire.Lake) -> None:
    def rows() -> quire.Rows:
        found = lake.sql("select range as n from range(250000)")
        repr(found)
        return found

    assert sum(batch.num_rows for batch in rows()) == 250_000
    assert rows().to_arrow()["n"].to_pylist() == list(range(250_000))
    assert pa.table(rows()).num_rows == rows().to_reader().read_all().num_rows == 250_000


def test_a_stream_that_fails_says_so_when_it_is_shown_and_again_when_it_is_read() -> None:
    def batches() -> Any:
        yield pa.record_batch({"id": [1]})
        raise OSError("the network went away")

    rows = quire.Rows(pa.RecordBatchReader.from_batches(pa.schema([("id", pa.int64())]), batches()))
    assert "cannot be shown: StorageError" in repr(rows)
    with pytest.raises(quire.errors.StorageError, match="the network went away"):
        rows.to_arrow()


def test_what_is_gone_is_not_shown_as_empty(tmp_path: Path) -> None:
    with quire.create(tmp_path / "lake", backfill=False) as lake:
        lake.create_table("t", [{"id": 1}])
        lake.create_table("u", [{"id": 1}])
    snap = quire.open(tmp_path / "lake", read_only=True).snapshot()
    difference = lake.diff("0.0", "2.0")["t"]
    shutil.rmtree(tmp_path / "lake" / "tables")
    for shown in (repr(snap["t"]), snap["t"]._repr_html_(), difference._repr_html_()):
        assert "cannot be shown" in shown
    assert repr(snap["t"]).startswith("<Table 't' version 1, 1 rows>\n(cannot be shown: SnapshotExpired: ")
    assert "2 tables" in repr(snap)
    log = lake.log()
    shutil.rmtree(tmp_path / "lake")
    for shown in (log._repr_html_(), repr(log), lake._repr_html_()):
        assert "cannot be shown" in shown


VALUES = st.one_of(
    st.none(), st.text(max_size=60), st.binary(max_size=20), st.integers(), st.floats(), st.booleans(), st.datetimes()
)


@given(VALUES)
def test_a_cell_is_one_bounded_line(value: Any) -> None:
    shown = display.cell(value, 20)
    assert 1 <= len(shown) <= 20
    assert shown.isprintable() or not any(c < " " or "\x7f" <= c <= "\x9f" for c in shown)


@given(st.one_of(st.none(), st.text(max_size=8)), st.one_of(st.none(), st.text(max_size=8)))
def test_texts_and_null_that_differ_look_different(one: str | None, other: str | None) -> None:
    assert (display.cell(one) == display.cell(other)) == (one == other) or "\\" in f"{one}{other}"


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "NULL"), ("", '""'), ("NULL", '"NULL"'), (" a", '" a"'), ('"', '"\\""'), ("a b", "a b"), (b"\0", '"AA=="')],
)
def test_null_and_empty_text_look_different(value: Any, text: str) -> None:
    assert display.cell(value) == text


# -- records ----------------------------------------------------------------------------------------------------------


def test_receipts_commits_and_branches_read_as_sentences(lake: quire.Lake) -> None:
    branch = lake.create_branch("trial")
    with branch.transaction("more") as tx:
        tx["people"].upsert([{"id": 1, "name": "Eve"}, {"id": 99, "name": "Bo"}])
    receipt = tx.receipt
    assert repr(receipt) == f"<Receipt: committed {receipt.commit} on 'trial'; people: upsert +2 -1, version 2>"
    assert repr(branch.transact(lambda tx: None) or quire.Receipt(None, "main")) == "<Receipt: nothing to commit>"
    assert repr(branch.show(receipt.commit)).startswith(f"<Commit {receipt.commit}  ")
    assert repr(branch.show(receipt.commit)).endswith("  more; people: upsert +2 -1, version 2>")
    assert [repr(b) for b in lake.branches()] == [
        "<Branch 'main' at 1.0>",
        f"<Branch 'trial' at {receipt.commit}, from 1.0>",
    ]
    assert "<td>people</td><td>upsert</td><td>2</td><td>1</td>" in receipt._repr_html_()


def test_a_difference_shows_counts_and_rows(lake: quire.Lake) -> None:
    branch = lake.create_branch("changed")
    with branch.transaction() as tx:
        tx["people"].upsert([{"id": 1, "name": "Eve"}])
        tx["people"].delete("id = 2")
        tx.rename_table("empty", "void")
    changes = branch.diff("1.0")
    assert repr(changes["people"]) == "people: changed, +0 ~1 -1"
    assert repr(changes["people"].rows) == "<RowDiff: 0 added, 1 changed, 1 removed>"
    html = changes["people"]._repr_html_()
    assert "<td>Eve</td>" in html
    assert "<td>2</td>" in html
    assert "renamed" in changes["void"]._repr_html_()
    assert changes._ipython_key_completions_() == ["people", "void"]
    assert not branch.diff("changed")
    assert repr(branch.diff("changed")) == "no difference"


def test_a_plan_and_a_catalog_list_what_they_hold() -> None:
    lake = quire.create("memory://shown-graph")
    graph = quire.Graph(lake)
    text = "node Person { name: String @key }\nedge Knows: Person -> Person { since: Date? }\n"
    plan = graph.plan_schema(text)
    assert repr(plan).startswith(f"<Plan: {len(plan.steps)} steps, 0 refusals>\n- ")
    assert all(str(step) in repr(plan) for step in plan.steps)
    graph.apply_schema(text)
    assert repr(graph.catalog()) == (
        "<Catalog: 1 node type, 1 edge type>\n  node Person: name String\n  edge Knows (Person → Person): since Date?"
    )
    assert "<td>Knows (Person → Person)</td>" in graph.catalog()._repr_html_()
    assert "nothing to do" in graph.plan_schema(text)._repr_html_()


def test_html_escapes_what_people_wrote(lake: quire.Lake) -> None:
    commit = lake.show("1.0")
    found = [
        lake["evil"],
        lake["evil"].scan(),
        lake.sql("select * from evil"),
        commit,
        lake.diff("0.0")["evil"],
        lake.log(),
        lake.transaction()["evil"],
    ]
    for shown in found:
        assert "<script>" not in shown._repr_html_()
        assert "&lt;script&gt;" in shown._repr_html_()


# -- completion -------------------------------------------------------------------------------------------------------


def test_keys_are_completed_without_asking_the_store(lake: quire.Lake) -> None:
    names = ["empty", "evil", "people", "wide"]
    tx = lake.transaction()
    snap = lake.snapshot()
    before = lake._core.store.meter.total if hasattr(lake._core.store, "meter") else None
    assert lake._ipython_key_completions_() == names
    assert snap._ipython_key_completions_() == tx._ipython_key_completions_() == list(tx) == names
    assert before is None or lake._core.store.meter.total == before
    tx.drop_table("evil")
    assert tx._ipython_key_completions_() == ["empty", "people", "wide"]
    tx.discard()
