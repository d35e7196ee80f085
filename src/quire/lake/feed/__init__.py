"""The change feed of a branch: every commit as a block of typed row changes."""
