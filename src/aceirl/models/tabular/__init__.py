"""The model of numbered states: counts, estimates, radii, bounds, dynamic programming and the planner."""
