"""How a run is started, kept in a folder and opened again, and what it hands back."""

from aceirl.runs.folder import Run

__all__ = ["Run"]
