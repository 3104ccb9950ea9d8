/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads that work while one thread, the feeder, writes, opens and closes: what changes a file
 * stays in the order of the protocol. Tasks are numbered from 0 and are begun in that order. One
 * task may offer those of another crew, in order.
 * Without threads (a small state, or the system refuses them) the feeder does the work itself; with
 * them it works when it would only wait.
 */
#ifndef TSR_RUNTIME_STORE_CREW_H
#define TSR_RUNTIME_STORE_CREW_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum { TSR_CREW_MAX = 8 };

/* `member` is that who does it, 0 … TSR_CREW_MAX; the last one is the feeder. */
typedef void (*tsr_crew_task)(void *user, uint64_t index, unsigned member);

typedef struct tsr_crew tsr_crew;

typedef struct tsr_crew_member {
    tsr_crew *crew;
    pthread_t thread;
    uint64_t task; /* under way; UINT64_MAX: none */
} tsr_crew_member;

struct tsr_crew {          /* never moved between init and finish */
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t offered, finished;
    tsr_crew_member members[TSR_CREW_MAX + 1]; /* the last one is the feeder */
    unsigned thread_count;
    uint64_t next, limit;
    tsr_crew_task task;
    void *user;
    bool quit;
};

void tsr_crew_init(tsr_crew *crew);
/* So many threads for each CPU this process may use, at most TSR_CREW_MAX in all; signals stay with
 * the threads that were there before. Once; later calls do nothing. */
void tsr_crew_start(tsr_crew *crew, unsigned per_cpu);
void tsr_crew_finish(tsr_crew *crew);

/* The feeder's calls. No task is under way at begin. */
void tsr_crew_begin(tsr_crew *crew, tsr_crew_task task, void *user);
void tsr_crew_offer(tsr_crew *crew, uint64_t limit); /* tasks below `limit` may be done now */
/* Until those below `count` are done; tasks that nobody has begun are done here meanwhile. */
void tsr_crew_wait(tsr_crew *crew, uint64_t count);
void tsr_crew_cancel(tsr_crew *crew); /* no more is begun; what is under way is waited for */

#endif
