"""Quantised frames to bytes and back: which frame comes when, and what each number is expected to be."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from marey.base import FloatArray, IntArray, kernel
from marey.compression.range_coder import (
    GROUPS,
    RATIOS,
    Bytes,
    Coder,
    NumberContext,
    close_stream,
    code_number,
    code_plain,
    magnitude_bucket,
    new_coder,
    open_stream,
)

FLAG_PLACES = 8  # chances of the flags that say how far a frame is refined
MAX_REFINED = 40  # halvings of the step; the reader stops there
BYTES_PER_NUMBER = 16  # more than any number can take


@kernel
def order_frames(frames: int, levels: int) -> tuple[IntArray, IntArray]:
    """Frames in coding order and the stride of each: every 2^levels-th first, then the ones half-way, and so on."""
    order, strides = np.empty(frames, dtype=np.int64), np.empty(frames, dtype=np.int64)
    stride, count, start = 1 << levels, 0, 0
    while stride > 0:
        step = stride if start == 0 and count == 0 else 2 * stride
        for t in range(start, frames, step):
            order[count], strides[count] = t, stride
            count += 1
        stride >>= 1
        start = stride
    return order, strides


@kernel
def _code_frames(
    coder: Coder, data: Bytes, numbers: IntArray, refined: IntArray, levels: int, is_reading: bool
) -> Bytes:
    """Write all frames in coding order, or read them into the arrays; returns the bytes, grown if need be."""
    frames, count = numbers.shape
    order, strides = order_frames(frames, levels)
    fast, slow = np.full(count, 512), np.full(count, 512)
    previous = np.zeros(count, dtype=np.int64)
    before = 0
    for k in range(frames):
        need = coder.interval[2] + BYTES_PER_NUMBER * (count + 8)
        if not is_reading and need > data.shape[0]:
            grown = np.empty(2 * need, dtype=np.uint8)
            grown[: data.shape[0]] = data
            data = grown
        # Each level of the order has its own weights
        depth = 0
        while (strides[k] << depth) < (1 << levels):
            depth += 1
        t = order[k]
        # A small count in unary: how often the step of this frame is halved
        first = coder.plain.shape[0] - 9
        value = int(refined[t])
        seen = 0
        while seen < MAX_REFINED:
            place = first + (min(before, 1) if seen == 0 else min(1 + seen, FLAG_PLACES - 1))
            if not code_plain(coder, data, place, 1 if value > seen else 0, is_reading):
                break
            seen += 1
        before = seen
        refined[t] = before
        # The numbers of the frame, each known by its neighbours in the frame and in the one coded before in this
        # level
        row = numbers[t]
        group = min(depth, GROUPS - 1)
        unusual = 0  # running mean of how many half octaves the numbers are above what was expected, in 1/16
        for i in range(row.shape[0]):
            ratio = min(max((unusual + 8 + 16 * (RATIOS // 2)) >> 4, 0), RATIOS - 1)
            beside = row[i - 1] if i > 0 else 0
            # Signs of both neighbours: none, plus or minus
            sign_before = 0 if previous[i] == 0 else (1 if previous[i] > 0 else 2)
            signs = 3 * sign_before + (0 if beside == 0 else (1 if beside > 0 else 2))
            known = NumberContext(i, group, fast[i], slow[i], ratio, abs(previous[i]), abs(beside), signs)
            row[i] = code_number(coder, data, row[i], known, is_reading)
            # What was expected follows, quickly and slowly
            size = 256 * abs(row[i])
            expected = (fast[i] + slow[i]) >> 1
            surprise = magnitude_bucket(size + 64) - magnitude_bucket(expected + 64)
            unusual += (16 * surprise - unusual) >> 3
            fast[i] += (size - fast[i]) >> 2
            slow[i] += (size - slow[i]) >> 5
            previous[i] = row[i]
        if is_reading and coder.interval[2] > data.shape[0] + 8:
            break
    return data


@kernel
def write_frames(numbers: IntArray, refined: IntArray, levels: int, stretch: IntArray, squash: IntArray) -> Bytes:
    """Bytes of quantised frames ``(F, n)`` and of how far each is refined ``(F,)``."""
    coder = new_coder(numbers.shape[1] + 1, stretch, squash)
    data = np.empty(4096 + BYTES_PER_NUMBER * (numbers.shape[1] + 8), dtype=np.uint8)
    data = _code_frames(coder, data, numbers.copy(), refined.copy(), levels, False)
    length = close_stream(coder, data)
    return data[:length].copy()


@kernel
def read_frames(
    data: Bytes, frames: int, count: int, levels: int, stretch: IntArray, squash: IntArray
) -> tuple[IntArray, IntArray, int]:
    """Undo :func:`write_frames`; the last value is how many bytes were used, -1 if they did not suffice."""
    coder = new_coder(count + 1, stretch, squash)
    open_stream(coder, data)
    numbers, refined = np.zeros((frames, count), dtype=np.int64), np.zeros(frames, dtype=np.int64)
    _code_frames(coder, data, numbers, refined, levels, True)
    return numbers, refined, (coder.interval[2] if coder.interval[2] <= data.shape[0] + 8 else -1)


NUM_OWN_FEATURES: Final = 4  # features from the number's own past and future
NUM_LINKS: Final = 8  # features from other numbers of the frame
NUM_FEATURES: Final = NUM_OWN_FEATURES + NUM_LINKS
FORGETTING: Final = 0.99  # about 100 frames are remembered
START_SPREAD: Final = 0.003  # trust in the first weights: surprises of about 20 steps outweigh it
SPREAD_LIMIT: Final = 1e8  # trace above which the inverse correlation is shrunk again


class Predictor(NamedTuple):
    """State of the prediction; all lengths in steps of the quantiser."""

    weights: FloatArray  # (n, FEATURES)
    spread: FloatArray  # (n, FEATURES, FEATURES) inverse correlation of the features
    features: FloatArray  # (n, FEATURES)
    base: FloatArray  # (n,) prediction before learning
    own: FloatArray  # (n,) learnt part from the number's own neighbours
    surprise: FloatArray  # (n,) decoded minus predicted, this frame
    gain: FloatArray  # (FEATURES,)
    links: IntArray  # (n, LINKS) numbers decoded earlier in the frame that predict this one; -1 is none
    steps: FloatArray  # (n,) step of the quantiser


@kernel
def new_predictor(links: IntArray, steps: FloatArray) -> Predictor:
    """Return a predictor that has seen nothing."""
    n = steps.shape[0]
    return Predictor(
        np.zeros((n, NUM_FEATURES)), np.zeros((n, NUM_FEATURES, NUM_FEATURES)), np.zeros((n, NUM_FEATURES)),
        np.zeros(n), np.zeros(n),
        np.zeros(n), np.zeros(NUM_FEATURES), links, steps,
    )  # fmt: skip


@kernel
def reset_predictor(p: Predictor, stride: int, is_causal: bool) -> None:
    """Forget what was learnt: frames of the next level are predicted from others."""
    p.weights[:] = 0.0
    p.spread[:] = 0.0
    for i in range(p.steps.shape[0]):
        for a in range(NUM_FEATURES):
            p.spread[i, a, a] = START_SPREAD
        if is_causal:
            p.weights[i, 0] = 1.0 if stride == 1 else 0.6


@kernel
def prepare_features(p: Predictor, s: FloatArray, t: int, stride: int, is_causal: bool) -> None:
    """Prepare the prediction of frame ``t`` of the decoded numbers ``s`` ``(F, n)``."""
    frames, k = s.shape[0], stride
    for i in range(p.steps.shape[0]):
        f = p.features[i]
        if is_causal:
            # Decoded frames on one side: the last value, and the last differences
            last = s[t - k, i] if t >= k else 0.0
            p.base[i] = last
            for a in range(NUM_OWN_FEATURES):
                older = s[t - (a + 2) * k, i] if t >= (a + 2) * k else last
                f[a] = last - older
                last = older
        elif t + k >= frames:
            # The end of the clip: half the last difference goes on
            a1 = s[t - k, i]
            a3 = s[t - 3 * k, i] if t >= 3 * k else a1
            p.base[i] = a1 + 0.5 * (a1 - a3)
            f[:NUM_OWN_FEATURES] = 0.0
        else:
            # Decoded frames on both sides: the four-point rule, and what it leaves out
            a1, b1 = s[t - k, i], s[t + k, i]
            a3 = s[t - 3 * k, i] if t >= 3 * k else 2.0 * a1 - b1
            b3 = s[t + 3 * k, i] if t + 3 * k < frames else 2.0 * b1 - a1
            a5 = s[t - 5 * k, i] if t >= 5 * k else 2.0 * a3 - a1
            b5 = s[t + 5 * k, i] if t + 5 * k < frames else 2.0 * b3 - b1
            p.base[i] = (9.0 * (a1 + b1) - (a3 + b3)) / 16.0
            f[0], f[1], f[2], f[3] = a3 - a1 - b1 + b3, a5 - a3 - b3 + b5, b1 - a1, b3 - a3
        scale, total = 1.0 / p.steps[i], 0.0
        for a in range(NUM_OWN_FEATURES):
            f[a] *= scale
            total += f[a] * p.weights[i, a]
        p.own[i] = total


@kernel
def predict_number(p: Predictor, i: int) -> float:
    """Prediction of number ``i``, once the surprises of its links are known."""
    total = p.own[i]
    for a in range(NUM_LINKS):
        other = p.links[i, a]
        if other < 0:
            break
        p.features[i, NUM_OWN_FEATURES + a] = p.surprise[other]
        total += p.surprise[other] * p.weights[i, NUM_OWN_FEATURES + a]
    return p.base[i] + total * p.steps[i]


@kernel
def update_weights(p: Predictor) -> None:
    r"""Correct the weights of all numbers by their surprises :math:`e` in this frame.

    Recursive least squares: :math:`g = Pf/(\lambda + f^TPf)`, :math:`w \leftarrow w + g\,e`.
    """
    gain = p.gain
    for i in range(p.steps.shape[0]):
        f, spread = p.features[i], p.spread[i]
        size = NUM_FEATURES
        while size > NUM_OWN_FEATURES and p.links[i, size - NUM_OWN_FEATURES - 1] < 0:
            size -= 1
        # P f and lambda + f^T P f
        bottom = FORGETTING
        for a in range(size):
            total = 0.0
            for b in range(size):
                total += spread[a, b] * f[b]
            gain[a] = total
            bottom += total * f[a]
        if bottom < FORGETTING:  # rounding has spoilt the correlation: begin again
            spread[:] = 0.0
            for a in range(NUM_FEATURES):
                spread[a, a] = 1.0
            continue
        # w + g e, and the update of the covariance P
        part, fresh = 1.0 / bottom, 1.0 / FORGETTING
        share = p.surprise[i] * part
        trace = 0.0
        for a in range(size):
            p.weights[i, a] += gain[a] * share
            for b in range(a + 1):
                value = (spread[a, b] - gain[a] * gain[b] * part) * fresh
                spread[a, b] = value
                spread[b, a] = value
            trace += spread[a, a]
        if trace > SPREAD_LIMIT:
            for a in range(size):
                for b in range(size):
                    spread[a, b] *= 0.1
