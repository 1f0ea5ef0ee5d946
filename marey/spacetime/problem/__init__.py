"""Problems of trajectory optimisation as plain data, what their contacts can deliver, and the check of solutions."""
