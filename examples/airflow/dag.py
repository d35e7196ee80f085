"""A nightly load as a DAG of Airflow (2.9 or newer). Copy this folder and `../pipeline` to where Airflow finds DAGs.

Quire has to be installed where tasks run: `pip install 'quire[spark]'`. The variables of the environment say where.
"""

from __future__ import annotations

import os
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

try:
    from airflow.sdk import dag, task
except ImportError:  # Airflow 2
    from airflow.decorators import dag, task

HERE = Path(__file__).resolve().parent
LAKE = os.environ.get("NIGHTLY_LAKE", "/data/lake")
RAW = os.environ.get("NIGHTLY_RAW", str(HERE.parent / "pipeline" / "raw" / "day1"))
MASTER = os.environ.get("NIGHTLY_MASTER")  # spark://host:7077; this process without one


def work() -> Any:
    """The functions of `nightly.py`, which lies beside this file."""
    if str(HERE) not in sys.path:
        sys.path.insert(0, str(HERE))
    import nightly

    return nightly


@dag(schedule="@daily", start_date=datetime(2026, 11, 1), catchup=False, tags=["quire"])
def quire_nightly() -> None:
    @task
    def prepare() -> None:
        work().prepare(LAKE)

    @task(retries=3, retry_delay=timedelta(minutes=1))
    def load(ds: str | None = None) -> dict[str, Any]:
        # A commit whose outcome is unknown is settled by its token when the task is tried again.
        done: dict[str, Any] = work().load(LAKE, ds, RAW, MASTER)
        return done

    @task
    def upkeep() -> list[str]:
        merged: list[str] = work().upkeep(LAKE, MASTER)
        return merged

    prepare() >> load() >> upkeep()


quire_nightly()
