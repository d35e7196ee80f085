"""One signature reports how far long work has come, wherever it is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import quire
from quire.progress import Count, Progress
from quire.store import run_parallel
from quire.testing.tasks import PickledTasks

SOURCE = Path(quire.__file__).parent
Step = tuple[str, int, int | None]


@pytest.fixture
def lake(tmp_path: Path) -> quire.Lake:
    made = quire.create(tmp_path / "lake")
    made.create_table("people", [{"id": 1}], key="id")
    for number in range(2, 5):
        with made.transaction() as tx:
            tx["people"].append([{"id": number}])
    return made


def test_every_verb_reports_steps_that_count_up(lake: quire.Lake, tmp_path: Path) -> None:
    graph, people = quire.Graph(lake), tmp_path / "people.jsonl"
    graph.apply_schema("node Person { name: String @key }")
    people.write_text('{"type": "Person", "data": {"name": "Ada"}}\n', "utf-8")
    calls: dict[str, Any] = {
        "load": lambda p: graph.load(people, progress=p),
        "load by tasks": lambda p: graph.load(people, "merge", progress=p, engine=PickledTasks()),
        "verify": lambda p: lake.verify(p),
        "optimize": lambda p: lake.optimize(progress=p),
        "recover": lambda p: lake.recover(p),
        "export": lambda p: lake.export(tmp_path / "out", progress=p),
        "cleanup": lambda p: lake.cleanup(keep=1, older_than=0, grace=0, progress=p),
    }
    for verb, call in calls.items():
        steps: list[Step] = []
        call(lambda what, done, total, steps=steps: steps.append((what, done, total)))
        assert steps, verb
        by_name: dict[str, int] = {}
        for what, done, total in steps:
            assert done >= by_name.get(what, 0), (verb, what)
            assert total is None or done <= total, (verb, what)
            by_name[what] = done


def test_threads_report_one_sum_after_the_other() -> None:
    steps: list[Step] = []
    report: Progress = lambda what, done, total: steps.append((what, done, total))  # noqa: E731
    count = Count(report, "work", 64)
    run_parallel([count.add] * 64)
    assert steps == [("work", done, 64) for done in range(1, 65)]


def test_there_is_one_definition_of_progress() -> None:
    defined = re.compile(r"^\s*(class Progress\b|Progress\b.*=)|progress: (Any|Callable)", re.MULTILINE)
    found = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if "simulation" not in path.parts and defined.search(path.read_text())
    }
    assert found == {"progress.py"}
