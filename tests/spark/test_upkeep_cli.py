"""Commands of upkeep with --engine and --master: the same answers as without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import quire


def made(place: Path) -> Path:
    lake = quire.create(place)
    lake.create_table("t", [{"id": n, "name": f"n{n % 3}"} for n in range(20)], key="id")
    with lake.transaction() as tx:
        tx["t"].append([{"id": n, "name": "late"} for n in range(20, 30)])
    with lake.transaction() as tx:
        tx["t"].upsert([{"id": 3, "name": "three"}])
        tx["t"].delete("id = 7")
    lake.close()
    return place


def without(answer: Any, *names: str) -> Any:
    return {k: v for k, v in answer.items() if k not in names}


def test_every_command_says_the_same(run: Any, tmp_path: Path) -> None:
    here, there = made(tmp_path / "here"), made(tmp_path / "there")
    spark = ("--engine", "spark", "--master", "local[2]")
    assert run("diff", here, "1.0") == run("diff", there, "1.0", *spark)
    index = [run("table", "index", here, "t", "name", "--kind", "BITMAP"), None]
    index[1] = run("table", "index", there, "t", "name", "--kind", "BITMAP", *spark)
    assert index[0]["tables"] == index[1]["tables"]
    a, b = run("optimize", here), run("optimize", there, *spark)
    for one, other in zip(a["tables"], b["tables"], strict=True):
        assert without(one, "bytes") == without(other, "bytes")
    assert b["tables"][0]["outcome"] == "optimized"
    a, b = run("verify", here, "--deep"), run("verify", there, "--deep", *spark)
    assert without(a, "bytes") == without(b, "bytes")
    assert b["read"] > 0
    a, b = run("export", here, tmp_path / "a"), run("export", there, tmp_path / "b", *spark)
    assert {k: without(t, "bytes") for k, t in a["tables"].items()} == {
        k: without(t, "bytes") for k, t in b["tables"].items()
    }
    assert run.asked == ["local[2]"] * 5
    assert [r["id"] for r in quire.open(there)["t"].scan(filter="name = 'late'").to_pylist()] == list(range(20, 30))


def test_options_that_do_not_go_together(run: Any, tmp_path: Path) -> None:
    place = made(tmp_path / "lake")
    for command in (("verify",), ("optimize",), ("diff", "1.0"), ("export", tmp_path / "x")):
        told = run(command[0], place, *command[1:], "--engine", "local", "--master", "local[2]", code=2)
        assert "--master" in told["error"]["message"]
    run("export", place, "t", tmp_path / "x.csv", "--engine", "spark", code=2)
    run("export", place, tmp_path / "x", "--filter", "id = 1", code=2)
    run("export", place, "t", tmp_path / "x.csv", "--table", "t", code=2)
    assert run("optimize", place, "--engine", "auto")["commits"]
    assert run("export", place, tmp_path / "y", "--table", "t", "--format", "jsonl")["tables"]["t"]["rows"] == 29
    assert run("export", place, "t", tmp_path / "x.csv")["rows"] == 29
    assert run.asked == []
