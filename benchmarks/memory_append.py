"""Append more data than fits in memory, from an iterator, and report how much memory it took.

    python benchmarks/memory_append.py             10 GB; fails at 1 GB of resident memory or more
    python benchmarks/memory_append.py --gb 0.3    a quick look

The data cannot be compressed, so the lake must be as large as what was appended: at least 90 % of it, by `du`. Peak
resident memory is the kernel's number for the whole process, interpreter and libraries included.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

import quire

GB = 10**9
ROWS_PER_BATCH = 8_192
WIDTH = 1_024
SCHEMA = pa.schema([("id", pa.int64()), ("payload", pa.binary(WIDTH))])


def batches(total: int) -> Iterator[pa.RecordBatch]:
    """About `total` bytes of random rows, one batch at a time."""
    random = np.random.default_rng(0)
    for number in range(-(-total // (ROWS_PER_BATCH * (WIDTH + 8)))):
        ids = np.arange(number * ROWS_PER_BATCH, (number + 1) * ROWS_PER_BATCH)
        payload = pa.py_buffer(random.bytes(ROWS_PER_BATCH * WIDTH))
        column = pa.FixedSizeBinaryArray.from_buffers(pa.binary(WIDTH), ROWS_PER_BATCH, [None, payload])
        yield pa.RecordBatch.from_arrays([pa.array(ids), column], schema=SCHEMA)


def append(place: Path, total: int) -> dict[str, float]:
    """Append `total` bytes to a new lake in one commit; what it took."""
    start = time.monotonic()
    with quire.create(place) as lake:
        with lake.transaction("table") as tx:
            tx.create_table("rows", schema=SCHEMA)
        with lake.transaction("append from an iterator") as tx:
            tx["rows"].append(batches(total))
        rows = lake.snapshot()["rows"].count()
    return {
        "rows": rows,
        "appended_gb": total / GB,
        "lake_gb": disk_use(place) / GB,
        "peak_resident_gb": peak_resident() / GB,
        "seconds": round(time.monotonic() - start, 1),
    }


def disk_use(place: Path) -> int:
    """Bytes on disk, as `du` sees them."""
    found = subprocess.run(["du", "-sk", str(place)], capture_output=True, text=True, check=True)
    return int(found.stdout.split()[0]) * 1024


def peak_resident() -> int:
    """The most memory this program itself held. (On Linux `ru_maxrss` also counts the parent it was started from.)"""
    status = Path("/proc/self/status")
    if status.exists():
        [line] = [x for x in status.read_text().splitlines() if x.startswith("VmHWM:")]
        return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--gb", type=float, default=10.0, help="how much to append (default: 10)")
    parser.add_argument("--limit", type=float, default=1.0, help="peak resident memory in GB that fails (default: 1)")
    parser.add_argument("--directory", type=Path, help="where to make the temporary lake (default: as tempfile)")
    given = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="quire-memory-", dir=given.directory))
    try:
        result = append(directory / "lake", int(given.gb * GB))
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    print(json.dumps(result))
    problems = []
    if result["lake_gb"] < 0.9 * given.gb:
        problems.append(f"the lake holds {result['lake_gb']:.2f} GB of {given.gb} GB")
    if result["peak_resident_gb"] >= given.limit:
        problems.append(f"peak memory {result['peak_resident_gb']:.2f} GB is not below {given.limit} GB")
    for problem in problems:
        print(f"FAILED: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
