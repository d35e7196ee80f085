"""All tables of a LanceDB database taken into a lake where they lie, in one commit, or none of them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from quire.errors import InvalidInput, NotFound, QuireError, TableNotFound, shown
from quire.prompt import OneLine, counted
from quire.store import Store

if TYPE_CHECKING:
    from quire.lake.commit.transaction import Transaction
    from quire.lake.lake import Lake

SUFFIX = ".lance"


@dataclass(frozen=True, repr=False)
class RegisteredTable(OneLine):
    """One table of the database, and the name under which the lake has it, or would have it."""

    table: str
    location: str
    rows: int = 0
    key: tuple[str, ...] = ()
    problem: str = ""
    """Why it cannot be registered."""

    def _facts(self) -> str:
        return f"{self.table}: {self.problem or counted(self.rows, 'row')}"

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {**asdict(self), "key": list(self.key)}


@dataclass(frozen=True, repr=False)
class RegisteredDatabase(OneLine):
    """What was registered, or with `dry_run` would be."""

    tables: tuple[RegisteredTable, ...]
    dry_run: bool
    commit: str | None = None

    def _facts(self) -> str:
        problems = f", {counted(len(self.problems), 'problem')}" if self.problems else ""
        done = "dry run" if self.dry_run else f"committed {self.commit}"
        return f"{counted(len(self.tables), 'table')}, {done}{problems}"

    @property
    def problems(self) -> tuple[RegisteredTable, ...]:
        """The tables that cannot be registered, each with its `problem`."""
        return tuple(table for table in self.tables if table.problem)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {"dry_run": self.dry_run, "commit": self.commit, "tables": [t.to_dict() for t in self.tables]}


def register_database(
    lake: Lake,
    uri: str | os.PathLike[str],
    *,
    tables: Sequence[str] | None,
    keys: Mapping[str, str | Sequence[str]] | None,
    prefix: str,
    dry_run: bool,
    message: str | None,
) -> RegisteredDatabase:
    """Register every table below a folder, or those that are named; see `Lake.register_database`."""
    lake._core.check_writable()
    files = Store.open(uri, lake._core.store.options)
    folders = {name.removesuffix(SUFFIX): name for name in _folders(files)}
    if not folders:
        raise NotFound(
            f"{files.uri} contains no table.",
            next="Give the folder that holds the tables as folders NAME.lance, as for lancedb.connect.",
            uri=files.uri,
        )
    wanted = sorted(folders if tables is None else _names(tables))
    for name in (*wanted, *(keys or {})):
        if name not in folders:
            shown = ", ".join(sorted(folders)[:20])
            raise TableNotFound(f"{files.uri} contains no table {name!r}.", next=f"It contains {shown}.", table=name)
    said = message if message is not None else f"register the tables of {files.uri}"
    tx = lake.transaction(said, fresh=True)
    found = [_one(tx, prefix + name, files.child_uri(folders[name]), (keys or {}).get(name)) for name in wanted]
    planned = RegisteredDatabase(tuple(found), dry_run)
    if dry_run:
        tx.discard()
        return planned
    if planned.problems:
        tx.discard()
        raise _refused(planned, files.uri)
    return RegisteredDatabase(planned.tables, dry_run, tx.commit().commit)


def _one(tx: Transaction, name: str, location: str, key: str | Sequence[str] | None) -> RegisteredTable:
    try:
        edit = tx.register_table(name, location, key=key)._edit
    except QuireError as error:
        return RegisteredTable(name, location, problem=str(error))
    assert edit.pin is not None
    return RegisteredTable(name, location, edit.pin.rows, edit.info.key)


def _names(tables: Sequence[str]) -> Sequence[str]:
    if isinstance(tables, str):
        raise InvalidInput("tables takes a list of names.", next=f"Write tables=[{tables!r}].")
    return list(dict.fromkeys(tables))


def _refused(planned: RegisteredDatabase, uri: str) -> InvalidInput:
    problems = planned.problems
    told = "; ".join(f"{table.table}: {table.problem}" for table in problems)
    return InvalidInput(
        f"{len(problems)} of {len(planned.tables)} tables of {uri} cannot be registered, so none was "
        f"registered. {told}",
        next="Correct them, or leave them out: name the others with tables= (`--table`).",
        uri=uri,
        problems={table.table: table.problem for table in problems},
    )


def _folders(files: Store) -> Iterator[str]:
    """Names of the folders of tables directly below a root."""
    if files.is_local:
        try:
            found = [item.name for item in os.scandir(files.uri) if item.is_dir() and item.name.endswith(SUFFIX)]
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise InvalidInput(
                f"{shown(files.uri)} cannot be read: {error.strerror}.", next="Check the address and the permissions."
            ) from None
        yield from sorted(found)
        return
    after: str | None = None
    while (entry := next(files.list("", after=after), None)) is not None:
        name, slash, _ = entry.key.partition("/")
        if slash and name.endswith(SUFFIX):
            yield name
        after = f"{name}0" if slash else name  # "0" comes after "/": on to whatever follows this folder
