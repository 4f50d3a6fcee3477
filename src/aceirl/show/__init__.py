"""A run, or a comparison of runs, in words and pictures."""

from aceirl.show.pictures import draw
from aceirl.show.words import in_words, outcome

__all__ = ["draw", "in_words", "outcome"]
