"""`python -m kshunt` is `kshunt`."""

import sys

from kshunt.backend.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
