# SPDX-License-Identifier: MIT
"""PostgreSQL's advisory lock: the bar for handing over by a queue in the server.

A private server, started where one is installed, and pgbench with a connection for each process that would want the
lock. Whoever asks waits in the server's queue, so with more than one client each transaction is a change of owner.
"""

import contextlib
import glob
import os
import pwd
import re
import shutil
import subprocess
import tempfile

from machine import Failed, Unavailable, on_core

BOUND_S = 120
LOCK = "SELECT pg_advisory_lock(42);\nSELECT pg_advisory_unlock(42);\n"


def programs():
    """The folder of initdb, pg_ctl and pgbench."""
    for folder in [os.path.dirname(shutil.which("initdb") or "")] + sorted(glob.glob("/usr/lib/postgresql/*/bin")):
        if folder and all(os.path.exists(os.path.join(folder, name)) for name in ("initdb", "pg_ctl", "pgbench")):
            return folder
    raise Unavailable("no PostgreSQL server is installed")


def account():
    """Whom to be: the server does not run as root."""
    if os.getuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise Unavailable("PostgreSQL does not run as root, and there is nobody else")


def call(argv, who, core, folder):
    extra = {} if who is None else dict(user=who.pw_uid, group=who.pw_gid, extra_groups=[])
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=BOUND_S, cwd=folder, preexec_fn=on_core(core), **extra)
    if done.returncode != 0:
        raise Failed("%s: %s" % (os.path.basename(argv[0]), done.stdout.strip().split("\n")[-1]))
    return done.stdout


@contextlib.contextmanager
def server(bin_folder, who, core):
    """A server on `core`, on a socket in the folder that is given."""
    folder = tempfile.mkdtemp(prefix="redlatch-bench-pg.")
    data = os.path.join(folder, "data")
    if who is not None:
        os.chown(folder, who.pw_uid, who.pw_gid)
    try:
        call([bin_folder + "/initdb", "-D", data, "-U", "bench", "--auth=trust", "--no-sync"], who, core, folder)
        options = "-c listen_addresses='' -c fsync=off -k %s" % folder
        control = [bin_folder + "/pg_ctl", "-D", data, "-l", os.path.join(folder, "log"), "-w"]
        call(control + ["-o", options, "start"], who, core, folder)
        try:
            yield folder
        finally:
            call(control + ["-m", "immediate", "stop"], who, core, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measure(stage, clients):
    """Changes of owner a second among `clients`."""
    bin_folder, who = programs(), account()
    with server(bin_folder, who, stage.server.core) as folder:
        script = os.path.join(folder, "lock.sql")
        with open(script, "w") as f:
            f.write(LOCK)
        os.chmod(script, 0o644)
        said = call([bin_folder + "/pgbench", "-h", folder, "-U", "bench", "-n", "-M", "prepared", "-f", script,
                     "-c", str(clients), "-j", "1", "-T", str(max(1, round(stage.settings.seconds))), "postgres"],
                    who, stage.core, folder)
    found = re.search(r"tps = ([0-9.]+) \(without", said) or re.search(r"tps = ([0-9.]+)", said)
    if not found:
        raise Failed("pgbench says no rate")
    return dict(per_second=float(found.group(1)))
