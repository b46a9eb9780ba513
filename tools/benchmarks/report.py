# SPDX-License-Identifier: MIT
"""What came of it, for people, and the figures of docs/performance.md.

A record is what results.json has of a row: its title, what each contender answered in each round, and the targets with
one number a round. Of several rounds the median counts; the range is shown beside it.
"""

import collections
import re
import statistics
import textwrap

MARKS = ("<!-- figures: written by tools/bench --write-docs -->", "<!-- end of the figures -->")


def met(value, target, least):
    """A target is written with two decimals, and so is what is held against it."""
    return round(value, 2) >= target if least else round(value, 2) <= target


def target_record(target, rounds, first):
    """One number for each round in which both answered; first: whose answer it is made of unless it says so."""
    own = rounds.get(target.own or first, [])
    other = rounds.get(target.base, []) if target.base else [None] * len(own)
    values = [target.value(mine, theirs) for mine, theirs in zip(own, other)]
    return dict(text=target.text, must=target.must, aim=target.aim, least=target.least, values=values)


def number(value):
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return format(round(value), ",d")
    if abs(value) >= 100:
        return "%.0f" % value
    return "%.1f" % value if abs(value) >= 10 else "%.2f" % value


def spread(values):
    """Median, and the range when there is one."""
    middle = number(statistics.median(values))
    low, high = number(min(values)), number(max(values))
    return middle if low == high else "%s (%s to %s)" % (middle, low, high)


def verdict(target):
    value = statistics.median(target["values"])
    if not met(value, target["must"], target["least"]):
        return "MISSED"
    if target["aim"] is not None and met(value, target["aim"], target["least"]):
        return "aim reached"
    return "met"


def limit(value, least):
    return "" if value is None else "%s %s" % (">=" if least else "<=", number(value))


def target_lines(records):
    """(row, what, median and range, must, aim, verdict) of all rows: ratios first."""
    lines = []
    for record in records:
        for target in record["targets"]:
            measured = bool(target["values"])
            lines.append((record["name"], target["text"], spread(target["values"]) if measured else "not measured",
                          limit(target["must"], target["least"]), limit(target["aim"], target["least"]),
                          verdict(target) if measured else ""))
    return lines


def shown(record, answers):
    """The figures of one contender: "p50 38.1 us (37.9 to 39.0)"."""
    parts = []
    for key, unit, text in record["shows"]:
        values = [answer[key] for answer in answers if key in answer]
        if values:
            parts.append("%s %s%s" % (text, spread(values), " " + unit if unit else ""))
    return parts


def contender_lines(record):
    for name, answers in record["rounds"].items():
        yield name, shown(record, answers)
    for name, reason in record["skipped"].items():
        yield name, ["skipped: " + reason]


def columns(lines):
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines]


def table(results):
    """The whole report as text."""
    records = results["rows"]
    machine = results["machine"]
    out = ["%s, %d cores, Linux %s; %s" % (machine["cpu"], machine["cores"], machine["kernel"], machine["server"]), ""]
    lines = target_lines(records)
    if lines:
        out += columns([("row", "measured", "median (range)", "must", "aim", "")] + lines)
    for record in records:
        out += ["", "%s: %s" % (record["name"], record["title"])]
        lines = [(name, "; ".join(parts)) for name, parts in contender_lines(record)]
        out += ["  " + line for line in columns(lines)]
    return "\n".join(out)


# ---- docs ------------------------------------------------------------------------------------------------------------

def wrapped(text):
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def markdown_row(cells):
    return "| " + " | ".join(cells) + " |"


def measured(results):
    """Of which run the figures are; the page and the picture say the same."""
    machine = results["machine"]
    return ("Measured on %s, %d cores, Linux %s, with %s, in one run that began on %s (%d rounds of %s s unless a row "
            "says otherwise, commit %s)." % (machine["cpu"], machine["cores"], machine["kernel"], machine["server"],
                                        results["at"].replace("T", " at "), results["rounds"], results["seconds"],
                                        results["commit"]))


def markdown(results):
    out = [wrapped(measured(results)), "",
           "| row | measured | median (range) | must | aim | |", "|---|---|---|---|---|---|"]
    out += [markdown_row(line) for line in target_lines(results["rows"])]
    for record in results["rows"]:
        caption = "**%s.** %s (%d %s)." % (record["name"], record["title"], record["turns"],
                                           "round" if record["turns"] == 1 else "rounds")
        out += ["", wrapped(caption), ""]
        keys = [(key, unit, text) for key, unit, text in record["shows"]
                if any(key in answer for answers in record["rounds"].values() for answer in answers)]
        out += [markdown_row([""] + [text + (", " + unit if unit else "") for _, unit, text in keys]),
                "|---" * (len(keys) + 1) + "|"]
        for name, answers in record["rounds"].items():
            cells = [[answer[key] for answer in answers if key in answer] for key, _, _ in keys]
            out.append(markdown_row([name] + [spread(values) if values else "" for values in cells]))
        for name, reason in record["skipped"].items():
            out.append(markdown_row([name, "skipped: " + reason] + [""] * (len(keys) - 1)))
    return "\n".join(out)


def doubled(text):
    """What the page has more than once, or in the wrong place: the marks, headings, paragraphs with a name, and tables
    of rows outside of the marks, as an edit or a merge leaves them."""
    counts = [mark for mark in MARKS if text.count(mark) > 1]
    begin, end = text.find(MARKS[0]), text.find(MARKS[1])
    around = text[:begin] + text[end:]
    named = re.findall(r"^(?:#+ .*|\*\*[^*]+\*\*)", around, re.M)
    counts += [name for name, n in collections.Counter(named).items() if n > 1]
    return counts + re.findall(r"^(\*\*[^*]+\*\*) (?:[^|\n]|\n(?!\n))*\(\d+ rounds?\)\.\n\n\|", around, re.M)


def with_figures(text, results):
    """The page with its figures replaced, and everything around them as it was."""
    begin, end = (text.find(mark) for mark in MARKS)
    if begin < 0 or end < begin:
        raise ValueError("there is no place for figures: the lines %s and %s" % MARKS)
    return "%s%s\n\n%s\n\n%s" % (text[:begin], MARKS[0], markdown(results), text[end:])
