#!/usr/bin/python3 -I
# SPDX-License-Identifier: MIT
"""manual - make the manual's section 3 from the public headers, so that there is no second source.

    manual.py FOLDER PAGE HEADER...

PAGE is the command's page, whose date they bear. FOLDER gets, in mdoc(7): a page for each header, redlatch_lock.3 of
lock.h, which is what stands at its top and lists the others; a page for each comment with the functions that it is
about, under the name of the first, to which those of the others point; and a page for each type that has a comment.

Comments are taken as they are: what is indented, or in columns, stays so; a name that has a page becomes a reference;
each RDL_E... that is named is listed with its text.
"""

import collections
import os
import re
import sys

COMMENT = re.compile(r"/\*(.*?)\*/\n", re.S)
FUNCTION = re.compile(r"^RDL_API ([^;]*?)(\w+)\(([^;]*)\)(?: \w+\([^;]*\))?;", re.M)
TYPE = re.compile(r"^typedef (?:(?:struct|enum) \w+ \{.*?^\} (\w+)|[^;{]*\(\*(\w+)\)\([^;]*\));$", re.S | re.M)
ERROR = re.compile(r"X\((RDL_E\w+), -?\d+, \"(.*?)\"\)")
LICENCE = re.compile(r"\A(?:/\*|//) SPDX-License-Identifier: .*\n")
RULE = re.compile(r"^/\* -{2,}.*\n", re.M)
SENTENCE = re.compile(r"(?<=[.!?]) +(?=[A-Z\d`])")  # mdoc wants a new line for each
COLUMNS = re.compile(r"([\w.+/ ,]+?) {2,}(\S.*)$")

Page = collections.namedtuple("Page", "names text body header")


def overview_of(header):
    """The name of a header's own page."""
    stem = os.path.splitext(header)[0]
    return stem if stem == "redlatch" else "redlatch_" + stem


def plain(comment):
    """A comment's text without its stars."""
    lines = [re.sub(r"^ ?\* ?", "", line.strip("\n")) if i else line.lstrip()
             for i, line in enumerate(comment.rstrip().split("\n"))]
    return "\n".join(line.rstrip() for line in lines).strip("\n")


def items(header, text):
    """(position, kind, what) of what stands in a header: comments, functions, types. A comment reaches to the next."""
    found = [(match.start(), "comment", match) for match in COMMENT.finditer(text)
             if text[:match.start()].endswith("\n") or match.start() == 0]
    found += [(match.start(), "function", match) for match in FUNCTION.finditer(text)]
    found += [(match.start(), "type", match) for match in TYPE.finditer(text)]
    return sorted(found, key=lambda entry: entry[0])


def synopsis(match):
    """A function's lines of SYNOPSIS."""
    returned, name, parameters = (" ".join(part.split()) for part in match.groups())
    lines = [".Ft \"%s\"" % returned, ".Fo %s" % name]
    lines += [".Fa \"%s\"" % parameter.strip() for parameter in parameters.split(",") if parameter != "void"]
    return lines + [".Fc"]


def literal(lines):
    return [".Bd -literal -offset indent"] + [escaped(line) for line in lines] + [".Ed"]


def pages_of(name, text):
    """The pages that a header makes."""
    text = RULE.sub(lambda rule: "\n" * rule.group().count("\n"), text)
    comment, pages = None, []
    for _, kind, match in items(name, text):
        if kind == "comment":
            comment = plain(match[1])
            if not pages:
                comment = re.sub(r"^[\w.]+ - ", "", comment)
                comment = comment[:1].upper() + comment[1:]
                pages.append(Page([overview_of(name)], comment, [], name))
        elif kind == "type":
            body = text[match.start():match.end()].split("\n")
            pages.append(Page([match[1] or match[2]], comment, literal(body), name))
        elif pages[-1].text is comment and pages[-1].body and not pages[-1].body[0].startswith(".Bd"):
            pages[-1].names.append(match[2])
            pages[-1].body.extend(synopsis(match))
        else:
            pages.append(Page([match[2]], comment, synopsis(match), name))
    return pages


# ---- mdoc ------------------------------------------------------------------------------------------------------------

def escaped(line):
    line = line.replace("\\", "\\e")
    return "\\&" + line if line[:1] in (".", "'") else line


def linked(words, known, own):
    """A line of text, with a macro's line for each name that has a page of its own."""
    lines = [""]
    for word in words.split():
        name = re.match(r"([(\"']*)(rdl_\w+)([.,;:)\"'?]*)$", word)
        if name and name[2] in known and name[2] not in own:
            before = [".Po Ns" if mark == "(" else mark for mark in name[1]]
            if before:
                lines[-1] += " " + word  # a reference within parentheses stays text
            else:
                lines += [".Xr %s 3%s" % (name[2], "".join(" " + mark for mark in name[3])), ""]
        else:
            lines[-1] += " " + word
    return [part if part.startswith(".Xr") else escaped(part)
            for line in lines for part in SENTENCE.split(line.strip()) if part]


def described(text, known, own):
    """A comment's text as mdoc."""
    lines = []
    for paragraph in re.split(r"\n\s*\n", text):
        rows = paragraph.split("\n")
        heads = [COLUMNS.match(row) for row in rows]
        indented = [row.startswith("  ") for row in rows]
        if lines:
            lines.append(".Pp")
        if heads[0] and not indented[0] and all(head or inner for head, inner in zip(heads, indented)):
            if lines:
                lines.pop()
            lines.append(".Bl -tag -width Ds")
            for row, head, inner in zip(rows, heads, indented):
                if not inner:
                    lines.append(".It %s" % escaped(head[1]))
                lines += linked(row.strip() if inner else head[2], known, own)
            lines.append(".El")
        elif any(indented):
            lead = next(i for i, inner in enumerate(indented) if inner)
            lines += linked(" ".join(rows[:lead]), known, own)
            if lines and lines[-1] == ".Pp":
                lines.pop()
            lines += literal(rows[lead:])
        else:
            lines += linked(" ".join(rows), known, own)
    return lines


def summary(text):
    """One line for NAME: the first sentence, without the full stop, which some programs take for the end."""
    first = re.split(r"(?<=[a-z0-9)])[.:;](?:\s|$)", " ".join(text.split()), maxsplit=1)[0]
    return escaped(first if len(first) <= 100 else first[:100].rsplit(" ", 1)[0] + " ...")


def mdoc(page, known, errors, date, inside):
    """The page's text. inside: all names of its header."""
    overview = overview_of(page.header)
    lines = [".\\\" Made from <redlatch/%s>." % page.header]
    lines += [date, ".Dt %s 3" % page.names[0].upper(), ".Os", ".Sh NAME"]
    lines += [".Nm %s%s" % (name, " ," if name != page.names[-1] else "") for name in page.names]
    lines += [".Nd %s" % summary(page.text)]
    lines += [".Sh LIBRARY", "Distributed locks on Redis and Valkey (libredlatch, -lredlatch)", ".Sh SYNOPSIS",
              ".In redlatch/%s" % page.header] + page.body
    lines += [".Sh DESCRIPTION"] + described(page.text, known, page.names)
    named = [code for code in errors if re.search(code + r"\b", page.text)]
    if named and page.names[0] != overview:
        lines += [".Sh ERRORS", ".Bl -tag -width Ds"]
        for code in named:
            lines += [".It Er %s" % code, escaped(errors[code])]
        lines += [".El"]
    if page.names[0] == overview:
        if inside:
            lines += [".Sh FUNCTIONS AND TYPES"]
            lines += [".Xr %s 3%s" % (name, " ," if name != inside[-1] else "") for name in inside]
        others = ["redlatch 1"]
    else:
        others = ["redlatch 1", overview + " 3"]
    lines += [".Sh SEE ALSO"] + [".Xr %s%s" % (other, " ," if other != others[-1] else "") for other in others]
    return "\n".join(lines) + "\n"


def pages(headers):
    """Every page, the first that bears a name."""
    seen, found = set(), []
    for path in sorted(headers):
        with open(path) as f:
            for page in pages_of(os.path.basename(path), LICENCE.sub("", f.read())):
                names = [name for name in page.names if name not in seen]
                if names:
                    found.append(page._replace(names=names))
                seen.update(names)
    return found


def names(headers):
    """The names of the files that are made."""
    return sorted(name + ".3" for page in pages(headers) for name in page.names)


def main(folder, command_page, *headers):
    with open(command_page) as f:
        date = next(line.rstrip("\n") for line in f if line.startswith(".Dd"))
    with open(next(path for path in headers if path.endswith("error.h"))) as f:
        errors = dict(ERROR.findall(f.read()))
    made = pages(headers)
    known = {name for page in made for name in page.names}
    inside = collections.defaultdict(list)
    for page in made:
        overview = page.names[0] == overview_of(page.header)
        inside["redlatch.h" if overview else page.header] += page.names
    inside["redlatch.h"].remove("redlatch")
    os.makedirs(folder, exist_ok=True)
    for page in made:
        for name in page.names:
            with open(os.path.join(folder, name + ".3"), "w") as f:
                f.write(mdoc(page, known, errors, date, inside[page.header]) if name == page.names[0]
                        else ".so man3/%s.3\n" % page.names[0])


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__.split("\n\n")[1].strip())
    main(*sys.argv[1:])
