"""The social network in one run: load it, ask everybody in turns, compare the answers, and start cold."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.graph import social
from benchmarks.graph.questions import comparable
from benchmarks.graph.runner import Disagreement
from benchmarks.graph.social import Size
from benchmarks.graph.social_engines import Ladybug, Lance, Quire, SocialEngine, Sql
from benchmarks.graph.social_questions import QUESTIONS, Social, turns

TURNS = 11
ENOUGH = 15.0
"""Seconds that one engine may take for a question altogether; it is asked three times at least."""
LEAST = 3
COLD_TURNS = 3
COLD = {
    "Quire": "import quire; g = quire.Graph(quire.open({lake!r})); print(g.query({gq!r}, name='p000007').to_pylist())",
    "DuckDB, Parquet": "import duckdb; print(duckdb.connect().execute({sql!r}, {{'name': 'p000007'}}).fetchall())",
}
"""What a process does that answers one question and ends."""


def run(size: Size, say: Callable[[str], None], *, directory: Path | None = None) -> dict[str, Any]:
    """Measure everything; all files are gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="quire-bench-social-", dir=directory) as made:
        files, folder = Path(made) / "files", Path(made) / "engines"
        files.mkdir()
        folder.mkdir()
        say("making the social network")
        rows = social.write(files, size)
        loads = {}
        for engine in (Quire, Ladybug):
            say(f"loading: {engine.title}")
            began = time.perf_counter()
            engine.load(files, folder)
            loads[engine.title] = round(time.perf_counter() - began, 1)
        engines: list[SocialEngine] = [
            Quire(folder), Sql(files, "Arrow"), Sql(files, "Parquet"), Ladybug(folder), Lance(folder),
        ]  # fmt: skip
        try:
            asked = [_ask(question, size, engines, say) for question in QUESTIONS]
        finally:
            for each in engines:
                each.close()
        say("starting cold")
        return {"rows": rows, "loads": loads, "questions": asked, "cold": _cold(files, folder)}


def _ask(question: Social, size: Size, engines: Sequence[SocialEngine], say: Callable[[str], None]) -> dict[str, Any]:
    """Ask in turns: engine after engine with the same parameters, so that noise hits all alike."""
    times: dict[str, list[float]] = {}
    hits, wanted, rows = 0, 0, []
    for number, values in enumerate(turns(question, size, TURNS + 1)):
        say(f"{question.title}: turn {number} of {TURNS}")
        answers: dict[str, Any] = {}
        for engine in engines:
            began = time.perf_counter()
            found = engine.ask(question, values)
            if found is None:
                continue
            answers[engine.title] = found
            if number:  # the first turn warms all of them up
                times.setdefault(engine.title, []).append(time.perf_counter() - began)
        rows.append(len(answers["Quire"]))
        if question.ranked and number:
            quire = next(engine for engine in engines if isinstance(engine, Quire))
            truth = set(quire.ask(question, values, exact=True) or [])
            hits, wanted = hits + len(truth & set(answers["Quire"])), wanted + len(truth)
        elif not question.ranked:
            _compare(question, answers, values)
        if number >= LEAST and max(sum(spent) for spent in times.values()) > ENOUGH:
            break
    recall = hits / wanted if wanted else None
    return {"title": question.title, "rows": sorted(rows)[len(rows) // 2], "seconds": times, "recall": recall}


def _compare(question: Social, answers: dict[str, Any], values: Any) -> None:
    first = comparable(answers["Quire"])
    for title, answer in answers.items():
        if comparable(answer) != first:
            raise Disagreement(f"{question.title} with {values}: Quire has {first[:3]}, {title} {answer[:3]}")


def _cold(files: Path, folder: Path) -> dict[str, float]:
    """CPU seconds of a process that opens the data, answers one question, and ends."""
    known = {
        "lake": str(folder / "lake"),
        "gq": QUESTIONS[1].gq,
        "sql": QUESTIONS[1]
        .sql.replace("Knows k", f"'{files}/Knows.parquet' k")
        .replace("Person f", f"'{files}/Person.parquet' f"),
    }
    found: dict[str, list[float]] = {title: [] for title in COLD}
    # Modules are compiled once, as wherever Python is installed as usual.
    kept = {"PYTHONPYCACHEPREFIX": str(folder / "bytecode"), "PYTHONDONTWRITEBYTECODE": ""}
    environment = {**os.environ, **kept}
    for program in COLD.values():
        subprocess.run(
            [sys.executable, "-c", program.format(**known)], check=True, capture_output=True, env=environment
        )
    for _ in range(COLD_TURNS):
        for title, program in COLD.items():
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            command = [sys.executable, "-c", program.format(**known)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            found[title].append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return {title: round(statistics.median(spent), 3) for title, spent in found.items()}
