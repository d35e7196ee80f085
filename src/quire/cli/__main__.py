"""`python -m quire.cli` is the `quire` command."""

from quire.cli import main

main()
