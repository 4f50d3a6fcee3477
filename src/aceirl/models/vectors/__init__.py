"""Observations that are vectors of numbers: their coordinates, features of them, learned dynamics, plans by sampling."""
