"""Above the lake, a name that starts with an underscore belongs to the module that defines it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from tests.sources import modules

ABOVE_THE_LAKE = ("graph/", "pipeline/", "spark/", "client/", "server/", "cli/")

ALLOWED: dict[tuple[str, str], str] = {
    ("cli/completion.py", "_completion_classes"): "Typer has no public place for completions of a shell",
    ("cli/completion.py", "_completion_shared"): "the same",
    ("cli/lazy_group.py", "_click"): "Typer brings its own Click and has no public name for this part",
    ("cli/program.py", "_exit"): "os._exit is public: it ends a process without cleaning up",
    ("spark/attach.py", "_jsparkSession"): "PySpark has no other way to say whether a session is of Spark Connect",
    ("spark/connect_scans.py", "_plan"): "PySpark tells nobody else the plan of a frame",
    ("spark/connect_scans.py", "_session_hooks"): "it has hooks, and no public name for them",
    ("spark/frame_writer.py", "_jwrite"): "PySpark's writers tell nobody else what was said to them",
    ("spark/frame_writer.py", "_write"): "the same",
    ("spark/frame_writer.py", "_df"): "the same",
    ("spark/frame_writer.py", "_spark"): "the same",
    ("spark/jobs.py", "_jsparkSession"): "PySpark has no other way to say whether a session is of Spark Connect",
    ("spark/read.py", "_jsparkSession"): "the same",
    ("spark/scan_rule.py", "_jsparkSession"): "Spark takes rules of its optimizer from the JVM alone",
    ("spark/scan_rule.py", "_jvm"): "the same",
    ("spark/scan_rule.py", "_gateway"): "the same",
    ("spark/scan_rule.py", "_jdf"): "the same",
    ("spark/session_builder.py", "_active_spark_context"): "PySpark has no other way to ask whether Spark runs",
}


def is_private(name: str) -> bool:
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))


def defined(tree: ast.AST) -> set[str]:
    """Private names that a module defines itself: functions, classes, variables, fields, attributes of `self`."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_own(node):
            found.add(node.attr)
    return found


def is_own(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")


def touched(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Private names of others that a module uses."""
    own = defined(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
            yield from ((name, node.lineno) for name in names if is_private(name))
        elif isinstance(node, ast.Attribute) and is_private(node.attr):
            if not is_own(node) and node.attr not in own:
                yield node.attr, node.lineno
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "hasattr", "setattr", "delattr"):
            name = node.args[1].value if len(node.args) > 1 and isinstance(node.args[1], ast.Constant) else None
            if isinstance(name, str) and is_private(name) and name not in own:
                yield name, node.lineno


def uses() -> Iterator[tuple[str, str, int]]:
    for file, tree in modules():
        if file.startswith(ABOVE_THE_LAKE):
            yield from ((file, name, line) for name, line in touched(tree))


def test_nobody_above_the_lake_touches_a_private_name_of_others() -> None:
    found = [f"{file}:{line} {name}" for file, name, line in uses() if (file, name) not in ALLOWED]
    assert not found, f"these names belong to another module: {', '.join(found)}"


def test_no_allowance_outlives_its_use() -> None:
    assert set(ALLOWED) <= {(file, name) for file, name, _ in uses()}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("lake._core", ["_core"]),
        ("tx[name]._edit.work", ["_edit"]),
        ("lake._core = 1", ["_core"]),
        ("from quire.lake.commit.attempt import _take", ["_take"]),
        ("from quire.lake._hidden import name", ["_hidden"]),
        ("getattr(tx, '_names')", ["_names"]),
        ("self._inherited", []),
        ("def _own(): ...\nother._own", []),
        ("class A:\n    def f(self):\n        self._x = 1\n    def g(self, other):\n        return other._x", []),
        ("type(self).__name__", []),
        ("for _ in rows: pass", []),
    ],
)
def test_a_private_name_of_others_is_recognised(code: str, expected: list[str]) -> None:
    assert [name for name, _ in touched(ast.parse(code))] == expected
