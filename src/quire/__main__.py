"""`python -m quire` is the `quire` command."""

from quire_command import main

main()
