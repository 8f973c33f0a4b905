"""The former name of `kexpfam.data`, for code that was written with it."""

from kexpfam.data import *  # noqa: F403 - all its names
from kexpfam.data import Rows

Block = Rows
