"""The wheel that is built holds every file of the pages, and makes none of them: there is no node."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from quire.server.ui import assets

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.full
def test_the_wheel_holds_the_pages(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--disable-pip-version-check",
        "-w",
        str(tmp_path),
    ]
    done = subprocess.run(
        [*command, str(ROOT)],
        capture_output=True,
        text=True,
        env={"PATH": "/nowhere", "HOME": str(tmp_path)},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        held = {
            name.removeprefix("quire/server/ui/static/"): packed.read(name)
            for name in packed.namelist()
            if name.startswith("quire/server/ui/static/")
        }
    assert held == assets.every()
