#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A file system that is really full: at every page and at every inode.

usage: full.py TESSERA_RUN BUNDLE [--pages FIRST:LAST:STEP] [--inodes FIRST:LAST:STEP]

A run saves to a tmpfs of so many pages, or so many inodes, until it ends by itself. A second series
refuses to reserve space (strace), so that the kernel writes as much as fits and says so: a true short
write. Then the file system is made larger and undisturbed runs recover.
"""
import argparse
import os
import re
import subprocess
import sys

import common

ROOMY = "size=4m,nr_inodes=4096"


def mount(options, folder):
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode == 0, done.stdout.strip()


def numbers(text):
    first, last, step = map(int, text.split(":"))
    return range(first, last + 1, step)


def try_one(bench, judge, folder, limit, reserve):
    """What is wrong, the exit code, and how many writes were short."""
    state, log = os.path.join(folder, "state"), bench.path("log")
    if os.path.exists(log):
        os.unlink(log)
    good, why = mount(limit, folder)
    if not good:
        common.skip("no file system can be mounted: " + why)
    try:
        command = bench.train(state, log=log)
        rule = None if reserve else "fallocate:error=EOPNOTSUPP:when=1+"
        done = bench.traced(command, ["pwrite64", "fallocate"], rule)
        wrong = []
        if done.code not in (0, 7, 16):
            wrong.append("the run on a full file system: %s" % done)
        if done.code and "No space left" not in done.err:
            wrong.append("it does not say that there is no space: %s" % done)
        asked = [re.search(r", (\d+), \d+\)\s+= (\d+)$", call.text) for call in done.calls
                 if call.name == "pwrite64"]
        short = sum(int(found.group(2)) < int(found.group(1)) for found in asked if found)
        subprocess.run(["mount", "-o", "remount," + ROOMY, folder], check=True)
        return wrong + judge.recover(state, log), done.code, short
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].replace("usage: ", ""))
    parser.add_argument("run")
    parser.add_argument("bundle")
    parser.add_argument("--pages", type=numbers, default=numbers("1:44:1"))
    parser.add_argument("--inodes", type=numbers, default=numbers("2:28:1"))
    options = parser.parse_args()
    strace = common.strace_or_skip()
    tried = failures = shorts = ended = 0
    with common.Bench(options.run, options.bundle, None) as bench:
        bench.strace = strace
        judge = common.Judge(bench)
        folder = bench.path("mounted")
        os.mkdir(folder)
        for kind, values in (("pages", options.pages), ("inodes", options.inodes)):
            for value in values:
                for reserve in (True, False):
                    limit = ("size=%dk" % (4 * value) if kind == "pages" else
                             "size=4m,nr_inodes=%d" % value)
                    wrong, code, short = try_one(bench, judge, folder, limit, reserve)
                    tried += 1
                    shorts += short
                    ended += code != 0
                    if wrong:
                        failures += 1
                        print("FAILED: --%s %d:%d:1, space %sreserved" %
                              (kind, value, value, "" if reserve else "not "))
                        for text in wrong:
                            print("    " + text.strip().replace("\n", "\n    "))
    print("%d full file systems, %d runs ended by them, %d short writes, %d failed" %
          (tried, ended, shorts, failures))
    if not shorts or not ended:
        print("FAILED: no file system was full, or no write short")
        failures += 1
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
