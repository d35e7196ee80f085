"""Files as the command line reads them."""

from __future__ import annotations

import sys

import pyarrow as pa

from quire.rowfiles import typed
from quire.rowfiles.kinds import Kind


def read_files(paths: list[str], kind: Kind | None, schema: pa.Schema | None) -> pa.RecordBatchReader:
    return typed.read(typed.row_files(paths, kind, stdin=sys.stdin), schema)
