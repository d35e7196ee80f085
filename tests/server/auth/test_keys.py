"""API keys: shown once, kept as a digest, gone when they are revoked, and never half written."""

from __future__ import annotations

import stat
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from quire.errors import InvalidInput, NotFound, Unauthenticated
from quire.server.auth.keys import LOOK, KeyFile, Keys


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys.json"


def test_a_key_stands_for_its_actor(path: Path) -> None:
    _, text = KeyFile(path).create("ada", ["write"], lakes=["demo"])
    actor = Keys(path).actor(text)
    assert (actor.name, actor.may("read"), actor.may("write"), actor.may("admin")) == ("ada", True, True, False)
    assert (actor.sees("demo"), actor.sees("other")) == (True, False)


def test_the_file_holds_no_key_and_is_the_owners_alone(path: Path) -> None:
    _, text = KeyFile(path).create("ada", ["read"])
    assert text.rpartition("_")[2] not in path.read_text()
    assert text[16:] not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_revoked_key_lets_nobody_in_within_a_second(path: Path) -> None:
    key, text = KeyFile(path).create("ada", ["read"])
    keys = Keys(path)
    assert keys.actor(text).name == "ada"
    assert KeyFile(path).revoke(key.id).revoked is not None
    time.sleep(LOOK + 0.1)
    with pytest.raises(Unauthenticated):
        keys.actor(text)
    again = KeyFile(path).revoke(key.id)
    assert again.state(datetime.now(UTC)) == "revoked"


def test_an_expired_key_lets_nobody_in(path: Path) -> None:
    key, text = KeyFile(path).create("ada", ["read"], days=1)
    old = msgspec.structs.replace(key, expires=datetime.now(UTC) - timedelta(seconds=1))
    path.write_bytes(msgspec.json.encode([old]))
    with pytest.raises(Unauthenticated):
        Keys(path).actor(text)


@pytest.mark.parametrize("change", ["another secret", "another id", "cut", "longer", "empty", "no key at all"])
def test_what_is_nearly_a_key_is_told_nothing(path: Path, change: str) -> None:
    _, text = KeyFile(path).create("ada", ["read"])
    _, other = KeyFile(path).create("bob", ["read"])
    wrong = {
        "another secret": text[:16] + other[16:],
        "another id": other[:16] + text[16:],
        "cut": text[:-1],
        "longer": text + "A",
        "empty": "",
        "no key at all": "qk_ö",
    }[change]
    with pytest.raises(Unauthenticated) as caught:
        Keys(path).actor(wrong)
    assert str(caught.value).startswith("The token is not valid.")


@pytest.mark.parametrize("damage", ["gone", "garbage", "a folder"])
def test_a_file_that_cannot_be_read_lets_nobody_in(path: Path, damage: str) -> None:
    _, text = KeyFile(path).create("ada", ["read"])
    keys = Keys(path)
    path.unlink()
    if damage == "garbage":
        path.write_text("[{]")
    elif damage == "a folder":
        path.mkdir()
    time.sleep(LOOK + 0.1)
    with pytest.raises(Unauthenticated):
        keys.actor(text)


def test_keys_that_are_created_at_once_are_all_there(path: Path) -> None:
    threads = [threading.Thread(target=lambda n=n: KeyFile(path).create(f"a{n}", ["read"])) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(key.actor for key in KeyFile(path).read()) == sorted(f"a{n}" for n in range(12))
    assert not list(path.parent.glob("*.tmp"))


def test_what_is_no_key_is_not_created(path: Path) -> None:
    file = KeyFile(path)
    for actor, roles, days in (("", ["read"], None), ("a\nb", ["read"], None), ("a", [], None), ("a", ["root"], None)):
        with pytest.raises(InvalidInput):
            file.create(actor, roles, days=days)
    for wrong in (0.0, -1.0, float("nan"), 1e9):
        with pytest.raises(InvalidInput):
            file.create("a", ["read"], days=wrong)
    with pytest.raises(NotFound):
        file.revoke("0" * 12)
    assert file.read() == []
