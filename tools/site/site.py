#!/usr/bin/python3 -I
# SPDX-License-Identifier: MIT
"""site - the documentation as a site of plain files: the pages of docs, the public headers, the command's manual, and
the files that those link to.

    site.py TREE FOLDER

Nothing in it comes from elsewhere, and every link is relative, so it can be read from a disk. A link that leads nowhere
in the tree is a mistake, and ends it.
"""

import json
import os
import posixpath
import re
import shutil
import subprocess
import sys
from html import escape, unescape

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import highlight
import markdown
import reference

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "build"))
import pictures

# What stands beside each page, in order; pages of docs that no list has come at the end of the last.
GUIDES = [
    ("Begin", ["README.md", "docs/tutorial.md", "docs/choosing.md"]),
    ("Run it", ["docs/operations.md", "docs/monitoring.md", "docs/metrics.md", "docs/capacity.md",
                "docs/performance.md", "docs/servers.md", "docs/acl.md", "docs/replicas.md"]),
    ("Inside", ["docs/design.md", "docs/protocol.md", "docs/wire.md", "docs/decisions.md", "docs/proof.md",
                "docs/scenarios.md", "docs/adding-a-lock-type.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"]),
]
HEADERS = ["redlatch.h", "client.h", "lock.h", "async.h", "owner.h", "semaphore.h", "latch.h", "error.h", "inspect.h",
           "observe.h", "doctor.h", "version.h", "redlatch.hpp", "client.hpp", "lock.hpp", "semaphore.hpp", "latch.hpp",
           "awaitable.hpp", "error.hpp", "support.hpp"]

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} · redlatch</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="{up}site.css">
<script>try {{ document.documentElement.dataset.theme = localStorage.getItem("theme") || "" }} catch (e) {{}}</script>
</head>
<body data-up="{up}">
<header>
<a class="brand" href="{up}index.html">redlatch</a><span class="version">{version}</span>
<div class="search"><input id="search" type="search" placeholder="Search  ( / )" aria-label="Search"
 autocomplete="off"><ol id="found" hidden></ol></div>
<button id="theme" aria-label="light or dark">◐</button>
</header>
<nav id="sides"><details><summary>Contents</summary>{sides}</details></nav>
<main>
{body}
</main>
<script src="{up}index.js"></script>
<script src="{up}site.js"></script>
</body>
</html>
"""


class Site:
    def __init__(self, tree, folder):
        self.tree, self.folder = tree, folder
        self.where = {}   # a file of the tree: its page
        self.names = {}   # a name of the headers: page and anchor
        self.found = []   # of the search: [words, page#anchor, kind, what else]
        self.wanted = []  # files of the tree that are linked to, and have no page yet
        self.guides = [(group, [path for path in paths if os.path.exists(os.path.join(tree, path))])
                       for group, paths in GUIDES]
        known = {path for _, paths in GUIDES for path in paths}
        self.guides[-1][1].extend("docs/" + name for name in sorted(os.listdir(os.path.join(tree, "docs")))
                                  if name.endswith(".md") and "docs/" + name not in known)
        for _, paths in self.guides:
            for path in paths:
                self.where[path] = re.sub(r"\.md$", ".html", os.path.basename(path).lower())
        self.where["README.md"] = "index.html"
        present = sorted(os.listdir(os.path.join(tree, "include/redlatch")))
        self.headers = HEADERS + [name for name in present if name not in HEADERS]
        for name in self.headers:
            self.where["include/redlatch/" + name] = "api/%s.html" % name
        self.manuals = [path for path in sorted(os.listdir(os.path.join(tree, "tools")))
                        if re.search(r"\.[1-8]$", path) and shutil.which("mandoc")]
        for name in self.manuals:
            self.where["tools/" + name] = "man/%s.html" % name
        self.titles = {}

    # ---- places: what markdown.Page and reference.Reference ask ------------------------------------------------------

    def at(self, path):
        """For the page of this file of the tree."""
        self.path, self.page = path, self.where[path]
        return self

    def relative(self, page):
        return posixpath.relpath(page, posixpath.dirname(self.page) or ".")

    def file(self, path):
        """A file of the tree: where it is shown, or None where it is not."""
        if path not in self.where:
            if not os.path.isfile(os.path.join(self.tree, path)):
                return None
            self.where[path] = "source/%s.html" % path
            self.wanted.append(path)
        return self.relative(self.where[path])

    def link(self, target):
        if re.match(r"\w+:", target):
            return target
        path, _, anchor = target.partition("#")
        if not path:
            return "#" + anchor
        address = self.file(posixpath.normpath(posixpath.join(posixpath.dirname(self.path), path)))
        if address is None:
            sys.exit("site: %s links to %s, which is not there" % (self.path, target))
        return address + ("#" + anchor if anchor else "")

    def name(self, word):
        place = self.names.get(word)
        return self.relative(place[0]) + "#" + place[1] if place else None

    def picture(self, target, words):
        path = os.path.join(self.tree, posixpath.dirname(self.path), target)
        with open(path) as f:
            picture = f.read()
        if 'class="rdl"' in picture:
            return re.sub(r"\s*<style>.*?</style>", "", picture, flags=re.S)
        name = os.path.basename(path)
        shutil.copy(path, os.path.join(self.folder, name))
        return '<img src="%s" alt="%s">' % (self.relative(name), escape(words))

    # ---- pages -------------------------------------------------------------------------------------------------------

    def learn_names(self):
        for name in reversed(self.headers):
            text = reference.text_of(os.path.join(self.tree, "include/redlatch", name))
            for word, _ in reference.declared(text):
                if name.endswith(".h"):
                    self.names[word] = ("api/%s.html" % name, word)
        for member in ("RDL_OK",):
            self.names.setdefault(member, ("api/error.h.html", "RDL_ETIMEDOUT"))

    def sides(self, headings):
        def entry(path, title):
            here = path == self.path
            inner = ""
            if here:
                parts = [(words, anchor) for level, words, anchor in headings if level in (2, 3)]
                top = [one for one in headings if one[0] == 2]
                if path.endswith(".md") or len(parts) > 60:
                    parts = [(words, anchor) for _, words, anchor in top]
                inner = "".join('<li><a href="#%s">%s</a></li>' % (anchor, escape(words)) for words, anchor in parts)
                inner = "<ul>%s</ul>" % inner if inner else ""
            return '<li%s><a href="%s">%s</a>%s</li>' % (' class="here"' if here else "",
                                                         self.relative(self.where[path]), escape(title), inner)

        out = []
        groups = list(self.guides)
        groups.insert(2, ("Reference", ["include/redlatch/" + name for name in self.headers]
                          + ["tools/" + name for name in self.manuals]))
        for group, paths in groups:
            out.append("<h2>%s</h2><ul>%s</ul>" % (group, "".join(entry(path, self.titles[path]) for path in paths)))
        return "\n".join(out)

    def put(self, title, body, headings):
        path = os.path.join(self.folder, self.page)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        up = "../" * self.page.count("/")
        with open(path, "w") as f:
            f.write(PAGE.format(title=escape(title), up=up, sides=self.sides(headings), body=body,
                                version=escape(self.version)))

    def index(self, title, anchor, kind, more=""):
        self.found.append([title, self.page + ("#" + anchor if anchor else ""), kind, more])

    def write_guide(self, path):
        page = markdown.Page(reference.text_of(os.path.join(self.tree, path)), self.at(path))
        self.index(page.title, "", "page", " ".join(unescape(re.sub(r"<[^>]+>", " ", page.html)).split()))
        for _, words, anchor in page.headings:
            self.index(words, anchor, page.title)
        self.put(page.title, page.html, page.headings)

    def write_header(self, name):
        page = reference.Reference(os.path.join(self.tree, "include/redlatch", name),
                                   self.at("include/redlatch/" + name))
        for word, summary in dict(reversed(page.entries)).items():
            self.index(word, word, name, summary)
        self.put(page.title, page.html, page.headings)

    def write_manual(self, name):
        self.at("tools/" + name)
        made = subprocess.run(["mandoc", "-T", "html", "-O", "fragment", os.path.join(self.tree, "tools", name)],
                              stdout=subprocess.PIPE, text=True, check=True).stdout
        title = self.titles[self.path]
        headings = [(2, " ".join(unescape(re.sub(r"<[^>]+>", "", words)).split()), anchor)
                    for anchor, words in re.findall(r'<h[12] class="S[hs]" id="([^"]+)">(.*?)</h[12]>', made, re.S)]
        for _, words, anchor in headings:
            self.index(words, anchor, title)
        body = re.sub(r'<h([12]) class', lambda match: "<h%d class" % (int(match[1]) + 1), made)
        self.put(title, "<h1>%s</h1>\n" % title + re.sub(r"</h([12])>", lambda m: "</h%d>" % (int(m[1]) + 1), body),
                 headings)

    def write_source(self, path):
        self.at(path)
        code = reference.text_of(os.path.join(self.tree, path))
        language = highlight.SUFFIXES.get(os.path.splitext(path)[1], "text")
        self.put(path, '<h1>%s</h1>\n<pre class="source of-%s"><code>%s</code></pre>' % (
            escape(path), language, highlight.coloured(code, language, self.name)), [])

    def write(self):
        version = re.search(r'RDL_VERSION "(.*?)"', reference.text_of(
            os.path.join(self.tree, "include/redlatch/version.h")))
        self.version = version[1]
        for _, paths in self.guides:
            for path in paths:
                first = reference.text_of(os.path.join(self.tree, path)).split("\n")[0]
                self.titles[path] = markdown.bare(first.lstrip("# "))
        self.titles["README.md"] = "What it is"
        self.titles.update({"include/redlatch/" + name: name for name in self.headers})
        self.titles.update({"tools/" + name: "%s(%s)" % tuple(name.rsplit(".", 1)) for name in self.manuals})
        self.learn_names()
        for _, paths in self.guides:
            for path in paths:
                self.write_guide(path)
        for name in self.headers:
            self.write_header(name)
        for name in self.manuals:
            self.write_manual(name)
        while self.wanted:
            self.write_source(self.wanted.pop())
        with open(os.path.join(HERE, "style.css")) as f, open(os.path.join(self.folder, "site.css"), "w") as out:
            out.write(f.read() + "\n".join(re.findall(r"^    (\.rdl [^{]*\{ (?!--).*)$", pictures.STYLE, re.M)) + "\n")
        shutil.copy(os.path.join(HERE, "site.js"), self.folder)
        with open(os.path.join(self.folder, "index.js"), "w") as f:
            f.write("const FOUND = %s;\n" % json.dumps(self.found, ensure_ascii=False))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__.split("\n\n")[1].strip())
    shutil.rmtree(sys.argv[2], ignore_errors=True)
    os.makedirs(sys.argv[2])
    Site(sys.argv[1], sys.argv[2]).write()
