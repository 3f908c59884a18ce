"""kshunt: a terminal dashboard and an admin backend for live Apache Kafka reassignments.

This is the one package that is installed. In a checkout `backend`, `tui` and `themes` are links to
the folders at its top.
"""

from typing import Final

__version__: Final = "0.1.0"
