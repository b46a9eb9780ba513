#!/usr/bin/python3 -I
# SPDX-License-Identifier: MIT
"""embed - turn the Lua scripts into a C table.

    embed.py scripts/scripts.h OUTPUT.c
    embed.py --page scripts/scripts.h      print what docs/wire.md has of the scripts: the comments that they begin with

scripts.h says which scripts there are. Each is stripped of comment lines, blank lines and indentation, because the
server keeps the text, and hashed as it is then. Stripping goes line by line, so constructs that span lines are refused:
long brackets, block comments, strings continued with a backslash.

A line `-- include NAME.inc` stands for that file in the same folder: local functions, and before them the locals that
they share. Of the functions those are put in that the script calls behind that line, or that one of them calls; where
the file is included again further down, those that are called before. Each costs time whenever that line is reached
(decisions.md, A script makes its functions where it needs them). What is included includes nothing itself. A function
is called wherever its name is a word, so a local or a parameter of that name is refused.
"""

import hashlib
import itertools
import os
import re
import sys

ENTRY = re.compile(r'^\s*X\((RDL__SCRIPT_\w+), "(\w+)"\)')
INCLUDE = re.compile(r"^-- include (\w+\.inc)$")
FUNCTION = re.compile(r"local function (\w+)\(")
LOCALS = re.compile(r"\blocal (?!function )([\w, ]+)|\bfor ([\w, ]+?)(?: in |=)|\bfunction ?(\w*)\(([\w, ]*)")
WORD = re.compile(r"\w+")
ASIDE = re.compile(r"\s-- .*")  # a comment behind code
SPANNING = re.compile(r"\[=*\[|\\$")


class Refused(Exception):
    pass


def entries(header):
    """The (id, name) pairs of the list in scripts.h, in its order."""
    with open(header) as f:
        found = [match.groups() for match in map(ENTRY.match, f) if match]
    for id_, name in found:
        if id_ != "RDL__SCRIPT_" + name.upper():
            raise Refused("%s: the id of %s is not RDL__SCRIPT_%s" % (header, name, name.upper()))
    listed = [name for _, name in found]
    present = sorted(name[:-4] for name in os.listdir(os.path.dirname(header)) if name.endswith(".lua"))
    if sorted(listed) != present:
        odd = sorted(set(listed) ^ set(present)) or ["a name twice"]
        raise Refused("%s: its list and the Lua files beside it differ: %s" % (header, ", ".join(odd)))
    return found


def names(header):
    return [name for _, name in entries(header)]


def included(path):
    """The files that a script includes."""
    with open(path, encoding="ascii") as f:
        found = (INCLUDE.match(line.strip()) for line in f)
        return [os.path.join(os.path.dirname(path), match[1]) for match in found if match]


def code(path):
    """The (number, line) pairs of a file that are code, or an inclusion; indented as they are there."""
    with open(path, encoding="ascii") as f:
        for number, line in enumerate(f, 1):
            line = line.rstrip()
            bare = line.strip()
            if SPANNING.search(bare) and not (bare.startswith("--") and not bare.startswith("--[")):
                raise Refused("%s:%d: spans lines, which the embedding does not understand" % (path, number))
            if bare and not bare.startswith("--") or INCLUDE.match(bare):
                yield number, line


def parts(path):
    """What an included file has, in its order: (None, the locals that its functions share), (name, a function) ..."""
    found, inside = [(None, [])], False
    for number, line in code(path):
        name = FUNCTION.match(line)
        if INCLUDE.match(line.strip()):
            raise Refused("%s:%d: what is included includes nothing" % (path, number))
        if name and not inside:
            found.append((name[1], []))
            inside = True
        elif not inside and (len(found) > 1 or not line.startswith("local ")):
            raise Refused("%s:%d: neither a local function nor a local before the first" % (path, number))
        found[-1][1].append(line.strip())
        inside = inside and line != "end"
    return found


def refuse_namesakes(path):
    """A local of a script, or of a file that it includes, is none of the functions that these files offer."""
    functions = {name for part in included(path) for name, _ in parts(part) if name}
    for each in [path] + included(path):
        for number, line in code(each):
            shared = each != path and FUNCTION.match(line)
            named = set(WORD.findall(" ".join(itertools.chain(*LOCALS.findall(ASIDE.sub("", line))))))
            for name in named.intersection(functions) - {shared and shared[1]}:
                raise Refused("%s:%d: a local has the name of a shared function, %s" % (each, number, name))


def strip(path):
    """A script as the server is told it."""
    refuse_namesakes(path)
    own, wanted = [], set()
    for _, line in reversed(list(code(path))):
        include = INCLUDE.match(line.strip())
        offered = parts(os.path.join(os.path.dirname(path), include[1])) if include else [(None, [line.strip()])]
        for name, lines in reversed(offered):  # a function calls those before it
            if name is None or name in wanted:
                own = lines + own
                wanted = wanted.union(WORD.findall(ASIDE.sub("", "\n".join(lines)))) - {name}
    return "\n".join(own)


def literal(text):
    def quote(line):
        return '"%s"' % line.replace("\\", "\\\\").replace('"', '\\"')
    lines = text.split("\n")
    return "\n        ".join([quote(line)[:-1] + '\\n"' for line in lines[:-1]] + [quote(lines[-1])])


def table(header):
    folder = os.path.dirname(header)
    parts = ["/* Generated from the Lua files in scripts by tools/build/embed.py. */\n"
             '#include "scripts/scripts.h"\n\n'
             "const struct rdl__script rdl__scripts[RDL__SCRIPT_COUNT] = {\n"]
    for id_, name in entries(header):
        body = strip(os.path.join(folder, name + ".lua"))
        sha = hashlib.sha1(body.encode()).hexdigest()
        parts.append("    [%s] = {\n        .name = \"%s\",\n        .body =\n        %s,\n        .body_len = %d,\n"
                     "        .sha = \"%s\",\n        .call = \"$7\\r\\nEVALSHA\\r\\n$40\\r\\n%s\\r\\n\",\n    },\n"
                     % (id_, name, literal(body), len(body), sha, sha))
    return "".join(parts) + "};\n"


def head(path):
    """The comment that a file begins with, of paragraphs and of columns, without what is only for who changes the
    script."""
    with open(path, encoding="ascii") as f:
        lines = list(itertools.takewhile(lambda line: line.startswith("--"), f))
    return "".join(line[3:] or "\n" for line in lines
                   if not INCLUDE.match(line.strip()) and not line.startswith("-- SPDX-License-Identifier:"))


def page(header):
    folder = os.path.dirname(header)
    parts = ["### %s\n\n```text\n%s```\n" % (name, head(os.path.join(folder, name + ".lua"))) for name in names(header)]
    queue = head(os.path.join(folder, "fair_queue.inc"))
    return "\n".join(["### Keys of the fair lock's scripts\n\n```text\n%s```\n" % queue] + parts)


def main(header, output):
    try:
        text = table(header)
    except (Refused, OSError, UnicodeDecodeError) as error:
        sys.exit("embed: %s" % error)
    with open(output, "w") as f:
        f.write(text)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--page"]:
        print(page(sys.argv[2]), end="")
    else:
        main(*sys.argv[1:])
