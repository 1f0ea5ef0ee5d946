"""A binary range coder driven by a small mixture of adaptive models, for whole numbers that are mostly small.

A number is written as decisions: how many bits its magnitude has (one decision a bit), the bits below the first, the
sign. Each decision is predicted by several counters, each watching another context; their log-odds are mixed with
weights that learn on the way, as context-mixing archivers do. All arithmetic is on whole numbers, or on floats with
exactly rounded operations only, so that every machine decodes what another one wrote.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marey.base import IntArray, kernel

Bytes = NDArray[np.uint8]

MODELS: Final = 6  # counters that vote on a decision
NODES: Final = 16  # decisions "has the magnitude more than d bits"; the last one stands for all beyond
MAX_BITS: Final = 30  # of a magnitude; larger ones are refused before coding
SIGN_PLACES: Final = (MAX_BITS + 1) * MAX_BITS  # chances of bits come first, those of signs from here
BUCKETS: Final = 48  # half octaves of an expected magnitude, in 1/256
RATIOS: Final = 12  # how unusual the neighbours are
RECENT: Final = 16  # magnitudes kept apart in the contexts of neighbours
STARTED: Final = np.uint32(3)  # decisions that a counter which begins with a law seems to have seen
RATE_LIMIT: Final = 160  # a counter averages over about this many decisions at most
ODDS_UNIT: Final = 256.0  # log-odds are in 1/256
ODDS_LIMIT: Final = 2047
START_WEIGHT: Final = 14000  # each of the six starts with a fifth of a vote
LEARNING: Final = 16  # of the weights; found by trial on walks and boxing
GROUPS: Final = 4  # sets of weights: by level


class Coder(NamedTuple):
    """All that coding changes; plain arrays, so that compiled functions share it."""

    interval: IntArray  # (4,) low and high end, next byte, code word
    counters: NDArray[np.uint32]  # (MODELS, S) chance of a one in 1/65536, times 256, plus how often it was seen
    weights: IntArray  # (GROUPS * NODES, MODELS)
    plain: NDArray[np.uint16]  # (P,) chances of bits below the first and of signs
    contexts: IntArray  # (MODELS,) where this decision looks
    odds: IntArray  # (MODELS,)
    stretch: IntArray  # (4096,) log-odds of a chance in 1/4096
    squash: IntArray  # (4096,) the way back, chance in 1/65536
    rates: IntArray  # (RATE_LIMIT + 1,) how far a counter moves after so many decisions, in 1/65536


def build_odds_tables() -> tuple[IntArray, IntArray]:
    """Log-odds of chances and back, as whole numbers."""
    chance = (np.arange(4096) + 0.5) / 4096.0
    stretch = np.rint(ODDS_UNIT * np.log(chance / (1.0 - chance))).astype(np.int64)
    odds = (np.arange(4096) - 2048) / ODDS_UNIT
    squash = np.clip(np.rint(65536.0 / (1.0 + np.exp(-odds))), 24, 65536 - 24).astype(np.int64)
    return np.clip(stretch, -ODDS_LIMIT, ODDS_LIMIT), squash


@kernel
def magnitude_bucket(magnitude: int) -> int:
    """Half octave of a magnitude given in 1/256."""
    bits = 0
    rest = magnitude
    while rest > 0:
        rest >>= 1
        bits += 1
    if bits < 2:
        return bits
    half = (magnitude >> (bits - 2)) & 1
    return min(2 * bits - 2 + half, BUCKETS - 1)


@kernel
def _start_counters(counters: NDArray[np.uint32], model: int, stride: int) -> None:
    """Begin the counters of a model whose contexts are ``(bucket, other)`` with a two-sided geometric law."""
    for bucket in range(BUCKETS):
        # Mean magnitude of the bucket, and the law theta^|n| that has it
        mean = 0.02
        if bucket >= 2:
            mean = ((2.0 + (bucket & 1)) + 0.5) / 1024.0
            for _ in range((bucket + 2) // 2):
                mean *= 2.0
        theta = (np.sqrt(1.0 + mean * mean) - 1.0) / mean
        above = 2.0 * theta / (1.0 + theta)  # chance that the magnitude is not zero
        power = theta  # theta to the number of magnitudes with d bits
        for d in range(NODES):
            chance = np.uint32(65535.0 * min(max(above, 0.0005), 0.9995))
            for other in range(stride):
                counters[model, (bucket * stride + other) * NODES + d] = (chance << np.uint32(8)) | STARTED
            above = power
            power = power * power


@kernel
def new_coder(channels: int, stretch: IntArray, squash: IntArray) -> Coder:
    """Return a coder for the symbols of so many channels, before its first decision."""
    # Room for the contexts of every model; three of them begin with a law
    size = max(BUCKETS * BUCKETS, max(channels * RATIOS, channels * BUCKETS), RECENT * RECENT * 4) * NODES
    counters = np.full((MODELS, size), 32768 << 8, dtype=np.uint32)
    _start_counters(counters, 0, BUCKETS)
    _start_counters(counters, 1, RATIOS)
    _start_counters(counters, 4, RECENT)
    interval = np.zeros(4, dtype=np.int64)
    interval[1] = 0xFFFFFFFF
    weights = np.full((GROUPS * NODES, MODELS), START_WEIGHT, dtype=np.int64)
    plain = np.full(SIGN_PLACES + 9 * channels, 32768, dtype=np.uint16)
    zeros = np.zeros(MODELS, dtype=np.int64)
    rates = np.empty(RATE_LIMIT + 1, dtype=np.int64)
    for seen in range(RATE_LIMIT + 1):
        rates[seen] = 131072 // (2 * seen + 3)
    return Coder(interval, counters, weights, plain, zeros, zeros.copy(), stretch, squash, rates)


@kernel
def open_stream(coder: Coder, data: Bytes) -> None:
    """Read the first code word of a stream."""
    word = 0
    for place in range(4):
        word = (word << 8) | (int(data[place]) if place < data.shape[0] else 0)
    coder.interval[2], coder.interval[3] = 4, word


@kernel
def code_bit(interval: IntArray, data: Bytes, chance: int, bit: int, is_reading: bool) -> int:
    """Write a bit, or read one, whose chance of being one is ``chance`` in 1/65536 (between 1 and 65535)."""
    low, high, word = interval[0], interval[1], interval[3]
    middle = low + (((high - low) * chance) >> 16)
    # The interval is cut at the chance; a one takes the lower part
    if is_reading:
        bit = 1 if word <= middle else 0
    if bit:
        high = middle
    else:
        low = middle + 1
    # Bytes on which both ends agree are settled
    while ((low ^ high) & 0xFF000000) == 0:
        place = interval[2]
        if is_reading:
            word = ((word << 8) & 0xFFFFFFFF) | (int(data[place]) if place < data.shape[0] else 0)
        else:
            data[place] = high >> 24
        interval[2] = place + 1
        low = (low << 8) & 0xFFFFFFFF
        high = ((high << 8) & 0xFFFFFFFF) | 255
    interval[0], interval[1], interval[3] = low, high, word
    return bit


@kernel
def close_stream(coder: Coder, data: Bytes) -> int:
    """Write what is left of the interval and return the length of the stream [byte]."""
    low = coder.interval[0]
    data[coder.interval[2]] = (low >> 24) + 1 if low > 0 else 0
    coder.interval[2] += 1
    return coder.interval[2]


@kernel
def code_plain(coder: Coder, data: Bytes, place: int, bit: int, is_reading: bool) -> int:
    """Write or read a bit with one adaptive chance."""
    chance = int(coder.plain[place])
    bit = code_bit(coder.interval, data, min(max(chance, 64), 65472), bit, is_reading)
    # Exponential average over about 32 bits
    target = 65535 if bit else 0
    coder.plain[place] = chance + ((target - chance) >> 5)
    return bit


class NumberContext(NamedTuple):
    """What is known about a number before it is coded."""

    channel: int  # which quantity it belongs to
    group: int  # which set of weights to use
    fast: int  # magnitude expected from the last few numbers of the channel, in 1/256
    slow: int  # the same from many
    ratio: int  # how unusual the neighbours are, below RATIOS
    last: int  # magnitude of the number before in this channel
    beside: int  # magnitude of the number before in this frame
    signs: int  # context of the sign, below 9


@kernel
def code_number(coder: Coder, data: Bytes, value: int, known: NumberContext, is_reading: bool) -> int:
    """Write one whole number, or read one and return it; the coder learns."""
    # Where each model looks: pairs of expected magnitudes, neighbours, channel
    channel, group = known.channel, known.group
    quick, steady = magnitude_bucket(known.fast), magnitude_bucket(known.slow)
    both = magnitude_bucket((known.fast + known.slow) >> 1)
    near, next_to = min(known.last, RECENT - 1), min(known.beside, RECENT - 1)
    coder.contexts[0] = (quick * BUCKETS + steady) * NODES
    coder.contexts[1] = (both * RATIOS + known.ratio) * NODES
    coder.contexts[2] = (channel * RATIOS + known.ratio) * NODES
    coder.contexts[3] = (channel * BUCKETS + both) * NODES
    coder.contexts[4] = (both * RECENT + next_to) * NODES
    coder.contexts[5] = ((near * RECENT + next_to) * 4 + min(group, 3)) * NODES
    magnitude = abs(value)
    bits = 0
    while bits < MAX_BITS:
        # Decision "has the magnitude more than so many bits": the log-odds of all models, mixed by their weights
        node = min(bits, NODES - 1)
        bit = 1 if (magnitude >> bits) > 0 else 0
        weights, counters, odds = coder.weights[group * NODES + node], coder.counters, coder.odds
        total = 0
        for m in range(MODELS):
            vote = coder.stretch[counters[m, coder.contexts[m] + node] >> 12]
            odds[m] = vote
            total += weights[m] * vote
        chance = coder.squash[min(max(total >> 16, -ODDS_LIMIT), ODDS_LIMIT) + 2048]
        bit = code_bit(coder.interval, data, chance, bit, is_reading)
        # Gradient step of the weights, and each counter moves towards the bit at its own rate
        error = (((bit << 16) - chance) >> 4) * LEARNING
        target = 65535 if bit else 0
        for m in range(MODELS):
            weights[m] += (odds[m] * error + 0x8000) >> 16
            place = coder.contexts[m] + node
            counter = int(counters[m, place])
            seen, level = counter & 255, counter >> 8
            level += ((target - level) * coder.rates[seen]) >> 16
            counters[m, place] = (level << 8) | min(seen + 1, RATE_LIMIT)
        if not bit:
            break
        bits += 1
    if bits == 0:
        return 0
    # Bits below the first, the highest with a chance of its own for each length, then the sign
    result = 1
    for place in range(bits - 2, -1, -1):
        chance_at = bits * MAX_BITS + place if place == bits - 2 else place
        result = 2 * result + code_plain(coder, data, chance_at, (magnitude >> place) & 1, is_reading)
    sign = SIGN_PLACES + 9 * channel + known.signs
    return -result if code_plain(coder, data, sign, 1 if value < 0 else 0, is_reading) else result
