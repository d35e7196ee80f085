"""A run as tables: for a terminal, and as Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

LIMIT_MB = 4096.0
"""What a load may take at most."""
STEPS = {
    "quire": "Quire: load, one commit, all rules checked",
    "quire-index": "Quire: extend the indexes (optimize)",
    "ladybug": "Ladybug: copy",
}
Row = Sequence[str]


def load_rows(run: dict[str, Any]) -> list[Row]:
    return [(STEPS[s["step"]], f"{s['seconds']:.1f} s", f"{s['peak_mb']:,.0f} MB") for s in run["loads"]]


def question_rows(run: dict[str, Any]) -> list[Row]:
    found: list[Row] = []
    for asked in run["questions"]:
        middles = [statistics.median(times) for times in asked["seconds"].values()]
        cells = [_milliseconds(middle) for middle in middles]
        found.append((asked["title"], f"{asked['rows']:,}", *cells, f"{middles[0] / middles[1]:.2g}×"))
    return found


def question_head(run: dict[str, Any]) -> Row:
    return ("p50 of a question", "rows", *run["questions"][0]["seconds"], "Quire / SQL")


def _milliseconds(seconds: float) -> str:
    value = 1000 * seconds
    return f"{value:,.0f} ms" if value >= 100 else f"{value:.1f} ms"


def is_bounded(run: dict[str, Any]) -> bool:
    """Whether Quire's load stayed within its memory."""
    return all(s["peak_mb"] < LIMIT_MB for s in run.get("loads", ()) if s["step"].startswith("quire"))


def social_rows(run: dict[str, Any]) -> list[Row]:
    """Of every question its median for each engine, what Quire takes of the best other, and what a search finds."""
    found: list[Row] = []
    for asked in run["social"]["questions"]:
        middles = {title: statistics.median(times) for title, times in asked["seconds"].items()}
        cells = [_milliseconds(middles[title]) if title in middles else "–" for title in _social_engines(run)]
        best = min((middle for title, middle in middles.items() if title != "Quire"), default=None)
        ratio = "–" if best is None else f"{middles['Quire'] / best:.2g}×"
        recall = "–" if asked["recall"] is None else f"{asked['recall']:.3f}"
        found.append((asked["title"], f"{asked['rows']:,}", *cells, ratio, recall))
    return found


def _social_engines(run: dict[str, Any]) -> list[str]:
    return list(dict.fromkeys(title for asked in run["social"]["questions"] for title in asked["seconds"]))


def social_head(run: dict[str, Any]) -> Row:
    return ("p50 of a question", "rows", *_social_engines(run), "Quire / best other", "recall@10")


def _social_title(run: dict[str, Any]) -> str:
    rows = run["social"]["rows"]
    nodes = sum(rows[name] for name in ("Person", "Tag", "Post"))
    return f"a social network of {nodes:,} nodes and {sum(rows.values()) - nodes:,} edges"


def cold_text(run: dict[str, Any]) -> str:
    """What a process takes that answers one question and ends."""
    told = ", ".join(f"{title} {seconds:.2f} s" for title, seconds in run["social"]["cold"].items())
    return f"one hop from a cold start, seconds of CPU: {told}"


def show(run: dict[str, Any], console: Console) -> None:
    if "social" in run:
        console.print(_table(_social_title(run), social_head(run), social_rows(run)))
        console.print(cold_text(run), highlight=False)
    if "loads" not in run:
        return
    console.print(_table("Loading, each in a process of its own", ("", "time", "peak memory"), load_rows(run)))
    console.print(_table(_title(run), question_head(run), question_rows(run)))
    verdict = "[green]PASS" if is_bounded(run) else "[bold red]FAIL"
    console.print(f"the load stays below {LIMIT_MB / 1024:.0f} GB: {verdict}", highlight=False)


def _title(run: dict[str, Any]) -> str:
    rows = run["rows"]
    nodes, edges = rows["Person"] + rows["City"], rows["Knows"] + rows["LivesIn"]
    return f"{nodes:,} nodes, {edges:,} edges; all answers are the same"


def _table(title: str, head: Row, rows: Sequence[Row]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column(head[0], no_wrap=True)
    for column in head[1:]:
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def markdown(run: dict[str, Any]) -> str:
    """The tables as Markdown."""
    machine = run["machine"]
    parts = [f"`{run['command']}` on {machine['cores']} cores."]
    if "loads" in run:
        parts += [
            f"{_title(run)}.",
            _markdown(("loading", "time", "peak memory"), load_rows(run)),
            _markdown(question_head(run), question_rows(run)),
        ]
    if "social" in run:
        parts += [f"{_social_title(run)}.", _markdown(social_head(run), social_rows(run)), cold_text(run) + "."]
    return "\n\n".join(parts) + "\n"


def _markdown(head: Row, rows: Sequence[Row]) -> str:
    rule = ["---", *("---:" for _ in head[1:])]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))
