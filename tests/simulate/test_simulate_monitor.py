"""The log of a simulation: its numbers, its table, its picture, and the scenario of the source."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from marey import samples
from marey.base import InputError, MissingFileError, UnknownNameError
from marey.dynamics import GRAVITY, Body
from marey.models import PGA
from marey.simulate import Monitor, SimulationLog, Simulator, momentum_scenario
from marey.simulate.monitor import COLUMNS, plot_logs


@pytest.fixture(scope="module")
def figure():
    walk = samples.walk()
    return Body.from_motion(walk), PGA(n_components=6).fit(walk)


@pytest.fixture(scope="module")
def logs(figure) -> dict[str, SimulationLog]:
    body, model = figure
    return momentum_scenario(body, model, dt=0.05, steps=20)


def test_the_scenario_logs_each_integrator(logs):
    assert list(logs) == ["naive", "identity", "constant"]
    for log in logs.values():
        assert log.times[-1] == pytest.approx(1.0)
        assert len(log.times) == 20
        np.testing.assert_allclose(log.linear, np.tile([0.0, 0.0, 2.0], (20, 1)), atol=1e-12)
        assert (log.substeps == 1.0).all()
        assert (log.potential_j == 0.0).all()
    assert logs["constant"].angular_drift <= 1e-12
    assert logs["constant"].angular_drift < logs["identity"].angular_drift < logs["naive"].angular_drift


def test_the_struck_body_moves_with_the_impulse_over_its_mass(figure, logs):
    body, _ = figure
    com = logs["constant"].com
    np.testing.assert_allclose((com[-1] - com[0]) / (19 * 0.05), (0.0, 0.0, 2.0 / body.mass_kg), atol=1e-12)


@pytest.mark.mocap
def test_the_scenario_has_the_drifts_that_were_measured_on_the_fixture(d1_body, d1_model):
    """[M] of the specification: 0.44, 0.21 and 0.060 of a prototype; the same order and size."""
    logs = momentum_scenario(d1_body, d1_model, root="pelvis")
    naive, identity, constant = (log.angular_drift for log in logs.values())
    assert naive == pytest.approx(0.363, abs=0.01)
    assert identity == pytest.approx(0.157, abs=0.01)
    assert constant == pytest.approx(0.050, abs=0.005)
    spurious = [np.abs(log.angular[:, 2]).max() for log in logs.values()]
    assert spurious[2] < 0.1 * spurious[1] < 0.1 * spurious[0]  # almost none along Z, fig. 11.3
    ratios = [log.kinetic_j[-1] / log.kinetic_j[0] for log in logs.values()]
    assert max(ratios) < 1.4


def test_a_falling_body_keeps_its_energy(figure):
    body, model = figure
    simulator = Simulator(body, model)
    monitor = Monitor(simulator)
    for _ in range(50):
        simulator.step(0.01)
        monitor.record()
    log = monitor.log()
    np.testing.assert_allclose(log.energy_j, log.energy_j[0], atol=1e-9 * body.mass_kg * GRAVITY)
    assert log.kinetic_j[-1] == pytest.approx(0.5 * body.mass_kg * (GRAVITY * 0.5) ** 2, rel=1e-9)
    np.testing.assert_allclose(np.diff(log.linear[:, 1]) / 0.01, -body.mass_kg * GRAVITY, rtol=1e-9)


def test_the_table_holds_every_digit(logs, tmp_path):
    path = logs["naive"].save_csv(tmp_path / "log.csv")
    with path.open(encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert tuple(header) == COLUMNS
    table = np.array(rows, dtype=np.float64)
    assert np.array_equal(table[:, 0], logs["naive"].times)
    assert np.array_equal(table[:, 6:9], logs["naive"].angular)
    assert np.array_equal(table[:, 12], logs["naive"].substeps)
    with pytest.raises(MissingFileError):
        logs["naive"].save_csv(tmp_path / "nowhere" / "log.csv")


def test_the_picture_has_a_line_for_each_log_in_each_panel(logs, tmp_path):
    figure = plot_logs(logs, tmp_path / "logs.png")
    assert (tmp_path / "logs.png").stat().st_size > 10_000
    assert [len(axis.get_lines()) for axis in figure.axes] == [3, 3, 3, 3]
    drawn = np.asarray(figure.axes[0].get_lines()[2].get_ydata(), dtype=np.float64)
    np.testing.assert_array_equal(drawn, logs["constant"].energy_j)
    alone = logs["constant"].plot(tmp_path / "one.svg")
    assert alone.axes[0].get_legend() is None
    with pytest.raises(InputError):
        plot_logs({})


def test_nothing_is_recorded_before_the_first_step(figure):
    body, model = figure
    monitor = Monitor(Simulator(body, model))
    with pytest.raises(InputError, match="no step"):
        monitor.record()
    empty = monitor.log()
    assert len(empty.times) == 0
    assert empty.angular_drift == 0.0


def test_the_scenario_refuses_what_it_cannot_do(figure):
    body, model = figure
    with pytest.raises(InputError, match="steps"):
        momentum_scenario(body, model, steps=0)
    with pytest.raises(UnknownNameError, match="integrator"):
        momentum_scenario(body, model, integrators=("explicit",))  # pyright: ignore[reportArgumentType]
    with pytest.raises(UnknownNameError, match="joint"):
        momentum_scenario(body, model, joint="tail")
    with pytest.raises(InputError):
        momentum_scenario(body, model, impulse_ns=(0.0, np.nan, 0.0))
    with pytest.raises(InputError, match="dt"):
        momentum_scenario(body, model, dt=0.0)


def test_tournier_71_the_scenario_gives_the_same_bytes_twice(figure, logs, tmp_path):
    body, model = figure
    again = momentum_scenario(body, model, dt=0.05, steps=20)
    for name, log in logs.items():
        first, second = log.save_csv(tmp_path / "a.csv"), again[name].save_csv(tmp_path / "b.csv")
        assert first.read_bytes() == second.read_bytes()
