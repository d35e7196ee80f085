"""A run as tables for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.commits.systems import SYSTEMS
from rich.console import Console
from rich.table import Table

TITLES = {system.key: system.title + ("" if system.atomic else " (not atomic)") for system in SYSTEMS}
PLACES = {"disk": "local disk", "seaweedfs": "SeaweedFS", "ministack": "ministack"}


def show(run: dict[str, Any], console: Console) -> None:
    """Everything that was measured."""
    if run.get("pair"):
        console.print(_latency("Quire and pylance alone, SeaweedFS, 5 ms added to every request", run["pair"]))
    for (place, latency), results in _by(run["latency"], "place", "latency_ms").items():
        console.print(_latency(_where(place, latency), results))
    for (place, latency), results in _by(run["throughput"], "place", "latency_ms").items():
        console.print(_throughput(_where(place, latency), results))
    if run.get("grouping"):
        console.print(_grouping(run["grouping"]))
    if run.get("ledgers"):
        console.print(_ledgers(run["ledgers"]))
    console.print(_promises(run["promises"]))
    for note in run["notes"]:
        console.print(f"- {note}", highlight=False)


def _where(place: str, latency: float) -> str:
    return PLACES[place] if place == "disk" else f"{PLACES[place]}, {latency:g} ms added to every request"


def _by(results: Sequence[dict[str, Any]], *names: str) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
    """Results in groups that agree in some fields, in the order of their first appearance."""
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for result in results:
        found.setdefault(tuple(result[name] for name in names), []).append(result)
    return found


def _table(title: str, first: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column(first, no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.1f}"


def _latency(where: str, results: Sequence[dict[str, Any]]) -> Table:
    widths = sorted({r["tables"] for r in results})
    on_wire = any("requests" in r for r in results)
    columns = [f"T={w}: p50 / p99 ms (n)" for w in widths]
    if on_wire:
        columns += [f"T={w}: requests + later, hops" for w in widths]
    table = _table(f"One commit over T tables, {where}", "system", *columns)
    for (key,), own in _by(results, "system").items():
        cells = {r["tables"]: r for r in own}
        row = [f"{_number(c['p50_ms'])} / {_number(c['p99_ms'])} ({c['n']})" for c in map(cells.__getitem__, widths)]
        if on_wire:
            row += [
                f"{_number(c['requests'])} + {_number(c['requests_after'])}, {_number(c['hops'])}"
                for c in map(cells.__getitem__, widths)
            ]
        table.add_row(TITLES[key], *row)
    return table


def _throughput(where: str, results: Sequence[dict[str, Any]]) -> Table:
    conditions = list(_by(results, "writers", "kind", "shared"))
    columns = [
        "1 writer" if writers == 1 else f"{writers} {kind}\n{'one table' if shared else 'a table each'}"
        for writers, kind, shared in conditions
    ]
    table = _table(f"Commits per second (requests per commit), {where}", "system", *columns)
    for (key,), own in _by(results, "system").items():
        cells = {(r["writers"], r["kind"], r["shared"]): r for r in own}
        table.add_row(TITLES[key], *[_rate(cells[condition]) for condition in conditions])
    return table


def _rate(result: dict[str, Any]) -> str:
    if "refused" in result:
        return "no"
    rate = _number(result["commits_per_second"]) if result["n"] else f"< {_number(1 / result['seconds'])}"
    text = f"{rate} ({_number(result['requests'])})" if "requests" in result else rate
    return text + (f" !{result['failed']}" if result["failed"] else "")


def _grouping(found: dict[str, Any]) -> Table:
    first = found["runs"][0]
    title = f"Group commit: {first['writers']} threads, a table each, {first['latency_ms']:g} ms, ministack"
    table = _table(title, "", "commits/s", "p50 ms", "p99 ms", "requests per commit", "n", "runs")
    names = {"quire-log": "grouped", "quire-log-ungrouped": "one commit per slot"}
    for result in found["runs"]:
        if "refused" in result:
            table.add_row(names[result["system"]], result["refused"])
            continue
        table.add_row(
            names[result["system"]],
            _number(result["commits_per_second"]),
            _number(result["p50_ms"]),
            _number(result["p99_ms"]),
            _number(result.get("requests")),
            str(result["n"]),
            ", ".join(_number(rate) for rate in result["repetitions"]),
        )
    ceiling = found["ceiling"]
    table.caption = (
        f"Server and proxy alone carry {ceiling['requests_per_second']:,.0f} small PUTs per second "
        f"from {ceiling['clients']} threads."
    )
    return table


def _ledgers(results: Sequence[dict[str, Any]]) -> Table:
    latency = results[0]["latency_ms"]
    columns = ("slots", "p50 ms", "p99 ms", "n", "requests + later", "hops", "bytes in", "bytes out")
    table = _table(
        f"The two ledgers, {latency:g} ms, one commit to one table; cold open",
        "ledger",
        *columns,
        "open ms",
        "requests",
    )
    for r in sorted(results, key=lambda r: (r["depth"], r["ledger"])):
        table.add_row(
            {"log": "log", "manifest": "__manifest"}[r["ledger"]],
            f"{r['depth']:,}",
            _number(r["p50_ms"]),
            _number(r["p99_ms"]),
            str(r["n"]),
            f"{_number(r['requests'])} + {_number(r['requests_after'])}",
            _number(r["hops"]),
            _number(r["bytes_in"]),
            _number(r["bytes_out"]),
            _number(r["open_ms"]),
            _number(r["open_requests"]),
        )
    return table


def _promises(promises: Sequence[dict[str, Any]]) -> Table:
    table = _table("What must come out", "", "measured", "", "limit", "")
    verdicts = {True: "[green]PASS", False: "[bold red]FAIL", None: "not measured"}
    for p in promises:
        value = "–" if p["value"] is None else f"{p['value']:.2f}×"
        table.add_row(p["promise"], value, p["bound"], f"{p['limit']:g}×", verdicts[p["kept"]])
    return table
