"""Lakes that somebody made to do harm: sound JSON and odd files, with hostile meaning.

`refuse` names operations that must raise a typed error. Where it is empty the case must do no harm at all: every
operation gives the answer of the sound lake. Where it is None any answer will do that is given in order.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.hostile.specimen import Specimen, put
from tests.laboratory.hostile import OUTSIDE, attempt, forge, watched

import quire

Objects = dict[str, bytes | None]


@dataclass(frozen=True)
class Case:
    kind: str
    changes: dict[str, Any]
    refuse: tuple[str, ...] | None
    found: bool = True
    """Whether verify must find it."""
    only: tuple[str, ...] | None = None
    """What is tried, where Lance takes seconds to give up."""


EVENTS, LATE = "commits.0.changes.0", "commits.0.changes.1"
CLIMB = f"../{OUTSIDE}/secret.lance"
READS = ("open",)

CASES: dict[str, Case] = {
    # Names that become paths.
    "a pin climbs out": Case("head slot", {f"{EVENTS}.pin.location": CLIMB}, ("read",)),
    "a pin climbs far out": Case("head slot", {f"{EVENTS}.pin.location": "../" * 12 + "etc"}, ("read",)),
    "a pin climbs from inside": Case("head slot", {f"{EVENTS}.pin.location": f"tables/../../{OUTSIDE}"}, ("read",)),
    "a pin is the lake itself": Case("head slot", {f"{EVENTS}.pin.location": "_quire"}, ("read",)),
    "a pin is nowhere": Case("head slot", {f"{EVENTS}.pin.location": ""}, ("read",)),
    "a pin is a system file": Case(
        "head slot", {f"{EVENTS}.pin.location": "/proc/self/environ"}, ("read",), only=("read",)
    ),
    "a pin has a file scheme": Case("head slot", {f"{EVENTS}.pin.location": "file:///proc/self"}, ("read",)),
    "a pin has an unknown scheme": Case("head slot", {f"{EVENTS}.pin.location": "gopher://evil/x"}, ("read",)),
    "a pin has a zero byte": Case("head slot", {f"{EVENTS}.pin.location": "tables/\0x"}, ("read",)),
    "a pin has a long name": Case(
        "head slot", {f"{EVENTS}.pin.location": "tables/" + "x" * 5000}, ("read",), only=("read",)
    ),
    "the main log climbs out": Case("format", {"main": f"../../{OUTSIDE}"}, READS, found=False),
    "the main log is absolute": Case("format", {"main": "/etc"}, READS, found=False),
    "the main log has no name": Case("format", {"main": ""}, READS, found=False),
    "a branch's log climbs out": Case("branch", {"line.branch": f"../../{OUTSIDE}"}, ("branch", "branch log")),
    "a branch's log is main's": Case("branch", {"line.branch": "@main"}, ("branch",)),
    "a branch inherits from outside": Case("branch", {"line.inherited.0.branch": "../.."}, ("branch",)),
    "a branch's checkpoint climbs out": Case("branch", {"checkpoint": {"branch": "../..", "slot": 1}}, ()),
    "a tag climbs out": Case("tag", {"target.branch": f"../../{OUTSIDE}"}, ("at tag",)),
    "a tag's line climbs out": Case("tag", {"line.branch": f"../../{OUTSIDE}"}, ("at tag", "diff")),
    "a hint climbs out": Case("hint", {"branch": f"../../{OUTSIDE}"}, (), found=False),
    "a hint's checkpoint climbs out": Case(
        "hint", {"checkpoint": {"branch": f"../../{OUTSIDE}", "slot": 3}}, (), found=False
    ),
    "a side object climbs out": Case("side slot", {"side": f"side-../../../{OUTSIDE}/file"}, ("log",)),
    "a side object by a climbing write id": Case("side slot", {"side": "side-../../x", "write": "../../x"}, ("log",)),
    "a slot's checkpoint climbs out": Case(
        "head slot", {"checkpoint": {"branch": "../..", "slot": 32}}, (), found=False
    ),
    "a ref with a name that climbs": Case("branch", {"name": f"../../{OUTSIDE}"}, ("branch",)),
    # Numbers.
    "a pin's version is no number": Case("head slot", {f"{EVENTS}.pin.version": "abc"}, ("read",)),
    "a pin's version is negative": Case("head slot", {f"{EVENTS}.pin.version": "-1"}, ("read",)),
    "a pin's version is huge": Case("head slot", {f"{EVENTS}.pin.version": str(2**64)}, ("read",)),
    "a pin's version is endless": Case("head slot", {f"{EVENTS}.pin.version": "9" * 10_000}, ("read",)),
    "a counter does not fit": Case("head slot", {f"{EVENTS}.pin.counter": 2**64}, READS),
    "a counter is negative": Case("head slot", {f"{EVENTS}.pin.counter": -5}, READS),
    "a row count is negative": Case("head slot", {f"{EVENTS}.pin.rows": -1}, READS),
    "a row count does not fit": Case("head slot", {f"{EVENTS}.pin.rows": 10**30}, READS),
    "an epoch does not fit": Case("claim", {"epoch": 2**64}, ("log",)),
    "an epoch is negative": Case("claim", {"epoch": -1}, ("log",)),
    "a slot is negative": Case("head slot", {"slot": -1}, READS),
    "a slot is huge": Case("head slot", {"slot": 10**30}, READS),
    "a format is negative": Case("head slot", {"format": -1}, READS),
    "a tag's index is negative": Case("tag", {"target.index": -1}, ("at tag",)),
    "a tag's index is huge": Case("tag", {"target.index": 2**62}, ("at tag",)),
    "a branch starts at a negative index": Case("branch", {"line.inherited.0.index": -1}, ("branch",)),
    "a branch starts at a huge slot": Case("branch", {"line.inherited.0.slot": 10**18}, ("branch",)),
    "a branch starts far beyond": Case("branch", {"line.inherited.0.slot": 5_000_000}, ("branch",)),
    "a stream's position does not fit": Case(
        "head slot", {"commits.0.stream": {"scope": "s", "sequence": 2**70}}, READS
    ),
    "a hint is far ahead": Case("hint", {"head": 10**18}, (), found=False),
    "a hint is far ahead with a checkpoint": Case(
        "hint", {"head": 10**18, "checkpoint": {"branch": "@main", "slot": 10**18 - 3}}, (), found=False
    ),
    "a hint says all is backfilled": Case("hint", {"backfilled": 2**64}, (), found=False),
    # Times.
    "the end of time": Case("head slot", {"time": "9999-12-31T23:59:59.999999Z"}, READS),
    "beyond the end of time": Case("head slot", {"time": "9999-12-31T23:59:59-23:59"}, READS),
    "the beginning of time": Case("head slot", {"time": "0001-01-01T00:00:00Z"}, READS),
    "before the beginning of time": Case("head slot", {"time": "0001-01-01T00:00:00+23:59"}, READS),
    "a time without a zone": Case("head slot", {"time": "2026-01-01T00:00:00"}, READS),
    # Structure.
    "an unknown kind of record": Case("head slot", {"kind": "merge"}, READS),
    "an unknown operation": Case("head slot", {f"{EVENTS}.ops": ["explode"]}, READS),
    "an unknown kind of ref": Case("tag", {"kind": "bookmark"}, ("at tag", "tags")),
    "an unknown ledger": Case("format", {"ledger": "paper"}, READS, found=False),
    "an unknown table format": Case("head slot", {f"{EVENTS}.pin.format": "papyrus"}, ("read",)),
    "a newer format": Case("head slot", {"format": 99}, READS),
    "a record says it is buried": Case("old slot", {"kind": "tombstone"}, ("at commit",)),
    "the newest record says it is buried": Case("head slot", {"kind": "tombstone"}, READS),
    "a second beginning": Case("head slot", {"kind": "genesis"}, READS),
    "a beginning that is none": Case("genesis", {"kind": "commits"}, ("at commit",)),
    "a floor above the head": Case(
        "head slot", {"kind": "floor", "floor": {"slot": 10**17, "horizon": "2026-01-01T00:00:00Z"}}, READS
    ),
    "a floor without one": Case("head slot", {"kind": "floor"}, READS),
    "a floor with a time of horror": Case(
        "head slot", {"kind": "floor", "floor": {"slot": 1, "horizon": "0001-01-01T00:00:00+23:59"}}, None
    ),
    "a checkpoint names itself": Case(
        "head slot", {"checkpoint": {"branch": "@main", "slot": "@head"}}, (), found=False
    ),
    "a checkpoint of the future": Case(
        "head slot", {"checkpoint": {"branch": "@main", "slot": 10**17}}, (), found=False
    ),
    "a predecessor that is not": Case("head slot", {"previous": "0" * 16}, READS),
    "a change of a table that is not": Case("head slot", {f"{EVENTS}.table": "nowhere", f"{EVENTS}.pin": None}, READS),
    "a table with another one's name": Case("head slot", {f"{LATE}.info.name": "people"}, READS),
    "a table with no name": Case("head slot", {f"{LATE}.info.name": ""}, None),
    "a table under another id": Case("head slot", {f"{LATE}.info.id": "x" * 16}, READS),
    "a key of columns that are not": Case("head slot", {f"{LATE}.info.key": ["no", "such"]}, ()),
    "a checkpoint with a table under another id": Case("checkpoint", {"tables.@people.info.id": "x" * 16}, READS),
    "a checkpoint of another place": Case("checkpoint", {"slot": 7}, READS),
    "a checkpoint at the end of time": Case("checkpoint", {"time": "9999-12-31T23:59:59.999999Z"}, None),
    "a branch without a line": Case("branch", {"line": None}, ("branch",)),
    "a branch that inherits nothing": Case("branch", {"line.inherited": []}, ("branch",)),
    "a branch that inherits from itself": Case("branch", {"line.inherited.0.branch": "@branch"}, ("branch",)),
    "a branch that inherits a thousand times": Case(
        "branch", {"line.inherited": [{"branch": "@main", "slot": 2, "index": 0}] * 1000}, ()
    ),
    "a branch that inherits backwards": Case(
        "branch",
        {"line.inherited": [{"branch": "@main", "slot": 2, "index": 0}, {"branch": "@main", "slot": 1, "index": 0}]},
        ("branch",),
    ),
    "a tag without a target": Case("tag", {"target": None}, ("at tag",)),
}


def resolved(specimen: Specimen, value: Any) -> Any:
    """Put the lake's own ids where a case only names them."""
    ids = {"@main": specimen.main, "@head": specimen.head, "@branch": specimen.branch_id}
    if isinstance(value, dict):
        return {name: resolved(specimen, inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [resolved(specimen, inner) for inner in value]
    return ids.get(value, value) if isinstance(value, str) else value


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", CASES)
def test_a_forged_object_does_no_harm(specimen: Specimen, name: str) -> None:
    case = CASES[name]
    key = specimen.objects()[case.kind]
    changes = {w.replace("@people", specimen.people): resolved(specimen, v) for w, v in case.changes.items()}
    objects: Objects = {key: forge(specimen.read(key), changes)}
    told: dict[str, Any] = {}
    only = set(case.only) if case.only else None
    also = ("write: commit", *(case.refuse or ()))
    problems = specimen.trial(objects, right=case.refuse == (), only=only, also=also, told=told)
    problems += [f"{operation} is not refused" for operation in case.refuse or () if told[operation].error is None]
    if case.found and case.refuse and told["verify"].error is None and told["verify"].answer == []:
        problems.append("verify finds nothing wrong")
    assert problems == []


# -- files that do not belong -----------------------------------------------------------------------------------------

STRAYS: dict[str, Callable[[Specimen], Objects]] = {
    "a word in a log": lambda s: {f"_quire/log/{s.main}/notes.txt": b"hello"},
    "a digit that is none in a log": lambda s: {f"_quire/log/{s.main}/²": b"x"},
    "a digit of another script in a log": lambda s: {f"_quire/log/{s.main}/٣": b"x"},
    "a checkpoint with a word": lambda s: {f"_quire/log/{s.main}/checkpoint-x": b"x"},
    "a checkpoint with a digit that is none": lambda s: {f"_quire/log/{s.main}/checkpoint-²": b"x"},
    "an empty folder's log": lambda s: {"_quire/log/ffffffffffffffff/x": b"x"},
    "a side object of nobody": lambda s: {f"_quire/log/{s.main}/side-x": b"x"},
    "a seat of garbage": lambda s: {f"_quire/log/{s.main}/waiting": b"\xff\0"},
    "a seat without a zone": lambda s: {f"_quire/log/{s.main}/waiting": b'{"write":"x","time":"2026-01-01T00:00:00"}'},
    "a seat at the end of time": lambda s: {
        f"_quire/log/{s.main}/waiting": b'{"write":"x","time":"9999-12-31T23:59:59Z"}'
    },
    "a seat of deep nesting": lambda s: {
        f"_quire/log/{s.main}/waiting": b'{"write":"x","y":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    },
    "a seat that is not utf-8": lambda s: {f"_quire/log/{s.main}/waiting": b'{"write":"\xff\xfe","time":"\xff"}'},
    "a file where refs have a folder": lambda s: {"_quire/refs/branch.file": b"x"},
    "a file beside refs": lambda s: {"_quire/refs/notes": b"x"},
    "a hint of garbage for a branch that is not": lambda s: {"_quire/hint-nobody.json": b"\0"},
    "a note of garbage": lambda s: {"_quire/writers/x": b"\xff", "_quire/writers/y": b"", "_quire/writers/z": b"[]"},
    "a lease of garbage": lambda s: {"_quire/leases/x": b"\xff", "_quire/leases/y": b"", "_quire/leases/z": b"[]"},
    "a recovery log of garbage": lambda s: {"_quire/recovery/x": b"\xff", "_quire/recovery/y": b""},
    "a folder of nobody": lambda s: {"_quire/zebra/x": b"x", "zebra/y": b"y"},
}


@pytest.mark.parametrize("name", STRAYS)
def test_a_stray_file_does_no_harm(specimen: Specimen, name: str) -> None:
    also = {"write: race", "write: commit"} if "seat" in name else ()
    assert specimen.trial(STRAYS[name](specimen), right=True, also=also) == []


MISLED: dict[str, Callable[[Specimen], Objects]] = {
    "a slot far ahead": lambda s: {f"_quire/log/{s.main}/{s.head + 1000:020d}": s.read(s.objects()["head slot"])},
    "a checkpoint far ahead": lambda s: {
        f"_quire/log/{s.main}/checkpoint-{s.head + 1000:020d}": s.read(s.objects()["checkpoint"])
    },
    "a generation far ahead": lambda s: {"_quire/refs/branch.trial/0000009999": s.read(s.objects()["branch"])},
    "a generation that is no number": lambda s: {"_quire/refs/branch.trial/zzz": b"x"},
    "a ref whose name cannot be": lambda s: {"_quire/refs/branch.%FF%2e%2e/0000000000": s.read(s.objects()["branch"])},
    "a ref in a folder too deep": lambda s: {"_quire/refs/tag.v1/x/0000000000": b"x"},
    "a ref of garbage": lambda s: {"_quire/refs/tag.new-one/0000000000": b"\0\0"},
    "a consumer of garbage": lambda s: {f"_quire/consumers/c/{0:020d}": b"\xff"},
    "a consumer that is no number": lambda s: {"_quire/consumers/c/zzz": b"{}", "_quire/consumers/notes": b"x"},
    "a request of garbage": lambda s: {"_quire/requests/0000000001/0000000000": b"\xff", "_quire/requests/x": b""},
}


@pytest.mark.parametrize("name", MISLED)
def test_a_file_in_a_place_that_counts_is_noticed_or_not_needed(specimen: Specimen, name: str) -> None:
    """These mislead whoever believes a listing; the answers stay right or a typed error says what is in the way."""
    assert specimen.trial(MISLED[name](specimen), right=True) == []


# -- sizes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["format", "hint", "head slot", "side", "checkpoint", "branch", "tag", "seat"])
def test_an_object_of_absurd_size_is_not_read_whole(specimen: Specimen, kind: str) -> None:
    """Six gigabytes of nothing, which take no space on disk, where a few kilobytes are due."""
    key = specimen.objects().get(kind, f"_quire/log/{specimen.main}/waiting")
    problems: list[str] = []
    for name in ("snapshot", "log", "at tag", "branch", "branches", "write: race"):
        with specimen.copied() as place:
            put(place, key, b"")
            os.truncate(place / key, 6 << 30)
            told = specimen.run(place, name)
            if told.problem:
                problems.append(f"{name}: {told.problem}")
    assert problems == []


@pytest.mark.parametrize("count", [10_000])
def test_a_record_of_ten_thousand_changes_is_read(specimen: Specimen, count: int) -> None:
    key = specimen.objects()["head slot"]
    record = json.loads(specimen.read(key))
    change = record["commits"][0]["changes"][0]
    many = forge(specimen.read(key), {"commits.0.changes": [change] * count})
    assert specimen.trial({key: many}, right=False, only={"snapshot", "log", "write: commit"}) == []


def test_an_object_that_is_a_folder_is_noticed(specimen: Specimen) -> None:
    problems = []
    for kind, key in specimen.objects().items():
        with specimen.copied() as place:
            (place / key).unlink()
            (place / key).mkdir()
            for name in ("snapshot", "log", "branches"):
                told = specimen.run(place, name)
                if told.problem:
                    problems.append(f"{kind}, {name}: {told.problem}")
    assert problems == []


# -- table files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pattern", ["*/_versions/d*.manifest", "*/data/*.lance", "*/_deletions/*", "*/_transactions/*"]
)
@pytest.mark.parametrize("how", ["empty", "cut", "zero", "noise"])
def test_a_table_file_that_is_damaged_gives_a_typed_error(specimen: Specimen, pattern: str, how: str) -> None:
    paths = sorted((specimen.sound / "tables").glob(pattern))
    assert paths
    spoiled: dict[str, Callable[[bytes], bytes]] = {
        "empty": lambda body: b"",
        "cut": lambda body: body[: len(body) // 2],
        "zero": lambda body: bytes(len(body)),
        "noise": lambda body: body[:8] + bytes(b ^ 0x5A for b in body[8:]),
    }
    changes: Objects = {p.relative_to(specimen.sound).as_posix(): spoiled[how](p.read_bytes()) for p in paths}
    assert specimen.trial(changes, right=False, only={"read", "diff", "sql", "at tag", "write: commit"}) == []


# -- the network ------------------------------------------------------------------------------------------------------


def test_a_pin_that_lies_on_an_evil_server_does_not_hang(specimen: Specimen) -> None:
    key = specimen.objects()["head slot"]
    forged = forge(specimen.read(key), {f"{EVENTS}.pin.location": "s3://evil-bucket/table.lance"})
    options = {
        "aws_access_key_id": "x",
        "aws_secret_access_key": "x",
        "aws_endpoint": "http://127.0.0.1:9",
        "aws_region": "x",
        "allow_http": "true",
        "client_max_retries": "1",
        "client_retry_timeout": "1",
    }
    with specimen.copied({key: forged}) as place, watched(str(specimen.scratch), str(place)) as touched:
        lake = quire.open(place, read_only=True, storage_options=options)
        told = attempt(lambda: lake["events"].to_pylist(), seconds=120)
        assert (told.problem, told.answer) == (None, None)
        assert lake["people"].count() == 7
    assert not touched


def test_a_lake_on_a_path_that_is_a_link_is_still_the_same_lake(specimen: Specimen, tmp_path: Path) -> None:
    """Links are how an administrator moves a lake; they are not an escape."""
    with specimen.copied() as place:
        (tmp_path / "link").symlink_to(place)
        with quire.open(tmp_path / "link", read_only=True) as lake:
            assert lake["people"].count() == 7
