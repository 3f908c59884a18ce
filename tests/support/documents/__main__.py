"""Write the pages of docs/reference anew from the code."""

from __future__ import annotations

from tests.support.documents.reference import FOLDER, pages

FOLDER.mkdir(exist_ok=True)
for path, text in pages():
    path.write_text(text, "utf-8")
