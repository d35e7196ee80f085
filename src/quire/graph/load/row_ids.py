"""New ids, and the ids that ends of edges are written as."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from quire.graph.catalog import Entity
from quire.graph.integrity.row_rules import texts
from quire.graph.load.property_columns import Converted, from_arrow, from_python, parsed
from quire.graph.types import Type, Wrong, identity
from quire.store import clock

if TYPE_CHECKING:
    import pyarrow as pa

TEXT = Type("String")
_PER_MILLISECOND = 1 << 12
_PAIRS = "".join(f"{byte:02x}" for byte in range(256)).encode()


def new_ids(count: int) -> pa.Array:
    """UUIDs of version 7 by the clock of this world: later ones sort after earlier ones of the same call."""
    import numpy as np
    import pyarrow as pa

    number = np.arange(count, dtype=np.uint64)
    moment = np.uint64(int(clock.now().timestamp() * 1000)) + number // np.uint64(_PER_MILLISECOND)
    high = (moment << np.uint64(16)) | np.uint64(0x7000) | number % np.uint64(_PER_MILLISECOND)
    low = np.frombuffer(clock.random_bytes(8 * count), ">u8") & np.uint64((1 << 62) - 1) | np.uint64(1 << 63)
    whole = np.stack([high, low], axis=1).astype(">u8").view(np.uint8)
    digits = np.frombuffer(_PAIRS, "u2")[whole].view(np.uint8)
    text = np.full((count, 36), ord("-"), np.uint8)
    for start, stop, gap in ((0, 8, 0), (8, 12, 1), (12, 16, 2), (16, 20, 3), (20, 32, 4)):
        text[:, start + gap : stop + gap] = digits[:, start:stop]
    ends = pa.py_buffer(np.arange(0, 36 * count + 1, 36, dtype=np.int64))
    return pa.LargeStringArray.from_buffers(count, ends, pa.py_buffer(text.tobytes())).cast(pa.string())


def ends_of(values: Any, node: Entity) -> Converted:
    """Ids of nodes from the key values that data names them by: Python values, or an Arrow column."""
    kinds = [node.property(name).type for name in node.defined.key] or [TEXT]
    if len(kinds) == 1:
        return _single(values, kinds[0])
    given = values if isinstance(values, list) else values.to_pylist()
    import pyarrow as pa

    wrong: dict[int, str] = {}
    found: list[str | None] = []
    for row, value in enumerate(given):
        try:
            found.append(None if value is None else identity(key_values(value, kinds)))
        except Wrong as error:
            wrong[row] = str(error)
            found.append(None)
    return Converted(pa.array(found, pa.string()), wrong)


def _single(values: Any, kind: Type) -> Converted:
    if not isinstance(values, list):
        made = from_arrow(values, kind)
    elif kind.is_text:
        made = from_python(values, TEXT)
    else:
        # An id is text, so a number may come as its text too.
        read: list[Any] = []
        wrong: dict[int, str] = {}
        for row, value in enumerate(values):
            try:
                read.append(parsed(kind, value))
            except Wrong as error:
                wrong[row] = str(error)
                read.append(None)
        made = from_python(read, kind)
        made.wrong.update(wrong)
    return Converted(texts(made.column, kind), made.wrong)


def key_values(value: Any, kinds: Sequence[Type]) -> list[Any]:
    """The parts of a composite key: a list of values, or the JSON array that is the id."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            value = None
    if not isinstance(value, list | tuple) or len(value) != len(kinds) or None in value:
        raise Wrong(f"must be a key of {len(kinds)} values, written as a list")
    return [parsed(kind, part) for kind, part in zip(kinds, value, strict=True)]


def end_id(values: Sequence[Any], node: Entity) -> str:
    """The id of a node from the values of its whole key."""
    kinds = [node.property(name).type for name in node.defined.key] or [TEXT]
    return identity([kind.value(v) for kind, v in zip(kinds, values, strict=True)])
