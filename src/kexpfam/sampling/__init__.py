"""Samplers of densities that are known up to a constant."""

from kexpfam.sampling.hamiltonian import HMC, NUTS
from kexpfam.sampling.interface import Chains, InverseCDF, Run, Sampler
from kexpfam.sampling.masses import warn_of_other_masses
from kexpfam.sampling.names import resolve_sampler
from kexpfam.sampling.report import SamplingReport
from kexpfam.sampling.tempered import TemperedSMC
from kexpfam.sampling.tempering_report import TemperingReport

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
