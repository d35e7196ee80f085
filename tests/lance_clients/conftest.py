"""Where the environments of clients are: `make test-lance-clients` makes them and says so."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import quire

WHERE = os.environ.get("QUIRE_LANCE_CLIENTS")
PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="session")
def environments() -> Path:
    if WHERE is None:
        pytest.skip("make test-lance-clients makes the environments of the clients")
    return Path(WHERE).resolve()


@pytest.fixture
def program(environments: Path) -> Callable[[str, str], list[str]]:
    """The command that runs a program in an environment; the test is left out where that could not be made."""

    def command(environment: str, name: str) -> list[str]:
        folder = environments / environment
        if not (folder / "made-of.txt").exists():
            pytest.skip(f"the environment {environment} could not be made")
        if name.endswith(".mjs"):
            script = folder / name  # which finds its modules beside it
            script.write_text((PROGRAMS / name).read_text())
            return ["node", str(script)]
        return [str(folder / "bin" / "python"), str(PROGRAMS / name)]

    return command


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[quire.Lake]:
    with quire.create(tmp_path / "lake", author="ada") as lake:
        with lake.transaction("start") as tx:
            tx.create_table("docs", [{"id": n, "text": f"text {n}"} for n in range(4)])
            tx.create_table("people", [{"id": n, "name": f"name {n}"} for n in range(4)], key="id")
        yield lake
