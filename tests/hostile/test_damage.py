"""Bytes that were cut, flipped, swapped or lost: the right answer or a typed error, and verify finds it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.budget import FULL, SEED
from tests.hostile.conftest import EVERY, FUZZ, quick
from tests.hostile.specimen import Specimen
from tests.laboratory.hostile import Change, attempt, damage, flip

import quire
from quire.errors import FormatError
from quire.lake.upkeep.cleanup.bury import Buried
from quire.lake.upkeep.recovery import Recovered
from quire.ledger import FormatFile, Record, Ref, State, decode
from quire.ledger.log import SideObject
from quire.ledger.notes_and_leases import Lease, Note
from quire.store import Store

THOROUGH = ("empty", "first half", "half zero")
"""What is tried with every operation, one of them a day in the default tier; the rest is tried on the reader of the
object, and by `make fuzz`."""

READERS: dict[str, Any] = {
    "format": FormatFile,
    "side": SideObject,
    "checkpoint": State,
    "branch": Ref,
    "gone branch": Ref,
    "tag": Ref,
    "note": Note,
    "lease": Lease,
    "recovery": Recovered,
    "tagged checkpoint": State,
    "floor checkpoint": State,
    "buried": Buried,
}

Objects = dict[str, tuple[Specimen, str]]


@pytest.mark.parametrize("kind", [kind for kind in EVERY if "hint" not in kind])
def test_damaged_bytes_are_never_taken_for_an_object(objects: Objects, kind: str) -> None:
    specimen, key = objects[kind]
    body = specimen.read(key)
    reader = READERS.get(kind, Record)
    sound = decode(body, reader, kind)
    for change in damage(body, flips=200, seed=len(body)):
        told = attempt(lambda change=change: decode(change.body, reader, kind))  # type: ignore[misc]
        assert told.problem is None, change.name
        assert isinstance(told.error, FormatError) or told.answer == sound, change.name


@pytest.mark.parametrize("kind", EVERY)
def test_no_operation_goes_wrong_on_damage(objects: Objects, kind: str) -> None:
    specimen, key = objects[kind]
    found = {}
    thorough = THOROUGH if FULL else (random.Random(f"{SEED} {kind}").choice(THOROUGH),)
    for change in damage(specimen.read(key), flips=100 if FUZZ else 1):
        if FUZZ or change.name in thorough or change.name.startswith("bit "):
            found[change.name] = specimen.trial({key: change.body}, right=True)
    assert {name: problems for name, problems in found.items() if problems} == {}


@quick
@given(kind=st.sampled_from(EVERY), seed=st.integers(0, 2**32), data=st.data())
def test_no_operation_goes_wrong_on_random_damage(objects: Objects, kind: str, seed: int, data: st.DataObject) -> None:
    specimen, key = objects[kind]
    change = _any_damage(specimen.read(key), random.Random(seed), data.draw(st.sampled_from(list(DAMAGE)), "damage"))
    assert specimen.trial({key: change.body}, right=True) == [], (kind, change.name)


def _several_bits(body: bytes, chooser: random.Random) -> bytes:
    for _ in range(chooser.randrange(2, 20)):
        body = flip(body, chooser).body
    return body


def _without_a_part(body: bytes, chooser: random.Random) -> bytes:
    start = chooser.randrange(len(body))
    return body[:start] + body[start + chooser.randrange(1, 64) :]


def _with_a_part_twice(body: bytes, chooser: random.Random) -> bytes:
    start = chooser.randrange(len(body))
    end = start + chooser.randrange(1, 64)
    return body[:end] + body[start:]


def _noise(body: bytes, chooser: random.Random) -> bytes:
    start = chooser.randrange(len(body))
    noise = chooser.randbytes(chooser.randrange(1, 32))
    return body[:start] + noise + body[start + len(noise) :]


DAMAGE: dict[str, Any] = {
    "cut": lambda body, chooser: body[: chooser.randrange(len(body))],
    "one bit": lambda body, chooser: flip(body, chooser).body,
    "several bits": _several_bits,
    "a part lost": _without_a_part,
    "a part twice": _with_a_part_twice,
    "noise": _noise,
}


def _any_damage(body: bytes, chooser: random.Random, how: str) -> Change:
    return Change(how, DAMAGE[how](body, chooser))


SWAPS = {
    "a slot holds its predecessor": ("head slot", "slot before"),
    "a slot holds its successor": ("old slot", "second slot"),
    "a slot holds the first one": ("head slot", "genesis"),
    "a slot holds one of another branch": ("head slot", "branch slot"),
    "a branch's slot holds one of main": ("branch slot", "old slot"),
    "a slot holds a checkpoint": ("old slot", "checkpoint"),
    "a checkpoint holds a slot": ("checkpoint", "old slot"),
    "a branch holds a tag": ("branch", "tag"),
    "a tag holds a branch": ("tag", "branch"),
    "a branch holds another one": ("branch", "gone branch"),
    "the format holds a hint": ("format", "hint"),
    "the hint holds the format": ("hint", "format"),
    "a side object holds a slot": ("side", "old slot"),
}


@pytest.mark.parametrize("name", SWAPS)
def test_an_object_in_the_place_of_another_is_noticed(specimen: Specimen, name: str) -> None:
    to, of = SWAPS[name]
    objects = specimen.objects()
    objects["slot before"] = objects["head slot"].replace(f"{specimen.head:020d}", f"{specimen.head - 1:020d}")
    objects["second slot"] = objects["old slot"].replace(f"{1:020d}", f"{2:020d}")
    assert specimen.trial({objects[to]: specimen.read(objects[of])}, right=True) == []


NEEDED = (
    "format",
    "genesis",
    "old slot",
    "side slot",
    "claim",
    "side",
    "tombstone",
    "first kept slot",
    "floor checkpoint",
)
SPARE = ("hint", "branch hint", "checkpoint", "gone branch", "note", "lease", "recovery", "buried")


@pytest.mark.parametrize("kind", [*NEEDED, *SPARE])
def test_an_object_that_is_gone_is_noticed_or_not_missed(objects: Objects, kind: str) -> None:
    """The newest slot, tag or branch is left out here: without it the lake is an older one, and a sound one."""
    specimen, key = objects[kind]
    assert specimen.trial({key: None}, right=True) == []


@pytest.mark.parametrize("kind", ["genesis", "old slot", "side slot", "claim", "head slot", "branch slot", "side"])
def test_verify_names_what_is_damaged(specimen: Specimen, kind: str) -> None:
    key = specimen.objects()[kind]
    findings = specimen.verified({key: specimen.read(key)[:-9]})
    assert findings
    assert any(key.rpartition("/")[2].lstrip("0") in f"{f.where} {f.message}" for f in findings), findings


@pytest.mark.parametrize(("kind", "check"), [("checkpoint", "checkpoint"), ("branch", "refs"), ("tag", "refs")])
def test_verify_finds_what_is_not_read_every_day(specimen: Specimen, kind: str, check: str) -> None:
    key = specimen.objects()[kind]
    assert check in {f.check for f in specimen.verified({key: specimen.read(key)[:-9]})}


def test_verify_goes_on_after_a_damaged_ref(specimen: Specimen) -> None:
    """One ref that cannot be read does not hide what is wrong with the logs of other branches."""
    objects = specimen.objects()
    broken = {objects[kind]: b"{" for kind in ("tag", "gone branch", "branch slot")}
    checks = {f.check for f in specimen.verified(broken)}
    assert {"refs", "record"} <= checks


def test_a_lake_in_memory_is_no_different(tmp_path: Path) -> None:
    """Every object of it, cut and flipped: the same answers or typed errors, through the other kind of store."""
    uri = f"memory://{tmp_path.name}"
    with quire.create(uri) as made:
        made.create_table("people", [{"id": n} for n in range(5)], key="id")
        made.tag("v1")
        with made.create_branch("trial").transaction("more") as tx:
            tx["people"].append([{"id": 9}])

    def everything() -> Any:
        lake = quire.open(uri, read_only=True)
        people = [lake.at(tag="v1")["people"].to_pylist(), lake.branch("trial")["people"].to_pylist()]
        return people, lake.tags(), [c.to_dict() for c in lake.log()], [b.to_dict() for b in lake.branches()]

    sound, store = everything(), Store.open(uri)
    for key in [entry.key for entry in store.list("_quire")]:
        body = store.get(key)
        for change in damage(body, flips=6):
            store.put(key, change.body)
            told = attempt(everything)
            assert told.problem is None, (key, change.name)
            assert told.error or told.answer == sound, (key, change.name)
        store.put(key, body)
    assert everything() == sound
