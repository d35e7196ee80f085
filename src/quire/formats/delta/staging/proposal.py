"""A commit that a client made itself, checked before its owner ratifies it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import unquote

from quire.errors import FormatError, InvalidInput, QuireError, Unsupported
from quire.formats import keys as keylib
from quire.formats.delta.files.parquet import constant
from quire.formats.delta.find_rows import where_key
from quire.formats.delta.folder import Folder
from quire.formats.delta.log.actions import Action, Commit, decode
from quire.formats.delta.log.dialects import dialect_of
from quire.formats.delta.log.names import published, staged_by_client
from quire.formats.delta.log.published import data_of
from quire.formats.delta.log.state import EMPTY, TIMES, State, check_readable, check_writable, replay
from quire.formats.delta.staging.work import DeltaWork
from quire.store import run_parallel

KINDS = frozenset({"commitInfo", "add", "remove", "metaData", "protocol", "txn", "domainMetadata"})
_ELSEWHERE = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:|^/|(^|/)\.\.(/|$)|\\|\0")


def propose(work: DeltaWork, actions: Sequence[Mapping[str, Any]], key: Sequence[str]) -> str:
    """Make a client's actions the work of a transaction; what they do to the table, in one word."""
    draft = work.draft
    given = _checked(actions, draft.table)
    before = draft.base
    try:
        after = replay(before, [Commit(given)], "the commit")
        check_readable(after, draft.folder.location)
        check_writable(after, draft.folder.location)
        names = after.schema.names
    except QuireError as error:
        raise InvalidInput(
            f"The commit to table {draft.table!r} cannot be made: {error.message}", next=error.next, table=draft.table
        ) from None
    if not _same_owner(before, after, draft.table):
        raise Unsupported(
            f"The commit would change who owns the commits of table {draft.table!r}.",
            next="Convert the table instead.",
            table=draft.table,
        )
    gone = [name for name in key if name not in names]
    if gone:
        raise InvalidInput(
            f"The commit removes the key column {gone[0]!r} of table {draft.table!r}.",
            next="Keep the column.",
            table=draft.table,
            column=gone[0],
        )
    _check_files(work, before, after)
    _check_key(work, before, after, key)
    draft.propose(given, after)
    return _word(given, before, after)


def take_staged(work: DeltaWork, file: str, key: Sequence[str]) -> str:
    """The same with a commit that a client has staged in a file of its own, which stays as it is."""
    draft, name = work.draft, staged_by_client(file)
    number = draft.base.version + 1
    if name is None or name.version != number:
        raise InvalidInput(
            f"{file!r} is no name of a staged commit of version {number} of table {draft.table!r}.",
            next=f"Stage it as {number:020d}.<uuid>.json.",
            table=draft.table,
        )
    if dialect_of(draft.base, draft.table) != "catalogManaged":
        raise Unsupported(
            f"Table {draft.table!r} is of the dialect whose commits the owner writes.",
            next="Give the owner the actions.",
            table=draft.table,
        )
    body = draft.folder.files.of(draft.folder.location).get_or_none(name.path)
    if body is None:
        raise InvalidInput(
            f"There is no {name.path} in the folder of table {draft.table!r}.",
            next="Stage it first.",
            table=draft.table,
        )
    commit = decode(body, name.path)
    info = commit.actions[0].get("commitInfo") if commit.actions else None
    if info is None or not isinstance(info.get("inCommitTimestamp"), int):
        raise InvalidInput(
            f"{name.path} of table {draft.table!r} does not begin with a commitInfo that has an inCommitTimestamp.",
            next="Write it first.",
            table=draft.table,
        )
    if commit.time <= draft.base.time:
        raise InvalidInput(
            f"{name.path} of table {draft.table!r} is not later than version {draft.base.version} ({draft.base.time}).",
            next="Give it a later inCommitTimestamp.",
            table=draft.table,
        )
    told = propose(work, commit.actions, key)
    draft.client_file = (name, body)
    return told


def check_created(folder: Folder, table: str) -> State:
    """The first version of a table that a client has created, if the lake can own it from then on."""
    store, path = folder.files.of(folder.location), published(0)
    body = store.get_or_none(path)
    if body is None:
        raise InvalidInput(
            f"There is no {path} at the location of table {table!r}.", next="Write it first.", table=table
        )
    commit = decode(body, path)
    _checked(commit.actions, table)
    state = check_readable(replay(EMPTY, [commit], path), folder.location)
    check_writable(state, folder.location)
    if dialect_of(state, table) != "catalogManaged" or state.metadata.configuration.get(TIMES) != "true":
        raise InvalidInput(
            f"Table {table!r} does not have the features of a table whose commits are owned, and in-commit timestamps.",
            next="Create it with what the staging of the table has answered.",
            table=table,
        )
    for file in state.files:
        there = store.stat(file.path)
        if there is None or there.size != file.size:
            raise _wrong(file.path, "is not there as it is said to be", table, "Write the file first.")
        if file.rows < 0:
            raise _wrong(file.path, "comes without its number of rows", table, "Give stats with numRecords.")
    return state


def _checked(actions: Sequence[Mapping[str, Any]], table: str) -> tuple[Action, ...]:
    given: list[Action] = []
    for action in actions:
        kinds = list(action) if isinstance(action, Mapping) else []
        if len(kinds) != 1 or kinds[0] not in KINDS or not isinstance(action[kinds[0]], Mapping):
            raise InvalidInput(
                f"{str(action)[:200]} is no action that the owner of table {table!r} takes.",
                next=f"Give one of {', '.join(sorted(KINDS))} in each action.",
                table=table,
            )
        given.append({kinds[0]: dict(action[kinds[0]])})
        path = action[kinds[0]].get("path") if kinds[0] in ("add", "remove") else None
        if kinds[0] in ("add", "remove") and (not isinstance(path, str) or _ELSEWHERE.search(unquote(path))):
            raise InvalidInput(
                f"{path!r} is no path of a file inside table {table!r}.",
                next="Write data files below the folder of the table, and give their relative paths.",
                table=table,
            )
    if not any("commitInfo" not in action for action in given):
        raise InvalidInput(f"The commit to table {table!r} has no action.", next="Give at least one.", table=table)
    return tuple(given)


def _check_files(work: DeltaWork, before: State, after: State) -> None:
    """New files must be there, as they are said to be: what is ratified must be readable for ever."""
    draft = work.draft
    store = draft.folder.files.of(draft.folder.location)
    known = set(data_of(before))
    paths = [path for path in data_of(after) if path not in known]
    found = run_parallel([partial(store.stat, path) for path in paths])
    for path, there in zip(paths, found, strict=True):
        file = after.by_path.get(path)
        if there is None or (file is not None and there.size != file.size):
            what = "is not there" if there is None else f"has {there.size} bytes"
            raise _wrong(path, what, draft.table, "Write the file first, and give its size.")
        if file is not None and file.rows < 0:
            raise _wrong(path, "comes without its number of rows", draft.table, "Give stats with numRecords.")
        if file is not None and tuple(name for name, _ in sorted(file.partition)) != tuple(sorted(after.partition)):
            raise _wrong(path, "has other partition columns than the table", draft.table, "Give a value for each.")
        for name, value in file.partition if file is not None else ():
            constant(value, after.stored.field(name).type, 0, path)


def _wrong(path: str, what: str, table: str, advice: str) -> InvalidInput:
    said = f"The commit to table {table!r} adds {path}, which {what}."
    return InvalidInput(said, next=advice, table=table, path=path)


def _same_owner(before: State, after: State, table: str) -> bool:
    try:
        return dialect_of(after, table) == dialect_of(before, table)
    except FormatError:
        return False


def _check_key(work: DeltaWork, before: State, after: State, key: Sequence[str]) -> None:
    """A client knows no keys: its rows may break one."""
    import pyarrow as pa

    new = [f for f in after.files if f.path not in before.by_path]
    if not key or not new:
        return
    folder, table = work.draft.folder, work.draft.table
    schema = pa.schema([after.schema.field(name) for name in key])
    keys = pa.Table.from_batches([b for _, _, b in folder.rows(after, list(key), new)], schema=schema)
    keylib.check_distinct(keys, key, table)
    old = [f for f in after.files if f.path in before.by_path]
    met = where_key(folder, after, key, keys, old)
    if len(met):
        raise keylib.conflict(keys.take(met.positions).to_pylist(), table)


def _word(given: Sequence[Action], before: State, after: State) -> str:
    kinds = {next(iter(action)) for action in given}
    if kinds & {"metaData", "protocol"}:
        return "schema"
    if "remove" not in kinds:
        return "append"
    changes = any(told.get("dataChange", True) for action in given for told in action.values() if "path" in told)
    return "update" if changes else "compact"
