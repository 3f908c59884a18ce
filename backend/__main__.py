"""`python -m backend` is `kshunt`."""

import sys

from backend.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
