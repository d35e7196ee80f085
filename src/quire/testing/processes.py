"""Real processes for tests, which start within a fraction of a second.

They are forked from a server process that has loaded the libraries and used none of them: object-store clients and
Lance do not survive a fork once they have been used, and a process that starts from nothing loads for a second.

A process has the environment variables of the moment in which the first of them was started.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from multiprocessing import forkserver
from typing import Any


def context(*preload: str) -> Any:
    """The way to start processes, as of `multiprocessing.get_context`. The modules named are loaded beforehand too.

    All processes come from one server: what the first call names counts.
    """
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(["quire.testing.forkserver_preload", *preload])
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(p for p in sys.path if p))
    try:  # the server finds its modules by this variable only
        forkserver.ensure_running()
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
    return found
