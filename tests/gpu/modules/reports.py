# SPDX-License-Identifier: Apache-2.0
"""What compute-sanitizer prints: its reports by kernel and kind, its summaries, and whether known rows explain them.

Format: Compute Sanitizer's manual, sections "Understanding Memcheck Errors", "Understanding Racecheck Reports" (analysis), "Understanding
Initcheck Reports", "Understanding Synccheck Reports". A report's first line follows '========= ' at once, what belongs to it is indented:

    ========= Error: Race reported between Write access at NAME+0x140
    =========     and Read access at NAME+0xe0 [4 hazards]
    ========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)

Behind a kernel's name its arguments may stand; older versions write `at 0x140 in FILE:LINE:NAME(arguments)`.
"""
import collections
import re

NOTICE = re.compile(r'COMPUTE-SANITIZER$|Process ID: \d+$|LEAK SUMMARY: ')
RACE = re.compile(r'(\w+): Race reported between (\w+) access at (.*)')
OTHER = re.compile(r'and (\w+) access at ')
ORIGIN = re.compile(r'(?:0x[0-9a-fA-F]+ in (?:\S+:\d+:)?)?(?!0x)([^\s(+]+)')
SUMMARY = re.compile(r'ERROR SUMMARY: (\d+) errors?$|RACECHECK SUMMARY: (\d+) hazards? displayed \((\d+) errors?, (\d+) warnings?\)$')
UNPRINTED = re.compile(r'(?:ERROR|RACECHECK) SUMMARY: (\d+) \w+ were not printed')
UNKNOWN = '?'  # a kernel or kind that nobody has told yet


class Reports:
    """`rows`: how often each (kernel, kind) was reported, a race once for each pair of accesses; `count`: reports; `summed`: as many as the
    summaries count, None without one; `unprinted`: how many the tool kept to itself."""

    def __init__(self, text):
        self.rows, self.count, self.summed, self.unprinted = collections.Counter(), 0, None, 0
        head, details = None, []
        for line in text.splitlines():
            begin, _, rest = line.partition('========= ')
            if begin or not rest:
                continue
            if rest.startswith(' '):
                details.append(rest.strip())
                continue
            self._add(head, details)
            head, details = self._head(rest.strip()), []
        self._add(head, details)

    def _head(self, line):
        """The line, where it begins a report; else None."""
        summary, unprinted = SUMMARY.match(line), UNPRINTED.match(line)
        if summary:
            errors, hazards, *by_severity = (int(n or 0) for n in summary.groups())
            self.summed = (self.summed or 0) + (errors or hazards or sum(by_severity))
        elif unprinted:
            self.unprinted += int(unprinted[1])
        return None if summary or unprinted or not line or NOTICE.match(line) else line

    def _add(self, head, details):
        if head is None:
            return
        self.count += 1
        race = RACE.match(head)
        if race:
            others = [m[1] for m in map(OTHER.match, details) if m] or [UNKNOWN]
            for other in others:
                self.rows[name_of(race[3]), f'{race[1].lower()}: {race[2]} and {other}'] += 1
            return
        origins = [d[3:] for d in details if d.startswith('at ')] + re.findall(r'Thread .*? at (.*)', '\n'.join(details))
        kind = re.sub(r'( detected)? at (__\w+__ )?0x[0-9a-fA-F]+.*', '', head).rstrip('.')
        self.rows[name_of(origins[0]) if origins else '-', kind] += 1


def name_of(origin):
    """The kernel's, without its number in the bundle (k12_matmul), which changes with every entry before it."""
    found = ORIGIN.match(origin)
    return re.sub(r'^k\d+_', '', found[1]) if found else UNKNOWN


def read_rows(text, reasons):
    """{(tool, entry, kernel, kind): name of its reason}, of lines `tool entry kernel reason kind`."""
    rows = {}
    for number, line in enumerate(text.splitlines(), 1):
        line = re.sub(r'(^|\s)#.*', '', line)
        if not line.strip():
            continue
        tool, entry, kernel, reason, kind = line.split(None, 4)
        if reason not in reasons:
            raise ValueError(f'row {number} is explained by {reason!r}; expected one of {", ".join(reasons)}')
        rows[tool, entry, kernel, kind.strip()] = reason
    return rows


def judge(tool, entry, code, error_code, text, explained):
    """(what is wrong with the run, or None; the rows of `explained` that it needed)."""
    found = Reports(text)
    rows = {(tool, entry, *row) for row in found.rows}
    if code not in (0, error_code):
        return f'exit code {code}: {text.strip()[-300:]}', rows & set(explained)
    if found.summed is None:
        return f'exit code {code} without a summary: {text.strip()[-300:]}', rows & set(explained)
    wrong = [f'{kernel}: {kind} ({found.rows[kernel, kind]} times)' for _, _, kernel, kind in sorted(rows)
             if (tool, entry, kernel, kind) not in explained or UNKNOWN in (kernel, kind.split()[-1])]
    if found.unprinted:
        wrong.append(f'{found.unprinted} were not printed')
    if found.count != found.summed:
        wrong.append(f'{found.count} reports are understood; the summary counts {found.summed}')
    if code and not found.summed:
        wrong.append(f'exit code {code} without a report')
    return '; '.join(wrong) or None, rows & set(explained)
