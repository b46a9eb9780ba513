# SPDX-License-Identifier: MIT
"""terminal - the command on a terminal of its own: what it says there, answers that are typed, and for what paints a
whole screen what stands on it."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

import support


class Terminal:
    """The command on a terminal of its own, which it is asked on; its stdout and stderr are there, too."""

    def __init__(self, case, *arguments, columns=None, rows=24, env=None, program=support.REDLATCH):
        self.said = ""
        self.left = b""  # the beginning of a character
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            support.die_with_parent()
            for signo in signal.SIGINT, signal.SIGQUIT, signal.SIGHUP:  # ignored in whatever began in the background
                signal.signal(signo, signal.SIG_DFL)
            if columns:
                fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            os.execve(program, [program, *arguments], case.environment(**dict({"TERM": "vt100"}, **(env or {}))))
        case.addCleanup(self.close)

    def close(self):
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None
        if self.pid is not None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)

    def took(self, text):
        """What has been read just now."""

    def read(self, bound=support.BOUND_S):
        if not select.select([self.fd], [], [], bound)[0]:
            raise AssertionError("nothing more within %g s than %r" % (bound, self.said))
        try:
            more = os.read(self.fd, 65536)
        except OSError:  # the other side is closed
            return False
        data = self.left + more
        text = data.decode(errors="ignore")
        self.left = data[len(text.encode()):]
        self.said += text
        self.took(text)
        return more != b""

    def expect(self, words):
        while words not in self.said:
            if not self.read():
                raise AssertionError("%r, without %r" % (self.said, words))

    def answer(self, words):
        os.write(self.fd, words.encode() + b"\n")

    def status(self):
        """128 and the signal, where one has ended it."""
        while self.read():
            pass
        pid, self.pid = self.pid, None
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        return code if code >= 0 else 128 - code


class Screen(Terminal):
    """A vt100, as far as curses uses one: `lines` is what stands on it."""

    PIECE = re.compile(r"\x1b\[([\d;?]*)([A-Za-z])|\x1b[()](.)|\x1b([=>78MDE])|([\x00-\x1f])|([^\x00-\x1f\x1b]+)|\x1b")

    def __init__(self, case, *arguments, columns=80, rows=24, env=None, **options):
        self.columns, self.rows, self.rest = columns, rows, ""
        self.clear()
        super().__init__(case, *arguments, columns=columns, rows=rows,
                         env=dict({"TERM": "vt100", "LANG": "C.UTF-8", "LC_ALL": None}, **(env or {})), **options)

    def clear(self):
        self.cells = [[" "] * self.columns for _ in range(self.rows)]
        self.row = self.column = 0
        self.region = 0, self.rows - 1

    @property
    def lines(self):
        return ["".join(row).rstrip() for row in self.cells]

    @property
    def text(self):
        return "\n".join(self.lines)

    def took(self, text):
        text, self.rest = self.rest + text, ""
        cut = re.search(r"\x1b(\[[\d;?]*|[()])?$", text)
        if cut:
            text, self.rest = text[:cut.start()], cut[0]
        for piece in self.PIECE.finditer(text):
            numbers, command, _, single, control, plain = piece.groups()
            if command:
                self.obey(command, [int(number or 0) for number in numbers.strip("?").split(";")])
            elif single == "M":
                self.up()
            elif control:
                self.control(control)
            elif plain:
                self.write(plain)

    def write(self, text):
        for character in text:
            if self.column >= self.columns:  # the last column of a vt100 holds the cursor
                self.column = self.columns - 1
            if self.row < self.rows:
                self.cells[self.row][self.column] = character
            self.column += 1

    def control(self, control):
        if control == "\r":
            self.column = 0
        elif control == "\n":
            self.down()
        elif control == "\b":
            self.column = max(self.column - 1, 0)
        elif control == "\t":
            self.column = min((self.column // 8 + 1) * 8, self.columns - 1)

    def down(self):
        """A line; at the end of the region that scrolls, it does."""
        top, bottom = self.region
        if self.row == bottom:
            self.cells[top:bottom + 1] = self.cells[top + 1:bottom + 1] + [[" "] * self.columns]
        else:
            self.row = min(self.row + 1, self.rows - 1)

    def up(self):
        top, bottom = self.region
        if self.row == top:
            self.cells[top:bottom + 1] = [[" "] * self.columns] + self.cells[top:bottom]
        else:
            self.row = max(self.row - 1, 0)

    def obey(self, command, numbers):
        count = max(numbers[0], 1)
        if command == "r":
            self.region = count - 1, (numbers[1] if len(numbers) > 1 and numbers[1] else self.rows) - 1
            self.row = self.column = 0
        elif command == "H":
            self.row = min(count, self.rows) - 1
            self.column = min(max(numbers[1] if len(numbers) > 1 else 1, 1), self.columns) - 1
        elif command == "A":
            self.row = max(self.row - count, 0)
        elif command == "B":
            self.row = min(self.row + count, self.rows - 1)
        elif command == "C":
            self.column = min(self.column + count, self.columns - 1)
        elif command == "D":
            self.column = max(self.column - count, 0)
        elif command in "JK":
            cells = self.cells[self.row]
            begin, end = {0: (self.column, self.columns), 1: (0, self.column + 1), 2: (0, self.columns)}[numbers[0]]
            cells[begin:end] = [" "] * (end - begin)
            if command == "J" and numbers[0] in (0, 2):
                for row in self.cells[self.row + 1 if numbers[0] == 0 else 0:]:
                    row[:] = [" "] * self.columns

    def until(self, condition, what):
        """Read until it is so on the screen."""
        end = time.monotonic() + support.BOUND_S
        while True:
            answer = condition(self)
            if answer:
                return answer
            if time.monotonic() > end or not self.read():
                raise AssertionError("never: %s; the screen is\n%s" % (what, self.text))

    def shows(self, *words):
        self.until(lambda screen: all(word in screen.text for word in words), "it shows %r" % (words,))

    def shows_no(self, word):
        self.until(lambda screen: word not in screen.text, "%r is gone" % word)

    def key(self, keys):
        os.write(self.fd, keys.encode())

    def resize(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.clear()
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
