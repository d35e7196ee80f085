"""What a caller says about searches of vectors."""

from __future__ import annotations

from dataclasses import dataclass

from quire.arguments import bounded


@dataclass(frozen=True)
class Settings:
    """How vectors are searched."""

    exact: bool = False
    """Look at every vector: the answer does not depend on an index."""
    nprobes: int = 64
    """Partitions of an index that are searched."""
    refine: int = 4
    """Candidates that Lance itself ranks by exact distance, for each that it returns."""

    @classmethod
    def of(cls, exact: bool, nprobes: int | None, refine: int | None) -> Settings:
        """Of what a caller said; None for the usual."""
        return cls(
            exact,
            cls.nprobes if nprobes is None else bounded("nprobes", nprobes, 1),
            cls.refine if refine is None else bounded("refine", refine, 1),
        )
