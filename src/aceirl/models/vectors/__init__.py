"""Models over observations that are vectors of numbers."""
