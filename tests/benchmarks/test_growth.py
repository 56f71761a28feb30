"""The exponent of a power law."""

import pytest

from benchmarks.growth import exponent


@pytest.mark.parametrize("power", [-1, 0, 1, 2.5])
def test_a_power_law_is_found(power):
    sizes = [3, 5, 11, 40]
    assert exponent(sizes, [7 * size**power for size in sizes]) == pytest.approx(power)


def test_disturbances_of_both_signs_cancel():
    assert exponent([1, 2, 4], [1.1, 4 / 1.1**2, 16 * 1.1]) == pytest.approx(2)


def test_a_mixture_lies_between():
    sizes = [10, 20, 40]
    assert 1 < exponent(sizes, [n + n**2 / 20 for n in sizes]) < 2


@pytest.mark.parametrize(
    ("sizes", "times", "message"),
    [
        ([1, 2], [1.0], "2 sizes and 1 times"),
        ([4, 4], [1.0, 2.0], r"sizes \(\[4, 4\]\) must be two or more different ones"),
    ],
)
def test_impossible(sizes, times, message):
    with pytest.raises(ValueError, match=message):
        exponent(sizes, times)
