"""Films on disk: arrays, mesh sequences, animated glTF and pictures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from marey.base import InputError, MissingFileError
from marey.picture import write_atomically

if TYPE_CHECKING:
    from marey.muscle._film import Film

FILM_FPS: Final = 30.0  # frames a second of what is written, if nothing is said
SEQUENCE_SUFFIXES: Final = (".ply", ".obj")
FILM_FILE_SUFFIXES: Final = (".glb", ".npz", *SEQUENCE_SUFFIXES, ".png", ".gif", ".mp4")


def save_film_file(film: Film, path: Path, fps: float | None, width: int | None) -> Path:
    """Write a film as its suffix says."""
    suffix = path.suffix.lower()
    if suffix not in FILM_FILE_SUFFIXES:
        raise InputError(f"'{path.name}' has no suffix that can be written", f"Use {', '.join(FILM_FILE_SUFFIXES)}")
    if not path.resolve().parent.is_dir():
        raise MissingFileError(str(path.parent), "Make the folder first.")
    if fps is not None and not 0.0 < fps <= 1000.0:
        raise InputError(f"a film of {fps} frames a second", "Ask for more than 0 and at most 1000")
    if suffix == ".npz":
        return write_atomically(path, lambda draft: _write_arrays(film, draft))
    if suffix in SEQUENCE_SUFFIXES:
        return _write_sequence(film, path, select_frames(film, fps or FILM_FPS))
    if suffix == ".glb":
        from marey.muscle._film_gltf import encode_film_glb

        content = encode_film_glb(film, select_frames(film, fps or FILM_FPS))
        return write_atomically(path, lambda draft: draft.write_bytes(content))
    from marey.muscle._film_pictures import save_strip, save_video

    return save_strip(film, path, width) if suffix == ".png" else save_video(film, path, fps or FILM_FPS, width)


def select_frames(film: Film, fps: float) -> NDArray[np.int64]:
    """Frames that show a film at ``fps``: the nearest to each instant, never more than there are."""
    count = max(1, round(float(film.times[-1] - film.times[0]) * min(fps, film.rate_hz)) + 1)
    return np.unique(np.linspace(0, film.num_frames - 1, count).round().astype(np.int64))


def _write_arrays(film: Film, draft: Path) -> None:
    bones = {"bone_ends": film.bones.ends, "bone_radii": film.bones.radii, "bone_angles": film.bones.angles}
    skin = {"skin_nodes": film.skin.nodes, "skin_weights": film.skin.weights, "skin_faces": film.skin.faces}
    arrays: dict[str, Any] = bones | skin
    arrays["metric_names"] = np.array(list(film.metrics), dtype=np.str_)
    arrays["metrics"] = np.array(list(film.metrics.values()), dtype=np.float64)
    with draft.open("wb") as file:
        np.savez_compressed(
            file,
            times=film.times,
            positions=film.positions.astype(np.float32),
            alphas=film.alphas,
            skin_offsets=film.skin.offsets,
            **arrays,
        )


def _write_sequence(film: Film, path: Path, frames: NDArray[np.int64]) -> Path:
    """One numbered file a frame in a folder named like the film; the folder must not exist, or be empty."""
    folder, suffix = path.with_suffix(""), path.suffix.lower()
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"the folder '{folder}' is not empty", "Choose another name, or empty it")
    folder.mkdir(exist_ok=True)
    content = _encode_ply if suffix == ".ply" else _encode_obj
    for number, frame in enumerate(frames.tolist()):
        mesh = film.mesh(frame)
        (folder / f"{number:04d}{suffix}").write_bytes(content(mesh.vertices, mesh.faces, mesh.colours))
    return folder


def _encode_ply(vertices: NDArray[np.float64], faces: NDArray[np.int64], colours: NDArray[np.float64]) -> bytes:
    """Binary PLY with a colour at each corner."""
    from marey.picture import encode_srgb

    corner = np.dtype([("p", "<f4", 3), ("c", "u1", 3)])
    rows = np.zeros(len(vertices), dtype=corner)
    rows["p"], rows["c"] = vertices, encode_srgb(colours)
    triangles = np.zeros(len(faces), dtype=np.dtype([("n", "u1"), ("v", "<i4", 3)]))
    triangles["n"], triangles["v"] = 3, faces
    axes = "".join(f"property float {a}\n" for a in "xyz")
    paint = "".join(f"property uchar {a}\n" for a in ("red", "green", "blue"))
    head = f"ply\nformat binary_little_endian 1.0\nelement vertex {len(vertices)}\n{axes}{paint}"
    head += f"element face {len(faces)}\nproperty list uchar int vertex_indices\nend_header\n"
    return head.encode() + rows.tobytes() + triangles.tobytes()


def _encode_obj(vertices: NDArray[np.float64], faces: NDArray[np.int64], colours: NDArray[np.float64]) -> bytes:
    """Wavefront OBJ; colours follow the coordinates, as most readers take them."""
    rows = [
        f"v {x:.6f} {y:.6f} {z:.6f} {r:.3f} {g:.3f} {b:.3f}"
        for (x, y, z), (r, g, b) in zip(vertices, colours, strict=True)
    ]
    rows += [f"f {a} {b} {c}" for a, b, c in (faces + 1).tolist()]
    return ("\n".join(rows) + "\n").encode()
