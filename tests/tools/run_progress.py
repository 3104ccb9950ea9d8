# SPDX-License-Identifier: Apache-2.0
"""The progress line on a terminal: never wider than the window, also after the window was resized.

usage: run_progress.py TESSERA_RUN DIGITS.tsb SOURCE_ROOT
"""
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time

RUN, BUNDLE, ROOT = sys.argv[1:4]
DIGITS = os.path.join(ROOT, "examples/digits")
FRESH = 5  # lines to wait for after a change of the width


def resize(fd, columns):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))


class Terminal:
    """Runs a long training whose standard error is a terminal of some width."""

    def __init__(self, columns):
        self.master, slave = pty.openpty()
        resize(self.master, columns)
        command = [RUN, BUNDLE, "--steps", "100000000", "--threads", "1"]
        for name in ("images", "labels"):
            command += ["--data", f"{name}={DIGITS}/train-{name}.npy"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=slave)
        os.close(slave)
        self.text = b""

    def read_lines(self, count):
        """Returns the next `count` complete texts of the progress line."""
        start, deadline = len(self.text), time.monotonic() + 60
        while True:
            lines = self.text[start:].split(b"\r\x1b[K")[1:-1]
            if len(lines) >= count:
                return [line.decode() for line in lines]
            assert time.monotonic() < deadline, f"no progress: {self.text[-300:]}"
            if select.select([self.master], [], [], 1)[0]:
                self.text += os.read(self.master, 65536)

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        while self.process.poll() is None:
            if select.select([self.master], [], [], 0.1)[0]:
                try:
                    os.read(self.master, 65536)
                except OSError:
                    break
        assert self.process.wait() == 0, f"exit code {self.process.returncode}"
        os.close(self.master)


def main():
    checks = 0
    terminal = Terminal(120)
    for columns in (120, 36, 20, 120):
        resize(terminal.master, columns)
        terminal.read_lines(2)  # one may have been formatted for the width before
        lines = terminal.read_lines(FRESH)
        for line in lines:
            assert line.startswith("step "), f"{columns} columns: '{line}'"
            assert len(line) < columns, f"{columns} columns: '{line}' has {len(line)}"
            assert "\n" not in line, f"{columns} columns: '{line}' is not replaced"
            checks += 1
        if columns == 120:
            for part in ("  loss 0.", " samples/s  ETA "):
                assert part in lines[-1], f"no '{part}' in '{lines[-1]}'"
                checks += 1
    terminal.close()
    terminal = Terminal(0)  # a terminal that does not know its width
    for line in terminal.read_lines(FRESH):
        assert len(line) < 80, f"'{line}' has {len(line)} columns"
        checks += 1
    terminal.close()
    print(f"{checks} checks, 0 failed, 0 skipped")


main()
