"""The vertical axis of a file, turned to +Y; found from the body and its motion where the file does not state it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError
from marey.lie import SO3
from marey.motion import Motion
from marey.skeleton import BodyPlan, Skeleton, assess_anatomy, find_branches, joint_positions, stands_at_rest

# World axes x, y, z as axes of a file with this vertical axis: number and sign of each
AXES: Final = {
    "+y": ((0, 1, 2), (1.0, 1.0, 1.0)),
    "+z": ((0, 2, 1), (1.0, 1.0, -1.0)),
    "-y": ((0, 1, 2), (1.0, -1.0, -1.0)),
    "-z": ((0, 2, 1), (1.0, -1.0, 1.0)),
    "+x": ((1, 0, 2), (-1.0, 1.0, 1.0)),
    "-x": ((1, 0, 2), (1.0, -1.0, 1.0)),
}
RESTS_IN_FILE: Final = ("bvh", "gltf", "fbx", "usd", "kimodo", "amc", "asf")  # rest poses in the axes of the file
SAMPLED_FRAMES: Final = 16  # enough to see how a body stands
CLEAR: Final = 0.7  # [-] cosine above which a body axis is called upright
STRICT: Final = 0.85  # [-] the same, when the rest pose speaks against it
STEADY: Final = 0.05  # [-] spread of the floor height over the body's height
TRAVEL: Final = 0.5  # [-] way along the ground over the body's height
ON_FLOOR: Final = 0.08  # [-] height of the lowest joint over the body's height: an ankle or a toe on the floor
OFTEN: Final = 0.25  # [-] of the frames, in which a person who turns over stands
MOSTLY: Final = 0.9  # [-] of the frames
UPRIGHT: Final = 0.95  # [-] cosine of a body that does not bend down
LYING: Final = (0.02, 0.2)  # [-] height of the pelvis over the length of a body that lies
MOST_FRAMES: Final = 1500  # of a creature's clip that are looked at
FLAT: Final = 0.1  # [-] drop of all limbs over their lengths, below which they lie in one plane
FLIGHT_FRAMES: Final = (4, 8, 16)  # half of a flight, at 30 to 120 frames a second
ARC: Final = 0.02  # [-] height of a flight over the size of the body
HEADS: Final = ("head", "neck")
FEET: Final = ("foot", "toe", "ankle")
MIN_SNAKE: Final = 5  # joints of a chain that may be a snake
PLANE: Final = 0.15  # [-] thickness over width of the feet of a body that stands
ROD: Final = 0.03  # [-] width over length of a chain that does not bend to its sides
PRIORS: Final = {"+y": 0.5, "+z": 0.25}  # what tools write


def parse_up(up: str) -> str:
    """Return the vertical axis as ``+x``, ``-z``, ...; a letter alone means the positive direction.

    Raises:
        InputError: it names no axis.
    """
    word = str(up).strip().lower()
    word = word if word[:1] in ("+", "-") else f"+{word}"
    if word not in AXES:
        raise InputError(f"unknown vertical axis '{up}'", "It is x, y or z, and -x, -y or -z where that points down")
    return word


def to_world(vectors: FloatArray, up: str) -> FloatArray:
    """Turn vectors ``(..., 3)`` from a file whose vertical axis is ``up`` to +Y up: ``(x, z, -y)`` for +Z."""
    if up == "+y":
        return vectors
    columns, signs = AXES[parse_up(up)]
    return vectors[..., columns] * np.array(signs)


def to_file(vectors: FloatArray, up: str) -> FloatArray:
    """Undo :func:`to_world`."""
    if up == "+y":
        return vectors
    columns, signs = AXES[parse_up(up)]
    turned = np.empty(np.shape(vectors))
    turned[..., columns] = vectors * np.array(signs)
    return turned


def rotate_wxyz(wxyz: FloatArray, up: str, *, back: bool = False) -> FloatArray:
    """Conjugate rotations, ``R q R^-1``: the vector part turns like a vector."""
    if up == "+y":
        return wxyz
    turn = to_file if back else to_world
    return np.concatenate([wxyz[..., :1], turn(wxyz[..., 1:], up)], axis=-1)


def turn_motion(motion: Motion, up: str, *, taken: str | None = None) -> Motion:
    """Return a motion as it is when ``up`` is the vertical axis of its file, and not the axis that it was read with.

    A file whose rest pose is in its own axes turns as a whole, rest pose and all. Formats that rest upright by
    definition (SMPL, Xsens, DeepMimic) turn in space only.

    Args:
        motion: what a reader made of the file.
        up: the axis that is up in the file, ``z`` or ``-y``, say.
        taken: the axis that the reader took, if it is not that of the source: a clip of our own is always +Y up.

    Raises:
        InputError: the name is no axis.
    """
    source, given = motion.source, parse_up(up)
    before = taken or ("+y" if source is None else source.up)
    if given == before:
        return motion
    R_world = SO3.from_matrix(to_world(to_file(np.eye(3), before), given).T)
    skeleton, rotations, translations = motion.skeleton, motion.rotations, motion.translations
    if taken is not None or (source is not None and source.format in RESTS_IN_FILE):
        limits = tuple(replace(limit, axis=R_world @ limit.axis) for limit in skeleton.limits)
        offsets, tips = (to_world(to_file(array, before), given) for array in (skeleton.offsets, skeleton.tips))
        skeleton = replace(skeleton, offsets=offsets, tips=tips, limits=limits)
        rotations = SO3(rotate_wxyz(rotate_wxyz(rotations.wxyz, before, back=True), given))
        translations = None if translations is None else to_world(to_file(translations, before), given)
    else:
        rotations = SO3.concatenate([R_world @ rotations[:, :1], rotations[:, 1:]], axis=1)
    note = f"{given.upper()} is up, as asked for; the file was taken for {before.upper()} up"
    return replace(
        motion,
        skeleton=skeleton,
        root_positions=to_world(to_file(motion.root_positions, before), given),
        rotations=rotations,
        translations=translations,
        source=None if source is None or taken is not None else replace(source, up=given),
        load_report=motion.load_report.adding(notes=[note]),
    )


def detect_up(skeleton: Skeleton, roots: FloatArray, wxyz: FloatArray, translations: FloatArray | None = None) -> str:
    """Return the vertical axis of a file that states none, ``"+y"`` or ``"+z"`` say; everything in the file's own axes.

    A human stands: the rest pose and the motion are both asked for the way from feet to shoulders. When they disagree,
    Z needs a body that travels along Y over a floor that is steady along Z, or one that stands on the plane z = 0: a
    person who crawls along Z has neither, and one who lies on the plane y = 0 is left there. A human who never stands,
    and any other body, are judged by :func:`_judge_creature`.
    """
    index = np.unique(np.linspace(0, len(roots) - 1, SAMPLED_FRAMES).astype(np.int64))
    moving = None if translations is None else translations[index]
    posed = joint_positions(skeleton, roots[index], wxyz[index], moving)
    anatomy = assess_anatomy(skeleton, posed)
    plan = anatomy.plan
    if not anatomy.is_human or plan is None:
        return _judge_creature(skeleton, roots, wxyz, translations)
    rest = _body_axes(skeleton.rest_positions()[None], plan)[0]
    motion = _body_axes(posed, plan).mean(axis=0)
    if motion[1] > CLEAR:
        return "+y"
    if motion[2] < CLEAR:
        # Along no axis, or one that only a rest pose of the same opinion makes believable
        leaning = {up: min(rest @ axis, motion @ axis) for up, axis in _list_axes()}
        best = max(leaning, key=lambda up: leaning[up])
        # An acrobat turns over, and still stands more often along the axis of the rest pose than along any other
        upright = {up: float((_body_axes(posed, plan) @ axis > STRICT).mean()) for up, axis in _list_axes()}
        standing = max(upright, key=lambda up: upright[up])
        stands = upright[standing] > OFTEN and upright[standing] > 2.0 * sorted(upright.values())[-2]
        if stands_at_rest(skeleton):
            stands &= standing == max(upright, key=lambda up: float(rest @ dict(_list_axes())[up]))
        if stands or (leaning[best] > STRICT and assess_anatomy(skeleton).is_human):
            return standing if stands else best
        # A person who never stands is up along the axis of the rest pose, or along those that tools turn motions to
        tall = max(AXES, key=lambda up: float(rest @ dict(_list_axes())[up]))
        among = {tall, *PRIORS} if stands_at_rest(skeleton) else AXES.keys()
        return _judge_creature(skeleton, roots, wxyz, translations, among)
    if rest[1] < CLEAR:
        return "+z"
    # A walk along Y over a floor that is steady along Z, or a person who stands on the plane z = 0 all the time
    body = posed[:, skeleton.subtree(plan.root)]
    height = float(np.ptp(body, axis=(0, 1))[2])
    floor = body[..., 2].min(axis=1)
    is_steady = np.std(floor) < STEADY * height
    walks = is_steady and np.ptp(body[:, 0, 1]) > TRAVEL * height
    stands = is_steady and abs(float(np.median(floor))) < ON_FLOOR * height and motion[2] > UPRIGHT
    # Who lies on his back or belly has the plane y = 0 below every joint, and the pelvis close above it
    is_above = float(body[..., 1].min()) > -0.01 * height
    lies = is_above and LYING[0] * height < float(np.median(body[:, 0, 1])) < LYING[1] * height
    return "+z" if motion[2] > STRICT and (walks or (stands and not lies)) else "+y"


def correct_up(motion: Motion) -> Motion:
    """Turn a motion upright whose file states Y up and whose person stands along Z all the time, with a warning.

    Exporters have a switch for it, which users turn off. Rest pose and nearly all frames must agree: a person who lies
    has a rest pose that stands.
    """
    skeleton = motion.skeleton
    anatomy = assess_anatomy(skeleton)
    if anatomy.plan is None or not anatomy.is_human or motion.source is None:
        return motion
    if _body_axes(skeleton.rest_positions()[None], anatomy.plan)[0, 2] < UPRIGHT:
        return motion
    index = np.unique(np.linspace(0, motion.num_frames - 1, SAMPLED_FRAMES).astype(np.int64))
    moving = None if motion.translations is None else motion.translations[index]
    posed = joint_positions(skeleton, motion.root_positions[index], motion.rotations.wxyz[index], moving)
    if float((_body_axes(posed, anatomy.plan)[:, 2] > STRICT).mean()) < MOSTLY:
        return motion
    turned = turn_motion(motion, "z")
    warning = "the format has Y up and the person stands along Z at rest and in motion: turned upright. Give up= (--up)"
    return replace(turned, load_report=motion.load_report.adding(warning))


def _judge_creature(
    skeleton: Skeleton,
    roots: FloatArray,
    wxyz: FloatArray,
    translations: FloatArray | None,
    among: Collection[str] = AXES.keys(),
) -> str:
    r"""Return the axis :math:`a` of ``among`` that gains most votes of anatomy, ground and gravity.

    .. math:: s(a) = a \cdot (u_{rest} + u_{frames} + u_{fall}) + c(a) + z(a) - t(a) + p(a)

    :math:`u_{rest}` and :math:`u_{frames}` point from the ends of the limbs to the joints that carry them: legs hang
    down, and what spreads to the sides cancels. :math:`u_{fall}` points against the acceleration of a flight.
    :math:`c` is the share of limbs whose ends come down to the lowest level of a frame: along the vertical axis alone
    that level is a plane for all feet. :math:`z` tells that the level is steady and near zero, :math:`t` is the part of
    the way that leads along the axis, and :math:`p` prefers Y to Z and both to the others. A snake, which has no limbs,
    is judged by the ground alone, and between Y and Z; a part of a body by the names of head and feet.
    """
    count = min(len(roots), MOST_FRAMES)
    moving = None if translations is None else translations[:count]
    posed = joint_positions(skeleton, roots[:count], wxyz[:count], moving)
    limbs = [branch for branch in find_branches(skeleton) if branch.is_limb]
    ends = [limb.joints[-1] for limb in limbs]
    size = max(float(np.linalg.norm(np.ptp(posed, axis=1), axis=1).mean()), 1e-12)
    # Vector (3,) against the acceleration of flights, of length 1 where all agree: in a flight the middle of the body
    # follows a parabola, and no end of a limb stays where it is
    limb_ends = ends or [skeleton.num_joints - 1]
    middle = posed.mean(axis=1)
    found: list[FloatArray] = []
    for half in FLIGHT_FRAMES:
        x = np.linspace(-1.0, 1.0, 2 * half + 1)
        basis = np.stack([np.ones_like(x), x, x**2], axis=1)
        fit = np.linalg.pinv(basis)
        for start in range(0, len(posed) - 2 * half, half):
            track = middle[start : start + 2 * half + 1]
            coefficients = fit @ track
            rise = float(np.linalg.norm(coefficients[2]))
            if rise > ARC * size and np.abs(track - basis @ coefficients).max() < 0.05 * rise:
                still = np.ptp(posed[start : start + 2 * half + 1, limb_ends], axis=0).max(axis=1).min()
                found += [-coefficients[2]] if still > 0.5 * rise else []
    votes = np.zeros(3)
    if found:
        votes += np.sum(found, axis=0) / np.linalg.norm(found, axis=1).sum()
    for positions in (skeleton.rest_positions()[None], posed) if limbs else ():
        ways = np.stack([(positions[:, limb.fork] - positions[:, limb.joints[-1]]) / limb.length for limb in limbs])
        hang = ways.mean(axis=(0, 1))
        if len(limbs) > 4:
            # Six feet or more make a plane, whichever way a spider's legs reach out
            feet = positions[:, ends] - positions[:, ends].mean(axis=1, keepdims=True)
            _, spreads, frames = np.linalg.svd(feet, full_matrices=False)
            sides = np.sign((frames[:, 2] * ways.mean(axis=0)).sum(axis=1))
            is_plane = spreads[:, 2] < PLANE * spreads[:, 1]
            hang = hang + ((is_plane * sides)[:, None] * frames[:, 2]).mean(axis=0)
        # Legs that spread flat to all sides say nothing
        votes = votes + hang / max(float(np.linalg.norm(hang)), FLAT)
    if not limbs:
        # A part of a body, whose joints have telling names
        names = [name.lower() for name in skeleton.names]
        heads, feet = ([j for j, n in enumerate(names) if any(w in n for w in words)] for words in (HEADS, FEET))
        if heads and feet:
            body = posed[:, heads].mean(axis=1) - posed[:, feet].mean(axis=1)
            body = body / np.maximum(np.linalg.norm(body, axis=1, keepdims=True), 1e-12)
            return "+z" if body[:, 2].mean() > CLEAR else "+y"
        if skeleton.num_joints < MIN_SNAKE:
            return "+y"
    travel = np.ptp(posed.mean(axis=1), axis=0)
    scores: dict[str, float] = {}
    for up, axis in _list_axes():
        if up not in among:
            continue
        heights = posed @ axis
        low = heights.min(axis=1)
        is_low = (heights - low[:, None] < ON_FLOOR * size).any(axis=0)
        is_floor = np.std(low) < STEADY * size and abs(float(np.median(low))) < ON_FLOOR * size
        along = float(np.abs(axis) @ travel) / max(float(np.linalg.norm(travel)), size)
        score = float(axis @ votes) + 0.5 * is_floor - along + PRIORS.get(up, 0.0)
        if limbs:
            scores[up] = score + float(is_low[ends].mean())
        elif up in PRIORS:
            # A snake rests on the ground with many joints, and bends to its sides; a rod may stand there
            bends = float(np.ptp(posed[..., 0], axis=1).mean()) > ROD * size
            scores[up] = is_floor * bends * (0.3 + float(is_low.mean())) + PRIORS[up]
    return max(scores, key=lambda up: scores[up])


def _list_axes() -> list[tuple[str, FloatArray]]:
    """Every vertical axis that a file may have, by name, as a unit vector (3,) in the file."""
    return [(up, to_file(np.array([0.0, 1.0, 0.0]), up)) for up in AXES]


def _body_axes(positions: FloatArray, plan: BodyPlan) -> FloatArray:
    """Unit vectors (P, 3) from feet to shoulders."""
    ends = [positions[:, [limb.upper for limb in plan.arms]], positions[:, [limb.end for limb in plan.legs]]]
    body = ends[0].mean(axis=1) - ends[1].mean(axis=1)
    lengths = np.linalg.norm(body, axis=-1, keepdims=True)
    return np.asarray(body / np.maximum(lengths, 1e-12))
