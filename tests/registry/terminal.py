# SPDX-License-Identifier: Apache-2.0
"""Checks the output of a command on a terminal.

usage: terminal.py COLUMNS CODE WHAT COMMAND…

Runs COMMAND on a pseudo-terminal of that width, interprets its output like a terminal (carriage return, new
line, erase to the end of the line, wrap after the last column), and checks each state of the progress bar:
the words WHAT, share, bytes, rate, time left, in one row; the share never falls, the numbers agree. Prints
the rates of the later half, and then the final contents of the screen, with `|` before each row.
"""
import fcntl
import os
import re
import struct
import subprocess
import sys
import termios

UNITS = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}
SIZE = r"(\d+(?:\.\d)?) (B|kB|MB|GB)"
BAR = re.compile(rf"(\w+) *(\[=*>? *\] +)?(\d+) %  {SIZE} of {SIZE}  {SIZE}/s(?:  (\d+):(\d\d):(\d\d) left)?")


def run(columns, command):
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=slave, stderr=slave) as process:
        os.close(slave)
        out = b""
        while True:
            try:
                piece = os.read(master, 65536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            out += piece
    return process.returncode, out.decode()


def screen(columns, text):
    """Returns the final rows, and (row, text) of each erased state: those of the bar."""
    rows, row, column, frames = [[]], 0, 0, []
    for part in re.findall(r"\033\[K|[^\033]|\033", text):
        if part == "\r":
            column = 0
        elif part == "\n":
            row += 1
        elif part == "\033[K":
            del rows[row][column:]
            frames.append((row, "".join(rows[row]).rstrip()))
        else:
            assert part.isprintable(), repr(part)
            if column == columns:
                row, column = row + 1, 0
            rows += [[] for _ in range(row + 1 - len(rows))]
            rows[row] += " " * (column + 1 - len(rows[row]))
            rows[row][column] = part
            column += 1
        rows += [[] for _ in range(row + 1 - len(rows))]
    return ["".join(r).rstrip() for r in rows], frames


def check(columns, what, frames):
    """The displayed rates, of the states that show the time left."""
    share, rates = 0, []
    for row, text in frames:
        if not text:
            continue
        assert row == 0, f"row {row}: {text!r}"
        assert len(text) < columns, (len(text), text)
        found = BAR.fullmatch(text)
        if not found:  # truncated at the right
            assert len(text) >= columns - 2 and text.startswith(what), text
            continue
        name, _, percent, *numbers = found.groups()
        assert name in (what, "check"), text
        if name != what:
            continue
        done, total, rate = (float(n) * UNITS[u] for n, u in zip(numbers[:6:2], numbers[1:6:2]))
        assert int(percent) >= share, text
        share = int(percent)
        rounding = 0.05 * (UNITS[numbers[1]] + UNITS[numbers[3]])
        assert abs(share - 100 * done / total) <= 0.6 + 100 * rounding / total, text
        if numbers[6] and rate:
            left = int(numbers[6]) * 3600 + int(numbers[7]) * 60 + int(numbers[8])
            assert abs(left - (total - done) / rate) <= 1 + 0.1 * left, text
            rates.append(rate)
    return rates


def main():
    columns, code, what, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:]
    got, text = run(columns, command)
    assert got == code, (got, text)
    rows, frames = screen(columns, text)
    rates = check(columns, what, frames)
    later = rates[len(rates) // 2:]
    print("states", len(frames), "bars", sum("[" in t for _, t in frames), "rate",
          int(sum(later) / len(later)) if later else 0)
    for row in rows:
        if row:
            print("|" + row)


main()
