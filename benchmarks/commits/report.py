"""A run as tables for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.commits.systems import APART, SYSTEMS
from rich.console import Console
from rich.table import Table

TITLES = {system.key: system.title + ("" if system.atomic else " (not atomic)") for system in (*SYSTEMS, *APART)}
PLACES = {"disk": "local disk", "seaweedfs": "SeaweedFS", "memory": "S3 in memory"}


def show(run: dict[str, Any], console: Console) -> None:
    """Everything that was measured."""
    for (latency,), results in _by(run.get("pair", ()), "latency_ms").items():
        console.print(_latency(f"Quire and pylance alone, {_where('seaweedfs', latency)}", results))
    for (place, latency), results in _by(run["latency"], "place", "latency_ms").items():
        console.print(_latency(_where(place, latency), results))
    if run.get("slopes"):
        console.print(_slopes(run["slopes"]))
    for (place, latency, kind), results in _by(run["throughput"], "place", "latency_ms", "kind").items():
        console.print(_throughput(_where(place, latency), results))
        if kind == "processes" or place != "disk":
            console.print(_cores(_where(place, latency), results, run["machine"]["cores"]))
    if run.get("grouping"):
        console.print(_grouping(run["grouping"]))
    profile = _profile(run["throughput"])
    if profile is not None:
        console.print(profile)
    if run.get("ledgers"):
        console.print(_ledgers(run["ledgers"]))
    console.print(_promises(run["promises"]))
    if run.get("older"):
        older = run["older"]
        console.print(f"- The older revision is {older['revision'][:12]} of {older['date']}.", highlight=False)
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


def _slopes(results: Sequence[dict[str, Any]]) -> Table:
    """Hops by the clock beside what is left of p50 without latency."""
    widths = sorted({r["tables"] for r in results})
    columns = [f"T={w}: hops, ms without" for w in widths]
    title = "Hops by the clock: milliseconds of p50 per added one; p50 at the least latency"
    table = _table(title, "system", *columns)
    for (key,), own in _by(results, "system").items():
        cells = {r["tables"]: r for r in own}
        table.add_row(TITLES[key], *[f"{cells[w]['slope']:.1f}, {_number(cells[w]['rest_ms'])}" for w in widths])
    return table


def _cores(where: str, results: Sequence[dict[str, Any]], cores: int) -> Table:
    """Who took the machine's cores: clients, servers, and whatever else ran."""
    conditions = list(_by(results, "writers", "kind", "shared"))
    title = f"Share of the {cores} cores: clients + server (+ database) / whole machine; client ms per commit, {where}"
    table = _table(title, "system", *[_condition(*condition) for condition in conditions])
    for (key,), own in _by(results, "system").items():
        cells = {(r["writers"], r["kind"], r["shared"]): r for r in own}
        table.add_row(TITLES[key], *[_share(cells[condition], cores) for condition in conditions])
    return table


def _share(result: dict[str, Any], cores: int) -> str:
    found = result.get("cpu_cores")
    if not found:
        return "–"
    parts = [found["clients"], *(found[name] for name in ("server", "database") if found.get(name, 0) >= 0.005 * cores)]
    said = " + ".join(f"{part / cores:.0%}" for part in parts) + f" / {found['machine'] / cores:.0%}"
    return said + (f"; {result['client_cpu_ms']:.1f}" if "client_cpu_ms" in result else "")


def _profile(results: Sequence[dict[str, Any]]) -> Table | None:
    """Where the client's CPU of a commit goes, for the most threads that Quire was measured with."""
    own = [r for r in results if r["system"] == "quire-log" and r["kind"] == "threads" and r.get("cpu_ms_by_thread")]
    own = [r for r in own if not r["shared"] and r["place"] != "disk"]
    if not own:
        return None
    columns = ["1 thread" if r["writers"] == 1 else f"{r['writers']} threads" for r in own]
    table = _table("Quire's CPU of one commit by thread, ms, a table each", "threads", *columns)
    for family in dict.fromkeys(family for r in own for family in r["cpu_ms_by_thread"]):
        table.add_row(family, *[f"{r['cpu_ms_by_thread'].get(family, 0.0):.2f}" for r in own])
    table.add_row("together", *[f"{r['client_cpu_ms']:.2f}" for r in own])
    return table


def _condition(writers: int, kind: str, shared: bool) -> str:
    return "1 writer" if writers == 1 else f"{writers} {kind}\n{'one table' if shared else 'a table each'}"


def _throughput(where: str, results: Sequence[dict[str, Any]]) -> Table:
    conditions = list(_by(results, "writers", "kind", "shared"))
    columns = [_condition(*condition) for condition in conditions]
    title = f"Commits per second (requests per commit; commits of the slowest writer), {where}"
    table = _table(title, "system", *columns)
    for (key,), own in _by(results, "system").items():
        cells = {(r["writers"], r["kind"], r["shared"]): r for r in own}
        table.add_row(TITLES[key], *[_rate(cells[condition]) for condition in conditions])
    return table


def _rate(result: dict[str, Any]) -> str:
    if "refused" in result:
        return "lost rows" if result.get("lost") else "no"
    rate = _number(result["commits_per_second"]) if result["n"] else f"< {_number(1 / result['seconds'])}"
    about = [_number(result["requests"])] if "requests" in result else []
    if result["writers"] > 1:
        about.append(str(result["per_writer"][0]))
    text = f"{rate} ({'; '.join(about)})" if about else rate
    return text + (f" !{result['failed']}" if result["failed"] else "")


def _grouping(found: dict[str, Any]) -> Table:
    first = found["runs"][0]
    title = f"Group commit: {first['writers']} threads, a table each, {first['latency_ms']:g} ms, S3 in memory"
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
        f"The server alone carries {ceiling['requests_per_second']:,.0f} small PUTs per second "
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
        value = "–" if p["value"] is None else f"{p['value']:.2f}"
        verdict = "goal" if p.get("goal") else verdicts[p["kept"]]
        table.add_row(p["promise"], value, p["bound"], f"{p['limit']:g}", verdict)
    return table
