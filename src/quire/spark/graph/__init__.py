"""Loading a graph on Spark: executors read, type, write and judge the rows; the driver commits once.

inputs      what is read by which task
reading     a task that reads rows and writes them as data files
written     what the tasks have written, by type
clashes     rows whose ids clash, and rows that are new and lack what is required
merging     rows that depend on those that are there: which is which, and what they keep
rules       what rows keep or break together
rejects     rows that are left out, with their places
load        all of it, in one transaction
"""

from quire.spark.graph.load import load, load_into

__all__ = ["load", "load_into"]
