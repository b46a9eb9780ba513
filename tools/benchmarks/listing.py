#!/usr/bin/python3 -I
# SPDX-License-Identifier: MIT
"""listing - how long `redlatch ls` takes for a server with very many keys, and what it costs that server.

    tools/benchmarks/listing.py [KEYS [LOCKS]]      1000000 and 100000 unless said otherwise

A server of its own gets the keys: locks as Redisson holds them, and strings, hashes and counters that are none. Printed
are the seconds that the list took and, of each command that it sent, how often the server ran it and how long that took
it, at the median, for 99 of 100 and for 999 of 1000. (Redis 7.0 and later say so. A server that has to share its
processor counts the time that it was not running as well.)
"""

import os
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
REDLATCH = os.path.join(TOP, "build", "release", "bin", "redlatch")
FILL = """
for i = tonumber(ARGV[1]), tonumber(ARGV[2]) do
    if i % tonumber(ARGV[3]) == 0 then
        redis.call('hset', 'job:' .. i, string.format('9f1c8a54-0000-4000-8000-%012d:%d', i % 1000, i), 1)
        redis.call('pexpire', 'job:' .. i, 3600000)
    elseif i % 10 == 1 then redis.call('hset', 'profile:' .. i, 'name', 'ann')
    elseif i % 10 == 2 then redis.call('set', 'visits:' .. i, i)
    else redis.call('set', 'page:' .. i, 'text') end
end"""
STEP = 10000


def main(keys=1000000, locks=100000):
    with tempfile.TemporaryDirectory(prefix="redlatch-listing-") as folder:
        path = os.path.join(folder, "s")
        server = subprocess.Popen(["redis-server", "--port", "0", "--save", "", "--unixsocket", path, "--dir", folder],
                                  stdout=subprocess.DEVNULL)
        try:
            measure(path, keys, locks)
        finally:
            server.terminate()
            server.wait()


def measure(path, keys, locks):
    def ask(*words):
        return subprocess.run(["redis-cli", "-s", path, *map(str, words)], stdout=subprocess.PIPE, text=True,
                              check=True).stdout

    while not os.path.exists(path):
        time.sleep(0.05)
    for first in range(0, keys, STEP):
        ask("EVAL", FILL, 0, first, min(first + STEP, keys) - 1, keys // locks)
    ask("CONFIG", "RESETSTAT")
    began = time.monotonic()
    listed = subprocess.run([REDLATCH, "ls", "--json", "--server", "unix:" + path], stdout=subprocess.PIPE, check=True)
    print("%d keys, %d locks listed in %.1f s" % (keys, listed.stdout.count(b"\n"), time.monotonic() - began))
    for line in ask("INFO", "commandstats").splitlines():
        if line.startswith(("cmdstat_scan:", "cmdstat_evalsha:", "cmdstat_getrange:", "cmdstat_hrandfield:")):
            print(line.split(",")[0].replace("cmdstat_", ""))
    for line in ask("INFO", "latencystats").splitlines():
        if line.split("_usec_")[-1].split(":")[0] in ("scan", "evalsha"):
            print(line.replace("latency_percentiles_usec_", "us "))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
