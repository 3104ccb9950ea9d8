/* SPDX-License-Identifier: Apache-2.0
 *
 * Conformance tests for every way in which ranks on GPUs exchange: processes with GPUs of a fake
 * driver. All ranks draw sizes and values from one seed, so each knows the values of the others;
 * sums are compared with those of tsr_tree_reduce, bit by bit. Also failures: a rank that dies or
 * hangs, GPUs that cannot share memory, and every call of the driver.
 */
#include "manifests/fatbin.h"
#include "runtime/base/array.h"
#include "runtime/base/clock.h"
#include "runtime/exchange/exchange.h"
#include "tests/runtime/fake_gpu.h"
#include "tests/transport/ranks.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    MEMORY_BYTES = 8 << 20,
    HALF = MEMORY_BYTES / 2,
    ROUNDS = 6,
    RANKS_MAX = 8,
    CALLS_MAX = 40, /* of one function of the driver, in a test of failures */
};

/* What the ranks of a test do. */
typedef struct setup {
    const char *way;
    uint32_t seed;
    size_t chunk_bytes;
    bool same_offsets;
    /* The failing call: only on the rank with this number. */
    const char *fail;
    unsigned fail_at;
    uint32_t failing_rank;
    bool no_windows, no_access;
} setup;

/* One rank with its GPU. */
typedef struct bench {
    tsr_device *device;
    tsr_device_memory memory;
    tsr_exchanger *x;
    fake_gpu *fake;
    tsr_arena arena;
} bench;

static uint32_t next(uint32_t *state) { return *state = *state * 1664525u + 1013904223u; }

static tsr_result open_device(tsr_ctx *ctx, const tsr_transport *t, bench *b) {
    static const tsr_fatbin_image image = {TSR_FATBIN_CUBIN, 90, true, "cubin90a", 9};
    static const tsr_fatbin_kernel kernel = {.threads = 32, .programs = 1};
    static const char *const names[] = {"mean"};
    const tsr_fatbin fatbin = {&kernel, 1, &image, 1};
    char selector[16];
    void *code = NULL;
    snprintf(selector, sizeof selector, "%u", t->rank);
    tsr_device_options options = {.selector = selector,
                                  .kernels = names,
                                  .kernel_count = 1,
                                  .library = FAKE_CUDA,
                                  .shares = true};
    TRY(ctx, tsr_fatbin_encode(ctx, &fatbin, &b->arena, &code, &options.code_size_bytes));
    options.code = code;
    TRY(ctx, tsr_device_open(ctx, "cuda", &options, &b->device));
    return b->device->type->allocate(ctx, b->device, MEMORY_BYTES, 0, (tsr_device_range){0, 0},
                                     &b->memory);
}

static tsr_result open_bench(tsr_ctx *ctx, tsr_transport *t, const setup *s, bench *b) {
    void *library = dlopen(FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
    memset(b, 0, sizeof *b);
    if (!library) FAIL(ctx, TSR_MACHINE, "%s", dlerror());
    b->fake = dlsym(library, "fake");
    b->fake->device_count = (int)t->rank_count;
    b->fake->free_bytes = (size_t)1 << 30;
    b->fake->no_windows = s->no_windows;
    b->fake->no_access = s->no_access;
    TRY(ctx, open_device(ctx, t, b));
    if (s->fail && s->failing_rank == t->rank) {
        b->fake->fail = s->fail;
        b->fake->fail_at = s->fail_at;
        b->fake->fail_code = 700;
    }
    t->exchange = s->way;
    const tsr_exchanger_options options = {.device = b->device,
                                           .memory = &b->memory,
                                           .transport = t,
                                           .same_offsets = s->same_offsets,
                                           .chunk_bytes = s->chunk_bytes};
    return tsr_exchanger_open(ctx, &options, &b->x);
}

static void close_bench(bench *b) {
    tsr_exchanger_close(b->x);
    if (b->memory.host) b->device->type->release(b->device, &b->memory);
    tsr_device_close(b->device);
    tsr_arena_finish(&b->arena);
}

static bool has_open(const bench *b) {
    return b->fake->allocations || b->fake->windows || b->fake->streams || b->fake->hosts ||
           b->fake->events || b->fake->modules;
}

static tsr_result put(tsr_ctx *ctx, bench *b) {
    return b->device->type->upload(ctx, b->device, &b->memory, (tsr_device_range){0, MEMORY_BYTES});
}

/* Replaces the host's copy by the device's memory. */
static tsr_result get(tsr_ctx *ctx, bench *b) {
    memset(b->memory.host, 0x5a, MEMORY_BYTES);
    return b->device->type->download(ctx, b->device, &b->memory,
                                     (tsr_device_range){0, MEMORY_BYTES});
}

/* ---- reductions ---- */

/* A sum with its operands, drawn by all ranks alike. */
typedef struct sum {
    tsr_reduce_options options;
    uint32_t first_leaf[RANKS_MAX + 1];
    size_t first[RANKS_MAX + 1], offset; /* offset: of the rows in the memory */
    size_t row_bytes, total_rows;
    uint32_t first_row[RANKS_MAX + 1];
    char *rows;     /* of all ranks */
    char *expected; /* the full result */
} sum;

static void fill_row(char *row, tsr_reduction reduction, size_t count, uint32_t *state) {
    for (size_t i = 0; i < count; i++) {
        double value = ((double)next(state) - 2147483648.0) * (next(state) % 3 ? 1e-9 : 1e9);
        if (reduction == TSR_REDUCTION_SUM_F32) ((float *)(void *)row)[i] = (float)value;
        if (reduction == TSR_REDUCTION_SUM_F64) ((double *)(void *)row)[i] = value;
        if (reduction == TSR_REDUCTION_SUM_I64) ((int64_t *)(void *)row)[i] = (int64_t)next(state);
    }
}

static void draw_sum(uint32_t ranks, uint32_t *state, sum *s) {
    static const tsr_reduction kinds[] = {TSR_REDUCTION_SUM_F32, TSR_REDUCTION_SUM_F64,
                                          TSR_REDUCTION_SUM_I64};
    tsr_subtree subtrees[64];
    const void *values[64];
    tsr_reduction reduction = kinds[next(state) % TSR_COUNT(kinds)];
    uint32_t leaves = ranks + (next(state) >> 8) % 9;
    size_t element = tsr_reduction_get_size(reduction);
    size_t count = (next(state) >> 16) % 3 ? 1 + (next(state) >> 8) % 9000 : 1 + next(state) % 40;
    s->row_bytes = count * element;
    s->offset = (next(state) >> 8) % 1000 * 8;
    s->first_row[0] = 0;
    for (uint32_t r = 0; r <= ranks; r++) {
        s->first_leaf[r] = leaves * r / ranks;
        s->first[r] = r == ranks ? count : r == 0 ? 0 : count * r / ranks - (count > 99 ? r : 0);
    }
    for (uint32_t r = 0; r < ranks; r++)
        s->first_row[r + 1] =
            s->first_row[r] + tsr_tree_cover(leaves, s->first_leaf[r],
                                             s->first_leaf[r + 1] - s->first_leaf[r],
                                             subtrees + s->first_row[r]);
    s->total_rows = s->first_row[ranks];
    s->rows = malloc(s->total_rows * s->row_bytes);
    s->expected = malloc(s->row_bytes);
    char *scratch = malloc(TSR_TREE_DEPTH_MAX * s->row_bytes);
    for (size_t i = 0; i < s->total_rows; i++) {
        fill_row(s->rows + i * s->row_bytes, reduction, count, state);
        values[i] = s->rows + i * s->row_bytes;
    }
    tsr_tree_reduce(&(tsr_tree_inputs){reduction, leaves, subtrees, values, count, scratch},
                    s->expected);
    free(scratch);
    s->options = (tsr_reduce_options){.reduction = reduction,
                                      .leaf_count = leaves,
                                      .first_leaf = s->first_leaf,
                                      .stride_bytes = s->row_bytes + 64,
                                      .count = count};
}

static void finish_sum(sum *s) {
    free(s->rows);
    free(s->expected);
}

static void place_rows(const sum *s, uint32_t rank, bench *b) {
    memset(b->memory.host, 0xee, MEMORY_BYTES);
    for (uint32_t row = s->first_row[rank]; row < s->first_row[rank + 1]; row++)
        memcpy(b->memory.host + s->offset + (row - s->first_row[rank]) * s->options.stride_bytes,
               s->rows + row * s->row_bytes, s->row_bytes);
}

static int body_sums(tsr_ctx *ctx, tsr_transport *t, void *user) {
    const setup *given = user;
    uint32_t state = given->seed;
    bench b;
    EXPECT_OK(open_bench(ctx, t, given, &b));
    for (int round = 0; round < 2 * ROUNDS; round++) {
        sum s;
        draw_sum(t->rank_count, &state, &s);
        size_t element = tsr_reduction_get_size(s.options.reduction);
        bool scatters = round % 2, in_place = next(&state) >> 31;
        place_rows(&s, t->rank, &b);
        char *rows = b.memory.host + s.offset, *out = in_place ? rows : b.memory.host + HALF + 40;
        s.options.rows = rows;
        uint64_t before = t->sent_bytes;
        size_t begin = scatters ? s.first[t->rank] * element : 0;
        size_t end = scatters ? s.first[t->rank + 1] * element : s.row_bytes;
        EXPECT_OK(put(ctx, &b));
        if (scatters)
            EXPECT_OK(b.x->kind->reduce_scatter(ctx, b.x, &s.options, s.first, out + begin));
        else
            EXPECT_OK(b.x->kind->all_reduce(ctx, b.x, &s.options, out));
        EXPECT_OK(b.x->kind->wait(ctx, b.x));
        EXPECT_OK(get(ctx, &b));
        EXPECT(memcmp(out + begin, s.expected + begin, end - begin) == 0,
               "round %d: a sum of %zu elements from %u leaves has other bits", round,
               s.options.count, s.options.leaf_count);
        uint64_t planned = scatters ? tsr_reduce_scatter_plan(t, &s.options, s.first)
                                    : tsr_all_reduce_plan(t, &s.options);
        EXPECT(t->sent_bytes - before == planned, "sent %" PRIu64 " bytes, not %" PRIu64,
               t->sent_bytes - before, planned);
        finish_sum(&s);
    }
    close_bench(&b);
    EXPECT(!has_open(&b), "objects of the driver are open");
    return 0;
}

/* ---- copies ---- */

static unsigned char byte_of(uint32_t from, uint32_t to, size_t index) {
    return (unsigned char)(from * 31 + to * 17 + index * 7 + (index >> 8));
}

static int body_gathers(tsr_ctx *ctx, tsr_transport *t, void *user) {
    const setup *given = user;
    uint32_t state = given->seed;
    bench b;
    EXPECT_OK(open_bench(ctx, t, given, &b));
    for (int round = 0; round < ROUNDS; round++) {
        size_t first[RANKS_MAX + 1] = {0};
        uint32_t root = (next(&state) >> 8) % t->rank_count;
        for (uint32_t r = 0; r < t->rank_count; r++)
            first[r + 1] = first[r] + ((next(&state) >> 16) % 4 ? (next(&state) >> 8) % 60000 : 0);
        /* Without equal offsets, each rank has the values elsewhere. */
        char *all = b.memory.host + 24 + (given->same_offsets ? 0 : 1000 * t->rank);
        char *sent = b.memory.host + HALF + (given->same_offsets ? 0 : 8 * t->rank);
        memset(b.memory.host, 0xee, MEMORY_BYTES);
        for (size_t i = first[t->rank]; i < first[t->rank + 1]; i++)
            all[i] = (char)byte_of(t->rank, 99, i);
        for (size_t i = 0; t->rank == root && i < first[1]; i++)
            sent[i] = (char)byte_of(root, 5, i);
        EXPECT_OK(put(ctx, &b));
        EXPECT_OK(b.x->kind->all_gather(ctx, b.x, all, first));
        EXPECT_OK(b.x->kind->broadcast(ctx, b.x, root, sent, first[1]));
        EXPECT_OK(b.x->kind->wait(ctx, b.x));
        EXPECT_OK(get(ctx, &b));
        for (uint32_t r = 0; r < t->rank_count; r++)
            for (size_t i = first[r]; i < first[r + 1]; i++)
                EXPECT((unsigned char)all[i] == byte_of(r, 99, i), "byte %zu is not of rank %u", i,
                       r);
        for (size_t i = 0; i < first[1]; i++)
            EXPECT((unsigned char)sent[i] == byte_of(root, 5, i), "byte %zu is not of the root", i);
        EXPECT((unsigned char)all[first[t->rank_count]] == 0xee, "a byte behind was written");
    }
    close_bench(&b);
    EXPECT(!has_open(&b), "objects of the driver are open");
    return 0;
}

static int body_all_to_all(tsr_ctx *ctx, tsr_transport *t, void *user) {
    enum { ROOM = HALF / RANKS_MAX };
    const setup *given = user;
    uint32_t state = given->seed, n = t->rank_count;
    bench b;
    EXPECT_OK(open_bench(ctx, t, given, &b));
    for (int round = 0; round < ROUNDS; round++) {
        tsr_transport_segment sends[RANKS_MAX] = {{0}}, receives[RANKS_MAX] = {{0}};
        memset(b.memory.host, 0xee, MEMORY_BYTES);
        for (uint32_t from = 0; from < n; from++)
            for (uint32_t to = 0; to < n; to++) {
                size_t size = (next(&state) >> 8) % 50000;
                if (from == to || (next(&state) >> 16) % 5 == 0) continue;
                if (from == t->rank)
                    sends[to] = (tsr_transport_segment){b.memory.host + to * ROOM, size, true};
                if (to == t->rank)
                    receives[from] =
                        (tsr_transport_segment){b.memory.host + HALF + from * ROOM, size, true};
            }
        for (uint32_t r = 0; r < n; r++)
            for (size_t i = 0; i < sends[r].size_bytes; i++)
                ((unsigned char *)sends[r].bytes)[i] = byte_of(t->rank, r, i);
        EXPECT_OK(put(ctx, &b));
        EXPECT_OK(b.x->kind->all_to_all(ctx, b.x, sends, receives));
        EXPECT_OK(b.x->kind->wait(ctx, b.x));
        EXPECT_OK(get(ctx, &b));
        for (uint32_t r = 0; r < n; r++)
            for (size_t i = 0; i < receives[r].size_bytes; i++)
                EXPECT(((unsigned char *)receives[r].bytes)[i] == byte_of(r, t->rank, i),
                       "round %d: byte %zu from rank %u", round, i, r);
    }
    close_bench(&b);
    return 0;
}

/* Each rank pushes another number of times, and could compute between two pushes. */
static int body_pushes(tsr_ctx *ctx, tsr_transport *t, void *user) {
    enum { PIECE_MAX = 30000, PUSHES_MAX = 3, PIECES = 2 };
    setup given = *(const setup *)user;
    uint32_t state = given.seed, counts[RANKS_MAX];
    bench b;
    given.same_offsets = true;
    EXPECT_OK(open_bench(ctx, t, &given, &b));
    for (int round = 0; round < ROUNDS && b.x->kind->push; round++) {
        size_t size = 1 + (next(&state) >> 8) % PIECE_MAX;
        const tsr_transport_segment all = {b.memory.host, MEMORY_BYTES, true};
        uint64_t before = t->sent_bytes;
        for (uint32_t r = 0; r < t->rank_count; r++)
            counts[r] = 1 + (next(&state) >> 8) % PUSHES_MAX;
        memset(b.memory.host, 0xee, MEMORY_BYTES);
        for (size_t i = 0; i < counts[t->rank] * PIECES * size; i++)
            b.memory.host[t->rank * PUSHES_MAX * PIECES * PIECE_MAX + i] =
                (char)byte_of(t->rank, (uint32_t)round, i);
        EXPECT_OK(put(ctx, &b));
        EXPECT_OK(b.x->kind->offer(ctx, b.x, &all, 1));
        for (uint32_t k = 0; k < counts[t->rank]; k++) {
            char *from =
                b.memory.host + t->rank * PUSHES_MAX * PIECES * PIECE_MAX + k * PIECES * size;
            const tsr_transport_segment values[PIECES] = {{from, size, true},
                                                          {from + size, size, true}};
            EXPECT_OK(b.x->kind->push(ctx, b.x, values, PIECES));
        }
        EXPECT_OK(b.x->kind->collect(ctx, b.x, counts));
        EXPECT_OK(b.x->kind->wait(ctx, b.x));
        EXPECT_OK(get(ctx, &b));
        for (uint32_t r = 0; r < t->rank_count; r++)
            for (size_t i = 0; i < counts[r] * PIECES * size; i++)
                EXPECT((unsigned char)b.memory.host[r * PUSHES_MAX * PIECES * PIECE_MAX + i] ==
                           byte_of(r, (uint32_t)round, i),
                       "round %d: byte %zu of rank %u", round, i, r);
        EXPECT(t->sent_bytes - before ==
                   (uint64_t)counts[t->rank] * PIECES * size * (t->rank_count - 1),
               "sent %" PRIu64 " bytes", t->sent_bytes - before);
    }
    close_bench(&b);
    EXPECT(!has_open(&b), "objects of the driver are open");
    return 0;
}

static void run_on_all(const char *name, ranks_body body) {
    static const char *const ways[] = {
#define X(way, table) way,
#include "runtime/exchange/kinds.def"
#undef X
    };
    static const size_t chunks[] = {4096, 0};
    for (size_t way = 0; way < TSR_COUNT(ways); way++)
        for (uint32_t count = 2; count <= RANKS_MAX; count += count < 3 ? 1 : 2)
            for (size_t i = 0; i < TSR_COUNT(chunks); i++) {
                setup s = {ways[way], 7 * count + (uint32_t)i, chunks[i], i == 0, NULL, 0, 0, 0, 0};
                ranks_options options = {RANKS_PROCESSES, count, 0, UINT64_C(60) * 1000000000u};
                cr_expect_eq(ranks_run(&options, body, &s), 0, "%s by %s, %u ranks, chunks %zu",
                             name, ways[way], count, chunks[i]);
            }
}

Test(exchange, sums) { run_on_all("sums", body_sums); }
Test(exchange, gathers) { run_on_all("gathers", body_gathers); }
Test(exchange, pushes) { run_on_all("pushes", body_pushes); }
Test(exchange, all_to_all) { run_on_all("all to all", body_all_to_all); }

/* ---- failures ---- */

/* GPUs that cannot share memory exchange through the host, and say why; if p2p is requested, that
 * is an error on every rank. */
static int body_falls_back(tsr_ctx *ctx, tsr_transport *t, void *user) {
    const setup *given = user;
    const char *why = given->no_windows ? "cannot share its memory" : "has no access to the memory";
    bench b;
    tsr_result result = open_bench(ctx, t, given, &b);
    if (strcmp(given->way, "p2p") == 0) {
        EXPECT(result.code == TSR_MACHINE && strstr(ctx->error.text, why), "%s", ctx->error.text);
    } else {
        EXPECT(result.code == TSR_OK, "%s", ctx->error.text);
        EXPECT(strcmp(b.x->kind->name, "host") == 0 && strstr(b.x->reason, why), "by %s: %s",
               b.x->kind->name, b.x->reason);
    }
    close_bench(&b);
    EXPECT(!has_open(&b), "objects of the driver are open");
    return 0;
}

Test(exchange, gpus_without_access_use_the_host) {
    static const char *const ways[] = {"auto", "p2p"};
    for (size_t way = 0; way < TSR_COUNT(ways); way++)
        for (int how = 0; how < 2; how++) {
            setup s = {.way = ways[way], .no_windows = how == 0, .no_access = how == 1};
            ranks_options options = {RANKS_PROCESSES, 3, 0, UINT64_C(60) * 1000000000u};
            cr_expect_eq(ranks_run(&options, body_falls_back, &s), 0, "%s, %d", ways[way], how);
        }
}

static void *set_later(void *word) {
    usleep(700 * 1000);
    __atomic_store_n((uint32_t *)word, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* After an exchange, one rank's device works longer than the deadline: that is no failure. */
static int body_works_alone(tsr_ctx *ctx, tsr_transport *t, void *user) {
    uint32_t state = 3;
    pthread_t thread;
    bench b;
    sum s;
    EXPECT_OK(open_bench(ctx, t, user, &b));
    draw_sum(t->rank_count, &state, &s);
    place_rows(&s, t->rank, &b);
    memset(b.memory.host, 0, sizeof(uint32_t));
    s.options.rows = b.memory.host + s.offset + 64;
    EXPECT_OK(put(ctx, &b));
    EXPECT_OK(b.x->kind->all_reduce(ctx, b.x, &s.options, b.memory.host + HALF));
    EXPECT_OK(b.x->kind->wait(ctx, b.x));
    t->deadline_ns = UINT64_C(200000000);
    if (t->rank == 1) {
        const tsr_device_peers *peers = b.device->type->peers;
        uint32_t *word = (uint32_t *)(void *)b.memory.device;
        EXPECT(pthread_create(&thread, NULL, set_later, word) == 0, "no thread");
        EXPECT_OK(peers->await(ctx, b.device, TSR_PEER_MAIN, word, 1));
        EXPECT_OK(peers->wait(ctx, b.device));
        pthread_join(thread, NULL);
    }
    t->deadline_ns = UINT64_C(60000000000);
    finish_sum(&s);
    close_bench(&b);
    return 0;
}

Test(exchange, other_work_has_no_deadline) {
    setup s = {.way = "p2p", .same_offsets = true};
    ranks_options options = {RANKS_PROCESSES, 2, 0, UINT64_C(60) * 1000000000u};
    cr_expect_eq(ranks_run(&options, body_works_alone, &s), 0);
}

enum { DIES, HANGS, FAILS, GOES_ON };

/* Rank 1 does not come to the second sum, or sends garbage after it has failed. The others leave
 * their wait with an error about it. */
static int body_loses_a_rank(tsr_ctx *ctx, tsr_transport *t, void *user) {
    const setup *given = user;
    uint32_t state = 3;
    bench b;
    sum s;
    EXPECT_OK(open_bench(ctx, t, given, &b));
    draw_sum(t->rank_count, &state, &s);
    place_rows(&s, t->rank, &b);
    s.options.rows = b.memory.host + s.offset;
    EXPECT_OK(put(ctx, &b));
    EXPECT_OK(b.x->kind->all_reduce(ctx, b.x, &s.options, b.memory.host + HALF));
    EXPECT_OK(b.x->kind->wait(ctx, b.x));
    EXPECT_OK(tsr_barrier(ctx, t));
    if (t->rank == 1 && given->seed == DIES) raise(SIGKILL);
    if (t->rank == 1 && given->seed == HANGS) {
        usleep(1500 * 1000);
        _exit(0);
    }
    if (t->rank == 1) tsr_transport_fail(t, TSR_DATA, "its data is bad");
    if (t->rank == 1 && given->seed == GOES_ON)
        (void)!b.x->kind->all_reduce(ctx, b.x, &s.options, b.memory.host + HALF).code;
    if (t->rank != 1 && given->seed == GOES_ON) usleep(200 * 1000); /* its data have arrived */
    uint64_t began_ns = tsr_clock_ns();
    t->deadline_ns = UINT64_C(500000000);
    tsr_result result = t->rank == 1
                            ? tsr_fail_(ctx, TSR_RANK, 0, "", 0, "rank 1 has failed")
                            : b.x->kind->all_reduce(ctx, b.x, &s.options, b.memory.host + HALF);
    if (!result.code) result = b.x->kind->wait(ctx, b.x);
    double took_s = (double)(tsr_clock_ns() - began_ns) * 1e-9;
    const char *said = given->seed == HANGS ? "hangs" : "rank 1";
    EXPECT(result.code == TSR_RANK && strstr(ctx->error.text, said), "%s", ctx->error.text);
    EXPECT(took_s < 20, "it took %g s", took_s);
    close_bench(&b);
    EXPECT(!has_open(&b), "objects of the driver are open");
    finish_sum(&s);
    return 0;
}

Test(exchange, a_lost_rank_is_noticed) {
    static const char *const ways[] = {"p2p", "host"};
    for (size_t way = 0; way < TSR_COUNT(ways); way++)
        for (uint32_t how = DIES; how <= GOES_ON; how++) {
            setup s = {.way = ways[way], .seed = how, .same_offsets = true};
            ranks_options options = {RANKS_PROCESSES, how == GOES_ON ? 2 : 3, 0,
                                     UINT64_C(60) * 1000000000u};
            cr_expect_eq(ranks_run(&options, body_loses_a_rank, &s), how == DIES, "by %s, %u",
                         ways[way], how);
        }
}

/* A call of the driver fails on one rank: all ranks end, with an error or by another way. */
static int body_call_fails(tsr_ctx *ctx, tsr_transport *t, void *user) {
    const setup *given = user;
    uint32_t state = 3;
    bench b;
    sum s;
    t->deadline_ns = UINT64_C(20000000000);
    tsr_result result = open_bench(ctx, t, given, &b);
    draw_sum(t->rank_count, &state, &s);
    if (!result.code) {
        place_rows(&s, t->rank, &b);
        s.options.rows = b.memory.host + s.offset;
        result = put(ctx, &b);
    }
    if (!result.code) result = b.x->kind->all_reduce(ctx, b.x, &s.options, b.memory.host + HALF);
    if (!result.code) result = b.x->kind->wait(ctx, b.x);
    if (!result.code) result = get(ctx, &b);
    if (!result.code)
        EXPECT(memcmp(b.memory.host + HALF, s.expected, s.row_bytes) == 0, "the sum is wrong");
    bool reached = !b.fake->fail || b.fake->calls >= given->fail_at;
    if (result.code) tsr_transport_fail(t, (tsr_code)result.code, ctx->error.text);
    EXPECT(!result.code || ctx->error.text[0], "no error is told");
    close_bench(&b);
    EXPECT(!has_open(&b), "objects of the driver are open");
    finish_sum(&s);
    return reached ? 0 : 2;
}

Test(exchange, each_call_fails) {
    static const char *const symbols[] = {"cuDeviceCanAccessPeer",
                                          "cuMemGetAllocationGranularity",
                                          "cuMemCreate",
                                          "cuMemExportToShareableHandle",
                                          "cuMemImportFromShareableHandle",
                                          "cuMemAddressReserve",
                                          "cuMemMap",
                                          "cuMemSetAccess",
                                          "cuStreamWriteValue32_v2",
                                          "cuStreamWaitValue32_v2",
                                          "cuStreamQuery",
                                          "cuStreamCreate",
                                          "cuEventCreate",
                                          "cuModuleLoadDataEx",
                                          "cuLaunchKernel"};
    for (size_t i = 0; i < TSR_COUNT(symbols); i++) {
        unsigned reached = 0;
        for (; reached < CALLS_MAX; reached++) { /* until there are no more such calls */
            setup s = {.way = "auto",
                       .same_offsets = true,
                       .fail = symbols[i],
                       .fail_at = reached + 1,
                       .failing_rank = 1};
            ranks_options options = {RANKS_PROCESSES, 2, 0, UINT64_C(20) * 1000000000u};
            int failed = ranks_run(&options, body_call_fails, &s);
            if (failed && reached) break;
            cr_expect_eq(failed, 0, "%s, call %u", symbols[i], reached + 1);
        }
    }
}
