"""One of each: words with one class, one package that reads files of rows, one loader of graphs, formats told apart
nowhere above them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from tests.sources import modules

WORDS = {
    "Place": "formats/protocol/distributed.py",
    "Statement": None,
    "Found": None,
    "Rows": "lake/read/table.py",
    "Progress": "progress.py",
}
"""Words that would mean something else in every package: where the one class is, if there is one."""

READERS = {"csv", "pyarrow.csv", "pyarrow.json", "pyarrow.parquet", "pyarrow.feather", "pyarrow.orc"}
QUERIES = {"read_csv", "read_json", "read_parquet"}
MAY_READ = ("rowfiles/", "testing/", "formats/delta/files/parquet.py")

LOADER = "quire.graph.load"
"""Reads, types, merges and judges the rows of a graph load, here or by tasks of an engine."""
MAY_LOAD = ("graph/", "pipeline/", "client/", "server/", "cli/", "testing/")
SEAM = "lake/engines.py"
SHUFFLED = "spark/shuffled_"
"""Modules of what a load leaves to Spark alone: rows that are too many for one task meet across tasks."""
SHUFFLES = {"repartition", "join", "groupBy", "cogroup"}
COMMITS = {"transaction", "transact", "commit", "hand_in", "insert", "upsert", "overwrite", "create_table"}
"""By which a table comes to hold other rows."""

ABOVE_FORMATS = ("lake/", "rowfiles/", "graph/", "pipeline/", "spark/", "client/", "server/", "cli/")


def named(tree: ast.AST) -> Iterator[str]:
    """Classes, and what a module or a class gives a name of its own."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def readers(tree: ast.AST) -> Iterator[str]:
    """What reads files of rows and is no part of Quire."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in READERS)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            whole = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
            yield from (name for name in whole if name in READERS)
        elif isinstance(node, ast.Attribute):
            if isinstance(node.value, ast.Name) and node.value.id in ("pa", "pyarrow"):
                yield from {f"pyarrow.{node.attr}"} & READERS
            yield from {node.attr} & QUERIES
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from (n for n in QUERIES if f"{n}(" in node.value)


def formats_told_apart(tree: ast.AST) -> Iterator[int]:
    """Lines that ask whether something is of a certain format, by name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            parts = [part for side in (node.left, *node.comparators) for part in ast.walk(side)]
            if any(isinstance(part, ast.Constant) and part.value in ("lance", "delta") for part in parts):
                yield node.lineno
        elif isinstance(node, ast.MatchValue) and ast.unparse(node.value) in ("'lance'", "'delta'"):
            yield node.value.lineno


def imported(tree: ast.AST) -> Iterator[str]:
    """Modules that are imported, or imported from."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def loads(tree: ast.AST) -> bool:
    return any(name == LOADER or name.startswith(f"{LOADER}.") for name in imported(tree))


def methods_called(tree: ast.AST) -> set[str]:
    """Names of methods that are called, on whatever object; not on a name that is a plain list."""
    return {
        node.func.attr for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }


def test_a_word_has_one_meaning() -> None:
    found: dict[str, list[str]] = {word: [] for word in WORDS}
    for file, tree in modules():
        for word in found.keys() & set(named(tree)):
            found[word].append(file)
    assert found == {word: [file] if file else [] for word, file in WORDS.items()}


def test_only_one_package_reads_files_of_rows() -> None:
    found = {file: names for file, tree in modules() if (names := sorted(set(readers(tree))))}
    assert any(file.startswith("rowfiles/") for file in found)
    assert {file: names for file, names in found.items() if not file.startswith(MAY_READ)} == {}


def test_nobody_above_formats_asks_which_format_a_table_has() -> None:
    found = [
        f"{file}:{line}"
        for file, tree in modules()
        if file.startswith(ABOVE_FORMATS)
        for line in formats_told_apart(tree)
    ]
    assert found == []


def test_one_loader_of_graphs_serves_every_engine() -> None:
    users = [file for file, tree in modules() if loads(tree) and not file.startswith(MAY_LOAD)]
    assert users, "nobody shuffles for a load"
    assert [file for file in users if not file.startswith(SHUFFLED)] == []


def test_what_a_load_leaves_to_spark_shuffles_and_commits_nothing() -> None:
    shuffled = {file: methods_called(tree) for file, tree in modules() if file.startswith(SHUFFLED)}
    assert {file for file, calls in shuffled.items() if not calls & SHUFFLES} == set()
    assert {file: found for file, calls in shuffled.items() if (found := calls & COMMITS)} == {}


def test_a_graph_knows_engines_by_their_seam_alone() -> None:
    found = [
        file
        for file, tree in modules()
        if file.startswith(("graph/", "lake/")) and file != SEAM
        if any(name.split(".")[0] in ("pyspark", "py4j") or name.startswith("quire.spark") for name in imported(tree))
    ]
    assert found == []


@pytest.mark.parametrize("code", ["import quire.graph.load.merge", "from quire.graph.load.staged import staging"])
def test_a_use_of_the_loader_is_recognised(code: str) -> None:
    assert loads(ast.parse(code))
    assert not loads(ast.parse("from quire.graph.loaders import x"))


def test_a_commit_is_recognised() -> None:
    assert methods_called(ast.parse("with lake.transaction() as tx:\n    tx[name].hand_in(x)")) >= {
        "transaction",
        "hand_in",
    }


@pytest.mark.parametrize(
    "code",
    [
        "import csv",
        "import pyarrow.csv as c",
        "from pyarrow import parquet",
        "from pyarrow.json import read_json",
        "import pyarrow as pa\npa.csv.open_csv(f)",
        "link.read_csv(path)",
        "link.sql(f\"select * from read_parquet('{path}')\")",
    ],
)
def test_a_reader_is_recognised(code: str) -> None:
    assert list(readers(ast.parse(code)))


@pytest.mark.parametrize(
    "code", ["pin.format == 'lance'", "'lance' != f", "f in ('lance', 'delta')", "match f:\n    case 'lance': pass"]
)
def test_a_question_for_the_format_is_recognised(code: str) -> None:
    assert list(formats_told_apart(ast.parse(code)))


def test_a_second_class_is_recognised() -> None:
    assert set(named(ast.parse("class Place: ...\nFound = tuple[int, str]\nclass A:\n    Rows: type = list"))) == {
        "Place",
        "Found",
        "A",
        "Rows",
    }
