"""The recipes of `examples/`: what Airflow runs, models of dbt, and the image of a cluster.

What Airflow calls is run here without Airflow. `make test-recipes` makes an environment with dbt and one with Airflow
below `build/`, and runs the project and the DAG in them.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import quire

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ENVIRONMENTS = os.environ.get("QUIRE_RECIPES")
apart = pytest.mark.skipif(ENVIRONMENTS is None, reason="make test-recipes")


@pytest.fixture
def nightly() -> Any:
    spec = importlib.util.spec_from_file_location("nightly", EXAMPLES / "airflow" / "nightly.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_night_is_loaded_once_in_any_order(nightly: Any, tmp_path: Path) -> None:
    uri, raw = str(tmp_path / "lake"), str(nightly.PIPELINE / "raw" / "day1")
    for _ in range(2):  # every task may run again
        nightly.prepare(uri)
    first = nightly.load(uri, "2026-11-02", raw)
    assert not first["repeated"]
    assert nightly.load(uri, "2026-11-02", raw) == {**first, "repeated": True}
    earlier = nightly.load(uri, "2026-11-01", str(nightly.PIPELINE / "raw" / "day2"))
    assert not earlier["repeated"]
    assert quire.open(uri)["visits"].count() == 2
    assert set(nightly.upkeep(uri)) <= set(quire.open(uri).snapshot().tables())
    assert nightly.upkeep(uri) == []


def test_the_image_of_a_cluster_runs_the_command_line(tmp_path: Path) -> None:
    """Its entry point, with this Python in place of that of the image."""
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
    }
    entry = ["sh", str(EXAMPLES / "spark-cluster" / "entry.sh")]
    done = subprocess.run([*entry, "--version"], capture_output=True, text=True, env=environment)
    assert done.stdout.startswith("quire "), done.stderr


@apart
def test_models_of_dbt_become_tables_in_one_commit(tmp_path: Path) -> None:
    lake = quire.create(tmp_path / "lake")
    visits = [
        {"id": 1, "who": "ada", "pages": 3},
        {"id": 2, "who": "ada", "pages": 4},
        {"id": 3, "who": "bo", "pages": 1},
    ]
    lake.create_table("visits", visits, key="id")
    for _ in range(2):
        command = [f"{ENVIRONMENTS}/dbt/bin/python", str(EXAMPLES / "dbt" / "run.py"), lake.uri]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    found = quire.open(lake.uri)
    assert sorted(map(str, found["pages_by_reader"].to_pylist())) == [
        "{'who': 'ada', 'pages': 7, 'visits': 2}",
        "{'who': 'bo', 'pages': 1, 'visits': 1}",
    ]
    assert found["keen_readers"].to_pylist() == [{"who": "ada", "pages": 7}]
    assert [entry.message for entry in found.log()][:2] == ["dbt build", "dbt build"]


@apart
def test_the_dag_runs_in_airflow(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(EXAMPLES / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
        "NIGHTLY_LAKE": str(tmp_path / "lake"),
    }
    airflow = f"{ENVIRONMENTS}/airflow/bin/airflow"
    for command in (["db", "migrate"], ["dags", "test", "quire_nightly", "2026-11-01"]):
        done = subprocess.run([airflow, *command], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert quire.open(str(tmp_path / "lake"))["visits"].count() == 2
