"""Write docs/conformance.md and docs/kip-differences.md."""

from __future__ import annotations

from tests.conformance.document import CONFORMANCE, DIFFERENCES, DOCS, conformance, table
from tests.conformance.marks import marked_tests
from tests.conformance.statements import differences, statements

DOCS.mkdir(exist_ok=True)
CONFORMANCE.write_text(conformance(statements(), marked_tests()), "utf-8")
DIFFERENCES.write_text(table(differences()), "utf-8")
