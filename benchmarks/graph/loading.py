"""Loading in a process of its own, so that its peak of memory is that of the load and of nothing else.

`python -m benchmarks.graph.loading STEP FILES FOLDER` does one step and prints what it took as a line of JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.graph.engines import Ladybug, Quire

STEPS: dict[str, Callable[[Path, Path], None]] = {
    "quire": Quire.load,
    "quire-index": lambda _, folder: Quire.tidy(folder),
    "ladybug": Ladybug.load,
}


def run(step: str, files: Path, folder: Path) -> dict[str, Any]:
    """Do a step in a process of its own: seconds, and the most memory that it had."""
    command = [sys.executable, "-m", "benchmarks.graph.loading", step, str(files), str(folder)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def peak_mb() -> float:
    """The most memory that this process has had so far (VmHWM)."""
    with open("/proc/self/status") as lines:
        line = next(line for line in lines if line.startswith("VmHWM"))
    return round(int(line.split()[1]) / 1024, 1)


def main() -> None:
    step, files, folder = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    began = time.perf_counter()
    STEPS[step](files, folder)
    seconds = time.perf_counter() - began
    print(json.dumps({"step": step, "seconds": round(seconds, 2), "peak_mb": peak_mb()}))


if __name__ == "__main__":
    main()
