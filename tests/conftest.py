from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from quire.testing.s3 import SeaweedFS


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that need Spark, in this process or in another, come first.

    Its JVM is started by a fork, which fails in a process whose address space has outgrown the machine, and that is
    where some of the tests with hostile input leave it.
    """
    items.sort(key=lambda item: "spark" not in getattr(item, "fixturenames", ()) and "spark" not in item.path.parts)


@pytest.fixture(scope="session")
def s3() -> Iterator[SeaweedFS]:
    """A real S3-compatible server, started for the first test that asks for it.

    Every pytest-xdist worker is a session of its own, with its own server, ports and directory.
    """
    with SeaweedFS() as server:
        yield server


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One small Spark session for all tests: two cores, and every task is tried again when it fails."""
    import quire.spark

    settings = {"spark.sql.shuffle.partitions": "2", "spark.driver.host": "127.0.0.1", "spark.speculation": "false"}
    session = quire.spark.session("local[2]", name="quire-tests", memory="2g", settings=settings)
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
