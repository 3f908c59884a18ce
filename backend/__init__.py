"""The shared admin backend of kshunt: a library, an HTTP service and the command-line tools."""

from typing import Final

__version__: Final = "0.1.0"
