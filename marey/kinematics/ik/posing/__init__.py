"""What surrounds the solvers: what posing assumes of a person, attempts, branches of poses, the final measurement."""
