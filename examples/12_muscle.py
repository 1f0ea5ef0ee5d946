"""Space-time control by adjoint gradients: a spring pair is brought to two goals with the least force."""

import numpy as np
from matplotlib.figure import Figure

from marey.muscle import (
    MassSpringSystem,
    OptimalControlProblem,
    StateGoal,
    make_network,
    make_particle,
    make_spring_pair,
    simulate_controls,
    solve_control,
)

# Two particles and the spring between them (Engell-Nørregård 2012, §27): the state is positions, then velocities.
pair = make_spring_pair()
start = pair.state([[0.0, 0.0], [1.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]])
middle = pair.state([[0.6, 0.8], [1.6, 0.8]], [[0.0, 0.0], [0.0, 0.0]])
end = pair.state([[2.0, 0.0], [2.0, 1.0]], [[0.0, 0.0], [0.0, 0.0]])
steps = 80
problem = OptimalControlProblem(pair, start, steps, [StateGoal(steps // 2, middle), StateGoal(steps, end)], effort=1e-6)
result = solve_control(problem)
print("pair:    ", result)

# One particle that is thrown, under gravity: the path without forces beside the one that reaches the goal.
ball = make_particle()
throw = ball.state([[0.0, 0.0]], [[1.0, 2.0]])
goal = ball.state([[2.0, 1.0]], [[0.0, 0.0]])
thrown = OptimalControlProblem(ball, throw, steps, [StateGoal(steps, goal)], effort=1e-4)
free = simulate_controls(thrown, np.zeros(thrown.shape))
reached = solve_control(thrown)
print("particle:", reached)

# Any network of springs can be steered: of three particles in a row the first is pushed, so that the last moves on.
chain: MassSpringSystem = make_network([1.0, 1.0, 1.0], [(0, 1), (1, 2)], 1.0, actuated=[0])
row = chain.state([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]])
tip = StateGoal(steps, [2.5, 0.0], components=[4, 5])
print("chain:   ", solve_control(OptimalControlProblem(chain, row, steps, [tip], effort=1e-4)))

figure = Figure(figsize=(9, 4), layout="constrained")
left, right = figure.subplots(1, 2)
for particle in range(2):
    left.plot(result.states[:, 2 * particle], result.states[:, 2 * particle + 1])
left.set(title="two particles and a spring", xlabel="x [m]", ylabel="y [m]", aspect="equal")
right.plot(free[:, 0], free[:, 1], "--", label="no force")
right.plot(reached.states[:, 0], reached.states[:, 1], label="least force")
right.set(title="a thrown particle", xlabel="x [m]", ylabel="y [m]", ylim=(-3.0, 1.5))
right.legend()
figure.savefig("12_muscle.png")
