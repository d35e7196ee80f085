"""The graph at size, from the command line: `python -m benchmarks.graph --help`."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.commits import machine
from benchmarks.commits.__main__ import progress
from benchmarks.graph import report, social, social_runner
from benchmarks.graph.data import SIZES
from benchmarks.graph.runner import run
from rich.console import Console

GRAPHS = ("both", "people", "social")
OUT = Path("benchmarks/out/graph.json")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.graph", description="A large graph, loaded and asked.")
    parser.add_argument("--size", choices=SIZES, default="full", help="full (default), quick, or tiny for a test")
    parser.add_argument("--quick", dest="size", action="store_const", const="quick", help="the same as --size quick")
    parser.add_argument("--graph", choices=GRAPHS, default="both", help="people, social, or both (default)")
    parser.add_argument("--json", type=Path, default=OUT, metavar="FILE", help=f"where the numbers go (default: {OUT})")
    parser.add_argument("--directory", type=Path, metavar="DIR", help="the disk to use (default: the temporary one)")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    given = parse(arguments)
    about = {
        "command": shlex.join(["python", "-m", "benchmarks.graph", *arguments]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "size": given.size,
        "machine": machine.describe(),
        "load_before": machine.load(),
    }
    began = time.monotonic()
    found: dict[str, Any] = {}
    with progress() as say:
        if given.graph != "social":
            found |= run(SIZES[given.size], say, directory=given.directory)
        if given.graph != "people":
            found["social"] = social_runner.run(social.SIZES[given.size], say, directory=given.directory)
    found = {**about, "seconds": round(time.monotonic() - began, 1), **found}
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps(found, indent=1) + "\n")
    given.json.with_suffix(".md").write_text(report.markdown(found))
    report.show(found, Console(width=None if sys.stdout.isatty() else 200))
    print(f"{found['seconds']:.0f} s; numbers in {given.json}, as text in {given.json.with_suffix('.md')}")
    return 0 if report.is_bounded(found) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
