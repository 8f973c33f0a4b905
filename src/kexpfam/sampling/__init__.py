"""Samplers of densities that are known up to a constant."""

from kexpfam.sampling.diagnostics import (
    SamplingReport,
    TemperingReport,
    warn_of_other_masses,
)
from kexpfam.sampling.interface import Chains, Run, Sampler
from kexpfam.sampling.samplers import (
    HMC,
    NUTS,
    InverseCDF,
    TemperedSMC,
    resolve_sampler,
)

__all__ = [
    "HMC",
    "NUTS",
    "Chains",
    "InverseCDF",
    "Run",
    "Sampler",
    "SamplingReport",
    "TemperedSMC",
    "TemperingReport",
    "resolve_sampler",
    "warn_of_other_masses",
]
