# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A report as one HTML page, which needs no other file and no script."""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from . import _breaks_text
from ._breaks_records import Break, Place, Report
from ._breaks_text import count_text, time_text

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8882; --accent: #b3541e; }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto; padding: 0 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.4rem; margin-bottom: .2rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; overflow-wrap: normal; } th, td { text-align: left; padding: .25rem .7rem .25rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td:last-child:not(.number) { min-width: 14rem; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; } code, pre { font: 13px/1.4 ui-monospace, monospace; }
pre { background: var(--soft); padding: .5rem .7rem; overflow-x: auto; margin: .4rem 0; }
details { border: 1px solid var(--line); border-radius: 4px; padding: .5rem .8rem; margin: .5rem 0; }
summary { cursor: pointer; } .kind { color: var(--accent); font-weight: 600; } .soft { opacity: .75; }
dl { display: grid; grid-template-columns: 7rem 1fr; gap: .2rem 1rem; margin: .6rem 0 0; } dt { opacity: .75; } dd { margin: 0; overflow-wrap: anywhere; }
@media (prefers-color-scheme: dark) { :root { --accent: #e8894f; } }
.bar { display: flex; height: 1.1rem; border-radius: 3px; overflow: hidden; max-width: 40rem; } .bar span { display: block; }
.cards { display: flex; flex-wrap: wrap; gap: .8rem; margin: 1rem 0; } .cards div { border: 1px solid var(--line); border-radius: 4px; padding: .4rem .9rem; }
.cards b { display: block; font-size: 1.3rem; }
@media (max-width: 40rem) { dl { grid-template-columns: 1fr; } dt { margin-top: .3rem; } }
"""
_COLORS = ["#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#9c755f", "#76b7b2", "#edc948", "#e15759"]


def _place(place: Place) -> str:
    return f'<span title="{escape(place.file)}">{escape(place.file.rsplit("/", 1)[-1])}:{place.line}</span>'


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]], numbers: Iterable[int] = ()) -> str:
    """`rows` are HTML, `columns` are text."""
    right = set(numbers)

    def cells(tag: str, row: Sequence[str]) -> str:
        return "".join(f"<{tag}{' class=number' if i in right else ''}>{cell}</{tag}>" for i, cell in enumerate(row))

    body = "\n".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{cells("th", [escape(one) for one in columns])}</tr></thead><tbody>\n{body}\n</tbody></table></div>'


def _items(items: Iterable[tuple[str, str]]) -> str:
    return "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{text}</dd>" for name, text in items if text) + "</dl>"


def _lines(texts: Iterable[str]) -> str:
    return "<br>".join(escape(one) for one in texts)


def _break(one: Break) -> str:
    code = escape(one.code)
    if one.link.startswith("https://"):
        code = f'<a href="{escape(one.link)}">{code}</a>'
    stack = _lines(f"{place}, in {place.function}" for place in one.stack) if len(one.stack) > 1 else ""
    outcome = _breaks_text._OUTCOMES.get(one.outcome, one.outcome) + (f", met {one.count} times" if one.count > 1 else "")
    if one.wrapped_in:
        outcome += f" ({'; '.join(one.wrapped_in)})"
    items = [("why", escape(one.reason)), ("outcome", escape(outcome)), ("costs", _lines(_breaks_text.cost_lines(one.cost, one.outcome))),
             ("instead", escape(one.instead)), ("PyTorch's hints", _lines(one.hints)), ("stack", stack), ("context", f"<code>{escape(one.context)}</code>" if one.context else "")]
    shown = f"<pre>{escape(one.place.text)}</pre>" if one.place.text else ""
    return (f'<details open><summary>{one.id} &nbsp; {_place(one.place)} &nbsp; {code} &nbsp; <span class="kind">{escape(one.kind)}</span></summary>'
            f"{shown}{_items(items)}</details>")


def _bar(phases: dict[str, float]) -> str:
    total = sum(phases.values()) or 1.0
    parts = "".join(f'<span style="width:{100 * seconds / total:.2f}%;background:{_COLORS[i % len(_COLORS)]}"></span>' for i, seconds in enumerate(phases.values()))
    names = " &nbsp; ".join(f'<span style="color:{_COLORS[i % len(_COLORS)]}">&#9632;</span> {escape(name)} {seconds:.2f} s' for i, (name, seconds) in enumerate(phases.items()))
    return f'<div class="bar">{parts}</div><p>{names}</p>'


def page_of(report: Report) -> str:
    """The page."""
    title = f"Graph breaks{' of ' + report.program if report.program else ''}"
    cards = [("breaks", len(report.breaks)), ("graphs", len(report.graphs)), ("fallbacks", report.fallbacks), ("recompilations", len(report.recompilations)),
             ("skipped frames", report.skipped_frames), ("calls of graphs", report.calls), ("of which observed", report.observed)]
    parts = [f"<h1>{escape(title)}</h1><p class=soft>{escape(_breaks_text.head_of(report))}<br>{escape(_breaks_text.observed_text(report))}</p>",
             '<div class="cards">' + "".join(f"<div><b>{count}</b>{escape(name)}</div>" for name, count in cards) + "</div>"]
    parts.append("<h2>Breaks (stage 1: tracing Python)</h2>" + ("".join(_break(one) for one in report.breaks) or "<p>None.</p>"))
    rows = [[", ".join(map(str, graphs)) + (" (backward)" if one.backward else ""), _place(one.place), f"<code>{escape(one.place.text)}</code>", f"<code>{escape(one.op)}</code>", str(one.count), escape(one.reason), escape(one.instead)]
            for graphs, one in _breaks_text.fallbacks_of(report)]
    parts.append("<h2>Fallbacks (stage 2: compiling graphs)</h2>"
                 + (_table(["graphs", "place", "line", "operator", "nodes", "why", "instead"], rows, [4]) if rows else "<p>None.</p>"))
    if report.graphs:
        rows = [[escape(cell) for cell in row] for row in _breaks_text.graph_rows(report)]
        notes = "".join(f"<li>graph {graph.id}: {escape(note)}</li>" for graph in report.graphs for note in graph.notes)
        parts.append("<h2>Graphs</h2>" + _table(_breaks_text.GRAPH_COLUMNS, rows, [0, *range(4, 14)]) + (f"<ul>{notes}</ul>" if notes else ""))
    if report.recompilations:
        rows = [[escape(one.compile_id), _place(one.place), escape(one.place.function), _lines(_breaks_text.shown_guards(one.guards)), escape(one.instead)] for one in report.recompilations]
        parts.append("<h2>Recompilations</h2>" + _table(["compilation", "place", "function", "guards that failed", "instead"], rows))
    if report.phases:
        parts.append("<h2>Compiling</h2>" + _bar(report.phases))
    if report.host_reads:
        rows = [[_place(one.place), f"<code>{escape(one.place.text)}</code>", str(one.count), time_text(one.seconds), _breaks_text.read_where(one)]
                for one in report.host_reads]
        parts.append("<h2>Values that the host read of tensors</h2>" + _table(["place", "line", "times", "waited", "graph"], rows, [2, 3]))
    if report.notes:
        parts.append("<h2>Notes</h2><ul>" + "".join(f"<li>{escape(note)}</li>" for note in report.notes) + "</ul>")
    versions = ", ".join(f"{name} {version}" for name, version in report.made_by.items())
    parts.append(f'<p class="soft">{escape(versions)}; {count_text(report.frames, "frame")} seen by Dynamo</p>')
    return (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n<body>\n" + "\n".join(parts) + "\n</body></html>\n")
