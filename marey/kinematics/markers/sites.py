"""Where markers sit on a human: a table of sites; bones placed by their own markers alone; a treadmill's belt.

Places are those of the T-pose as fractions of the stature, x left, y up, z forward, seen from surface anatomy; they are
only a first guess that the fit corrects. Joints are those that carry the bone under the marker: a marker on the outer
knee belongs to the thigh, hence to the hip joint.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.lie import SE3, SO3
from marey.motion import Markers, Motion, find_runs, from_absolute
from marey.skeleton import HUMAN, Skeleton, contact_points, role_map
from marey.skeleton import HUMAN_STATURE_M as STATURE_M

SitePosition = tuple[str, tuple[float, float, float]]

_MIDDLE: Final[Mapping[str, SitePosition]] = {
    "S2": ("pelvis", (0.0, 0.550, -0.062)),
    "C7": ("spine3", (0.0, 0.842, -0.045)),
    "T10": ("spine2", (0.0, 0.720, -0.062)),
    "CLAV": ("spine3", (0.0, 0.800, 0.035)),
    "STRN": ("spine3", (0.0, 0.715, 0.060)),
    "FrontHead": ("head", (0.0, 0.950, 0.055)),
    "BackHead": ("head", (0.0, 0.950, -0.060)),
    "TopHead": ("head", (0.0, 1.000, 0.008)),
    "T8": ("spine3", (0.0, 0.755, -0.062)),
    "L1": ("spine1", (0.0, 0.640, -0.058)),
}
_LEFT: Final[Mapping[str, SitePosition]] = {  # of the left side; the right one is its mirror image
    "ASIS": ("pelvis", (0.070, 0.565, 0.055)),
    "PSIS": ("pelvis", (0.027, 0.565, -0.055)),
    "Shoulder": ("collar", (0.108, 0.850, -0.008)),
    "Clavicle": ("spine3", (0.014, 0.810, 0.035)),
    "Biceps": ("shoulder", (0.200, 0.818, 0.018)),
    "Elbow": ("shoulder", (0.300, 0.838, -0.010)),
    "Forearm": ("elbow", (0.370, 0.818, -0.015)),
    "Wrist": ("elbow", (0.442, 0.818, -0.025)),
    "Knee": ("hip", (0.082, 0.288, 0.004)),
    "ShankBack": ("knee", (0.080, 0.170, -0.020)),
    "Ankle": ("knee", (0.075, 0.040, -0.012)),
    "Heel": ("ankle", (0.052, 0.022, -0.045)),
    "MT5": ("ankle", (0.085, 0.015, 0.055)),
    "Toe": ("ankle", (0.050, 0.022, 0.095)),
    "MFC": ("hip", (0.022, 0.288, 0.004)),
    "MMAL": ("knee", (0.030, 0.043, -0.008)),
    "MT1": ("ankle", (0.035, 0.025, 0.065)),
    "MT2": ("ankle", (0.052, 0.030, 0.070)),
    "HJC": ("hip", (0.052, 0.530, 0.0)),
    "KJC": ("knee", (0.052, 0.285, 0.004)),
    "AJC": ("ankle", (0.052, 0.039, -0.010)),
    "SJC": ("shoulder", (0.115, 0.818, -0.010)),
    "EJC": ("elbow", (0.301, 0.818, -0.010)),
    "WJC": ("wrist", (0.447, 0.818, -0.010)),
    "FrontHead": ("head", (0.040, 0.950, 0.045)),
    "BackHead": ("head", (0.040, 0.950, -0.050)),
    "SideHead": ("head", (0.046, 0.930, 0.0)),
    "IliacCrest": ("pelvis", (0.082, 0.600, 0.005)),
    "Trochanter": ("hip", (0.098, 0.525, 0.0)),
    "Scapula": ("spine3", (0.045, 0.780, -0.065)),
    "FrontShoulder": ("spine3", (0.100, 0.805, 0.035)),
    "BackShoulder": ("spine3", (0.095, 0.805, -0.055)),
    "ElbowMedial": ("shoulder", (0.300, 0.798, -0.010)),
    "WristRadius": ("elbow", (0.442, 0.818, 0.015)),
    "WristUlna": ("elbow", (0.442, 0.818, -0.035)),
    "Hand": ("wrist", (0.500, 0.826, -0.010)),
    "Thigh": ("hip", (0.092, 0.400, 0.005)),
    "ThighFront": ("hip", (0.060, 0.390, 0.050)),
    "ThighBack": ("hip", (0.085, 0.360, -0.030)),
    "Shank": ("knee", (0.080, 0.185, 0.000)),
    "ShankFront": ("knee", (0.055, 0.180, 0.028)),
    "Midfoot": ("ankle", (0.055, 0.045, 0.035)),
}
# What laboratories write for a site, without side, digits at the end and signs between letters
_WORDS: Final[Mapping[str, str]] = {
    "S2": "s sac sacr sacral sacrum vsac vsacral sacwand midpsis root",
    "ASIS": "asis asi fwt iasd ias anteriorsuperioriliacspine waistfront frontwaist",
    "PSIS": "psis psi bwt ips posteriorsuperioriliacspine waistback backwaist",
    "IliacCrest": "ic icr iliac crest iliaccrest iliacrest iliccrest",
    "Trochanter": "gt troc trochanter greattroch greatertrochanter gtr trc",
    "C7": "c7 cv cerv7 c",
    "T10": "t10 t12 tv10 tv12",
    "T8": "t8 t4 t2 t3 t5 t6 tv2 tv8 mai",
    "L1": "l1 l2 l3 l4 l5 lv1 lv3 lv5",
    "CLAV": "clav ij sjn jn manubrium suprasternal incisura",
    "STRN": "strn sternum ster stern px xiph xiphoid sxs sternalend",
    "Clavicle": "clavicle clavic",
    "Scapula": "scap scapula back rback bac off offset ias scapinf",
    "TopHead": "tophead headtop top vertex thea head hd",
    "FrontHead": "fhd frontheat fronthead headfront fhea forehead glab headfronttop",
    "BackHead": "bhd backhead headback rearhead rearhd bhea",
    "SideHead": "ear tet temple headside sidehead tragus hdside tmj",
    "Shoulder": "sho shoulder acr acromion acromium ac aa shouldertop sae cac shd acrom acromial",
    "FrontShoulder": "ash shoulderfront anteriorshoulder frontshoulder",
    "BackShoulder": "psh shoulderback posteriorshoulder backshoulder",
    "Biceps": "upa uparm ua uarm biceps bicep humerus upperarm arm upperarmfront deltoid hum triceps",
    "Elbow": "elb elbow lel elbowlat elblat lelb elbl ele hle elbowlateral latelbow elbowout lelbow epl latepi",
    "ElbowMedial": "mel elbowmed elbmed melb elbm hme elbowmedial medelbow elbowin melbow epm",
    "Forearm": "frm fra forearm fasuperior farm lowerarm lowarm fa forearmfront",
    "Wrist": "wri wrist wrs",
    "WristRadius": (
        "wra faradius wristradius rad radius wristlat wrmed rsp thumbwrist wristin wristthumb wristmed latwrist"
    ),
    "WristUlna": "wrb faulna wristulna uln ulna us usp wristout wristpinky medwrist",
    "Hand": "fin hand finger mc hl hm knuckle thm thumb fing handout handin hnd pinky index",
    "Thigh": "thi thigh th fem femur thighupper upperthigh thighlateral tht",
    "ThighFront": "thighfront frontthigh antfem ante thighmid",
    "ThighBack": "thighrear thighback rearthigh postfem thighlower",
    "Knee": (
        "kne knee lfc kneelat klat lknee knel latknee fle fle lepi kneelateral kneeout epicondlat lk latfem condyle"
    ),
    "MFC": "mfc kneemed kmed mknee knem medknee fme mepi kneemedial kneein epicondmed mk",
    "Shank": (
        "tib tb sh shank tibia shn sk shin shanklateral calf shankupper tti upperleg lowerleg leg fibula fib fax ttc"
    ),
    "ShankFront": "shankfront shankantsup frontshank tibfront tibialtuberosity tt tubtib",
    "ShankBack": "shankrear shankback rearshank shanklower",
    "Ankle": "ank ankle lmal mal anklelat alat latankle lankle anklelateral malleolus ankl fal lm latmal ankleout",
    "MMAL": "mmal anklemed amed medankle mankle anklemedial ankm tam mm medmal anklein",
    "Heel": "hee heel cal calc calcn calcaneus fcc heelback hl",
    "MT5": (
        "mt5 meta5 5meta 5mt met5 fm5 vmt toelat 5th vmh5 lateralfoot footlat 5met fmt5 midfootlat mtp5 pinkytoe toeout"
    ),
    "MT1": "mt1 meta1 1meta 1mt met1 fm1 imt toemed 1st fmt1 midfootmed mtp1 medialfoot footmed toein",
    "MT2": "mt2 mt23 meta2 met2 2meta fm2 mtp2 midfootsup mt3",
    "Toe": "toe toetip hallux hlx halx bigtoe toes tip ft foot",
    "Midfoot": "midfoot instep footmid mid nav navicular arch",
    "HJC": "hjc hjcreg hip hipjc hipjoint hipcentre hipcenter",
    "KJC": "kjc kneejc kneecentre kneecenter",
    "AJC": "ajc anklejc anklecentre anklecenter",
    "SJC": "sjc gh shoulderjc shouldercentre gu",
    "EJC": "ejc elbowjc elbowcentre centelbow",
    "WJC": "wjc wristjc wristcentre",
}
# Sites in the middle of a segment, where laboratories put clusters: the place on the segment says little
CLUSTER_SITES: Final = frozenset(
    {
        *("Thigh", "ThighFront", "ThighBack", "Shank", "ShankFront", "ShankBack", "Biceps", "Forearm"),
        *("Scapula", "Hand", "Midfoot", "Toe", "SideHead"),
    }
)
_STEMS: Final[Mapping[str, str]] = {word: site for site, words in _WORDS.items() for word in words.split()}


@dataclass(frozen=True, slots=True)
class MarkerSite:
    """Where a marker sits: a joint's name and a point in its frame [m]."""

    joint: str
    point: tuple[float, float, float]


def known_sites() -> dict[str, SitePosition]:
    """Every site of both sides: ``"L.ASIS"``, ``"R.ASIS"``, ``"C7"``."""
    found: dict[str, SitePosition] = {**_MIDDLE}
    for side, letter, sign in (("left_", "L", 1.0), ("right_", "R", -1.0)):
        for name, (joint, (x, y, z)) in _LEFT.items():
            carrier = joint if joint in ("pelvis", "spine3", "head") else side + joint
            found[f"{letter}.{name}"] = (carrier, (sign * x, y, z))
    return found


def parse_marker_name(name: str) -> str | None:
    """The site of :func:`known_sites` that a name hints at, or None: ``"Subject:LASI"`` is ``"L.ASIS"``.

    A side is a letter or a word at either end (``r_knee``, ``L.ASIS``, ``KneeRight``, ``RKNE``); digits at the end may
    number the markers of a cluster (``L_thigh3``, ``RTB2``).
    """
    text = re.split(r"[:|]", name.strip())[-1].lower()
    text = re.sub(r"\b(left)\b|left", "l.", text, count=1) if "left" in text else text.replace("right", "r.", 1)
    text = re.sub(r"^(.*[^.])([lr])\.$", r"\2.\1", text) if text.endswith(("l.", "r.")) else text
    # Side and stem, by how sure the reading is: a separated letter, a letter that is glued to a word, no side
    readings: list[tuple[str, str]] = []
    if match := re.match(r"^([lr])[^a-z0-9]+(.+)$", text) or re.match(r"^([lr])()(.+)$", text):
        readings.append((match[1].upper(), match[match.lastindex or 2]))
    if match := re.match(r"^(.+?)[^a-z0-9]+([lr])$", text) or (
        text not in _STEMS and re.match(r"^([a-z0-9]{3,})([lr])$", text)
    ):
        readings.append((match[2].upper(), match[1]))
    for side, stem in [*readings, ("", text)]:
        plain = re.sub(r"[^a-z0-9]", "", stem)
        site = _STEMS.get(plain) or _STEMS.get(re.sub(r"\d+$", "", plain))
        if site is None:
            continue
        # One of two markers on the sternum lies at the end of a clavicle
        site = "Clavicle" if side and site in ("CLAV", "STRN") else site
        if side and site in _LEFT:
            return f"{side}.{site}"
        if site in _MIDDLE:
            return site
    return None


def place_site(site: str, skeleton: Skeleton) -> MarkerSite | None:
    """A known site on a template, sizes those of the template; None where it has no such joint."""
    joint, place = known_sites()[site]
    roles = role_map(skeleton)
    if joint not in roles:
        return None
    scale = float(np.ptp(skeleton.rest_positions()[:, 1])) / float(np.ptp(HUMAN.rest_positions()[:, 1]))
    away = STATURE_M * np.array(place) - HUMAN.rest_positions()[HUMAN.index(joint)]
    x, y, z = (scale * away).tolist()
    return MarkerSite(skeleton.names[roles[joint]], (x, y, z))


MIN_MARKERS: Final = 3  # on a bone: two leave a turn about their line open
MIN_SPREAD_M: Final = 0.02  # [m] across the longest line through them: nearer markers are collinear for this purpose


def fit_bone_frames(skeleton: Skeleton, markers: Markers, sites: Mapping[str, MarkerSite]) -> tuple[SE3, BoolArray]:
    r"""Frames of bones from their own markers, batch ``(F, J)``, and where they are determined ``(F, J)``.

    .. math:: \min_{R_j, p_j} \sum_i \|y_i - (R_j s_i + p_j)\|^2

    Kabsch's rotation of each bone ([Tournier2011]_ §4.2). A bone needs three markers that are seen and not on a line;
    elsewhere the frame is the identity and means nothing.
    """
    frames, joints = markers.num_frames, skeleton.num_joints
    R, p = np.tile(np.eye(3), (frames, joints, 1, 1)), np.zeros((frames, joints, 3))
    is_determined = np.zeros((frames, joints), dtype=np.bool_)
    for joint, name in enumerate(skeleton.names):
        own = [m for m, site in sites.items() if site.joint == name and m in markers.names]
        if len(own) < MIN_MARKERS:
            continue
        columns = [markers.names.index(m) for m in own]
        seen = markers.valid[:, columns].astype(np.float64)[..., None]
        points, places = np.array([sites[m].point for m in own]), markers.positions[:, columns]
        count = np.maximum(seen.sum(axis=1), 1.0)
        middle, aim = (seen * points).sum(axis=1) / count, (seen * places).sum(axis=1) / count
        local, world = seen * (points - middle[:, None]), seen * (places - aim[:, None])
        u, _, vt = np.linalg.svd(np.einsum("fmi,fmj->fij", world, local))
        signs = np.ones((frames, 3))
        signs[:, 2] = np.linalg.det(u @ vt)
        R[:, joint] = (u * signs[:, None]) @ vt
        p[:, joint] = aim - np.einsum("fij,fj->fi", R[:, joint], middle)
        spread = np.linalg.svd(local, compute_uv=False)[:, 1] / np.sqrt(count[:, 0])
        is_determined[:, joint] = (count[:, 0] >= MIN_MARKERS) & (spread > MIN_SPREAD_M)
    return SE3(SO3.from_matrix(R), p), is_determined


def measure_separation(motion: Motion, markers: Markers, sites: Mapping[str, MarkerSite]) -> dict[str, FloatArray]:
    """How far each joint comes apart ``(n,)`` [m] when bones are placed by their own markers, in the frames that tell.

    Only joints both of whose bones have three markers are measured. A joint that separates by centimetres has markers
    that slide on the skin or sit elsewhere than the fit has them.

    Args:
        motion: fitted to the markers, of the same frames.
        markers: what was seen.
        sites: where each marker sits on the body of the motion.
    """
    frames, is_determined = fit_bone_frames(motion.skeleton, markers, sites)
    found = from_absolute(motion.skeleton, frames, rate_hz=motion.rate_hz).separations
    separations = dict[str, FloatArray]()
    for joint in range(1, motion.skeleton.num_joints):
        both = is_determined[:, joint] & is_determined[:, motion.skeleton.parents[joint]]
        if both.any():
            separations[motion.skeleton.names[joint]] = found[both, joint]
    return separations


LOW_M: Final = 0.035  # [m] a point of the sole below this, above its own lowest places, may stand
SLOWEST_MPS: Final = 0.25  # [m/s] of a belt
SHARE: Final = 0.35  # [-] pelvis speed over belt speed up to which the pelvis stays
STEADY: Final = 0.25  # [-] spread of stance velocities over the belt's speed


@dataclass(frozen=True, slots=True, eq=False)
class Belt:
    """Velocity of the ground under the feet."""

    velocity_mps: FloatArray  # (3,) [m/s] in world, horizontal

    @property
    def speed_mps(self) -> float:
        """Speed of the belt [m/s]."""
        return float(np.linalg.norm(self.velocity_mps))

    def over_ground(self, motion: Motion) -> Motion:
        """The same motion seen from the belt: feet in stance rest, and the body advances."""
        way = -self.velocity_mps * (np.arange(motion.num_frames) / motion.rate_hz)[:, None]
        return replace(motion, root_positions=motion.root_positions + way)


def find_belt(motion: Motion) -> Belt | None:
    """The belt under a motion, or None where the feet stand on still ground.

    A point of a sole stands while it is low and moves level. On a belt the median of its velocity is that of the belt,
    in every stance of both feet, and the pelvis hardly moves on the whole; a walk over ground has stances at rest. A
    runner brakes the belt by up to a tenth while the heel is down and pushes it on later, so the speed is the mean over
    the stances of the toes, which are down all the time.
    """
    if motion.num_frames < 10:
        return None
    points = contact_points(motion.skeleton)
    places = points.positions(*motion.joint_frames())
    velocity = np.gradient(places, axis=0) * motion.rate_hz
    soles = [k for k, name in enumerate(points.names) if "heel" in name or "toe" in name]
    stances: list[FloatArray] = []
    of_toes: list[FloatArray] = []
    for k in soles:
        height = places[:, k, 1]
        low = (height < np.percentile(height, 3) + LOW_M) & (np.abs(velocity[:, k, 1]) < 0.5)
        for start, stop in find_runs(low):
            # The middle of a stance: neither landing nor leaving
            if stop - start >= max(3, int(0.04 * motion.rate_hz)):
                third = (stop - start) // 4
                middle = np.median(velocity[start + third : stop - third, k], axis=0)
                stances.append(middle)
                away = np.linalg.norm(velocity[start:stop, k] - middle, axis=-1)
                near = away < STEADY * max(float(np.linalg.norm(middle)), SLOWEST_MPS)
                if "toe" in points.names[k]:
                    of_toes.append(velocity[start:stop, k][near].mean(axis=0) if near.any() else middle)
    if len(stances) < 2:
        return None
    found = np.array(stances) * [1.0, 0.0, 1.0]
    belt = np.median(np.array(of_toes) * [1.0, 0.0, 1.0], axis=0) if len(of_toes) > 1 else np.median(found, axis=0)
    speed = float(np.linalg.norm(belt))
    spread = float(np.median(np.linalg.norm(found - belt, axis=1)))
    way = (motion.root_positions[-1] - motion.root_positions[0]) * [1.0, 0.0, 1.0]
    drift = float(np.linalg.norm(way)) / max(motion.duration_s, 1e-6)
    if speed < SLOWEST_MPS or drift > SHARE * speed or spread > STEADY * speed:
        return None
    return Belt(belt)
