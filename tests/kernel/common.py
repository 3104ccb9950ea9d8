# SPDX-License-Identifier: Apache-2.0
"""What the tests of this room share: a small training run, its state directories, system calls that
fail as told, and the judgement of what is left afterwards.

A run is `tessera-run` as it is built, on the real kernel; strace makes its n-th call of a name fail,
lie or be the last one. Afterwards an undisturbed run must resume from what was acknowledged and end
with the bits of a run that nothing ever disturbed.
"""
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "history"))
import check  # noqa: E402
import reader  # noqa: E402, F401 (damage.py's)

SKIPPED = 77
LAST_STEP = 10  # of a run that is disturbed
GOAL = 12  # of the run that recovers

# Exit codes a run may end with when the operating system refuses: ok, input/output, state refused,
# in use, out of memory, saving failed (docs/exit-codes.md).
CODES = {0, 7, 10, 11, 15, 16}
KILLED = -9


def write_npy(path, rows, columns, seed):
    values = random.Random(seed)
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }" % (rows, columns)
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    data = [values.uniform(-1, 1) for _ in range(rows * columns)]
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header.encode())
        file.write(struct.pack("<%df" % len(data), *data))


def file_system(folder):
    """The type of the file system that holds the folder, as the kernel names it."""
    best, kind = "", "?"
    folder = os.path.realpath(folder)
    with open("/proc/self/mounts", encoding="utf-8") as mounts:
        for line in mounts:
            point, name = line.split()[1:3]
            inside = folder == point or folder.startswith(point.rstrip("/") + "/")
            if inside and len(point) >= len(best):
                best, kind = point, name
    return kind


def skip(why):
    print("skipped:", why)
    sys.exit(SKIPPED)


def strace_or_skip():
    """strace, if it is there and the machine lets it inject."""
    program = shutil.which("strace")
    if not program:
        skip("strace is not installed")
    probe = subprocess.run(
        [program, "-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync",
         "-e", "inject=fsync:error=EIO", "true"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if probe.returncode:
        scope = "/proc/sys/kernel/yama/ptrace_scope"
        said = open(scope, encoding="ascii").read().strip() if os.path.exists(scope) else "absent"
        skip("strace cannot trace (yama ptrace_scope: %s): %s" % (said, probe.stdout.strip()))
    return program


class Outcome:
    def __init__(self, code, out, err, calls=()):
        self.code, self.out, self.err, self.calls = code, out, err, calls

    @property
    def state(self):
        found = re.search(r"^state ([0-9a-f]{64}) ", self.out, re.M)
        return found.group(1) if found else None

    def __str__(self):
        return "exit code %d\n%s%s" % (self.code, self.out, self.err)


class Call:
    """One line of strace: who, what, where in the order of that thread's calls of this name."""

    def __init__(self, thread, name, number, text):
        self.thread, self.name, self.number, self.text = thread, name, number, text
        self.injected = "(INJECTED)" in text


def read_trace(path):
    calls, counts = [], {}
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            found = re.match(r"(\d+)\s+(\w+)\(", line)
            if found:
                key = found.group(1), found.group(2)
                counts[key] = counts.get(key, 0) + 1
                calls.append(Call(*key, counts[key], line.rstrip("\n")))
            elif "(INJECTED)" in line and calls:
                calls[-1].injected = True
    return calls


class Bench:
    """A folder for state directories, the bundle and its data."""

    def __init__(self, run, bundle, folder):
        self.strace = None
        self.tool = os.path.realpath(run)
        self.bundle = os.path.realpath(bundle)
        self.folder = os.path.realpath(tempfile.mkdtemp(prefix="tessera-kernel-", dir=folder))
        write_npy(self.path("x.npy"), 64, 40, 1)
        write_npy(self.path("t.npy"), 64, 32, 2)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def train(self, state, steps=LAST_STEP, log=None, extra=()):
        """The command of a run that saves after every step."""
        command = [self.tool, self.bundle, "--data", "x=" + self.path("x.npy"),
                   "--data", "t=" + self.path("t.npy"), "--steps", str(steps), "--save-every", "1",
                   "--threads", "1", "--quiet", "--state-dir", state]
        if log:
            command += ["--store-log", log]
        return command + list(extra)

    def run(self, command, timeout=60):
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=timeout, check=False)
        return Outcome(done.returncode, done.stdout, done.stderr)

    def traced(self, command, names, rule=None, timeout=60):
        """The command under strace; `rule` is what strace injects, None: it only looks on."""
        trace = self.path("trace")
        # A signal is not injected where seccomp stops the call (strace 6.1); it is slower without.
        fast = [] if rule and "signal=" in rule else ["--seccomp-bpf"]
        done = self.run(
            [self.strace, "-f", "-y", "-qq", *fast, "-o", trace, "-e", "trace=" + ",".join(names)] +
            (["-e", "inject=" + rule] if rule else []) + command, timeout)
        done.calls = read_trace(trace)
        return done

    def fsck(self, state):
        return self.run([self.tool, "fsck", state])


def has_manifest(state):
    return os.path.isdir(state) and any(n.startswith("MANIFEST.") for n in os.listdir(state))


class Judge:
    """Recovers a state directory with undisturbed runs and collects what is wrong about it."""

    def __init__(self, bench):
        self.bench = bench
        self.reference = bench.path("whole.log")
        self.whole = bench.run(bench.train(bench.path("whole"), GOAL, self.reference))
        if self.whole.code or not self.whole.state:
            raise SystemExit("the undisturbed run fails: %s" % self.whole)

    def recover(self, state, log, lies=False, complete=True, unreadable=False):
        """`log` has the events of all that happened to the directory, if it is complete. Where the
        kernel lied about data, a generation may be damaged, which must be told; where nothing could
        be read, the disturbed run may have told damage that there is not."""
        wrong = []
        saved = max([event.generation for event in check.read_history([log]).of("ack")]
                    if os.path.exists(log) else [], default=0)
        before = self.bench.fsck(state) if has_manifest(state) else None
        if before and before.code and not lies:
            wrong.append("fsck before recovery: %s" % before)
        done = self.bench.run(self.bench.train(state, GOAL, log))
        if done.code:
            return wrong + ["recovery: %s" % done]
        alarm = "is damaged" in done.err or "is lost" in done.err
        if alarm and not lies:
            wrong.append("an alarm without damage: %s" % done.err)
        found = re.search(r"^resumed generation (\d+) ", done.out, re.M)
        resumed = int(found.group(1)) if found else 0
        if resumed < saved and not (alarm and resumed >= saved - 1):
            wrong.append("generation %d was acknowledged, recovery resumed from %d" %
                         (saved, resumed))
        if done.state != self.whole.state:
            wrong.append("the state after recovery is %s; undisturbed %s" %
                         (done.state, self.whole.state))
        again = self.bench.run(self.bench.train(state, GOAL, log))
        if again.code or again.state != self.whole.state:
            wrong.append("recovered once more: %s" % again)
        after = self.bench.fsck(state)
        if after.code and not lies:
            wrong.append("fsck after recovery: %s" % after)
        if complete:
            violations, _ = check.check([log], state, damage=lies or unreadable,
                                        reference=self.reference)
            wrong += ["%s: %s" % violation for violation in violations]
        return wrong
