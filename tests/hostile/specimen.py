"""A sound lake to be maltreated, and the trial: what every public operation makes of it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from tests.hostile.operations import DEAR, operations, writes
from tests.laboratory.hostile import OUTSIDE, Told, attempt, watched

import quire
from quire.lake.upkeep.verify import Finding

SECRET = "nobody may read this"


@dataclass
class Specimen:
    """A sound lake, kept aside; every trial maltreats a copy of it."""

    sound: Path
    scratch: Path
    about: dict[str, Any]
    thorough: bool = False
    """Whether every trial tries every operation, however long it takes."""

    def __post_init__(self) -> None:
        self.count = 0
        self.answers: dict[str, Any] = {}
        outside = self.scratch / OUTSIDE
        outside.mkdir(parents=True)
        (outside / "file").write_text(SECRET)
        lance.write_dataset(pa.table({"id": [1], "name": [SECRET]}), str(outside / "secret.lance"))
        self.guarded = _listing(outside)
        self.reads, self.writes = operations(self.about), writes()
        with self.copied() as place:
            lake = quire.open(place, read_only=True)
            told = {name: attempt(lambda call=call: call(lake)) for name, call in self.reads.items()}  # type: ignore[misc]
        for name in self.writes:
            with self.copied() as place:
                told[name] = self.run(place, name)
        assert not self._judge(told, right=False)
        self.answers = {name: t.answer for name, t in told.items() if t.error is None}

    # -- its objects ----------------------------------------------------------------------------------------------

    def objects(self) -> dict[str, str]:
        """One key of every kind of object that the ledger stores, by what it is."""
        log = f"_quire/log/{self.main}"
        return {
            "format": "_quire/format.json",
            "hint": "_quire/hint-main.json",
            "branch hint": "_quire/hint-trial.json",
            "genesis": f"{log}/{0:020d}",
            "old slot": f"{log}/{1:020d}",
            "side slot": f"{log}/{3:020d}",
            "claim": f"{log}/{4:020d}",
            "head slot": f"{log}/{self.head:020d}",
            "side": self.find("_quire/log/*/side-*"),
            "checkpoint": self.find("_quire/log/*/checkpoint-*"),
            "branch": "_quire/refs/branch.trial/0000000000",
            "branch slot": f"_quire/log/{self.branch_id}/{4:020d}",
            "gone branch": "_quire/refs/branch.gone/0000000001",
            "tag": "_quire/refs/tag.v1/0000000000",
            "note": self.find("_quire/writers/*"),
            "lease": self.find("_quire/leases/*"),
            "recovery": self.find("_quire/recovery/*"),
        }

    def cleaned_objects(self) -> dict[str, str]:
        """The same of a lake that was cleaned up, as far as cleanup made them."""
        log = f"_quire/log/{self.main}"
        checkpoints = sorted(int(path.name[-20:]) for path in (self.sound / log).glob("checkpoint-*"))
        return {
            "tombstone": f"{log}/{1:020d}",
            "tagged slot": f"{log}/{2:020d}",
            "tagged checkpoint": f"{log}/checkpoint-{1:020d}",
            "first kept slot": f"{log}/{checkpoints[1] + 1:020d}",
            "floor checkpoint": f"{log}/checkpoint-{checkpoints[1]:020d}",
            "floor": f"{log}/{self.head:020d}",
            "buried": f"{log}/buried",
        }

    @property
    def main(self) -> str:
        return str(json.loads((self.sound / "_quire/format.json").read_bytes())["main"])

    @property
    def branch_id(self) -> str:
        """Id of the log of the branch `trial`."""
        return str(json.loads(self.read("_quire/refs/branch.trial/0000000000"))["line"]["branch"])

    @property
    def people(self) -> str:
        """Id of the table `people`."""
        return str(json.loads(self.read(f"_quire/log/{self.main}/{1:020d}"))["commits"][0]["changes"][0]["table"])

    @property
    def head(self) -> int:
        return max(int(path.name) for path in (self.sound / "_quire/log" / self.main).glob("0*"))

    def find(self, pattern: str) -> str:
        return sorted(self.sound.glob(pattern))[-1].relative_to(self.sound).as_posix()

    def read(self, key: str) -> bytes:
        return (self.sound / key).read_bytes()

    # -- trials ---------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def copied(self, changes: Mapping[str, bytes | None] | None = None) -> Iterator[Path]:
        """A copy of the lake with other objects in it (None: without it). Files are shared: nothing writes in place."""
        self.count += 1
        place = self.scratch / f"lake-{self.count}"
        shutil.copytree(self.sound, place, copy_function=os.link)
        try:
            for key, body in (changes or {}).items():
                put(place, key, body)
            yield place
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def trial(
        self,
        changes: Mapping[str, bytes | None],
        *,
        right: bool,
        only: set[str] | None = None,
        also: Iterable[str] = (),
        told: dict[str, Told] | None = None,
    ) -> list[str]:
        """What is wrong with how each operation takes a lake with these objects in it. `right`: answers may not change.

        Also tells when damage that made any reader stumble is not found by `verify`.
        """
        told = {} if told is None else told
        with self.copied() as place:
            warm = quire.open(place, read_only=True)
            for key, body in changes.items():
                put(place, key, body)
            with watched(str(self.scratch), str(place)) as touched:
                problems = self._reads(place, warm, self._chosen(self.reads, only, also), told, right=right)
                first, *others = [*self._chosen(self.writes, only, also), None]
                if first is not None:
                    told[first] = self.run(place, first)
            problems += [f"touched {path}" for path in sorted(touched)]
        for name in filter(None, others):
            with self.copied(changes) as place, watched(str(self.scratch), str(place)) as touched:
                told[name] = self.run(place, name)
            problems += [f"{name} touched {path}" for path in sorted(touched)]
        problems += self._judge(told, right=right)
        if _listing(self.scratch / OUTSIDE) != self.guarded:
            problems.append("the folder beside the lake was changed")
        return problems

    def _chosen(self, operations: Iterable[str], only: set[str] | None, also: Iterable[str]) -> list[str]:
        """What a trial tries: what is asked for, else what is cheap and one of the dear operations in turn."""
        if only is not None:
            return [name for name in operations if name in only]
        turn = DEAR[self.count % len(DEAR)]
        return [name for name in operations if self.thorough or name not in DEAR or name == turn or name in also]

    def run(self, place: Path, name: str) -> Told:
        """One operation on the lake that lies there, opened for writing."""
        return attempt(lambda: self._write(place, self.reads.get(name) or self.writes[name]))

    def verified(self, changes: Mapping[str, bytes | None]) -> list[Finding]:
        """What verify finds in a lake that got these objects while it was open."""
        with self.copied() as place:
            lake = quire.open(place, read_only=True)
            for key, body in changes.items():
                put(place, key, body)
            return lake.verify().findings

    def _reads(
        self, place: Path, warm: quire.Lake, names: list[str], told: dict[str, Told], *, right: bool
    ) -> list[str]:
        """Read as somebody who had the lake open before, and as somebody who opens it now; nothing may be written."""
        before = _listing(place)
        told["verify"] = attempt(lambda: [f.to_dict() for f in warm.verify().findings])
        told["warm refresh"] = attempt(lambda: warm.snapshot().commit and None)
        opened = attempt(lambda: quire.open(place, read_only=True))
        told["open"] = Told(None, opened.error, opened.problem)
        for name in names:
            if opened.answer is None:
                told[name] = told["open"]
            else:
                told[name] = attempt(lambda name=name: self.reads[name](opened.answer))  # type: ignore[misc]
        problems = [] if _listing(place) == before else ["a lake that was opened read-only was written to"]
        sound = {*self.answers, "open", "warm refresh"}
        stumbled = {n for n, t in told.items() if n in sound and (t.error or t.answer != self.answers.get(n))}
        if right and stumbled and told["verify"].answer == []:
            problems.append(f"verify finds nothing wrong, but {', '.join(sorted(stumbled))} cannot go on")
        return problems

    def _write(self, place: Path, write: Callable[[quire.Lake], Any]) -> Any:
        with quire.open(place, backfill=write is self.writes["write: backfill"]) as lake:
            answer = write(lake)
            lake.flush()
            failed = [f for f in lake.status()["background_failures"] if not hasattr(quire.errors, f.partition(":")[0])]
            assert not failed, f"in the background: {failed}"
            return answer

    def _judge(self, told: Mapping[str, Told], *, right: bool) -> list[str]:
        problems = [f"{name}: {t.problem}" for name, t in told.items() if t.problem is not None]
        for name, t in told.items():
            if t.problem is None and t.error is None:
                if SECRET in str(t.answer):
                    problems.append(f"{name}: read what lies outside the lake")
                expected = self.answers.get(
                    name, t.answer if name in ("open", "verify", "warm refresh") else "an error"
                )
                if right and t.answer != expected:
                    problems.append(f"{name}: a wrong answer: {_difference(t.answer, expected)}")
        return problems


def put(place: Path, key: str, body: bytes | None) -> None:
    path = place / key
    path.unlink(missing_ok=True)
    if body is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)


def _difference(found: Any, sound: Any) -> str:
    a, b = str(found), str(sound)
    at = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    return f"…{a[max(0, at - 30) : at + 60]}… instead of …{b[max(0, at - 30) : at + 60]}…"


def _listing(folder: Path) -> dict[str, tuple[int, int]]:
    found = {}
    for path in folder.rglob("*"):
        about = path.lstat()
        found[str(path)] = (about.st_size if path.is_file() else 0, about.st_mtime_ns)
    return found
