"""`marey info`: the content of motion and marker files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marey.cli.common import MARKER_SUFFIXES, Outcome, expand_inputs, read_motion, remark, run_each, warn
from marey.cli.options import Csv, Json, ReadOptions, flat_options

if TYPE_CHECKING:
    from marey.motion import Motion


@flat_options
def info(
    files: Annotated[
        list[str],
        typer.Argument(help="Motion or marker files, folders, shipped clips; - is stdin.", show_default=False),
    ],
    json: Json = False,
    csv: Csv = None,
    *,
    read: ReadOptions,
) -> None:
    """Say what is in motion and marker files, or in a locomotion model.

    Joints, frames, rate, height, mean speed, unit, the pelvis and nodes above it, whether it is a human, and warnings.
    """
    from marey.base import read_format

    def describe(path: str) -> Outcome:
        if Path(path).suffix.lower() == ".safetensors" and read_format(Path(path)) == "marey-locomotion":
            from marey.locomotion import load_model

            model = load_model(path)
            return Outcome(model.describe() | {"file": path}, f"{path}  {model.text()}")
        if Path(path).suffix.lower() in MARKER_SUFFIXES:
            facts = _marker_facts(path, read)
            parts = [f"{facts['num_markers']} markers ({100 * facts['valid_fraction']:.0f} % seen)"]
            parts += [f"{len(facts['analog'])} analog channels"] if facts["analog"] else []
            parts += [f"{len(facts['muscles'])} of muscles"] if facts["muscles"] else []
            parts += [f"{len(facts['plate_types'])} force plates"] if facts["plate_types"] else []
            parts += [f"from {facts['start_s']:g} s"] if facts["start_s"] else []
        else:
            motion = read_motion(path, read)
            facts = describe_motion(motion) | {"file": path}
            parts = [f"{facts['num_joints']} joints"]
        # What every kind of file has, then what a motion has beside it
        parts += [f"{facts['num_frames']} frames", f"{facts['rate_hz']:g} Hz", f"{facts['duration_s']:.2f} s"]
        if facts["kind"] == "motion":
            parts += [f"height {facts['height_m']:.2f} m", f"{facts['mean_speed_mps']:.2f} m/s"]
            parts += [f"{facts['up'].lstrip('+').upper()} up"]
            # The unit of the file if it is not the metre: known, assumed, or corrected to a person's size
            file_unit, metres = facts["unit"], facts["metres_per_unit"]
            if any(note.startswith("unit unknown") for note in facts["notes"]):
                parts.append(f"(unit unknown, {file_unit} assumed)")
            elif any("lengths were multiplied" in warning for warning in facts["warnings"]):
                parts.append(f"(scale corrected: a unit of the file is {metres:g} m)")
            elif file_unit != "m":
                parts.append(f"({file_unit} -> m)")
            parts += [] if facts["is_human"] else ["not a human"]
            parts += [f"pelvis {facts['pelvis']}"] if facts["folded"] else []
        if not json:
            if facts["kind"] == "motion":
                # Decisions of the reader: unit, pelvis, parts that were left out; an unknown unit is a warning below
                for note in facts["notes"]:
                    if note.startswith(("unit ", "length ", "CMU skeleton")) and not note.startswith("unit unknown"):
                        remark(f"{path}: {note}")
                if not facts["is_human"]:
                    why = "; ".join(facts["anatomy"])
                    remark(f"{path}: not a human (score {facts['anatomy_score']:.2f}): {why}")
                elif facts["folded"]:
                    folded = ", ".join(facts["folded"])
                    remark(f"{path}: the pelvis is {facts['pelvis']}; folded into its path: {folded}")
                if facts["is_human"] and facts["left_out"]:
                    remark(f"{path}: left out, not a part of the body: {', '.join(facts['left_out'])}")
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


def _marker_facts(path: str, read: ReadOptions) -> dict[str, Any]:
    """Facts about a file of markers, or of muscle activity alone, as plain JSON values."""
    from marey.base import FormatError
    from marey.io import load_analog, load_markers

    markers = None
    try:
        markers = load_markers(path, rate_hz=read.read_rate_hz, unit=read.unit, up=read.up)
        analog = markers.analog
    except FormatError as error:
        # A file of muscle activity alone has no points
        if "only" not in error.what or "analog channels" not in error.what:
            raise
        analog = load_analog(path)
    if markers is not None:
        frames, rate_hz, start_s, report = len(markers.positions), markers.rate_hz, markers.start_s, markers.load_report
    else:
        assert analog is not None
        frames, rate_hz, start_s, report = analog.num_samples, analog.rate_hz, analog.start_s, None
    return {
        "file": path,
        "kind": "analog" if markers is None else "markers",
        "format": Path(path).suffix.lower().lstrip("."),
        "num_joints": 0,
        "num_markers": 0 if markers is None else len(markers.names),
        "num_frames": frames,
        "rate_hz": rate_hz,
        "duration_s": (frames - 1) / rate_hz,
        "height_m": None,
        "mean_speed_mps": None,
        "valid_fraction": 0.0 if markers is None else float(markers.valid.mean()),
        "markers": [] if markers is None else list(markers.names),
        "start_s": start_s,
        "analog": [] if analog is None else list(analog.names),
        "analog_rate_hz": None if analog is None else analog.rate_hz,
        "muscles": [] if analog is None else list(analog.muscles),
        "plate_types": [] if markers is None else [plate.kind for plate in markers.plates],
        "warnings": [] if report is None else list(report.warnings),
        "notes": [] if report is None else list(report.notes),
    }
