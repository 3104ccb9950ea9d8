/* SPDX-License-Identifier: Apache-2.0
 *
 * A simulated training run: the product's coordinator and ranks, each in a process of its own, and
 * somebody who starts them again when they die or hang.
 */
#ifndef TSR_TESTS_SIMULATE_JOB_H
#define TSR_TESTS_SIMULATE_JOB_H

#include "tests/simulate/world/world.h"

#define SIM_DIRECTORY "/s"
enum { SIM_RANKS_MAX = 64 };

/* A generation: acknowledged, damaged on the medium, its manifest removed. */
typedef struct sim_copy {
    uint64_t generation, epoch;
    bool acknowledged, damaged, gone;
} sim_copy;

typedef struct sim_job {
    sim_world *world;
    /* Set by the caller. */
    uint32_t rank_count, keep;
    uint64_t shape;                               /* of the state */
    uint64_t interval_ns;                         /* between saves */
    uint64_t resend_ns, deadline_ns, patience_ns; /* of the coordinator; until it counts as hung */
    bool locks_work;                              /* else a new run gets LOCK whoever holds it */
    bool addresses_shared; /* an old coordinator reaches the ranks of a new one */
    bool calm;             /* old processes are killed before new ones begin */

    sim_process *coordinator; /* the newest, or NULL */
    sim_process *ranks[SIM_RANKS_MAX];
    uint64_t changed_ns; /* when something was acknowledged, or begun */
    uint64_t started_count, acknowledged_count;
    sim_copy *copies;
    size_t copy_count, copy_capacity;
} sim_job;

void sim_job_start(sim_job *job);  /* and keeps it running */
void sim_job_finish(sim_job *job); /* what the struct owns; before the world ends */

/* Acknowledged, not removed, and of which no byte was changed. */
size_t sim_job_good_count(const sim_job *job);
size_t sim_job_damaged_count(const sim_job *job);
/* Says so in the log; of a generation that is not acknowledged yet, too. */
void sim_job_damage(sim_job *job, uint64_t generation, uint64_t epoch);

#endif
