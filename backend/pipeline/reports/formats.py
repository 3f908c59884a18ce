"""The formats of a report."""

from __future__ import annotations

from kshunt.backend.pipeline.reports.document import Document
from kshunt.backend.pipeline.reports.html import as_html
from kshunt.backend.pipeline.reports.markdown import as_markdown


def drawn(document: Document, suffix: str) -> str:
    """The document in the format of a file name's end."""
    return as_html(document) if suffix == ".html" else as_markdown(document)
