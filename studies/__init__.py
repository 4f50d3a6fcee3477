"""What the tests and the benchmarks both use; neither imports from the other."""
