"""An evaluator of glTF files that shares no code with marey: pygltflib for the file, plain numpy for the rest."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pygltflib

KINDS = {5120: "<i1", 5121: "<u1", 5122: "<i2", 5123: "<u2", 5125: "<u4", 5126: "<f4"}
WIDTHS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4, "MAT4": 16}


class GltfFile:
    """A file that can be posed at any time of any of its animations."""

    def __init__(self, path: Path) -> None:
        loaded = pygltflib.GLTF2().load(str(path))
        assert loaded is not None
        self.gltf = loaded
        self.parents = {child: i for i, node in enumerate(self.gltf.nodes) for child in node.children or []}

    def raw(self, index: int) -> bytes:
        """Bytes of one accessor, element by element."""
        accessor = self.gltf.accessors[index]
        view = self.gltf.bufferViews[accessor.bufferView]
        data = (
            self.gltf.get_data_from_buffer_uri(self.gltf.buffers[view.buffer].uri or "")
            if (self.gltf.buffers[view.buffer].uri)
            else self.gltf.binary_blob()
        )
        element = np.dtype(KINDS[accessor.componentType]).itemsize * WIDTHS[accessor.type]
        stride = view.byteStride or element
        start = (view.byteOffset or 0) + (accessor.byteOffset or 0)
        return b"".join(data[start + i * stride : start + i * stride + element] for i in range(accessor.count))

    def values(self, index: int) -> np.ndarray:
        """Numbers of one accessor, ``(count, width)``."""
        accessor = self.gltf.accessors[index]
        kind = np.dtype(KINDS[accessor.componentType])
        numbers = np.frombuffer(self.raw(index), kind).reshape(accessor.count, -1).astype(float)
        return np.maximum(numbers / np.iinfo(kind).max, -1.0) if accessor.normalized else numbers

    def worlds(self, time: float, animation: int = 0) -> np.ndarray:
        """World matrix ``(N, 4, 4)`` of every node; keys are interpolated linearly."""
        nodes = self.gltf.nodes
        local = np.tile(np.eye(4), (len(nodes), 1, 1))
        parts = [
            {
                "translation": n.translation or [0, 0, 0],
                "rotation": n.rotation or [0, 0, 0, 1],
                "scale": n.scale or [1] * 3,
            }
            for n in nodes
        ]
        moved: set[int] = set()
        if self.gltf.animations:
            clip = self.gltf.animations[animation]
            for channel in clip.channels:
                if channel.target.path not in ("translation", "rotation", "scale"):
                    continue
                sampler = clip.samplers[channel.sampler]
                times, keys = self.values(sampler.input)[:, 0], self.values(sampler.output)
                assert sampler.interpolation != "CUBICSPLINE"
                at = int(np.clip(np.searchsorted(times, time, side="right") - 1, 0, len(times) - 1))
                after = min(at + 1, len(times) - 1)
                span = times[after] - times[at]
                u = float(np.clip((time - times[at]) / span, 0, 1)) if span > 0 else 0.0
                u = 0.0 if sampler.interpolation == "STEP" else u
                a, b = keys[at], keys[after]
                if channel.target.path == "rotation" and a @ b < 0:
                    b = -b
                parts[channel.target.node][channel.target.path] = (1 - u) * a + u * b
                moved.add(channel.target.node)
        for i, node in enumerate(nodes):
            if node.matrix and i not in moved:
                local[i] = np.array(node.matrix).reshape(4, 4).T
                continue
            x, y, z, w = np.asarray(parts[i]["rotation"], float) / np.linalg.norm(parts[i]["rotation"])
            turn = np.array(
                [
                    [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
                    [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
                    [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
                ]
            )
            local[i, :3, :3] = turn * np.asarray(parts[i]["scale"], float)
            local[i, :3, 3] = parts[i]["translation"]
        worlds: dict[int, np.ndarray] = {}

        def world(i: int) -> np.ndarray:
            if i not in worlds:
                worlds[i] = world(self.parents[i]) @ local[i] if i in self.parents else local[i]
            return worlds[i]

        return np.stack([world(i) for i in range(len(nodes))])

    def vertices(self, time: float, animation: int = 0) -> np.ndarray:
        """All skinned vertices in world, mesh node after mesh node (§3.7.3.3 of the specification)."""
        worlds, found = self.worlds(time, animation), []
        for node in self.gltf.nodes:
            if node.mesh is None or node.skin is None:
                continue
            skin = self.gltf.skins[node.skin]
            inverse = self.values(skin.inverseBindMatrices).reshape(-1, 4, 4).transpose(0, 2, 1)
            maps = worlds[skin.joints] @ inverse[: len(skin.joints)]
            for primitive in self.gltf.meshes[node.mesh].primitives:
                points = self.values(primitive.attributes.POSITION)
                joints = self.values(primitive.attributes.JOINTS_0).astype(int)
                weights = self.values(primitive.attributes.WEIGHTS_0)
                weights = weights / weights.sum(axis=1, keepdims=True)
                blended = np.einsum("vk,vkab->vab", weights, maps[joints])
                found.append(np.einsum("vab,vb->va", blended[:, :3, :3], points) + blended[:, :3, 3])
        return np.concatenate(found)
