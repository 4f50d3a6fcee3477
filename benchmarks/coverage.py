"""How often a certificate's promise is broken: the study of `soundness.py`, printed as a table for the documentation.

python benchmarks/coverage.py [runs of each of the five cases]
"""

if __name__ != "__main__":
    raise ImportError("numba looks for the tool called coverage; this is not it")

import sys

from soundness import print_table

print_table(int(sys.argv[1]) if len(sys.argv) > 1 else 400)
