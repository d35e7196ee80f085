"""Lakes of every format that was ever written open, read the same, and go on.

Each folder of `tests/fixtures/lakes` holds one lake as its Quire left it, and what it showed then. They are never made
again; `make.py` there makes the one of a new format.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.lakes import make
from tests.system.test_read_only import listing

import quire
from quire.ledger.records import NEWEST

LAKES = Path(make.__file__).parent
SHOWN_SINCE = {"adopts", "metadata"}
"""Fields of the log that came without a new format."""
FORMATS = sorted(folder.name for folder in LAKES.glob("format-*"))


@pytest.fixture(params=FORMATS)
def fixture(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    """A copy of the lake, and what it showed when it was made."""
    folder = LAKES / request.param
    with tarfile.open(folder / "lake.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "lake", json.loads((folder / "expected.json").read_text())


def test_every_format_has_its_lake() -> None:
    """A new format is not done before its fixture is: run make.py with a folder for it."""
    assert sorted(f"format-{number}" for number in range(1, NEWEST + 1)) == FORMATS
    for name in FORMATS:
        told = json.loads((LAKES / name / "expected.json").read_text())
        assert name == f"format-{told['format']}"


def test_the_fixture_holds_what_it_is_there_for(fixture: tuple[Path, dict[str, Any]]) -> None:
    place, expected = fixture
    names = [path.name for path in (place / "_quire").rglob("*") if path.is_file()]
    assert len(expected["log"]) > 40
    assert any(name.startswith("checkpoint-") for name in names)
    assert any(name.startswith("side-") for name in names)
    assert any(name.startswith("hint-") for name in names)
    assert len(expected["lines"]) >= 2
    assert {"registered", "take the mistake back", "opaque"} <= {c.get("message") for c in expected["log"]}
    assert any(state["indexes"] for state in expected["tables"].values())


def test_it_shows_what_it_showed_and_reading_changes_nothing(fixture: tuple[Path, dict[str, Any]]) -> None:
    place, expected = fixture
    before = listing(str(place))
    with quire.open(place, read_only=True) as lake:
        seen = json.loads(json.dumps(make.observe(lake), default=str))
    for part in seen:
        assert _as_then(seen[part], expected[part]) == expected[part], part
    assert listing(str(place)) == before


def _as_then(seen: Any, expected: Any) -> Any:
    """What is shown now, without the fields that were not shown when the fixture was made."""
    if isinstance(seen, dict) and isinstance(expected, dict):
        return {name: _as_then(seen.get(name), value) for name, value in expected.items()} | {
            name: seen[name] for name in seen.keys() - expected.keys() - SHOWN_SINCE
        }
    if isinstance(seen, list) and isinstance(expected, list) and len(seen) == len(expected):
        return [_as_then(one, other) for one, other in zip(seen, expected, strict=True)]
    return seen


def test_it_is_sound(fixture: tuple[Path, dict[str, Any]]) -> None:
    place, expected = fixture
    found = quire.open(place, read_only=True).verify()
    assert found.findings == []
    assert found.records >= len(expected["log"])
    assert found.checkpoints >= 1


def test_it_reads_the_same_without_hint_and_checkpoint(fixture: tuple[Path, dict[str, Any]]) -> None:
    """A replay of all its records gives what its checkpoint says."""
    place, expected = fixture
    # Below a floor there is nothing to replay: what is needed there are the checkpoints that cleanup left.
    patterns = ["_quire/hint-*"] if "floor" in expected else ["_quire/hint-*", "_quire/log/*/checkpoint-*"]
    for path in [path for pattern in patterns for path in place.glob(pattern)]:
        path.unlink()
    with quire.open(place, read_only=True) as lake:
        assert make.state(lake.snapshot()) == expected["tables"]
        assert lake.head == expected["head"]


def test_it_goes_on(fixture: tuple[Path, dict[str, Any]]) -> None:
    """Commits, branches, tags, tokens and a revert on top of what an older Quire wrote."""
    place, expected = fixture
    with quire.open(place, author="cy") as lake:
        people = lake["people"].count()
        with lake.transaction("new") as tx:
            tx["people"].upsert([{"id": 9, "name": "changed", "age": 1}, {"id": 5000, "name": "added", "age": 2}])
            tx["events"].append([{"id": 7000, "score": 0.5, "kind": "new"}])
        assert tx.receipt is not None
        assert lake["people"].count() == people + 1
        receipt = lake.revert(str(tx.receipt.commit))
        assert lake["people"].count() == people
        lake.tag("new", at=str(receipt.commit))
        assert make.state(lake.at(commit=expected["head"])) == expected["tables"]
        trial = lake.branch("trial/one")
        with trial.transaction("goes on") as tx:
            tx["only-here"].append([{"id": 3}])
        lake.create_branch("fresh", at="first")
        assert make.state(lake.at(tag="first")) == expected["tags"]["first"]["tables"]
        lake.backfill()
    with quire.open(place, read_only=True) as lake:
        assert lake.verify().findings == []
        assert [c.message for c in lake.log(limit=2)][1] == "new"
        assert make.state(lake.branch("fresh").snapshot()) == expected["tags"]["first"]["tables"]


def test_its_tokens_still_count(fixture: tuple[Path, dict[str, Any]]) -> None:
    place, expected = fixture
    scope, sequence = expected["stream"]
    with quire.open(place) as lake:
        for token in (expected["token"], quire.StreamToken(scope, sequence), quire.StreamToken("elsewhere", 1)):
            with lake.transaction("again", token=token) as tx:
                tx["events"].append([{"id": 1, "score": 0.0, "kind": "twice"}])
            assert tx.receipt is not None
            assert tx.receipt.repeated
        assert lake.head == expected["head"]


def test_what_was_gone_is_gone(fixture: tuple[Path, dict[str, Any]]) -> None:
    place, expected = fixture
    with quire.open(place, read_only=True) as lake:
        assert lake.status()["floor"] == expected.get("floor", 0)
        for commit in expected.get("expired", []):
            with pytest.raises(quire.errors.SnapshotExpired):
                lake.at(commit=commit)


def test_a_quire_that_is_too_old_refuses_it(fixture: tuple[Path, dict[str, Any]]) -> None:
    """Once a newer Quire has written to the lake, one that cannot read its records says so and writes nothing."""
    place, _ = fixture
    with quire.open(place) as lake, lake.transaction("the last that can be read") as tx:
        tx["events"].append([{"id": 1, "score": 0.0, "kind": "x"}])
    assert tx.receipt is not None
    head, log = int(str(tx.receipt.commit).partition(".")[0]), json.loads((place / "_quire/format.json").read_text())
    newest = place / "_quire" / "log" / log["main"] / f"{head:020d}"
    record = json.loads(newest.read_text())
    following = {**record, "format": NEWEST + 1, "slot": head + 1, "previous": record["write"], "write": "f" * 16}
    newest.with_name(f"{head + 1:020d}").write_text(json.dumps(following))

    for read_only in (True, False):
        with pytest.raises(quire.errors.NewerFormat) as caught:
            quire.open(place, read_only=read_only)
        assert caught.value.next
        assert caught.value.found == NEWEST + 1
    findings = {f.check for f in _sound_handle(place, newest).verify().findings}
    assert "record" in findings


def _sound_handle(place: Path, newest: Path) -> quire.Lake:
    """A handle that was opened before the record of the future came."""
    future = newest.with_name(f"{int(newest.name) + 1:020d}")
    body = future.read_bytes()
    future.unlink()
    lake = quire.open(place, read_only=True)
    future.write_bytes(body)
    return lake
