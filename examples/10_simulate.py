"""Strike a hand in weightless space: which integrator keeps energy and momentum (Tournier 2011, §11.1.3)?"""

from matplotlib.figure import Figure

import marey
from marey.models import PGA
from marey.simulate import momentum_scenario

walk = marey.samples.walk()
body = marey.Body.from_motion(walk)
model = PGA(n_components=10).fit(walk)

# The figure moves in ten modes of the walk. Nothing acts on it after the first step: both momenta must stay.
logs = momentum_scenario(
    body, model, integrators=("naive", "identity", "constant", "variational"), dt=0.02, steps=100, pose=walk[0]
)
for name, log in logs.items():
    drift = abs(log.angular[-1] - log.angular[1]).max()
    print(f"{name:12s} energy {log.energy_j[1]:.4f} J -> {log.energy_j[-1]:.4f} J, angular momentum off by {drift:.1e}")

figure = Figure(figsize=(7, 5), layout="constrained")
above, below = figure.subplots(2, 1, sharex=True)
for name, log in logs.items():
    above.plot(log.times, log.energy_j, label=name)
    below.plot(log.times, log.angular[:, 2])
above.set(ylabel="energy [J]", title="a struck figure in free flight")
above.legend()
below.set(xlabel="time [s]", ylabel="angular momentum along z [kg m²/s]")
figure.savefig("10_simulate.png")
