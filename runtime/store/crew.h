/* SPDX-License-Identifier: Apache-2.0
 *
 * Worker threads for tasks, while one thread, the feeder, writes, opens and closes files: file
 * changes stay in the order of the protocol. Tasks are numbered from 0 and begin in that order. A
 * task may offer tasks of another crew, in order. Without threads (a small state, or the system
 * refuses them) the feeder does the work itself; with threads, it works when it would otherwise
 * wait.
 */
#ifndef TSR_RUNTIME_STORE_CREW_H
#define TSR_RUNTIME_STORE_CREW_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum { TSR_CREW_MAX = 8 };

/* `member` is the member that runs the task, 0 … TSR_CREW_MAX; the last one is the feeder. */
typedef void (*tsr_crew_task)(void *user, uint64_t index, unsigned member);

typedef struct tsr_crew tsr_crew;

typedef struct tsr_crew_member {
    tsr_crew *crew;
    pthread_t thread;
    uint64_t task; /* task that is running; UINT64_MAX: no task */
} tsr_crew_member;

struct tsr_crew {          /* does not move between init and finish */
    pthread_mutex_t mutex; /* guards the following fields */
    pthread_cond_t offered, finished;
    tsr_crew_member members[TSR_CREW_MAX + 1]; /* the last one is the feeder */
    unsigned thread_count;
    uint64_t next, limit;
    tsr_crew_task task;
    void *user;
    bool quit;
};

void tsr_crew_init(tsr_crew *crew);
/* Starts this many threads for each CPU that this process may use, at most TSR_CREW_MAX in total.
 * The new threads block all signals. Only the first call has an effect. */
void tsr_crew_start(tsr_crew *crew, unsigned per_cpu);
void tsr_crew_finish(tsr_crew *crew);

/* Called by the feeder. No task may be running at begin. */
void tsr_crew_begin(tsr_crew *crew, tsr_crew_task task, void *user);
void tsr_crew_offer(tsr_crew *crew, uint64_t limit); /* tasks below `limit` may begin now */
/* Waits until the tasks below `count` are done; the caller runs tasks that have not begun. */
void tsr_crew_wait(tsr_crew *crew, uint64_t count);
void tsr_crew_cancel(tsr_crew *crew); /* begins no more tasks; waits for running tasks */

#endif
