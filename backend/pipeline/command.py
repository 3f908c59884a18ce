"""`kshunt pipeline`: results over days, made by Spark from what was recorded.

Spark is loaded once the command line and the samples have passed every check that needs no Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from kshunt.backend.commandline.exit_codes import ExitCode
from kshunt.backend.commandline.reading import read
from kshunt.backend.pipeline.flags import COMMAND, MODULES, WITHOUT_SPARK


def main(argv: Sequence[str]) -> int:
    """Run the command; its exit code is described in --help.

    Raises:
        KshuntError: whatever was wrong with the samples, the results, Java or Spark.
    """
    options = read(COMMAND, argv)
    if options is None:
        return ExitCode.DONE
    if options.action not in WITHOUT_SPARK:
        from kshunt.backend.pipeline.spark.session import require_spark

        require_spark()
    module = import_module(f"kshunt.backend.pipeline.{MODULES[options.action]}")
    code: int = module.run(options)
    return code
