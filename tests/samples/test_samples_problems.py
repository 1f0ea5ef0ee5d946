"""Problems that ship with the product."""

import numpy as np
import pytest

from marey import samples
from marey.base import InputError, UnknownNameError
from marey.spacetime import BehaviourSpace, load_problem


@pytest.mark.parametrize("name", samples.problem_names())
def test_every_shipped_problem_can_be_read_and_has_its_basis(name):
    problem = load_problem(samples.problem_file(name))
    assert problem.name == name
    if problem.basis is not None:
        assert BehaviourSpace.load(problem.basis).dimension >= 6


def test_an_unknown_problem_names_the_nearest():
    with pytest.raises(UnknownNameError, match=r"no problem 'monkeybars'.*'monkey-bars'"):
        samples.problem_file("monkeybars")


def test_a_jump_is_in_the_air_as_long_as_its_rise_takes():
    problem = samples.jump_problem(length_m=0.8, rise_m=0.3)
    flight = next(phase for phase in problem.phases if phase.is_flight)
    assert 9.81 * (flight.duration_s / 2) ** 2 / 2 == pytest.approx(0.3, abs=2e-3)
    assert "turn" in str(samples.jump_problem(turn_deg=180.0).basis)


@pytest.mark.parametrize("bad", [{"rise_m": 0.0}, {"length_m": np.nan}, {"turn_deg": np.inf}])
def test_a_jump_that_is_none_is_refused(bad):
    with pytest.raises(InputError):
        samples.jump_problem(**bad)
