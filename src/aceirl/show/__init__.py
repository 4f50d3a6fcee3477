"""A run, or a comparison of runs, in words and pictures."""

from aceirl.show.opened import OpenedRun, opened
from aceirl.show.pictures import draw, figures
from aceirl.show.words import in_words, outcome, sentences

__all__ = ["OpenedRun", "draw", "figures", "in_words", "opened", "outcome", "sentences"]
