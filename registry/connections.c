/* SPDX-License-Identifier: Apache-2.0 */
#include "registry/connections.h"

#include <stdlib.h>

typedef struct pool {
    tsr_remote *remote;
    size_t task_count;
    tsr_connection_fn run;
    void *user;
    atomic_size_t next;
} pool;

typedef struct worker {
    pool *pool;
    tsr_ctx ctx;
    tsr_http http;
    pthread_t thread;
    bool first; /* its error came before it was told to stop */
} worker;

static void *work(void *user) {
    worker *w = user;
    pool *p = w->pool;
    tsr_result result = tsr_http_init(&w->ctx, &w->http, p->remote);
    while (!result.code && !atomic_load(&p->remote->stop)) {
        size_t task = atomic_fetch_add(&p->next, 1);
        if (task >= p->task_count) break;
        result = p->run(&w->ctx, &w->http, p->user, task);
    }
    if (result.code) w->first = !atomic_exchange(&p->remote->stop, true);
    tsr_http_finish(&w->http);
    return NULL;
}

/* This thread is the first worker; other workers that cannot be started are left out. */
tsr_result tsr_connections_run(tsr_ctx *ctx, tsr_remote *remote, size_t task_count,
                               tsr_connection_fn run, void *user) {
    pool p = {.remote = remote, .task_count = task_count, .run = run, .user = user};
    size_t count = remote->options.jobs < task_count ? remote->options.jobs : task_count;
    size_t started = 1;
    tsr_result result = TSR_SUCCESS;
    if (!task_count) return TSR_SUCCESS;
    worker *workers = calloc(count, sizeof *workers);
    if (!workers) FAIL(ctx, TSR_MEMORY, "no memory for %zu connections", count);
    for (size_t i = 0; i < count; i++) workers[i] = (worker){.pool = &p, .ctx = tsr_ctx_fork(ctx)};
    while (started < count &&
           pthread_create(&workers[started].thread, NULL, work, &workers[started]) == 0)
        started++;
    work(&workers[0]);
    for (size_t i = 1; i < started; i++) pthread_join(workers[i].thread, NULL);
    for (size_t i = 0; i < started; i++)
        if (workers[i].first) result = tsr_error_adopt(ctx, &workers[i].ctx);
    free(workers);
    return result;
}
