"""Under merge both engines take the same rows for the same: by one unique rule, or by the id where that is null."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import quire
from quire.errors import IntegrityError
from quire.graph.load.staged.staging import Staged

SCHEMA = """
node Person { name: String @key }
edge Coded: Person -> Person { zone: String? @unique  area: String? @unique  weight: I32? }
"""


def coded(id: str | None = None, **data: Any) -> dict[str, Any]:
    return {"edge": "Coded", "from": "a", "to": "b", "data": data} | ({"id": id} if id else {})


FIRST = [coded("e1", zone="x", area="p", weight=1), coded("e2", weight=1)]
SECOND = [coded(zone="x", area="q", weight=5), coded("e2", weight=6), coded("e3", weight=7), coded(weight=8)]


def made(folder: Path) -> quire.Graph:
    graph = quire.Graph(quire.create(str(folder), backfill=False))
    graph.apply_schema(SCHEMA)
    graph.load([{"type": "Person", "data": {"name": name}} for name in "ab"])
    graph.load(FIRST)
    return graph


@pytest.mark.sampled(1)
@pytest.mark.parametrize("few", [Staged.few, 0], ids=["in one task", "shuffled"])
def test_both_engines_know_rows_by_the_same(
    tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(Staged, "few", few)
    file = tmp_path / "in.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in SECOND))
    answers = []
    for name, engine in (("here", None), ("there", spark)):
        graph = made(tmp_path / name)
        how: dict[str, Any] = {"mode": "merge", **({"engine": engine} if engine else {})}
        with pytest.raises(IntegrityError) as caught:
            graph.load(str(file), **how)
        told = [(v["line"], v["rule"], v["property"]) for v in caught.value.violations]
        done = graph.load(str(file), skip_rejects=True, **how)
        rows = sorted((r["id"], r["zone"], r["area"], r["weight"]) for r in graph.lake["edge:Coded"].to_pylist())
        answers.append((told, done.rejected, done.inserted, done.updated, rows))
        graph.lake.close()
    assert answers[0] == answers[1]
    assert answers[0] == (
        [(4, "key", "zone")],
        1,
        {"Coded": 1},
        {"Coded": 2},
        [("e1", "x", "q", 5), ("e2", None, None, 6), ("e3", None, None, 7)],
    )
