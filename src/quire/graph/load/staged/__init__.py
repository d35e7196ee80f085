"""Rows of a load in files that tasks have staged: they read, type, write and judge them; the commit is made here, once.

inputs         what is read by which task
read_task      a task that reads rows and writes them as data files
pieces         what the tasks have written, by type
clashes        rows whose ids clash, and rows that are new and lack what is required
merging        rows that depend on those that are there: which is which, and what they keep
rejected_rows  rows that are left out, with their places
staging        all of it, in one transaction

Tasks run on any engine (`quire.lake.engines`). What is too much for one task is left to an engine that shuffles.
"""
