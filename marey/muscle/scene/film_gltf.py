r"""A film as animated glTF: a rigid motion of the whole, and the rest as a few morph targets.

One target a frame would be exact and huge. The shapes :math:`S_f` of a film, freed from the motion of the whole, lie
near a small linear space, :math:`S_f \approx \bar S + \sum_k w_{fk} B_k` by a singular value decomposition; the file
holds the :math:`B_k` once and the weights over time. Normals and colours follow the same weights by least squares.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray
from marey.io import GltfPack, to_glb
from marey.lie import SO3
from marey.picture import TriangleMesh

if TYPE_CHECKING:
    from marey.muscle.scene.film import Film


TOLERANCE: Final = 2e-3  # [-] greatest error of a point, over the size of the body
MAX_TARGETS: Final = 64
COLOUR_WEIGHT: Final = 0.02  # [-] how much a full change of colour weighs against one body size
VERTICES: Final = 34962
INDICES: Final = 34963


class MorphTargets(NamedTuple):
    """A film in a few numbers a frame."""

    places: FloatArray  # (F, 3) [m] of the whole
    turns: FloatArray  # (F, 4) wxyz
    weights: FloatArray  # (F, K)
    mean: FloatArray  # (N, 3) [m]
    targets: FloatArray  # (K, N, 3) [m]
    colour_mean: FloatArray  # (N, 3)
    colour_targets: FloatArray  # (K, N, 3)
    error_m: float  # greatest of all points and frames


def encode_film_glb(film: Film, frames: NDArray[np.int64]) -> bytes:
    """Content of a `.glb` file that plays the given frames."""
    meshes = [film.mesh(frame) for frame in frames.tolist()]
    shapes = fit_morph_targets(np.stack([m.vertices for m in meshes]), np.stack([m.colours for m in meshes]))
    pack, faces = GltfPack(), meshes[0].faces
    # The mean shape with its normals and colours, then the change of each with every weight.
    attributes = {
        "POSITION": pack.add(_to_float32(shapes.mean), target=VERTICES, bounds=True),
        "NORMAL": pack.add(_to_float32(_normals(shapes.mean, faces)), target=VERTICES),
        "COLOR_0": pack.add(_to_float32(np.clip(shapes.colour_mean, 0.0, 1.0)), target=VERTICES),
    }
    targets: list[dict[str, int]] = []
    for k, shape in enumerate(shapes.targets):
        place = pack.add(_to_float32(shape), target=VERTICES, bounds=True)
        # Change of the normals with one weight, by a difference over its usual size.
        step = max(float(np.abs(shapes.weights[:, k]).max()), 1e-12)
        ahead, back = (_normals(shapes.mean + s * step * shape, faces) for s in (0.5, -0.5))
        normal = pack.add(_to_float32((ahead - back) / step), target=VERTICES)
        colour = pack.add(_to_float32(shapes.colour_targets[k]), target=VERTICES)
        targets.append({"POSITION": place, "NORMAL": normal, "COLOR_0": colour})
    corners = pack.add(np.ascontiguousarray(faces, dtype=np.uint32).reshape(-1), target=INDICES)
    primitive = {"attributes": attributes, "indices": corners, "material": 0, "targets": targets}
    mesh = {"name": film.name, "primitives": [primitive], "weights": [float(w) for w in shapes.weights[0]]}
    # The motion of the whole, and the weights, over time.
    when = pack.add(_to_float32(film.times[frames] - film.times[frames[0]]), bounds=True)
    xyzw = np.roll(shapes.turns, -1, axis=1)
    tracks = {"translation": shapes.places, "rotation": xyzw, "weights": shapes.weights.reshape(-1)}
    samplers = [{"input": when, "output": pack.add(_to_float32(v)), "interpolation": "LINEAR"} for v in tracks.values()]
    channels = [{"sampler": i, "target": {"node": 0, "path": path}} for i, path in enumerate(tracks)]
    root: dict[str, Any] = {
        "asset": {"version": "2.0", "generator": "marey"},
        "scene": 0,
        "scenes": [{"nodes": [0]}],
        "nodes": [
            {  # where the node stands before anything plays
                "name": film.name,
                "mesh": 0,
                "translation": shapes.places[0].tolist(),
                "rotation": np.roll(shapes.turns[0], -1).tolist(),
            }
        ],
        "materials": [{"name": "flesh", "pbrMetallicRoughness": {"metallicFactor": 0.0, "roughnessFactor": 0.6}}],
        "meshes": [mesh],
        "animations": [{"name": film.name, "samplers": samplers, "channels": channels}],
    }
    root |= {"bufferViews": pack.views, "accessors": pack.accessors}
    return to_glb(root, pack.data())


def fit_morph_targets(points: FloatArray, colours: FloatArray) -> MorphTargets:
    """Split points ``(F, N, 3)`` and colours ``(F, N, 3)`` of a film into a motion of the whole and few targets."""
    # The motion of the whole is the best rigid fit to the first frame; shapes (F, N, 3) are what is left.
    places = points.mean(axis=1)
    centred = points - places[:, None]
    u, _, vt = np.linalg.svd(np.einsum("fna,nb->fab", centred, centred[0]))
    flip = np.ones((len(points), 3))
    flip[:, 2] = np.linalg.det(u @ vt)
    turns = SO3.from_matrix(np.einsum("fab,fb,fbc->fac", u, flip, vt)).wxyz
    signs = np.cumprod(np.where(np.sum(turns[1:] * turns[:-1], axis=1) < 0.0, -1.0, 1.0))
    turns = turns * np.concatenate([[1.0], signs])[:, None]
    local = np.einsum("fba,fnb->fna", SO3(turns).matrix(), centred)
    mean, colour_mean = local.mean(axis=0), colours.mean(axis=0)
    size = float(np.linalg.norm(np.ptp(points[0], axis=0)))
    count = len(points)
    moved, painted = (local - mean).reshape(count, -1), (colours - colour_mean).reshape(count, -1)
    together = np.concatenate([moved, COLOUR_WEIGHT * size * painted], axis=1)
    # Orthonormal weights (F, K) whose span holds all rows within the tolerance.
    values, vectors = np.linalg.eigh(together @ together.T)
    vectors = vectors[:, ::-1][:, values[::-1] > 1e-18 * max(float(values[-1]), 1e-300)]
    weights = vectors[:, :MAX_TARGETS]
    for number in range(1, weights.shape[1]):
        kept = vectors[:, :number]
        if np.abs(together - kept @ (kept.T @ together)).max() <= TOLERANCE * size:
            weights = kept
            break
    return MorphTargets(
        places,
        turns,
        weights,
        mean,
        (weights.T @ moved).reshape(-1, *mean.shape),
        colour_mean,
        (weights.T @ painted).reshape(-1, *mean.shape),
        float(np.abs(moved - weights @ (weights.T @ moved)).max(initial=0.0)),
    )


def _normals(points: FloatArray, faces: NDArray[np.int64]) -> FloatArray:
    normals = TriangleMesh(points, faces, np.zeros(points.shape)).normals()
    return np.where(np.linalg.norm(normals, axis=1, keepdims=True) > 0.5, normals, [0.0, 1.0, 0.0])


def _to_float32(values: FloatArray) -> NDArray[np.float32]:
    return np.ascontiguousarray(values, dtype=np.float32)
