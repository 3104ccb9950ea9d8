/* SPDX-License-Identifier: Apache-2.0
 *
 * The faults of a simulated run, drawn from its seed. At least one recoverable generation always
 * remains. At some time all faults end, and the run must make progress from then on.
 */
#ifndef TSR_TESTS_SIMULATE_ATLAS_H
#define TSR_TESTS_SIMULATE_ATLAS_H

#include "tests/simulate/job.h"

/* X(NAME, "name", maximum weight): kinds of faults. A seed draws a weight for each. */
#define SIM_FAULTS(X)                                                                              \
    X(KILL_COORDINATOR, "kill-coordinator", 4)                                                     \
    X(KILL_RANK, "kill-rank", 4)                                                                   \
    X(PAUSE_COORDINATOR, "pause-coordinator", 6)                                                   \
    X(PAUSE_RANK, "pause-rank", 4)                                                                 \
    X(POWER_CUT, "power-cut", 3)                                                                   \
    X(LOSE_MESSAGES, "lose-messages", 4)                                                           \
    X(REPEAT_MESSAGES, "repeat-messages", 3)                                                       \
    X(DAMAGE_MESSAGES, "damage-messages", 2)                                                       \
    X(DELAY_MESSAGES, "delay-messages", 4)                                                         \
    X(PART_NETWORK, "part-network", 2)                                                             \
    X(DISK_ERRORS, "disk-errors", 4)                                                               \
    X(SHORT_WRITES, "short-writes", 2)                                                             \
    X(FULL_DISK, "full-disk", 2)                                                                   \
    X(SLOW_DISK, "slow-disk", 2)                                                                   \
    X(MISDIRECT_WRITES, "misdirect-writes", 3)                                                     \
    X(CORRUPT_FILE, "corrupt-file", 4)                                                             \
    X(REMOVE_FILE, "remove-file", 2)                                                               \
    X(FORGET_LOCKS, "forget-locks", 3)

typedef enum sim_fault {
#define X(id, name, weight) SIM_FAULT_##id,
    SIM_FAULTS(X)
#undef X
        SIM_FAULT_COUNT
} sim_fault;

typedef struct sim_atlas {
    sim_job *job;
    uint32_t weights[SIM_FAULT_COUNT]; /* 0: not in this run */
    uint64_t every_ns;                 /* approximate time between faults */
    uint64_t counts[SIM_FAULT_COUNT];
    bool over;
} sim_atlas;

const char *sim_fault_name(sim_fault fault);
/* Also draws the job's parameters. ranks: the number of ranks; 0: draw it. */
void sim_atlas_draw(sim_atlas *atlas, sim_job *job, uint32_t ranks);
void sim_atlas_start(sim_atlas *atlas);
/* Ends all faults: the weather is fair, paused processes continue, and only the newest processes
 * stay alive. */
void sim_atlas_end(sim_atlas *atlas);

#endif
