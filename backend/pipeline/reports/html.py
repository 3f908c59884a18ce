"""A document as one HTML file that needs no other: no script, nothing is fetched.

All text is escaped, and the page's own policy forbids whatever would not be.
"""

from __future__ import annotations

from html import escape
from typing import Final

from kshunt.backend.pipeline.reports.document import (
    Bars,
    Block,
    Bullets,
    Document,
    FactList,
    Heading,
    Paragraph,
    Plot,
    TableBlock,
)
from kshunt.backend.pipeline.reports.svg import as_svg, bars_as_svg
from kshunt.backend.pipeline.reports.visible_text import visible

_STYLE: Final = """\
:root { color-scheme: light dark; --ink: #1c2127; --soft: #5d6875; --rule: #d5dae0;
  --paper: #ffffff; --raised: #f4f6f8; --one: #0b62c4; --two: #a3420b; --held: #5d6875; }
@media (prefers-color-scheme: dark) { :root { --ink: #e3e7eb; --soft: #9aa5b1; --rule: #39414a;
  --paper: #14181c; --raised: #1d2328; --one: #6cb0ff; --two: #ffab70; --held: #9aa5b1; } }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 1.5rem 1.25rem 4rem; }
h1 { font-size: 1.5rem; margin: 0 0 1rem; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2.2rem 0 .6rem; padding-top: .6rem;
  border-top: 1px solid var(--rule); }
p { max-width: 46rem; margin: .5rem 0; }
ul { padding-left: 1.2rem; margin: .5rem 0; }
li { overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1.25rem; margin: .5rem 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: .5rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .9rem .25rem 0; text-align: left; vertical-align: top; }
th { color: var(--soft); font-weight: 600; border-bottom: 1px solid var(--rule); }
td { border-bottom: 1px solid var(--raised); }
.n { text-align: right; white-space: nowrap; }
figure { margin: .8rem 0 1.2rem; } figcaption { font-weight: 600; margin-bottom: .2rem; }
svg { width: 100%; height: auto; display: block; }
svg text { font: 12px system-ui, sans-serif; fill: var(--soft); }
svg .grid { stroke: var(--rule); stroke-width: 1; fill: none; }
svg .axis { stroke: var(--soft); stroke-width: 1; fill: none; }
svg .line0, svg .line1, svg .line2, svg .limit { fill: none; stroke-width: 2;
  stroke-linejoin: round; stroke-linecap: round; }
svg .line0 { stroke: var(--one); } svg .line1 { stroke: var(--two); }
svg .line2 { stroke: var(--ink); }
svg .limit { stroke: var(--held); stroke-dasharray: 6 5; }
svg .bar { fill: var(--one); } svg .name { fill: var(--ink); }
svg .band { fill: var(--one); opacity: .2; stroke: none; }
@media print { body { font-size: 12px; } figure, tr { break-inside: avoid; } }
"""
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"


def as_html(document: Document) -> str:
    """The whole page."""
    parts = []
    plots = 0
    for block in document.blocks:
        plots += isinstance(block, Plot | Bars)
        parts.append(_block(block, plots))
    title = _text(document.title)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>\n{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{title}</h1>\n" + "\n".join(parts) + "\n</main>\n</body>\n</html>\n"
    )


def _block(block: Block, number: int) -> str:
    match block:
        case Heading():
            return f"<h2>{_text(block.text)}</h2>"
        case Paragraph():
            return f"<p>{_text(block.text)}</p>"
        case FactList():
            rows = (f"<dt>{_text(a)}</dt><dd>{_text(b)}</dd>" for a, b in block.rows)
            return "<dl>\n" + "\n".join(rows) + "\n</dl>"
        case Bullets():
            return "<ul>\n" + "\n".join(f"<li>{_text(i)}</li>" for i in block.items) + "\n</ul>"
        case TableBlock():
            return _table(block)
        case Plot():
            caption = f"<figcaption>{_text(block.title)}</figcaption>"
            return f"<figure>\n{caption}\n{as_svg(block, number)}\n</figure>"
        case Bars():
            caption = f"<figcaption>{_text(block.title)}</figcaption>"
            return f"<figure>\n{caption}\n{bars_as_svg(block, number)}\n</figure>"


def _table(table: TableBlock) -> str:
    sides = [' class="n"' if name in table.numbers else "" for name in table.columns]

    def line(cells: list[str], tag: str) -> str:
        drawn = (f"<{tag}{s}>{_text(c)}</{tag}>" for c, s in zip(cells, sides, strict=True))
        return f"<tr>{''.join(drawn)}</tr>"

    body = "\n".join(line(list(row), "td") for row in table.rows)
    head = line(list(table.columns), "th")
    return (
        f'<div class="wide"><table>\n<thead>{head}</thead>\n<tbody>\n{body}\n</tbody>'
        "\n</table></div>"
    )


def _text(text: str) -> str:
    return escape(visible(text))
