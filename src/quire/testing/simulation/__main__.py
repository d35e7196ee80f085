"""`python -m quire.testing.simulation`: run many histories, or look at one."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable

from quire.testing.simulation.campaign import Campaign, campaign
from quire.testing.simulation.history import Result, run
from quire.testing.simulation.planting import planted

SHOWN = 400


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m quire.testing.simulation", description=__doc__)
    parser.add_argument("--histories", type=int, default=1000, metavar="N", help="how many (default 1000)")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="the first seed (default 1)")
    parser.add_argument("--processes", type=int, default=2, metavar="P", help="how many at once (default 2)")
    parser.add_argument("--bug", metavar="MODULE:NAME", help="plant a bug in the protocol first")
    parser.add_argument("--one", type=int, metavar="SEED", help="run this history only")
    parser.add_argument("--trace", action="store_true", help="with --one: print everything that happened")
    given = parser.parse_args(arguments)
    if given.one is not None:
        with planted(given.bug):
            result = run(given.one, keep_trace=True)
        _show(result, len(result.lines) if given.trace else 0)
        return 1 if result.violations else 0
    total = campaign(
        range(given.seed, given.seed + given.histories),
        processes=given.processes,
        bug=given.bug,
        progress=_progress(given.histories),
    )
    print(file=sys.stderr)
    print(total.summary())
    for failure in total.failures:
        print(f"\nseed {failure.seed}: {failure.violations[0]}")
    if total.failures:
        with planted(given.bug):
            _show(run(total.failures[0].seed, keep_trace=True), SHOWN)
        return 1
    if total.weak:
        print(f"too weak: no {', no '.join(total.weak)}")
        return 1
    return 0


def _progress(wanted: int) -> Callable[[Campaign], None]:
    told = 0

    def show(total: Campaign) -> None:
        nonlocal told
        for failure in total.failures[told:]:
            print(f"\nseed {failure.seed}: {failure.violations[0][:300]}", file=sys.stderr)
        told = len(total.failures)
        rate = total.histories / max(total.seconds, 1e-9)
        print(
            f"\r{total.histories:,}/{wanted:,} histories, {rate:.0f}/s, {total.counts['commit']:,} commits,"
            f" {len(total.failures)} violations ",
            end="",
            file=sys.stderr,
            flush=True,
        )

    return show


def _show(result: Result, lines: int) -> None:
    print(f"\nseed {result.seed}, digest {result.digest}")
    if lines:
        if len(result.lines) > lines:
            print(f"… {len(result.lines) - lines} lines before; --one {result.seed} --trace prints all")
        print("\n".join(result.lines[-lines:]))
    for what, number in sorted(result.counts.items()):
        print(f"{number:>10,} {what}")
    for violation in result.violations:
        print(f"VIOLATION {violation}")
    print("no violation" if not result.violations else f"replay: --one {result.seed} --trace")


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        # Where code goes through a set of names, the order is part of the history.
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "quire.testing.simulation", *sys.argv[1:]])
    sys.exit(main())
