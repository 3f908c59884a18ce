"""Loaded last by a process that others are forked from.

What it holds is left out of their collections of garbage, each of which would copy all of it.
"""

import gc

gc.collect()
gc.freeze()
