"""The comparison from the command line: `python -m benchmarks.commits --help`."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.commits import machine, plot, promises, report, systems
from benchmarks.commits.latency import Say
from benchmarks.commits.older import NoSuchRevision
from benchmarks.commits.runner import SIZES, run
from benchmarks.commits.systems import SYSTEMS
from rich.console import Console

SETTINGS = ("QUIRE_OFFERS",)
"""Environment variables that change what is measured."""
OUT = Path("benchmarks/out/commits.json")


@contextmanager
def progress() -> Iterator[Say]:
    """A line that changes, on a terminal; nothing in a pipe."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status("") as status:
        yield lambda text: status.update(text)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.commits", description="Quire beside what one would use instead, in one run."
    )
    parser.add_argument("--size", choices=SIZES, default="full", help="full (default), quick, or tiny for a test")
    parser.add_argument("--quick", dest="size", action="store_const", const="quick", help="the same as --size quick")
    parser.add_argument("--only", action="append", metavar="SYSTEM", help="this system alone; may be given again")
    parser.add_argument("--old", metavar="REVISION", help="measure Quire at this revision of git beside the others")
    parser.add_argument("--list", action="store_true", help="name the systems and end")
    parser.add_argument("--json", type=Path, default=OUT, metavar="FILE", help=f"where the numbers go (default: {OUT})")
    parser.add_argument("--figure", type=Path, metavar="FILE", help="draw it there too (.svg or .png)")
    parser.add_argument(
        "--draw", type=Path, metavar="JSON", help="show and draw the numbers of an earlier run, and end"
    )
    parser.add_argument("--no-plot", action="store_true", help="draw no figure beside the numbers")
    given = parser.parse_args(arguments)
    known = [system.key for system in SYSTEMS]
    for key in given.only or ():
        if key not in known:
            parser.error(f"there is no system {key!r}; choose from {', '.join(known)}")
    return given


def main(arguments: Sequence[str]) -> int:
    given = parse(arguments)
    if given.list:
        for system in SYSTEMS:
            print(f"{system.key:18}{system.title}{'' if system.atomic else ' (one table after the other, not atomic)'}")
        return 0
    if given.draw:
        return _end(json.loads(given.draw.read_text()), given.draw, given)
    systems.quiet()
    chosen = [system for system in SYSTEMS if not given.only or system.key in given.only]
    about = {
        "command": shlex.join(["python", "-m", "benchmarks.commits", *arguments]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "size": given.size,
        "machine": machine.describe(),
        "load_before": machine.load(),
        "settings": {name: os.environ[name] for name in SETTINGS if name in os.environ},
    }
    began = time.monotonic()
    with progress() as say:
        try:
            found = run(SIZES[given.size], chosen, say, old=given.old)
        except NoSuchRevision as error:
            print(f"--old {given.old}: {error}", file=sys.stderr)
            return 2
    found = {**about, "seconds": round(time.monotonic() - began, 1), **found}
    found["promises"] = promises.judge(found)
    if about["settings"]:
        found["notes"].append("Settings: " + ", ".join(f"{name}={value}" for name, value in about["settings"].items()))
    if found["load_before"][0] > found["machine"]["cores"] / 2:
        found["notes"].append(
            f"The machine was busy before the run began (load {found['load_before'][0]:g} on "
            f"{found['machine']['cores']} cores): counts hold, times and ratios of times do not."
        )
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps(found, indent=1) + "\n")
    return _end(found, given.json, given)


def _end(found: dict[str, Any], file: Path, given: argparse.Namespace) -> int:
    """Show a run, and say by the exit code whether its promises are kept."""
    report.show(found, Console(width=None if sys.stdout.isatty() else 200))
    print(f"{found['seconds']:.0f} s; numbers in {file}")
    if not given.no_plot:
        figures = [file.with_suffix(".svg"), file.with_suffix(".png"), *([given.figure] if given.figure else [])]
        plot.draw(found, figures)
        print(f"figure in {figures[-1] if given.figure else figures[0]}")
    return 1 if any(p["kept"] is False for p in found["promises"]) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
