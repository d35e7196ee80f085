from __future__ import annotations

import os

import pytest
from tests.budget import budget


@pytest.fixture(scope="session")
def seconds() -> float:
    """How long a soak lasts: short in the suite, minutes in `make soak`."""
    return float(os.environ.get("QUIRE_SOAK_SECONDS", budget(2, full=15)))
