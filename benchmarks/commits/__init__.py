"""What a commit costs: Quire beside what one would use instead, in one run on one machine.

    python -m benchmarks.commits                the whole comparison, about a quarter of an hour
    python -m benchmarks.commits --quick        the same with fewer conditions, two minutes

`systems` says how each system appends a batch and `places` where; `latency`, `throughput`, `grouping` and `ledgers` are
what is measured, `runner` how much of it, `promises` what must come out, `report` and `plot` how it is shown.
"""
