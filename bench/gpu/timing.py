# SPDX-License-Identifier: Apache-2.0
"""How what runs on a GPU is timed: in turns, in rounds with idle gaps, by events, while the GPU is kept busy; medians."""
import statistics
import time

import torch

GAP = 0.005               # seconds, idle, before each part of a round
ROTATED = 256 << 20       # bytes that the runs of a round go through, several times the second-level cache
SETS_MAX = 32
ROUND_US = 1500           # that the runs of a part of a round take
RUNS_MAX = 12
QUEUE_CYCLES = 1_500_000  # that the GPU is busy while a round is queued


def describe(gpu):
    return {'gpu': torch.cuda.get_device_name(), 'driver': gpu.driver_version(), 'torch': torch.__version__}


def sets_for(size):
    """How many sets of operands of so many bytes."""
    return max(2, min(SETS_MAX, ROTATED // size + 1))


def time_round(runs, count, cycles=QUEUE_CYCLES):
    """Microseconds of `count` runs, each with the next set."""
    time.sleep(GAP)
    torch.cuda._sleep(cycles)
    for i in range(2):
        runs[i]()
    events = []
    for i in range(count):
        begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
        begin.record()
        runs[i % len(runs)]()
        end.record()
        events.append((begin, end))
    torch.cuda.synchronize()
    return [1e3 * begin.elapsed_time(end) for begin, end in events]


def medians(runs, expected_us, rounds, cycles=QUEUE_CYCLES):
    """{name: microseconds} of {name: what runs, one for each set}. `cycles`: more where queuing a run takes long."""
    count = max(2, min(RUNS_MAX, int(ROUND_US / expected_us) + 1))
    times = {name: [] for name in runs}
    for _ in range(rounds):
        for name, part in runs.items():
            times[name] += time_round(part, count, cycles)
    return {name: statistics.median(t) for name, t in times.items()}
