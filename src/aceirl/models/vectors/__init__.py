"""Observations that are vectors of numbers: committees, features, learned dynamics, and plans by sampling."""
