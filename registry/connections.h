/* SPDX-License-Identifier: Apache-2.0
 *
 * Tasks shared by several connections, each on its own thread. Private to this folder.
 */
#ifndef TSR_REGISTRY_CONNECTIONS_H
#define TSR_REGISTRY_CONNECTIONS_H

#include "registry/http.h"

typedef tsr_result (*tsr_connection_fn)(tsr_ctx *ctx, tsr_http *http, void *user, size_t task);
/* Runs tasks 0 to task_count - 1, started in this order, on at most options.jobs connections. After
 * a failure no task is started and running tasks stop; returns the first error. */
TSR_RESULT tsr_connections_run(tsr_ctx *ctx, tsr_remote *remote, size_t task_count,
                               tsr_connection_fn run, void *user);

#endif
