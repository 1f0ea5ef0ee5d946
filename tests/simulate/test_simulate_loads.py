"""Ground forces, contacts and joint torques of what was simulated, and the motion for MuJoCo."""

from __future__ import annotations

import numpy as np
import pytest

import marey
from marey.base import InputError
from marey.dynamics import Body
from marey.io.laboratory.opensim import load_table
from marey.simulate import Ground, Recorder, SimulationLoads, Simulator, to_mjcf
from marey.skeleton import Pose

WALK = marey.samples.walk(1.2)[::10]


@pytest.fixture(scope="module")
def fallen() -> SimulationLoads:
    """A figure without control that lands on its feet and folds."""
    body = Body.from_motion(WALK)
    simulator = Simulator(body, None, ground=Ground(), damping="energetic", damping_rate=1.0)
    pose = body.motion(WALK)[0]
    simulator.reset(Pose(pose.skeleton, pose.root_position + np.array([0.0, 0.03, 0.0]), pose.rotations))
    recorder = Recorder(simulator)
    for _ in range(30):
        simulator.step(0.01)
        recorder.record()
    return recorder.loads()


def test_the_ground_and_the_torques_account_for_the_whole_motion(fallen):
    # In the air to rounding; a frame in which limbs swing fast or strike differs from the discrete steps within it
    sizes = np.linalg.norm(fallen.residual[1:-1, :3], axis=1) / fallen.weight_n
    pushed = np.linalg.norm(fallen.wrenches[..., :3].sum(axis=1), axis=1) / fallen.weight_n
    assert sizes[:3].max() < 1e-9
    assert np.linalg.norm(fallen.residual[1:-1, :3].sum(axis=0)) < 0.05 * fallen.weight_n * pushed.sum()
    assert pushed.max() > 0.5


def test_nothing_is_pushed_in_the_air(fallen):
    assert fallen.motion.contacts is not None
    in_air = ~fallen.motion.contacts.active[1:].any(axis=1)
    assert in_air.any() and not in_air.all()
    assert np.abs(fallen.wrenches[:-1][in_air]).max() == 0.0


@pytest.mark.parametrize("suffix", [".csv", ".mot"])
def test_tables_hold_forces_contacts_and_torques(fallen, tmp_path, suffix):
    path = fallen.save(tmp_path / f"loads{suffix}")
    if suffix == ".csv":
        names = path.read_text().splitlines()[0].split(",")
        values = np.loadtxt(path, delimiter=",", skiprows=1)
    else:
        table = load_table(path)
        names, values = list(table.names), table.values
    assert len(values) == fallen.motion.num_frames
    assert np.allclose(values[:, names.index("ground_force_r_vy")], fallen.wrenches[:, 0, 1], rtol=1e-6)
    knee = fallen.motion.skeleton.index("left_knee")
    assert np.allclose(values[:, names.index("left_knee_torque_x")], fallen.torques[:, knee, 0], rtol=1e-6, atol=1e-6)
    assert set(np.unique(values[:, names.index("contact_left_heel")])) <= {0.0, 1.0}
    # The centre of pressure and the free moment give the wrench back
    columns = [values[:, [names.index(f"ground_{kind}") for kind in kinds]] for kinds in (
        ("force_l_vx", "force_l_vy", "force_l_vz"), ("force_l_px", "force_l_py", "force_l_pz"),
        ("torque_l_x", "torque_l_y", "torque_l_z"))]  # fmt: skip
    assert np.allclose(np.cross(columns[1], columns[0]) + columns[2], fallen.wrenches[:, 1, 3:], atol=1e-4)


def test_another_suffix_is_refused(fallen, tmp_path):
    with pytest.raises(InputError, match="cannot write"):
        fallen.save(tmp_path / "loads.xlsx")


def test_mujoco_poses_each_key_frame_as_the_motion_does():
    mujoco = pytest.importorskip("mujoco")
    body = Body.from_motion(WALK)
    motion = body.motion(WALK)
    model = mujoco.MjModel.from_xml_string(to_mjcf(body, pose=motion[0], motion=motion))
    data = mujoco.MjData(model)
    assert model.nkey == motion.num_frames
    for f in range(0, motion.num_frames, 5):
        mujoco.mj_resetDataKeyframe(model, data, f)
        mujoco.mj_forward(model, data)
        places = np.array([data.body(name).xpos for name in body.skeleton.names])
        assert np.abs(places - motion.joint_positions()[f]).max() < 1e-9
        assert data.time == pytest.approx(f / motion.rate_hz)
