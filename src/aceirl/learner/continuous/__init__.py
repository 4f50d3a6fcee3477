"""Learning where observations are vectors of numbers."""
