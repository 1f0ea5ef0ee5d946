"""Kernels and their parts."""

from __future__ import annotations

from marey.base import kernel, part


@part
def signed_square(x: float) -> float:
    if x < 0.0:
        return -x * x
    return x * x


@kernel
def sum_of_squares(count: int) -> float:
    total = 0.0
    for n in range(count):
        total += signed_square(n - 1.0)
    return total


def test_a_part_works_inside_its_kernel_and_is_not_compiled_alone():
    assert sum_of_squares(5) == -1.0 + 0.0 + 1.0 + 4.0 + 9.0
    assert not signed_square.signatures


def test_division_by_zero_follows_the_rules_of_c():
    @kernel
    def inverse(x: float) -> float:
        return 1.0 / x

    assert inverse(0.0) == float("inf")
