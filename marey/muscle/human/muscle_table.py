"""The muscles of the canonical human: where they run, how strong they are.

Points are places in the T-pose of ``marey.HUMAN`` as parts of its stature (x left, y up, z forward), each carried by a
joint; the ways between them are straight. They are our own round placing, made so that moment arms have the right sign
and the right size over the range of each joint, not a survey of anatomy. Largest forces [N] and fibre lengths [m] are
round numbers of the size found in [Rajagopal2016]_ (legs) and [Holzbaur2005]_ (arms), the heads of one muscle added up;
for trunk and neck they are our own guess. Fibres at the ankle count twice their length: long tendons take half the way.
"""

from __future__ import annotations

from typing import Final

PathPoint = tuple[str, float, float, float]  # joint that carries it, place in the T-pose over stature

# name, largest force [N], fibre length [m], points; the left side: the right is its mirror image
LEFT_MUSCLES: Final[tuple[tuple[str, float, float, tuple[PathPoint, ...]], ...]] = (
    # ---- hip and knee
    (
        "gluteus_maximus",
        3300.0,
        0.150,
        (
            ("pelvis", 0.028, 0.560, -0.055),
            ("pelvis", 0.055, 0.530, -0.060),
            ("left_hip", 0.078, 0.500, -0.045),
            ("left_hip", 0.076, 0.465, -0.012),
        ),
    ),
    (
        "gluteus_medius",
        2800.0,
        0.075,
        (("pelvis", 0.068, 0.590, -0.010), ("left_hip", 0.094, 0.528, -0.004), ("left_hip", 0.088, 0.515, 0.0)),
    ),
    ("gluteus_minimus", 800.0, 0.055, (("pelvis", 0.070, 0.568, 0.026), ("left_hip", 0.092, 0.520, 0.006))),
    (
        "tensor_fasciae_latae",
        400.0,
        0.095,
        (
            ("pelvis", 0.075, 0.575, 0.030),
            ("left_hip", 0.090, 0.500, 0.016),
            ("left_hip", 0.078, 0.310, 0.010),
            ("left_knee", 0.076, 0.272, 0.012),
        ),
    ),
    (
        "iliopsoas",
        2500.0,
        0.115,
        (("pelvis", 0.025, 0.590, 0.005), ("pelvis", 0.045, 0.560, 0.034), ("left_hip", 0.048, 0.485, 0.006)),
    ),
    ("adductors", 2500.0, 0.120, (("pelvis", 0.010, 0.512, 0.012), ("left_hip", 0.050, 0.410, -0.012))),
    (
        "medial_hamstrings",
        2800.0,
        0.100,
        (("pelvis", 0.036, 0.505, -0.042), ("left_hip", 0.040, 0.385, -0.014), ("left_knee", 0.038, 0.250, -0.006)),
    ),
    (
        "biceps_femoris",
        1900.0,
        0.100,
        (("pelvis", 0.040, 0.505, -0.042), ("left_hip", 0.064, 0.385, -0.014), ("left_knee", 0.070, 0.252, -0.006)),
    ),
    (
        "rectus_femoris",
        2200.0,
        0.080,
        (
            ("pelvis", 0.058, 0.560, 0.036),
            ("left_hip", 0.052, 0.305, 0.040),
            ("left_knee", 0.052, 0.296, 0.037),
            ("left_knee", 0.052, 0.262, 0.030),
        ),
    ),
    (
        "vasti",
        9500.0,
        0.100,
        (
            ("left_hip", 0.058, 0.440, 0.022),
            ("left_hip", 0.052, 0.305, 0.040),
            ("left_knee", 0.052, 0.296, 0.037),
            ("left_knee", 0.052, 0.262, 0.030),
        ),
    ),
    # ---- ankle
    (
        "gastrocnemius",
        4700.0,
        0.110,
        (("left_hip", 0.052, 0.305, -0.011), ("left_ankle", 0.052, 0.022, -0.038)),
    ),
    ("soleus", 6200.0, 0.090, (("left_knee", 0.052, 0.240, -0.014), ("left_ankle", 0.052, 0.022, -0.038))),
    (
        "tibialis_anterior",
        1250.0,
        0.070,
        (("left_knee", 0.060, 0.225, 0.016), ("left_knee", 0.050, 0.060, 0.014), ("left_ankle", 0.042, 0.022, 0.034)),
    ),
    (
        "tibialis_posterior",
        1900.0,
        0.080,
        (("left_knee", 0.052, 0.220, -0.008), ("left_knee", 0.038, 0.048, -0.026), ("left_ankle", 0.038, 0.014, 0.012)),
    ),
    (
        "peroneals",
        2000.0,
        0.100,
        (("left_knee", 0.070, 0.230, -0.004), ("left_knee", 0.068, 0.046, -0.020), ("left_ankle", 0.070, 0.016, 0.008)),
    ),
    # ---- trunk and neck
    (
        "rectus_abdominis",
        700.0,
        0.280,
        (
            ("pelvis", 0.014, 0.535, 0.050),
            ("spine1", 0.020, 0.625, 0.062),
            ("spine2", 0.024, 0.690, 0.064),
            ("spine3", 0.028, 0.725, 0.060),
        ),
    ),
    (
        "erector_spinae",
        3000.0,
        0.130,
        (
            ("pelvis", 0.022, 0.560, -0.042),
            ("spine1", 0.024, 0.635, -0.044),
            ("spine2", 0.024, 0.695, -0.044),
            ("spine3", 0.022, 0.770, -0.040),
        ),
    ),
    (
        "external_oblique",
        1200.0,
        0.120,
        (("spine3", 0.072, 0.725, 0.028), ("spine2", 0.060, 0.690, 0.046), ("pelvis", -0.004, 0.575, 0.056)),
    ),
    (
        "internal_oblique",
        1200.0,
        0.110,
        (("pelvis", 0.072, 0.590, 0.012), ("spine1", 0.046, 0.640, 0.050), ("spine3", -0.002, 0.725, 0.060)),
    ),
    (
        "quadratus_lumborum",
        600.0,
        0.090,
        (("pelvis", 0.056, 0.585, -0.026), ("spine1", 0.050, 0.640, -0.028), ("spine3", 0.046, 0.730, -0.030)),
    ),
    (
        "sternocleidomastoid",
        300.0,
        0.110,
        (("spine3", 0.010, 0.802, 0.030), ("neck", 0.026, 0.850, 0.016), ("head", 0.040, 0.896, -0.006)),
    ),
    (
        "splenius",
        500.0,
        0.100,
        (("spine3", 0.012, 0.795, -0.036), ("neck", 0.016, 0.850, -0.034), ("head", 0.020, 0.900, -0.024)),
    ),
    (
        "deep_neck_flexors",
        200.0,
        0.080,
        (("spine3", 0.010, 0.800, 0.012), ("neck", 0.010, 0.855, 0.014), ("head", 0.008, 0.897, 0.026)),
    ),
    ("scalenes", 300.0, 0.060, (("spine3", 0.040, 0.805, 0.006), ("neck", 0.020, 0.868, -0.004))),
    # ---- shoulder girdle and shoulder
    ("upper_trapezius", 900.0, 0.110, (("neck", 0.006, 0.866, -0.026), ("left_collar", 0.098, 0.832, -0.020))),
    ("rhomboids", 1000.0, 0.120, (("spine3", 0.004, 0.755, -0.044), ("left_collar", 0.080, 0.790, -0.044))),
    ("serratus_anterior", 1000.0, 0.140, (("spine3", 0.072, 0.715, 0.034), ("left_collar", 0.092, 0.786, -0.010))),
    ("pectoralis_minor", 500.0, 0.100, (("spine3", 0.050, 0.745, 0.048), ("left_collar", 0.096, 0.812, 0.008))),
    (
        "anterior_deltoid",
        1150.0,
        0.100,
        (
            ("left_collar", 0.092, 0.832, 0.010),
            ("left_shoulder", 0.132, 0.836, 0.010),
            ("left_shoulder", 0.185, 0.824, 0.0),
        ),
    ),
    (
        "middle_deltoid",
        1150.0,
        0.110,
        (
            ("left_collar", 0.100, 0.846, -0.012),
            ("left_shoulder", 0.139, 0.846, -0.010),
            ("left_shoulder", 0.185, 0.828, -0.010),
        ),
    ),
    (
        "posterior_deltoid",
        900.0,
        0.130,
        (
            ("left_collar", 0.092, 0.828, -0.038),
            ("left_shoulder", 0.132, 0.834, -0.032),
            ("left_shoulder", 0.185, 0.824, -0.020),
        ),
    ),
    (
        "pectoralis_major",
        1300.0,
        0.140,
        (("spine3", 0.012, 0.770, 0.056), ("left_collar", 0.086, 0.800, 0.030), ("left_shoulder", 0.150, 0.816, 0.006)),
    ),
    (
        "latissimus_dorsi",
        1200.0,
        0.260,
        (
            ("pelvis", 0.018, 0.585, -0.044),
            ("spine3", 0.062, 0.735, -0.052),
            ("left_collar", 0.088, 0.782, -0.036),
            ("left_shoulder", 0.150, 0.806, -0.008),
        ),
    ),
    ("teres_major", 500.0, 0.150, (("left_collar", 0.072, 0.768, -0.046), ("left_shoulder", 0.148, 0.806, -0.012))),
    (
        "supraspinatus",
        600.0,
        0.070,
        (
            ("left_collar", 0.070, 0.836, -0.026),
            ("left_collar", 0.110, 0.842, -0.012),
            ("left_shoulder", 0.126, 0.836, -0.010),
        ),
    ),
    ("infraspinatus", 1200.0, 0.080, (("left_collar", 0.056, 0.796, -0.046), ("left_shoulder", 0.124, 0.822, -0.030))),
    ("subscapularis", 1400.0, 0.090, (("left_collar", 0.060, 0.790, -0.024), ("left_shoulder", 0.124, 0.818, 0.008))),
    # ---- elbow and wrist
    (
        "biceps_brachii",
        1050.0,
        0.130,
        (
            ("left_collar", 0.106, 0.824, 0.008),
            ("left_shoulder", 0.146, 0.820, 0.012),
            ("left_shoulder", 0.221, 0.818, 0.006),
            ("left_elbow", 0.331, 0.819, 0.0),
        ),
    ),
    (
        "brachialis",
        1000.0,
        0.090,
        (("left_shoulder", 0.211, 0.818, -0.002), ("left_elbow", 0.321, 0.817, 0.0)),
    ),
    (
        "brachioradialis",
        270.0,
        0.170,
        (("left_shoulder", 0.261, 0.826, 0.0), ("left_elbow", 0.436, 0.824, 0.0)),
    ),
    (
        "triceps_long",
        800.0,
        0.130,
        (
            ("left_collar", 0.100, 0.808, -0.026),
            ("left_shoulder", 0.150, 0.814, -0.030),
            ("left_shoulder", 0.285, 0.818, -0.030),
            ("left_elbow", 0.293, 0.818, -0.032),
        ),
    ),
    (
        "triceps_short",
        1250.0,
        0.110,
        (
            ("left_shoulder", 0.200, 0.818, -0.024),
            ("left_shoulder", 0.285, 0.818, -0.030),
            ("left_elbow", 0.293, 0.818, -0.032),
        ),
    ),
    (
        "flexor_carpi_radialis",
        350.0,
        0.062,
        (
            ("left_shoulder", 0.294, 0.810, 0.002),
            ("left_elbow", 0.432, 0.808, -0.002),
            ("left_wrist", 0.468, 0.809, 0.002),
        ),
    ),
    (
        "flexor_carpi_ulnaris",
        500.0,
        0.060,
        (
            ("left_shoulder", 0.294, 0.810, -0.022),
            ("left_elbow", 0.432, 0.808, -0.020),
            ("left_wrist", 0.468, 0.810, -0.024),
        ),
    ),
    (
        "extensor_carpi_radialis",
        450.0,
        0.070,
        (
            ("left_shoulder", 0.296, 0.826, 0.0),
            ("left_elbow", 0.432, 0.828, -0.002),
            ("left_wrist", 0.468, 0.827, 0.002),
        ),
    ),
    (
        "extensor_carpi_ulnaris",
        300.0,
        0.062,
        (
            ("left_shoulder", 0.296, 0.826, -0.020),
            ("left_elbow", 0.432, 0.828, -0.020),
            ("left_wrist", 0.468, 0.827, -0.024),
        ),
    ),
)

# axes of each joint (in its own frame) that muscles govern; the rest is left to bone and ligament
GOVERNED_AXES: Final[dict[str, str]] = {
    "left_hip": "xyz",
    "left_knee": "x",
    "left_ankle": "x",  # the side tilt depends on millimetres of the centre of pressure, which a clip does not tell
    "spine1": "xyz",
    "spine2": "xyz",
    "spine3": "xyz",
    "neck": "xyz",
    "head": "xyz",
    "left_collar": "yz",
    "left_shoulder": "xyz",
    "left_elbow": "y",
    "left_wrist": "yz",
}
