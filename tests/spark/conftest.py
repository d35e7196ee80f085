from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import quire
from quire.cli import options, program
from quire.testing.tasks import PickledTasks


@pytest.fixture
def lake(tmp_path: Path) -> quire.Lake:
    return quire.create(tmp_path / "lake")


@pytest.fixture(params=["tasks", pytest.param("spark", marks=pytest.mark.full)])
def engine(request: pytest.FixtureRequest) -> Any:
    """Runs numbered tasks: with what they are made of pickled, and by the executors of Spark."""
    return PickledTasks() if request.param == "tasks" else request.getfixturevalue("spark")


@pytest.fixture
def run(spark: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Commands in this process. The session that they start is the one of all tests, which goes on afterwards."""
    asked: list[str] = []
    monkeypatch.setattr(options, "start", lambda master: asked.append(master) or spark)
    monkeypatch.setattr(type(spark), "stop", lambda self: None)

    def call(*arguments: object, code: int = 0) -> Any:
        capsys.readouterr()
        got = program.run([*map(str, arguments), "--json"])
        out = capsys.readouterr().out
        assert got == code, out
        return json.loads(out)

    call.asked = asked  # type: ignore[attr-defined]
    return call
