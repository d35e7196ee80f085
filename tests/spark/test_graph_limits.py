"""However many rows break a rule together, the driver hears of no more than it may leave out, and one."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

import quire
from quire.errors import IntegrityError
from quire.graph.integrity import Violations

loading = importlib.import_module("quire.graph.load.load")  # the package has a function of that name


def test_the_driver_hears_of_no_more_rows_than_decide(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = quire.Graph(quire.create(tmp_path / "lake"))
    graph.apply_schema("node P { name: String @key }\nedge K: P -> P")
    (tmp_path / "p.csv").write_text("name\na\nb\n", "utf-8")
    lines = ["from,to", "a,b", *(f"a,nobody{n}" for n in range(30))]
    (tmp_path / "k.csv").write_text("".join(line + "\n" for line in lines), "utf-8")
    source = {"P": str(tmp_path / "p.csv"), "K": str(tmp_path / "k.csv")}
    heard: list[int] = []

    def listening(*args: Any, **options: Any) -> Violations:
        found = check(*args, **options)
        heard.append(len(found.violations))
        return found

    check = loading.check
    monkeypatch.setattr(loading, "check", listening)
    with pytest.raises(IntegrityError) as caught:
        graph.load(source, engine=spark, skip_rejects=4)
    assert (max(heard), caught.value.fields["count"]) == (5, 5)
    done = graph.load(source, engine=spark, skip_rejects=30)
    assert (done.rejected, graph.lake["edge:K"].count()) == (30, 1)
