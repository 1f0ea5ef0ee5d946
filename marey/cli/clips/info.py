"""`marey info`: what is in a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marey.cli.common import (
    MARKER_SUFFIXES,
    Csv,
    Json,
    Outcome,
    RateHz,
    Unit,
    expand_inputs,
    read_motion,
    run_each,
    warn,
)

if TYPE_CHECKING:
    from marey.motion import Motion


def info(
    files: Annotated[
        list[str],
        typer.Argument(help="Motion or marker files, folders, shipped clips; - is stdin.", show_default=False),
    ],
    json: Json = False,
    csv: Csv = None,
    read_rate_hz: RateHz = None,
    unit: Unit = None,
) -> None:
    """Say what is in motion and marker files.

    Joints, frames, rate, height, mean speed, unit and warnings.
    """

    def describe(path: str) -> Outcome:
        if Path(path).suffix.lower() in MARKER_SUFFIXES:
            facts = _marker_facts(path)
            parts = [f"{facts['num_markers']} markers ({100 * facts['valid_fraction']:.0f} % seen)"]
        else:
            facts = describe_motion(read_motion(path, rate_hz=read_rate_hz, unit=unit)) | {"file": path}
            parts = [f"{facts['num_joints']} joints"]
        # What every kind of file has, then what a motion has beside it
        parts += [f"{facts['num_frames']} frames", f"{facts['rate_hz']:g} Hz", f"{facts['duration_s']:.2f} s"]
        if facts["kind"] == "motion":
            parts += [f"height {facts['height_m']:.2f} m", f"{facts['mean_speed_mps']:.2f} m/s"]
            parts += [f"{facts['up'].lstrip('+').upper()} up"]
            parts += [] if facts["unit"] == "m" else [f"({facts['unit']} -> m)"]
        if not json:
            for warning in facts["warnings"]:
                warn(f"{path}: {warning}")
        return Outcome(facts, "  ".join([path, *parts]))

    run_each("info", expand_inputs(files, MARKER_SUFFIXES), describe, is_json=json, csv=csv)


def describe_motion(motion: Motion) -> dict[str, Any]:
    """Facts about a motion, as plain JSON values."""
    from marey.motion import mean_speed, standing_height
    from marey.skeleton import role_map

    source = motion.source
    return {
        "file": "" if source is None else source.path,
        "kind": "motion",
        "name": motion.name,
        "format": "" if source is None else source.format,
        "num_joints": motion.skeleton.num_joints,
        "num_frames": motion.num_frames,
        "rate_hz": motion.rate_hz,
        "duration_s": motion.duration_s,
        "height_m": standing_height(motion.skeleton),
        "mean_speed_mps": mean_speed(motion),
        "unit": "m" if source is None else source.unit,
        "metres_per_unit": 1.0 if source is None else source.metres_per_unit,
        "up": "+y" if source is None else source.up,
        "skeleton": role_map(motion.skeleton).profile,
        "joints": list(motion.skeleton.names),
        "contacts": [] if motion.contacts is None else list(motion.contacts.names),
        "warnings": list(motion.load_report.warnings),
        "notes": list(motion.load_report.notes),
    }


def _marker_facts(path: str) -> dict[str, Any]:
    from marey.io import load_markers

    markers = load_markers(path)
    frames = len(markers.positions)
    return {
        "file": path,
        "kind": "markers",
        "format": Path(path).suffix.lower().lstrip("."),
        "num_joints": 0,
        "num_markers": len(markers.names),
        "num_frames": frames,
        "rate_hz": markers.rate_hz,
        "duration_s": (frames - 1) / markers.rate_hz,
        "height_m": None,
        "mean_speed_mps": None,
        "valid_fraction": float(markers.valid.mean()),
        "markers": list(markers.names),
        "warnings": list(markers.load_report.warnings),
        "notes": list(markers.load_report.notes),
    }
