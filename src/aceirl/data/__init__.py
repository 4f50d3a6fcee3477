"""What was observed and said: trajectories, answers and preferences, and the forms in which people record them."""
