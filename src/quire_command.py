"""The `quire` command. It lies outside of the package so that Ctrl-C ends it in order while the package is imported."""

from __future__ import annotations

import os
import sys


def main() -> None:
    try:
        from quire.cli import main as run
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; nothing was committed\n")
        sys.stderr.flush()
        os._exit(130)
    run()


if __name__ == "__main__":
    main()
