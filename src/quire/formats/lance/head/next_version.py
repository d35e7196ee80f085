"""The version after the plain HEAD that holds a pin's state: made on this machine, from the manifests of the two.

It is made by the operation that leads from the one to the other, if what Lance makes of that is the pin's state and
nothing else. Otherwise it is made by restoring the pin, which is always right and stops older handles.
"""

from __future__ import annotations

import contextlib
import uuid
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from quire.formats.lance.head.manifest_copy import Loose, Made
from quire.formats.lance.head.manifest_fields import Fields, fields_of, told_by
from quire.formats.lance.head.net_operation import net_operation

if TYPE_CHECKING:
    from lance import LanceDataset


@dataclass(frozen=True)
class Copy:
    """A version, its manifest, and a handle to read it by."""

    number: int
    body: bytes
    handle: LanceDataset


def next_version(loose: Loose, head: Copy, wanted: Copy, properties: dict[str, str]) -> Made:
    """The version after `head`, in the state of the `wanted` one; both are open in a folder, which is used up."""
    name = str(uuid.uuid4())
    restored = partial(_restored, head, wanted, name, properties)
    with contextlib.suppress(Exception):  # what Lance would have to look into data for, a restore leaves as it is
        state = fields_of(wanted.body)
        made = _led(loose, head, wanted, state, name, properties)
        if made is not None:
            found = fields_of(made.manifest)
            if found.state() == state.state():
                return made
            if found.but_row_ids() == state.but_row_ids():
                # Rows that come to a table with stable ids get their ids when they are committed, and had others there.
                return _told(head.number + 1, restored().manifest, made)
    return restored()


def _led(loose: Loose, head: Copy, wanted: Copy, state: Fields, name: str, properties: dict[str, str]) -> Made | None:
    operation = net_operation(head.handle, wanted.handle, fields_of(head.body), state)
    return None if operation is None else loose.commit(head.handle, operation, name, properties)


def _restored(head: Copy, wanted: Copy, name: str, properties: dict[str, str]) -> Made:
    from lance import LanceOperation

    with Loose() as loose:
        onto = loose.open(head.number, head.body)
        loose.open(wanted.number, wanted.body)
        return loose.commit(onto, LanceOperation.Restore(wanted.number), name, properties)


def _told(version: int, restored: bytes, made: Made) -> Made:
    """A restored state, told as the operation of another commit."""
    manifest = told_by(restored, made.manifest)
    if _operation(version, manifest) != _operation(version, made.manifest):
        raise ValueError("Lance reads another transaction")
    return replace(made, manifest=manifest)


def _operation(version: int, manifest: bytes) -> Any:
    with Loose() as loose:
        return loose.open(version, manifest).read_transaction(version)
