"""The thesis's own solver on the thesis's own examples: it gets to the rows, and not to the optimum."""

from __future__ import annotations

from dataclasses import replace

import pytest
from oracles.problems import EXAMPLES

from marey.spacetime import optimize


@pytest.mark.slow
def test_printed_method_reaches_the_monkey_bars() -> None:
    result = optimize(EXAMPLES["monkey-bars"](), solver="fang2003", on_failure="return")
    assert result.violation < 1e-3 and result.iterations < 1330  # what the thesis needed
    assert result.check.is_valid
    assert result.objective > optimize(EXAMPLES["monkey-bars"]()).objective


@pytest.mark.slow
def test_printed_method_nearly_reaches_the_rows_of_the_dismount() -> None:
    """It stalls at 1.1e-3 after 72 iterations: more of them, or more rounds on the rows alone, do not help."""
    problem = replace(EXAMPLES["dismount-0.8"](), max_iterations=650)  # as many as the thesis needed
    result = optimize(problem, solver="fang2003", on_failure="return", time_limit_s=100.0)
    assert result.violation < 2e-3 and result.check.has_physics
    assert result.objective > optimize(EXAMPLES["dismount-0.8"]()).objective
