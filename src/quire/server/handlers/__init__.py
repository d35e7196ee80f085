"""What answers the requests: each a thin translation of a verb of the library."""
