# SPDX-License-Identifier: Apache-2.0
"""Event logs of the state store (docs/state-store.md, "Event log") as a history: every line with its
position in the order of all, and every coordinator or rank that wrote some of them.

Lines of one file are in the order in which they were written; several files follow each other. A
harness may add lines of its own, `"who":"world"`: `kill` and `power` (a process or all of them
died), `damage` (`generation`, `of`: bytes of it were changed on the medium), `dropped` (a sync failed
and will never be made up for: names that were removed may come back).
"""
import json

# Members of each event beside those common to all; LINK names a generation.
LINK = {"generation": int, "of": int, "manifest": str}
MEMBERS = {
    "open": {"ranks": int, "keep": int, "mode": str, "text": str},
    "epoch": {},
    "uncommitted": LINK,
    "damaged": {**LINK, "text": str},
    "candidate": LINK,
    "verified": {**LINK, "purpose": str, "bytes": int},
    "recover": {**LINK, "state": str, "step": int, "damaged": int, "uncommitted": int},
    "base": LINK,
    "refuse": {"code": int, "text": str},
    "prepare": {**LINK, "step": int},
    "segment": {**LINK, "segment": int, "bytes": int},
    "prepared": {**LINK, "rank": int, "bytes": int},
    "publish": {**LINK, "step": int, "state": str, "token": str, "previous": int,
                "previous_of": int, "previous_manifest": str, "bytes": int},
    "ack": LINK,
    "abort": {**LINK, "code": int, "errno": int, "text": str},
    "unknown": {**LINK, "text": str},
    "fence": {**LINK, "highest": int, "text": str},
    "collect": {"good": int, "oldest": int},
    "unlink": {"name": str},
    "unlinked": {"durable": bool},
    "sweep": {"name": str},
    "verdict": {**LINK, "purpose": str, "verdict": str, "first": int, "chunks": int},
    "agreed": LINK,
    "committed": LINK,
    "load": {**LINK, "state": str},
    "close": {"committed": int},
}
COMMON = {"seq": int, "ns": int, "who": str, "pid": int, "epoch": int, "event": str}
WORLD = {"kill", "power", "damage", "dropped"}
HASHES = {"manifest", "state", "token", "previous_manifest"}


class Event:
    """A line. Its members are attributes; `at` is its position in the history."""

    def __init__(self, at, where, members):
        self.at, self.where, self.author = at, where, None
        self.__dict__.update(members)

    def __str__(self):
        return "%s: %s of epoch %d" % (self.where, self.event, getattr(self, "epoch", 0))


class Author:
    """One coordinator or rank, from its first line to its last."""

    def __init__(self, who, pid):
        self.who, self.pid, self.events = who, pid, []
        self.leads = who == "coordinator"

    @property
    def epoch(self):
        return self.events[-1].epoch

    def all(self, *names):
        return [event for event in self.events if event.event in names]

    def first(self, name):
        return next((event for event in self.events if event.event == name), None)


class History:
    def __init__(self):
        self.events, self.authors, self.complaints = [], [], []
        self.world = False  # a harness told what it did
        self.dropped = False  # a sync failed, and what it should have written is lost
        self.damage = {}  # (generation, epoch): position where it was damaged first
        self._open, self._named = {}, {}

    def read(self, path):
        with open(path, "rb") as file:
            lines = file.read().split(b"\n")
        tail = lines.pop()
        for number, line in enumerate(lines, 1):
            self._add("%s:%d" % (path, number), line)
        if tail and self._parse(tail) is not None:  # whole, but for its newline
            self._add("%s:%d" % (path, len(lines) + 1), tail)
        # A file ends where its processes ended.
        self._open = {}

    @staticmethod
    def _parse(line):
        try:
            value = json.loads(line)
        except ValueError:
            return None
        return value if isinstance(value, dict) else None

    def _add(self, where, line):
        members = self._parse(line)
        if members is None:
            # A process that was killed leaves at most its last line cut off; another may append to it.
            self.complaints.append(("log", "%s: not a JSON object: %r" % (where, line[:80])))
            return
        if members.get("who") == "world":
            self._add_world(where, members)
            return
        wrong = self._check_members(members)
        if wrong:
            self.complaints.append(("log", "%s: %s" % (where, wrong)))
            return
        event = Event(len(self.events), where, members)
        self.events.append(event)
        self._named.setdefault(event.event, []).append(event)
        self._assign(event)

    def _add_world(self, where, members):
        self.world = True
        if members.get("event") not in WORLD:
            self.complaints.append(("log", "%s: unknown event of the world" % where))
        elif members["event"] == "dropped":
            self.dropped = True
        elif members["event"] == "damage":
            key = members["generation"], members["of"]
            self.damage.setdefault(key, len(self.events))

    @staticmethod
    def _check_members(members):
        name = members.get("event")
        if name not in MEMBERS:
            return "unknown event %r" % (name,)
        expected = {**COMMON, **MEMBERS[name]}
        for key, kind in expected.items():
            if key not in members:
                return "%s without '%s'" % (name, key)
            value = members[key]
            if not isinstance(value, kind) or (kind is int and
                                               (isinstance(value, bool) or value < 0)):
                return "%s: '%s' is %r" % (name, key, value)
            if key in HASHES and (len(value) != 64 or set(value) - set("0123456789abcdef")):
                return "%s: '%s' is not a hash" % (name, key)
        extra = set(members) - set(expected)
        return "%s with unknown members %s" % (name, sorted(extra)) if extra else None

    def _assign(self, event):
        key = event.pid, event.who
        author = self._open.get(key)
        if event.seq == 1 or author is None:
            author = Author(event.who, event.pid)
            self._open[key] = author
            self.authors.append(author)
            if event.seq != 1:
                self.complaints.append(("log", "%s: begins with seq %d" % (event, event.seq)))
        else:
            last = author.events[-1]
            if event.seq != last.seq + 1:
                self.complaints.append(("log", "%s: seq %d after %d" % (event, event.seq, last.seq)))
            if event.ns < last.ns:
                self.complaints.append(("log", "%s: its clock goes back" % event))
        author.events.append(event)
        event.author = author

    def of(self, *names):
        """In order."""
        if len(names) == 1:
            return self._named.get(names[0], [])
        return sorted((event for name in names for event in self._named.get(name, [])),
                      key=lambda event: event.at)

    @property
    def coordinators(self):
        return [author for author in self.authors if author.leads]
