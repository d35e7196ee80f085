"""What must come out, computed from one run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

REQUESTS = {1: 3, 2: 5, 8: 17}
"""Of an append to so many tables, before the acknowledgement: 2T+1."""
HOPS = 2
FASTER_AT_LEAST = 12.0
COMMITS_AT_LEAST = 400.0
SATURATED = 0.9
"""Share of the machine's cores from which on no system could go further."""
TIMES_OLDER = 10.0
SLOWEST = 3.0
GROUPED_AT_LEAST = 10.0


def judge(run: dict[str, Any]) -> list[dict[str, Any]]:
    """Every promise with its value; one whose numbers are not in the run has none and is not kept or broken."""
    found = []
    for tables, requests in REQUESTS.items():
        if any(r["tables"] == tables for r in run["latency"]):
            at = _on_wire(run, tables)
            name = f"append to {tables} table{'s' if tables > 1 else ''}: Quire's"
            found.append(_promise(f"{name} requests", lambda at=at: at["requests"], "at most", requests))  # type: ignore[misc]
            found.append(_promise(f"{name} hops", lambda at=at: at["hops"], "at most", HOPS))  # type: ignore[misc]
    found += [
        _promise(
            "8 tables at 50 ms: p50, pylance one after the other / Quire",
            lambda: _pair(run, 8, "lance") / _pair(run, 8, "quire-log"),
            "at least",
            FASTER_AT_LEAST,
        ),
        _threads(run),
        _promise(
            "64 processes, a table each, 50 ms: commits/s, Quire / the older revision",
            lambda: _rate(run, "quire-log", 64, "processes") / _rate(run, "quire-older", 64, "processes"),
            "at least",
            TIMES_OLDER,
        ),
        _goal(
            "64 processes, a table each, 50 ms: commits/s, Quire / pylance without any order between tables",
            lambda: _rate(run, "quire-log", 64, "processes") / _rate(run, "lance", 64, "processes"),
        ),
        *[
            _promise(
                f"{writers} processes on one table: commits of the median writer / of the slowest",
                lambda writers=writers: _spread(run, writers),  # type: ignore[misc]
                "at most",
                SLOWEST,
            )
            for writers in (12, 64)
        ],
        _promise(
            "64 threads, a table each, 50 ms: commits/s, grouped / ungrouped",
            lambda: _grouped(run)["quire-log"] / _grouped(run)["quire-log-ungrouped"],
            "at least",
            GROUPED_AT_LEAST,
        ),
    ]
    return found


def _promise(
    name: str, value: Callable[[], float], bound: Literal["at most", "at least"], limit: float
) -> dict[str, Any]:
    try:
        found: float | None = value()
    except (LookupError, ZeroDivisionError):
        found = None
    kept = None if found is None else found <= limit if bound == "at most" else found >= limit
    return {"promise": name, "value": found, "bound": bound, "limit": limit, "kept": kept}


def _goal(name: str, value: Callable[[], float]) -> dict[str, Any]:
    """A number to be seen, which breaks nothing."""
    return {**_promise(name, value, "at least", 1.0), "kept": None, "goal": True}


def _threads(run: dict[str, Any]) -> dict[str, Any]:
    """So many commits per second, or as many as the cores of this machine can do."""
    name = "64 threads, a table each, 50 ms: Quire's commits/s"
    found = _promise(name, lambda: _rate(run, "quire-log", 64, "threads"), "at least", COMMITS_AT_LEAST)
    if found["kept"] is False:
        busy = _crowd(run, "quire-log", 64, "threads")["cpu_cores"]
        share = (busy["clients"] + busy["server"]) / run["machine"]["cores"]
        found["kept"] = share >= SATURATED
        found["promise"] += f" ({share:.0%} of the cores were theirs)"
    return found


def _on_wire(run: dict[str, Any], tables: int) -> dict[str, Any]:
    """Quire's latency result with counts, where the latency is largest: there hops are seen best."""
    own = [r for r in run["latency"] if r["system"] == "quire-log" and r["tables"] == tables and "requests" in r]
    return max(own, key=lambda r: r["latency_ms"], default={})


def _pair(run: dict[str, Any], tables: int, key: str) -> float:
    """p50 at 50 ms of one of the two that were measured alone."""
    found = {r["system"]: r for r in run.get("pair", ()) if r["latency_ms"] == 50 and r["tables"] == tables}
    return float(found[key]["p50_ms"])


def _crowd(run: dict[str, Any], key: str, writers: int, kind: str, *, shared: bool = False) -> dict[str, Any]:
    for r in run["throughput"]:
        if (r["system"], r["writers"], r["kind"], r["shared"], r["latency_ms"]) == (key, writers, kind, shared, 50):
            found: dict[str, Any] = r
            return found
    raise LookupError


def _rate(run: dict[str, Any], key: str, writers: int, kind: str) -> float:
    return float(_crowd(run, key, writers, kind)["commits_per_second"])


def _spread(run: dict[str, Any], writers: int) -> float:
    least, median, _ = _crowd(run, "quire-log", writers, "processes", shared=True)["per_writer"]
    return float(median) / least if least else float("inf")


def _grouped(run: dict[str, Any]) -> dict[str, float]:
    """Commits per second of both ways; only a run with the promised number of writers and latency counts."""
    runs = run.get("grouping", {}).get("runs", [])
    return {
        r["system"]: r["commits_per_second"]
        for r in runs
        if r["writers"] == 64 and r["latency_ms"] == 50 and "commits_per_second" in r
    }
