"""Other Pythons are found by what they answer, and one that is missing is reported."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from tests import pythons

ROOT = Path(__file__).resolve().parents[1]
THIS = f"{sys.version_info[0]}.{sys.version_info[1]}"


def executable(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n", "utf-8")
    path.chmod(0o755)
    return path


def test_one_of_pyenv_is_taken_where_the_one_on_the_path_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shim = executable(tmp_path / "shims" / f"python{THIS}", "echo 'pyenv: not found' >&2; exit 127")
    other = executable(tmp_path / "versions" / f"{THIS}.98" / "bin" / "python", "echo 2.7")
    real = executable(tmp_path / "versions" / f"{THIS}.9" / "bin" / "python", f'exec "{sys.executable}" "$@"')
    monkeypatch.setenv("PATH", str(shim.parent))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    assert list(pythons.candidates(THIS)) == [str(shim), str(other), str(real)]
    monkeypatch.setenv("PATH", f"{shim.parent}:/usr/bin:/bin")
    assert pythons.find(THIS) == str(real)


def test_a_missing_one_is_reported_and_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    assert pythons.main(["3.99"]) == 0
    assert "Python 3.99: not found, so it was not tested" in capsys.readouterr().out
    assert pythons.main(["three"]) == 2


def test_the_page_for_contributors_names_every_target_for_tests() -> None:
    targets = re.findall(r"^([a-z0-9-]+):.*## ", (ROOT / "Makefile").read_text("utf-8"), flags=re.MULTILINE)
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    known = {"help", "venv", "lint", "types", "layers", "clean"}
    assert [name for name in targets if f"`make {name}`" not in page and name not in known] == []
