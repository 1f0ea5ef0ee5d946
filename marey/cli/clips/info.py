"""`marey info`: what is in a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marey.base import read_format
from marey.cli.common import (
    MARKER_SUFFIXES,
    ClipName,
    Csv,
    Json,
    Outcome,
    RateHz,
    Unit,
    Up,
    expand_inputs,
    read_motion,
    remark,
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
    up: Up = None,
    take: ClipName = None,
) -> None:
    """Say what is in motion and marker files, or in a locomotion model.

    Joints, frames, rate, height, mean speed, unit, the pelvis and nodes above it, whether it is a human, and warnings.
    """

    def describe(path: str) -> Outcome:
        if Path(path).suffix.lower() == ".safetensors" and read_format(Path(path)) == "marey-locomotion":
            from marey.locomotion import load_model

            model = load_model(path)
            return Outcome(model.describe() | {"file": path}, f"{path}  {model.text()}")
        if Path(path).suffix.lower() in MARKER_SUFFIXES:
            facts = _marker_facts(path, rate_hz=read_rate_hz, unit=unit, up=up)
            parts = [f"{facts['num_markers']} markers ({100 * facts['valid_fraction']:.0f} % seen)"]
            parts += [f"{len(facts['analog'])} analog channels"] if facts["analog"] else []
            parts += [f"{len(facts['muscles'])} of muscles"] if facts["muscles"] else []
            parts += [f"{len(facts['plate_types'])} force plates"] if facts["plate_types"] else []
            parts += [f"from {facts['start_s']:g} s"] if facts["start_s"] else []
        else:
            motion = read_motion(path, rate_hz=read_rate_hz, unit=unit, up=up, clip=take)
            facts = describe_motion(motion) | {"file": path}
            parts = [f"{facts['num_joints']} joints"]
        # What every kind of file has, then what a motion has beside it
        parts += [f"{facts['num_frames']} frames", f"{facts['rate_hz']:g} Hz", f"{facts['duration_s']:.2f} s"]
        if facts["kind"] == "motion":
            parts += [f"height {facts['height_m']:.2f} m", f"{facts['mean_speed_mps']:.2f} m/s"]
            parts += [f"{facts['up'].lstrip('+').upper()} up"]
            parts += _describe_unit(facts)
            parts += [] if facts["is_human"] else ["not a human"]
            parts += [f"pelvis {facts['pelvis']}"] if facts["folded"] else []
        if not json:
            if facts["kind"] == "motion":
                for line in _describe_person(facts):
                    remark(f"{path}: {line}")
            for warning in facts["warnings"]:
                warn(f"{path}: {warning}")
        return Outcome(facts, "  ".join([path, *parts]))

    run_each("info", expand_inputs(files, MARKER_SUFFIXES), describe, is_json=json, csv=csv)


def describe_motion(motion: Motion) -> dict[str, Any]:
    """Facts about a motion, as plain JSON values."""
    from marey.motion import assess_motion, mean_speed, standing_height
    from marey.skeleton import role_map

    source = motion.source
    anatomy = assess_motion(motion)
    pelvis = anatomy.pelvis if anatomy.is_human else None
    layout: Mapping[str, Any] = {} if source is None else source.layout
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
        "is_human": anatomy.is_human,
        "anatomy_score": anatomy.score,
        "anatomy": list(anatomy.reasons),
        "pelvis": None if pelvis is None else motion.skeleton.names[pelvis],
        "folded": list(layout.get("folded", ())),
        "left_out": list(layout.get("left_out", ())),
        "skeleton": role_map(motion.skeleton).profile,
        "joints": list(motion.skeleton.names),
        "contacts": [] if motion.contacts is None else list(motion.contacts.names),
        "warnings": list(motion.load_report.warnings),
        "notes": list(motion.load_report.notes),
    }


def _describe_person(facts: dict[str, Any]) -> list[str]:
    """Sentences on what the reader decided: who is in the file, which unit, and why."""
    lines = [note for note in facts["notes"] if note.startswith(("unit ", "length ", "CMU skeleton"))]
    lines = [line for line in lines if not line.startswith("unit unknown")]  # a warning says it
    if facts["is_human"]:
        if facts["folded"]:
            lines.append(f"the pelvis is {facts['pelvis']}; folded into its path: {', '.join(facts['folded'])}")
        if facts["left_out"]:
            lines.append(f"left out, not a part of the body: {', '.join(facts['left_out'])}")
    else:
        lines.append(f"not a human (score {facts['anatomy_score']:.2f}): {'; '.join(facts['anatomy'])}")
    return lines


def _describe_unit(facts: dict[str, Any]) -> list[str]:
    """Say in which unit the file is, if it is not the metre: known, assumed, or corrected to a person's size."""
    unit, metres = facts["unit"], facts["metres_per_unit"]
    if any(note.startswith("unit unknown") for note in facts["notes"]):
        return [f"(unit unknown, {unit} assumed)"]
    if any("lengths were multiplied" in warning for warning in facts["warnings"]):
        return [f"(scale corrected: a unit of the file is {metres:g} m)"]
    return [] if unit == "m" else [f"({unit} -> m)"]


def _marker_facts(path: str, **options: Any) -> dict[str, Any]:
    from marey.base import FormatError
    from marey.io import load_analog, load_markers

    try:
        markers = load_markers(path, **options)
    except FormatError as error:
        # A file of muscle activity alone has no points
        if "only" not in error.what or "analog channels" not in error.what:
            raise
        analog = load_analog(path)
        return {
            "file": path,
            "kind": "analog",
            "format": "c3d",
            "num_joints": 0,
            "num_markers": 0,
            "num_frames": analog.num_samples,
            "rate_hz": analog.rate_hz,
            "duration_s": (analog.num_samples - 1) / analog.rate_hz,
            "height_m": None,
            "mean_speed_mps": None,
            "valid_fraction": 0.0,
            "markers": [],
            "start_s": analog.start_s,
            "analog": list(analog.names),
            "analog_rate_hz": analog.rate_hz,
            "muscles": list(analog.muscles),
            "plate_types": [],
            "warnings": [],
            "notes": [],
        }
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
        "start_s": markers.start_s,
        "analog": [] if markers.analog is None else list(markers.analog.names),
        "analog_rate_hz": None if markers.analog is None else markers.analog.rate_hz,
        "muscles": [] if markers.analog is None else list(markers.analog.muscles),
        "plate_types": [plate.kind for plate in markers.plates],
        "warnings": list(markers.load_report.warnings),
        "notes": list(markers.load_report.notes),
    }
