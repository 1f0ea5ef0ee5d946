"""The closed loop: quantise, decode, look at the error, and go on from what the reader will have."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray, IntArray, kernel
from marey.compression._frames_kernels import order_frames
from marey.compression._pose_kernels import (
    CapturedClip,
    CodecBody,
    FrameState,
    compensate_rounding,
    compute_joint_error,
    new_frame_state,
    position_joint,
    rotate_joint,
    solve_joint,
)
from marey.compression._predict_kernels import (
    Predictor,
    new_predictor,
    predict_number,
    prepare_features,
    reset_predictor,
    update_weights,
)

MAX_QUANTISED = 2.0**29  # of a quantised number; beyond it the prediction has failed


@kernel
def _quantise(p: Predictor, s: FloatArray, numbers: IntArray, t: int, i: int, wanted: float, scale: float) -> None:
    """Quantise number ``i`` of frame ``t`` with its step times ``scale``."""
    start = predict_number(p, i)
    step = p.steps[i] * scale
    value = min(max(np.rint((wanted - start) / step), -MAX_QUANTISED), MAX_QUANTISED)
    numbers[t, i] = int(value)
    s[t, i] = start + value * step
    p.surprise[i] = value * scale


@kernel
def _encode_frame(
    body: CodecBody,
    goal: CapturedClip,
    p: Predictor,
    pose: FrameState,
    s: FloatArray,
    numbers: IntArray,
    t: int,
    scale: float,
) -> float:
    """Quantise one frame from the root outwards and return its largest squared error [m^2]."""
    for c in range(3):
        _quantise(p, s, numbers, t, c, goal.numbers[t, c], scale)
        pose.positions[0, c] = s[t, c]
    worst = 0.0
    starts = body.joints.starts
    for j in range(body.parents.shape[0]):
        if j > 0:
            position_joint(body, pose, t, j)
        count = starts[j + 1] - starts[j]
        if count > 0:
            solve_joint(body, goal, pose, t, j)
            for k in range(count):
                i = starts[j] + k
                _quantise(p, s, numbers, t, i, pose.wanted[k], scale)
                compensate_rounding(pose, k, s[t, i] - pose.wanted[k], count)
        rotate_joint(body, pose, j, s[t, starts[j] :])
        worst = max(worst, compute_joint_error(body, goal, pose, t, j))
    return worst


@kernel
def encode_poses(
    body: CodecBody, goal: CapturedClip, links: IntArray, steps: FloatArray, levels: int, limit_m: float, most: int
) -> tuple[IntArray, IntArray, float]:
    """Quantised numbers ``(F, n)``, halvings of the step ``(F,)`` and the largest error [m] of a clip.

    A frame that is off by more than ``limit_m`` is coded again with half the step, ``most`` times at most.
    """
    frames, n = goal.numbers.shape
    p, pose = new_predictor(links, steps), new_frame_state(body.parents.shape[0])
    s, numbers = np.zeros((frames, n)), np.zeros((frames, n), dtype=np.int64)
    refined = np.zeros(frames, dtype=np.int64)
    order, strides = order_frames(frames, levels)
    worst = 0.0
    for k in range(frames):
        t, is_causal = order[k], strides[k] == 1 << levels
        if k == 0 or strides[k] != strides[k - 1]:
            reset_predictor(p, strides[k], is_causal)
        prepare_features(p, s, t, strides[k], is_causal)
        scale, error = 1.0, 0.0
        for attempt in range(most + 1):
            error = _encode_frame(body, goal, p, pose, s, numbers, t, scale)
            refined[t] = attempt
            if error <= limit_m * limit_m:
                break
            scale *= 0.5
        worst = max(worst, error)
        update_weights(p)
    return numbers, refined, np.sqrt(worst)


@kernel
def encode_table(values: FloatArray, links: IntArray, steps: FloatArray, levels: int) -> tuple[IntArray, FloatArray]:
    """Quantised numbers and what the reader gets of them, for a table ``(F, n)`` without a body around it."""
    frames, n = values.shape
    p = new_predictor(links, steps)
    s, numbers = np.zeros((frames, n)), np.zeros((frames, n), dtype=np.int64)
    order, strides = order_frames(frames, levels)
    for k in range(frames):
        t, is_causal = order[k], strides[k] == 1 << levels
        if k == 0 or strides[k] != strides[k - 1]:
            reset_predictor(p, strides[k], is_causal)
        prepare_features(p, s, t, strides[k], is_causal)
        for i in range(n):
            _quantise(p, s, numbers, t, i, values[t, i], 1.0)
        update_weights(p)
    return numbers, s


@kernel
def decode_table(numbers: IntArray, refined: IntArray, links: IntArray, steps: FloatArray, levels: int) -> FloatArray:
    """Numbers ``(F, n)`` from quantised ones: the way back of both encoders."""
    frames, n = numbers.shape
    p = new_predictor(links, steps)
    s = np.zeros((frames, n))
    order, strides = order_frames(frames, levels)
    for k in range(frames):
        t, is_causal = order[k], strides[k] == 1 << levels
        if k == 0 or strides[k] != strides[k - 1]:
            reset_predictor(p, strides[k], is_causal)
        prepare_features(p, s, t, strides[k], is_causal)
        scale = 0.5 ** refined[t]
        for i in range(n):
            start = predict_number(p, i)
            s[t, i] = start + numbers[t, i] * (p.steps[i] * scale)
            p.surprise[i] = numbers[t, i] * scale
        update_weights(p)
    return s
