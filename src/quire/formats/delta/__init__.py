"""The Delta table format: ordinary Delta tables whose commits become visible through the lake's log."""

from quire.formats.delta.format import DeltaFormat

__all__ = ["DeltaFormat"]
