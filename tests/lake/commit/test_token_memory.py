"""Lakes with more tokens than a checkpoint holds: each still commits its work once, in every program and branch."""

from __future__ import annotations

from pathlib import Path

import pytest

import quire
from quire.errors import NewerFormat
from quire.ledger import records


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint holds few tokens here, so that no test needs thousands of commits."""
    for name, value in {"MAX_TOKENS": 12, "KEPT_TOKENS": 6, "MAX_STREAMS": 10, "KEPT_STREAMS": 5}.items():
        monkeypatch.setattr(f"quire.ledger.state.{name}", value)
    monkeypatch.setattr("quire.ledger.token_pages.MERGE_AT", 3)


def run(lake: quire.Lake, token: str | quire.StreamToken) -> bool:
    """One job; whether it did its work now."""
    with lake.transaction("job", token=token) as tx:
        tx["t"].append([{"id": 1}])
    assert tx.receipt is not None
    return not tx.receipt.repeated


def filled(uri: Path) -> tuple[quire.Lake, list[str | quire.StreamToken]]:
    lake = quire.create(uri, backfill=False)
    lake.create_table("t", [{"id": 0}])
    given: list[str | quire.StreamToken] = []
    for n in range(40):
        given += [quire.token(), quire.StreamToken(f"scope {n}", 7)]
    assert all(run(lake, token) for token in given)
    lake.flush()
    return lake, given


def test_every_token_is_known_again_here_and_in_another_program(tmp_path: Path) -> None:
    lake, given = filled(tmp_path / "lake")
    other = quire.open(lake.uri, backfill=False)
    assert other._live.state.token_pages
    assert other._live.state.stream_pages
    for reader in (lake, other):
        assert not any(run(reader, token) for token in given)
    assert run(other, quire.StreamToken("scope 0", 8))
    assert not run(lake, quire.StreamToken("scope 0", 8))
    assert run(other, quire.token())
    assert lake["t"].count() == 1 + 82
    assert lake.verify().ok


def test_a_fast_forward_brings_the_pages_along(tmp_path: Path) -> None:
    lake = quire.create(tmp_path / "lake", backfill=False)
    lake.create_table("t", [{"id": 0}])
    exp = lake.create_branch("exp")
    given: list[str | quire.StreamToken] = []
    for n in range(20):
        given += [quire.token(), quire.StreamToken(f"scope {n}", 7)]
    assert all(run(exp, token) for token in given)
    lake.fast_forward("exp")
    for reader in (lake, quire.open(lake.uri, backfill=False)):
        assert not any(run(reader, token) for token in given)
    lake.delete_branch("exp")
    assert not any(run(quire.open(lake.uri, backfill=False), token) for token in given)


def test_status_says_how_many_are_remembered(tmp_path: Path) -> None:
    lake, given = filled(tmp_path / "lake")
    told = lake.status()["tokens"]
    assert (told["opaque"], told["since"]) == (len(given) // 2, None)
    assert told["streams"] >= len(given) // 2
    assert told["most_streams"] == 256_000


def test_a_reader_of_before_is_told_to_upgrade(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake, _ = filled(tmp_path / "lake")
    monkeypatch.setattr(records, "NEWEST", records.FORMAT)
    with pytest.raises(NewerFormat, match="Upgrade"):
        quire.open(lake.uri)
