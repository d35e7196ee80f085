"""The command line does what the library does: every public verb has a command, or a reason why not."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

import quire
from quire import cli
from quire.cli.reference import commands

COMMANDS = {
    "quire": {"open": "quire sql", "create": "quire init"},
    "Lake": {
        "adopt": "quire adopt",
        "audit": "quire audit",
        "at": "quire sql",
        "backfill": "quire backfill",
        "branch": "quire sql",
        "branches": "quire branch list",
        "cherry_pick": "quire cherry-pick",
        "claim": "quire claim",
        "cleanup": "quire cleanup",
        "create_branch": "quire branch create",
        "create_table": "quire table create",
        "delete_branch": "quire branch delete",
        "delete_tag": "quire tag delete",
        "diff": "quire diff",
        "export": "quire export",
        "fast_forward": "quire branch ff",
        "foreign": "quire backfill",
        "log": "quire log",
        "merge": "quire merge",
        "optimize": "quire optimize",
        "outcome": "quire outcome",
        "recover": "quire recover",
        "recoveries": "quire log",
        "register_database": "quire register-all",
        "repair": "quire repair",
        "changes": "quire changes",
        "history": "quire blame",
        "watch": "quire changes",
        "restore": "quire restore",
        "revert": "quire revert",
        "show": "quire show",
        "snapshot": "quire tables",
        "sql": "quire sql",
        "status": "quire status",
        "tables": "quire tables",
        "tag": "quire tag create",
        "tags": "quire tag list",
        "take_over": "quire take-over",
        "transaction": "quire commit",
        "verify": "quire verify",
    },
    "Transaction": {
        "create_table": "quire table create",
        "drop_table": "quire table drop",
        "register_table": "quire register",
        "rename_table": "quire table rename",
        "commit": "quire commit",
    },
    "Snapshot": {"sql": "quire sql", "export": "quire export", "tables": "quire tables"},
    "Table": {
        "count": "quire tables",
        "describe": "quire table describe",
        "head": "quire export",
        "indexes": "quire table describe",
        "scan": "quire export",
        "search": "quire search",
    },
    "TransactionTable": {
        "add_columns": "quire table add-column",
        "alter_column": "quire table alter-column",
        "append": "quire append",
        "create_index": "quire table index",
        "delete": "quire delete",
        "drop_columns": "quire table drop-column",
        "drop_index": "quire table drop-index",
        "insert": "quire insert",
        "overwrite": "quire overwrite",
        "rename_column": "quire table rename-column",
        "update": "quire update",
        "upsert": "quire upsert",
    },
    "Graph": {
        "algorithm": "quire algorithm",
        "apply_schema": "quire schema apply",
        "blob": "quire blob",
        "catalog": "quire schema show",
        "check": "quire lint",
        "embed": "quire embed",
        "explain": "quire query",
        "export": "quire dump",
        "history": "quire blame",
        "lint": "quire lint",
        "load": "quire load",
        "mutate": "quire mutate",
        "paths": "quire paths",
        "plan_schema": "quire schema plan",
        "query": "quire query",
        "schema": "quire schema show",
        "store": "quire stored add",
        "stored": "quire stored list",
        "unstore": "quire stored remove",
        "write_algorithm": "quire write-algorithm",
    },
}
REASONS = {
    "Lake.acting": "a command is run by whoever has the credentials of the store",
    "Lake.close": "a command closes what it opened",
    "Lake.flush": "a command waits for its background work at its end",
    "Lake.maintain": "a thread that lives as long as its process; a scheduler runs the commands",
    "Lake.refresh": "a command opens the newest state",
    "Lake.transact": "it runs a program's function again; a command is run again",
    "Snapshot.lease": "it lasts as long as the process that holds it",
    "Transaction.discard": "a command that fails discards",
    "Transaction.edited": "for validators",
    "Transaction.repeated": "a command says it with its receipt",
    "Transaction.sql": "a transaction lasts for one command",
    "Transaction.tables": "a transaction lasts for one command",
    "Table.parts": "for engines that read in parallel",
    "Table.to_arrow": "an object in memory; quire export writes the rows",
    "Table.to_duckdb": "an object in memory; quire sql asks DuckDB",
    "Table.to_pandas": "an object in memory; quire export writes the rows",
    "Table.to_polars": "an object in memory; quire export writes the rows",
    "Table.to_pylist": "an object in memory; quire sql --json prints the rows",
    "TransactionTable.delta": "for validators",
    "TransactionTable.hand_in": "for engines that write in parallel",
    "TransactionTable.identified_by": "for engines that write in parallel",
    "TransactionTable.require_absent": "what a program's decision rests on; a command has --expect and --if-head",
    "TransactionTable.require_keys": "what a program's decision rests on; a command has --expect and --if-head",
    "TransactionTable.require_none": "what a program's decision rests on; a command has --expect and --if-head",
    "TransactionTable.set_rules": "for validators; quire schema apply sets those of a graph",
    "TransactionTable.target": "for engines that write in parallel",
    "Graph.find": "built from Python expressions; quire query takes text",
    "Graph.frames": "objects in memory; quire query --output writes rows",
    "Graph.neighbours": "a shorthand for programs; quire query says it as a pattern",
    "Graph.node": "a shorthand for programs; quire query says it as a pattern",
    "Graph.picture": "shown by a notebook",
    "Graph.table": "a name that quire tables lists",
    "Graph.to_networkx": "an object in memory",
}
ALL = {name for name, _ in commands()}


def verbs(name: str) -> set[str]:
    """Public methods that a class has of its own."""
    kind = getattr(quire, name)
    parents = {n for parent in kind.__mro__[1:] for n in vars(parent)}
    return {n for n, value in vars(kind).items() if inspect.isfunction(value) and n[0] != "_" and n not in parents}


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "quire"])
def test_every_verb_has_a_command_or_a_reason(name: str) -> None:
    told = set(COMMANDS[name]) | {full.split(".")[1] for full in REASONS if full.startswith(f"{name}.")}
    assert verbs(name) - told == set(), "give it a command, or say in REASONS why it has none"
    assert told - verbs(name) == set(), "what is gone needs no entry"
    assert not {f"{name}.{verb}" for verb in COMMANDS[name]} & REASONS.keys()


def test_every_command_named_here_exists() -> None:
    assert {command for found in COMMANDS.values() for command in found.values()} <= ALL


def test_the_commands_call_the_verbs_that_write() -> None:
    """A name in the list above is not enough: a verb that changes something is called by the command line's code."""
    called = {
        node.attr
        for file in Path(cli.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Attribute)
    }
    writing = {*COMMANDS["TransactionTable"], *COMMANDS["Transaction"]} - {"commit"}
    assert writing <= called
    assert {"search", "claim", "adopt", "cleanup", "optimize", "recover", "revert", "verify"} <= called


COMMITTING = [
    "append", "insert", "upsert", "overwrite", "update", "delete", "commit", "register", "load", "mutate",
    "schema apply", "stored add", "stored remove", "stored run", "table create", "table drop", "table rename",
    "table add-column", "table drop-column", "table rename-column", "table alter-column", "table index",
    "table drop-index",
]  # fmt: skip


@pytest.mark.parametrize("name", COMMITTING)
def test_every_command_that_commits_takes_the_options_of_a_transaction(name: str) -> None:
    [found] = [command for full, command in commands() if full == f"quire {name}"]
    options = {option for parameter in found.params for option in parameter.opts}
    assert {"--token", "--expect", "--if-head", "--author", "--message", "--timeout", "--branch", "--json"} <= options


def test_every_command_of_a_lake_prints_json() -> None:
    for name, command in commands():
        options = {option for parameter in command.params for option in parameter.opts}
        assert getattr(command, "commands", None) or "--json" in options, name
