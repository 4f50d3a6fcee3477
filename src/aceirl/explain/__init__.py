"""A run, or a comparison of runs, in words and pictures."""

from aceirl.explain.learned import Learned
from aceirl.explain.pictures import figures
from aceirl.explain.words import sentences

__all__ = ["Learned", "figures", "sentences"]
