"""Vectors that stored texts lack, from the command line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run
from tests.graph.embed.service import serving

import quire
from quire.graph.embed import HashEmbedder

SCHEMA = 'node Doc { key: String @key  text: String?  vec: Vector(4)? @embed("text", model="hash-4") }'


@pytest.fixture
def docs(tmp_path: Path) -> str:
    lake = str(tmp_path / "docs")
    with quire.create(lake) as made:
        graph = quire.Graph(made)
        graph.apply_schema(SCHEMA)
        graph.load([{"type": "Doc", "data": {"key": key, "text": f"text {key}"}} for key in "abc"])
    return lake


def test_the_vectors_that_lack_are_made(run: Run, docs: str) -> None:
    options = ("--embedder", "hash:4", "--rows-per-commit", "2", "-m", "vectors", "--meta", "job=7", "--json")
    found = run("embed", docs, *options).json
    assert found["rows"] == {"Doc.vec": 3}
    with quire.open(docs) as lake:
        last, before = lake.log(limit=2)
        assert [before.id, last.id] == found["commits"]
        assert (last.message, dict(last.metadata)) == ("vectors", {"job": "7"})
        for row in lake["node:Doc"].to_pylist():
            assert row["vec"] == pytest.approx(HashEmbedder(4).embed([row["text"]])[0])
    assert "no text lacks a vector" in run("embed", docs, "--embedder", "hash:4").out


def test_what_is_wrong_says_what_to_do(run: Run, docs: str) -> None:
    assert "--embedder" in run("embed", docs, code=6).err
    assert "hash-4" in run("embed", docs, "Doc", "--embedder", "hash:8", code=None).err
    assert run("embed", docs, "Doc", "--embedder", "hash:4").lines()[1] == ["Doc.vec", "3"]


def test_ctrl_c_keeps_what_was_committed_and_the_next_run_makes_the_rest(run: Run, docs: str) -> None:
    with serving() as service:

        def interrupted(request: dict[str, Any]) -> Any:
            process.send_signal(signal.SIGINT)
            return 503, {}, {"Retry-After": "30"}

        service.script = [lambda request: (200, service.vectors(request["input"]), {}), interrupted]
        words = ["embed", docs, "--embedder", "openai:hash-4:4", "--rows-per-commit", "2"]
        process = subprocess.Popen(
            [sys.executable, "-m", "quire.cli", *words],
            env={**os.environ, "OPENAI_BASE_URL": service.url},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, b"")
    assert b"vectors that were committed stay" in err
    assert b"Traceback" not in err
    assert run("embed", docs, "--embedder", "hash:4", "--json").json["rows"] == {"Doc.vec": 1}
