"""A run as one figure: how long a commit takes, by system and latency; how many commits many writers make.

Its colours are those of the documentation (`tokens.css` of the pages, light).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.commits.fork_server import ROOT
from benchmarks.commits.systems import APART, SYSTEMS

TOKENS = ROOT / "src" / "quire" / "server" / "ui" / "static" / "tokens.css"
COLOURS = {
    "quire-log": "accent",
    "quire-older": "code-number",
    "quire-manifest": "border-strong",
    "lance": "code-name",
    "lance-namespace": "code-comment",
    "quire-delta": "warn",
    "delta": "good",
    "icechunk": "code-keyword",
    "ducklake": "text",
    "ducklake-sqlite": "muted",
}
LABELS = {
    "quire-log": "Quire",
    "quire-older": "Quire before",
    "quire-manifest": "Quire, __manifest",
    "lance": "pylance*",
    "lance-namespace": "Lance namespace*",
    "quire-delta": "Quire, Delta tables",
    "delta": "deltalake*",
    "icechunk": "icechunk",
    "ducklake": "DuckLake, PostgreSQL",
    "ducklake-sqlite": "DuckLake, SQLite",
}
LATENCY = 50


@cache
def tokens() -> dict[str, str]:
    """The design system's colours by name, as they are on white."""
    return dict(re.findall(r"--q-([a-z-]+):\s*light-dark\((#[0-9a-f]{6})", TOKENS.read_text()))


def colour(name: str) -> str:
    return tokens()[name]


def draw(run: dict[str, Any], files: Sequence[Path]) -> None:
    """Write the figure to each file; the ending chooses the kind (.svg, .png)."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    style: Any = {
        "font.size": 9,
        "svg.hashsalt": "q",
        "axes.spines.top": False,
        "axes.spines.right": False,
        **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), colour("text")),
        "axes.edgecolor": colour("border-strong"),
        "figure.facecolor": colour("bg"),
        "axes.facecolor": colour("bg"),
        "savefig.facecolor": colour("bg"),
    }
    with plt.rc_context(style):
        figure, axes = plt.subplots(2, 2, figsize=(11, 7.8), layout="constrained")
        _latencies(axes[0], run)
        own = [r for r in run["throughput"] if r["latency_ms"] == LATENCY and not r["shared"]]
        for axis, kind in zip(axes[1], ("threads", "processes"), strict=True):
            _throughput(axis, [r for r in own if r["kind"] == kind or r["writers"] == 1], kind)
        handles = {label: handle for axis in axes.flat for handle, label in zip(*_legend(axis), strict=True)}
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=5, frameon=False)
        machine = run["machine"]
        about = (
            f"{machine['cores']} cores, {machine['memory_gb']:g} GB, {run['date'][:10]}.   * one table after the other"
        )
        figure.suptitle(f"{about}, not atomic", fontsize=9, color=colour("muted"))
        for file in files:
            figure.savefig(file, dpi=130, metadata={"Date": None} if file.suffix == ".svg" else None)
        plt.close(figure)


def _legend(axis: Any) -> tuple[list[Any], list[str]]:
    handles, labels = axis.get_legend_handles_labels()
    return handles, labels


def _latencies(axes: Sequence[Any], run: dict[str, Any]) -> None:
    """One panel for one table, one for the most, on the server at each latency."""
    results = [r for r in run["latency"] if "requests" in r]
    widths = sorted({r["tables"] for r in results})
    for axis, width in zip(axes, (widths[0], widths[-1]) if len(widths) > 1 else widths, strict=False):
        _latency(axis, [r for r in results if r["tables"] == width], width)


def _latency(axis: Any, results: Sequence[dict[str, Any]], width: int) -> None:
    """Bars of p50 in groups by added latency, with a whisker up to p99."""
    keys = [s.key for s in SYSTEMS if any(r["system"] == s.key for r in results)]
    latencies = sorted({r["latency_ms"] for r in results})
    found = {(r["latency_ms"], r["system"]): r for r in results}
    bar = 0.86 / len(keys)
    for number, key in enumerate(keys):
        own = [found[latency, key] for latency in latencies if (latency, key) in found]
        at = [latencies.index(r["latency_ms"]) + (number - (len(keys) - 1) / 2) * bar for r in own]
        heights = [r["p50_ms"] for r in own]
        axis.bar(
            at,
            heights,
            bar * 0.88,
            color=colour(COLOURS[key]),
            label=LABELS[key],
            yerr=[[0] * len(own), [r["p99_ms"] - r["p50_ms"] for r in own]],
            error_kw={"elinewidth": 0.7, "ecolor": colour("muted")},
        )
        if key == "quire-log":
            for x, height in zip(at, heights, strict=True):
                said = {"ha": "center", "va": "top", "fontsize": 7, "color": colour("on-accent"), "rotation": 90}
                axis.annotate(f"{height:,.0f}", (x, height * 0.92), **said)
    _plain_log(axis)
    axis.set_ylim(bottom=min(r["p50_ms"] for r in results) / 3)
    axis.set_ylabel("milliseconds: p50 as bar, p99 as line")
    axis.set_xticks(range(len(latencies)), [f"+{latency:g} ms" for latency in latencies])
    many = "s" if width > 1 else ""
    axis.set_title(f"One commit over {width} table{many}, S3 (lower is better)", loc="left", fontsize=10)


def _throughput(axis: Any, results: Sequence[dict[str, Any]], kind: str) -> None:
    """Commits per second by number of writers, each with a table of its own."""
    writers = sorted({r["writers"] for r in results})
    for system in (*SYSTEMS, *APART):
        own = [(r["writers"], r.get("commits_per_second", 0.0)) for r in results if r["system"] == system.key]
        points = sorted(point for point in own if point[1] > 0)
        if points:
            first = system.key == "quire-log"
            line = {"lw": 2.4 if first else 1.4, "ms": 5 if first else 3.5, "zorder": 3 if first else 2}
            axis.plot(
                *zip(*points, strict=True), "o-", color=colour(COLOURS[system.key]), label=LABELS[system.key], **line
            )
    if not writers:
        axis.set_visible(False)
        return
    axis.set_xscale("log", base=2)
    _plain_log(axis)
    axis.set_xticks(writers, [str(n) for n in writers])
    axis.set_xlabel("threads of one process" if kind == "threads" else "processes")
    axis.set_ylabel("commits per second")
    axis.set_title(f"Writers with a table each, +{LATENCY} ms (higher is better)", loc="left", fontsize=10)


def _plain_log(axis: Any) -> None:
    """A logarithmic scale with numbers that can be read, and lines to read them by."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_yscale("log")
    axis.yaxis.set_major_locator(LogLocator(10, (1.0, 3.0)))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.yaxis.set_minor_formatter(NullFormatter())
    axis.grid(axis="y", lw=0.5, color=colour("border"))
    axis.set_axisbelow(True)
