# SPDX-License-Identifier: MIT
"""The figures as an SVG: a panel of bars for each of PANELS, medians with their ranges.

Written out by hand. Colours come from a style sheet inside, which also knows dark pages.
"""

import statistics
from xml.sax.saxutils import escape

from report import measured, number

# (row, key, title). Rows that were not measured leave no panel.
PANELS = [
    ("pair-same", "p50_us", "Lock and unlock, one thread, server on the same core: p50, us"),
    ("pair-other", "p50_us", "Lock and unlock, one thread, server on another core: p50, us"),
    ("threads-32", "per_second", "32 threads on 32 locks: pairs a second"),
    ("async-256", "per_second", "256 asynchronous owners on one thread: pairs a second"),
    ("handoff", "p50_us", "From one process to another: p50, us"),
    ("server-time", "server_us", "Server's CPU for a pair, us"),
    ("processes-16", "per_second", "16 processes on one lock: changes of owner a second"),
]

WIDTH, LEFT, RIGHT = 760, 150, 90
BAR, STEP, HEAD, GAP = 16, 24, 30, 22

STYLE = """
    text { font: 13px system-ui, sans-serif; fill: #222; }
    .title { font-weight: 600; }
    .bar { fill: #9aa7b4; } .own { fill: #c0392b; } .range { stroke: #222; stroke-width: 1.5; }
    .page { fill: #fff; }
    @media (prefers-color-scheme: dark) {
      text { fill: #ddd; } .bar { fill: #5d6b79; } .own { fill: #e06655; }
      .range { stroke: #ddd; } .page { fill: #161b22; }
    }
"""


def bars(record, key):
    """(contender, values), in the row's order."""
    found = ((name, [answer[key] for answer in answers if key in answer]) for name, answers in record["rounds"].items())
    return [(name, values) for name, values in found if values]


def panel(top, title, entries):
    most = max(max(values) for _, values in entries) or 1
    scale = (WIDTH - LEFT - RIGHT) / most
    out = ['<text class="title" x="12" y="%d">%s</text>' % (top + 16, escape(title))]
    for i, (name, values) in enumerate(entries):
        y = top + HEAD + i * STEP
        middle = y + BAR / 2
        value = statistics.median(values)
        out += [
            '<text x="%d" y="%.1f" text-anchor="end">%s</text>' % (LEFT - 8, middle + 4.5, escape(name)),
            '<rect class="%s" x="%d" y="%d" width="%.1f" height="%d"/>' % ("own" if name == "redlatch" else "bar", LEFT,
                                                                           y,
                                                                         value * scale, BAR),
            '<line class="range" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>' % (LEFT + min(values) * scale, middle,
                                                                              LEFT + max(values) * scale, middle),
            '<text x="%.1f" y="%.1f">%s</text>' % (LEFT + max(values) * scale + 8, middle + 4.5, number(value)),
        ]
    return out, top + HEAD + len(entries) * STEP + GAP


def svg(results):
    records = {record["name"]: record for record in results["rows"]}
    body, y = [], 8
    for row, key, title in PANELS:
        entries = bars(records[row], key) if row in records else []
        if entries:
            drawn, y = panel(y, title, entries)
            body += drawn
    return ('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" '
            'aria-label="redlatch and others, measured">\n  <desc>%s</desc>\n  <style>%s  </style>\n'
            '  <rect class="page" width="100%%" height="100%%"/>\n  %s\n</svg>\n'
            % (WIDTH, y, WIDTH, y, escape(measured(results)), STYLE, "\n  ".join(body)))
