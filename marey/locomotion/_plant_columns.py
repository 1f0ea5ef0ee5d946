"""What the memory of the foot-plant kernel holds, column by column, and the tolerances of planting."""

from __future__ import annotations

# columns of a foot's row of the memory
ALIVE, ANKLE_HELD, TOE_HELD, ANKLE_BARRED, TOE_BARRED = 0, 1, 2, 3, 4
LET_GO, TURN_BACK, SETTLE = 5, 6, 7  # [s] left of easing out the shift, the turn, and of settling after a surprise
YAW, TILT, SHIFT_A, GOAL_A, GOAL_T, SHIFT_T = 8, 10, 16, 22, 25, 28  # rates of those eased stand behind them
HEADING, ANKLE_AHEAD, TOE_AHEAD, RAW = 34, 35, 36, 37  # RAW: raw rotation of the ankle one frame ago
RISE, TARGET, TURN = 41, 43, 46  # TARGET, TURN: what the legs are posed with in this frame
LEVEL = 51  # [m] of the ground under this foot, over the floor, and its rate
LOWEST_A, LOWEST_T = 55, 101  # [m] lowest height that the raw path of a held ankle, toe has had
SINK_TIME, WAIT = (
    53,
    54,
)  # [s] left until a landed effector is all the way down, and until a foot has rolled onto its toe
NEED = 50  # [m] how far the hip is too high
FINAL = 102  # [m] shift of the ankle as posed, and its rate
RISEN, TIPTOE = 108, 109  # [m] how far the raw heel of a held ankle has risen; and the raw toe
LEAST = 110  # [m] least distance over the ground that a held toe has had from its raw one
REST_A, REST_T, SIZE = 112, 113, 114  # [m] rest heights of ankle and toe, and the size of the character
FLAT, LATERAL, HEEL, HEEL_DROP = 115, 117, 120, 123  # as in Legs, lengths in the character's size; FLAT: left, ahead
ROOT_DROP = 0  # of the body's row: how far the root is lowered [m], and its rate

SETTLE_S = 0.06  # [s] a plant that nobody announced settles in this time
SINK_S = 0.08  # [s] a foot that lands above its rest height comes down in this time
SINK_M = 0.04  # [m] at most so much
ROLL_IN_S = 0.05  # [s] a toe is held this long after it touched at most: until then the foot rolls down on its heel
ROLL_IN_M = 0.040  # [m] over a flat foot's: a toe that comes down from higher takes all of that time
EASE_PART = 0.4  # [-] of the time to the next plant
SWING_PART = 0.8  # [-] of that time: large corrections fade longer
FADE_MPS, FADE_RADPS = 0.25, 1.5  # usual speeds of a large correction that fades
SHORT_S = 0.06  # [s] shortest ease-out
ANNOUNCED = 1.5  # [-] frames: a plant seen coming one frame ago was announced
FASTEST_MPS, FASTEST_RADPS = 0.25, 2.0  # corrections are let go no faster: more would overshoot by centimetres
ROLL_S = 0.10  # [s] a foot that rolls onto its toe is back on its own course after this time
HALF_LIFE_S = 0.06  # [s] of lowering the root
DROP_MPS = 0.3  # [m/s] fastest lowering of the root
DROP_PART = 0.04  # [-] of the leg: the most that the root is lowered
SEEN_S = 0.15  # [s] a foot that lands this soon starts to lower the root
TWIST_RAD = 1.0471975511965976  # 60 degrees: a foot that was turned away more is let go (§III.2.5.5)
SHOWN_M = 0.001  # [m] what is farther from where it is held is not held
SEEN_M = 0.0005  # [m] an ankle farther from its target has missed it
HEEL_M = 0.025  # [m] a heel whose raw one has risen this much over a planted toe rises
TOE_M = 0.040  # [m] a toe whose raw one has risen this much has left: until then it rolls over its tip
LEAVE_M = 0.015  # [m] the same for a toe that lags behind; and a root is not lowered for a heel that has risen so much
TIPTOE_M = 0.03  # [m] a toe held over the ground goes up with its raw one, wholly from here on: it rolls on its tip
LAG_M = 0.03  # [m] over the ground, more than while it stood
CLOSE_M = 1e-4  # [m] beyond reach: a flat foot raises its heel
UNSEEN_M = 1e9  # [m] lowest height of what is not held
LOST_M = 0.02  # [m] beyond reach: the plant is over
MARGIN_RAD = 0.05  # [rad] over which a heel that must rise takes over from one that rises
FORCED_RAD = 0.35  # [rad] a heel that must rise this much more than it would has stayed behind: its toe is let go
STEEP_RAD = 1.4  # [rad] a foot stands on its toe no steeper than this
