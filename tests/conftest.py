from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from quire.testing.s3 import SeaweedFS

pytest_plugins = ["tests.durations", "tests.garbage", "tests.tiers", "tests.shared", "tests.second_look"]

# Java compiles for seconds what the tests run once. `spark-submit` takes these for every JVM that it starts.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# Executors unpickle classes of test modules, wherever the test that started their JVM stood.
ROOT = str(Path(__file__).parent.parent)
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (ROOT, os.environ.get("PYTHONPATH"))))


@pytest.fixture(scope="session")
def s3() -> SeaweedFS:
    """A real S3-compatible server, started for the first test of the run that asks for it, whichever worker that is.

    Everybody works in a folder with a name of its own.
    """
    from tests import shared

    return shared.s3()


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One small Spark session for all tests: two cores, and every task is tried again when it fails.

    It is a Connect server as well, for clients whose executors have Quire: `sc://127.0.0.1:<the port it is bound to>`.
    """
    from tests.spark.servers import free_port

    import quire.spark

    settings = {
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.speculation": "false",
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(free_port()),
    }
    session = quire.spark.session("local[2]", name="quire-tests", memory="2g", settings=settings)
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
