"""Every command by name: its section of `quire --help`, the module that has it, and its summary in one line.

`quire --help` prints this table and imports no command. `tests/cli/test_command_table.py` holds it against the
commands themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Entry:
    """A command, or a group of commands, before it is loaded."""

    module: str
    summary: str
    commands: dict[str, str] = field(default_factory=dict)
    """The commands of a group with their summaries; all of them are in its module."""


SECTIONS: dict[str, dict[str, Entry]] = {
    "Start": {
        "init": Entry("history", "Create an empty lake."),
        "tables": Entry("tables", "List the tables of a lake."),
        "table": Entry(
            "tables",
            "Create, describe and change tables.",
            {
                "create": "Create a table from a schema, a file, or both.",
                "drop": "Drop a table.",
                "rename": "Rename a table.",
                "describe": "Show a table's columns, key, indexes, location and size.",
                "add-column": "Add a column: null, or computed from other columns.",
                "drop-column": "Drop a column.",
                "rename-column": "Rename a column.",
                "alter-column": "Change a column's type, or whether it may be null.",
                "index": "Build an index.",
                "drop-index": "Drop an index.",
            },
        ),
        "register": Entry("tables", "Add an existing Lance or Delta table to the lake, in place."),
        "convert": Entry("tables", "Own the commits of a plain Delta table, or let go of them."),
        "register-all": Entry("tables", "Add all tables of a LanceDB database to the lake, in place."),
    },
    "Rows": {
        "append": Entry("rows", "Append the rows of files to a table."),
        "insert": Entry("rows", "Insert rows whose keys are new."),
        "upsert": Entry("rows", "Update rows by key, and insert the others."),
        "overwrite": Entry("rows", "Replace all rows of a table."),
        "update": Entry("rows", "Set columns of the rows that match a condition."),
        "delete": Entry("rows", "Delete the rows that match a condition."),
        "commit": Entry("commit", "Run several statements on any tables as one commit."),
        "export": Entry("export", "Write a table to a file, or all tables to a folder."),
    },
    "Query": {
        "sql": Entry("sql", "Run one SELECT over all tables of one commit."),
        "search": Entry("search", "Search a table by vector, by text, or by both."),
    },
    "History": {
        "status": Entry("history", "Show the head, the size and the upkeep of a branch."),
        "log": Entry("history", "List commits, newest first."),
        "show": Entry("history", "Show one commit: author, time, message and tables."),
        "diff": Entry("history", "Show the rows that were added, changed or removed."),
        "blame": Entry("blame", "Show which commits made a row what it is."),
        "changes": Entry("changes", "Print what changed, commit by commit, and wait for more."),
        "consumer": Entry(
            "changes",
            "List and drop named consumers of changes.",
            {
                "list": "List the consumers of changes, where they stand, and what they hold.",
                "drop": "Forget a consumer of changes, and let go of what it holds.",
            },
        ),
        "revert": Entry("history", "Undo a commit with a new commit."),
        "restore": Entry("history", "Bring tables back to an earlier commit with a new commit."),
        "outcome": Entry("upkeep", "Find out whether a commit with an unknown outcome landed."),
    },
    "Branches": {
        "branch": Entry(
            "branches",
            "Create, list, delete and fast-forward branches.",
            {
                "list": "List the branches.",
                "create": "Create a branch.",
                "delete": "Delete a branch.",
                "ff": "Fast-forward main, or --branch, to another branch.",
            },
        ),
        "merge": Entry("merge", "Merge a branch into main, or --branch."),
        "cherry-pick": Entry("merge", "Do here what one commit of another branch did there."),
        "request": Entry(
            "requests",
            "Ask for a merge, review it, and merge it.",
            {
                "create": "Ask for a branch to be merged into main, or --branch.",
                "list": "List the merge requests, the newest first.",
                "show": "Show a merge request, and what was said of it.",
                "review": "Approve a merge request, object to it, or comment on it.",
                "merge": "Merge what a request asks for, with the resolutions that it keeps.",
                "close": "Close a merge request without merging it.",
            },
        ),
        "tag": Entry(
            "branches",
            "Create, list and delete tags: names for commits.",
            {
                "list": "List the tags and the commits they name.",
                "create": "Name a commit.",
                "delete": "Delete a tag.",
            },
        ),
        "claim": Entry("history", "Become the only writer of a branch."),
    },
    "Graph and pipelines": {
        "schema": Entry(
            "schema",
            "Show, plan and apply the schema of the graph.",
            {
                "show": "Show the schema as text, or draw it as SVG.",
                "plan": "Show what applying a schema would change.",
                "apply": "Change the graph to this schema, in one commit.",
            },
        ),
        "load": Entry("load", "Load rows into the graph, in one commit."),
        "query": Entry("query", "Query the graph, at one commit."),
        "mutate": Entry("query", "Run the statements of a mutation, in one commit."),
        "embed": Entry("embed", "Make the vectors that stored texts lack."),
        "algorithm": Entry("algorithm", "Compute a value for every node, as its PageRank."),
        "write-algorithm": Entry("algorithm", "Set a property of all nodes to what is computed."),
        "paths": Entry("algorithm", "Show the shortest paths between two nodes."),
        "lint": Entry("query", "Check queries without running them."),
        "stored": Entry(
            "stored",
            "Add, list, run and remove stored queries.",
            {
                "add": "Check queries and store them, each under its name.",
                "list": "List the stored queries.",
                "show": "Show the text of a stored query.",
                "remove": "Remove stored queries.",
                "run": "Run a stored query or mutation.",
            },
        ),
        "dump": Entry("dump", "Write the graph of one commit as NDJSON."),
        "blob": Entry("dump", "Write the bytes of a blob, or of a part of it."),
    },
    "Upkeep": {
        "optimize": Entry("upkeep", "Merge small fragments and extend indexes to new rows."),
        "cleanup": Entry("upkeep", "Delete files and log entries that nothing needs any more."),
        "backfill": Entry("health", "Bring plain Lance readers up to date."),
        "recover": Entry("upkeep", "Finish the work of dead writers: backfills, checkpoints."),
        "adopt": Entry("health", "Commit what a plain Lance client wrote to a table."),
        "take-over": Entry("health", "Make this lake the owner of a registered table."),
    },
    "Serve": {
        "serve": Entry("serve", "Serve lakes over HTTP, until a signal ends it."),
        "ui": Entry("ui", "Look at a lake in a browser: tables, commits, SQL, merges."),
        "mcp": Entry("mcp", "Give an agent tools for a lake, over MCP."),
        "token": Entry(
            "token",
            "Create, list and revoke the API keys of a server.",
            {
                "create": "Create a key for an actor, and print it once.",
                "list": "List the keys of a file.",
                "revoke": "End a key for good.",
            },
        ),
        "policy": Entry(
            "policy",
            "Show, set, check and test who may do what.",
            {
                "show": "Show the policy that holds, with its author.",
                "set": "Let a policy hold from now on.",
                "check": "Check the rules of a policy, and the names in it.",
                "test": "Ask a policy the cases of a file: who may do what.",
                "explain": "Say whether an actor may do something, and which rules decide it.",
            },
        ),
        "audit": Entry("policy", "Show what was written and what was refused, newest first."),
    },
    "Health": {
        "doctor": Entry("health", "Check versions, settings, access and foreign writes."),
        "verify": Entry("health", "Check all data of the lake."),
        "repair": Entry("health", "Repair a lake that cannot be opened."),
    },
}
