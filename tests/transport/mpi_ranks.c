/* SPDX-License-Identifier: Apache-2.0
 *
 * usage: mpirun -n COUNT test_transport_mpi MODULE [--desync]
 *
 * Runs each body as a rank of an MPI job, on each transport of the job. --desync: the last rank
 * calls a different operation, and the job ends with the error that the other ranks got.
 */
#include "runtime/base/array.h"
#include "runtime/transport/mpi/job.h"
#include "tests/transport/bodies.h"

#include <string.h>

static const struct {
    const char *name;
    ranks_body body;
} bodies[] = {
#define X(name) {#name, body_##name},
#include "tests/transport/bodies.def"
#undef X
};

static int run_bodies(tsr_ctx *ctx, tsr_transport *t) {
    for (size_t i = 0; i < TSR_COUNT(bodies); i++) {
        plan p = {.seed = 7};
        /* The last body ends in a refused agreement, after which the endpoint can only be closed.
         */
        t->sent_bytes = t->received_bytes = 0;
        if (bodies[i].body(ctx, t, &p)) return 1;
        if (t->rank == 0) printf("%s: right on %u ranks\n", bodies[i].name, t->rank_count);
    }
    return 0;
}

static int desync(tsr_ctx *ctx, tsr_transport *t) {
    unsigned char bytes[TSR_TRANSPORT_RANKS_MAX] = {0};
    size_t first[TSR_TRANSPORT_RANKS_MAX + 1];
    for (uint32_t r = 0; r <= t->rank_count; r++) first[r] = r;
    tsr_result result =
        t->rank + 1 == t->rank_count ? tsr_all_gather(ctx, t, bytes, first) : tsr_barrier(ctx, t);
    if (result.code) fprintf(stderr, "rank %u: %s\n", t->rank, ctx->error.text);
    return (int)result.code;
}

int main(int argc, char **argv) {
    tsr_ctx ctx = {0};
    tsr_transport *t = NULL;
    const tsr_mpi_options options = {.size_bytes = sizeof options,
                                     .module = argc > 1 ? argv[1] : NULL,
                                     .deadline_ns = UINT64_C(60) * 1000000000u,
                                     .secondary_deadline_ns = UINT64_C(60) * 1000000000u};
    if (tsr_mpi_open(&ctx, &options, &t).code) {
        fprintf(stderr, "%s\n", ctx.error.text);
        return (int)ctx.error.code;
    }
    bool disagrees = argc > 2 && strcmp(argv[2], "--desync") == 0;
    int code = disagrees ? desync(&ctx, t) : run_bodies(&ctx, t);
    if (!code && !disagrees) code = run_bodies(&ctx, t->secondary);
    if (code) tsr_transport_fail(t, TSR_RANK, ctx.error.text);
    tsr_transport_close(t);
    return code;
}
