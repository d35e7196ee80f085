"""Random pipelines on every engine: the same tables, receipts, errors and rejects, row by row."""

from __future__ import annotations

import csv
import json
import random
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.budget import SEED, budget

import quire
from quire import pipeline
from quire.errors import QuireError
from quire.testing.tasks import PickledTasks

SCHEMA = """
node Person { name: String @key  age: I32? @range(age, 0..150) }
edge Knows: Person -> Person { since: I32?  @unique(src, dst) }
"""
TABLES = {
    "keyed": pa.schema([("id", pa.int64()), ("name", pa.string()), ("age", pa.int32()), ("day", pa.date32())]),
    "plain": pa.schema([("id", pa.int64()), ("name", pa.string()), ("age", pa.int32()), ("score", pa.float64())]),
}
NAMES = ["ada", "bo", "Cy d'Or", "é", "a;b", 'q"q', "", "two\nlines", "dora", "emil"]
DIRT: dict[str, list[Any]] = {
    "id": ["x", "1.5", None, "99999999999999999999"],
    "age": ["old", "2147483648", "-1", "3.0"],
    "day": ["2026-02-30", "soon"],
    "score": ["much", "1e999"],
    "name": [None],
}

MADE = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""Ids that are made for edges."""


@dataclass
class Case:
    """A pipeline and its files, drawn from a seed."""

    seed: int
    folder: Path
    sources: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)
        self.folder.mkdir(parents=True)
        dirty = self.draw.choice([0.0, 0.0, 0.05, 0.3])
        for number in range(self.draw.randint(1, 3)):
            into = self.draw.choice(["keyed", "plain", "node", "edge"])
            self._source(number, into, dirty)
        self.plan: dict[str, Any] = {"message": f"case {self.seed}", "sources": self.sources, "base": str(self.folder)}
        self.plan["mode"] = self.draw.choice(["append", "merge", "merge", "overwrite"])
        self.skip = self.draw.choice([None, True, True, 1, 5, "40%"])
        self.rejects = self.draw.choice([None, "folder", "folder", "rejected.jsonl"])
        self.token = f"cases:{self.seed}" if self.draw.random() < 0.4 else None

    def _source(self, number: int, into: str, dirty: float) -> None:
        feed: dict[str, Any] = {"files": f"s{number}-*"}
        feed |= {"node": "Person"} if into == "node" else {"edge": "Knows"} if into == "edge" else {"table": into}
        if into in TABLES and self.draw.random() < 0.3:
            feed["where"] = self.draw.choice(["id is not null", "name <> 'bo'"])
        kind = self.draw.choice(["csv", "csv", "jsonl", "parquet"])
        feed["format"] = kind
        if kind == "csv" and self.draw.random() < 0.5:
            feed["csv"] = {"delimiter": self.draw.choice([";", "|", "\t"]), "null": "NA"}
        if into == "keyed" and kind == "parquet":
            feed["columns"] = {**{n: n for n in TABLES["keyed"].names}, "day": {"column": "day", "cast": "date"}}
        if into == "edge":
            feed["columns"] = {"from": "source", "to": "target", "since": "since"}
            if kind == "csv":  # columns that are computed, and others as they are
                feed["columns"]["since"] = {"column": "since", "cast": "integer"}
        for part in range(self.draw.randint(1, 3)):
            rows = [self._row(into, dirty if kind != "parquet" else 0.0) for _ in range(self.draw.randint(0, 12))]
            self._write(self.folder / f"s{number}-{part}.{kind}", rows, kind, into, feed.get("csv", {}))
        self.sources.append(feed)

    def _row(self, into: str, dirty: float) -> dict[str, Any]:
        draw = self.draw
        if into == "edge":
            row: dict[str, Any] = {"source": draw.choice(NAMES[:3]), "target": draw.choice(NAMES[:4]), "since": 2000}
        else:
            row = {"id": draw.randint(1, 60), "name": draw.choice(NAMES), "age": draw.choice([None, 7, 36])}
            row |= {"keyed": {"day": "2026-01-31"}, "plain": {"score": 0.5}}.get(into, {})
            if into == "node":
                row = {"name": f"{row['name']}{draw.randint(0, 20)}" if draw.random() < 0.7 else row["name"], "age": 7}
        for name, wrong in DIRT.items():
            if name in row and draw.random() < dirty / 2:
                row[name] = draw.choice(wrong)
        return row

    def _write(self, path: Path, rows: list[dict[str, Any]], kind: str, into: str, form: dict[str, str]) -> None:
        names = {"node": ["name", "age"], "edge": ["source", "target", "since"]}.get(into) or TABLES[into].names
        if kind == "parquet":
            pq.write_table(_typed(rows, names), path)
        elif kind == "jsonl":
            lines = [json.dumps(row) if self.draw.random() > 0.02 else "{broken" for row in rows]
            path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        else:
            with path.open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file, delimiter=form.get("delimiter", ","), lineterminator="\n")
                writer.writerow(names)
                for row in rows:
                    writer.writerow([form.get("null", "") if row[n] is None else row[n] for n in names])

    def lake(self, place: Path) -> quire.Lake:
        lake = quire.create(place)
        graph = quire.Graph(lake)
        graph.apply_schema(SCHEMA)
        with lake.transaction() as tx:
            old = [{"id": i, "name": "old", "age": None, "day": None} for i in (3, 4)]
            tx.create_table("keyed", schema=TABLES["keyed"], key="id").insert(old)
            tx.create_table("plain", schema=TABLES["plain"])
        graph.load([{"type": "Person", "data": {"name": name}} for name in NAMES[:3]], mode="append")
        return lake

    def run(self, place: Path, engine: Any) -> dict[str, Any]:
        """What comes of it, in words that do not depend on where and when it was."""
        lake = self.lake(place / "lake")
        rejects = None if self.rejects is None else str(place / self.rejects)
        found: dict[str, Any] = {}
        for turn in ("first", "again") if self.token else ("first",):
            try:
                done = pipeline.run(
                    lake, self.plan, engine=engine, skip_rejects=self.skip, rejects=rejects, token=self.token
                )
                found[turn] = done.to_dict() | {"receipt": _told(done.receipt)}
            except QuireError as error:
                found[turn] = {k: v for k, v in error.to_dict().items() if k not in ("violations",)}
                found[turn]["violations"] = sorted(map(str, error.fields.get("violations", ())))
        tables = lake.snapshot().tables()
        found["tables"] = {name: sorted(map(_row_of, lake[name].to_pylist())) for name in tables}
        found["log"] = [(entry.message, entry.token, sorted(entry.tables)) for entry in lake.log()]
        ended = (
            "kind" not in found["first"]
        )  # a run that is refused stops at once, and has written what it had until then
        found["rejects"] = _rejected(place / (self.rejects or "none")) if ended else []
        said = json.dumps(found, default=str).replace(str(place), "PLACE")
        alike: dict[str, Any] = json.loads(MADE.sub("ID", said))
        alike["rejects"].sort()
        return alike


def _typed(rows: list[dict[str, Any]], names: list[str]) -> pa.Table:
    kinds = {"id": pa.int64(), "age": pa.int32(), "since": pa.int32(), "score": pa.float64()}
    return pa.table({name: pa.array([row[name] for row in rows], kinds.get(name, pa.string())) for name in names})


def _told(receipt: Any) -> Any:
    told = receipt.to_dict() if receipt is not None else {}
    return {k: told[k] for k in ("commit", "branch", "tables", "repeated", "attempts") if k in told}


def _row_of(row: dict[str, Any]) -> str:
    """A row; edges without a key of their own have ids that are made for them."""
    return json.dumps({k: v for k, v in row.items() if k != "id" or isinstance(v, int)}, default=str, sort_keys=True)


def _rejected(place: Path) -> list[str]:
    files = sorted(place.iterdir()) if place.is_dir() else [place] if place.exists() else []
    return sorted(line for file in files for line in file.read_text("utf-8").splitlines())


def differing(case: Case, place: Path, engine: Any) -> dict[str, Any]:
    """What differs between this process and an engine."""
    here, there = case.run(place / "here", "local"), case.run(place / "there", engine)
    return {name: (here.get(name), there.get(name)) for name in {*here, *there} if here.get(name) != there.get(name)}


@pytest.mark.parametrize("number", range(budget(6, full=120)))
def test_tasks_do_what_one_process_does(number: int, tmp_path: Path) -> None:
    case = Case(SEED * 1000 + number, tmp_path / "raw")
    assert differing(case, tmp_path, PickledTasks(repeats=True)) == {}, case.plan


@pytest.mark.parametrize("seed", [9002])
def test_what_once_differed(seed: int, tmp_path: Path) -> None:
    """9002: rows of a merge that give every property and rows that do not, whose files differ in what may be null."""
    case = Case(seed, tmp_path / "raw")
    assert differing(case, tmp_path, PickledTasks(repeats=True)) == {}, case.plan


@pytest.mark.parametrize("number", range(budget(2, full=40)))
def test_spark_does_what_one_process_does(number: int, tmp_path: Path, spark: Any) -> None:
    case = Case(SEED * 1000 + 500 + number, tmp_path / "raw")
    assert differing(case, tmp_path, spark) == {}, case.plan
