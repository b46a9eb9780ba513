#!/usr/bin/python3 -I
# SPDX-License-Identifier: MIT
"""root - a command in a throwaway copy of a root.

    root.py ROOT DESK COMMAND...        ROOT is a folder that `tools/setup roots` made, such as build/roots/bookworm
    root.py ROOT                        only says whether there can be one

DESK, a folder, is /desk in there: what the command leaves in it stays, and all else is gone when it has ended. It has
the environment of a new machine, a network of its own without a way out, and leaves no process. Where no file system
can be mounted, as in many containers, the root is copied instead, and shares network and processes.

Exit status: the command's; 77, with the reason as the last line, where there can be no root."""

import ctypes
import fcntl
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NEW = {"PATH": PATH, "HOME": "/root", "LANG": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive", "TERM": "dumb"}
NAMESPACES = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child"]
MS_BIND, MS_MOVE, MS_REC = 4096, 8192, 16384
SKIPPED = 77
libc = ctypes.CDLL(None, use_errno=True)


def mount(source, target, kind, flags=0, data=None):
    if libc.mount(source.encode(), target.encode(), kind and kind.encode(), flags, data and data.encode()) != 0:
        raise OSError(ctypes.get_errno(), "mount %s: %s" % (target, os.strerror(ctypes.get_errno())))


def loopback_up():
    SIOCSIFFLAGS, IFF_UP = 0x8914, 1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        fcntl.ioctl(s, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))


def copy(source, target):
    subprocess.run(["cp", "-a", "--reflink=auto", source + "/.", target], check=True)


def overlay(root, scratch):
    """What is written stays in memory."""
    mount("tmpfs", scratch, "tmpfs", 0, "size=3g,mode=755")
    for folder in ("upper", "work", "root"):
        os.mkdir("%s/%s" % (scratch, folder))
    mount("overlay", scratch + "/root", "overlay", 0, "lowerdir=%s,upperdir=%s/upper,workdir=%s/work"
          % (root, scratch, scratch))
    os.mkdir(scratch + "/root/desk")
    mount("/dev", scratch + "/root/dev", None, MS_BIND | MS_REC)
    mount("proc", scratch + "/root/proc", "proc")
    return scratch + "/root"


def enter(root, moved):
    """Where it is moved to / it is not only this process's, but the namespace's root: who is in a chroot may have no
    user namespace."""
    os.chdir(root)
    if moved:
        mount(".", "/", None, MS_MOVE)
    os.chroot(".")
    os.chdir("/desk")


def run_inside(root, command, moved=False):
    """The command's exit status, in `root` for /."""
    child = subprocess.Popen(command, cwd="/", env=NEW, stdin=subprocess.DEVNULL,
                             preexec_fn=lambda: enter(root, moved))
    signal.signal(signal.SIGTERM, lambda *_: (child.kill(), sys.exit(143)))
    return child.wait()


def mounted(root, desk, scratch, command):
    loopback_up()
    place = overlay(root, scratch)
    mount(desk, place + "/desk", None, MS_BIND)
    return run_inside(place, command, moved=True)


def copied(root, desk, scratch, command):
    """One at a time, because they share the network."""
    turn = os.open(os.path.dirname(root), os.O_RDONLY)
    fcntl.flock(turn, fcntl.LOCK_EX)
    copy(root, scratch)
    os.mkdir(scratch + "/desk")
    copy(desk, scratch + "/desk")
    try:
        return run_inside(scratch, command)
    finally:
        copy(scratch + "/desk", desk)


def can_mount(root):
    """Whether this machine lets us have an overlay in a namespace of our own."""
    with tempfile.TemporaryDirectory() as scratch:
        return subprocess.run(NAMESPACES + [os.path.abspath(__file__), "--mounted", root, scratch, scratch, "true"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def main():
    if sys.argv[1] == "--mounted":
        return mounted(*sys.argv[2:5], sys.argv[5:])
    root = os.path.abspath(sys.argv[1])
    if os.geteuid() != 0:
        print("a root of its own can be made by root alone")
        return SKIPPED
    if not os.path.isdir(root):
        print("there is no clean %s here: tools/setup roots makes it, as root, where debootstrap works and the mirror "
              "has the suite (build/log/root-%s.log says what it did)" % ((os.path.basename(root),) * 2))
        return SKIPPED
    if len(sys.argv) < 4:
        return 0
    desk, command = os.path.abspath(sys.argv[2]), sys.argv[3:]
    # Beside the roots, for a copy of one is large.
    with tempfile.TemporaryDirectory(dir=os.path.dirname(root), prefix="copy.") as scratch:
        if can_mount(root):
            return subprocess.run(NAMESPACES + [os.path.abspath(__file__), "--mounted", root, desk, scratch]
                                  + command).returncode
        print("no file system can be mounted here: the root is copied, and shares network and processes")
        sys.stdout.flush()
        return copied(root, desk, scratch, command)


sys.exit(main())
