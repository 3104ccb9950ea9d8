# SPDX-License-Identifier: Apache-2.0
"""What a trace and a roofline of a training must be: such as viewers read, whole, in order, of one clock, and of one another; told is what is not so."""
import collections
import csv
import json
import pathlib

# Keys of an event by its phase, of the Trace Event Format as far as it is used: names of processes and tracks, complete spans (no begin and end that could be
# without each other), counters.
KEYS = {'M': {'name', 'ph', 'pid', 'tid', 'args'}, 'X': {'name', 'ph', 'pid', 'tid', 'ts', 'dur'}, 'C': {'name', 'ph', 'pid', 'tid', 'ts', 'args'}}
NAMED = {'process_name': ('name', str), 'thread_name': ('name', str), 'thread_sort_index': ('sort_index', int)}
SLACK = 0.002  # microseconds: both ends are rounded


def is_number(value, kind=(int, float)):
    return isinstance(value, kind) and not isinstance(value, bool) and 0 <= value < float('inf')


def check_event(e):
    """None, or what a viewer could not read of it."""
    keys = KEYS.get(e.get('ph'))
    if not keys or not keys <= set(e) <= keys | {'args'}:
        return 'has other keys'
    if not isinstance(e['name'], str) or not e['name'] or not all(is_number(e[key], int) for key in ('pid', 'tid')):
        return 'has no name, process or track'
    if not all(is_number(e[key]) for key in keys & {'ts', 'dur'}):
        return 'has no time'
    if 'args' in e and (not isinstance(e['args'], dict) or not e['args']):
        return 'has arguments without a name'
    if e['ph'] == 'M':
        key, kind = NAMED.get(e['name'], (None, None))
        return None if key and isinstance(e['args'].get(key), kind) and set(e['args']) == {key} else 'names nothing'
    if e['ph'] == 'C' and not all(map(is_number, e['args'].values())):
        return 'counts nothing'
    return None


def check_format(document):
    """What keeps a trace from opening whole, by Google's Trace Event Format."""
    events = document.get('traceEvents')
    if not isinstance(events, list) or not events or document.get('displayTimeUnit') not in ('ms', 'ns'):
        return ['no list of events, or no unit']
    wrong = [f'event {e} {why}' for e in events if (why := check_event(e))]
    if wrong:
        return wrong
    processes = collections.Counter(e['pid'] for e in events if e['name'] == 'process_name')
    tracks = collections.Counter((e['pid'], e['tid']) for e in events if e['name'] == 'thread_name')
    named = collections.Counter((e['pid'], e['args']['name']) for e in events if e['name'] == 'thread_name')
    wrong += [f'process {pid} has {processes[pid]} names' for pid in {e['pid'] for e in events} if processes[pid] != 1]
    wrong += [f'track {at} has {tracks[at]} names' for at in {(e['pid'], e['tid']) for e in events if e['ph'] == 'X'} | set(tracks) if tracks[at] != 1]
    wrong += [f'{count} tracks are named {name}' for name, count in named.items() if count != 1]
    series = collections.defaultdict(set)
    for e in events:
        if e['ph'] == 'C':
            series[e['pid'], e['name']].add(tuple(e['args']))
    return wrong + [f'counter {name} has the series {of}' for name, of in series.items() if len(of) != 1]


class Trace:
    """`tracks`: spans by the name of their track, in the order of time; `memory`: (time, bytes); `wrong`: what is not as it must be."""

    def __init__(self, path):
        document = json.loads(pathlib.Path(path).read_text('utf-8'))
        events, self.wrong = document['traceEvents'], check_format(document)
        names = {e['tid']: e['args']['name'] for e in events if e['name'] == 'thread_name'}
        self.tracks = {name: [] for name in names.values()}
        for e in events:
            if e['ph'] == 'X':
                self.tracks[names[e['tid']]].append(e)
        self.memory = [(e['ts'], e['args']['bytes']) for e in events if e['ph'] == 'C' and e['name'] == 'memory in use']
        times = [e['ts'] for e in events if e['ph'] != 'M']
        self.expect(times == sorted(times), 'times fall')
        self.expect(document['otherData']['dropped'] == 0, f'{document["otherData"]["dropped"]} events were dropped')
        for name in self.tracks:
            self.check_nesting(name)

    def expect(self, holds, what):
        if not holds:
            self.wrong.append(what)

    def check_nesting(self, name):
        ends = []
        for span in self.tracks[name]:
            while ends and ends[-1] <= span['ts'] + SLACK:
                ends.pop()
            end = span['ts'] + span['dur']
            self.expect(not ends or end <= ends[-1] + SLACK, f'{name}: {span} neither nests nor follows')
            ends.append(end)

    def spans(self, track, name=''):
        return [s for s in self.tracks.get(track, []) if s['name'].startswith(name)]


def lies_in(span, outer):
    return outer['ts'] - SLACK <= span['ts'] and span['ts'] + span['dur'] <= outer['ts'] + outer['dur'] + SLACK


def lies_out(span, outer):
    return span['ts'] + span['dur'] <= outer['ts'] + SLACK or outer['ts'] + outer['dur'] <= span['ts'] + SLACK


def check_steps(trace, first, last, device):
    """Steps, in each its kernels and what goes to the device and back, and memory as it is taken and given back."""
    steps, runs, kernels = trace.spans('steps', 'step '), trace.spans('steps', 'train'), trace.spans('kernels')
    trace.expect([s['name'] for s in steps] == [f'step {i}' for i in range(first, last + 1)], f'steps {[s["name"] for s in steps]}')
    inside = [[k for k in kernels if lies_in(k, r)] for r in runs]
    trace.expect(len(runs) == len(steps) and sum(map(len, inside)) == len(kernels) > 0,
                 f'{len(runs)} runs with {[len(i) for i in inside]} of {len(kernels)} kernels')
    trace.expect(all(0 < sum(k['dur'] for k in i) <= r['dur'] for i, r in zip(inside, runs)), 'kernels take no time, or more than their step')
    trace.expect(all(k['args']['bytes'] > 0 and '.mlir:' in k['args']['location'] for k in kernels), 'kernels without bytes or location')
    if device == 'cuda':
        for name in ('inputs', 'outputs'):
            moves = trace.spans('copies', name)
            trace.expect(len(moves) >= len(runs) and all(any(lies_in(m, r) for r in runs) and m['args']['bytes'] > 0 for m in moves),
                         f'{len(moves)} spans of {name} on their way')
    values = [v for _, v in trace.memory]
    trace.expect(len(set(values)) > 1 and min(values, default=0) > 0, f'memory over time has the values {sorted(set(values))[:5]}')
    trace.expect(all(any(r['ts'] - SLACK <= t <= r['ts'] + r['dur'] + SLACK for r in runs) for t, _ in trace.memory), 'memory outside of steps')


def check_regions(trace, name, attempts):
    """Regions of resilience, as many attempts as each step had: within it, with the same kernels in each, which lie in it or out of it."""
    regions, kernels, steps = trace.spans('regions of resilience'), trace.spans('kernels'), trace.spans('steps', 'step ')
    names = [name if i == 0 else f'{name} {i + 1}' for count in attempts for i in range(count)]
    trace.expect([r['name'] for r in regions] == names, f'regions {[r["name"] for r in regions]}')
    trace.expect([sum(lies_in(r, s) for r in regions) for s in steps] == list(attempts), 'regions out of their steps')
    inside = [[k['name'] for k in kernels if lies_in(k, r)] for r in regions]
    trace.expect(all(inside) and all(i == inside[0] for i in inside), f'kernels in regions {inside}')
    trace.expect(all(lies_in(k, r) or lies_out(k, r) for k in kernels for r in regions), 'kernels half in a region')
    trace.expect(sum(map(len, inside)) < len(kernels), 'no kernel lies out of the regions')


def read_limits(trace, rows, least_gb_per_s, device):
    """Of memory; of arithmetic, of matrix units too where a GPU has them, which do more. The rows of kernels are left."""
    machine, limits = rows.pop(0), []
    limit = float(machine['gb_per_s'])
    trace.expect(machine['kernel'] == '(machine)' and limit > least_gb_per_s, f'the machine is {machine}')
    limits.append(float(machine['gflop_per_s']))
    if device == 'cuda':
        units = rows.pop(0)
        limits.append(float(units['gflop_per_s']))
        trace.expect(units['kernel'] == '(matrix units)' and units['gb_per_s'] == machine['gb_per_s'], f'matrix units are {units}')
        trace.expect(limits[1] > 4 * limits[0] > 4e3, f'the rates of arithmetic are {limits}')
    return limit, limits


def check_roofline(trace, path, least_gb_per_s, device):
    """The kernels of the trace, summed up."""
    with open(path, newline='', encoding='utf-8') as file:
        rows = list(csv.DictReader(file))
    limit, limits = read_limits(trace, rows, least_gb_per_s, device)
    seconds, launches, size = collections.Counter(), collections.Counter(), collections.Counter()
    for k in trace.spans('kernels'):
        seconds[k['name']] += k['dur'] * 1e-6
        launches[k['name']] += 1
        size[k['name']] += k['args']['bytes']
    trace.expect({r['kernel']: int(r['launches']) for r in rows} == dict(launches), 'launches differ')
    trace.expect({r['kernel']: int(r['bytes']) for r in rows} == dict(size), 'bytes differ')
    times = [float(r['seconds']) for r in rows]
    trace.expect(times == sorted(times, reverse=True), 'rows are not in the order of their time')
    for r, took in zip(rows, times):
        trace.expect(abs(took - seconds[r['kernel']]) <= 1e-9 * SLACK * 1e3 * launches[r['kernel']] + 1e-9, f'seconds of {r}')
        rate = float(r['bytes']) / took * 1e-9
        trace.expect(abs(float(r['gb_per_s']) / rate - 1) < 1e-5, f'rate of {r}')
        if r['bound'] == 'memory':
            trace.expect(abs(float(r['of_bound']) / (rate / limit) - 1) < 1e-5, f'bound of {r}')
        if r['bound'] == 'compute':
            parts = [float(r['flops']) / took * 1e-9 / of for of in limits]
            trace.expect(min(abs(float(r['of_bound']) / part - 1) for part in parts) < 1e-5 and float(r['of_bound']) < 1.05, f'bound of {r}')
        elif r['flops']:
            trace.expect(float(r['flops']) / limits[-1] <= float(r['bytes']) / limit * (1 + 1e-5), f'{r} is bound by arithmetic')
