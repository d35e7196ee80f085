"""Plain readers and writers, the data and the environment: backfill, adopt, verify, doctor."""

from __future__ import annotations

import dataclasses
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

import typer

from quire.cli.engine import EngineOption, MasterOption, running
from quire.cli.program import app
from quire.cli.session import Session, command
from quire.cli.tables import TableName
from quire.errors import ForeignWriter, QuireError, Unsupported
from quire.store import Store, probe

PACKAGES = ("quire", "pylance", "pyarrow", "duckdb", "obstore", "msgspec", "pandas", "polars", "lancedb")
VARIABLES = ("QUIRE_", "AWS_", "GOOGLE_", "AZURE_", "LANCE_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
MAINTENANCE = (
    "Lance's own cleanup and compaction do not see staged versions and destroy them: "
    "never run them, or auto-cleanup, on the tables of a lake."
)


@command(app, "backfill", branch=False, writes=True)
def backfill(session: Session) -> None:
    """Bring every table's plain Lance head to its published state, for readers that do not know Quire."""
    with session.write(backfill=False) as lake:
        done = lake.backfill()
    found = [dataclasses.asdict(p) for p in sorted(done, key=lambda p: p.table)]
    foreign = [p["table"] for p in found if p["outcome"] == "foreign"]
    behind = [p["table"] for p in found if p["outcome"] in ("behind", "blocked")]
    shown = [p for p in found if p["outcome"] != "current"]
    if not session.output.as_json:
        if shown:
            session.output.table(
                ("table", "outcome", "version", "detail"),
                [(p["table"], p["outcome"], p["version"], p["detail"]) for p in shown],
            )
        else:
            session.output.line("nothing to backfill")
    if foreign:
        raise ForeignWriter(
            f"A plain Lance client wrote to {', '.join(foreign)}; that is not overwritten.",
            next=f"Take it into the lake: quire adopt LAKE {foreign[0]}",
            tables=found,
        )
    if behind:
        raise QuireError(
            f"These tables are still behind: {', '.join(behind)}.",
            next="Run it again; for a table that cleans up after itself, `quire doctor` names the settings.",
            retryable=True,
            tables=found,
        )
    if session.output.as_json:
        session.output.document({"tables": found})


@command(app, "adopt", branch=False, writes=True)
def adopt(session: Session, table: TableName) -> None:
    """Take what a plain Lance client wrote to a table into the lake, as a commit; on a conflict onto a branch."""
    with session.write() as lake:
        done = lake.adopt(table)
    if session.output.as_json:
        session.output.document(done.to_dict())
    elif done.commit is None:
        session.output.line(f"nothing to adopt: {table} was written by Quire alone")
    elif done.branch != lake.branch_name:
        session.output.line(
            f"not combined with the lake's own commits: {table} as the plain client left it is kept as commit"
            f" {done.commit} of branch {done.branch}; the rows of {lake.branch_name} stay as they are"
        )
        session.output.line(f"compare them with: quire diff LAKE {lake.branch_name} {done.branch}")
    else:
        session.output.line(f"adopted as {done.commit} on {done.branch}: {', '.join(done.details or done.ops)}")


@command(app, "verify", branch=False)
def verify(
    session: Session,
    deep: Annotated[
        bool, typer.Option("--deep", help="Read every data file from end to end, too: as long as reading the lake.")
    ] = False,
    engine: EngineOption = None,
    master: MasterOption = None,
) -> None:
    """Check all data of the lake: records, checkpoints, pinned files, plain heads. Exits 1 if anything is wrong."""
    with (
        session.read() as lake,
        running(engine, master, lambda: lake.status()["bytes"]) as who,
        session.output.progress("verify", unit="checked") as progress,
    ):
        found = lake.verify(lambda what, count: progress.count(count), deep=deep, engine=who)
    if session.output.as_json:
        session.output.document(found.to_dict())
    else:
        counts = found.to_dict()
        names = ("branches", "records", "checkpoints", "tombstones", "pins", "files", "bytes", "read")
        session.output.fields([(name, counts[name]) for name in names if name != "read" or deep])
        for finding in found.findings:
            session.output.line(f"wrong: {finding.where}: {finding.message}")
        session.output.line("nothing is wrong" if found.ok else f"{len(found.findings)} thing(s) wrong")
    if not found.ok:
        raise typer.Exit(1)


@dataclasses.dataclass
class Examination:
    """What the doctor found: facts to show, and problems, each with what to do about it."""

    facts: dict[str, Any] = dataclasses.field(default_factory=dict)
    problems: list[dict[str, Any]] = dataclasses.field(default_factory=list)

    def problem(self, what: str, error: QuireError) -> None:
        self.problems.append({"check": what, "kind": error.kind, "message": error.message, "next": error.next})


@command(app, "doctor", branch=False)
def doctor(
    session: Session,
    probe: Annotated[
        bool,
        typer.Option("--probe", help="Also prove that the store honours create-if-absent; writes and removes a key."),
    ] = False,
) -> None:
    """Check the environment and the configuration: versions, store, foreign writes. Exits 1 if it finds a problem."""
    found = Examination()
    found.facts.update(
        versions={name: v for name in PACKAGES if (v := _version(name))},
        python=platform.python_version(),
        platform=platform.platform(),
        variables=sorted(name for name in os.environ if name.startswith(VARIABLES)),
    )
    _examine_store(session, found, probe)
    _examine_lake(session, found)
    if session.output.as_json:
        document = {"ok": not found.problems, **found.facts, "problems": found.problems, "notes": [MAINTENANCE]}
        session.output.document(document)
    else:
        _print(session, found)
    if found.problems:
        raise typer.Exit(1)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _examine_store(session: Session, found: Examination, prove: bool) -> None:
    try:
        store = Store.open(session.uri, session.storage)
        found.facts.update(store=store.scheme, uri=store.uri)
        if prove:
            probe(store)
            found.facts["create_if_absent"] = True
    except QuireError as error:
        found.problem("store", error)


def _examine_lake(session: Session, found: Examination) -> None:
    if "uri" not in found.facts:
        return
    try:
        with session.read() as lake:
            now = lake.status()
            found.facts.update(
                readable=True,
                **{name: now[name] for name in ("lake", "head", "tables", "pending_backfill", "background_failures")},
                foreign=[{"table": p.table, "version": p.version} for p in lake.foreign()],
            )
            snapshot = lake.snapshot()
            cleaning = {name: _cleaning(snapshot[name].describe()["config"]) for name in snapshot}
    except QuireError as error:
        found.facts.setdefault("readable", False)
        found.problem("lake", error)
        return
    for name, settings in cleaning.items():
        if settings:
            found.problem(
                "tables",
                Unsupported(
                    f"Table {name!r} deletes its own old versions ({', '.join(settings)}), which destroys commits.",
                    next="Remove these settings from the plain table with Lance's delete_config_keys, then adopt it.",
                ),
            )
    for write in found.facts["foreign"]:
        found.problem(
            "tables",
            ForeignWriter(
                f"Version {write['version']} of table {write['table']!r} was written by a plain Lance client.",
                next=f"Take it into the lake: quire adopt LAKE {write['table']}",
            ),
        )


def _cleaning(config: dict[str, str]) -> list[str]:
    return sorted(key for key in config if key.startswith("lance.auto_cleanup"))


def _print(session: Session, found: Examination) -> None:
    output = session.output
    pairs: list[tuple[str, Any]] = []
    for name, value in found.facts.items():
        if name == "versions":
            pairs += list(value.items())
        elif name == "foreign":
            pairs.append(("foreign writes", ", ".join(w["table"] for w in value) or "none"))
        else:
            pairs.append((name.replace("_", " "), (", ".join(value) or "none") if isinstance(value, list) else value))
    output.fields(pairs)
    output.line("")
    output.line(MAINTENANCE)
    output.line("")
    for problem in found.problems:
        output.line(f"problem: {problem['message']}")
        if problem["next"]:
            output.line(f"  next:  {problem['next']}")
    output.line("no problem found" if not found.problems else f"{len(found.problems)} problem(s)")
