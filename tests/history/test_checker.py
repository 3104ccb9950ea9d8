#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The checker accepts good histories, and refuses each hand-made violation with its invariant's name.

Every case is a good history of two ranks, two runs and a kill in between, changed in one way.
"""
import copy
import hashlib
import json
import os
import sys
import tempfile

import check

ZERO = "0" * 64


def digest(*what):
    return hashlib.sha256(repr(what).encode()).hexdigest()


def state_of(step):
    return digest("state", step)


def manifest_of(generation, epoch):
    return digest("manifest", generation, epoch)


class Log:
    """Writes events as the store does: numbered, with a clock."""

    def __init__(self):
        self.lines, self.clock, self.numbers = [], 1000, {}

    def add(self, who, pid, epoch, event, **members):
        self.clock += 1000
        number = self.numbers[who, pid] = self.numbers.get((who, pid), 0) + 1
        self.lines.append({"seq": number, "ns": self.clock, "who": who, "pid": pid, "epoch": epoch,
                           "event": event, **members})

    def world(self, event, **members):
        self.lines.append({"who": "world", "event": event, **members})


class Run:
    """A coordinator and two ranks of one epoch."""

    def __init__(self, log, epoch):
        self.log, self.epoch, self.pid = log, epoch, 100 * epoch
        self.head, self.good = (0, 0), []

    def lead(self, event, **members):
        self._add("coordinator", self.pid, 0 if event == "open" else self.epoch, event, members)

    def rank(self, rank, event, **members):
        self._add("rank %d" % rank, self.pid + 1 + rank, self.epoch, event, members)

    def _add(self, who, pid, epoch, event, members):
        """What a generation's events have in common is added."""
        if "generation" in members:
            members = {"of": epoch, "manifest": ZERO, **members}
            if event not in ("prepare", "segment", "prepared") and members["generation"]:
                members["manifest"] = manifest_of(members["generation"], members["of"])
        self.log.add(who, pid, epoch, event, **members)

    def verify(self, generation, of, purpose):
        for rank in range(2):
            self.rank(rank, "verdict", generation=generation, of=of, purpose=purpose, verdict="good",
                      first=3 * rank, chunks=3)
        self.lead("verified", generation=generation, of=of, manifest=manifest_of(generation, of),
                  purpose=purpose, bytes=96)

    def begin(self, generation=0, of=0, step=0, damaged=()):
        self.lead("open", ranks=2, keep=2, mode="auto", text="s")
        self.lead("epoch")
        for key in damaged:
            self.lead("candidate", generation=key[0], of=key[1], manifest=manifest_of(*key))
            self.lead("damaged", generation=key[0], of=key[1], text="a chunk")
        named = {"generation": generation, "of": of,
                 "manifest": manifest_of(generation, of) if generation else ZERO}
        state = state_of(step) if generation else ZERO
        if generation:
            self.lead("candidate", **named)
            self.verify(generation, of, "recover")
        self.lead("recover", **named, state=state, step=step, damaged=len(damaged), uncommitted=0)
        self.lead("base", **named)
        for rank in range(2):
            self.rank(rank, "agreed", **named)
            if generation:
                self.rank(rank, "load", generation=generation, of=of, state=state)
        if generation:
            self.good.append((generation, of))
        self.head = generation, of

    def save(self, generation, step, acknowledge=True):
        self.lead("prepare", generation=generation, step=step)
        for rank in range(2):
            self.rank(rank, "segment", generation=generation, segment=rank, bytes=48)
            self.lead("prepared", generation=generation, rank=rank, bytes=48)
        self.lead("publish", generation=generation, step=step, state=state_of(step),
                  manifest=manifest_of(generation, self.epoch), token=digest("token", generation),
                  previous=self.head[0], previous_of=self.head[1],
                  previous_manifest=manifest_of(*self.head) if self.head[0] else ZERO, bytes=700)
        if not acknowledge:
            return
        self.lead("ack", generation=generation, manifest=manifest_of(generation, self.epoch))
        for rank in range(2):
            self.rank(rank, "committed", generation=generation,
                      manifest=manifest_of(generation, self.epoch))
        self.head = generation, self.epoch
        self.verify(generation, self.epoch, "read-back")
        self.good = (self.good + [self.head])[-2:]
        self.collect()

    def collect(self):
        """Removes what lies below the good ones, once there are two of them."""
        names = ["MANIFEST.%d.%d" % key for key in self.present() if key not in self.good]
        if len(self.good) < 2 or not names:
            return
        self.lead("collect", good=2, oldest=self.good[0][0])
        for name in names:
            self.lead("unlink", name=name)
        self.lead("unlinked", durable=True)
        for name in names:
            _, number, epoch = name.split(".")
            self.lead("sweep", name="%s-%s" % (epoch, number))

    def present(self):
        found = []
        for line in self.log.lines:
            if line["event"] == "ack":
                found.append((line["generation"], line["epoch"]))
            elif line["event"] == "unlink" and line["name"].startswith("MANIFEST."):
                _, number, epoch = line["name"].split(".")
                found.remove((int(number), int(epoch)))
        return found


def good_history():
    """Three saves, killed in the fourth, resumed from the third, two more saves."""
    log = Log()
    first = Run(log, 1)
    first.begin()
    for step in (10, 20, 30):
        first.save(step // 10, step)
    first.save(4, 40, acknowledge=False)
    second = Run(log, 2)
    second.begin(3, 1, 30)
    for step in (40, 50):
        second.save(step // 10 + 1, step)
    second.lead("close", committed=2)
    return log.lines


def fallen_back(world):
    """The newest generation is damaged while nothing runs; the second run resumes from the one
    before."""
    log = Log()
    first = Run(log, 1)
    first.begin()
    for step in (10, 20, 30):
        first.save(step // 10, step)
    if world:
        log.world("damage", generation=3, of=1)
    second = Run(log, 2)
    second.begin(2, 1, 20, damaged=[(3, 1)])
    second.save(4, 30)
    return log.lines


def published_meanwhile():
    """The second run lists the directory; then the first, which it has replaced, publishes, and is fenced; then
    the second tells its choice, and a third resumes from what was published."""
    log = Log()
    first = Run(log, 1)
    first.begin()
    for step in (10, 20, 30):
        first.save(step // 10, step)
    second = Run(log, 2)
    second.begin(3, 1, 30)
    at = find(log.lines, "candidate", 2)
    chosen = log.lines[at:]
    del log.lines[at:]
    first.save(4, 40, acknowledge=False)
    log.lines.extend(chosen)
    Run(log, 3).begin(4, 1, 40)
    renumber(log.lines)
    return log.lines


# How a history is changed. Each finds its lines by what they say.

def find(lines, event, epoch=None, skip=0, **members):
    for index, line in enumerate(lines):
        if line["event"] == event and (epoch is None or line.get("epoch") == epoch) and \
                all(line.get(key) == value for key, value in members.items()):
            if not skip:
                return index
            skip -= 1
    raise LookupError(event)


def completed(line):
    return {"of": line["epoch"], "manifest": ZERO, **line} if "generation" in line else line


def change(event, epoch=None, skip=0, where=None, **members):
    def apply(lines):
        lines[find(lines, event, epoch, skip, **(where or {}))].update(members)
    return apply


def remove(event, epoch=None, skip=0, **members):
    def apply(lines):
        del lines[find(lines, event, epoch, skip, **members)]
    return apply


def insert_after(event, new, epoch=None, skip=0, **members):
    def apply(lines):
        at = find(lines, event, epoch, skip, **members)
        lines.insert(at + 1, completed({"who": lines[at]["who"], "pid": lines[at]["pid"],
                                        "epoch": lines[at]["epoch"], **new}))
    return apply


def append(epoch, **new):
    def apply(lines):
        lines.append(completed({"who": "coordinator", "pid": 100 * epoch, "epoch": epoch, **new}))
    return apply


def all_of(*changes):
    def apply(lines):
        for one in changes:
            one(lines)
    return apply


def recover_other(generation, of, step):
    """The second run resumes from another generation, and says so consistently."""
    def apply(lines):
        at = find(lines, "recover", 2)
        named = {"generation": generation, "of": of,
                 "manifest": manifest_of(generation, of) if generation else ZERO}
        state = state_of(step) if generation else ZERO
        for line in lines[find(lines, "open", skip=1):]:
            if line["event"] in ("candidate", "verified", "base", "agreed", "verdict", "load") and \
                    line.get("purpose", "recover") == "recover":
                line.update({key: named[key] for key in named if key in line})
                if line["event"] == "load":
                    line["state"] = state
        lines[at].update(**named, state=state, step=step)
        lines[find(lines, "publish", 2)].update(previous=generation, previous_of=of)
    return apply


ACK_OF_FIRST = {"event": "ack", "generation": 4, "manifest": manifest_of(4, 1)}
REFUSED = [
    # (invariant, what is wrong, how)
    ("I1", "before rank [1] was prepared", remove("prepared", 1, 3)),
    ("I1", "never published", all_of(remove("publish", 2), change("publish", 2, previous=3,
                                                                  previous_of=1))),
    ("I1", "after it had failed", insert_after(
        "publish", {"event": "abort", "generation": 5, "code": 7, "errno": 5, "text": ""}, 2)),
    ("I1", "another manifest than the one published", change("ack", 2, manifest=digest("other"))),
    ("I1", "taken for prepared with 48", change("segment", 1, where={"generation": 2}, bytes=47)),
    ("I1", "generation 3 of epoch 1 was acknowledged", recover_other(2, 1, 20)),
    ("I1", "resumed from generation 0", recover_other(0, 0, 0)),
    ("I2", "not what was published", change("recover", 2, state=digest("mix"))),
    ("I2", "the run chose (3, 1)", change("agreed", 2, 1, generation=2)),
    ("I2", "another than the one chosen", change("load", 2, 1, state=digest("mix"))),
    ("I2", "another manifest than the one chosen", change("base", 2, manifest=digest("other"))),
    ("I2", "with two manifests", insert_after(
        "publish", {"event": "publish", "generation": 2, "step": 20, "manifest": digest("second"),
                    "state": state_of(20), "token": ZERO, "previous": 1, "previous_of": 1,
                    "previous_manifest": manifest_of(1, 1), "bytes": 1}, 1, 1)),
    ("I2", "a rank heard of another manifest", change("committed", 2, manifest=digest("other"))),
    ("I3", "went back to generation 2", all_of(
        remove("ack", 1, generation=3), recover_other(2, 1, 20),
        lambda lines: lines.extend(third_run(3, 1, 30)),
        lambda lines: lines.extend(third_run(2, 1, 20, epoch=4)))),
    ("I3", "generation 3 after 3", change("publish", 2, generation=3)),
    ("I3", "resumes from generation 2", change("publish", 2, previous=2)),
    ("I3", "while the last outcome is unknown", insert_after(
        "publish", {"event": "unknown", "generation": 4, "text": ""}, 1, 2)),
    ("I3", "was not damaged", insert_after(
        "epoch", {"event": "damaged", "generation": 4, "of": 1, "text": "gone"}, 2)),
    ("I4", "had gone on without it", append(1, **ACK_OF_FIRST)),
    ("I4", "it commits for epoch 1", change("ack", 2, of=1)),
    ("I4", "after it was fenced", all_of(
        append(1, event="fence", generation=4, highest=2, text=""),
        append(1, event="unlink", name="MANIFEST.2.1"))),
    ("I4", "the epoch was taken", lambda lines: lines[find(lines, "epoch", 2)].update(epoch=1)),
    ("I4", "is of a run that took over", append(1, event="sweep", name="2-6")),
    ("I4", "is of a run that took over", append(1, event="unlink", name="MANIFEST.6.2")),
    ("I5", "without being verified", remove("verified", 2)),
    ("I5", "1 of 2 ranks", change("verdict", 2, 1, verdict="damaged")),
    ("I5", "1 of 2 ranks", remove("verdict", 2)),
    ("I5", "nobody verified the chunks from 3 to 4", change("verdict", 2, 1, first=4)),
    ("I5", "it was damaged and is gone on from", lambda lines: lines.insert(
        find(lines, "open", skip=1),
        {"who": "world", "event": "damage", "generation": 3, "of": 1})),
    ("I6", "with nothing published in between", lambda lines: lines.extend(
        third_run(6, 2, 50) + third_run(5, 2, 40, epoch=4))),
    ("I7", "is removed while 1", change("collect", 1, oldest=3)),
    ("I7", "counts among those that stay", change("collect", 1, oldest=1)),
    ("I7", "2 generations count as good and 1 were verified", all_of(
        remove("verified", 1, purpose="read-back", generation=3))),
    ("I7", "is removed while 0", lambda lines: lines.insert(
        find(lines, "collect", 1), lines.pop(find(lines, "unlink", 1)))),
    ("I7", "is removed before MANIFEST.2.1", insert_after(
        "unlink", {"event": "unlink", "name": "BASE.1"}, 1)),
    ("I7", "before its manifest is gone for good", change("unlinked", 1, durable=False)),
    ("I7", "before its manifest is gone for good", insert_after(
        "ack", {"event": "sweep", "name": "1-2"}, 1, 1)),
    ("I8", "was tried 2 times", insert_after(
        "epoch", {"event": "candidate", "generation": 3, "of": 1, "manifest": manifest_of(3, 1)}, 2)),
    ("I8", "recovery took", lambda lines: late(lines, find(lines, "base", 2))),
    ("I8", "before recovery had ended", lambda lines: lines.append(
        lines.pop(find(lines, "base", 2)))),
    ("I9", "the state of step 40", change("publish", 2, state=digest("diverged"))),
    ("log", "without 'manifest'", lambda lines: lines[find(lines, "ack")].pop("manifest")),
    ("log", "unknown event", lambda lines: lines[find(lines, "ack")].update(event="nack")),
    ("log", "unknown members", lambda lines: lines[find(lines, "ack")].update(more=1)),
    ("log", "is not a hash", change("ack", manifest="0")),
]
# Here the numbers of lines are what is wrong.
UNNUMBERED = [
    ("log", "after", remove("prepare", 1, 1)),
    ("log", "its clock goes back", change("ack", 1, ns=1)),
]


def third_run(generation, of, step, epoch=3):
    log = Log()
    Run(log, epoch).begin(generation, of, step)
    return log.lines


def late(lines, at):
    for line in lines[at:]:
        line["ns"] = line.get("ns", 0) + 61 * 10**9


def renumber(lines):
    """Sequence and clock as if the changed lines had been written so."""
    numbers, clock = {}, 0
    for line in lines:
        if line["who"] == "world":
            continue
        key = line["who"], line["pid"]
        numbers[key] = numbers.get(key, 0) + 1
        line["seq"] = numbers[key]
        clock = line["ns"] = max(clock + 1, line.get("ns", 0) if line.get("ns", 0) > 10**9 else 0)


def check_lines(lines, tail=b"", **options):
    with tempfile.NamedTemporaryFile("wb", suffix=".log", delete=False) as file:
        for line in lines:
            file.write(json.dumps(line).encode() + b"\n")
        file.write(tail)
    try:
        return check.check([file.name], **options)[0]
    finally:
        os.unlink(file.name)


def main():
    failures = []

    def expect_good(what, lines, **options):
        found = check_lines(lines, **options)
        if found:
            failures.append("%s: %s" % (what, found))

    expect_good("a good history", good_history())
    expect_good("a line cut off at the end", good_history(), tail=b'{"seq":99,"ns"')
    expect_good("damage that the world told", fallen_back(True))
    expect_good("damage that is allowed", fallen_back(False), damage=True)
    expect_good("published after another had listed", published_meanwhile())
    for invariant, text, apply in REFUSED + UNNUMBERED:
        lines = copy.deepcopy(good_history())
        apply(lines)
        if (invariant, text, apply) in REFUSED:
            renumber(lines)
        found = check_lines(lines)
        if not any(name == invariant and text in said for name, said in found):
            failures.append("%s, %s: found %s" % (invariant, text, found))
    for name, text in (("I1", "generation 3 of epoch 1 was acknowledged"),
                       ("I3", "was not damaged")):
        if not any(n == name and text in t for n, t in check_lines(fallen_back(False))):
            failures.append("an alarm without damage: no %s" % name)
    reference = [line for line in good_history() if line["epoch"] < 2]
    for line in reference:
        line.update({"state": digest("else")} if line.get("step") == 20 and
                    line["event"] == "publish" else {})
    with tempfile.NamedTemporaryFile("w", suffix=".log") as file:
        file.write("".join(json.dumps(line) + "\n" for line in reference))
        file.flush()
        found = check_lines(good_history(), reference=file.name)
        if [name for name, _ in found] != ["I9"]:
            failures.append("another reference: %s" % found)
    covered = {invariant for invariant, _, _ in REFUSED}
    for number in range(1, 10):
        if "I%d" % number not in covered:
            failures.append("no case for I%d" % number)
    for text in failures:
        print("FAILED:", text)
    print("%d good histories, %d violations, %d failed" %
          (5, len(REFUSED) + len(UNNUMBERED) + 3, len(failures)))
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
