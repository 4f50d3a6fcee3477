"""Learning from observations that are vectors of numbers, without bins."""
