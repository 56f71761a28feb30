"""How fast, beside the packages that people would use instead: in one run, on one machine.

    make bench
    python -m benchmarks.feedback --threads 2

`contest` lets forms of the same work take turns, `memory` finds the most that tensors take,
`growth` fits how time grows, `machine` says what it was measured on, `peers` brings the rivals,
`record` keeps the numbers for the page of the site. The others are the benchmarks.
"""
