"""The protocol that a table format implements. Import its names from `quire.formats`.

The lake decides *whether* two transactions may both commit (by what they did); a format decides *where* rows lie and
moves staged work onto a new base without rewriting data files.
"""
