"""A run as one figure: how long a commit takes, by system and latency; how many commits many writers make."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.commits.systems import SYSTEMS

COLOURS = {
    "quire-log": "#0b6e4f",
    "quire-manifest": "#7fc8a9",
    "lance": "#8a8d91",
    "lance-namespace": "#c3c6ca",
    "delta": "#d9822b",
    "icechunk": "#3f7fbf",
}
INK = {"quire-manifest": "black", "lance-namespace": "black"}
LABELS = {
    "quire-log": "Quire",
    "quire-manifest": "Quire, __manifest",
    "lance": "pylance*",
    "lance-namespace": "Lance namespace*",
    "delta": "deltalake*",
    "icechunk": "icechunk",
}


def draw(run: dict[str, Any], files: Sequence[Path]) -> None:
    """Write the figure to each file; the ending chooses the kind (.svg, .png)."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    keys = [s.key for s in SYSTEMS if any(r["system"] == s.key for r in run["latency"])]
    widths = sorted({r["tables"] for r in run["latency"]})
    widths = [widths[0], widths[-1]] if len(widths) > 1 else widths
    with plt.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "q"}):
        figure, axes = plt.subplots(2, 2, figsize=(11, 7.5), layout="constrained")
        for axis, width in zip(axes[0], widths, strict=False):
            _latency(axis, [r for r in run["latency"] if r["tables"] == width], keys, width)
        latency = max((r["latency_ms"] for r in run["throughput"]), default=0)
        for axis, shared in zip(axes[1], (False, True), strict=True):
            chosen = [r for r in run["throughput"] if r["latency_ms"] == latency and r["kind"] == "threads"]
            _throughput(axis, [r for r in chosen if r["shared"] is shared or r["writers"] == 1], keys, shared, latency)
        handles, labels = axes[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(keys), frameon=False)
        machine = run["machine"]
        figure.suptitle(
            f"{machine['cores']} cores, {machine['memory_gb']:g} GB, {run['date'][:10]}.   "
            "* one table after the other, not atomic",
            fontsize=9,
            color="#555555",
        )
        for file in files:
            figure.savefig(file, dpi=130, metadata={"Date": None} if file.suffix == ".svg" else None)
        plt.close(figure)


def _latency(axis: Any, results: Sequence[dict[str, Any]], keys: Sequence[str], width: int) -> None:
    """Bars of p50 in groups by place, with a whisker up to p99."""
    places = list(dict.fromkeys((r["place"], r["latency_ms"]) for r in results))
    found = {(r["place"], r["latency_ms"], r["system"]): r for r in results}
    bar = 0.84 / len(keys)
    for number, key in enumerate(keys):
        own = [found.get((*place, key)) for place in places]
        at = [n + (number - (len(keys) - 1) / 2) * bar for n in range(len(places))]
        heights = [r["p50_ms"] if r else 0 for r in own]
        above = [r["p99_ms"] - r["p50_ms"] if r else 0 for r in own]
        whisker = {"elinewidth": 0.8, "ecolor": "#444444"}
        axis.bar(
            at,
            heights,
            bar * 0.92,
            color=COLOURS[key],
            label=LABELS[key],
            yerr=[[0] * len(own), above],
            error_kw=whisker,
        )
        for x, height in zip(at, heights, strict=True):
            text = f"{height:,.0f}" if height >= 10 else f"{height:.1f}"
            inside = {"ha": "center", "va": "bottom", "rotation": 90, "fontsize": 7, "color": INK.get(key, "white")}
            axis.annotate(text, (x, 0.015), xycoords=axis.get_xaxis_transform(), **inside)
    _plain_log(axis)
    axis.set_ylim(bottom=min(r["p50_ms"] for r in results) / 2.5)  # the numbers stand inside the bars
    axis.set_ylabel("milliseconds: p50 as bar, p99 as line")
    axis.set_xticks(
        range(len(places)), ["local disk" if p == "disk" else f"S3, +{latency:g} ms" for p, latency in places]
    )
    axis.set_title(
        f"One commit over {width} table{'s' if width > 1 else ''} (lower is better)", loc="left", fontsize=10
    )


def _throughput(
    axis: Any, results: Sequence[dict[str, Any]], keys: Sequence[str], shared: bool, latency: float
) -> None:
    writers = sorted({r["writers"] for r in results})
    for key in keys:
        points = [(r["writers"], r.get("commits_per_second", 0.0)) for r in results if r["system"] == key]
        points = sorted(p for p in points if p[1] > 0)
        if points:
            axis.plot(*zip(*points, strict=True), "o-", color=COLOURS[key], lw=1.8, ms=4)
    axis.set_xscale("log", base=2)
    _plain_log(axis)
    axis.set_xticks(writers, [str(n) for n in writers])
    axis.set_xlabel("threads of one process")
    axis.set_ylabel("commits per second")
    where = "all to one table" if shared else "a table each"
    axis.set_title(f"Writers together, {where}, +{latency:g} ms (higher is better)", loc="left", fontsize=10)


def _plain_log(axis: Any) -> None:
    """A logarithmic scale with numbers that can be read, and lines to read them by."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_yscale("log")
    axis.yaxis.set_major_locator(LogLocator(10, (1.0, 3.0)))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.yaxis.set_minor_formatter(NullFormatter())
    axis.grid(axis="y", lw=0.4, color="#dddddd")
    axis.set_axisbelow(True)
