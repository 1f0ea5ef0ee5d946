"""Find where the feet touch the ground, and what that says about the gait."""

import marey
from marey.contacts import ContactSettings, contact_phases, detect_contacts, ensure_contacts
from marey.motion import cadence, gait_cycles, mean_speed
from marey.picture import plot_contacts

motion = ensure_contacts(marey.samples.walk(1.5))
print(f"speed {mean_speed(motion):.2f} m/s, {cadence(motion):.0f} steps a minute")
for phase in contact_phases(motion)[:6]:
    print(f"  frames {phase.start:3d} to {phase.stop:3d}: {phase.kind}")
for cycle in gait_cycles(motion)[:3]:
    print(f"  {cycle.side} cycle, frames {cycle.start} to {cycle.stop}, {cycle.speed_mps:.2f} m/s")
usual, strict = detect_contacts(motion), detect_contacts(motion, settings=ContactSettings(stay_share=0.4))
print(f"a stricter speed leaves {strict.active.sum() / usual.active.sum():.0%} of the detected contacts")
plot_contacts(motion, "02_contacts.png")
