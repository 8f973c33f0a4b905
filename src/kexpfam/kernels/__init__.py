"""Kernels: small frozen values with every derivative that score matching needs."""

from kexpfam._typing import namespace_of
from kexpfam.kernels.base import (
    Constant,
    Kernel,
    LengthScale,
    Pairs,
    Product,
    Sum,
    SumPairs,
)
from kexpfam.kernels.joint import JointKernel, SumOfProducts, separable
from kexpfam.kernels.profiles import (
    Gaussian,
    InverseMultiquadric,
    Matern,
    RationalQuadratic,
)
from kexpfam.kernels.radial import MEDIAN, RadialKernel

__all__ = [
    "MEDIAN",
    "Constant",
    "Gaussian",
    "InverseMultiquadric",
    "JointKernel",
    "Kernel",
    "LengthScale",
    "Matern",
    "Pairs",
    "Product",
    "RadialKernel",
    "RationalQuadratic",
    "Sum",
    "SumOfProducts",
    "SumPairs",
    "namespace_of",
    "separable",
]
