"""Comparisons: experiments, the arena, and the methods of others.

A study is data: specs of runs, carried out once, here or on a cluster, kept in Parquet, analysed, and one page.
`method` enters a method of your own into the arena; docs/your-method.md shows how.
"""

from aceirl.bench.methods import METHODS, Method, method

__all__ = ["METHODS", "Method", "method"]
