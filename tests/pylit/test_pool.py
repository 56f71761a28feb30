"""Work on many items, in several processes."""

import multiprocessing
import os

import pytest

from pylit.site.pool import FEW, run


class Power:
    """Made once in each process."""

    def __init__(self, exponent):
        self.exponent = exponent

    def __call__(self, item):
        if item < 0:
            raise ValueError(f"{item} is negative")
        return item**self.exponent, os.getpid()


@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_every_item_has_its_result_in_order(jobs):
    items = list(range(2 * FEW))
    results = list(run(Power(3), items, jobs))
    assert [value for value, _ in results] == [n**3 for n in items]
    processes = {process for _, process in results}
    assert (os.getpid() in processes) == (jobs == 1)


def test_a_fault_in_another_process_arrives_here_and_leaving_early_ends_them_all():
    with pytest.raises(ValueError, match="-1 is negative"):
        list(run(Power(2), [*range(FEW), -1], 2))
    results = run(Power(2), list(range(50)), 2)
    next(results)
    results.close()  # type: ignore[attr-defined]
    assert not multiprocessing.active_children()
