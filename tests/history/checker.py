# SPDX-License-Identifier: Apache-2.0
"""The invariants of the state store (docs/state-store.md), decided from a history of its events and,
where there is one, from the listing of its directory afterwards.

A generation is named by its number and the epoch that wrote it, (generation, epoch). Each `publish`
names the generation it resumes from, so what a run resumed from has a *lineage*: itself, what it went
on from, and so on. Most invariants say that something is, or is not, in a lineage.

What proves what:
  I1  `ack` against the lineage of every later `recover`, against the listing; `prepared`, `segment`
      and `publish` before `ack`
  I2  `recover`, `base`, `agreed` and `load` of one epoch against each other and against `publish`
  I3  `recover` against those before; numbers and links of `publish`; alarms (`damaged`) without damage
  I4  `ack`, `publish`, `unlink`, `sweep` after `fence`; `ack` after a higher epoch recovered without it
  I5  `verified` and the ranks' `verdict` before `recover`; a generation known as damaged gone on from
  I6  two `recover` with nothing published in between
  I7  `unlink` and `sweep` against `collect`, `verified` and `ack`
  I8  `candidate` once each; the time from `open` to `base`
  I9  the state hash of `publish` and `recover` as a function of the step, in all runs and a reference
"""
NOTHING = (0, 0)


def named(event):
    return event.generation, event.of


class Checker:
    def __init__(self, history, damage_allowed=False, recovery_seconds=60, reference=None,
                 listing=None):
        self.history, self.reference, self.listing = history, reference, listing
        self.damage_allowed, self.recovery_seconds = damage_allowed, recovery_seconds
        self.violations = list(history.complaints)
        self.published, self.acked, self.alarms = {}, {}, {}
        for event in history.of("publish"):
            self.published.setdefault(named(event), event)
        for event in history.of("ack"):
            self.acked.setdefault(named(event), event)
        for event in history.of("damaged"):
            self.alarms.setdefault(named(event), event.at)
        self.ranks = {author.who for author in history.authors if not author.leads}
        self.segments, self.verdicts = {}, {}
        for event in history.of("segment"):
            self.segments.setdefault((event.who, named(event)), []).append(event)
        for event in history.of("verdict"):
            if event.purpose == "recover":
                self.verdicts.setdefault((event.epoch, named(event)), []).append(event)

    def wrong(self, invariant, text):
        self.violations.append((invariant, text))

    def check(self):
        for check in (self.i1_order, self.i1_lineage, self.i1_listing, self.i2, self.i3_lineage,
                      self.i3_numbers, self.i3_alarms, self.i4, self.i5, self.i6, self.i7_unlink,
                      self.i7_sweep, self.i8, self.i9):
            check()
        return self.violations

    # What all of them ask.

    def lineage(self, key):
        found = set()
        while key != NOTHING and key not in found:
            found.add(key)
            event = self.published.get(key)
            key = (event.previous, event.previous_of) if event else NOTHING
        return found

    def damaged(self, key, before):
        """Was it damaged, as far as is known, at that point of the history?"""
        known = self.history.damage if self.history.world else self.alarms
        return (self.history.world or self.damage_allowed) and known.get(key, before + 1) <= before

    @staticmethod
    def retained_of(author):
        opened = author.first("open")
        return opened.keep if opened else 2

    def recoveries(self):
        """(recover event, was its BASE published?) in the order of epochs."""
        found = []
        for author in self.history.coordinators:
            event = author.first("recover")
            if event:
                found.append((event, author.first("base") is not None))
        return sorted(found, key=lambda row: row[0].epoch)

    # I1: an acknowledged generation survives any crash.

    def i1_order(self):
        for author in self.history.coordinators:
            opened = author.first("open")
            ranks = set(range(opened.ranks)) if opened else {0}
            about = {}
            for event in author.events:
                about.setdefault(getattr(event, "generation", None), []).append(event)
            for ack in author.all("ack"):
                earlier = [e for e in about.get(ack.generation, []) if e.at < ack.at]
                names = {e.event for e in earlier}
                missing = ranks - {e.rank for e in earlier if e.event == "prepared"}
                if missing:
                    self.wrong("I1", "%s: acknowledged before rank %s was prepared" %
                               (ack, sorted(missing)))
                if not {"prepare", "publish"} <= names:
                    self.wrong("I1", "%s: acknowledged and never published" % ack)
                if names & {"abort", "unknown"}:
                    self.wrong("I1", "%s: acknowledged after it had failed" % ack)
                published = self.published.get(named(ack))
                if published and published.manifest != ack.manifest:
                    self.wrong("I1", "%s: another manifest than the one published" % ack)
                self._durable_segments(ack, [e for e in earlier if e.event == "prepared"])

    def _durable_segments(self, ack, prepared):
        for event in prepared:
            who = "rank %d" % event.rank
            if who not in self.ranks:
                continue  # its log was not given
            sizes = {e.segment: e.bytes for e in self.segments.get((who, named(ack)), [])
                     if e.at < event.at}
            if sum(sizes.values()) != event.bytes:
                self.wrong("I1", "%s: %s has %d bytes durable; it was taken for prepared with %d" %
                           (ack, who, sum(sizes.values()), event.bytes))

    def i1_lineage(self):
        for recover, _ in self.recoveries():
            lineage = self.lineage(named(recover))
            for key, ack in self.acked.items():
                if key[1] >= recover.epoch or key in lineage or self.damaged(key, recover.at):
                    continue
                if ack.at < recover.at:
                    self.wrong("I1", "%s resumed from generation %d of epoch %d; generation %d of "
                               "epoch %d was acknowledged" % (recover, *named(recover), *key))
                else:
                    self.wrong("I4", "%s: a run of epoch %d had gone on without it" %
                               (ack, recover.epoch))

    def i1_listing(self):
        if self.listing is None:
            return
        unlinked = {e.name for e in self.history.of("unlink")}
        swept = {e.name for e in self.history.of("sweep")}
        end = len(self.history.events) + 1
        for key in self.acked:
            record, folder = "MANIFEST.%d.%d" % key, "%d-%d" % (key[1], key[0])
            if self.damaged(key, end):
                continue
            if record not in unlinked and record not in self.listing.names:
                self.wrong("I1", "%s was acknowledged and is missing" % record)
            if folder not in swept and folder not in self.listing.folders:
                self.wrong("I1", "gen/%s was acknowledged and is missing" % folder)
            found = self.listing.manifests.get(key)
            if found and self.acked[key].manifest != found:
                self.wrong("I1", "%s has the hash %s; %s was acknowledged" %
                           (record, found, self.acked[key].manifest))
        for key, text in self.listing.damage.items():
            if key in self.acked and not self.damaged(key, end):
                self.wrong("I1", "generation %d of epoch %d was acknowledged: %s" % (*key, text))

    # I2: what is recovered is exactly one generation, never a mix.

    def i2(self):
        for event in self.history.of("publish"):
            if self.published[named(event)].manifest != event.manifest:
                self.wrong("I2", "%s: generation %d was published with two manifests" %
                           (event, event.generation))
        chosen = {}
        for recover, _ in self.recoveries():
            chosen[recover.epoch] = recover
            published = self.published.get(named(recover))
            if published and (published.manifest, published.state, published.step) != \
                    (recover.manifest, recover.state, recover.step):
                self.wrong("I2", "%s: not what was published as generation %d of epoch %d" %
                           (recover, *named(recover)))
        for event in self.history.of("base", "agreed", "load"):
            recover = chosen.get(event.epoch)
            if recover is None or named(event) != named(recover):
                self.wrong("I2", "%s: generation %d of epoch %d; the run chose %s" %
                           (event, *named(event), named(recover) if recover else "none"))
            elif event.event == "load" and event.state != recover.state:
                self.wrong("I2", "%s: the state loaded is another than the one chosen" % event)
            elif event.event != "load" and event.manifest != recover.manifest:
                self.wrong("I2", "%s: another manifest than the one chosen" % event)
        for event in self.history.of("committed"):
            published = self.published.get(named(event))
            if published is None or published.manifest != event.manifest:
                self.wrong("I2", "%s: a rank heard of another manifest than was published" % event)

    # I3: generations do not go back without damage to the medium.

    def i3_lineage(self):
        before = []
        for recover, based in self.recoveries():
            lineage = self.lineage(named(recover))
            for key, event in before:
                if key not in lineage and not self.damaged(key, recover.at):
                    self.wrong("I3", "%s went back to generation %d of epoch %d; %s had gone on from "
                               "generation %d of epoch %d" % (recover, *named(recover), event, *key))
            if based and named(recover) != NOTHING:
                before.append((named(recover), recover))

    def i3_numbers(self):
        for author in self.history.coordinators:
            recover = author.first("recover")
            head = named(recover) if recover else NOTHING
            highest, unknown = head[0], False
            for event in author.all("publish", "ack", "unknown"):
                if event.event == "unknown":
                    unknown = True
                elif event.event == "ack":
                    head = named(event)
                else:
                    if unknown:
                        self.wrong("I3", "%s: published while the last outcome is unknown" % event)
                    if event.generation <= highest:
                        self.wrong("I3", "%s: generation %d after %d" %
                                   (event, event.generation, highest))
                    if (event.previous, event.previous_of) != head:
                        self.wrong("I3", "%s: resumes from generation %d of epoch %d; expected %d of "
                                   "%d" % (event, event.previous, event.previous_of, *head))
                    highest = max(highest, event.generation)

    def i3_alarms(self):
        for event in self.history.of("damaged"):
            # A manifest that comes back may find its BASE gone: said, and harmless.
            if event.generation == 0 and self.history.dropped:
                continue
            if not self.damaged(named(event), event.at):
                self.wrong("I3", "%s: generation %d of epoch %d was not damaged (%s)" %
                           (event, *named(event), event.text))

    # I4: a fenced writer never commits.

    def i4(self):
        taken = {}
        for event in self.history.of("epoch"):
            other = taken.setdefault(event.epoch, event)
            if other is not event:
                self.wrong("I4", "%s: the epoch was taken at %s" % (event, other.where))
        for author in self.history.coordinators:
            fence = author.first("fence")
            for event in author.all("prepare", "publish", "ack"):
                if event.of != event.epoch:
                    self.wrong("I4", "%s: it commits for epoch %d" % (event, event.of))
            for event in author.all("publish", "ack", "unlink", "sweep"):
                if fence and event.at > fence.at:
                    self.wrong("I4", "%s: after it was fenced" % event)
                if event.event in ("unlink", "sweep") and epoch_of(event.name) > event.epoch:
                    self.wrong("I4", "%s: '%s' is of a run that took over" % (event, event.name))

    # I5: a flipped byte is found before it is used.

    def i5(self):
        for author in self.history.coordinators:
            recover, opened = author.first("recover"), author.first("open")
            if recover is None or named(recover) == NOTHING:
                continue
            key = named(recover)
            verified = [e for e in author.all("verified")
                        if named(e) == key and e.purpose == "recover" and e.at < recover.at]
            if not verified:
                self.wrong("I5", "%s: gone on from without being verified" % recover)
                continue
            asked = next((e.at for e in author.all("candidate") if named(e) == key), 0)
            if self.history.damage.get(key, asked + 1) <= asked:
                self.wrong("I5", "%s: it was damaged and is gone on from" % recover)
            self._verdicts(recover, verified[-1], opened.ranks if opened else 1)

    def _verdicts(self, recover, verified, ranks):
        verdicts = {event.who: event
                    for event in self.verdicts.get((recover.epoch, named(recover)), [])
                    if event.at < verified.at}
        if not self.ranks:
            return  # their logs were not given
        if len(verdicts) < ranks or any(e.verdict != "good" for e in verdicts.values()):
            self.wrong("I5", "%s: %d of %d ranks found it good" % (
                recover, sum(e.verdict == "good" for e in verdicts.values()), ranks))
            return
        end = 0
        for event in sorted(verdicts.values(), key=lambda e: (e.first, e.first + e.chunks)):
            if event.first != end:
                self.wrong("I5", "%s: nobody verified the chunks from %d to %d" %
                           (recover, end, event.first))
            end = event.first + event.chunks

    # I6: recovery is idempotent.

    def i6(self):
        """A `publish` is told before the name is there. So a run that died before its BASE may have
        missed what the next one finds; but not the other way round."""
        last = None
        for event in self.history.of("recover", "publish"):
            if event.event == "publish":
                last = None
                continue
            opened = event.author.first("open")
            if opened and opened.mode != "auto":
                continue
            if last and event.epoch < last.epoch:
                continue  # it slept while another took over, and commits nothing
            if last and self._chose_before_a_publish(last):
                last = None
            if last and named(last) != named(event) and not self.damaged(named(last), event.at):
                forward = named(last) == NOTHING or named(last) in self.lineage(named(event))
                if not forward or (last.author.first("base") and event.of < last.epoch):
                    self.wrong("I6", "%s chose generation %d of epoch %d, and %s generation %d of "
                               "epoch %d, with nothing published in between" %
                               (last, *named(last), event, *named(event)))
            last = event

    def _chose_before_a_publish(self, event):
        """It listed, slept while something was published, and then told what it had chosen before."""
        epoch = event.author.first("epoch")
        return epoch and any(epoch.at < publish.at < event.at for publish in self.history.of("publish"))

    # I7: what fails never lowers the number of good generations.

    def i7_unlink(self):
        for author in self.history.coordinators:
            collect, known = None, set()
            for event in author.all("verified", "collect", "unlink"):
                if event.event == "verified":
                    known.add(named(event))
                elif event.event == "collect":
                    collect = event
                    if len(good_of(event, known)) < event.good:
                        self.wrong("I7", "%s: %d generations count as good and %d were verified" %
                                   (event, event.good, len(good_of(event, known))))
                elif event.name.startswith("MANIFEST."):
                    self._may_unlink(author, event, good_of(collect, known))
                elif event.name.startswith("BASE."):
                    self._may_unlink_base(event)

    def _may_unlink(self, author, event, good):
        key = key_of(event.name)
        keep = self.retained_of(author)
        if len(good) < keep:
            self.wrong("I7", "%s: '%s' is removed while %d generations are known to be good; %d stay" %
                       (event, event.name, len(good), keep))
        elif key in good:
            self.wrong("I7", "%s: '%s' is removed and counts among those that stay" %
                       (event, event.name))
        elif key in self.acked and key[0] > min(k[0] for k in good) and \
                key in self.lineage(max(good)) and not self.damaged(key, event.at):
            self.wrong("I7", "%s: '%s' is removed, and an older one stays" % (event, event.name))

    def _may_unlink_base(self, event):
        epoch = epoch_of(event.name)
        removed = {e.name for e in self.history.of("unlink") if e.at < event.at}
        for key, ack in self.acked.items():
            if key[1] == epoch and ack.at < event.at and \
                    "MANIFEST.%d.%d" % key not in removed and not self.damaged(key, event.at):
                self.wrong("I7", "%s: '%s' is removed before MANIFEST.%d.%d" %
                           (event, event.name, *key))

    def i7_sweep(self):
        committed = {key: event.at for key, event in self.acked.items()}
        for recover, _ in self.recoveries():
            key = named(recover)
            # What nobody acknowledged may be visible and never become durable; once it was gone on
            # from, it stays until something newer was acknowledged.
            if key in self.acked or not self.history.dropped:
                committed[key] = min(recover.at, committed.get(key, recover.at))
        unlinks = {}
        for event in self.history.of("unlink"):
            unlinks.setdefault(event.name, []).append(event.at)
        for event in self.history.of("sweep"):
            epoch, _, generation = event.name.partition("-")
            key = int(generation), int(epoch)
            if committed.get(key, event.at) >= event.at:
                continue
            record = "MANIFEST.%d.%d" % key
            gone = [at for at in unlinks.get(record, []) if at < event.at]
            durable = gone and any(gone[0] < e.at < event.at and e.durable
                                   for e in self.history.of("unlinked"))
            reopened = gone and any(gone[0] < e.at < event.at for e in self.history.of("epoch"))
            if not durable and not reopened and not self.damaged(key, event.at):
                self.wrong("I7", "%s: the data of generation %d of epoch %d goes before its manifest "
                           "is gone for good" % (event, *key))

    # I8: recovery ends in bounded time.

    def i8(self):
        for author in self.history.coordinators:
            asked = [named(e) for e in author.all("candidate")]
            for key in sorted(set(asked)):
                if asked.count(key) > 1:
                    self.wrong("I8", "epoch %d: generation %d of epoch %d was tried %d times" %
                               (author.epoch, *key, asked.count(key)))
            opened, based = author.first("open"), author.first("base")
            if opened and based and (based.ns - opened.ns) / 1e9 > self.recovery_seconds:
                self.wrong("I8", "epoch %d: recovery took %.1f s; at most %.1f are allowed" % (
                    author.epoch, (based.ns - opened.ns) / 1e9, self.recovery_seconds))
            for event in author.all("prepare"):
                if based is None or event.at < based.at:
                    self.wrong("I8", "%s: a save began before recovery had ended" % event)
                    break

    # I9: the resumed run is bit-equal to the uninterrupted one.

    def i9(self):
        states = {}
        if self.reference:
            for event in self.reference.of("publish"):
                states.setdefault(event.step, (event.state, "the reference"))
        for event in self.history.of("publish", "recover"):
            if event.event == "recover" and named(event) == NOTHING:
                continue
            state, source = states.setdefault(event.step, (event.state, event))
            if state != event.state:
                self.wrong("I9", "%s: the state of step %d is %s; %s is that of %s" %
                           (event, event.step, event.state, state, source))


def key_of(name):
    _, generation, epoch = name.split(".")
    return int(generation), int(epoch)


def epoch_of(name):
    """Of a name of the root or of gen/."""
    kind, *numbers = name.split(".")
    if not numbers:
        return int(name.partition("-")[0])
    return int(numbers[1 if kind == "MANIFEST" else 0])


def good_of(collect, known):
    """Of what was verified, that which a collection says will stay."""
    return {key for key in known if key[0] >= collect.oldest} if collect else set()
