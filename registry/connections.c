/* SPDX-License-Identifier: Apache-2.0 */
#include "registry/connections.h"

#include "runtime/base/pool.h"

typedef struct shared {
    tsr_remote *remote;
    size_t task_count;
    tsr_connection_fn run;
    void *user;
    atomic_size_t next;
} shared;

/* A task of the pool is a connection, which takes tasks of its own. Only the first error counts:
 * others come from connections that were told to stop. */
static tsr_result work(tsr_ctx *ctx, void *user, size_t connection, void *scratch) {
    shared *s = user;
    tsr_http http;
    (void)connection, (void)scratch;
    tsr_result result = tsr_http_init(ctx, &http, s->remote);
    while (!result.code && !atomic_load(&s->remote->stop)) {
        size_t task = atomic_fetch_add(&s->next, 1);
        if (task >= s->task_count) break;
        result = s->run(ctx, &http, s->user, task);
    }
    bool first = result.code && !atomic_exchange(&s->remote->stop, true);
    tsr_http_finish(&http);
    return first ? result : TSR_SUCCESS;
}

tsr_result tsr_connections_run(tsr_ctx *ctx, tsr_remote *remote, size_t task_count,
                               tsr_connection_fn run, void *user) {
    shared s = {.remote = remote, .task_count = task_count, .run = run, .user = user};
    size_t count = remote->options.jobs < task_count ? remote->options.jobs : task_count;
    if (!task_count) return TSR_SUCCESS;
    const tsr_pool_job job = {.task_count = count,
                              .size_bytes =
                                  UINT64_MAX, /* a connection waits, however little it sends */
                              .threads = (unsigned)count,
                              .run = work,
                              .user = &s,
                              .subject = remote->base};
    return tsr_pool_run(ctx, &job);
}
