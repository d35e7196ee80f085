from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.laboratory.costs import Golden, Laboratory, read

from quire.testing.s3 import SeaweedFS

GOLDEN = Path(__file__).with_name("golden.toml")


@pytest.fixture(scope="session")
def golden() -> Golden:
    return read(GOLDEN)


@pytest.fixture(scope="session")
def laboratory(s3: SeaweedFS) -> Iterator[Laboratory]:
    with Laboratory(s3) as running:
        yield running
