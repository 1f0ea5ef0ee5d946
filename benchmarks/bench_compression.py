"""Compression: the rows of Tournier's table 9.2, curves, the whole captured library at ACL's measure, decoding time.

``python benchmarks/bench_compression.py`` prints the tables of the thesis's clips; ``--all`` adds every captured clip,
which takes minutes. The clips are found through ``MAREY_MOCAP``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from harness import Row, measure

import marey
from marey.compression import (
    compress,
    compute_distortion,
    compute_joint_errors,
    compute_shell_errors,
    decode_tournier,
    decompress,
    encode_tournier,
    evaluate_codec,
    rate_distortion,
    raw_bytes_acl,
    raw_bytes_tournier,
)

MOCAP = Path(os.environ.get("MAREY_MOCAP", Path(__file__).parents[2] / "shared" / "mocap"))
TABLE_9_2 = {  # clip: geodesics, levels of root and of ends, ratio, distortion [%], decoding [ms a frame], as printed
    "09_06": (6, 4, 4, 18, 0.36, 7.88),
    "85_12": (15, 9, 9, 97, 0.56, 20.42),
    "17_10": (12, 8, 9, 61, 0.49, 15.97),
}
ACL_ERROR_M = 1e-4  # 0.01 cm on a shell of 3 cm
DECODE_MS = 0.3  # a frame
THIN_DECODE_MS = 5.0
ACL_CMU_RATIO = 21.8  # ACL's own figure on the CMU database at this measure


def clip(number: str) -> marey.Motion:
    """Read a captured clip."""
    return marey.load(MOCAP / "cmu-bvh" / f"{number}.bvh")


def rows() -> list[Row]:
    """Decoding times against their budgets."""
    if not MOCAP.is_dir():
        return []
    boxing = clip("17_10")
    frames = boxing.num_frames
    files = {
        "decode, default, 0.1 mm": (compress(boxing, max_error_m=ACL_ERROR_M), DECODE_MS),
        "decode, default, 2 % distortion": (compress(boxing, distortion_percent=2.0), DECODE_MS),
        "decode, tournier2011": (compress(boxing, method="tournier2011", n_components=12), THIN_DECODE_MS),
    }
    found: list[Row] = []
    for name, (data, limit_ms) in files.items():
        decompress(data)
        note = f"{frames} frames, {len(data)} bytes"
        found.append(measure(name, lambda data=data: decompress(data), limit_ms=limit_ms * frames, note=note))
    return found


def thesis_table() -> Iterator[str]:
    """Each row: the thesis as printed, its codec as built here, and the default at its ratio and at its error."""
    yield "clip   what                        ratio    d [%]   d2 [%]   max joint [mm]   bytes"
    for number, (k, root, ends, ratio, printed, _) in TABLE_9_2.items():
        motion = clip(number)
        thinned = encode_tournier(motion, n_components=k, root_levels=root, end_levels=ends, aliasing="allow")
        back = decode_tournier(thinned)
        size = len(compress(motion, method="tournier2011", n_components=k, root_levels=root, end_levels=ends, aliasing="allow"))  # fmt: skip  # noqa: E501
        yield f"{number}  as printed              {ratio:8.1f}        -   {printed:6.3f}"
        yield _line(number, "tournier2011", thinned.scalar_ratio(), motion, back, size)
        worst = float(compute_joint_errors(motion, back).max())
        for label, options in (
            ("default, its max error", {"max_error_m": worst}),
            ("default, its d", {"distortion_percent": compute_distortion(motion, back)}),
            ("default, printed as d2", {"distortion_percent": 10.0 * printed**0.5}),
            ("default, printed as d", {"distortion_percent": printed}),
        ):
            data = compress(motion, **options)
            yield _line(number, label, raw_bytes_tournier(motion) / len(data), motion, decompress(data), len(data))


def curve(number: str) -> Iterator[str]:
    """Rate and distortion of one clip over three decades of the bound."""
    yield f"{number}: bound [mm]   bytes   1: (float32 angles)   1: (ACL)   d [%]"
    bounds = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
    for bound, report in zip(bounds, rate_distortion(clip(number), max_errors_m=bounds), strict=True):
        ratios = f"{report.ratio_tournier:18.1f} {report.ratio_acl:10.1f}"
        yield f"      {1e3 * bound:10.1f} {report.bytes:8d} {ratios} {report.distortion_percent:8.3f}"


def whole_library() -> Iterator[str]:
    """Every captured clip at ACL's measure."""
    files = sorted((MOCAP / "cmu-bvh").glob("*.bvh")) + sorted((MOCAP / "cmu-asfamc").rglob("*.amc"))
    acl = plain = packed = frames = 0
    worst, least = 0.0, float("inf")
    for file in files:
        motion = marey.load(file)
        data = compress(motion, max_error_m=ACL_ERROR_M)
        worst = max(worst, float(compute_shell_errors(motion, decompress(data)).max()))
        least = min(least, raw_bytes_acl(motion) / len(data))
        acl, plain = acl + raw_bytes_acl(motion), plain + raw_bytes_tournier(motion)
        packed, frames = packed + len(data), frames + motion.num_frames
    yield f"{len(files)} clips, {frames} frames, {packed} bytes with skeletons; shell errors up to {1e3 * worst:.5f} mm"
    yield f"1:{acl / packed:.2f} of 40 bytes a transform (ACL on CMU: 1:{ACL_CMU_RATIO}); worst clip 1:{least:.2f}"
    yield f"1:{plain / packed:.2f} of float32 angles and root positions"


def _line(number: str, label: str, ratio: float, motion: marey.Motion, back: marey.Motion, size: int) -> str:
    d, worst = compute_distortion(motion, back), 1e3 * float(compute_joint_errors(motion, back).max())
    return f"{number}  {label:24s}{ratio:8.1f}   {d:6.2f}   {d * d / 100.0:6.3f}   {worst:14.1f}   {size}"


def main(arguments: list[str]) -> int:
    """Print all tables."""
    if not MOCAP.is_dir():
        print(f"captured clips are not at {MOCAP}; set MAREY_MOCAP to their folder", file=sys.stderr)
        return 2
    tables = [thesis_table(), curve("02_01"), curve("17_10")]
    if "--all" in arguments:
        tables.append(whole_library())
    for table in tables:
        for line in table:
            print(line, flush=True)
        print()
    walk = clip("02_01")
    data = compress(walk, distortion_percent=0.3, lock_feet=True)
    print("02_01, feet locked:", evaluate_codec(walk, decompress(data), data))
    for row in rows():
        print(row, row.note)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
