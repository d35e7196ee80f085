"""Environments of clients that know nothing of Quire: made once, kept below `build/lance-clients`.

python -m tests.lance_clients.environments build/lance-clients
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

PYTHON = {
    "pylance7": ["pylance==7.0.0"],
    "pylance10": ["pylance==10.0.0"],
    "pylance14": ["pylance==14.0.2"],
    "lancedb": ["lancedb==0.40.0"],
}
NODE = {"node": ["@lancedb/lancedb@0.39.0", "apache-arrow@18.1.0"]}
DONE = "made-of.txt"


def make(folder: Path) -> list[str]:
    """Make what is not there yet; the names of those that could not be made."""
    missing = []
    for name, packages in PYTHON.items():
        if not _made(folder / name, packages, _python):
            missing.append(name)
    for name, packages in NODE.items():
        if shutil.which("npm") is None or not _made(folder / name, packages, _node):
            missing.append(name)
    return missing


def _made(folder: Path, packages: list[str], install: object) -> bool:
    mark = folder / DONE
    if mark.exists() and mark.read_text().split() == packages:
        return True
    print(f"making {folder}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        install(folder, packages)  # type: ignore[operator]
    except (subprocess.CalledProcessError, OSError) as error:
        print(f"{folder.name} could not be made: {error}", file=sys.stderr)
        return False
    mark.write_text("\n".join(packages))
    return True


def _python(folder: Path, packages: list[str]) -> None:
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    subprocess.run([str(folder / "bin" / "pip"), "install", "-q", *packages], check=True)


def _node(folder: Path, packages: list[str]) -> None:
    subprocess.run(["npm", "init", "-y"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--silent", *packages], cwd=folder, check=True)


if __name__ == "__main__":
    left_out = make(Path(sys.argv[1]))
    if left_out:
        print(f"without: {', '.join(left_out)}", file=sys.stderr)
