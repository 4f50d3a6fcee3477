"""A run, or a comparison of runs, in words and pictures."""
