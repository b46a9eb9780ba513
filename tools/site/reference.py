# SPDX-License-Identifier: MIT
"""reference - a public header as HTML: its comments are the text, the declarations that follow each are the code, and
every name that is declared has an anchor. What a comment is, and what its columns mean, tools/build/manual.py knows."""

import os
import re
import sys
from html import escape

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "build"))

import highlight
import manual

SECTION = re.compile(r"^(?:/\* -{2,} (.*?) -* ?\*/|// -{2,} (.*?) -*)$", re.M)
NOISE = re.compile(r"^#ifdef __cplusplus\n(?:extern \"C\" \{|\})\n#endif$|^#(?:ifndef|define) REDLATCH_\w+_H(?:PP)?$"
                   r"|^#include .*$|^namespace \w+\n\{$|^\} // namespace.*$|^#undef .*$|^#endif\n*\Z", re.M)
DECLARED = re.compile(r"^RDL_API [^;]*?(\w+)\(|^typedef [^;{]*\(\*(\w+)\)|^\} (\w+);|^#define (RDL_[A-Z]\w*)"
                      r"|^typedef struct \w+ (\w+);|^ +(RDL_\w+)(?: =|,)|^ +X\((RDL_\w+),"
                      r"|^(?:class|struct) (\w+)", re.M)
COMMENT = {".h": manual.COMMENT, ".hpp": re.compile(r"((?:^//(?! -{2}).*\n)+)", re.M)}


def text_of(path):
    with open(path) as f:
        return manual.LICENCE.sub("", f.read())


def declared(code):
    """The names that it declares, and where each stands."""
    return [(next(name for name in match.groups() if name), match) for match in DECLARED.finditer(code)]


def interface(code):
    """Of C++ classes what their users see: no private part, no namespace detail, and no function's body."""
    code = re.sub(r"^namespace detail\n\{\n.*?^\} // namespace detail\n", "", code, flags=re.S | re.M)
    code = re.sub(r"^ +(?:private|protected):\n.*?(?=^ +public:|^ {0,4}\};)", "", code, flags=re.S | re.M)
    code = re.sub(r"^( *)(?!class|struct|enum|union|namespace)(\S[^\n;{}]*(?:\n\1 +[^\n;{}]*)*)\n"
                  r"\1\{\n(?:.*?\n)??\1\}\n", r"\1\2;\n", code, flags=re.S | re.M)
    code = re.sub(r"(?<=\)|t)\s+: [\w:]+\((?:[^;]*);", ";", code)  # initialisers of members
    code = re.sub(r"^#if defined\(__cpp_impl_coroutine.*?^#endif\n#endif\n", "", code, flags=re.S | re.M)
    code = re.sub(r"^// -+ coroutines -+\n+#ifdef REDLATCH_HAS_COROUTINES\n+#endif\n", "", code, flags=re.M)
    code = re.sub(r"(;\n)\n+(?= +[^/\s])", r"\1", code)
    return re.sub(r"\n{2,}", "\n\n", re.sub(r"\n+(?=\};)", "\n", code))


def parts(text, suffix):
    """(section's title or None, comment, code) in the header's order."""
    found, title, comment, at = [], None, "", 0
    marks = [(match.start(), match.end(), "section", match[1] or match[2]) for match in SECTION.finditer(text)]
    marks += [(match.start(), match.end(), "comment", match[1]) for match in COMMENT[suffix].finditer(text)
              if text[:match.start()][-1:] in ("", "\n") and not SECTION.match(match[0].strip())]
    marks.sort()
    for start, end, kind, words in marks + [(len(text), len(text), "end", None)]:
        code = re.sub(r"\n{3,}", "\n\n", NOISE.sub("", text[at:start])).strip("\n")
        if comment or code.strip() or title:
            found.append((title, comment, code))
        title = words if kind == "section" else None
        comment = ""
        if kind == "comment":
            comment = (manual.plain(words) if suffix == ".h"
                       else "\n".join(re.sub(r"^// ?", "", line) for line in words.splitlines()))
        at = end
    return found


class Reference:
    """`html`, `title`, `headings` and `entries` ((name, first sentence)) of one header."""

    def __init__(self, path, places):
        name = os.path.basename(path)
        suffix = os.path.splitext(name)[1]
        self.places, self.title, self.headings, self.entries = places, name, [], []
        text = text_of(path)
        out, first = [], True
        for title, comment, code in parts(interface(text) if suffix == ".hpp" else text, suffix):
            if first:
                lead, _, comment = comment.partition(" - ") if " - " in comment.split("\n")[0] else (name, "", comment)
                comment = comment[:1].upper() + comment[1:]
                out.append("<h1>%s</h1>" % escape("<redlatch/%s>" % name))
            if title:
                title = title[:1].upper() + title[1:]
                anchor = "section-" + re.sub(r"\W+", "-", title.lower())
                self.headings.append((2, title, anchor))
                out.append('<h2 id="%s">%s<a class="self" href="#%s" aria-label="link to this section">#</a></h2>'
                           % (anchor, escape(title), anchor))
            out.append(self.entry(comment, code, suffix, first))
            first = False
        self.html = "\n".join(out)

    def entry(self, comment, code, suffix, words_first):
        names = [name for name, _ in declared(code)]
        self.entries += [(name, manual.summary(comment) if comment else "") for name in names]
        anchors = "".join('<a id="%s"></a>' % name for name in dict.fromkeys(names))
        own = [name for name, match in declared(code) if match[1]]
        for name in own:
            self.headings.append((3, name, name))
        shown = ""
        if code.strip():
            shown = '<pre class="declared"><code>%s</code></pre>' % highlight.coloured(
                re.sub(r"\bRDL_API ", "", re.sub(r" +\\$", " \\\\", code, flags=re.M)) + "\n",
                "cpp" if suffix == ".hpp" else "c", self.places.name)
        words = self.described(comment)
        return '<section class="entry">%s%s%s</section>' % ((anchors, words, shown) if words_first
                                                            else (anchors, shown, words))

    def described(self, text):
        """As manual.described, in HTML."""
        out = []
        for paragraph in re.split(r"\n\s*\n", text):
            rows = paragraph.split("\n")
            heads = [manual.COLUMNS.match(row.strip()) if row.startswith("  ") else None for row in rows]
            indented = [row.startswith("  ") for row in rows]
            lead = next((i for i, inner in enumerate(indented) if inner), len(rows))
            if lead:
                out.append("<p>%s</p>" % self.inline(" ".join(rows[:lead])))
            rest = rows[lead:]
            if rest and all(heads[lead:]):
                out.append("<dl>%s</dl>" % "".join("<dt>%s</dt><dd>%s</dd>" % (self.inline(head[1]),
                                                                               self.inline(head[2]))
                                                   for head in heads[lead:]))
            elif rest and lead and all(re.match(r"  [A-Z`]", row) or row.startswith("   ") for row in rest) \
                    and rest[0].rstrip().endswith((".", ",")):
                out.append("<ul>%s</ul>" % "".join("<li>%s</li>" % self.inline(row.strip()) for row in rest))
            elif rest:
                code = "\n".join(row[min(len(one) - len(one.lstrip()) for one in rest):] for row in rest)
                out.append('<pre><code>%s</code></pre>' % highlight.coloured(code + "\n", "c",
                                                                                     self.places.name))
        return "\n".join(one for one in out if one != "<p></p>")

    def inline(self, words):
        def word(match):
            path = "docs/%s.md" % match[2] if match[2] else "include/redlatch/%s" % match[3] if match[3] else None
            address = self.places.file(path) if path else self.places.name(match[4])
            shown = "<code>%s</code>" % match[0] if match[4] else match[0]
            return '<a href="%s">%s</a>' % (address, shown) if address else shown

        words = escape(words, quote=False)
        words = re.sub(r"`([^`]+)`", r"<code>\1</code>", words)
        pieces = re.split(r"(<code>.*?</code>)", words)
        return "".join(piece if piece.startswith("<code>") else
                       re.sub(r"((?:\bdocs/(\w[\w-]*)\.md)|\b(\w+\.hp?p?)\b|\b((?:rdl|RDL)_\w+))", word, piece)
                       for piece in pieces)
