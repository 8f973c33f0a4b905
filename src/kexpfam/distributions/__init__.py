"""Distribution objects: n densities at once, in the user's units."""

from kexpfam.distributions.averages import RowAverageColumns, averaged
from kexpfam.distributions.bands import Band, Replicates
from kexpfam.distributions.bounded import BoundedDensity, SupportMap
from kexpfam.distributions.bridged import Bridge, BridgedDensity, bridge_sample
from kexpfam.distributions.chain_rule import ChainRuleDensity
from kexpfam.distributions.closed_form import ClosedFormDensity
from kexpfam.distributions.coordinates import ResponseCoordinates
from kexpfam.distributions.interface import Density, ExactDensity, SeveralColumns
from kexpfam.distributions.mixed import Atoms, MixedDensity
from kexpfam.distributions.mixture import MixtureDensity
from kexpfam.distributions.multivariate import MultivariateDensity, check_partition
from kexpfam.distributions.normal_mixture import (
    NormalMixtureColumns,
    NormalMixtureDensity,
)
from kexpfam.distributions.one_column import OneColumnDensity
from kexpfam.distributions.recalibrated import (
    RecalibratedDensity,
    UnitMap,
    beta_log_densities,
)
from kexpfam.distributions.row_averages import Parts, RowAverageDensity
from kexpfam.distributions.row_blocks import in_blocks
from kexpfam.distributions.univariate import BLOCK_ROWS, UnivariateDensity
from kexpfam.partition import UnnormalizedDensity

__all__ = [
    "BLOCK_ROWS",
    "Atoms",
    "Band",
    "BoundedDensity",
    "Bridge",
    "BridgedDensity",
    "ChainRuleDensity",
    "ClosedFormDensity",
    "Density",
    "ExactDensity",
    "MixedDensity",
    "MixtureDensity",
    "MultivariateDensity",
    "NormalMixtureColumns",
    "NormalMixtureDensity",
    "OneColumnDensity",
    "Parts",
    "RecalibratedDensity",
    "Replicates",
    "ResponseCoordinates",
    "RowAverageColumns",
    "RowAverageDensity",
    "SeveralColumns",
    "SupportMap",
    "UnitMap",
    "UnivariateDensity",
    "UnnormalizedDensity",
    "averaged",
    "beta_log_densities",
    "bridge_sample",
    "check_partition",
    "in_blocks",
]
