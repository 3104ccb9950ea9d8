# SPDX-License-Identifier: Apache-2.0
"""Times runs on a GPU: in turns, in rounds with idle gaps, by events, while the GPU is kept busy; returns medians."""
import statistics
import time

import torch

GAP = 0.005               # idle seconds before each part of a round
ROTATED = 256 << 20       # bytes that the runs of a round access, several times the second-level cache
SETS_MAX = 32
ROUND_US = 1500           # duration of the runs of a part of a round
RUNS_MAX = 12
QUEUE_CYCLES = 1_500_000  # cycles for which the GPU is kept busy while a round is queued


def describe(gpu):
    return {'gpu': torch.cuda.get_device_name(), 'driver': gpu.driver_version(), 'torch': torch.__version__}


def sets_for(size):
    """Returns the number of sets of operands of that size in bytes."""
    return max(2, min(SETS_MAX, ROTATED // size + 1))


def time_round(runs, count, cycles=QUEUE_CYCLES):
    """Returns the microseconds of `count` runs, each with the next set."""
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
    """Returns {name: microseconds} for {name: functions to run, one for each set}. `cycles`: use more if queuing a run takes long."""
    count = max(2, min(RUNS_MAX, int(ROUND_US / expected_us) + 1))
    times = {name: [] for name in runs}
    for _ in range(rounds):
        for name, part in runs.items():
            times[name] += time_round(part, count, cycles)
    return {name: statistics.median(t) for name, t in times.items()}
