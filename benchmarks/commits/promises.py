"""What must come out, computed from one run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

RATIO_AT_MOST = 1.25
FASTER_AT_LEAST = 5.0
GROUPED_AT_LEAST = 10.0


def judge(run: dict[str, Any]) -> list[dict[str, Any]]:
    """Every promise with its value; one whose numbers are not in the run has none and is not kept or broken."""
    one, eight = _at(run, 1), _at(run, 8)
    return [
        _promise(
            "one table at 5 ms: requests, Quire / pylance",
            lambda: one("quire-log")["requests"] / one("lance")["requests"],
            "at most",
            RATIO_AT_MOST,
        ),
        _promise(
            "one table at 5 ms: latency p50, Quire / pylance",
            lambda: one("quire-log")["p50_ms"] / one("lance")["p50_ms"],
            "at most",
            RATIO_AT_MOST,
        ),
        _promise(
            "8 tables at 5 ms: latency p50, pylance one after the other / Quire",
            lambda: eight("lance")["p50_ms"] / eight("quire-log")["p50_ms"],
            "at least",
            FASTER_AT_LEAST,
        ),
        _promise(
            "64 threads, a table each, 50 ms: commits per second, grouped / ungrouped",
            lambda: _grouped(run)["quire-log"] / _grouped(run)["quire-log-ungrouped"],
            "at least",
            GROUPED_AT_LEAST,
        ),
    ]


def _promise(
    name: str, value: Callable[[], float], bound: Literal["at most", "at least"], limit: float
) -> dict[str, Any]:
    try:
        found: float | None = value()
    except (LookupError, ZeroDivisionError):
        found = None
    kept = None if found is None else found <= limit if bound == "at most" else found >= limit
    return {"promise": name, "value": found, "bound": bound, "limit": limit, "kept": kept}


def _at(run: dict[str, Any], tables: int) -> Callable[[str], dict[str, Any]]:
    """Latency results on the server at 5 ms, by system: of the two alone where they were measured so."""
    results = [r for r in run.get("pair", run["latency"]) if r["latency_ms"] == 5 and "requests" in r]
    found = {r["system"]: r for r in results if r["tables"] == tables}
    return lambda key: found[key]


def _grouped(run: dict[str, Any]) -> dict[str, float]:
    """Commits per second of both ways; only a run with the promised number of writers and latency counts."""
    runs = run.get("grouping", {}).get("runs", [])
    return {
        r["system"]: r["commits_per_second"]
        for r in runs
        if r["writers"] == 64 and r["latency_ms"] == 50 and "commits_per_second" in r
    }
