"""How often a certificate's promise is broken: the study of `soundness.py`, printed as a table for the documentation.

python benchmarks/coverage.py [runs of each of the six cases] [processes]
"""

if __name__ != "__main__":
    raise ImportError("numba looks for the tool called coverage; this is not it")

import sys

from soundness import print_table

given = [int(word) for word in sys.argv[1:]]
print_table(*given, *(400, 1)[len(given) :])
