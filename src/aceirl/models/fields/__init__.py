"""Observations as records of named fields: the table of the fields of numbered states, and rules over them."""

from aceirl.models.fields.table import Field, Fields, FieldTable, entries

__all__ = ["Field", "FieldTable", "Fields", "entries"]
