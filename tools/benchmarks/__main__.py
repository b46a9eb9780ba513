# SPDX-License-Identifier: MIT
"""tools/bench - redlatch measured against others, in one run.

    tools/bench                 every row, at least five rounds
    tools/bench ROW...          these rows only
    tools/bench --quick         two short rounds, without other libraries: to see that it works, not for figures
    tools/bench --list          the rows
    tools/bench --write-docs    from build/bench/results.json into docs/performance.md and .svg; nothing is measured

    --rounds N, --seconds S     more rounds, longer ones

The report goes to standard output; build/bench/results.json has every single answer, build/bench/performance.svg the
chart. Of a run of some rows, or a quick one, it is some.json and some.svg, so that what --write-docs reads is of one
run. What is not here (a toolchain, a tool, a second core) is skipped and named.
"""

import argparse
import collections
import datetime
import json
import os
import subprocess
import sys
import time

import chart
import report
from machine import BUILD, TOP, Failed, Server, Stage, Unavailable, cores, described
from rows import ROWS

RESULTS = os.path.join(BUILD, "results.json")  # of the last run of all rows, and its picture beside it
SOME = os.path.join(BUILD, "some.json")
PAGE = os.path.join(TOP, "docs", "performance.md")
LEAST_ROUNDS = 5
ONE_CORE = "there is one core only"

Settings = collections.namedtuple("Settings", "rounds seconds warmup quick")


def say(text):
    print(text, file=sys.stderr, flush=True)


def commit():
    """Of the tree that is measured, marked when it has changed since."""
    done = subprocess.run(["git", "-C", TOP, "describe", "--always", "--dirty"], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


# ---- measuring -------------------------------------------------------------------------------------------------------

def measure_round(row, stage, turn, rounds, skipped, failed):
    """All contenders once, each round beginning with another one. Without redlatch there is nothing to compare."""
    order = row.contenders[turn % len(row.contenders):] + row.contenders[:turn % len(row.contenders)]
    answers = {}
    for contender in order:
        if contender.name in skipped:
            continue
        stage.server.forget()
        try:
            answers[contender.name] = contender.run(stage)
        except (Unavailable, Failed) as e:
            skipped[contender.name] = str(e)
            if isinstance(e, Failed):
                failed.append(contender.name)
            rounds.pop(contender.name, None)
            say("    %s: %s" % (contender.name, e))
    for name, answer in answers.items():
        rounds[name].append(answer)


def measure_row(row, settings):
    """The row's record."""
    client_core, other_core = cores()
    rounds, skipped, failed = {contender.name: [] for contender in row.contenders}, {}, []
    turns = min(row.rounds or settings.rounds, settings.rounds)
    if row.where == "other" and other_core is None:
        skipped = {contender.name: ONE_CORE for contender in row.contenders}
    else:
        with Server(client_core if row.where == "same" else other_core) as server:
            stage = Stage(server, client_core, row.tcp, settings)
            for turn in range(turns):
                say("  %s, round %d of %d" % (row.name, turn + 1, turns))
                measure_round(row, stage, turn, rounds, skipped, failed)
    rounds = {name: answers for name, answers in rounds.items() if name not in skipped}
    targets = [report.target_record(target, rounds, row.contenders[0].name) for target in row.targets]
    return dict(name=row.name, title=row.title, shows=row.shows, turns=turns, rounds=rounds, skipped=skipped,
                failed=failed, targets=targets, quick=settings.quick, commit=commit(),
                at=datetime.datetime.now().isoformat(timespec="seconds"))


def keep(path, results):
    """What is known so far, and the picture of it."""
    for path, text in ((path, json.dumps(results, indent=1) + "\n"), (path.replace(".json", ".svg"),
                                                                      chart.svg(results))):
        with open(path + ".new", "w") as f:
            f.write(text)
        os.replace(path + ".new", path)


def bench(rows, settings):
    first = {row.name: row.contenders[0].name for row in rows}
    results = dict(machine=described(), commit=commit(), at=datetime.datetime.now().isoformat(timespec="minutes"),
                   rounds=settings.rounds, seconds=settings.seconds, rows=[])
    for row in rows:
        say("%s: %s" % (row.name, row.title))
        began = time.monotonic()
        results["rows"].append(measure_row(row, settings))
        say("  %s took %.0f s" % (row.name, time.monotonic() - began))
        keep(SOME if settings.quick or rows != ROWS else RESULTS, results)
    print(report.table(results))
    failed = [record["name"] for record in results["rows"] if first[record["name"]] in record["failed"]]
    if failed:
        say("redlatch could not be measured in: " + ", ".join(sorted(failed)))
    return 1 if failed else 0


# ---- docs ------------------------------------------------------------------------------------------------------------

def write_docs():
    """Only figures of a whole, unhurried run belong there: results.json is of one. The picture is made of the same."""
    try:
        with open(RESULTS) as f:
            results = json.load(f)
    except (OSError, ValueError):
        sys.exit("bench: there are no figures of a run of all rows")
    records = {record["name"]: record for record in results["rows"]}
    lacking = [row.name for row in ROWS if row.name not in records or records[row.name]["quick"] or
               records[row.name]["turns"] < min(row.rounds or LEAST_ROUNDS, LEAST_ROUNDS)]
    if lacking:
        sys.exit("bench: not measured in full: %s" % ", ".join(lacking))
    changed = sorted({record["commit"] for record in results["rows"]} | {results["commit"]})
    if len(changed) > 1:
        sys.exit("bench: the tree has changed during the run: %s" % ", ".join(changed))
    with open(PAGE) as f:
        page = f.read()
    twice = report.doubled(page)
    if twice:
        sys.exit("bench: docs/performance.md has more than once: %s" % ", ".join(twice))
    page = report.with_figures(page, results)
    for path, text in ((PAGE, page), (PAGE.replace(".md", ".svg"), chart.svg(results))):
        with open(path, "w") as f:
            f.write(text)


def main():
    parser = argparse.ArgumentParser(prog="tools/bench", description=__doc__.split("\n", 1)[1],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--write-docs", action="store_true")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=float)
    args = parser.parse_args()

    by_name = {row.name: row for row in ROWS}
    unknown = [name for name in args.rows if name not in by_name]
    if unknown:
        parser.error("no such row: %s (--list has them)" % ", ".join(unknown))
    if args.rounds is not None and args.rounds < 1 or args.seconds is not None and args.seconds <= 0:
        parser.error("--rounds and --seconds are more than 0")
    if args.list:
        for row in ROWS:
            print("%-18s %s" % (row.name, row.title))
        return 0
    if args.write_docs:
        write_docs()
        return 0
    os.makedirs(BUILD, exist_ok=True)
    settings = Settings(rounds=args.rounds or (2 if args.quick else LEAST_ROUNDS),
                        seconds=args.seconds or (0.3 if args.quick else 2), warmup=0.1 if args.quick else 0.5,
                        quick=args.quick)
    return bench([by_name[name] for name in args.rows] or ROWS, settings)


if __name__ == "__main__":
    sys.exit(main())
