"""What `make test-pythons` runs: the quick tests on other Pythons, each in an environment of its own.

python tests/pythons.py 3.12 3.13
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENTS = ROOT / "build" / "pythons"


def candidates(version: str) -> Iterator[str]:
    """Where a Python may be: on the path, or among those of pyenv, the newest first."""
    found = shutil.which(f"python{version}")
    if found:
        yield found
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    patches = [path for path in pyenv.glob(f"versions/{version}.*/bin/python") if path.parts[-3][-1].isdigit()]
    yield from map(str, sorted(patches, key=lambda path: int(path.parts[-3].rpartition(".")[2]), reverse=True))


def find(version: str) -> str | None:
    """A Python that starts and is what it is called: a shim of pyenv may be neither."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    for python in candidates(version):
        asked = subprocess.run([python, "-c", code], capture_output=True, text=True)
        if asked.returncode == 0 and asked.stdout.strip() == version:
            return python
    return None


def main(versions: list[str]) -> int:
    results: dict[str, str] = {}
    for version in versions:
        if not re.fullmatch(r"3\.\d+", version):
            print(f"{version!r} is not a version such as 3.12.", file=sys.stderr)
            return 2
        python = find(version)
        if python is None:
            results[version] = "not found, so it was not tested"
            continue
        print(f"\nPython {version}: {python}", flush=True)
        make = ["make", "--no-print-directory", "test-fast", f"PYTHON={python}", f"VENV={ENVIRONMENTS / version}"]
        ran = subprocess.run(make, cwd=ROOT)
        results[version] = "passed" if ran.returncode == 0 else "FAILED"
    print()
    for version, result in results.items():
        print(f"Python {version}: {result}")
    return 1 if "FAILED" in results.values() else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
