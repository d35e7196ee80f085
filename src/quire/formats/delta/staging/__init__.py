"""One transaction's work on a Delta table, from statements to a staged commit."""
