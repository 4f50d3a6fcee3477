"""Settings shared by all tests."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# There is no GPU: its kernels are run by numba's simulator. Numba looks once, when it is loaded.
os.environ["NUMBA_ENABLE_CUDASIM"] = "1"

# The default draws the same examples every time, so a red test is red for everyone. To search for new ones:
# `pytest --hypothesis-profile explore`. Compilation makes the first example slow, hence no deadline.
settings.register_profile("steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("explore", parent=settings.get_profile("steady"), derandomize=False, max_examples=1000)
settings.load_profile("steady")
