"""The Lance table format."""

from quire.formats.lance.format import LanceFormat

__all__ = ["LanceFormat"]
