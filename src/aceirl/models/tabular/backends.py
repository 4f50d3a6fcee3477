"""Which processor a large problem is worked on."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Literal

from aceirl.errors import InputError, unknown_name
from aceirl.models.tabular.kernels import config

Backend = Literal["auto", "cpu", "gpu"]

WORTH_IT = 1_000_000
"""From so many entries `H·S·A` on, a GPU is used without being asked for: there `benchmarks/gpu.py` sees it pay."""


def uses_gpu(backend: str, size: int) -> bool:
    """Whether a problem with so many entries goes to the GPU."""
    if backend not in ("auto", "cpu", "gpu"):
        raise unknown_name("backend", backend, ("auto", "cpu", "gpu"))
    if backend == "cpu" or (backend == "auto" and size < WORTH_IT):
        return False
    if backend == "auto":
        return available() and not config.ENABLE_CUDASIM
    if not available():
        raise InputError('backend="gpu" needs an NVIDIA GPU with its driver, and the extra `gpu` of this package')
    return True


@cache
def available() -> bool:
    """Whether there is a GPU that numba can use, or its simulator."""
    try:
        return bool(import_module("numba.cuda").is_available())
    except Exception:  # a driver can fail in ways of its own, and then there is none
        return False
