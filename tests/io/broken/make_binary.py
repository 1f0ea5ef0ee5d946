"""Makes the broken binary files of this folder: good files, each damaged in one way. Run it to make them anew."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from pathlib import Path

import numpy as np
from safetensors.numpy import save

from marey.io.clip import clip_bytes
from marey.io.gltf.files import write_gltf
from marey.lie import SO3
from marey.motion import Motion
from marey.skeleton import Skeleton

HERE = Path(__file__).parent
ARM = Skeleton(("root", "upper", "lower"), np.array([-1, 0, 1]), np.array([[0, 1, 0], [0, 0.3, 0], [0, 0.3, 0.0]]))
MOTION = Motion(ARM, 30.0, np.zeros((4, 3)), SO3.exp(np.linspace(0, 1, 36).reshape(4, 3, 3)), name="arm")
RNG = np.random.default_rng(0)


def glb_parts() -> tuple[dict, bytes]:
    write_gltf(MOTION, HERE / "good.glb", body=False)
    content = (HERE / "good.glb").read_bytes()
    (HERE / "good.glb").unlink()
    length = struct.unpack_from("<I", content, 12)[0]
    return json.loads(content[20 : 20 + length]), content[28 + length :]


def glb(root: dict, data: bytes) -> bytes:
    text = json.dumps(root).encode()
    text += b" " * (-len(text) % 4)
    head = struct.pack("<4sIIII", b"glTF", 2, 28 + len(text) + len(data), len(text), 0x4E4F534A)
    return head + text + struct.pack("<II", len(data), 0x004E4942) + data


def changed(*path, value) -> bytes:
    root, data = glb_parts()
    place = root
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return glb(root, data)


def patched_glb(accessor: int, value: float) -> bytes:
    """Overwrite the first number of an accessor."""
    root, data = glb_parts()
    start = root["bufferViews"][root["accessors"][accessor]["bufferView"]]["byteOffset"]
    return glb(root, data[:start] + struct.pack("<f", value) + data[start + 4 :])


def gltf_files() -> dict[str, bytes]:
    good = glb(*glb_parts())
    asset = b'{"asset": {"version": "2.0"}, '
    return {
        "cut_header.glb": good[:10],
        "cut_json.glb": good[:500],
        "cut_data.glb": good[:-40],
        "version_1.glb": good[:4] + b"\1\0\0\0" + good[8:],
        "long_chunk.glb": good[:12] + b"\xff\xff\xff\x0f" + good[16:],
        "no_json_chunk.glb": good[:16] + b"ABCD" + good[20:],
        "noise.glb": b"glTF" + RNG.bytes(2000),
        "billion_keys.glb": changed("accessors", 0, "count", value=10**9),
        "billion_zeros.glb": changed("accessors", 0, value={"componentType": 5126, "type": "SCALAR", "count": 10**9}),
        "view_past_end.glb": changed("bufferViews", 0, "byteOffset", value=10**9),
        "negative_offset.glb": changed("bufferViews", 0, "byteOffset", value=-8),
        "unknown_numbers.glb": changed("accessors", 0, "componentType", value=1234),
        "missing_sampler.glb": changed("animations", 0, "channels", 0, "sampler", value=99),
        "missing_node.glb": changed("nodes", 0, "children", value=[77]),
        "ring.glb": changed("nodes", 2, "children", value=[0]),
        "two_parents.glb": changed("nodes", 0, "children", value=[1, 1]),
        "nan_position.glb": patched_glb(1, float("nan")),
        "inf_time.glb": patched_glb(0, float("inf")),
        "times_fall.glb": patched_glb(0, 5.0),
        "year.glb": glb(*glb_parts()).replace(b'"rate_hz": 30.0', b'"rate_hz": 3e15'),
        "zero_rate.glb": glb(*glb_parts()).replace(b'"rate_hz": 30.0', b'"rate_hz": 0.00'),
        "no_skeleton.glb": glb({"asset": {"version": "2.0"}, "nodes": [{}]}, b""),
        "compressed.glb": changed("extensionsRequired", value=["EXT_meshopt_compression"]),
        "deep.gltf": asset + b'"nodes": ' + b"[" * 20_000,
        "not_json.gltf": asset + b'\n"nodes": [{},]}',
        "outside.gltf": asset + b'"buffers": [{"byteLength": 4, "uri": "../../../../etc/hostname"}]}',
        "no_buffer.gltf": asset + b'"buffers": [{"byteLength": 4, "uri": "nowhere.bin"}]}',
        "base64.gltf": asset + b'"buffers": [{"byteLength": 4, "uri": "data:;base64,%%%%"}]}',
        "latin.gltf": b'{"asset": {"version": "2.0", "generator": "\xe9\xe8"}}',
        "old.gltf": b'{"asset": {"version": "1.1"}}',
    }


def clip_parts() -> tuple[dict, dict[str, np.ndarray]]:
    content = clip_bytes(MOTION)
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    described = json.loads(header.pop("__metadata__")["marey"])
    kinds = {"F64": np.float64, "I64": np.int64, "BOOL": np.bool_}
    arrays = {}
    for name, entry in header.items():
        a, b = entry["data_offsets"]
        data = content[8 + length + a : 8 + length + b]
        arrays[name] = np.frombuffer(data, dtype=kinds[entry["dtype"]]).reshape(entry["shape"])
    return described, arrays


def clip(change=None, **arrays) -> bytes:
    described, tensors = clip_parts()
    if change:
        described |= change
    return save(tensors | arrays, metadata={"marey": json.dumps(described)})


def raw_clip(header: bytes, data: bytes = b"") -> bytes:
    return len(header).to_bytes(8, "little") + header + data


def clip_files() -> dict[str, bytes]:
    one = b'"a":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}'
    return {
        "cut.safetensors": clip()[:-10],
        "long_header.safetensors": (10**12).to_bytes(8, "little") + b"{}",
        "no_json.safetensors": raw_clip(b"this is no header"),
        "deep.safetensors": raw_clip(b"[" * 20_000),
        "deep_description.safetensors": raw_clip(json.dumps({"__metadata__": {"marey": "[" * 20_000}}).encode()),
        "overlap.safetensors": raw_clip(b"{" + one + b',"b":{"dtype":"F64","shape":[1],"data_offsets":[4,12]}}', bytes(12)),
        "billion.safetensors": raw_clip(b'{"a":{"dtype":"F64","shape":[1000000000],"data_offsets":[0,8]}}', bytes(8)),
        "other_model.safetensors": raw_clip(b"{" + one + b"}", bytes(8)),
        "newer.safetensors": clip({"clip_version": 999}),
        "no_joints.safetensors": clip({"joints": []}),
        "wrong_shape.safetensors": clip(rotations=np.ones((4, 2, 4))),
        "zero_rotation.safetensors": clip(rotations=np.zeros((4, 3, 4))),
        "nan.safetensors": clip(root_positions=np.full((4, 3), np.nan)),
        "ring.safetensors": clip(parents=np.array([-1, 2, 1])),
        "float32.safetensors": clip(root_positions=np.zeros((4, 3), dtype=np.float32)),
        "negative_rate.safetensors": clip({"rate_hz": -30.0}),
        "noise.safetensors": RNG.bytes(500),
    }


def npy(shape: str, data: bytes, kind: str = "<f8") -> bytes:
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (63 - (10 + len(header)) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


def archive(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(zipfile.ZipInfo(f"{name}.npy"), content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def archives() -> dict[str, bytes]:
    poses, rate = npy("(2, 66)", bytes(2 * 66 * 8)), npy("()", struct.pack("<d", 30.0))
    gap = struct.pack("<66d", *[float("nan")] * 66)
    return {
        "pickled.npz": archive(poses=npy("(2,)", b"\x80\x04N.", "|O"), mocap_framerate=rate),
        "bomb.npz": archive(poses=npy("(50000, 156)", bytes(50_000 * 156 * 8)), mocap_framerate=rate),
        "billion.npz": archive(poses=npy("(1000000000, 156)", bytes(800)), mocap_framerate=rate),
        "wide.npz": archive(poses=npy("(2, 7)", bytes(112)), mocap_framerate=rate),
        "no_poses.npz": archive(mocap_framerate=rate),
        "nan.npz": archive(poses=npy("(1, 66)", gap), mocap_framerate=rate),
        "no_array.npz": archive(poses=b"no array", mocap_framerate=rate),
        "cut.npz": archive(poses=poses)[:-30],
        "noise.npz": RNG.bytes(400),
    }


def c3d(*, count: int = 2, processor: int = 84, start: int = 3, frames: int = 2, entries: bytes | None = None) -> bytes:
    def entry(name: bytes, body: bytes) -> bytes:
        body += b"\0"
        return struct.pack("bb", len(name), 1) + name + struct.pack("<H", 2 + len(body)) + body

    known = b"\x05\xffPOINT" + struct.pack("<H", 3) + b"\0"
    known += entry(b"USED", b"\2\0" + struct.pack("<H", count)) + entry(b"SCALE", b"\4\0" + struct.pack("<f", -1.0))
    known += entry(b"RATE", b"\4\0" + struct.pack("<f", 100.0))
    known += entry(b"DATA_START", b"\2\0" + struct.pack("<H", start))
    section = (bytes([1, 0x50, 1, processor]) + (known if entries is None else entries)).ljust(512, b"\0")
    header = struct.pack("<BBHHHHHfHHf", 2, 0x50, count, 0, 1, frames, 0, -1.0, start, 0, 100.0).ljust(512, b"\0")
    return header + section + np.ones((2, 2, 4), dtype="<f4").tobytes()


def c3d_files() -> dict[str, bytes]:
    huge = struct.pack("bb", 4, 1) + b"HUGE" + struct.pack("<H", 20) + b"\4\7" + b"\xff" * 7
    return {
        "cut.c3d": c3d()[:700],
        "no_data.c3d": c3d()[:1030],
        "noise.c3d": b"\2\x50" + RNG.bytes(3000),
        "zeros.c3d": bytes(2048),
        "parameters_far.c3d": b"\xff\x50" + c3d()[2:],
        "processor.c3d": c3d(processor=9),
        "no_points.c3d": c3d(count=0),
        "many_points.c3d": c3d(count=65535),
        "data_far.c3d": c3d(start=60000),
        "huge_parameter.c3d": c3d(entries=huge),
        "long_name.c3d": c3d(entries=b"\x7f\x01ABC"),
        "no_rate.c3d": (c3d()[:20] + bytes(4) + c3d()[24:]).replace(b"RATE", b"RITE"),
    }


def trc_files() -> dict[str, bytes]:
    head = b"PathFileType\t4\t(X/Y/Z)\ta.trc\nDataRate\tNumFrames\tNumMarkers\tUnits\n"
    return {
        "billion.trc": head + b"100\t1\t1000000000\tmm\nFrame#\tTime\tA\n\tX1\tY1\tZ1\n\n1\t0\t1\t2\t3\n",
        "letters.trc": head + b"100\t1\t1\tmm\nFrame#\tTime\tA\n\tX1\tY1\tZ1\n\n1\t0\t1\tup\t3\n",
        "no_frames.trc": head + b"100\t1\t1\tmm\nFrame#\tTime\tA\n\tX1\tY1\tZ1\n",
        "long_row.trc": head + b"100\t1\t1\tmm\nFrame#\tTime\tA\n\tX1\tY1\tZ1\n\n1\t0\t1\t2\t3\t4\n",
        "no_rate.trc": head.replace(b"DataRate", b"Rate") + b"100\t1\t1\tmm\nFrame#\tTime\tA\n\tX1\n\n1\t0\t1\t2\t3\n",
        "noise.trc": RNG.bytes(300),
    }


def deepmimic_files() -> dict[str, bytes]:
    row = [0.1, *([0.0] * 3), *([1.0, 0, 0, 0] * 10)]
    return {
        "deep.json": b"[" * 20_000,
        "other.json": b'{"name": "package", "version": "1.0"}',
        "short_row.txt": b'{"Frames": [[0.1, 1, 2, 3]]}',
        "words.txt": json.dumps({"Frames": [["a"] * 44]}).encode(),
        "nan_row.txt": json.dumps({"Frames": [[float("nan"), *row[1:]]]}).encode(),
        "prose.txt": b"Once upon a time there was a motion.\n",
        "long_number.json": b'{"Frames": [[' + b"9" * 6000 + b"]]}",
    }


def main() -> None:
    kinds = {"gltf": gltf_files(), "clip": clip_files(), "amass": archives(), "c3d": c3d_files()}
    kinds |= {"trc": trc_files(), "deepmimic": deepmimic_files()}
    for kind, files in kinds.items():
        for name, content in files.items():
            (HERE / f"{kind}_{name}").write_bytes(content)


if __name__ == "__main__":
    main()
