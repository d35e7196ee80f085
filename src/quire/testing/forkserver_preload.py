"""Loads what a process that works on a lake needs, and uses nothing of it. See `processes`."""

from __future__ import annotations

import importlib
import pkgutil
import warnings

LIBRARIES = ("duckdb", "lance.fragment", "obstore", "pyarrow.acero", "pyarrow.compute", "pyarrow.dataset")
PACKAGES = ("quire.store", "quire.ledger", "quire.formats", "quire.lake", "quire.cli")


def load() -> None:
    for name in LIBRARIES:
        importlib.import_module(name)
    for name in PACKAGES:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)


warnings.filterwarnings("ignore", "lance is not fork-safe")
load()
