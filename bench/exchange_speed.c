/* SPDX-License-Identifier: Apache-2.0
 *
 * Exchanges between two GPUs of this host, in every way, beside plain copies into the memory of the
 * other GPU.
 *
 *     exchange_speed [MIB...]        1 16 64 256 without any
 *
 * Two processes, each with a GPU. For each size and way: the time of a reduce-scatter and of an
 * all-gather of that size, from the first command to the end on both GPUs; the copies push half of
 * the size to the other GPU, both at the same time, which is what these exchanges send. Prints one
 * JSON object per line: medians, in microseconds, and the sent bytes in GB/s (1e9 bytes). Exits
 * with 77 if there are fewer than two GPUs.
 */
#include "bench/median.h"
#include "manifests/fatbin.h"
#include "runtime/base/array.h"
#include "runtime/base/clock.h"
#include "runtime/exchange/p2p.h"
#include "runtime/transport/shared.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 11, RANKS = 2, SKIPPED = 77 };
static const char *const sizes_mib[] = {"1", "16", "64", "256"};

typedef struct bench {
    tsr_ctx *ctx;
    tsr_transport *t;
    tsr_device *device;
    tsr_device_memory memory;
    tsr_exchanger *x;
    uint64_t size_bytes;
} bench;

static TSR_RESULT open_gpu(bench *b) {
    static const char text[] = ".version 7.0\n.target sm_80\n.address_size 64\n";
    const tsr_fatbin_image image = {TSR_FATBIN_PTX, 80, false, text, sizeof text};
    const tsr_fatbin fatbin = {NULL, 0, &image, 1};
    tsr_arena arena = {0};
    void *code = NULL;
    char selector[16];
    snprintf(selector, sizeof selector, "%u", b->t->rank);
    tsr_device_options options = {.kernel_count = 0, .selector = selector, .shares = true};
    tsr_result result = tsr_fatbin_encode(b->ctx, &fatbin, &arena, &code, &options.code_size_bytes);
    options.code = code;
    if (!result.code) result = tsr_device_open(b->ctx, "cuda", &options, &b->device);
    tsr_arena_finish(&arena);
    return result;
}

typedef enum work { SCATTER, GATHER, COPY, WORKS } work;
static const char *const work_names[] = {"reduce_scatter", "all_gather", "copy"};

static TSR_RESULT run_copy(bench *b) {
    const tsr_p2p *p2p = (const tsr_p2p *)b->x;
    const tsr_device_peers *peers = b->device->type->peers;
    uint64_t half = b->size_bytes / 2;
    TRY(b->ctx, peers->copy(b->ctx, b->device, TSR_PEER_MAIN,
                            p2p->peers[1 - b->t->rank].memory.address + half * b->t->rank,
                            b->memory.device + half * b->t->rank, half));
    return peers->wait(b->ctx, b->device);
}

static TSR_RESULT run_work(bench *b, work what) {
    static const uint32_t first_leaf[] = {0, 1, 2};
    size_t half = (size_t)b->size_bytes / 2, element = sizeof(float);
    const size_t first[] = {0, half, 2 * half},
                 elements[] = {0, half / element, 2 * half / element};
    const tsr_reduce_options reduce = {.reduction = TSR_REDUCTION_SUM_F32,
                                       .leaf_count = RANKS,
                                       .first_leaf = first_leaf,
                                       .rows = b->memory.host,
                                       .count = elements[2]};
    if (what == COPY) return run_copy(b);
    if (what == SCATTER)
        TRY(b->ctx, b->x->kind->reduce_scatter(b->ctx, b->x, &reduce, elements,
                                               b->memory.host + first[b->t->rank]));
    else
        TRY(b->ctx, b->x->kind->all_gather(b->ctx, b->x, b->memory.host, first));
    return b->x->kind->wait(b->ctx, b->x);
}

static TSR_RESULT measure(bench *b, const char *way, work what) {
    double seconds[ROUNDS];
    for (int i = -2; i < ROUNDS; i++) { /* the first rounds warm up */
        TRY(b->ctx, tsr_barrier(b->ctx, b->t));
        double start = tsr_clock_seconds();
        TRY(b->ctx, run_work(b, what));
        TRY(b->ctx, tsr_barrier(b->ctx, b->t));
        if (i >= 0) seconds[i] = tsr_clock_seconds() - start;
    }
    double middle = median_of(seconds, ROUNDS);
    if (b->t->rank == 0)
        printf("{\"bench\": \"exchange_speed\", \"way\": \"%s\", \"work\": \"%s\", \"mib\": %g, "
               "\"us\": %.1f, \"gb_s\": %.1f}\n",
               way, work_names[what], (double)b->size_bytes / (1 << 20), 1e6 * middle,
               (double)b->size_bytes / 2 / middle * 1e-9);
    return TSR_SUCCESS;
}

static TSR_RESULT measure_way(bench *b, const char *way) {
    const tsr_exchanger_options options = {
        .device = b->device, .memory = &b->memory, .transport = b->t, .same_offsets = true};
    b->t->exchange = way;
    TRY(b->ctx, tsr_exchanger_open(b->ctx, &options, &b->x));
    tsr_result result = TSR_SUCCESS;
    for (int what = SCATTER; what < WORKS && !result.code; what++)
        if (what != COPY || strcmp(way, "p2p") == 0) result = measure(b, way, (work)what);
    tsr_exchanger_close(b->x);
    return result;
}

static TSR_RESULT run_size(bench *b, uint64_t mib) {
    static const char *const ways[] = {"p2p", "host"};
    b->size_bytes = mib << 20;
    TRY(b->ctx, b->device->type->allocate(b->ctx, b->device, b->size_bytes, 0,
                                          (tsr_device_range){0, 0}, &b->memory));
    tsr_result result = TSR_SUCCESS;
    for (size_t i = 0; i < TSR_COUNT(ways) && !result.code; i++) result = measure_way(b, ways[i]);
    b->device->type->release(b->device, &b->memory);
    return result;
}

static int run_rank(int fd, uint32_t rank, int argc, char **argv) {
    tsr_ctx ctx = {0};
    bench b = {.ctx = &ctx};
    const tsr_shared_join_options join = {
        .size_bytes = sizeof join, .fd = fd, .rank = rank, .spin_ns = 50000};
    tsr_result result = tsr_shared_join(&ctx, &join, &b.t);
    if (!result.code) result = open_gpu(&b);
    if (result.code) {
        fprintf(stderr, "exchange_speed: rank %u: %s\n", rank, ctx.error.text);
        return SKIPPED;
    }
    size_t count = argc > 1 ? (size_t)argc - 1 : TSR_COUNT(sizes_mib);
    for (size_t i = 0; i < count && !result.code; i++)
        result = run_size(&b, strtoull(argc > 1 ? argv[1 + i] : sizes_mib[i], NULL, 10));
    if (result.code) fprintf(stderr, "exchange_speed: rank %u: %s\n", rank, ctx.error.text);
    fflush(stdout);
    tsr_device_close(b.device);
    tsr_transport_close(b.t);
    return result.code;
}

int main(int argc, char **argv) {
    tsr_ctx ctx = {0};
    const tsr_shared_options shared = {.size_bytes = sizeof shared, .rank_count = RANKS};
    int fd = -1, code = 0;
    pid_t pids[RANKS];
    if (tsr_shared_create(&ctx, &shared, &fd).code) return TSR_MEMORY;
    for (uint32_t r = 0; r < RANKS; r++) {
        pids[r] = fork();
        if (pids[r] == 0) _exit(run_rank(fd, r, argc, argv));
    }
    for (uint32_t r = 0; r < RANKS; r++) {
        int status = 0;
        if (pids[r] < 0 || waitpid(pids[r], &status, 0) != pids[r] || !WIFEXITED(status))
            code = TSR_RANK;
        else if (WEXITSTATUS(status))
            code = WEXITSTATUS(status);
    }
    return code;
}
