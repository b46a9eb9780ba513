# SPDX-License-Identifier: MIT
"""highlight - code as HTML, a span for each thing that has a colour; names that have a place of their own are links."""

import re
from html import escape

C_WORDS = """alignas auto bool break case catch char class const const_cast constexpr continue default defined delete do
double else enum explicit extern false final float for friend goto if inline int int32_t int64_t long mutable namespace
new noexcept nullptr operator override private protected public return short signed size_t sizeof static static_cast
struct switch template this throw true try typedef typename uint32_t uint64_t union unsigned using virtual void volatile
while co_await co_return NULL""".split()
SHELL_WORDS = """if then else elif fi for in do done while until case esac exec export exit trap set echo cat local
function return sudo""".split()
LUA_WORDS = """and break do else elseif end false for function if in local nil not or repeat return then true until
while""".split()
PYTHON_WORDS = """and as assert break class continue def del elif else except finally for from if import in is lambda
None not or pass raise return True False try while with yield""".split()

C = re.compile(r"(?P<c>/\*.*?\*/|//[^\n]*)|(?P<p>^[ \t]*#\s*\w+)|(?P<s>\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|"
               r"(?<=#include )<[^>\n]+>)|(?P<n>\b\d[\w.]*)|(?P<w>\b[A-Za-z_]\w*)", re.S | re.M)
SHELL = re.compile(r"(?P<c>(?:^|(?<=\s))#[^\n]*)|(?P<s>\"(?:\\.|[^\"\\])*\"|'[^']*')|"
                   r"(?P<v>\$\w+|\$\{[^}]*\}|\$[!?#@$])|(?P<o>(?<=\s)--?[A-Za-z][\w-]*)|(?P<w>[\w./-]+)", re.M)
LUA = re.compile(r"(?P<c>--[^\n]*)|(?P<s>\"[^\"\n]*\"|'[^'\n]*')|(?P<n>\b\d+)|(?P<w>\b[A-Za-z_]\w*)", re.M)
PYTHON = re.compile(r"(?P<c>#[^\n]*)|(?P<s>\"[^\"\n]*\"|'[^'\n]*')|(?P<n>\b\d+)|(?P<w>\b[A-Za-z_]\w*)", re.M)
LANGUAGES = {"c": (C, C_WORDS), "cpp": (C, C_WORDS), "sh": (SHELL, SHELL_WORDS), "lua": (LUA, LUA_WORDS),
             "python": (PYTHON, PYTHON_WORDS)}
SUFFIXES = {".c": "c", ".h": "c", ".cc": "cpp", ".hpp": "cpp", ".sh": "sh", ".lua": "lua", ".py": "python"}


def span(kind, words):
    return '<span class="%s">%s</span>' % (kind, escape(words, quote=False))


def coloured(code, language, link):
    """link: a name's address, or None."""
    if language == "console":
        return console(code, link)
    if language not in LANGUAGES:
        return escape(code, quote=False)
    tokens, words = LANGUAGES[language]
    out, at = [], 0
    for match in tokens.finditer(code):
        out.append(escape(code[at:match.start()], quote=False))
        at = match.end()
        kind, found = match.lastgroup, match[0]
        address = link(found) if kind == "w" else None
        if address:
            out.append('<a class="f" href="%s">%s</a>' % (address, found))
        elif kind == "w" and found in words:
            out.append(span("k", found))
        elif kind == "w" and language in ("c", "cpp") and re.search(r"_t$|^RDL_", found):
            out.append(span("t", found))
        elif kind == "w":
            out.append(escape(found, quote=False))
        else:
            out.append(span(kind, found))
    return "".join(out + [escape(code[at:], quote=False)])


def console(code, link):
    """What is typed stands behind a prompt; the rest is what is shown."""
    rows = []
    for row in code.splitlines():
        typed = row.startswith("$ ")
        rows.append(span("prompt", "$ ") + coloured(row[2:], "sh", link) if typed else span("shown", row))
    return "\n".join(rows) + "\n"
