/* SPDX-License-Identifier: Apache-2.0
 *
 * A program with every collective, run by several numbers of ranks. The values are integers, so
 * that sums are exact and can be compared with a plain sum. The number of bytes sent between the
 * ranks is that of a ring. On the CPU, and on GPUs of a fake driver, which exchange in every way.
 */
#include "manifests/fatbin.h"
#include "runtime/base/array.h"
#include "runtime/exec/executor.h"
#include "tests/runtime/fake_gpu.h"
#include "tests/transport/ranks.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <string.h>

enum { V = 8, N = 21, PART = 3, BLOCK = 2, ROW = V * BLOCK, ROUNDS = 2 };

static float value_of(int64_t vrank, int64_t i) { return (float)((vrank + 1) * (i + 3) % 17 - 8); }

static void fill_kernel(const tsr_kernel_args *args, int64_t begin, int64_t end) {
    int64_t vrank = *(const int64_t *)args->buffers[0];
    float *values = args->buffers[1], *row = args->buffers[2];
    for (int64_t i = 0; begin < end && i < N; i++) values[i] = value_of(vrank, i);
    for (int64_t i = 0; begin < end && i < ROW; i++) row[i] = (float)(100 * vrank + i);
}

static void add_kernel(const tsr_kernel_args *args, int64_t begin, int64_t end) {
    const float *a = args->buffers[0], *b = args->buffers[1];
    float *sum = args->buffers[2];
    for (int64_t i = 0; begin < end && i < N; i++) sum[i] = a[i] + b[i];
}

#define VECTOR(n)                                                                                  \
    {                                                                                              \
        1, { n }                                                                                   \
    }
static tsr_config_tensor tensors[] = {
    {.name = "first", .role = TSR_ROLE_PARAM, .dtype = TSR_DTYPE_F32, .shape = VECTOR(N)}};
static tsr_config_port outputs[] = {
    {"reduced", TSR_DTYPE_F32, VECTOR(N), TSR_PORT_ARGUMENT, false, false, NULL, 0},
    {"gathered", TSR_DTYPE_F32, VECTOR(N), TSR_PORT_ARGUMENT, false, false, NULL, 0},
    {"mixed", TSR_DTYPE_F32, VECTOR(V *ROW), TSR_PORT_ARGUMENT, false, false, NULL, 0},
    {"listed", TSR_DTYPE_F32, VECTOR(V *N), TSR_PORT_ARGUMENT, false, false, NULL, 0},
};
static tsr_config_entry entries[] = {
    {.name = "train", .kind = TSR_ENTRY_TRAIN, .batch = V, .output_count = 4, .outputs = outputs}};
static const tsr_config config = {.version_major = 1,
                                  .name = "m",
                                  .producer = "test",
                                  .numerics = "portable",
                                  .virtual_ranks = V,
                                  .tensor_count = 1,
                                  .entry_count = 1,
                                  .tensors = tensors,
                                  .entries = entries};

enum {
    NUMBER,
    VALUES,
    ROWS,
    SUM,
    SUM_TOO,
    SLICE,
    MIXED,
    FIRST,
    REDUCED,
    GATHERED,
    ALL,
    LIST,
    LISTED,
    BUFFERS
};
static tsr_program_buffer buffers[BUFFERS] = {
    [NUMBER] = {TSR_SPACE_VRANK_NUMBER, 0, 0, TSR_DTYPE_I64, {0}, "", 0},
    [VALUES] = {TSR_SPACE_VRANK, 0, 0, TSR_DTYPE_F32, VECTOR(N), "", 0},
    [ROWS] = {TSR_SPACE_VRANK, 0, 128, TSR_DTYPE_F32, VECTOR(ROW), "", 0},
    [SUM] = {TSR_SPACE_SUMS, 0, 0, TSR_DTYPE_F32, VECTOR(N), "", 0},
    [SUM_TOO] = {TSR_SPACE_SUMS, 0, 128, TSR_DTYPE_F32, VECTOR(N), "", 0},
    [SLICE] = {TSR_SPACE_VRANK, 0, 192, TSR_DTYPE_F32, VECTOR(PART), "", 0},
    [MIXED] = {TSR_SPACE_VRANK, 0, 256, TSR_DTYPE_F32, VECTOR(ROW), "", 0},
    [FIRST] = {TSR_SPACE_TENSOR, 0, 0, TSR_DTYPE_F32, VECTOR(N), "", 0},
    [REDUCED] = {TSR_SPACE_OUTPUT, 0, 0, TSR_DTYPE_F32, VECTOR(N), "", 0},
    [GATHERED] = {TSR_SPACE_OUTPUT, 1, 0, TSR_DTYPE_F32, VECTOR(N), "", 0},
    [ALL] = {TSR_SPACE_OUTPUT, 2, 0, TSR_DTYPE_F32, VECTOR(V *ROW), "", 0},
    [LIST] = {TSR_SPACE_WORKSPACE, 0, 0, TSR_DTYPE_F32, VECTOR(V *N), "", 0},
    [LISTED] = {TSR_SPACE_OUTPUT, 3, 0, TSR_DTYPE_F32, VECTOR(V *N), "", 0},
};
static uint32_t fill[] = {NUMBER, VALUES, ROWS}, sum[] = {SUM, VALUES},
                sum_too[] = {SUM_TOO, VALUES};
static uint32_t reduce[] = {REDUCED, SUM}, scatter[] = {SLICE, SUM_TOO}, mix[] = {MIXED, ROWS};
static uint32_t gather[] = {GATHERED, SLICE}, send[] = {FIRST, VALUES}, join[] = {ALL, MIXED};
static uint32_t list[] = {LIST, VALUES}, show_list[] = {LISTED, LIST};
#define COLLECTIVE(kind, arguments)                                                                \
    { TSR_OP_COLLECTIVE, TSR_COLLECTIVE_##kind, 0, 0, 2, 0, arguments, "", 0, 0 }
static tsr_program_command commands[] = {
    {TSR_OP_EACH_VRANK, 0, 4, 0, 0, 0, NULL, "", 0, 0},
    {TSR_OP_LAUNCH, 0, 1, 0, 3, 1, fill, "", 0, 0},
    {TSR_OP_VRANK_SUM, 1, 1, 0, 2, 0, sum, "", 0, 0},
    {TSR_OP_VRANK_SUM, 1, 1, 0, 2, 0, sum_too, "", 0, 0},
    {TSR_OP_VRANK_GATHER, 0, 0, 0, 2, 0, list, "", 0, 0},
    {TSR_OP_COPY, 0, 0, 0, 2, 0, show_list, "", 0, 0},
    COLLECTIVE(ALL_REDUCE, reduce),
    COLLECTIVE(REDUCE_SCATTER, scatter),
    COLLECTIVE(ALL_GATHER, gather),
    COLLECTIVE(BROADCAST, send),
    COLLECTIVE(ALL_TO_ALL, mix),
    COLLECTIVE(ALL_GATHER, join),
};
static tsr_program_entry program_entries[] = {{.name = "train",
                                               .workspace_bytes = 704,
                                               .buffer_count = BUFFERS,
                                               .command_count = TSR_COUNT(commands),
                                               .buffers = buffers,
                                               .commands = commands}};
static const char *names[] = {"fill", "add"};
static const tsr_kernel_fn kernels[] = {fill_kernel, add_kernel};
static const tsr_program program = {2, 1, names, program_entries};

static int check_values(tsr_transport *t, const tsr_executor *executor) {
    const float *reduced = tsr_executor_get_output(executor, 0, 0);
    const float *gathered = tsr_executor_get_output(executor, 0, 1);
    const float *mixed = tsr_executor_get_output(executor, 0, 2);
    const float *first = tsr_executor_get_tensor(executor, 0);
    const float *listed = tsr_executor_get_output(executor, 0, 3);
    for (int i = 0; i < V * N; i++)
        EXPECT(listed[i] == value_of(i / N, i % N), "listed[%d] is %g", i, (double)listed[i]);
    for (int i = 0; i < N; i++) {
        float all = 0;
        for (int vrank = 0; vrank < V; vrank++) all += value_of(vrank, i);
        EXPECT(reduced[i] == all, "reduced[%d] is %g, not %g", i, (double)reduced[i], (double)all);
        EXPECT(gathered[i] == all, "gathered[%d] is %g, not %g", i, (double)gathered[i],
               (double)all);
        EXPECT(first[i] == value_of(0, i), "first[%d] is %g", i, (double)first[i]);
    }
    for (int to = 0; to < V; to++)
        for (int from = 0; from < V; from++)
            for (int i = 0; i < BLOCK; i++)
                EXPECT(mixed[to * ROW + from * BLOCK + i] == (float)(100 * from + to * BLOCK + i),
                       "virtual rank %d has %g of virtual rank %d", to,
                       (double)mixed[to * ROW + from * BLOCK + i], from);
    return 0;
}

typedef struct guarded {
    const tsr_executor *executor;
    int count;
} guarded;
static void count_guard(void *user, const void *tensor) {
    guarded *g = user;
    g->count += tensor == tsr_executor_get_tensor(g->executor, 0);
}

/* The planned bytes of this rank if all ranks have equal numbers of leaves. Few elements are
 * reduced by sending them to all ranks. */
static uint64_t planned_bytes(uint32_t ranks, uint32_t rank) {
    uint64_t vranks = V / ranks, others = ranks - 1;
    uint64_t begin = rank * vranks * PART, end = begin + vranks * PART;
    if (begin > N) begin = N;
    if (end > N) end = N;
    uint64_t part = end - begin;
    return sizeof(float) *
           (others * N + (N - part) + others * part + (rank ? 0 : others * N) +
            vranks * (V - vranks) * BLOCK + others * vranks * ROW + others * vranks * N);
}

static int run_rounds(tsr_ctx *ctx, tsr_transport *t, tsr_device *device) {
    tsr_executor *executor;
    EXPECT_OK(tsr_executor_create(ctx, &config, &program, device, t, &executor));
    guarded g = {.executor = executor};
    tsr_executor_set_guard(executor, count_guard, &g);
    for (int round = 1; round <= ROUNDS; round++) {
        EXPECT_OK(tsr_executor_claim(ctx, executor));
        memset(tsr_executor_get_tensor(executor, 0), 0, N * sizeof(float));
        uint64_t before = t->sent_bytes;
        EXPECT_OK(tsr_executor_run(ctx, executor, 0, (uint64_t)round));
        EXPECT_OK(tsr_executor_fetch(ctx, executor));
        if (check_values(t, executor)) return 1;
        EXPECT(g.count >= round, "a tensor was written unguarded");
        uint64_t sent = t->sent_bytes - before, planned = planned_bytes(t->rank_count, t->rank);
        EXPECT(sent == tsr_executor_plan_exchange(executor, 0),
               "sent %" PRIu64 " bytes, not as planned", sent);
        EXPECT(V % t->rank_count || sent == planned, "sent %" PRIu64 " bytes, not %" PRIu64, sent,
               planned);
    }
    tsr_executor_destroy(executor);
    return 0;
}

static int run_rank(tsr_ctx *ctx, tsr_transport *t, void *user) {
    tsr_threads *threads;
    tsr_device *device;
    (void)user;
    EXPECT_OK(tsr_threads_create(ctx, 1, &threads));
    EXPECT_OK(tsr_device_cpu_create(ctx, kernels, threads, &device));
    int failed = run_rounds(ctx, t, device);
    tsr_device_close(device);
    tsr_threads_destroy(threads);
    return failed;
}

/* Rank r has GPU r. `user` names the way to exchange. */
static int run_gpu_rank(tsr_ctx *ctx, tsr_transport *t, void *user) {
    static const fake_kernel of_fake[] = {
        {"fill", 3, fill_kernel}, {"add sums", 3, add_kernel}, {0}};
    static const char *const gpu_names[] = {"fill", "add sums"};
    static const tsr_fatbin_kernel launches[] = {{.threads = 32, .programs = 1},
                                                 {.threads = 32, .programs = 1}};
    static const tsr_fatbin_image image = {TSR_FATBIN_CUBIN, 90, true, "cubin90a", 9};
    const tsr_fatbin fatbin = {launches, 2, &image, 1};
    tsr_arena arena = {0};
    tsr_device *device;
    void *code = NULL, *library = dlopen(FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
    EXPECT(library, "%s", dlerror());
    fake_gpu *fake = dlsym(library, "fake");
    char selector[] = {(char)('0' + t->rank), 0};
    tsr_device_options options = {.selector = selector,
                                  .kernels = gpu_names,
                                  .kernel_count = 2,
                                  .library = FAKE_CUDA,
                                  .shares = true};
    fake->kernels = of_fake;
    fake->device_count = (int)t->rank_count;
    EXPECT_OK(tsr_fatbin_encode(ctx, &fatbin, &arena, &code, &options.code_size_bytes));
    options.code = code;
    EXPECT_OK(tsr_device_open(ctx, "cuda", &options, &device));
    t->exchange = user;
    int failed = run_rounds(ctx, t, device);
    tsr_device_close(device);
    tsr_arena_finish(&arena);
    EXPECT(failed || (!fake->allocations && !fake->windows && !fake->streams && !fake->hosts &&
                      !fake->events && !fake->modules),
           "open are %d allocations, %d windows, %d streams, %d of the host, %d events, %d modules",
           fake->allocations, fake->windows, fake->streams, fake->hosts, fake->events,
           fake->modules);
    return failed;
}

Test(collective, any_number_of_ranks_makes_the_same) {
    tsr_ctx ctx = {0};
    cr_assert_eq(tsr_program_verify(&ctx, &program, &config, TSR_CORRUPT).code, TSR_OK, "%s",
                 ctx.error.text);
    for (uint32_t ranks = 1; ranks <= V; ranks++) {
        ranks_options options = {RANKS_THREADS, ranks, 0, UINT64_C(60) * 1000000000u};
        cr_expect_eq(ranks_run(&options, run_rank, NULL), 0, "%u ranks", ranks);
    }
    ranks_options alone = {RANKS_LOOPBACK, 1, 0, 0};
    cr_expect_eq(ranks_run(&alone, run_rank, NULL), 0, "alone");
}

Test(collective, gpus_make_the_same) {
    static const char *const ways[] = {"host", "p2p"};
    for (size_t way = 0; way < TSR_COUNT(ways); way++)
        for (uint32_t ranks = 2; ranks <= V; ranks++) {
            ranks_options options = {RANKS_PROCESSES, ranks, 0, UINT64_C(60) * 1000000000u};
            cr_expect_eq(ranks_run(&options, run_gpu_rank, (void *)(uintptr_t)ways[way]), 0,
                         "%u ranks by %s", ranks, ways[way]);
        }
}
