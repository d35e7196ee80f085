"""What lies in versions of a Lance table: differences, files, contents."""
