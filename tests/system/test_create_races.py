"""Several processes create one lake at once."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from tests.system import writers
from tests.system.processes import together

import quire

pytestmark = pytest.mark.slow

PROCESSES = 5


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.s3)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, dict[str, str] | None]:
    if request.param == "local":
        return str(tmp_path / "lake"), None
    s3 = request.getfixturevalue("s3")
    return s3.uri(uuid.uuid4().hex), s3.options


def test_exactly_one_creator_wins_and_the_others_are_told(place: tuple[str, dict[str, str] | None]) -> None:
    uri, options = place

    finished = together(writers.create_lake, [(uri, options)] * PROCESSES)

    assert sorted(f.result for f in finished) == ["created"] + ["lake-exists"] * (PROCESSES - 1)
    lake = quire.open(uri, storage_options=options)
    assert [c.message for c in lake.log()] == ["by the winner", "create lake"]
    assert lake["mine"].to_pylist() == [{"id": 1}]


def test_creators_that_accept_an_existing_lake_all_get_the_same_one(place: tuple[str, dict[str, str] | None]) -> None:
    uri, options = place

    finished = together(writers.create_or_open_lake, [(uri, options, number) for number in range(PROCESSES)])

    assert len({f.result for f in finished}) == 1
    lake = quire.open(uri, storage_options=options)
    assert lake.tables() == sorted(f"own_{number}" for number in range(PROCESSES))
