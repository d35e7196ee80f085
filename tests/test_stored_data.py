"""Stored data is data: nothing that lies in a lake, a file of rows or a mapping is run or unpickled."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from tests.sources import modules

RUNS = {"eval", "exec", "compile", "pickle.load", "pickle.loads", "marshal.load", "marshal.loads", "shelve.open"}
RUNS |= {"cloudpickle.load", "cloudpickle.loads", "yaml.load", "yaml.unsafe_load", "yaml.full_load", "dill.loads"}
RUNS |= {"pickle.Unpickler", "numpy.load", "np.load", "os.system"}

ALLOWED = {
    ("formats/lance/indexes/distributed.py", "pickle.loads"): "the answer of a task that this call started",
    ("formats/lance/indexes/extend.py", "pickle.loads"): "the answer of a task that this call started",
}


def calls(tree: ast.AST) -> Iterator[str]:
    """Names of what is called, or imported by its own name, and can run data."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name in RUNS:
                yield name
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{a.name}" for a in node.names if f"{node.module}.{a.name}" in RUNS)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("eval(text)", ["eval"]),
        ("import pickle\npickle.loads(body)", ["pickle.loads"]),
        ("from pickle import loads", ["pickle.loads"]),
        ("yaml.load(text)", ["yaml.load"]),
        ("yaml.safe_load(text)", []),
        ("pickle.dumps(x)", []),
        ("re.compile(x)", []),
    ],
)
def test_a_call_that_can_run_data_is_recognised(code: str, expected: list[str]) -> None:
    assert list(calls(ast.parse(code))) == expected


def test_nothing_runs_data_except_answers_of_own_tasks() -> None:
    found = {(file, name) for file, tree in modules() if not file.startswith("testing/") for name in calls(tree)}
    assert found == set(ALLOWED), "stored data is decoded with msgspec, Arrow and yaml.safe_load"
