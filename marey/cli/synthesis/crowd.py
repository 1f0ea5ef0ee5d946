"""`marey walk --crowd N`: many people of one model, each with a size, a style, a speed and a direction."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from marey.cli.common import progress_bar, remark

if TYPE_CHECKING:
    from marey.motion import Motion

RATE_HZ = 60.0
SPACING_M = 1.5  # between neighbours at the start, in rows
LEGS_M, SPEEDS_MPS, TURNS_RADPS = (0.72, 1.02), (0.7, 1.7), (-0.15, 0.15)


def walk_crowd(count: int, seconds: float, seed: int, model: str | None) -> list[Motion]:
    """Let a crowd walk; size, style, speed and turning of each are drawn."""
    import numpy as np

    from marey.lie import SO3
    from marey.locomotion import Crowd, load_model
    from marey.motion import Motion

    rng = np.random.default_rng(seed)
    gaits = load_model(model)
    side = int(np.ceil(np.sqrt(count)))
    numbers = np.arange(count)
    crowd = Crowd(
        gaits, rng.uniform(*LEGS_M, count),
        styles=[gaits.styles[int(i)] for i in rng.integers(len(gaits.styles), size=count)],
        positions=SPACING_M * np.stack([numbers % side, numbers // side], axis=1).astype(np.float64),
        speeds=rng.uniform(*SPEEDS_MPS, count), phases=rng.uniform(0.0, 1.0, count), plants=True,
    )  # fmt: skip
    crowd.set(turn_rate=rng.uniform(*TURNS_RADPS, count), over_s=1.0)
    frames = max(2, round(seconds * RATE_HZ))
    roots = np.empty((frames, count, 3))
    wxyz = np.empty((frames, *crowd.rotations.shape))
    with progress_bar("crowd") as tell:
        for frame in range(frames):
            roots[frame], wxyz[frame] = crowd.root_positions, crowd.rotations
            crowd.step(1.0 / RATE_HZ)
            tell(frame + 1, frames)
    bodies = [crowd.poses(i).skeleton for i in range(count)]
    return [
        Motion(body, RATE_HZ, roots[:, i], SO3(wxyz[:, i]), name=f"person {i + 1}") for i, body in enumerate(bodies)
    ]


def write_crowd(people: list[Motion], out: str | None, strip: str | None) -> dict[str, Any]:
    """Write one motion file for each person, OUT with a number behind its name, and a picture of all at the end."""
    import numpy as np

    files: list[str] = []
    if out is not None:
        from marey.io import save

        width = len(str(len(people)))
        target = Path(out)
        for number, motion in enumerate(people, 1):
            file = target.with_name(f"{target.stem}-{number:0{width}d}{target.suffix}")
            save(motion, file)
            files.append(str(file))
        remark(f"wrote {files[0]} ... {files[-1]}")
    if strip is not None:
        from marey.picture import render_motion, save_image

        save_image(render_motion(people, people[0].num_frames - 1, spacing_m=0.0), strip)
        remark(f"wrote {strip}")
    steps = [np.linalg.norm(np.diff(one.root_positions[:, [0, 2]], axis=0), axis=1).sum() for one in people]
    speeds = [float(step) / one.duration_s for step, one in zip(steps, people, strict=True)]
    return {"people": len(people), "num_frames": people[0].num_frames, "files": files, "mean_mps": speeds}


def describe_crowd(facts: dict[str, Any]) -> str:
    """Say in one line what was made."""
    speeds = facts["mean_mps"]
    span = f"{min(speeds):.2f} to {max(speeds):.2f} m/s"
    return f"{facts['people']} people  {facts['num_frames']} frames at {RATE_HZ:g} Hz  {span}"
