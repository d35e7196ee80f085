"""What `import quire` may load, and the one door through which tables change."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
from tests.sources import modules

HEAVY = ["lance", "lancedb", "duckdb", "pyspark", "py4j", "pandas", "polars", "deltalake", "starlette", "uvicorn"]

IMPORT_AND_REPORT = """
import json, sys
STARTED = {
    "subprocess.Popen", "os.system", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec",
    "socket.bind", "socket.connect",
}
started = []
sys.addaudithook(lambda event, args: started.append([event, repr(args)]) if event in STARTED else None)
import quire
print(json.dumps({"modules": sorted(sys.modules), "started": started, "version": quire.__version__}))
"""


@pytest.fixture(scope="module")
def fresh_import() -> dict[str, list[str]]:
    """What a new interpreter has loaded and started after `import quire`."""
    done = subprocess.run([sys.executable, "-c", IMPORT_AND_REPORT], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    report: dict[str, list[str]] = json.loads(done.stdout)
    return report


@pytest.mark.parametrize("library", HEAVY)
def test_import_loads_no_engine(fresh_import: dict[str, list[str]], library: str) -> None:
    assert library not in fresh_import["modules"]


def test_import_starts_no_process_and_no_server(fresh_import: dict[str, list[str]]) -> None:
    assert fresh_import["started"] == []


def test_import_does_not_load_the_testing_package(fresh_import: dict[str, list[str]]) -> None:
    assert [m for m in fresh_import["modules"] if m.startswith("quire.testing")] == []


def test_every_public_name_resolves() -> None:
    import quire

    assert len(set(quire.__all__)) == len(quire.__all__)
    assert [name for name in quire.__all__ if not hasattr(quire, name)] == []
    assert set(quire.__all__) <= set(dir(quire))


# -- one door ----------------------------------------------------------------------------------------------------------
#
# Visible state changes through publish and nowhere else. So only `formats` and the table of the manifest ledger may
# touch Lance, and of the calls by which Lance moves a table's head on its own they may use those listed here: on a
# table that no commit pins yet, on a scratch copy, in backfill, or on the ledger's own table. Each entry says why.

MAY_IMPORT_LANCE = ("formats/", "testing/", "ledger/manifest/table.py")
THROUGH_THE_DOOR = ("formats/", "ledger/manifest/table.py")

# Moving a head, whatever the call is made on; a mere mention counts, so that an alias does not slip through.
INLINE_ANYWHERE = {
    "write_dataset",
    "compact_files",
    "optimize_indices",
    "cleanup_old_versions",
    "create_index",
    "create_scalar_index",
    "commit_existing_index_segments",
    "add_columns",
    "alter_columns",
    "drop_columns",
    "delete_config_keys",
}
# Names that other objects have too: calls only.
INLINE_CALLS = {"execute", "insert", "restore"}
# Safe only when staged: a call without the literal `detached=True` moves the head.
DETACHED_ONLY = {"commit", "commit_batch"}

ALLOWED: dict[tuple[str, str], str] = {
    ("formats/lance/staging/schema_change.py", "write_dataset"): "a scratch table in a temporary folder",
    ("formats/lance/staging/schema_change.py", "commit"): "on the scratch table",
    ("formats/lance/staging/schema_change.py", "add_columns"): "on the scratch table",
    ("formats/lance/staging/schema_change.py", "drop_columns"): "on the scratch table",
    ("formats/lance/staging/schema_change.py", "alter_columns"): "on the scratch table",
    ("formats/lance/compaction/plan.py", "write_dataset"): "a table in memory, which Lance's planner is asked about",
    ("formats/lance/compaction/plan.py", "execute"): "a task writes data files; the commit that names them is staged",
    ("formats/lance/staging/new_table.py", "write_dataset"): "a new table at a fresh location that no commit pins yet",
    ("formats/lance/head/manifest_copy.py", "commit"): "on a copy of two manifests in a temporary folder",
    ("formats/lance/head/next_version.py", "commit"): "the same",
    ("formats/lance/head/client_versions.py", "commit"): "the same: is a client's version what it says?",
    ("formats/lance/head/view_versions.py", "commit"): "the same: a state as a restore, for a folder of a view",
    ("formats/lance/head/begun_table.py", "delete_config_keys"): "a client's new table, which no commit pins yet",
    ("formats/lance/staging/undo.py", "insert"): "the staged work's own verb, not Lance's",
    ("ledger/manifest/table.py", "write_dataset"): "the empty ledger table, in a temporary folder",
    ("ledger/manifest/table.py", "execute"): "publish itself: a slot is taken, or buried",
    ("ledger/manifest/table.py", "compact_files"): "the ledger's own table, which no commit pins",
    ("ledger/manifest/table.py", "cleanup_old_versions"): "the ledger's own table, which no commit pins",
}


def lance_imports(tree: ast.AST) -> Iterator[int]:
    """Lines that import Lance, by statement or by name."""
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        elif isinstance(node, ast.Call) and called(node) in {"import_module", "__import__"}:
            names = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        if any(name.split(".")[0] in {"lance", "lancedb"} for name in names):
            yield node.lineno


def inline_commits(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Calls (and telling mentions) by which Lance would commit on its own."""
    callees = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = called(node)
            moves_head = name in INLINE_CALLS or (name in DETACHED_ONLY and not detached(node))
            if moves_head and isinstance(node.func, ast.Attribute):
                yield name, node.lineno
        elif isinstance(node, ast.Attribute) and node.attr in DETACHED_ONLY and id(node) not in callees:
            if ast.unparse(node.value).split(".")[-1] == "LanceDataset":
                yield node.attr, node.lineno
        elif isinstance(node, ast.Attribute) and node.attr in INLINE_ANYWHERE:
            yield node.attr, node.lineno
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "lance":
            yield from ((alias.name, node.lineno) for alias in node.names if alias.name in INLINE_ANYWHERE)


def called(node: ast.Call) -> str:
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def detached(node: ast.Call) -> bool:
    return any(
        keyword.arg == "detached" and isinstance(keyword.value, ast.Constant) and keyword.value.value is True
        for keyword in node.keywords
    )


def test_only_formats_and_the_ledgers_table_import_lance() -> None:
    found = [
        f"{file}:{line}"
        for file, tree in modules()
        if not file.startswith(MAY_IMPORT_LANCE)
        for line in lance_imports(tree)
    ]
    assert not found, f"only {', '.join(MAY_IMPORT_LANCE)} may import lance: {', '.join(found)}"


def test_lance_commits_through_the_one_door() -> None:
    found = [
        f"{file}:{line} {name}"
        for file, tree in modules()
        if file.startswith(THROUGH_THE_DOOR)
        for name, line in inline_commits(tree)
        if (file, name) not in ALLOWED
    ]
    assert not found, f"these calls would move a table's head outside publish: {', '.join(found)}"


def test_no_allowance_outlives_its_use() -> None:
    used = {(file, name) for file, tree in modules() for name, _ in inline_commits(tree)}
    assert set(ALLOWED) <= used, f"no longer needed: {sorted(set(ALLOWED) - used)}"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("LanceDataset.commit(base, op)", ["commit"]),
        ("LanceDataset.commit(base, op, detached=False)", ["commit"]),
        ("LanceDataset.commit(base, op, detached=flag)", ["commit"]),
        ("LanceDataset.commit(base, op, detached=True)", []),
        ("commit = lance.LanceDataset.commit", ["commit"]),
        ("pin.commit", []),
        ("lance.LanceDataset.commit_batch(uri, txs)", ["commit_batch"]),
        ("lance.write_dataset(data, uri)", ["write_dataset"]),
        ("write = lance.write_dataset", ["write_dataset"]),
        ("from lance import write_dataset as w", ["write_dataset"]),
        ("ds.merge_insert('id').when_not_matched_insert_all().execute(data)", ["execute"]),
        ("ds.merge_insert('id').execute_uncommitted(data)", []),
        ("ds.optimize.compact_files()", ["compact_files"]),
        ("ds.create_scalar_index('id', 'BTREE')", ["create_scalar_index"]),
        ("ds.create_index_uncommitted('id', 'BTREE')", []),
        ("ds.restore()", ["restore"]),
        ("fragment.delete('x = 1')", []),
    ],
)
def test_an_inline_commit_is_recognised(code: str, expected: list[str]) -> None:
    assert [name for name, _ in inline_commits(ast.parse(code))] == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import lance", [1]),
        ("import lance.fragment as f", [1]),
        ("def f():\n    from lance import LanceDataset", [2]),
        ("importlib.import_module('lance')", [1]),
        ("from quire.formats import lance", []),
        ("from . import lance", []),
        ("import lance_namespace", []),
    ],
)
def test_an_import_of_lance_is_recognised(code: str, expected: list[int]) -> None:
    assert list(lance_imports(ast.parse(code))) == expected
