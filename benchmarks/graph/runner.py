"""Everything in one run: make the graph, load it, ask all engines in turn, and compare their answers."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.graph import data, loading
from benchmarks.graph.data import Size
from benchmarks.graph.engines import Engine, Ladybug, Quire, Sql
from benchmarks.graph.questions import QUESTIONS, Question, comparable, turns

Say = Callable[[str], None]

TURNS = 11
"""How often a question is asked of every engine."""
ENOUGH = 20.0
"""Seconds that one engine may take for a question altogether; it is asked three times at least."""
LEAST = 3


class Disagreement(AssertionError):
    """Two engines gave different answers, so their times mean nothing."""


def run(size: Size, say: Say, *, directory: Path | None = None) -> dict[str, Any]:
    """Measure everything; all files are gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="quire-bench-graph-", dir=directory) as made:
        files, folder = Path(made) / "files", Path(made) / "engines"
        files.mkdir()
        folder.mkdir()
        say("making the graph")
        rows = data.write(files, size)
        loads = []
        for step in loading.STEPS:
            say(f"loading: {step}")
            loads.append(loading.run(step, files, folder))
        sizes = {name: _bytes(folder / name) for name in ("lake", "ladybug.lbug")}
        engines: list[Engine] = [Quire(folder), Sql(files), Ladybug(folder)]
        try:
            asked = [_ask(question, size, engines, say) for question in QUESTIONS]
        finally:
            for engine in engines:
                engine.close()
    return {"rows": rows, "loads": loads, "bytes": sizes, "questions": asked}


def _ask(question: Question, size: Size, engines: Sequence[Engine], say: Say) -> dict[str, Any]:
    """Ask in turns: engine after engine with the same parameters, so that noise hits all alike."""
    times: dict[str, list[float]] = {engine.title: [] for engine in engines}
    rows = []
    for number, values in enumerate(turns(question, size, TURNS + 1)):
        say(f"{question.title}: turn {number} of {TURNS}")
        answers = []
        for engine in engines:
            began = time.perf_counter()
            answers.append(engine.ask(question, values))
            if number:  # the first turn warms all of them up
                times[engine.title].append(time.perf_counter() - began)
        _compare(question, engines, answers, values)
        rows.append(len(answers[0]))
        if number >= LEAST and max(sum(spent) for spent in times.values()) > ENOUGH:
            break
    return {"title": question.title, "rows": sorted(rows)[len(rows) // 2], "seconds": times}


def _compare(question: Question, engines: Sequence[Engine], answers: Sequence[Any], values: Any) -> None:
    first, *others = [comparable(answer) for answer in answers]
    for engine, other in zip(engines[1:], others, strict=True):
        if first != other:
            raise Disagreement(
                f"{question.title} with {values}: {engines[0].title} has {len(first)} rows {first[:3]}, "
                f"{engine.title} has {len(other)} rows {other[:3]}"
            )


def _bytes(path: Path) -> int:
    if path.is_file():
        return path.stat().st_size
    return sum(p.stat().st_size for p in path.rglob("*") if p.is_file())
