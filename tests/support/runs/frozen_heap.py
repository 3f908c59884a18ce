"""Loaded last by a process that others are forked from.

What it holds is left out of their collections of garbage, each of which would copy all of it.
Each of them would load pandas too, for the first column that it encodes.
"""

import gc

from kshunt.backend.arrow_without_pandas import forgo_pandas

forgo_pandas()
gc.collect()
gc.freeze()
