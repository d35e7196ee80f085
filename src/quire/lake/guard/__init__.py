"""Who may do what: the protocol that every verb of a lake asks, and how an actor's reads are kept to what it may see.

The rules themselves come from above (`quire.policy`). Without a guard nothing here costs anything.
"""

from quire.lake.guard.protocol import NOBODY, Guard, Sight, Who, act_as, acting_now, provided

__all__ = ["NOBODY", "Guard", "Sight", "Who", "act_as", "acting_now", "provided"]
