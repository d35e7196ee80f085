"""Reading: a snapshot, its tables, SQL, search, diff and export."""
