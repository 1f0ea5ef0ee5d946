"""`marey fit`: learn a pose model, or a model of locomotion, from clips."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from marey.cli.common import Json, RateHz, Unit, load_clip, print_json, progress_bar, remark

if TYPE_CHECKING:
    from pathlib import Path

    from marey.library import Library
    from marey.models import PCA, PGA
    from marey.motion import Motion
    from marey.picture import Image


WIDTH, HEIGHT, LETTER = 1200, 420, 14  # [pixel] of a strip of one component
PICTURES = (".png", ".jpg")
LOCOMOTION = "locomotion"  # in place of the first clip
METHODS = ("pga", "pga-exact", "pca", "pca-euler", "behaviour")


def fit(
    clips: Annotated[list[str], typer.Argument(metavar="CLIPS...", help="Motion files.", show_default=False)],
    out: Annotated[str, typer.Option("-o", "--out", help="Model to write (.safetensors).", show_default=False)],
    method: Annotated[str, typer.Option(help="pga, pga-exact, pca, pca-euler or behaviour.")] = "pga",
    explained: Annotated[float, typer.Option(help="Share of the variance to keep.")] = 0.95,
    components: Annotated[int | None, typer.Option(help="Number of components, instead of a share.")] = None,
    kind: Annotated[str, typer.Option(help="Coordinates of pga: first or second kind.")] = "first",
    weights: Annotated[str | None, typer.Option(help="lever: errors of pga count in metres, not radians.")] = None,
    plot: Annotated[str | None, typer.Option(help="Also plot the explained variance to this picture.")] = None,
    modes: Annotated[str | None, typer.Option(help="Also draw the first components to this picture.")] = None,
    manifest: Annotated[str | None, typer.Option(help="Which clips train a locomotion model (.toml).")] = None,
    report: Annotated[str | None, typer.Option(help="Also write errors on unseen trials to this .json file.")] = None,
    jumps: Annotated[bool, typer.Option(help="Let a locomotion model learn jumps, too.")] = True,
    json: Json = False,
    read_rate_hz: RateHz = None,
    unit: Unit = None,
) -> None:
    """Learn a pose model from clips of the same joints.

    The model maps a few coordinates to a whole pose; inverse kinematics and compression use it.
    `marey fit locomotion LIBRARY -o MODEL` learns to walk, run and jump instead, from a library or a folder of clips.
    """
    if clips[0] == LOCOMOTION:
        _fit_locomotion(clips[1:], out, manifest, report, jumps=jumps, as_json=json)
        return
    settings = _make_settings(method, explained, components, kind, weights)
    for picture in (plot, modes):
        _check_picture(picture)
    motions: list[Motion] = []
    with progress_bar("reading") as report_clips:
        for number, clip in enumerate(clips):
            motions.append(load_clip(clip, rate_hz=read_rate_hz, unit=unit))
            report_clips(number + 1, len(clips))
    model = settings.fit(motions)
    model.save(out)
    from marey.models import joint_error

    error = joint_error(model, motions)
    facts = {
        "num_components": model.num_components,
        "explained": float(model.explained.sum()),
        "shares": model.explained.tolist(),
        "num_clips": len(motions),
        "num_frames": sum(motion.num_frames for motion in motions),
        "mean_cm": error.mean_cm,
        "p95_cm": error.p95_cm,
        "max_cm": error.max_cm,
    }
    if json:
        print_json(facts | {"file": out, "method": method})
    else:
        typer.echo(
            f"{out}  {facts['num_components']} components  {100 * facts['explained']:.1f} %  "
            f"{facts['num_frames']} frames  joint error mean {facts['mean_cm']:.2f} cm, max {facts['max_cm']:.2f} cm"
        )
    if plot is not None:
        from marey.models import plot_explained

        figure: Any = plot_explained(model)
        figure.savefig(plot)
        remark(f"wrote {plot}")
    if modes is not None:
        # The first components as film strips, from -2 to +2 deviations, one below the other `(H, W, 3)`
        import numpy as np

        from marey.models import mode_strips
        from marey.picture import save_image

        strips = mode_strips(model, _draw_mode_strip, components=4)
        save_image(
            np.concatenate(strips) if strips else _draw_mode_strip(model.decode(np.zeros((1, 0)), rate_hz=1.0)), modes
        )
        remark(f"wrote {modes}")


def _fit_locomotion(
    sources: list[str], out: str, manifest: str | None, report: str | None, *, jumps: bool, as_json: bool
) -> None:
    from marey.base import InputError
    from marey.locomotion import fit_locomotion, load_manifest, report_held_out

    if len(sources) != 1:
        raise InputError(f"{len(sources)} places to learn from", "Give one library or folder of clips")
    _check_folder(report)
    clips, plan = _list_clips(sources[0]), load_manifest(manifest)
    with progress_bar("cutting") as tell:
        model = fit_locomotion(clips, plan, report=tell, jumps=jumps)
    model.save(out)
    facts: dict[str, Any] = {"file": out, "styles": list(model.styles), "jumps": list(model.jumps)}
    facts |= {"num_units": model.info["num_units"], "components": model.tree.main.count}
    if report is not None:
        with progress_bar("judging") as tell:
            quality = report_held_out(model, clips, plan, report=tell)
        value = quality.to_dict()
        import json
        from pathlib import Path

        Path(report).write_text(
            json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8"
        )
        facts["report"] = report
        remark(f"errors of seen, unseen and left-out cycles:\n{quality.text()}")
    if as_json:
        print_json(facts)
    else:
        typer.echo(
            f"{out}  {facts['num_units']} cycles  {len(model.styles)} styles  jumps: {', '.join(model.jumps) or 'none'}"
        )


def _list_clips(path: str) -> Library | Path:
    from pathlib import Path

    from marey.library import Library, is_library

    return Library(path, create=False) if is_library(Path(path)) else Path(path)


def _check_folder(path: str | None) -> None:
    from pathlib import Path

    from marey.base import MissingFileError

    if path is not None and not Path(path).parent.is_dir():
        raise MissingFileError(str(Path(path).parent), "Make the folder first.")


def _make_settings(method: str, explained: float, components: int | None, kind: str, weights: str | None) -> PCA | PGA:
    from marey.base import UnknownNameError
    from marey.models import PCA, PGA

    if method not in METHODS:
        raise UnknownNameError("method", method, "marey fit", METHODS)
    if method.startswith("pga"):
        how = "exact" if method == "pga-exact" else "linearised"
        return PGA(components, explained, method=how, kind=kind, weights=weights)
    if method == "behaviour" and components is None:
        return PCA.behaviour(explained)
    space, root = ("exponential", "none") if method == "pca" else ("euler", "auto" if method == "behaviour" else "none")
    return PCA(components, explained, space=space, root=root)


def _check_picture(path: str | None) -> None:
    """Refuse a picture that cannot be written before the work begins."""
    from pathlib import Path

    from marey.base import InputError, MissingFileError

    if path is None:
        return
    if Path(path).suffix.lower() not in PICTURES:
        raise InputError(f"'{path}' has no suffix that can be written", f"Use one of {', '.join(PICTURES)}")
    if not Path(path).parent.is_dir():
        raise MissingFileError(str(Path(path).parent), "Make the folder first.")


def _draw_mode_strip(motion: Motion) -> Image:
    """Film strip with the name of the component instead of times."""
    from marey.picture import Label, film_strip, write_labels

    drawn = film_strip(
        motion, count=motion.num_frames, width=WIDTH, height=HEIGHT, layout="grid", instants="time", caption=False
    )
    bare = drawn[: HEIGHT - 4 * LETTER].copy()
    return write_labels(bare, [Label(motion.name, LETTER, bare.shape[0] - LETTER, LETTER, centred=False)])
