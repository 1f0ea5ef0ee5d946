"""`marey fit`: learn a pose model, a model of locomotion, or one person's style of it, from clips."""

from __future__ import annotations

import json as json_format
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marey.cli.common import (
    NOTES_TOLD,
    expand_inputs,
    group_notes,
    load_clip,
    print_json,
    print_result,
    progress_bar,
    read_motion,
    remark,
    warn,
)
from marey.cli.options import (
    PLOT_SUFFIXES,
    Json,
    ReadOptions,
    check_picture_file,
    flat_options,
    option,
)

if TYPE_CHECKING:
    from marey.models import PCA, PGA, PoseModel
    from marey.motion import Motion
    from marey.picture import Image


WIDTH, HEIGHT, LETTER = 1200, 420, 14  # [pixel] of a strip of one component
MAX_COMPONENTS = 60  # of a choice by joint error: beyond, a clip holds little else than noise
LOCOMOTION, PERSON, BEHAVIOUR = "locomotion", "person", "behaviour"  # in place of the first clip
LEAST_FLIGHT_S = 0.2  # [s] clips whose flights are longer are cut about them
SORTING_HEAD = """# Clips of {folder}, sorted by person and by what they show. Correct what is wrong (move a
# clip to another group, rename a subject, delete a clip, set rate_hz, move clips from train to test to judge the model
# by them) and fit again:
#
#     marey fit locomotion FOLDER --manifest {file} -o {out}
#
# Clips of the subject "?" are given to the nearest of the other subjects.

"""
PGA_METHODS = {
    "pga": "linearised",
    "pga-exact": "exact",
    "pga-exact-mean": "exact-mean",
    "pga-variance": "variance",
    "pga-deflation": "deflation",
}
METHODS = (*PGA_METHODS, "pca", "pca-euler", "behaviour")


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureOptions:
    """Pictures of a pose model, each drawn if its file is named."""

    plot: Annotated[str | None, option("Also plot the explained variance to this picture.", suffixes=PLOT_SUFFIXES)] = (
        None
    )
    select: Annotated[
        str | None, option("Also plot variance and joint error by number of components.", suffixes=PLOT_SUFFIXES)
    ] = None
    histogram: Annotated[
        str | None, option("Also plot how many components each clip needs alone, 95 and 99 %.", suffixes=PLOT_SUFFIXES)
    ] = None
    modes: Annotated[
        str | None, option("Also draw the first components to this picture.", callback=check_picture_file)
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LocomotionOptions:
    """Of `marey fit locomotion` and `marey fit person`."""

    manifest: Annotated[
        str | None,
        option(
            "locomotion: which clips train (.toml), such as a corrected sorting; 'shipped' for those of the "
            "shipped model. By default the clips are sorted by what they show."
        ),
    ] = None
    sorting: Annotated[
        str | None,
        option(
            "locomotion: where to write the sorting; beside the model by default.", metavar="TOML", suffixes=(".toml",)
        ),
    ] = None
    alone: Annotated[
        bool, option("locomotion: lend nothing from the shipped model; needs walks and runs.", "--alone")
    ] = False
    plots: Annotated[
        str | None, option("locomotion: also plot the fit of every person and gait.", metavar="FOLDER")
    ] = None
    report: Annotated[
        str | None, option("Also write errors on unseen trials to this .json file.", suffixes=(".json",))
    ] = None
    jumps: Annotated[bool, option("Let a locomotion model learn jumps, too.")] = True
    model: Annotated[str | None, option("person: locomotion model to add the style to.")] = None
    name: Annotated[str | None, option("person: name of the new style; the clip's by default.")] = None
    amount: Annotated[float, option("person: more than 1 exaggerates the person.")] = 1.0


@flat_options
def fit(
    clips: Annotated[
        list[str],
        typer.Argument(
            metavar="CLIPS...",
            help="Motion files, folders, libraries; or 'locomotion' LIBRARY; 'person' CLIP; 'behaviour' CLIPS.",
        ),
    ],
    out: Annotated[
        str, option("Model to write (.safetensors).", "-o", "--out", show_default=False, suffixes=(".safetensors",))
    ],
    method: Annotated[str, option(f"{', '.join(METHODS)}.", choices=METHODS)] = "pga",
    explained: Annotated[float, option("Share of the variance to keep.", min=0.0, max=1.0)] = 0.95,
    components: Annotated[int | None, option("Number of components, instead of a share.", min=0)] = None,
    kind: Annotated[str, option("Coordinates of pga: first or second kind.", choices=("first", "second"))] = "first",
    weights: Annotated[
        str | None,
        option(
            "pga: lever counts errors in metres, kinetic by the energy at the mean pose.", choices=("lever", "kinetic")
        ),
    ] = None,
    joint_error_mm: Annotated[
        float | None, option("Fewest components with this mean joint error, instead of a share.", min=0.0)
    ] = None,
    problem: Annotated[
        str | None, option("Learn from the clips that step as this problem.", "--for", metavar="PROBLEM")
    ] = None,
    *,
    pictures: PictureOptions,
    locomotion: LocomotionOptions,
    json: Json = False,
    read: ReadOptions,
) -> None:
    """Learn a pose model from clips of the same joints.

    The model maps a few coordinates to a whole pose; inverse kinematics and compression use it.
    `marey fit locomotion FOLDER -o MODEL` learns to walk, run and jump instead, from a library or a folder of clips of
    anybody, sorted by person and gait; `marey fit person CLIPS -o MODEL` adds the person in some clips to such a model,
    as its default style.
    `marey fit behaviour CLIPS... -o BASIS` learns the space of a behaviour, which problems of `marey optimize` name.
    """
    if clips[0] == BEHAVIOUR:
        motions = [load_clip(clip, read) for clip in expand_inputs(clips[1:])]
        _fit_behaviour(motions, out, components, explained, locomotion.name, is_json=json)
        return
    if clips[0] == LOCOMOTION:
        _fit_locomotion(clips[1:], out, locomotion, is_json=json)
        return
    if clips[0] == PERSON:
        if len(clips) < 2:
            raise typer.BadParameter("write `marey fit person CLIPS -o MODEL`.")
        own = [load_clip(clip, read) for clip in expand_inputs(clips[1:])]
        _fit_person(own, out, locomotion, locomotion.name or Path(clips[1]).stem, is_json=json)
        return
    if components is not None and joint_error_mm is not None:
        raise typer.BadParameter("give --components or --joint-error-mm.")
    from marey.models import find_far_samples, joint_error, selection_curve

    used, motions = _read_clips(clips, out, read)
    if problem is not None:
        # Safonova 3.3: the clips whose contacts and direction are those of the problem
        from marey.spacetime import load_problem, select_clips

        chosen = select_clips(motions, load_problem(problem))
        for sentence in chosen.report:
            remark(sentence)
        motions, used = [motions[i] for i in chosen.indices], [used[i] for i in chosen.indices]
    settings = _choose_settings(method, components, explained, kind, weights)
    if joint_error_mm is not None:
        from dataclasses import replace

        # The size that brings the mean joint error below the bar, on the clips of the fit
        plain = replace(settings, method="linearised") if method in PGA_METHODS else settings
        curve = selection_curve(motions, settings=plain, counts=range(MAX_COMPONENTS))
        settings = replace(settings, n_components=curve.count_for(mean_cm=0.1 * joint_error_mm))
    fitted = settings.fit(motions)
    fitted.save(out)
    far = find_far_samples(motions)
    for samples in far[:NOTES_TOLD]:
        warn(f"the mean pose leaves out {samples}: it is more than 169 degrees from the mean, probably a flip")
    if len(far) > NOTES_TOLD:
        warn(f"it leaves out {len(far) - NOTES_TOLD} more such stretches of joints, which --json lists")
    # Distance of each joint from where the clip has it
    error = joint_error(fitted, motions)
    facts = {
        "num_components": fitted.num_components,
        "explained": float(fitted.explained.sum()),
        "shares": fitted.explained.tolist(),
        "num_clips": len(motions),
        "num_frames": sum(motion.num_frames for motion in motions),
        "mean_cm": error.mean_cm,
        "p95_cm": error.p95_cm,
        "max_cm": error.max_cm,
        "far": [{"joint": s.joint, "clip": s.clip, "frames": s.frames.tolist()} for s in far],
    }
    print_result(
        facts | {"file": out, "method": method} | ({} if problem is None else {"clips": used}),
        f"{out}  {facts['num_components']} components  {100 * facts['explained']:.1f} %  "
        f"{facts['num_frames']} frames  joint error mean {facts['mean_cm']:.2f} cm, max {facts['max_cm']:.2f} cm",
        is_json=json,
    )
    _draw_model(fitted, motions, settings, pictures)


def _read_clips(clips: list[str], out: str, read: ReadOptions) -> tuple[list[str], list[Motion]]:
    """Files and their motions; of folders those of the most common skeleton, and never the model that is written."""
    files = [file for file in expand_inputs(clips) if file != out]
    motions: list[Motion] = []
    with progress_bar("reading") as tell:
        for number, file in enumerate(files, 1):
            motions.append(read_motion(file, read))
            tell(number, len(files))
    pairs = zip(files, motions, strict=True)
    for note in group_notes(f"'{file}': {text}" for file, motion in pairs for text in motion.load_report.warnings):
        warn(note)
    if files == clips:
        return files, motions
    from marey.models import select_alike

    alike = select_alike(motions)
    if len(alike) < len(motions):
        warn(f"{len(motions) - len(alike)} of {len(motions)} clips have other joints than most, or rest otherwise")
    return [files[number] for number in alike], list(alike.values())


def _choose_settings(
    method: str, components: int | None, explained: float, kind: str, weights: str | None
) -> PCA | PGA:
    from marey.models import PCA, PGA

    if method in PGA_METHODS:
        return PGA(components, explained, method=PGA_METHODS[method], kind=kind, weights=weights)
    if method == "behaviour" and components is None:
        return PCA.behaviour(explained)
    root = "auto" if method == "behaviour" else "none"
    return PCA(components, explained, space="exponential" if method == "pca" else "euler", root=root)


def _draw_model(fitted: PoseModel, motions: list[Motion], settings: PCA | PGA, pictures: PictureOptions) -> None:
    """Draw what was asked for: explained variance, choice of size, components by clip, the components themselves."""
    from marey.base import save_figure

    if pictures.plot is not None:
        from marey.models import plot_explained

        figure: Any = plot_explained(fitted)
        save_figure(figure, pictures.plot)
        remark(f"wrote {pictures.plot}")
    if pictures.select is not None:
        from marey.models import plot_selection, selection_curve

        curve = selection_curve(motions, settings=settings)
        figure = plot_selection(curve)
        save_figure(figure, pictures.select)
        remark(f"wrote {pictures.select}")
    if pictures.histogram is not None:
        from marey.models import count_modes, plot_mode_counts

        found = count_modes(motions)
        figure = plot_mode_counts(found)
        save_figure(figure, pictures.histogram)
        remark(f"{found.table()}\nwrote {pictures.histogram}")
    if pictures.modes is not None:
        # The first components as film strips, from -2 to +2 deviations, one below the other (H, W, 3)
        import numpy as np

        from marey.models import mode_strips
        from marey.picture import save_image

        strips = mode_strips(fitted, _draw_mode_strip, components=4)
        still = [] if strips else [_draw_mode_strip(fitted.decode(np.zeros((1, 0)), rate_hz=1.0))]
        save_image(np.concatenate([*strips, *still]), pictures.modes)
        remark(f"wrote {pictures.modes}")


def _fit_locomotion(sources: list[str], out: str, options: LocomotionOptions, *, is_json: bool) -> None:
    from marey.base import InputError, write_atomically
    from marey.library import Library, is_library
    from marey.locomotion import fit_locomotion, load_manifest, report_held_out, sort_clips

    if len(sources) != 1:
        raise InputError(f"{len(sources)} places to learn from", "Give one library or folder of clips")
    # A library or a folder of trials, and which of them train: as a manifest says, or as their sorting finds
    folder = Path(sources[0])
    clips = Library(folder, create=False) if is_library(folder) else folder
    facts: dict[str, Any] = {"file": out}
    if options.manifest is None:
        with progress_bar("sorting") as tell:
            found = sort_clips(clips, report=tell)
        plan, file = found.manifest, options.sorting or str(Path(out).with_suffix(".toml"))
        write_atomically(Path(file), SORTING_HEAD.format(folder=folder.name, file=file, out=out) + plan.to_toml())
        facts |= {"sorting": file, **found.to_dict()}
        remark(f"{found.text()}\nwrote {file}; correct it and hand it in with --manifest {file}")
    else:
        plan = load_manifest(options.manifest)
    with progress_bar("cutting") as tell:
        model = fit_locomotion(clips, plan, prior=not options.alone, report=tell, jumps=options.jumps)
    model.save(out)
    lent = [f"{style}'s {gait}" for style, row in zip(model.styles, model.lent, strict=True)
            for gait, is_lent in zip(("walk", "run"), row, strict=True) if is_lent]  # fmt: skip
    lent += [f"{kind} jumps" for kind in model.info["lent_jumps"]]
    facts |= {"styles": list(model.styles), "jumps": list(model.jumps), "lent": lent}
    facts |= {"num_units": model.info["num_units"], "components": model.tree.main.count}
    for cycle in model.info["rejected"]:
        remark(f"cycle left out  {cycle}")
    if lent:
        remark(f"not captured, lent by other people: {', '.join(lent)}")
    if options.report is not None:
        with progress_bar("judging") as tell:
            quality = report_held_out(model, clips, plan, report=tell)
        text = json_format.dumps(quality.to_dict(), indent=1, ensure_ascii=False, allow_nan=False)
        write_atomically(Path(options.report), text + "\n")
        facts["report"] = options.report
        remark(f"errors of seen, unseen and left-out cycles:\n{quality.text()}")
    if options.plots is not None:
        from marey.locomotion import plot_speed_laws

        with progress_bar("plotting") as tell:
            facts["plots"] = plot_speed_laws(model, clips, plan, options.plots, report=tell)
        remark(f"wrote {len(facts['plots'])} plots to {options.plots}")
    print_result(
        facts,
        f"{out}  {facts['num_units']} cycles  {len(model.styles)} styles  jumps: {', '.join(model.jumps) or 'none'}",
        is_json=is_json,
    )


def _fit_behaviour(
    motions: list[Motion], out: str, components: int | None, explained: float, name: str | None, *, is_json: bool
) -> None:
    """Learn the space of a behaviour; of clips that all fly, what is about their longest flight."""
    from marey.dynamics import fit_flight_gravity
    from marey.spacetime import BehaviourSpace

    flies = all(any(one.duration_s > LEAST_FLIGHT_S for one in fit_flight_gravity(motion)) for motion in motions)
    window = "flight" if motions and flies else None
    options: dict[str, Any] = {"dimension": components, "energy": explained, "window": window}
    space = BehaviourSpace.fit(motions, name=name or Path(out).stem, **options)
    space.save(out)
    facts = {"file": out, "name": space.name, "dimension": space.dimension, "explained": space.explained}
    facts |= {"num_clips": len(motions), "window": window, "report": list(space.report)}
    if is_json:
        print_json(facts)
    else:
        share = f"{100 * space.explained:.1f} % of the variance"
        typer.echo(f"{out}  {space.dimension} coordinates  {share}  {len(motions)} clips  window {window or 'all'}")


def _fit_person(motions: list[Motion], out: str, options: LocomotionOptions, name: str, *, is_json: bool) -> None:
    """Add the person of some clips to a locomotion model, and tell who in it comes nearest."""
    from marey.locomotion import fit_person, load_model, recover_parameters

    known = load_model(options.model)
    fit_person(motions, known, name=name, amount=options.amount).save(out)
    # Glardon III.1.5.2: the model read backwards gives the mixture of its people that is nearest
    found = recover_parameters(motions[0], known)
    facts = {
        "file": out,
        "name": name,
        "speed_mps": found.speed_mps,
        "measured_speed_mps": found.measured_speed_mps,
        "gait": "run" if found.run > 0.5 else "walk",
        "style": dict(found.style),
        "error_deg": found.error_deg,
    }
    if is_json:
        print_json(facts)
        return
    called = dict(zip(known.styles, known.labels, strict=True))
    shares = ", ".join(f"{called[style]} {weight:.2f}" for style, weight in found.style.items())
    typer.echo(
        f"{out}  '{name}': {facts['gait']} at {found.measured_speed_mps:.2f} m/s; nearest of the model: {shares} "
        f"({found.error_deg:.1f} degrees off)"
    )


def _draw_mode_strip(motion: Motion) -> Image:
    """Film strip with the name of the component instead of times."""
    from marey.picture import Label, film_strip, write_labels

    # The times below the bodies are cut off and the name is written in their place
    drawn = film_strip(
        motion, count=motion.num_frames, width=WIDTH, height=HEIGHT, layout="grid", instants="time", caption=False
    )
    bare = drawn[: HEIGHT - 4 * LETTER].copy()
    return write_labels(bare, [Label(motion.name, LETTER, bare.shape[0] - LETTER, LETTER, centred=False)])
