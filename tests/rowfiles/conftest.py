"""Commands that read and write files of rows."""

from __future__ import annotations

from tests.cli.conftest import here, lake, run, template

__all__ = ["here", "lake", "run", "template"]
