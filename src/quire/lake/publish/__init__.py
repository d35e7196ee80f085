"""Publishing: who shares a slot, and the record that is written into it."""
