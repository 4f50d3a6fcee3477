"""Observations that are vectors of numbers: coordinates, features, learned dynamics, and plans by sampling."""
