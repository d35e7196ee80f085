"""Where rows that were left out are written, and that no run reads them as its input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import quire
from quire import pipeline
from quire.errors import InvalidInput
from quire.rowfiles import inputs

LINES = ['{"id": 1}', '{"id": "x"}']
PEOPLE = ['{"name": "Ada"}', '{"name": null}']


@pytest.fixture
def raw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "raw").mkdir()
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    (tmp_path / "raw" / "rows.ndjson").write_text("".join(f"{line}\n" for line in LINES), "utf-8")
    (tmp_path / "raw" / "people.ndjson").write_text("".join(f"{line}\n" for line in PEOPLE), "utf-8")
    return tmp_path / "raw"


@pytest.fixture
def filled(lake: quire.Lake) -> quire.Lake:
    quire.Graph(lake).apply_schema("node Person { name: String @key }")
    with lake.transaction() as tx:
        tx.create_table("t", [{"id": 0}]).delete("true")
    return lake


def rows_in(folder: Path) -> list[Any]:
    return [json.loads(line)["row"] for path in sorted(folder.iterdir()) for line in path.read_text().splitlines()]


PLAN: dict[str, Any] = {"sources": [{"files": "rows*", "table": "t", "format": "jsonl"}]}


def test_a_folder_that_the_caller_names_is_seen_from_the_working_directory(filled: quire.Lake, raw: Path) -> None:
    done = pipeline.run(filled, {**PLAN, "base": str(raw)}, skip_rejects=True, rejects="rej")
    assert done.rejected == 1
    assert [row["id"] for row in rows_in(Path("rej"))] == ["x"]
    assert sorted(path.name for path in raw.iterdir()) == ["people.ndjson", "rows.ndjson"]


def test_a_folder_that_the_pipeline_names_is_seen_from_its_base(filled: quire.Lake, raw: Path) -> None:
    pipeline.run(filled, {**PLAN, "base": str(raw), "rejects": "rej"}, skip_rejects=True)
    assert [row["id"] for row in rows_in(raw / "rej")] == ["x"]


@pytest.mark.parametrize("rejects", [".", "sub"])
@pytest.mark.parametrize("pattern", ["*", "*.ndjson", "**", "**/*.ndjson"])
def test_what_was_left_out_is_no_input_of_the_next_run(
    filled: quire.Lake, raw: Path, rejects: str, pattern: str
) -> None:
    (raw / "people.ndjson").unlink()
    feed = {"files": pattern, "table": "t", "format": "jsonl"}
    for _ in range(2):
        plan = {"sources": [feed], "base": str(raw), "rejects": rejects}
        done = pipeline.run(filled, plan, skip_rejects=True)
        assert (done.tables["t"].files, done.tables["t"].inserted, done.rejected) == (1, 1, 1)


def test_a_pattern_that_asks_for_what_was_left_out_gets_it(raw: Path) -> None:
    for name in ("a.rejects.ndjson", "a.ndjson"):
        (raw / name).write_text("{}\n", "utf-8")
    assert inputs.expand("*.rejects.ndjson", str(raw)) == [str(raw / "a.rejects.ndjson")]
    assert str(raw / "a.rejects.ndjson") not in inputs.expand("*", str(raw))
    assert inputs.expand("a.rejects.ndjson", str(raw)) == [str(raw / "a.rejects.ndjson")]


@pytest.mark.parametrize("source", ["raw/*.ndjson", "raw/**", "raw/rej.ndjson", ["raw/people.ndjson", "raw/r*"]])
@pytest.mark.parametrize("there", [False, True])
def test_a_load_refuses_a_file_of_rejects_that_it_reads_or_that_the_next_one_would(
    filled: quire.Lake, raw: Path, source: Any, there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(raw.parent)
    if there or source == "raw/rej.ndjson":
        (raw / "rej.ndjson").write_text("", "utf-8")
    graph = quire.Graph(filled)
    with pytest.raises(InvalidInput, match="rejects cannot be written to it") as caught:
        graph.load(source, type="Person", skip_rejects=True, rejects="raw/rej.ndjson")
    assert caught.value.fields["file"] == "raw/rej.ndjson"
    with pytest.raises(InvalidInput, match="rejects cannot be written to it"):
        graph.load({"Person": source}, skip_rejects=True, rejects=raw / "rej.ndjson")


def test_a_load_takes_a_file_of_rejects_that_no_pattern_matches(filled: quire.Lake, raw: Path) -> None:
    graph = quire.Graph(filled)
    rows = [{"type": "Person", "data": {"name": "Ada"}}, {"type": "Person", "data": {}}]
    (raw / "people.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    for rejects in (raw / "bad.rejects.ndjson", raw / "bad.txt"):
        done = graph.load(str(raw / "p*.ndjson"), "merge", skip_rejects=True, rejects=rejects)
        assert (done.rows, done.rejected, len(rejects.read_text().splitlines())) == (1, 1, 1)


# -- how many there are ------------------------------------------------------------------------------------------------


def test_a_receipt_shows_the_first_violations_and_says_how_many_there_are(filled: quire.Lake, raw: Path) -> None:
    lines = [f'{{"id": "{number}x"}}\n' for number in range(57)]
    (raw / "rows.ndjson").write_text("".join(lines), "utf-8")
    done = pipeline.run(filled, {**PLAN, "base": str(raw)}, skip_rejects=True)
    assert (done.rejected, len(done.violations), done.violation_count) == (57, 20, 57)
    assert (len(done.to_dict()["violations"]), done.to_dict()["violation_count"]) == (20, 57)
    rows = [{"type": "Person", "data": {"name": None}} for _ in range(31)]
    loaded = quire.Graph(filled).load(rows, skip_rejects=True)
    assert (loaded.rejected, len(loaded.violations), loaded.violation_count) == (31, 20, 31)
    assert (len(loaded.to_dict()["violations"]), loaded.to_dict()["violation_count"]) == (20, 31)
