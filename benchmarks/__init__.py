"""Speed and memory beside the packages that one would use instead, in one run on one machine.

    make bench                                  # all, with two threads, on an idle machine
    python -m benchmarks feedback elman         # these
    python -m benchmarks --quick                # tiny sizes: does it run?

`harness` times implementations in turns and records the results, `peers` installs and imports the
packages to compare with; each other module is one benchmark. The page "Performance" shows the
record.
"""
