/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/store/crew.h"

#include "runtime/base/result.h"

#include <sched.h>
#include <signal.h>

void tsr_crew_init(tsr_crew *crew) {
    *crew = (tsr_crew){.thread_count = 0};
    for (unsigned i = 0; i <= TSR_CREW_MAX; i++)
        crew->members[i] = (tsr_crew_member){.crew = crew, .task = UINT64_MAX};
    pthread_mutex_init(&crew->mutex, NULL);
    pthread_cond_init(&crew->offered, NULL);
    pthread_cond_init(&crew->finished, NULL);
}

/* Called with the mutex locked; unlocks it during the task. */
static void do_next(tsr_crew *crew, tsr_crew_member *member) {
    member->task = crew->next++;
    pthread_mutex_unlock(&crew->mutex);
    crew->task(crew->user, member->task, (unsigned)(member - crew->members));
    pthread_mutex_lock(&crew->mutex);
    member->task = UINT64_MAX;
    pthread_cond_broadcast(&crew->finished);
}

static void *member_main(void *user) {
    tsr_crew_member *member = user;
    tsr_crew *crew = member->crew;
    pthread_mutex_lock(&crew->mutex);
    for (;;) {
        while (crew->next == crew->limit && !crew->quit)
            pthread_cond_wait(&crew->offered, &crew->mutex);
        if (crew->quit) break;
        do_next(crew, member);
    }
    pthread_mutex_unlock(&crew->mutex);
    return NULL;
}

void tsr_crew_start(tsr_crew *crew, unsigned per_cpu) {
    cpu_set_t cpus;
    sigset_t all, old;
    if (crew->thread_count) return;
    unsigned count = sched_getaffinity(0, sizeof cpus, &cpus) ? 1 : (unsigned)CPU_COUNT(&cpus);
    count = count < TSR_CREW_MAX / per_cpu ? count * per_cpu : TSR_CREW_MAX;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    for (unsigned i = 0; i < count; i++) {
        tsr_crew_member *member = &crew->members[i];
        if (pthread_create(&member->thread, NULL, member_main, member)) break;
        crew->thread_count++;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void tsr_crew_finish(tsr_crew *crew) {
    pthread_mutex_lock(&crew->mutex);
    crew->quit = true;
    pthread_cond_broadcast(&crew->offered);
    pthread_mutex_unlock(&crew->mutex);
    for (unsigned i = 0; i < crew->thread_count; i++) pthread_join(crew->members[i].thread, NULL);
    pthread_mutex_destroy(&crew->mutex);
    pthread_cond_destroy(&crew->offered);
    pthread_cond_destroy(&crew->finished);
}

void tsr_crew_begin(tsr_crew *crew, tsr_crew_task task, void *user) {
    pthread_mutex_lock(&crew->mutex);
    TSR_ASSERT(crew->next == crew->limit);
    crew->next = crew->limit = 0;
    crew->task = task;
    crew->user = user;
    pthread_mutex_unlock(&crew->mutex);
}

void tsr_crew_offer(tsr_crew *crew, uint64_t limit) {
    pthread_mutex_lock(&crew->mutex);
    TSR_ASSERT(limit >= crew->limit);
    crew->limit = limit;
    pthread_cond_broadcast(&crew->offered);
    pthread_mutex_unlock(&crew->mutex);
}

/* The lowest task that is not done. */
static uint64_t done_count(const tsr_crew *crew) {
    uint64_t count = crew->next;
    for (unsigned i = 0; i <= TSR_CREW_MAX; i++)
        if (crew->members[i].task < count) count = crew->members[i].task;
    return count;
}

void tsr_crew_wait(tsr_crew *crew, uint64_t count) {
    pthread_mutex_lock(&crew->mutex);
    TSR_ASSERT(count <= crew->limit);
    while (done_count(crew) < count) {
        if (crew->next < crew->limit)
            do_next(crew, &crew->members[TSR_CREW_MAX]);
        else
            pthread_cond_wait(&crew->finished, &crew->mutex);
    }
    pthread_mutex_unlock(&crew->mutex);
}

void tsr_crew_cancel(tsr_crew *crew) {
    pthread_mutex_lock(&crew->mutex);
    crew->limit = crew->next;
    while (done_count(crew) < crew->next) pthread_cond_wait(&crew->finished, &crew->mutex);
    pthread_mutex_unlock(&crew->mutex);
}
