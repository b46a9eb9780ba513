# SPDX-License-Identifier: MIT
"""markdown - the part of Markdown that our pages use, as HTML: headings, paragraphs, lists, tables, fenced code,
images, and within a line code, bold, emphasis and links. What is none of that stays text."""

import re
from html import escape

import highlight

FENCE = re.compile(r"^```(\w*)$")
BULLET = re.compile(r"^(- |\d+\. )")
CODE = re.compile(r"(`+)(.+?)\1", re.S)
IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)]+)\)")
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
AUTO = re.compile(r"&lt;(https?://[^&\s]+)&gt;|(?<![\"=>])\b(https?://[^\s<>()]+[^\s<>().,;:])")


def slug(title):
    """What our pages' links call a heading."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def bare(line):
    """A line without its marks."""
    return re.sub(r"[`*]", "", LINK.sub(r"\1", line))


class Page:
    """`html`, `title`, and `headings`: (level, words, anchor). places says where things are: link(target) of a link,
    name(word) of a name in code or None, picture(target, words) the HTML of an image."""

    def __init__(self, text, places):
        self.places, self.title, self.headings = places, "", []
        lines = re.sub(r"^<!--.*?-->\n", "", text, flags=re.S | re.M).splitlines()
        self.html = "\n".join(self.blocks(lines))

    # ---- blocks ------------------------------------------------------------------------------------------------------

    def blocks(self, lines):
        out, i = [], 0
        while i < len(lines):
            line = lines[i]
            fence = FENCE.match(line)
            if fence:
                end = lines.index("```", i + 1)
                out.append(self.code("\n".join(lines[i + 1:end]) + "\n", fence[1]))
                i = end + 1
            elif re.match(r"#+ ", line):
                out.append(self.heading(line))
                i += 1
            elif line.startswith("|"):
                end = next((j for j in range(i, len(lines)) if not lines[j].startswith("|")), len(lines))
                out.append(self.table(lines[i:end]))
                i = end
            elif BULLET.match(line):
                end = self.end_of_list(lines, i)
                out.append(self.list(lines[i:end]))
                i = end
            elif line.strip():
                end = next((j for j in range(i + 1, len(lines)) if not lines[j].strip() or FENCE.match(lines[j])
                            or lines[j].startswith("|") or BULLET.match(lines[j])), len(lines))
                out.append(self.paragraph(" ".join(lines[i:end])))
                i = end
            else:
                i += 1
        return out

    @staticmethod
    def end_of_list(lines, i):
        """Behind the last line that begins an item or is indented; an empty one counts if more follows."""
        end = i
        while i < len(lines):
            if BULLET.match(lines[i]) or lines[i].startswith("  "):
                end = i + 1
            elif lines[i].strip():
                # A line that goes on without an indent belongs to the item; a block does not.
                if lines[i - 1].strip() and not re.match(r"#|\||```", lines[i]):
                    end = i + 1
                else:
                    break
            i += 1
        return end

    def list(self, lines):
        items = []
        for line in lines:
            mark = BULLET.match(line)
            if mark:
                items.append([line[mark.end():]])
                width = mark.end()
            else:
                items[-1].append(line[width:] if line.startswith(" " * width) else line.strip())
        kind = "ul" if lines[0].startswith("-") else "ol"
        done = [self.blocks(item) for item in items]
        done = [re.sub(r"^<p>(.*)</p>$", r"\1", item[0], flags=re.S) if len(item) == 1 else "\n".join(item)
                for item in done]
        return "<%s>\n%s\n</%s>" % (kind, "\n".join("<li>%s</li>" % item for item in done), kind)

    def heading(self, line):
        level, words = len(line) - len(line.lstrip("#")), line.lstrip("# ")
        anchor, n = slug(words), [slug(bare(one)) for _, one, _ in self.headings].count(slug(words))
        anchor += "-%d" % n if n else ""
        if level == 1 and not self.title:
            self.title = bare(words)
        else:
            self.headings.append((level, bare(words), anchor))
        return '<h%d id="%s">%s<a class="self" href="#%s" aria-label="link to this section">#</a></h%d>' % (
            level, anchor, self.inline(words), anchor, level)

    def table(self, lines):
        rows = [[cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip()[1:-1])]
                for line in lines]
        out = ['<div class="wide"><table>']
        if any(rows[0]):
            out.append("<thead><tr>%s</tr></thead>" % "".join("<th>%s</th>" % self.inline(cell) for cell in rows[0]))
        out.append("<tbody>")
        out += ["<tr>%s</tr>" % "".join("<td>%s</td>" % self.inline(cell) for cell in row) for row in rows[2:]]
        return "\n".join(out + ["</tbody></table></div>"])

    def code(self, code, language):
        return '<pre class="of-%s"><code>%s</code></pre>' % (
            language or "text", highlight.coloured(code, language, self.places.name))

    def paragraph(self, words):
        picture = IMAGE.fullmatch(words.strip())
        if picture:
            return "<figure>%s</figure>" % self.places.picture(picture[2], picture[1])
        return "<p>%s</p>" % self.inline(words)

    # ---- within a line -----------------------------------------------------------------------------------------------

    def inline(self, words):
        kept = []

        def keep(html):
            kept.append(html)
            return "\0%d\0" % (len(kept) - 1)

        def code(match):
            word = match[2].strip() if match[1] != "`" else match[2]
            address = self.places.name(re.sub(r"\(.*", "", word))
            html = "<code>%s</code>" % escape(word, quote=False)
            return keep('<a href="%s">%s</a>' % (address, html) if address else html)

        def link(match):
            # The words are escaped by now; a link within a link is none.
            inner = re.sub(r"\0(\d+)\0", lambda one: re.sub(r"</?a\b[^>]*>", "", kept[int(one[1])]), match[1])
            return keep('<a href="%s">%s</a>' % (escape(self.places.link(match[2])), inner))

        words = escape(CODE.sub(code, words), quote=False)
        words = LINK.sub(link, words)
        words = AUTO.sub(lambda match: keep('<a href="%s">%s</a>' % ((match[1] or match[2],) * 2)), words)
        words = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", words)
        words = re.sub(r"(?<![\w*])\*([^*\s][^*]*)\*(?!\w)", r"<em>\1</em>", words)
        while "\0" in words:
            words = re.sub(r"\0(\d+)\0", lambda match: kept[int(match[1])], words)
        return words
