/* SPDX-License-Identifier: Apache-2.0
 *
 * A simulated training run: the product's coordinator and ranks, each in a process of its own, and
 * a supervisor that restarts them when they die or hang.
 */
#ifndef TSR_TESTS_SIMULATE_JOB_H
#define TSR_TESTS_SIMULATE_JOB_H

#include "tests/simulate/world/world.h"

#define SIM_DIRECTORY "/s"
enum { SIM_RANKS_MAX = 64 };

/* A generation: acknowledged, damaged on the medium, or its manifest was removed. */
typedef struct sim_copy {
    uint64_t generation, epoch;
    bool acknowledged, damaged, gone;
} sim_copy;

typedef struct sim_job {
    sim_world *world;
    /* Set by the caller. */
    uint32_t rank_count, keep;
    uint64_t shape;                               /* seed of the tensor shapes */
    uint64_t interval_ns;                         /* between saves */
    uint64_t resend_ns, deadline_ns, patience_ns; /* timeouts of the coordinator; of a run */
    bool locks_work;                              /* false: a new run always gets LOCK */
    bool addresses_shared; /* an old coordinator reaches the ranks of a new one */
    bool calm;             /* old processes are killed before new ones begin */

    sim_process *coordinator; /* the newest, or NULL */
    sim_process *ranks[SIM_RANKS_MAX];
    uint64_t changed_ns; /* time of the last acknowledgement or start */
    uint64_t started_count, acknowledged_count;
    sim_copy *copies;
    size_t copy_count, copy_capacity;
} sim_job;

void sim_job_start(sim_job *job);  /* starts the job and keeps it running */
void sim_job_finish(sim_job *job); /* frees its memory; to be called before the world ends */

/* The number of generations that are acknowledged, undamaged and not removed. */
size_t sim_job_good_count(const sim_job *job);
size_t sim_job_damaged_count(const sim_job *job);
/* Logs that the generation is damaged, even if it is not acknowledged yet. */
void sim_job_damage(sim_job *job, uint64_t generation, uint64_t epoch);

#endif
