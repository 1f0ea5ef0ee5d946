"""The tables of a scene file: plain data, checked when it is read.

Every mistake is named with its file and line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

import numpy as np

from marey.base import (
    FloatArray,
    InputError,
    MareyError,
    UnknownNameError,
    as_number,
    as_table,
    as_text,
    check_keys,
    parse_toml,
    read_record,
    read_records,
    read_tables,
)
from marey.muscle.body.contact import ContactBox
from marey.muscle.body.surface_contact import BodyContact
from marey.muscle.elastic.shapes import Solid, Triple
from marey.muscle.muscles.programmes import ActivationProgramme, programme_from_table
from marey.muscle.muscles.spline import ActivationSpline, Region

GRIDS: Final = ("tets", "cubes", "squares")
MATERIALS: Final = ("neo-hookean", "corotational", "mass-spring")
REGIONS: Final = ("voronoi", "cell", "radius", "painted")


@dataclass(frozen=True, slots=True)
class MeshPart:
    """``[mesh]``: how the shape becomes cells, and how finely it is drawn; or a file of a surface or of tetrahedra."""

    spacing_m: float | None = None  # of solids; of a surface: its longest edge, else as many cells as max_cells allows
    kind: str = "tets"  # one of GRIDS
    file: str = ""  # a surface, which is drawn too, or tetrahedra
    scale: float = 1.0  # [m] length of a unit of the file
    max_cells: int = 3000  # of a surface without spacing_m
    skin_m: float | None = None  # spacing of the drawn surface; None draws the body's own
    thick_m: float = 0.1  # squares: drawn thickness

    def __post_init__(self) -> None:
        _check_choice("mesh kind", self.kind, GRIDS)
        if not self.file and self.spacing_m is None:
            raise InputError("a mesh without spacing_m", "Write spacing_m = 0.02, say, or file = 'body.obj'")
        if self.file and (self.kind != "tets" or self.skin_m is not None):
            raise InputError("a mesh file with kind or skin_m", "A file is filled with tetrahedra and drawn itself")


@dataclass(frozen=True, slots=True)
class MaterialPart:
    """``[material]``: stiffness, mass and damping of the body."""

    model: str = "neo-hookean"  # one of MATERIALS
    young_pa: float = 4e4
    poisson: float | None = None
    density_kg_m3: float = 1060.0
    damping: tuple[float, float] = (0.1, 0.002)  # Rayleigh: of mass [1/s], of stiffness [s]
    gravity_m_s2: float = 9.82
    integrator: str = "implicit"

    def __post_init__(self) -> None:
        _check_choice("material", self.model, MATERIALS)


@dataclass(frozen=True, slots=True)
class GroundPart:
    """``[ground]``: a level floor."""

    height_m: float = 0.0
    friction: tuple[float, ...] = (0.8,)  # one for all, or forwards, backwards and sideways of the body
    axis: Triple = (0.0, 0.0, 1.0)  # forwards of the body at rest
    stiffness: float | None = None  # [N/m] of a node
    smoothing_m_s: float = 1e-3  # below this speed friction is a stiff damper

    def __post_init__(self) -> None:
        if len(self.friction) not in (1, 3) or min(self.friction) < 0.0:
            raise InputError(f"friction {list(self.friction)}", "Write one number, or [forwards, backwards, sideways]")


@dataclass(frozen=True, slots=True)
class SeedPart:
    """``[seed]``: splines along the medial axis, from the thickest place to the ends of limbs, called limb1, limb2, ...

    Those without a programme contract in turn, one after another.
    """

    count: int = 4
    ratio: float = 3.0
    alpha_min: float = 0.5
    amplitude: float = 0.35
    period_s: float = 1.0

    def __post_init__(self) -> None:
        if not 1 <= self.count <= 40:
            raise InputError(f"{self.count} splines to seed", "Give 1 to 40")


@dataclass(frozen=True, slots=True)
class PinPart:
    """``[[pin]]``: nodes in an upright box stay where they are."""

    low: Triple
    high: Triple


@dataclass(frozen=True, slots=True)
class StiffPart:
    """``[[stiff]]``: a bone inside the body, whose cells are stiffer, or a pad with a factor below 1."""

    points: tuple[Triple, ...]
    radii: tuple[float, ...]
    name: str = ""
    factor: float = 250.0

    def solid(self) -> Solid:
        """The bone as a rod."""
        return Solid("rod", points=self.points, radii=self.radii)


@dataclass(frozen=True, slots=True)
class BonePart:
    """``[[bone]]``: a rigid bone that turns about a hinge, or stands still without one."""

    name: str
    start: Triple  # [m] where it begins: the joint with its parent
    end: Triple  # [m]
    radii: tuple[float, ...] = (0.015,)
    parent: str = ""  # "" is the world
    axis: Triple | None = None  # of the hinge; None: the bone is fixed to its parent, unless it is a ball joint
    ball: bool = False  # turns about all axes, up to the second of limits_deg from rest
    limits_deg: tuple[float, float] = (-180.0, 180.0)
    mass_kg: float = 1.0
    grip_m: float = 0.01  # nodes nearer to the bone's axis than its radius and this are carried by it
    grip: tuple[Triple, ...] = ()  # two corners of a box instead: nodes in it are carried


@dataclass(frozen=True, slots=True)
class SplinePart:
    """``[[spline]]``: an activation spline and where it acts; see :class:`marey.muscle.ActivationSpline`."""

    name: str
    points: tuple[Triple, ...]
    stiffness: float | None = None  # [N/m]; None: ``ratio`` times that of the host
    ratio: float = 2.0
    samples: int | None = None
    curve: str = "b-spline"
    region: str = "voronoi"  # one of REGIONS
    metric: str = "geodesic"
    radius_m: float | None = None  # of the region, or its greatest reach
    alpha_min: float = 0.6
    damping_ratio: float = 1.0
    fade: float = 0.0  # share of the length, at each end, over which the activity fades: a belly between tendons
    law: str = "spring"  # or "hill"
    force_n: float | None = None  # greatest force of the Hill law
    optimal_length: float = 1.0  # [-] of the rest length, where the Hill law pulls most
    speed_per_s: float = 10.0  # highest shortening speed of the Hill law, in optimal lengths
    paint: tuple[Triple, ...] = ()  # of region "painted": a line; weights of nodes fall from 1 on it to 0 at paint_m
    paint_m: float | None = None

    def __post_init__(self) -> None:
        _check_choice("region", self.region, REGIONS)
        if not 0.0 <= self.fade <= 0.5:
            raise InputError(f"a spline that fades over {self.fade} of its length", "At most a half at each end")
        if self.region == "radius" and self.radius_m is None:
            raise InputError("a region by radius without radius_m", "Write radius_m = 0.1, say")
        if (self.region == "painted") != bool(self.paint and self.paint_m):
            raise InputError("a painted region needs paint and paint_m", "Write both, and region = 'painted'")
        self.spline(np.zeros((1, 3)))

    def spline(self, nodes: FloatArray) -> ActivationSpline:
        """The spline itself, for a body with nodes ``(V, 3)`` [m] at rest."""
        by_radius = self.region == "radius"
        region: Region = self.region
        if by_radius and self.radius_m is not None:
            region = ("radius", self.radius_m)
        elif self.region == "painted" and self.paint_m is not None:
            line = Solid("rod", points=self.paint, radii=(1e-9,))
            region = np.clip(1.0 - line.distance(nodes) / self.paint_m, 0.0, 1.0)
        reach = None if by_radius else self.radius_m
        given: dict[str, Any] = {name: getattr(self, name) for name in _SHARED_FIELDS}
        return ActivationSpline(np.array(self.points), region=region, max_radius=reach, **given)


# What a spline takes as it stands in its table
_SHARED_FIELDS: Final = tuple(
    f.name for f in fields(SplinePart) if f.name in ActivationSpline.__slots__ and f.name not in ("points", "region")
)


@dataclass(frozen=True, slots=True, eq=False)
class ProgrammePart:
    """``[[programme]]``: what drives a spline over time; the other keys are those of its kind."""

    spline: str
    programme: ActivationProgramme


@dataclass(frozen=True, slots=True)
class CheckPart:
    """``[[check]]``: a figure of the finished film and what it must be."""

    metric: str
    at_least: float | None = None
    at_most: float | None = None


@dataclass(frozen=True, slots=True)
class ViewPart:
    """``[view]``: from where the film is seen."""

    heading_deg: float = 0.0  # what goes this way (0 is +Z, 90 is +X) goes to the right of the picture
    turn_deg: float = 25.0  # how much of its front is seen
    elevation_deg: float = 16.0
    count: int = 8  # bodies on the strip
    layout: str = "auto"  # "auto", "travel", "grid"
    tile_m: float | None = None  # side of a square of the ground


@dataclass(frozen=True, slots=True)
class SceneParts:
    """All tables of a scene file."""

    mesh: MeshPart
    solids: tuple[Solid, ...]
    splines: tuple[SplinePart, ...]
    title: str = ""
    seconds: float = 5.0
    rate_hz: float = 60.0
    material: MaterialPart = field(default_factory=MaterialPart)
    ground: GroundPart | None = None
    contact: BodyContact | None = None
    boxes: tuple[ContactBox, ...] = ()  # steps and slopes on the ground
    seed: SeedPart | None = None
    pins: tuple[PinPart, ...] = ()
    stiff: tuple[StiffPart, ...] = ()
    bones: tuple[BonePart, ...] = ()
    programmes: tuple[ProgrammePart, ...] = ()
    rate_limit: float | None = None  # [1/s] how fast alpha may change
    transfer: str = "conservative"
    checks: tuple[CheckPart, ...] = ()
    view: ViewPart = field(default_factory=ViewPart)
    measure: Mapping[str, float] = field(default_factory=dict[str, float])  # numbers that metrics ask for


def _check_choice(what: str, name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        raise InputError(f"a {what} '{name}'", f"It is one of {', '.join(known)}")


SCENE_VERSION: Final = 1
_KEYS: Final = ("version", "title", "seconds", "rate_hz", "measure", "rate_limit", "transfer", "programme")
_TABLES: Final[Mapping[str, type[Any]]] = {
    "mesh": MeshPart,
    "material": MaterialPart,
    "ground": GroundPart,
    "contact": BodyContact,
    "seed": SeedPart,
    "view": ViewPart,
}
_LISTS: Final[Mapping[str, tuple[str, type[Any]]]] = {
    "solid": ("solids", Solid),
    "stiff": ("stiff", StiffPart),
    "box": ("boxes", ContactBox),
    "pin": ("pins", PinPart),
    "bone": ("bones", BonePart),
    "spline": ("splines", SplinePart),
    "check": ("checks", CheckPart),
}
_POSITIVE: Final = frozenset(
    {"spacing_m", "skin_m", "thick_m", "seconds", "rate_hz", "young_pa", "density_kg_m3", "radii", "mass_kg", "factor"}
    | {"stiffness", "radius_m", "width_s", "alpha_min", "tile_m", "scale", "max_cells", "period_s", "paint_m"}
    | {"force_n", "optimal_length", "speed_per_s"}
)


def parse_scene(text: str, *, file: str = "<scene>") -> SceneParts:
    """Read a scene from TOML text; ``file`` is the name used in error messages."""
    data, place = parse_toml(text, file, positive=_POSITIVE)
    check_keys(data, (*_KEYS, *_TABLES, *_LISTS), place)
    if data.get("version", SCENE_VERSION) != SCENE_VERSION:
        place.fail(f"scene version {data['version']}", f"This marey reads version {SCENE_VERSION}", "version")
    from_file = isinstance(data.get("mesh"), dict) and bool(data["mesh"].get("file"))
    for name in ("mesh",) if from_file else ("mesh", "solid"):
        if name not in data:
            place.fail(f"the scene has no {name}", "Add [mesh] with spacing_m, and at least one [[solid]]")
    if from_file and "solid" in data:
        place.fail("both a mesh file and solids", "Give one", "solid")
    tables = {name: read_record(data[name], kind, place.at(name)) for name, kind in _TABLES.items() if name in data}
    lists = {many: read_records(data, one, kind, place) for one, (many, kind) in _LISTS.items()}
    found: dict[str, Any] = {
        key: as_number(data[key], key, place) for key in ("seconds", "rate_hz", "rate_limit") if key in data
    }
    found |= {key: as_text(data[key], key, place) for key in ("title", "transfer") if key in data}
    if "measure" in data:
        here = place.at("measure")
        found["measure"] = {k: as_number(v, k, here) for k, v in as_table(data["measure"], here).items()}
    # Every [[programme]]: the name of a spline, and a programme with the keys of its kind.
    programmes: list[ProgrammePart] = []
    for number, row in enumerate(read_tables(data, "programme", place)):
        here = place.at("programme", number)
        table = dict(as_table(row, here))
        spline = as_text(table.pop("spline", ""), "spline", here)
        try:
            programmes.append(ProgrammePart(spline, programme_from_table(table)))
        except MareyError as error:
            here.fail(str(error).rstrip("."), "See the kinds of programmes", "kind")
    parts = SceneParts(**tables, **lists, **found, programmes=tuple(programmes))
    if parts.boxes and parts.ground is None:
        place.at("box", 0).fail("boxes without a ground", "Add [ground]", "centre")
    # Names are given once and used as given.
    for kind, items in (("spline", parts.splines), ("bone", parts.bones)):
        names = [item.name for item in items]
        for number, name in enumerate(names):
            if name in names[:number]:
                place.at(kind, number).fail(f"two of [[{kind}]] are called '{name}'", "Names must differ", "name")
    limbs = [f"limb{k + 1}" for k in range(parts.seed.count)] if parts.seed is not None else []
    if not (parts.splines or limbs):
        place.fail("the scene has no spline", "Add [[spline]], or [seed] for splines along the medial axis")
    splines, bones = [*(s.name for s in parts.splines), *limbs], [b.name for b in parts.bones]
    for number, programme in enumerate(parts.programmes):
        if programme.spline not in splines:
            unknown = UnknownNameError("spline", programme.spline, "this scene", splines)
            place.at("programme", number).fail(str(unknown), "Add it with [[spline]]", "spline")
    for number, bone in enumerate(parts.bones):
        if bone.parent and bone.parent not in bones[:number]:
            unknown = UnknownNameError("bone", bone.parent, "the bones before it", bones[:number])
            place.at("bone", number).fail(str(unknown), "Parents come before children", "parent")
    return parts
