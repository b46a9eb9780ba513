# SPDX-License-Identifier: MIT
"""Threads of ours and of Redisson's on one lock: the least that one of them gets of its even share, by type.

One process of each, on one core, for one type after another at the same times (programs/shares.c).
"""

import json
import subprocess
import time

import peers
from machine import Failed, Unavailable, on_core

TYPES = ("reentrant", "fenced", "fair", "write", "spin")
THREADS = 8  # of each
COUNTED_S = 4  # at least: who polls sleeps for up to 128 ms, so that shares of a second are mostly chance
TURN_MORE_S = 2  # warm-up and rest
START_S = 8  # until a virtual machine has connected, on a busy machine
END_BOUND_S = 60


def finished(process, name, bound_s):
    try:
        said, wrong = process.communicate(timeout=bound_s)
    except subprocess.TimeoutExpired:
        raise Failed("%s has not ended" % name) from None
    if process.returncode != 0:
        raise Failed(wrong.strip().split("\n")[-1])
    return json.loads(said)


def measure(stage, hold_ms, pause_ms):
    if stage.settings.quick:
        raise Unavailable("other libraries are not part of --quick")
    java = peers.build("redisson")
    seconds = max(stage.settings.seconds, COUNTED_S)
    options = dict(threads=THREADS, hold_ms=hold_ms, pause_ms=pause_ms, seconds=seconds,
                   at_ms=int((time.time() + START_S) * 1000))
    others = [java, "--server", stage.address, "--mode", "shares"]
    for name, value in options.items():
        others += ["--" + name.replace("_", "-"), str(value)]
    started = [subprocess.Popen(argv, preexec_fn=on_core(stage.core), stdin=subprocess.DEVNULL, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
               for argv in (stage.argv("shares", options), others)]
    try:
        bound_s = START_S + len(TYPES) * (seconds + TURN_MORE_S) + END_BOUND_S
        ours, theirs = (finished(process, name, bound_s) for process, name in zip(started, ("measure", "redisson")))
    finally:
        for process in started:
            process.kill()
            process.wait()
    answer = {}
    for kind in TYPES:
        even = (ours[kind + "_sum"] + theirs[kind + "_sum"]) / (2 * THREADS)
        if even == 0:
            raise Failed("nobody has taken the %s lock" % kind)
        answer[kind + "_ours"], answer[kind + "_java"] = (side[kind + "_least"] / even for side in (ours, theirs))
        answer[kind] = min(answer[kind + "_ours"], answer[kind + "_java"])
        answer[kind + "_per_second"] = 2 * THREADS * even / seconds
    return answer
