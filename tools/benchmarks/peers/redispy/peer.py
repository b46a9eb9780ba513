# SPDX-License-Identifier: MIT
"""redis-py's lock, measured. The command line and the answer are described in tools/benchmarks/peers/build."""

import argparse
import concurrent.futures
import json
import sys
import time

import redis

LEASE_S = 30
WAITED_S = 0.005


class Run:
    """What was asked for, and the time in which samples count."""

    def __init__(self, args):
        self.host, _, self.port = args.server.rpartition(":")
        self.args = args
        self.start = self.end = 0

    def begin(self):
        """Time runs from here, so connect first."""
        self.start = time.perf_counter() + self.args.warmup
        self.end = self.start + self.args.seconds

    def open(self):
        client = redis.Redis(host=self.host, port=int(self.port))
        client.ping()
        return client

    def add(self, samples, since, until):
        if since >= self.start and until < self.end:
            samples.append(until - since)

    def lock_and_unlock(self, lock):
        samples = []
        before = time.perf_counter()
        while before < self.end:
            lock.acquire()
            lock.release()
            after = time.perf_counter()
            self.add(samples, before, after)
            before = after
        return samples

    def pairs(self):
        client = self.open()
        with concurrent.futures.ThreadPoolExecutor(self.args.threads) as pool:
            locks = [client.lock("bench:%d" % (i % self.args.locks), timeout=LEASE_S) for i in range(self.args.threads)]
            self.begin()
            return [sample for samples in pool.map(self.lock_and_unlock, locks) for sample in samples]

    def handoff(self):
        self.args.threads, self.args.locks = 2, 1
        samples = []
        holder, waiter = Side(self.open()), Side(self.open())
        self.begin()
        holder.thread.submit(holder.take).result()
        while time.perf_counter() < self.end:
            taken = waiter.thread.submit(waiter.take)
            time.sleep(WAITED_S)
            released = holder.thread.submit(holder.release).result()
            self.add(samples, released, taken.result())
            holder, waiter = waiter, holder
        holder.thread.submit(holder.release).result()
        return samples


class Side:
    """One of the two between whom the lock goes to and fro; both verbs run on its thread and tell a time."""

    def __init__(self, client):
        self.lock = client.lock("bench:handoff", timeout=LEASE_S)
        self.thread = concurrent.futures.ThreadPoolExecutor(1)

    def take(self):
        self.lock.acquire()
        return time.perf_counter()

    def release(self):
        before = time.perf_counter()
        self.lock.release()
        return before


def main():
    parser = argparse.ArgumentParser(description="redis-py's lock, measured.")
    parser.add_argument("--server", required=True, metavar="HOST:PORT")
    parser.add_argument("--mode", choices=("pairs", "handoff"), default="pairs")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--locks", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--warmup", type=float, default=1)
    args = parser.parse_args()

    run = Run(args)
    samples = sorted(getattr(run, args.mode)())

    def us(share):
        return round(samples[int(share * (len(samples) - 1))] * 1e6, 1) if samples else 0

    print(json.dumps(dict(
        peer="redis-py", version=redis.__version__, mode=args.mode, threads=args.threads, locks=args.locks,
        seconds=args.seconds, count=len(samples), per_second=round(len(samples) / args.seconds, 1), min_us=us(0),
        p50_us=us(0.5), p99_us=us(0.99)), separators=(",", ":")))


if __name__ == "__main__":
    try:
        main()
    except (redis.RedisError, ValueError) as e:
        sys.exit("redis-py peer: %s" % e)
