"""Sculpted limits: a feasible set as a surface that a person can edit, and back to a distance field."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from marey.base import (
    BoolArray,
    FloatArray,
    FormatError,
    InputError,
    IntArray,
    MissingFileError,
    frozen,
    frozen_ints,
    kernel,
    write_atomically,
)
from marey.kinematics.limits.charts import LOG, RotationChart
from marey.kinematics.limits.cones import ReachConeLimits
from marey.kinematics.limits.distance_field import (
    DistanceField,
    FieldGrid,
    field_from_function,
    find_nearest_points,
)
from marey.kinematics.limits.sdf import MAX_SPREAD_RAD, JointField
from marey.lie import SO3
from marey.lie.kernels import Vector, cross, dot, norm, row3, subtract3
from marey.skeleton import Skeleton

CHART_COMMENT = "# chart"  # of an OBJ file: kind, and two quaternions, of the chart of its coordinates
# Six tetrahedra of a cube about its long diagonal (corners by bits x, y, z): neighbours split shared faces alike, so
# the surface has no cracks.
TETRAHEDRA = np.array(
    [[0, 1, 3, 7], [0, 3, 2, 7], [0, 2, 6, 7], [0, 6, 4, 7], [0, 4, 5, 7], [0, 5, 1, 7]], dtype=np.int64
)


@kernel
def iso_triangles(values: FloatArray, level: float) -> IntArray:
    """Triangles ``(T, 3)`` of the surface where a field ``(I, J, K)`` crosses a level, as numbers of grid edges.

    Corners are numbered anticlockwise seen from where the field is higher.
    """
    ni, nj, nk = values.shape
    flat = values.ravel()
    out = np.empty((12 * (ni - 1) * (nj - 1) * (nk - 1), 3), dtype=np.int64)
    count = 0
    corner = np.empty(4, dtype=np.int64)
    # Every cell is cut into six tetrahedra
    for i in range(ni - 1):
        for j in range(nj - 1):
            for k in range(nk - 1):
                for t in range(6):
                    inside = 0
                    for v in range(4):
                        bits = TETRAHEDRA[t, v]
                        corner[v] = ((i + (bits & 1)) * nj + j + (bits >> 1 & 1)) * nk + k + (bits >> 2 & 1)
                        inside += flat[corner[v]] < level
                    if inside != 0 and inside != 4:
                        # The triangles of the tetrahedron: one around a lone corner, two between two pairs
                        # Inner corners first, as an even rearrangement
                        order = np.empty(4, dtype=np.int64)
                        n = 0
                        for below in (True, False):
                            for v in range(4):
                                if (flat[corner[v]] < level) == below:
                                    order[n] = v
                                    n += 1
                        swaps = 0
                        for p in range(4):
                            for q in range(p + 1, 4):
                                swaps += order[p] > order[q]
                        if swaps % 2:
                            if inside == 3:
                                order[0], order[1] = order[1], order[0]
                            else:
                                order[2], order[3] = order[3], order[2]
                        # Edges between inner and outer corners, in the order in which their triangles go round
                        a, b = int(corner[order[0]]), int(corner[order[1]])
                        c, d = int(corner[order[2]]), int(corner[order[3]])
                        if inside == 1:
                            count = _write_triangle(out, count, flat.size, (a, b), (a, c), (a, d))
                        elif inside == 3:
                            count = _write_triangle(out, count, flat.size, (a, d), (b, d), (c, d))
                        else:
                            count = _write_triangle(out, count, flat.size, (a, c), (a, d), (b, d))
                            count = _write_triangle(out, count, flat.size, (a, c), (b, d), (b, c))
    return out[:count]


@kernel
def _write_triangle(
    out: IntArray, count: int, size: int, first: tuple[int, int], second: tuple[int, int], third: tuple[int, int]
) -> int:
    """Write three edges as numbers: smaller node times ``size`` plus the larger one."""
    for i, (a, b) in enumerate((first, second, third)):
        out[count, i] = min(a, b) * size + max(a, b)
    return count + 1


@kernel
def _squared_offset(a: Vector, t: float, b: Vector) -> float:
    """Squared length of ``a - t b``."""
    x, y, z = a[0] - t * b[0], a[1] - t * b[1], a[2] - t * b[2]
    return x * x + y * y + z * z


@kernel
def _triangle_distance_squared(p: Vector, a: Vector, b: Vector, c: Vector) -> float:
    """Squared distance of a point to a triangle, by the region of its nearest feature."""
    ab, ac, ap = subtract3(b, a), subtract3(c, a), subtract3(p, a)
    d1, d2 = dot(ab, ap), dot(ac, ap)
    if d1 <= 0.0 and d2 <= 0.0:
        return dot(ap, ap)
    bp = subtract3(p, b)
    d3, d4 = dot(ab, bp), dot(ac, bp)
    if d3 >= 0.0 and d4 <= d3:
        return dot(bp, bp)
    cp = subtract3(p, c)
    d5, d6 = dot(ab, cp), dot(ac, cp)
    if d6 >= 0.0 and d5 <= d6:
        return dot(cp, cp)
    # The nearest point is on an edge, or inside
    vc, vb, va = d1 * d4 - d3 * d2, d5 * d2 - d1 * d6, d3 * d6 - d5 * d4
    if vc <= 0.0 and d1 >= 0.0 and d3 <= 0.0:
        return _squared_offset(ap, d1 / (d1 - d3), ab)
    if vb <= 0.0 and d2 >= 0.0 and d6 <= 0.0:
        return _squared_offset(ap, d2 / (d2 - d6), ac)
    if va <= 0.0 and d4 - d3 >= 0.0 and d5 - d6 >= 0.0:
        return _squared_offset(bp, (d4 - d3) / ((d4 - d3) + (d5 - d6)), subtract3(c, b))
    n = cross(ab, ac)
    return dot(n, ap) ** 2 / dot(n, n)


@kernel
def mesh_distance(points: FloatArray, vertices: FloatArray, faces: IntArray) -> tuple[FloatArray, IntArray]:
    r"""Signed distance ``(N,)`` of points to a closed mesh, negative inside, and the nearest face of each.

    The sign is that of the generalised winding number, :math:`\frac1{4\pi}\sum\Omega`, which forgives small holes.
    """
    out, nearest = np.empty(points.shape[0]), np.empty(points.shape[0], dtype=np.int64)
    for n in range(points.shape[0]):
        best, angle = np.inf, 0.0
        p = row3(points, n)
        for f in range(faces.shape[0]):
            a, b, c = row3(vertices, faces[f, 0]), row3(vertices, faces[f, 1]), row3(vertices, faces[f, 2])
            d = _triangle_distance_squared(p, a, b, c)
            if d < best:
                best, nearest[n] = d, f
            # Solid angle of the face seen from the point (van Oosterom and Strackee)
            u, v, w = subtract3(a, p), subtract3(b, p), subtract3(c, p)
            lu, lv, lw = norm(u), norm(v), norm(w)
            below = lu * lv * lw + dot(u, v) * lw + dot(v, w) * lu + dot(w, u) * lv
            angle += 2.0 * np.arctan2(dot(u, cross(v, w)), below)
        out[n] = -np.sqrt(best) if angle > 2.0 * np.pi else np.sqrt(best)
    return out, nearest


@kernel
def find_crossing_faces(vertices: FloatArray, faces: IntArray) -> IntArray:
    """Numbers of faces that are pierced by an edge of a face with which they share no corner."""
    count = faces.shape[0]
    # Boxes around the faces rule out most pairs
    low, high = np.empty((count, 3)), np.empty((count, 3))
    for f in range(count):
        for i in range(3):
            low[f, i] = min(vertices[faces[f, 0], i], vertices[faces[f, 1], i], vertices[faces[f, 2], i])
            high[f, i] = max(vertices[faces[f, 0], i], vertices[faces[f, 1], i], vertices[faces[f, 2], i])
    is_bad = np.zeros(count, dtype=np.bool_)
    for f in range(count):
        for g in range(count):
            apart = False
            for i in range(3):
                apart |= low[f, i] > high[g, i] or high[f, i] < low[g, i]
            if apart or f == g:
                continue
            shared = False
            for i in range(3):
                for j in range(3):
                    shared |= faces[f, i] == faces[g, j]
            if shared:
                continue
            a, b, c = row3(vertices, faces[f, 0]), row3(vertices, faces[f, 1]), row3(vertices, faces[f, 2])
            for i in range(3):
                p, q = row3(vertices, faces[g, i]), row3(vertices, faces[g, (i + 1) % 3])
                # Whether the segment passes through the inside of the triangle (Moeller and Trumbore)
                d, e1, e2 = subtract3(q, p), subtract3(b, a), subtract3(c, a)
                h = cross(d, e2)
                det = dot(e1, h)
                if abs(det) < 1e-14:
                    continue
                s = subtract3(p, a)
                u, r = dot(s, h) / det, cross(s, e1)
                v, t = dot(d, r) / det, dot(e2, r) / det
                tiny = 1e-9
                if u > tiny and v > tiny and u + v < 1.0 - tiny and tiny < t < 1.0 - tiny:
                    is_bad[f] = is_bad[g] = True
    return np.flatnonzero(is_bad)


SMOOTHING_FACTORS = (0.5, -0.53)  # Taubin's pair: a step that shrinks, one that swells a little more
CONTAINED_FRACTION = 0.995  # share of the samples that a wrapped surface must hold
ROOM_CELLS = 0.3  # of the spacing: between samples and surface, so that a field of the surface still holds them
MAX_PUSHES = 40
MAX_CHECKED_FACES = 20_000  # the search for crossings looks at all pairs


@final
@dataclass(frozen=True, slots=True, eq=False)
class LimitMesh:
    """A closed surface in the coordinates of a joint's chart; its inside is feasible."""

    vertices: FloatArray  # (V, 3) [rad]
    faces: IntArray  # (F, 3) anticlockwise seen from outside
    chart: RotationChart | None = None  # whose coordinates the vertices are; that of the joint they go to, when None

    def __post_init__(self) -> None:
        object.__setattr__(self, "vertices", frozen(self.vertices, None, 3, name="vertices"))
        object.__setattr__(self, "faces", frozen_ints(self.faces, None, 3, name="faces"))
        if len(self.faces) and (self.faces.min() < 0 or self.faces.max() >= len(self.vertices)):
            raise InputError("a face names a vertex that does not exist", f"Use 0 to {len(self.vertices) - 1}")

    def euler_characteristic(self) -> int:
        """Vertices minus edges plus faces: two for a sphere, zero for a torus."""
        return len(self.vertices) - len(_list_edges(self.faces)) + len(self.faces)

    def check(self) -> None:
        """Refuse a surface that is open, has an edge on more than two faces, or passes through itself.

        Raises:
            InputError: with the faces at fault.
        """
        half = np.concatenate([self.faces[:, [0, 1]], self.faces[:, [1, 2]], self.faces[:, [2, 0]]])
        forward = {(int(a), int(b)) for a, b in half}
        lonely = [i % len(self.faces) for i, (a, b) in enumerate(half.tolist()) if (b, a) not in forward]
        if lonely or len(forward) < len(half) or not len(self.faces):
            raise InputError(f"the surface is not closed and simple at faces {lonely[:8]}", "Close it")
        if len(self.faces) > MAX_CHECKED_FACES:
            raise InputError(f"a surface of {len(self.faces)} faces", f"Simplify it to {MAX_CHECKED_FACES}")
        bad = find_crossing_faces(self.vertices, self.faces)
        if len(bad):
            raise InputError(f"the surface passes through itself at faces {bad[:8].tolist()}", "Pull them apart")

    def distance(self, points: ArrayLike) -> FloatArray:
        """Signed distance ``(N,)`` of points ``(N, 3)``, negative inside."""
        return mesh_distance(frozen(points, None, 3, name="points"), self.vertices, self.faces)[0]

    def moved(self, move: Callable[[FloatArray], FloatArray]) -> LimitMesh:
        """Return the surface with its vertices ``(V, 3)`` moved by a function; checked again."""
        edited = LimitMesh(move(self.vertices.copy()), self.faces, self.chart)
        edited.check()
        return edited

    def save_obj(self, path: str | Path) -> None:
        """Write a Wavefront OBJ file for a modelling program; the chart stands in a comment."""
        rows: list[str] = []
        if self.chart is not None:
            numbers = [*self.chart.before.wxyz.ravel().tolist(), *self.chart.after.wxyz.ravel().tolist()]
            rows.append(" ".join([CHART_COMMENT, str(self.chart.kind), *map(repr, numbers)]))
        rows += [f"v {x:.9g} {y:.9g} {z:.9g}" for x, y, z in self.vertices.tolist()]
        rows += [f"f {a + 1} {b + 1} {c + 1}" for a, b, c in self.faces.tolist()]
        write_atomically(Path(path), "\n".join(rows) + "\n")


def load_obj(path: str | Path) -> LimitMesh:
    """Read the triangles of a Wavefront OBJ file, and check them.

    Raises:
        FormatError: a line cannot be read, or a face has more than three corners.
    """
    if not Path(path).is_file():
        raise MissingFileError(str(path))
    vertices: list[list[float]] = []
    faces: list[list[int]] = []
    chart: RotationChart | None = None
    for number, line in enumerate(Path(path).read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
        word, *rest = line.split() or [""]
        try:
            if word == "v":
                vertices.append([float(x) for x in rest[:3]])
            elif word == "f":
                faces.append([int(x.split("/")[0]) - 1 for x in rest])
            elif line.startswith(CHART_COMMENT):
                kind, *numbers = rest[1:]
                before, after = np.array([float(x) for x in numbers]).reshape(2, 4)
                chart = RotationChart(int(kind), SO3(before), SO3(after))
        except ValueError:
            raise FormatError(f"cannot read '{line[:40]}'", str(path), number, "Write the file again.") from None
        if faces and len(faces[-1]) != 3:
            raise FormatError("a face that is no triangle", str(path), number, "Triangulate the surface.")
    mesh = LimitMesh(np.array(vertices).reshape(-1, 3), np.array(faces, dtype=np.int64).reshape(-1, 3), chart)
    mesh.check()
    return mesh


def iso_surface(field: DistanceField, level: float | None = None) -> LimitMesh:
    """Surface on which a field of three axes has a level, its epsilon by default; closed even at the grid's border.

    Marching tetrahedra; the source uses marching cubes, which can leave cracks. [Engell2012]_ §14.4.
    """
    if not field.grid.is_axis.all():
        raise InputError("a surface of a field with fewer than three axes", "Edit its interval instead")
    grid, at = field.grid, field.epsilon if level is None else level
    padded = np.pad(field.values, 1, constant_values=float(np.abs(field.values).max()) + 1.0)
    return iso_mesh(padded, grid.origin - grid.spacing, grid.spacing, at)


def iso_mesh(values: FloatArray, origin: FloatArray, spacing: FloatArray, level: float) -> LimitMesh:
    """Surface on which values ``(I, J, K)`` on a grid cross a level."""
    keys = iso_triangles(np.ascontiguousarray(values), level)
    edges, faces = np.unique(keys, return_inverse=True)
    a, b = np.divmod(edges, values.size)
    flat = values.ravel()
    part = (level - flat[a]) / (flat[b] - flat[a]) if len(edges) else np.zeros(0)
    at = [np.stack(np.unravel_index(nodes, values.shape), axis=-1) for nodes in (a, b)]
    points = origin + spacing * (at[0] + part[:, None] * (at[1] - at[0]))
    return LimitMesh(points.reshape(-1, 3), faces.reshape(-1, 3))


def icosphere(subdivisions: int = 3) -> LimitMesh:
    """Sphere of radius one from an icosahedron, every face cut in four so many times: 642 vertices for three."""
    # The twelve corners of an icosahedron, its faces seen from outside
    g = 0.5 * (1.0 + np.sqrt(5.0))
    corners = np.array([[0, s, t * g] for s in (-1, 1) for t in (-1, 1)])
    vertices = np.concatenate([np.roll(corners, i, axis=1) for i in range(3)])
    from scipy.spatial import ConvexHull

    faces = np.asarray(ConvexHull(vertices).simplices, dtype=np.int64)
    a, b, c = (vertices[faces[:, i]] for i in range(3))
    inward = np.einsum("ij,ij->i", np.cross(b - a, c - a), a) < 0.0
    faces = np.where(inward[:, None], faces[:, ::-1], faces)
    for _ in range(subdivisions):
        # Every edge gets a vertex in its middle, every face becomes four
        pairs = np.sort(faces[:, [[0, 1], [1, 2], [2, 0]]], axis=-1).reshape(-1, 2)
        edges, ids = np.unique(pairs, axis=0, return_inverse=True)
        middle = ids.reshape(-1, 3) + len(vertices)
        vertices = np.concatenate([vertices, vertices[edges].mean(axis=1)])
        ab, bc, ca = middle.T
        a, b, c = faces.T
        faces = np.concatenate([np.stack(t, axis=-1) for t in ((a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca))])
    return LimitMesh(vertices / np.linalg.norm(vertices, axis=1, keepdims=True), faces)


def shrink_wrap(field: DistanceField, samples: ArrayLike, *, smoothing: int = 10, subdivisions: int = 3) -> LimitMesh:
    """Closed surface around a feasible set: a sphere drawn in along its rays, smoothed, and pushed out again.

    [Engell2012]_ §14.4. Rays that leave the set and enter it again are stopped at the outer side, so dents
    seen from the centre are filled.

    Args:
        field: the set.
        samples: points ``(N, 3)``; at least 99.5 % of them end up inside.
        smoothing: passes of Taubin's filter.
        subdivisions: of the sphere.
    """
    if not (0 <= smoothing <= 10_000 and 0 <= subdivisions <= 7):
        what = f"{smoothing} passes over a sphere of {subdivisions} subdivisions"
        raise InputError(what, "Give at most 10 000 passes and 7 subdivisions")
    inside = field.grid.nodes()[(field.values <= field.epsilon).ravel()]
    if not len(inside) or not field.grid.is_axis.all():
        raise InputError("nothing to wrap: no feasible node, or fewer than three axes", "Use a finer grid")
    points = frozen(samples, None, 3, name="samples")
    centre = np.concatenate([inside, points]).mean(axis=0)
    sphere = icosphere(subdivisions)
    # The radius at which each ray, coming from outside, meets the set
    reach = float(np.linalg.norm(inside - centre, axis=1).max())
    radii = np.full(len(sphere.vertices), 0.02 * reach)
    waiting = np.ones(len(radii), dtype=bool)
    for r in np.linspace(1.2 * reach, 0.0, 200):
        hit = waiting & (field.value(centre + r * sphere.vertices) <= field.epsilon)
        radii[hit], waiting = max(r, 0.02 * reach), waiting & ~hit
    # Taubin's smoothing: each radius towards the mean of its neighbours, and a little more back
    least, pairs = float(radii.min()), _list_edges(sphere.faces)
    ends = np.concatenate([pairs, pairs[:, ::-1]])
    degree = np.bincount(ends[:, 0], minlength=len(radii))
    for _ in range(smoothing):
        for share in SMOOTHING_FACTORS:
            mean = np.bincount(ends[:, 0], weights=radii[ends[:, 1]], minlength=len(radii)) / degree
            radii = radii + share * (mean - radii)
    radii = np.maximum(radii, least)
    # The face through which the ray of each sample leaves the sphere, and its weights over the corners
    away = np.linalg.norm(points - centre, axis=1)
    rays = (points - centre) / np.maximum(away, 1e-12)[:, None]
    away = away + ROOM_CELLS * field.grid.largest_spacing
    inverse = np.linalg.inv(np.swapaxes(sphere.vertices[sphere.faces], 1, 2))
    found, weights = np.zeros(len(rays), dtype=np.int64), np.zeros((len(rays), 3))
    for start in range(0, len(rays), 1000):  # some rays at a time, against memory
        shares = np.einsum("fij,nj->nfi", inverse, rays[start : start + 1000])
        best = np.argmax(shares.min(axis=2), axis=1)
        found[start : start + 1000] = best
        weights[start : start + 1000] = shares[np.arange(len(best)), best]
    # Corners are pushed out along their rays until the surface holds the samples with some room
    corners = sphere.faces[found]
    for _ in range(MAX_PUSHES):
        excess = away * np.sum(weights / radii[corners], axis=1)
        if np.mean(excess > 1.0) <= 0.2 * (1.0 - CONTAINED_FRACTION):
            break
        grown = radii.copy()
        np.maximum.at(grown, corners, radii[corners] * np.maximum(excess, 1.0)[:, None] * (1.0 + 1e-6))
        radii = grown
    return LimitMesh(centre + radii[:, None] * sphere.vertices, sphere.faces)


def field_from_mesh(mesh: LimitMesh, grid: FieldGrid) -> DistanceField:
    """Distance field of the inside of a closed surface; the surface is checked first."""
    mesh.check()
    return field_from_function(grid, mesh.distance)


THIN_CELLS = 4  # cells across an interval that has no axis of its own: a hinge's slack, say
MAX_BRUSH_NODES = 64  # of an axis of a set that a brush has pushed out
FINER = 8  # cells of the grid on which the section of a thin surface is found, to one of the field
THIN_NODES = 10  # of such an axis: the interval and three cells on each side


def build_solid(joint: JointField) -> DistanceField:
    """Field of a joint's set over all three coordinates, whose zero level is the surface of the set.

    A joint of one or two axes has intervals for the other coordinates; here they become thin axes, so that hinges and
    two-axis joints have a surface too. Along thin axes the values are stretched, so that the level is not cut where the
    others end.
    """
    grid, (low, high) = joint.field.grid, joint.across
    if grid.is_axis.all():
        return joint.field
    thin = (high - low) / THIN_CELLS
    stretch = np.where(grid.is_axis, 0.0, max(grid.largest_spacing, 1e-3) / thin)
    solid = FieldGrid(
        np.where(grid.is_axis, grid.shape, THIN_NODES),
        np.where(grid.is_axis, grid.origin, low - 2.5 * thin),
        np.where(grid.is_axis, grid.spacing, thin),
        grid.periodic,
    )

    def distance(points: FloatArray) -> FloatArray:
        beyond = (stretch * np.maximum(low - points, points - high))[:, ~grid.is_axis].max(axis=1)
        return np.maximum(joint.field.value(points) - joint.field.epsilon, beyond)

    return field_from_function(solid, distance, epsilon=0.0)


def resculpt_joint(joint: JointField, mesh: LimitMesh, *, resolution: int | None = None) -> JointField:
    """Return a joint's set replaced by the inside of an edited surface, on a grid around it.

    A surface with a chart of its own, of a joint in another file say, keeps it.
    A joint of one or two axes keeps them: its set is the section of the surface, and its intervals are how thick it is.
    """
    is_axis, chart = joint.field.grid.is_axis, mesh.chart or joint.chart
    low, high = mesh.vertices.min(axis=0), mesh.vertices.max(axis=0)
    nodes = np.where(is_axis, joint.field.grid.shape if resolution is None else resolution, 1)
    spacing = (high - low) / np.maximum(nodes - 5, 1)
    origin = 0.5 * (low + high)
    origin[is_axis] = (low - 2.0 * spacing)[is_axis]
    grid = FieldGrid(nodes, origin, spacing, np.zeros(3, dtype=bool))
    if is_axis.all():
        return replace(joint, chart=chart, field=field_from_mesh(mesh, grid))
    mesh.check()
    # Where a finer grid in the middle of the surface is inside, and how far every node is from there
    finer = FieldGrid(np.where(is_axis, FINER * (nodes - 1) + 1, 1), grid.origin, spacing / FINER, grid.periodic)
    points = finer.nodes()
    is_inside: BoolArray = np.asarray(mesh.distance(points) <= 0.0)
    if not is_inside.any() or is_inside.all():
        raise InputError("the surface does not meet the axes of the joint", "Keep it around where it was")
    outside, inside = (find_nearest_points(points[mask], grid.nodes())[0] for mask in (is_inside, ~is_inside))
    distance = np.where(outside < inside, -inside, outside)
    made = field_from_function(grid, lambda _: distance)
    return replace(joint, chart=chart, field=made, across=np.stack([low, high]))


def brush_joint(joint: JointField, rotation: SO3, *, radius_rad: float, push_rad: float) -> JointField:
    r"""Return a joint's set whose surface is pushed out, or in, around one rotation.

    .. math:: \Phi'(p) = \Phi(p) - a\,(1 - d^2/r^2)^2, \quad d = \|p - p_0\| < r

    A joint of one or two axes keeps them, and :math:`d` is measured along them.

    Args:
        joint: the set; of one, two or three axes.
        rotation: local rotation in the middle of the brush.
        radius_rad: r, reach of the brush [rad].
        push_rad: a, how far the surface moves there [rad]; negative pushes it in.
    """
    if not radius_rad > 0.0:
        raise InputError(f"a brush of radius {radius_rad} rad", "Give more than zero")
    grid, middle = joint.field.grid, joint.chart.coordinates(rotation.reshape(1))[0]
    # The grid grows to hold what is pushed out
    reach = radius_rad if push_rad > 0.0 else 0.0
    low = np.minimum(grid.origin, middle - reach)
    high = np.maximum(grid.origin + grid.spacing * (grid.shape - 1), middle + reach)
    nodes = np.clip(np.ceil((high - low) / grid.spacing).astype(np.int64) + 1, grid.shape, MAX_BRUSH_NODES)
    nodes = np.where(grid.is_axis, nodes, 1)
    spacing = np.where(grid.is_axis, (high - low) / np.maximum(nodes - 1, 1), grid.spacing)
    wider = FieldGrid(nodes, np.where(grid.is_axis, low, grid.origin), spacing, np.zeros(3, dtype=bool))

    def distance(points: FloatArray) -> FloatArray:
        away = np.sum(((points - middle) * grid.is_axis) ** 2, axis=1)
        return joint.field.value(points) - push_rad * np.clip(1.0 - away / radius_rad**2, 0.0, None) ** 2

    made = field_from_function(wider, distance, epsilon=joint.field.epsilon)
    if push_rad <= 0.0:
        return replace(joint, field=made)
    across = np.stack([np.minimum(joint.across[0], middle), np.maximum(joint.across[1], middle)])
    return replace(joint, field=made, across=across)


def draw_joint(
    skeleton: Skeleton, joint: str, corners: ArrayLike, twists_rad: ArrayLike, *, resolution: int = 24
) -> JointField:
    """Set of a joint drawn as a polygon of bone directions, with an interval of twist at each corner.

    [Engell2012]_ §14.4. Between corners the interval is blended by the inverse squared angle to each.

    Args:
        skeleton: whose joint it is.
        joint: its name or role.
        corners: directions ``(M, 3)`` in the parent's frame, around a polygon that is all seen from its middle.
        twists_rad: lowest and highest twist ``(M, 2)`` [rad] about the bone, from the rest pose.
        resolution: nodes of each axis.
    """
    j, corners = skeleton.index(joint), frozen(corners, None, 3, name="corners")
    twists = frozen(twists_rad, len(corners), 2, name="twists_rad")
    if np.any(twists[:, 0] > twists[:, 1]):
        raise InputError(f"a corner of '{joint}' has a lowest twist above its highest", "Exchange them")
    reach = ReachConeLimits.around_bones(skeleton, {skeleton.names[j]: corners})
    directions = corners / np.linalg.norm(corners, axis=1, keepdims=True)
    frame = reach.frames[j]
    bone = frame @ np.array([1.0, 0.0, 0.0])
    # The chart is centred where the bone points to the middle of the polygon with a middling twist
    middle = SO3.from_two_vectors(bone, frame @ reach.inner[j]) @ SO3.exp(twists.mean() * bone)
    chart = RotationChart(LOG, middle.inverse(), SO3.identity())

    def distance(points: FloatArray) -> FloatArray:
        rotations = chart.rotations(points)
        wxyz = np.tile([1.0, 0.0, 0.0, 0.0], (len(points), skeleton.num_joints, 1))
        wxyz[:, j] = rotations.wxyz
        outside = reach.violations(SO3(wxyz))[:, j]
        pointed = rotations @ bone
        # Inside, the angle to the nearest side of the polygon
        normals = np.cross(directions, np.roll(directions, -1, axis=0))
        normals /= np.linalg.norm(normals, axis=1, keepdims=True)
        inside = np.abs(np.arcsin(np.clip(pointed @ normals.T, -1.0, 1.0))).min(axis=1)
        away = np.arccos(np.clip(pointed @ directions.T, -1.0, 1.0))
        weights = 1.0 / np.maximum(away, 1e-6) ** 2
        low, high = (weights @ twists[:, k] / weights.sum(axis=1) for k in (0, 1))
        twist = rotations.twist_angle(bone)
        return np.maximum(np.where(outside > 0.0, outside, -inside), np.maximum(low - twist, twist - high))

    spread = np.arccos(np.clip(directions @ (frame @ reach.inner[j]), -1.0, 1.0)).max()
    half = min(float(np.hypot(spread, 0.5 * np.ptp(twists))) + 0.2, MAX_SPREAD_RAD / np.sqrt(3.0))
    grid = FieldGrid(
        np.full(3, resolution), np.full(3, -half), np.full(3, 2.0 * half / (resolution - 1)), np.zeros(3, dtype=bool)
    )
    return JointField(chart, field_from_function(grid, distance), np.zeros((2, 3)))


def _list_edges(faces: IntArray) -> IntArray:
    """Pairs of corners ``(E, 2)``, the smaller number first."""
    return np.unique(np.sort(faces[:, [[0, 1], [1, 2], [2, 0]]], axis=-1).reshape(-1, 2), axis=0)
