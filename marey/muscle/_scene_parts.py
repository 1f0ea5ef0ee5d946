"""What a scene file holds, table by table: plain data, checked when it is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from marey.base import InputError
from marey.muscle._shapes import Solid, Triple

GRIDS: Final = ("tets", "cubes", "squares")
MATERIALS: Final = ("neo-hookean", "corotational", "mass-spring")
REGIONS: Final = ("voronoi", "cell", "radius")
PROGRAMMES: Final = ("constant", "impulse", "cosine", "wave", "keys", "pulses")


@dataclass(frozen=True, slots=True)
class GridPart:
    """``[mesh]``: how the shape becomes cells, and how finely it is drawn."""

    spacing_m: float
    kind: str = "tets"  # one of GRIDS
    skin_m: float | None = None  # spacing of the drawn surface; None draws the body's own
    thick_m: float = 0.1  # squares: drawn thickness

    def __post_init__(self) -> None:
        _one_of("mesh kind", self.kind, GRIDS)


@dataclass(frozen=True, slots=True)
class MaterialPart:
    """``[material]``: stiffness, mass and damping of the body."""

    model: str = "neo-hookean"  # one of MATERIALS
    young_pa: float = 4e4
    poisson: float = 0.45
    density_kg_m3: float = 1060.0
    damping: tuple[float, float] = (0.1, 0.002)  # Rayleigh: of mass [1/s], of stiffness [s]
    gravity_m_s2: float = 9.82
    integrator: str = "implicit"

    def __post_init__(self) -> None:
        _one_of("material", self.model, MATERIALS)


@dataclass(frozen=True, slots=True)
class GroundPart:
    """``[ground]``: a level floor."""

    height_m: float = 0.0
    friction: tuple[float, ...] = (0.8,)  # one for all, or forwards, backwards and sideways of the body

    def __post_init__(self) -> None:
        if len(self.friction) not in (1, 3) or min(self.friction) < 0.0:
            raise InputError(f"friction {list(self.friction)}", "Write one number, or [forwards, backwards, sideways]")


@dataclass(frozen=True, slots=True)
class PinPart:
    """``[[pin]]``: nodes in an upright box stay where they are."""

    low: Triple
    high: Triple


@dataclass(frozen=True, slots=True)
class StiffPart:
    """``[[stiff]]``: a bone inside the body; cells that meet it are stiffer."""

    points: tuple[Triple, ...]
    radii: tuple[float, ...]
    name: str = ""
    factor: float = 250.0

    def solid(self) -> Solid:
        """The bone as a rod."""
        return Solid("rod", points=self.points, radii=self.radii)


@dataclass(frozen=True, slots=True)
class JointPart:
    """``[[bone]]``: a rigid bone that turns about a hinge, or stands still without one."""

    name: str
    start: Triple  # [m] where it begins: the joint with its parent
    end: Triple  # [m]
    radii: tuple[float, ...] = (0.015,)
    parent: str = ""  # "" is the world
    axis: Triple | None = None  # of the hinge; None: the bone is fixed to its parent
    limits_deg: tuple[float, float] = (-180.0, 180.0)
    mass_kg: float = 1.0
    grip_m: float = 0.01  # nodes nearer to the bone's axis than its radius and this are carried by it
    grip: tuple[Triple, ...] = ()  # two corners of a box instead: nodes in it are carried


@dataclass(frozen=True, slots=True)
class SplinePart:
    """``[[spline]]``: an activation spline and where it acts."""

    name: str
    points: tuple[Triple, ...]
    stiffness: float | None = None  # [N/m]; None: twice that of the host
    samples: int | None = None
    region: str = "voronoi"  # one of REGIONS
    radius_m: float | None = None  # of the region, or its greatest reach
    alpha_min: float = 0.6

    def __post_init__(self) -> None:
        _one_of("region", self.region, REGIONS)
        if len(self.points) < 2:
            raise InputError(f"a spline through {len(self.points)} points", "Give at least two")


@dataclass(frozen=True, slots=True)
class ProgrammePart:
    """``[[programme]]``: what drives a spline over time; alpha is 1 where nothing acts."""

    spline: str
    kind: str  # one of PROGRAMMES
    alpha: float = 1.0  # constant, impulse, pulses: wanted length over rest length
    amplitude: float = 0.0  # cosine, wave
    offset: float = 1.0  # cosine, wave: alpha in the middle
    rate_hz: float = 1.0  # cosine, wave, pulses: times a second
    phase_deg: float = 0.0  # cosine, wave, pulses
    waves: float = 1.0  # wave: waves on the spline
    start_s: float = 0.0  # impulse; all others are passive before it
    width_s: float = 0.2  # impulse; pulses: share of the period
    ramp_s: float = 0.0  # all: time to come up to full strength
    times_s: tuple[float, ...] = ()  # keys
    alphas: tuple[float, ...] = ()  # keys: one a time; constant: one a segment, spread along the spline

    def __post_init__(self) -> None:
        _one_of("programme", self.kind, PROGRAMMES)


@dataclass(frozen=True, slots=True)
class CheckPart:
    """``[[check]]``: a figure of the finished film and what it must be."""

    metric: str
    at_least: float | None = None
    at_most: float | None = None


@dataclass(frozen=True, slots=True)
class ViewPart:
    """``[view]``: from where the film is seen."""

    turn_deg: float = 25.0  # 0 sees +Z run to the right of the picture
    elevation_deg: float = 16.0
    count: int = 8  # bodies on the strip
    layout: str = "auto"  # "auto", "travel", "grid"
    tile_m: float | None = None  # side of a square of the ground


@dataclass(frozen=True, slots=True)
class SceneParts:
    """All tables of a scene file."""

    mesh: GridPart
    solids: tuple[Solid, ...]
    splines: tuple[SplinePart, ...]
    title: str = ""
    seconds: float = 5.0
    rate_hz: float = 60.0
    material: MaterialPart = field(default_factory=MaterialPart)
    ground: GroundPart | None = None
    pins: tuple[PinPart, ...] = ()
    stiff: tuple[StiffPart, ...] = ()
    bones: tuple[JointPart, ...] = ()
    programmes: tuple[ProgrammePart, ...] = ()
    checks: tuple[CheckPart, ...] = ()
    view: ViewPart = field(default_factory=ViewPart)
    measure: Mapping[str, float] = field(default_factory=dict[str, float])  # numbers that metrics ask for


def _one_of(what: str, name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        raise InputError(f"a {what} '{name}'", f"It is one of {', '.join(known)}")
