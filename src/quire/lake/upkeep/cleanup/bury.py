"""Giving up a log below its floor: slots become tombstones, and checkpoints and side objects that led there go."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from quire.errors import FormatError
from quire.lake.context import Core
from quire.lake.upkeep.cleanup import retained as kept_by
from quire.lake.upkeep.cleanup.plan import CHUNK, Plan, Tell
from quire.lake.upkeep.cleanup.retained import Log
from quire.ledger import FORMAT, History, Line, Point, Record, checkpoint_key, decode, encode
from quire.ledger.records import Slot, Stored, readable
from quire.store import Store, run_parallel

_CHECKPOINT = re.compile(r"checkpoint-(\d{20})")
_SIDE = re.compile(r"side-((.*?)(?:-[^-]*)?)")
"""With the id of the write that it belongs to: all of the rest, or all but its end."""


@dataclass(frozen=True)
class Burial:
    """What became of one log below its floor."""

    slots: int = 0
    checkpoints: int = 0
    refused: str = ""


class Buried(Stored, frozen=True):
    """How far a log has been buried, so that it is not read again from its start every time."""

    format: int
    upto: Slot = 0
    left: tuple[Slot, ...] = ()
    """Slots before that which something still needed."""


readable(Buried)


def checkpoint_before(core: Core, line: Line, slot: int) -> None:
    """Make the state at a slot reachable without what lies before it."""
    if slot <= line.start or core.store.stat(checkpoint_key(Point(branch=line.branch, slot=slot - 1))) is not None:
        return
    history = History(core.store, core.ledger, line)
    history.write_checkpoint(kept_by.still_there(history, slot - 1))


def is_unfinished(core: Core, plan: Plan) -> bool:
    """Whether an earlier run ended before it had buried everything below a floor."""
    wanted = {
        log.line.branch: floor
        for log in plan.logs
        if (floor := plan.floors.get(log.line.branch, log.line.start)) > log.line.start
    }
    found = kept_by.side_by_side([partial(_buried, core.store, branch) for branch in wanted])
    return any(buried.upto < floor for buried, floor in zip(found, wanted.values(), strict=True))


def bury(core: Core, plan: Plan, log: Log, tell: Tell) -> Burial:
    """Turn the slots below a log's floor into tombstones, and delete checkpoints and side objects nobody needs."""
    branch = log.line.branch
    floor = _floor(core, plan, log)
    if floor <= log.line.start:
        return Burial()
    stay = {slot for slot in plan.kept.slots.get(branch, set()) if slot < floor}
    entries = [s for s in stay if s - 1 not in stay]  # those after them are reached from there
    try:
        for _ in kept_by.side_by_side([partial(checkpoint_before, core, log.line, s) for s in (*entries, floor)]):
            pass
    except kept_by.Overtaken as error:
        # Another collector is further, and does the same; or a checkpoint was lost.
        return Burial(refused=str(error))
    before = _buried(core.store, branch)
    if before.upto == floor and set(before.left) <= stay:
        return Burial()
    names = {e.key.rpartition("/")[2]: e for e in core.store.list(f"_quire/log/{branch}")}
    again = [s for s in before.left if log.line.start <= s < floor]
    fresh = range(max(log.line.start, before.upto), floor)
    slots = _bury_slots(core, branch, floor, stay, (*again, *fresh), tell)
    left = tuple(sorted(stay))
    core.store.put(_buried_key(branch), encode(Buried(format=FORMAT, upto=floor, left=left)))
    # A checkpoint that tombstones name goes only with its slot, whose own tombstone leads on from there.
    keep = {floor - 1, *stay, *(s - 1 for s in stay)}
    old = [n for n in names if (m := _CHECKPOINT.fullmatch(n)) and int(m[1]) < floor and int(m[1]) not in keep]
    # Side objects of records that are buried now, and of those that never got their slot: whoever wrote one before
    # the horizon wanted a slot that a floor has taken since, and writes another for the next.
    sides = [
        name
        for name, entry in names.items()
        if (m := _SIDE.fullmatch(name))
        and entry.modified < plan.times.horizon
        and plan.kept.writes.isdisjoint((m[1], m[2]))
    ]
    delete(core.store, [f"_quire/log/{branch}/{n}" for n in (*sides, *old)], "deleting checkpoints", tell)
    return Burial(slots, len(old))


def _floor(core: Core, plan: Plan, log: Log) -> int:
    if log.live is None:  # the record that closed it stays
        return core.ledger.head(log.line.branch, log.line.start, log.line.start)
    return plan.floors.get(log.line.branch, log.line.start)


def _bury_slots(core: Core, branch: str, floor: int, stay: set[int], slots: Iterable[int], tell: Tell) -> int:
    """Put tombstones on slots, but for those that stay; how many."""
    # Whatever is kept is reached from the slot before it, so those go first: the run may end anywhere.
    leading = {floor - 1, *(s - 1 for s in stay)}
    wanted = sorted((s for s in slots if s not in stay), key=lambda s: (s not in leading, s))
    at = Point(branch=branch, slot=floor - 1)
    buried = 0
    for low in _chunks(wanted, sum(s in leading for s in wanted)):
        records = [r for r in core.ledger.read(branch, wanted[low]) if r is not None and not r.buried]
        run_parallel([partial(core.ledger.bury, _tombstone(r, at)) for r in records])
        buried += len(records)
        tell("burying slots", low.stop, len(wanted))
    return buried


def _chunks(items: Sequence[Any], first: int) -> list[slice]:
    """The first so many one after the other, the rest side by side."""
    cuts = [*range(first), *range(first, len(items), CHUNK), len(items)]
    return [slice(low, high) for low, high in itertools.pairwise(cuts) if low < high]


def _buried(store: Store, branch: str) -> Buried:
    """What earlier runs have buried. Best effort: what it does not know is looked at again."""
    key = _buried_key(branch)
    body = store.get_or_none(key)
    try:
        return decode(body, Buried, key) if body is not None else Buried(format=FORMAT)
    except FormatError:
        return Buried(format=FORMAT)


def _buried_key(branch: str) -> str:
    return f"_quire/log/{branch}/buried"


def _tombstone(record: Record, checkpoint: Point) -> Record:
    """What stays of a record: its place in the chain, and where to go on."""
    return msgspec.structs.replace(
        record,
        format=FORMAT,
        kind="tombstone",
        commits=(),
        side=None,
        floor=None,
        checkpoint=checkpoint,
        writes=tuple(commit.write for commit in record.commits) if len(record.commits) > 1 else (),
    )


def delete(store: Store, keys: Sequence[str], what: str, tell: Tell) -> None:
    for low in range(0, len(keys), CHUNK):
        run_parallel([partial(store.delete, key) for key in keys[low : low + CHUNK]])
        tell(what, min(low + CHUNK, len(keys)), len(keys))
