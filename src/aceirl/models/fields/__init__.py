"""Observations as records of named fields: the table of the fields of numbered states, and rules over them."""

from aceirl.models.fields.table import Entry, Field, Fields, FieldTable, Kind, Record, entries

__all__ = ["Entry", "Field", "FieldTable", "Fields", "Kind", "Record", "entries"]
