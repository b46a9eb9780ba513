#!/usr/bin/python3 -I
# SPDX-License-Identifier: MIT
"""pictures - draw docs/pictures/*.svg from the texts beside them.

    pictures.py FOLDER            writes NAME.svg for each NAME.txt
    pictures.py --check FOLDER    writes nothing; complains of each that is not as it would be drawn

The first line of a text is the title, behind a #. A text with lanes is who does what, from top to bottom:

    lanes A, B          who takes part
    A -> B: what        a request or a reply; =>: a message that nobody asked for; -x: lost on the way
    hold A, free A      from here to there A has the lock
    note A: what        something that happens there
    lost A: what        the same, where it hurts
    gap what            time passes

One without is a list of questions (ask, yes) with an answer each, and what is left (else). Colours are variables, for
light and dark pages; a page that has the picture inside may set them."""

import os
import sys
from xml.sax.saxutils import escape, quoteattr

STYLE = """
    .rdl { --ink: #1f2933; --soft: #66737f; --line: #b8c2cc; --paper: #ffffff; --fill: #eef2f5; --hold: #c0392b; }
    @media (prefers-color-scheme: dark) {
      .rdl { --ink: #e3e8ed; --soft: #9aa7b4; --line: #4b5863; --paper: #161b22; --fill: #222a33; --hold: #e06655; }
    }
    .rdl text { font: 14px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; fill: var(--ink); }
    .rdl .title, .rdl .name { font-weight: 600; } .rdl .soft { fill: var(--soft); font-size: 13px; }
    .rdl .page { fill: var(--paper); } .rdl .box { fill: var(--fill); stroke: var(--line); }
    .rdl .lane { stroke: var(--line); stroke-dasharray: 3 4; } .rdl .gap { stroke: var(--line); }
    .rdl .arrow { stroke: var(--ink); stroke-width: 1.4; fill: none; } .rdl .head { fill: var(--ink); }
    .rdl .told { stroke: var(--hold); } .rdl .told-head { fill: var(--hold); }
    .rdl .hold { fill: var(--hold); } .rdl .hurts { fill: var(--hold); font-weight: 600; }
"""
WIDTH, TOP, STEP, LANE = 760, 44, 34, 28
QUESTION, ANSWER, ROW = 400, 230, 58


def svg(title, height, body):
    """The picture around its body."""
    lines = ['<svg xmlns="http://www.w3.org/2000/svg" class="rdl" width="%d" height="%d" viewBox="0 0 %d %d" '
             'role="img" aria-label=%s>' % (WIDTH, height, WIDTH, height, quoteattr(title)),
             "  <style>%s  </style>" % STYLE, '  <rect class="page" width="100%" height="100%"/>',
             text(WIDTH / 2, 26, title, "title", "middle")]
    return "\n".join(lines + body + ["</svg>"]) + "\n"


def text(x, y, words, kind="", anchor="start"):
    return '  <text class="%s" x="%g" y="%g" text-anchor="%s">%s</text>' % (kind, x, y, anchor, escape(words))


def line(kind, x1, y1, x2, y2):
    return '  <line class="%s" x1="%g" y1="%g" x2="%g" y2="%g"/>' % (kind, x1, y1, x2, y2)


def box(x, y, width, height, kind="box"):
    return '  <rect class="%s" x="%g" y="%g" width="%g" height="%g" rx="5"/>' % (kind, x, y, width, height)


def head(kind, x, y, way):
    """An arrow's, that points left (-1), right (1), or down (0)."""
    if way == 0:
        return '  <path class="%s" d="M%g %g l-5 -9 l10 0 z"/>' % (kind, x, y)
    return '  <path class="%s" d="M%g %g l%g -5 l0 10 z"/>' % (kind, x, y, -9 * way)


def backed(x, y, words):
    """Words in the middle of x, on the page's own ground, so that no line runs through them."""
    width = 7.4 * len(words) + 10
    return [box(x - width / 2, y - 15, width, 20, "page"), text(x, y, words, "soft", "middle")]


def sequence(title, rows):
    lanes, held, y = [], {}, TOP + LANE
    arrows, bars = [], []
    for row in rows:
        verb, _, rest = row.partition(" ")
        if verb == "lanes":
            lanes = [name.strip() for name in rest.split(",")]
            middle = {name: WIDTH * (i + 0.5) / len(lanes) for i, name in enumerate(lanes)}
            continue
        what, _, words = (part.strip() for part in rest.partition(":"))
        if verb == "hold":
            held[what] = y + 10
        elif verb == "free":
            bars.append((middle[what], held.pop(what), y + 4))
        elif verb == "gap":
            y += STEP
            arrows.append(line("gap", 24, y - 4, WIDTH - 24, y - 4))
            arrows += backed(WIDTH / 2, y, rest)
        elif verb in ("note", "lost"):
            y += STEP - 6
            side = -1 if what == lanes[-1] else 1
            arrows.append(text(middle[what] + 14 * side, y, words, "hurts" if verb == "lost" else "soft",
                               "start" if side == 1 else "end"))
        else:
            kind, target = what.split(" ")
            a, b = middle[verb], middle[target]
            way = 1 if b > a else -1
            told = kind == "=>"
            y += STEP
            end = (a + b) / 2 if kind == "-x" else b - 7 * way
            arrows.append(line("arrow told" if told else "arrow", a + 7 * way, y,
                               end - (0 if kind == "-x" else 8 * way), y))
            if kind == "-x":
                arrows.append('  <path class="arrow told" d="M%g %g l10 10 m0 -10 l-10 10"/>' % (end - 5, y - 5))
            else:
                arrows.append(head("told-head" if told else "head", end, y, way))
            near = a + (b - a) / (2 * max(1, abs(lanes.index(target) - lanes.index(verb))))
            arrows.append(text(near, y - 6, words, "", "middle"))
    y += STEP
    bars += [(middle[name], top, y) for name, top in held.items()]
    body = []
    for name in lanes:
        body.append(line("lane", middle[name], TOP + LANE, middle[name], y))
    body += [box(x - 5, top, 10, bottom - top, "hold") for x, top, bottom in bars] + arrows
    for name in lanes:
        body += [box(middle[name] - 52, TOP, 104, LANE), text(middle[name], TOP + 19, name, "name", "middle")]
    return svg(title, y + 16, body)


def wrapped(words, most):
    lines = [""]
    for word in words.split():
        if len(lines[-1]) + len(word) > most:
            lines.append("")
        lines[-1] = (lines[-1] + " " + word).strip()
    return lines


def centred(x, middle, words, most, kind=""):
    lines = wrapped(words, most)
    return [text(x, middle + 5 + 18 * (i - (len(lines) - 1) / 2), part, kind) for i, part in enumerate(lines)]


def questions(title, rows):
    y, left, right, body = TOP, 24, WIDTH - ANSWER - 24, []
    for row in rows:
        verb, _, words = row.partition(" ")
        if verb == "ask":
            body += [box(left, y, QUESTION, ROW - 16)] + centred(left + 14, y + (ROW - 16) / 2, words, 54)
        elif verb == "yes":
            middle = y + (ROW - 16) / 2
            body += [line("arrow", left + QUESTION, middle, right - 9, middle), head("head", right - 1, middle, 1),
                     text((left + QUESTION + right) / 2 - 4, middle - 6, "yes", "soft", "middle"),
                     box(right, y, ANSWER, ROW - 16)] + centred(right + 14, middle, words, 24, "name")
            y += ROW
            body += [line("arrow", left + 60, y - 16, left + 60, y - 9), head("head", left + 60, y - 1, 0),
                     text(left + 72, y - 4, "no", "soft")]
        else:
            body += [box(left, y, QUESTION, ROW - 16)] + centred(left + 14, y + (ROW - 16) / 2, words, 54, "name")
    return svg(title, y + ROW, body)


def drawn(source):
    rows = [row.strip() for row in source.splitlines() if row.strip()]
    title, rows = rows[0].lstrip("# "), rows[1:]
    return sequence(title, rows) if rows[0].startswith("lanes") else questions(title, rows)


def main(words):
    check, folder = words[0] == "--check", words[-1]
    stale = []
    names = sorted(name[:-4] for name in os.listdir(folder) if name.endswith(".txt"))
    for name in names:
        with open(os.path.join(folder, name + ".txt")) as f:
            picture = drawn(f.read())
        path = os.path.join(folder, name + ".svg")
        if not check:
            with open(path, "w") as f:
                f.write(picture)
        elif not os.path.exists(path) or open(path).read() != picture:
            stale.append("%s is not what tools/build/pictures.py draws of %s.txt" % (path, name))
    stale += ["%s.svg has no text" % name[:-4] for name in sorted(os.listdir(folder))
              if check and name.endswith(".svg") and name[:-4] not in names]
    print("\n".join(stale), end="\n" if stale else "")
    return 1 if stale or not names else 0


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 3:
        sys.exit(__doc__.split("\n\n")[1].strip())
    sys.exit(main(sys.argv[1:]))
