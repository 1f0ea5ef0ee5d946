"""The shipped model: what it is made of, how it is evaluated, its timing. Needs no captures."""

from __future__ import annotations

import numpy as np
import pytest
from oracles.gait_tables import frequency_at

from marey.base import FormatError, InputError, MissingFileError, UnknownNameError
from marey.lie import SO3, geodesic_distance
from marey.locomotion import EFFECTORS, Engine, LocomotionModel, load_model
from marey.locomotion.fitting.timing import (
    compute_effector_paths,
    detect_unit_events,
    measure_stance_path,
)
from marey.locomotion.model.locomotion_model import SHIPPED_MODEL, expand_gait_arrays, standing_rows
from marey.locomotion.model.synthesis import synthesise_unit
from marey.locomotion.units.gait_unit import rotations_from_rows
from marey.models import principal_components
from marey.models.hierarchy import joint_shares
from marey.motion import Motion, centre_of_mass
from marey.skeleton import joint_positions

WALKS = (0.5, 0.8, 1.1, 1.4, 1.7, 2.0)  # [m/s]
RUNS = (2.0, 2.5, 3.0, 3.5, 4.0)


@pytest.fixture(scope="module")
def model() -> LocomotionModel:
    return load_model()


def random_mixture(model: LocomotionModel, rng: np.random.Generator) -> dict[str, float]:
    names = rng.choice(model.styles, size=rng.integers(1, 5), replace=False)
    return {str(name): float(weight) for name, weight in zip(names, rng.uniform(0.1, 1.0, len(names)), strict=True)}


def left_of_standing(model: LocomotionModel) -> np.ndarray:
    """What the components leave of the exact standing poses ``(K, 2, N, D)``."""
    people, shape = model.styles, model.gaits.base.shape[2:]
    at_rest = [
        [model.tree.row(0.0, running=t, people={name: 1.0}).reshape(shape) for t in (0.0, 1.0)] for name in people
    ]
    return standing_rows(model)[:, None, None] - np.array(at_rest)


def bottom_up(model, left: np.ndarray, speed_n: float, run: float, style: dict[str, float]) -> np.ndarray:
    """The tree from its leaves, with what is kept beside it: exact standing poses."""
    weights = model.weights(style)
    rows = model.tree.row(speed_n, running=run, people=style).reshape(left.shape[2:])
    for k in np.flatnonzero(weights):
        for t, gait in enumerate(("walk", "run")):
            law = model.tree.people[model.styles[k]].leaves[gait].law
            part = weights[k] * (run if t else 1.0 - run)
            below = 1.0 - min(speed_n / law.slowest, 1.0) ** law.power
            rows = rows + part * below * left[k, t]
    return rows


def test_glardon_a1_exponentials_and_logarithms_undo_one_another():
    rng = np.random.default_rng(1)
    axes = rng.normal(size=(100_000, 3))
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    angles = rng.uniform(0.0, np.pi, 100_000)
    angles[:3] = 0.0, 1e-9, np.pi - 1e-9
    vectors = angles[:, None] * axes
    assert np.abs(SO3.exp(vectors).log() - vectors).max() <= 1e-12


def test_glardon_a2_where_lines_may_replace_arcs():
    angles = np.linspace(-np.pi, np.pi, 25)
    y = SO3.exp(angles[:, None] * np.array([0.0, 1.0, 0.0]))
    z = SO3.exp(angles[:, None] * np.array([0.0, 0.0, 1.0]))
    arcs = SO3(y.wxyz[:, None]).slerp(SO3(z.wxyz[None]), 0.5)
    lines = SO3.exp(0.5 * (y.log()[:, None] + z.log()[None]))
    apart = np.rad2deg(geodesic_distance(arcs, lines))
    for limit, printed in ((30, 0.24), (60, 1.99), (90, 6.89), (120, 16.7), (150, 32.4)):
        inside = np.abs(np.rad2deg(angles)) <= limit + 1e-9
        digits = 0.01 if printed < 10 else 0.06
        assert apart[np.ix_(inside, inside)].max() == pytest.approx(printed, abs=digits)


def test_glardon_a3_both_routes_to_components_agree(model):
    rng = np.random.default_rng(2)
    rows = np.stack(
        [
            model.gaits.row(rng.uniform(0.5, 2.0), 0.0, model.weights(random_mixture(model, rng))).ravel()
            for _ in range(24)
        ]
    )
    rows += 1e-3 * rng.normal(size=rows.shape)
    one, two = (principal_components(rows, n_components=12, route=route) for route in ("svd", "gram"))
    np.testing.assert_allclose(one.variances, two.variances, rtol=1e-10)
    beside = two.directions - one.directions @ (one.directions.T @ two.directions)
    assert np.linalg.svd(beside, compute_uv=False).max() < 1e-8  # sine of the largest angle between the subspaces
    whole = principal_components(rows, n_components=23)
    assert np.abs(whole.rows(whole.scores(rows)) - rows).max() <= 1e-10


def test_glardon_a4_multiplied_out_equals_bottom_up(model):
    rng = np.random.default_rng(3)
    left, worst = left_of_standing(model), 0.0
    # Before runs are levelled
    gaits = expand_gait_arrays(
        model.tree, standing_rows(model), model.gaits.means, model.gaits.limits, num_frames=model.gaits.base.shape[2]
    )
    for speed in rng.uniform(0.0, 5.0, 1000):
        style, run = random_mixture(model, rng), float(rng.choice([0.0, 1.0, rng.uniform()]))
        row = gaits.row(float(speed), run, model.weights(style))
        worst = max(worst, float(np.abs(row - bottom_up(model, left, float(speed), run, style)).max()))
    assert worst <= 1e-10


def test_glardon_a5_the_law_is_continuous_and_begins_at_standing(model):
    gaits = model.gaits
    for k in range(len(model.styles)):
        weights = np.eye(len(model.styles))[k]
        for run in (0, 1):
            s = float(gaits.slowest[k, run])
            assert np.abs(gaits.row(s * (1 - 1e-13), run, weights) - gaits.row(s, run, weights)).max() < 1e-12
            rest = gaits.row(0.0, run, weights)
            assert np.abs(rest - standing_rows(model)[k]).max() < 1e-9
            assert np.ptp(rest, axis=0).max() < 1e-9  # one pose at every phase
            law = model.tree.people[model.styles[k]].leaves[("walk", "run")[run]].law
            np.testing.assert_array_equal(law(0.0), law.standing)


def test_standing_feet_are_flat_at_rest_heights_and_bodies_in_balance(model):
    rows = standing_rows(model)
    positions = joint_positions(
        model.skeleton, model.leg_length_m * rows[..., :3], rotations_from_rows(rows, model.gaits.means)
    )
    feet = positions[:, [model.skeleton.index(name) for name in EFFECTORS], 1] / model.leg_length_m
    assert np.abs(feet - model.rest_heights).max() < 1e-4
    roots = model.leg_length_m * rows[:, :3]
    com = centre_of_mass(Motion(model.skeleton, 1.0, roots, SO3(rotations_from_rows(rows, model.gaits.means))))
    ankle, ball = (positions[:, model.skeleton.index(f"left_{part}"), 2] for part in ("ankle", "foot"))
    assert ((com[:, 2] - ankle) / (ball - ankle)).min() > 0.3
    assert ((com[:, 2] - ankle) / (ball - ankle)).max() < 0.5


def test_glardon_a8_no_joint_makes_half_of_the_first_component(model):
    joints = model.skeleton.num_joints
    for name, person in model.tree.people.items():
        for gait, leaf in person.leaves.items():
            lifted = leaf.space.lifting[0] @ person.space.lifting @ model.tree.main.lifting
            columns = lifted.reshape(-1, 3 + 3 * joints)[:, 3:]
            assert joint_shares(columns.ravel(), joints).max() < 0.5, (name, gait)


def test_glardon_a18_the_planted_foot_goes_back_as_fast_as_the_body_goes_on(model):
    for style in (None, *model.styles):
        weights = model.weights(style)
        for run, speeds in ((0, WALKS), (1, RUNS)):
            for speed in speeds:
                s = speed / model.leg_length_m
                rows = synthesise_unit(model.gaits, model.leg_length_m, s, run, weights)
                paths = compute_effector_paths(rows, model.gaits.means, model.skeleton, model.leg_length_m)
                path = measure_stance_path(paths, detect_unit_events(paths, bool(run), model.leg_length_m))
                obtained = frequency_at(model.gaits, s, run, weights) * path
                assert abs(obtained - speed) / speed <= (0.03 if style is not None else 0.045), (style, run, speed)


@pytest.mark.parametrize("speed", [1.5, *RUNS, 4.5])
def test_runs_fall_freely_in_flight_and_carry_their_weight_on_their_feet(model, speed):
    walker, count = Engine(model, speed=speed, run=1.0, plants=False)._walker, 400
    poses = [walker.pose_at(i / count, speed, 1.0, (0.0, 0.0), 0.0) for i in range(count)]
    motion = Motion(model.skeleton, 1.0, np.stack([p for p, _ in poses]), SO3(np.stack([q for _, q in poses])))
    path, hertz = centre_of_mass(motion), walker.frequency(speed, 1.0)
    force = (np.roll(path, -1, axis=0) - 2.0 * path + np.roll(path, 1, axis=0)) * (count * hertz) ** 2 / 9.81
    force[:, 1] += 1.0
    # Steps of the unit's own 50 frames are cubics in the joints: their seams ring by a few hundredths of the weight
    force = np.stack([np.convolve(np.r_[c, c, c], np.full(24, 1 / 24), "same")[count : 2 * count] for c in force.T])
    events, phases = walker.events(speed, 1.0), np.arange(count) / count
    inside = [(phases > a + 0.03) & (phases < b - 0.03) for a, b in ((events[3], events[4]), (events[7], 1.0))]
    flying = inside[0] | inside[1]
    assert flying.any() or speed < RUNS[0]  # the flights of 1.5 m/s are shorter than what is left out at their ends
    assert np.abs(force[:, flying].sum(axis=1)).max() < 0.1 * max(flying.sum(), 1)
    # One hump a stance, as high as people's
    stances = [force[1][(phases > a) & (phases < b)] for a, b in ((events[0], events[3]), (events[4], events[7]))]
    assert all(1.4 < stance.max() < 3.0 for stance in stances)
    assert force[1].min() > -0.1


def test_timings_agree_roughly_and_rise_with_speed(model):
    weights = model.weights()
    for timing in ("stance", "glardon", "inman"):
        gaits = model.with_timing(timing)
        found = [frequency_at(gaits, v / model.leg_length_m, 0.0, weights) for v in WALKS]
        assert np.all(np.diff(found) > 0.0), timing
        assert frequency_at(gaits, 0.0, 0.0, weights) == 0.0
    stance, glardon = (frequency_at(model.with_timing(t), 1.4, 0.0, weights) for t in ("stance", "glardon"))
    assert glardon == pytest.approx(stance, rel=0.2)
    with pytest.raises(UnknownNameError):
        model.with_timing("metronome")


def test_events_are_in_order_within_a_step(model):
    for k in range(len(model.styles)):
        events = model.gaits.events[k]  # (2, G, 8)
        for side in (0, 4):
            assert (np.diff(events[..., side : side + 4], axis=-1) >= -1e-6).all()
        assert (np.abs(events[..., 4] - events[..., 0] - 0.5) < 0.1).all()
        assert (events[1, ..., 3] < events[1, ..., 4]).all()  # runs fly


def test_styles_are_names_mappings_or_the_default(model):
    assert model.weights("35")[model.styles.index("35")] == 1.0
    np.testing.assert_allclose(model.weights({"35": 3.0, "16": 1.0}).sum(), 1.0)
    np.testing.assert_array_equal(model.weights(), model.weights(model.default_style))
    np.testing.assert_array_equal(model.weights("calm"), model.weights("35"))
    assert len(set(model.labels)) == len(model.styles) and not set(model.labels) & set(model.styles)
    with pytest.raises(UnknownNameError, match="35x"):
        model.weights("35x")
    for wrong in ({"35": -1.0}, {"35": float("nan")}, {"35": 0.0}, {}):
        with pytest.raises(InputError):
            model.weights(wrong)


def test_scalings_by_name(model):
    H = 0.5 * model.leg_length_m
    speed_n, factor = model.scales(H)
    assert speed_n == pytest.approx(1.0 / np.sqrt(H * model.leg_length_m)) and factor == pytest.approx(np.sqrt(2.0))
    assert model.scales(H, "leg") == (1.0 / H, 1.0)
    assert 2.0 * model.scales(H, "leg")[0] == pytest.approx(2.0 / H)
    with pytest.raises(UnknownNameError):
        model.scales(H, "area")
    assert model.skeleton_for(H).offsets == pytest.approx(0.5 * model.skeleton.offsets)
    for wrong in (0.0, -1.0, float("nan")):
        with pytest.raises(InputError):
            model.skeleton_for(wrong)


def test_a_model_is_written_and_read_back_byte_for_byte(model, tmp_path):
    model.save(tmp_path / "a.safetensors")
    again = load_model(tmp_path / "a.safetensors")
    again.save(tmp_path / "b.safetensors")
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()
    weights = model.weights({"07": 1.0, "39": 1.0})
    np.testing.assert_allclose(again.gaits.row(1.4, 0.5, weights), model.gaits.row(1.4, 0.5, weights), atol=1e-7)
    assert set(again.jumps) == set(model.jumps)


def test_the_shipped_file_is_small_and_whole(model):
    assert SHIPPED_MODEL.stat().st_size < 1_000_000
    assert len(model.styles) >= 5 and set(model.jumps) == {"walk", "run", "standing"}
    assert (~model.lent).sum(axis=0).min() >= 5  # walks and runs of five people each
    assert model.info["clips"]


def test_a_damaged_file_is_refused_with_its_name(model, tmp_path):
    data = SHIPPED_MODEL.read_bytes()
    file = tmp_path / "cut.safetensors"
    file.write_bytes(data[: len(data) // 2])
    with pytest.raises(FormatError, match="cut"):
        load_model(file)
    with pytest.raises(MissingFileError):
        load_model(tmp_path / "none.safetensors")
    with pytest.raises(InputError):
        model.save(tmp_path / "model.bin")


def test_poses_of_every_style_and_speed_are_finite_and_upright(model):
    head = model.skeleton.index("head")
    for name in model.styles:
        for run, speeds in ((0, (0.0, *WALKS)), (1, RUNS)):
            for speed in speeds:
                s = speed / model.leg_length_m
                rows = synthesise_unit(model.gaits, model.leg_length_m, s, run, model.weights(name))
                p = joint_positions(
                    model.skeleton, model.leg_length_m * rows[..., :3], rotations_from_rows(rows, model.gaits.means)
                )
                assert np.isfinite(p).all()
                assert p[:, head, 1].min() > 1.3
                assert p[..., 1].min() > -0.06
