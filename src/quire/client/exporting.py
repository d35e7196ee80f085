"""Tables of one commit behind a server as files here, as `Snapshot.export` writes them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

from quire.errors import InvalidInput
from quire.lake.read.export import FILE_BYTES, LIST, Exported, ExportedTable, empty_target, listed
from quire.progress import Progress
from quire.rowfiles.write import KINDS, FileKind, files

if TYPE_CHECKING:
    from quire.client.reading import RemoteSnapshot


def export(
    snapshot: RemoteSnapshot,
    folder: str | os.PathLike[str],
    tables: Sequence[str] | None,
    format: FileKind,
    options: Mapping[str, str] | None,
    progress: Progress | None,
) -> Exported:
    """Stream every table into files of its own; the list of all is written last."""
    if format not in KINDS:
        raise InvalidInput(
            f"{format!r} is not a format of an export.", next=f"Use one of {', '.join(KINDS)}.", format=format
        )
    names = list(snapshot.tables() if tables is None else dict.fromkeys(tables))
    held = [snapshot[name] for name in names]
    store = empty_target(folder, options)
    written: dict[str, list[tuple[str, int, int]]] = {}
    for done, table in enumerate(held, start=1):
        found = written.setdefault(table.name, [])
        rows = table.scan()
        for number, (data, count) in enumerate(files(rows, rows.schema, format, FILE_BYTES)):
            key = f"{quote(table.name, safe='')}/part-00000-{number:02}.{format}"
            store.put(key, data)
            found.append((key, count, len(data)))
        if progress is not None:
            progress(f"export {table.name}", done, len(held))
    made = {
        name: ExportedTable(
            quote(name, safe=""), sum(r for _, r, _ in found), sum(s for *_, s in found), tuple(k for k, *_ in found)
        )
        for name, found in written.items()
    }
    result = Exported(snapshot.commit, store.uri, format, made)
    store.put(LIST, listed(snapshot, snapshot.lake, result, written))
    return result
