from __future__ import annotations

from collections.abc import Iterator

import pytest

from quire.testing.s3 import SeaweedFS


@pytest.fixture(scope="session")
def s3() -> Iterator[SeaweedFS]:
    """A real S3-compatible server, started for the first test that asks for it.

    Every pytest-xdist worker is a session of its own, with its own server, ports and directory.
    """
    with SeaweedFS() as server:
        yield server
