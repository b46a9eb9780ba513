# SPDX-License-Identifier: MIT
"""The other lock libraries: each a small program under peers, built where its toolchain is, skipped and named
elsewhere."""

import json
import os
import subprocess

from machine import BUILD, Failed, Unavailable, run

BUILDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers", "build")
BUILD_BOUND_S = 1800
END_BOUND_S = 60  # more than it is told to take
UNAVAILABLE = 77

WARMUP_S = dict(redisson=4)  # a virtual machine that compiles while it runs

ready = {}


def build(name):
    """The program, built once a run; or Unavailable."""
    if name not in ready:
        output = os.path.join(BUILD, "peers", name)
        done = subprocess.run([BUILDER, name, output], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True, timeout=BUILD_BOUND_S)
        said = done.stderr.strip().split("\n")[-1]
        if done.returncode not in (0, UNAVAILABLE):
            raise Failed("%s could not be built: %s" % (name, said))
        ready[name] = (os.path.join(output, "run"), said if done.returncode == UNAVAILABLE else None)
    program, reason = ready[name]
    if reason is not None:
        raise Unavailable(reason)
    return program


def measure(stage, name, mode, threads):
    if stage.settings.quick:
        raise Unavailable("other libraries are not part of --quick")
    seconds, warmup = stage.settings.seconds, WARMUP_S.get(name, 1)
    argv = [build(name), "--server", stage.address, "--mode", mode, "--threads", str(threads), "--locks", str(threads),
            "--seconds", str(seconds), "--warmup", str(warmup)]
    return json.loads(run(argv, stage.core, seconds + warmup + END_BOUND_S))


def server_time(stage, name):
    """What its scripts cost the server a pair, with the one DEL that no script sends. Of the whole run, warm-up too."""
    measure(stage, name, "pairs", 1)
    calls, usec = stage.server.command("evalsha")
    if calls < 2:
        calls, usec = stage.server.command("eval")
    pairs = calls / 2
    dels, del_usec = stage.server.command("del")
    outside = max(dels - pairs, 0) / pairs
    return dict(script_us=usec / pairs + (outside * del_usec / dels if dels else 0), commands=2 + outside)
