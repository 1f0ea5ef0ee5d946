"""State of one page: what is open, where the playhead is, what is shown.

A clip is made ready for the page once: world frames of every joint, contacts and path.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from marey.base import BoolArray, FloatArray, InputError
from marey.contacts import ensure_contacts
from marey.dynamics import ValidityReport
from marey.motion import Motion, contact_positions
from marey.skeleton import BodyMesh, capsule_mesh, capsules, contact_points
from marey.studio.document.jobs import OptimisationJob
from marey.studio.document.muscle.lab import MuscleDocument
from marey.studio.document.simulate.arena import SimulationDocument
from marey.studio.document.sketch.editor import SketchEditor
from marey.studio.document.walk import WalkDocument

Float32 = NDArray[np.float32]
TRAIL_POINTS = 400  # enough for a smooth line, few enough for the page


@dataclass(frozen=True, slots=True, eq=False)
class ClipFrames:
    """Data of the view, frame by frame, in float32."""

    motion: Motion  # with contacts
    positions: Float32  # (F, J, 3) [m]
    wxyz: Float32  # (F, J, 4) world rotations
    body: BodyMesh
    contact_names: tuple[str, ...]
    contact_points: Float32  # (F, K, 3) [m]
    contacts: BoolArray  # (F, K)

    @classmethod
    def from_motion(cls, motion: Motion) -> ClipFrames:
        """Solve the forward kinematics of the whole clip and find its contacts if it has none."""
        contacted = motion if motion.contacts is not None else ensure_contacts(motion)
        positions, rotations = motion.joint_frames()
        known = contact_points(motion.skeleton).names
        points = contact_positions(motion)
        names = tuple(n for n in known if contacted.contacts is not None and n in contacted.contacts.names)
        tracks = [] if contacted.contacts is None else [contacted.contacts.track(n) for n in names]
        active = np.stack(tracks, axis=1) if tracks else np.zeros((motion.num_frames, 0), dtype=bool)
        return cls(
            contacted,
            positions.astype(np.float32),
            rotations.wxyz.astype(np.float32),
            capsule_mesh(capsules(motion.skeleton)),
            names,
            points[:, [known.index(n) for n in names]].astype(np.float32),
            active,
        )

    @property
    def num_frames(self) -> int:
        """How many frames there are."""
        return self.motion.num_frames

    def trail(self) -> FloatArray:
        """Path of the root on the ground ``(N, 3)`` [m], thinned for drawing."""
        stride = max(1, self.num_frames // TRAIL_POINTS)
        path = self.motion.root_positions[::stride].copy()
        path[:, 1] = 0.004
        return path


SPEEDS = (0.1, 0.25, 0.5, 1.0, 2.0)  # times real time


@dataclass(slots=True)
class PageDocument:
    """Edited only by the session's worker."""

    label: str = ""
    film: ClipFrames | None = None
    report: ValidityReport | None = None  # of the clip that is open, once it was checked
    task: OptimisationJob | None = None  # a repair or a jump whose end was not seen yet
    walk: WalkDocument | None = None  # characters that are driven live, once there were any
    draft: SketchEditor | None = None  # the sketch that is drawn, once there is one
    arena: SimulationDocument | None = None  # the figure that is simulated, once there was one
    lab: MuscleDocument | None = None  # soft bodies and muscles, once there were any
    frame: float = 0.0  # between frames while playing
    playing: bool = False
    speed: float = 1.0
    loop: bool = True
    shown: dict[str, bool] = field(
        default_factory=lambda: {
            "Body": True,
            "Contacts": True,
            "Trail": True,
            "Follow": True,
            "Forces": True,
            "Mass": True,
        }
    )

    def open(self, label: str, film: ClipFrames) -> None:
        """Show a clip at its first frame; a playing state is kept."""
        self.label, self.film, self.frame, self.report = label, film, 0.0, None

    def seek(self, frame: float) -> None:
        """Move the playhead, held inside the clip; the page may send any number."""
        last = 0.0 if self.film is None else float(self.film.num_frames - 1)
        if not frame == frame:  # a NaN from the page
            raise InputError("the playhead is not a number")
        self.frame = min(max(float(frame), 0.0), last)

    def advance(self, seconds: float) -> None:
        """Let time pass; at the end start again, or stop."""
        if self.film is None or not self.playing:
            return
        last = self.film.num_frames - 1
        frame = self.frame + seconds * self.speed * self.film.motion.rate_hz
        if frame <= last:
            self.frame = frame
        elif self.loop and last > 0:
            self.frame = frame % last
        else:
            self.frame, self.playing = float(last), False

    def set_speed(self, speed: float) -> None:
        """Choose one of SPEEDS."""
        if speed not in SPEEDS:
            raise InputError(f"speed {speed}", f"It is one of {SPEEDS}")
        self.speed = speed

    def show(self, what: str, on: bool) -> None:
        """Switch a part of the picture on or off."""
        if what not in self.shown:
            raise InputError(f"there is no '{what}' to show", f"There are {', '.join(self.shown)}")
        self.shown[what] = bool(on)

    @property
    def live(self) -> WalkDocument | None:
        """The walk, if it is on the stage instead of the clip."""
        return self.walk if self.walk is not None and self.walk.is_on else None

    @property
    def active_simulation(self) -> SimulationDocument | None:
        """The simulation, if it is on the stage instead of the clip."""
        return self.arena if self.arena is not None and self.arena.is_on and self.live is None else None

    @property
    def active_muscles(self) -> MuscleDocument | None:
        """The soft body, if it is shown instead of the clip; it has the lowest precedence."""
        lab, draft = self.lab, self.draft
        is_first = self.live is None and self.active_simulation is None and (draft is None or not draft.is_open)
        return lab if lab is not None and lab.is_on and lab.act is not None and is_first else None

    @property
    def active_mode(self) -> WalkDocument | SimulationDocument | MuscleDocument | None:
        """What passes its own time on the stage instead of the clip, if anything."""
        return self.live or self.active_simulation or self.active_muscles

    @property
    def active_sketch(self) -> SketchEditor | None:
        """The sketch, if it is on the stage instead of the clip."""
        return self.draft if self.draft is not None and self.draft.is_open and self.active_mode is None else None

    @property
    def index(self) -> int:
        """The frame on screen."""
        return round(self.frame)
