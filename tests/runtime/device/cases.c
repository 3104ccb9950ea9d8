/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/runtime/device/cases.h"

#include "runtime/base/array.h"
#include "runtime/base/clock.h"
#include "runtime/initialize.h"
#include "tests/runtime/device_bench.h"
#include "tests/runtime/offloaded_program.h"
#include "tests/runtime/toy.h"

#include <string.h>

/* ---- the device itself ----------------------------------------------------------------------- */

void device_case_memory(const char *device) {
    bench b;
    tsr_device_memory memory;
    bench_open(&b, device);
    const tsr_device_type *type = b.device->type;
    REQUIRE(strncmp(device, type->name, strlen(type->name)) == 0, "%s", type->name);
    REQUIRE(strlen(type->describe(b.device)) > 0, "%s", type->name);
    bench_must(&b, type->allocate(&b.ctx, b.device, 1000, 0, (tsr_device_range){0, 800}, &memory));
    REQUIRE((memory.host == memory.device) == type->shares_memory, "%s", device);
    for (int i = 0; i < 1000; i++) REQUIRE(memory.host[i] == 0, "byte %d", i);
    memset(memory.host, 7, 1000);
    bench_must(&b, type->upload(&b.ctx, b.device, &memory, (tsr_device_range){100, 700}));
    if (!type->shares_memory) memset(memory.host, 1, 1000);
    bench_must(&b, type->download(&b.ctx, b.device, &memory, (tsr_device_range){0, 500}));
    for (int i = 0; i < 1000 && !type->shares_memory; i++) {
        int expected = i >= 500 ? 1 : i >= 100 ? 7 : 0;
        REQUIRE(memory.host[i] == expected, "%s, byte %d: %d", device, i, memory.host[i]);
    }
    type->release(b.device, &memory);
    REQUIRE(!memory.host, "%s", device);
    bench_close(&b);
}

/* The commands are timed if that is requested. */
static void require_spans(bench *b, const tsr_device_memory *memory, tsr_device_list *list) {
    tsr_device_span spans[4] = {{0, 0}, {0, 0}, {0, 0}, {0, 0}};
    tsr_fault fault;
    uint32_t command = 0;
    uint64_t before = tsr_clock_ns();
    list->spans = spans;
    bench_must(b, b->device->type->run(&b->ctx, b->device, memory, list, &fault, &command));
    REQUIRE(before <= spans[0].begin_ns && spans[0].begin_ns <= spans[0].end_ns &&
                spans[0].end_ns <= spans[1].begin_ns && spans[1].begin_ns <= spans[1].end_ns &&
                spans[1].end_ns <= tsr_clock_ns(),
            "%s: %lu to %lu, %lu to %lu", b->device->type->name, spans[0].begin_ns, spans[0].end_ns,
            spans[1].begin_ns, spans[1].end_ns);
    bool moves = b->device->type->gpu != NULL;
    REQUIRE((spans[2].begin_ns > 0 && spans[2].end_ns <= spans[0].begin_ns) == moves, "inputs");
    REQUIRE((spans[3].begin_ns >= spans[1].end_ns && spans[3].end_ns <= tsr_clock_ns()) == moves,
            "outputs");
    list->spans = NULL;
}

/* Inputs are uploaded, copies are made in order, outputs are downloaded; no other bytes are
 * changed. */
void device_case_copies(const char *device) {
    bench b;
    tsr_device_memory memory;
    bench_open(&b, device);
    const tsr_device_type *type = b.device->type;
    bench_must(&b, type->allocate(&b.ctx, b.device, 256, 0, (tsr_device_range){0, 256}, &memory));
    void *first[] = {memory.device + 64, memory.device},
         *second[] = {memory.device + 128, memory.device + 64};
    tsr_device_command commands[] = {
        {.kind = TSR_DEVICE_COPY, .buffer_count = 2, .buffers = first, .copy_bytes = 64},
        {.kind = TSR_DEVICE_COPY, .buffer_count = 2, .buffers = second, .copy_bytes = 32}};
    tsr_device_list list = {.name = "copies",
                            .commands = commands,
                            .command_count = 2,
                            .inputs = {0, 64},
                            .outputs = {128, 64}};
    bench_must(&b, type->prepare(&b.ctx, b.device, &memory, &list));
    for (int round = 1; round < 4; round++) {
        tsr_fault fault;
        uint32_t command = 77;
        memset(memory.host, round, 64);
        bench_must(&b, type->run(&b.ctx, b.device, &memory, &list, &fault, &command));
        REQUIRE(fault.kind == TSR_FAULT_NONE && command == 77, "command %u", command);
        for (int i = 128; i < 192; i++)
            REQUIRE(memory.host[i] == (i < 160 ? round : 0), "%s, byte %d", device, i);
        REQUIRE(memory.host[64] == (type->shares_memory ? round : 0), "%s", device);
    }
    require_spans(&b, &memory, &list);
    if (list.prepared) type->finish(b.device, &list);
    type->release(b.device, &memory);
    bench_close(&b);
}

/* Memory of the caller on the device: here that of another allocation. */
void device_case_callers_memory(const char *device) {
    bench b;
    tsr_device_memory memory;
    unsigned char to[64] = {0}, from[64];
    bench_open(&b, device);
    const tsr_device_type *type = b.device->type;
    REQUIRE(!type->read_caller == type->shares_memory && !type->write_caller == type->shares_memory,
            "%s", device);
    if (!type->shares_memory) {
        bench_must(&b,
                   type->allocate(&b.ctx, b.device, 256, 0, (tsr_device_range){0, 256}, &memory));
        for (int i = 0; i < 64; i++) from[i] = (unsigned char)(3 * i + 1);
        memset(memory.host, 0x55, 256);
        bench_must(&b, type->write_caller(&b.ctx, b.device, from, memory.device + 100, 64));
        REQUIRE(memory.host[100] == 0x55, "%s: the host's copy is not touched", device);
        bench_must(&b, type->read_caller(&b.ctx, b.device, memory.device + 100, to, 64));
        REQUIRE(memcmp(to, from, 64) == 0, "%s", device);
        bench_must(&b, type->read_caller(&b.ctx, b.device, memory.device + 132, to, 64));
        REQUIRE(memcmp(to, from + 32, 32) == 0 && to[32] == 0, "%s: zeros follow", device);
        REQUIRE(type->get_number(b.device) >= 0, "%s", device);
        bench_must(&b, type->await_caller(&b.ctx, b.device, NULL));
        type->release(b.device, &memory);
    }
    bench_close(&b);
}

void device_case_limits(const char *device) {
    bench b;
    tsr_limits limits = {-1, -1, -1};
    bench_open(&b, device);
    if (!b.device->type->shares_memory && fake) fake->free_bytes = 1u << 30;
    bench_must(&b, b.device->type->measure(&b.ctx, b.device, &limits));
    bool is_cpu = strcmp(device, "cpu") == 0, is_cuda = strncmp(device, "cuda", 4) == 0;
    bool is_gpu = b.device->type->gpu != NULL;
    REQUIRE((limits.bytes_per_s > 1e8) == (is_cpu || is_gpu), "%s", device);
    REQUIRE((limits.flops_per_s > 1e8) == (is_cpu || is_cuda), "%s", device);
    REQUIRE((limits.matrix_flops_per_s > 1e8) == is_cuda, "%s", device);
    bench_close(&b);
}

/* ---- copies concurrent with other commands --------------------------------------------------- */

/* Indices of blocks: two inputs, two outputs, two values, zeros, and the destinations of the
 * prefetches. */
enum { IN, OUT = 2, VALUE = 4, ZERO = 6, BACK = 7, BLOCKS = 9 };
enum {
    BLOCK_BYTES = 2 << 20,
    MOVES = 17
}; /* large enough that a GPU runs the next command concurrently */

typedef struct moves {
    tsr_device_command commands[MOVES];
    void *buffers[MOVES][2];
    tsr_device_list list;
} moves;

static void add_move(moves *m, const tsr_device_memory *memory, tsr_device_command_kind kind,
                     int to, int from) {
    uint32_t at = m->list.command_count++;
    bool offloads = kind == TSR_DEVICE_OFFLOAD, prefetches = kind == TSR_DEVICE_PREFETCH;
    m->buffers[at][0] = (offloads ? memory->offloaded : memory->device) + (size_t)to * BLOCK_BYTES;
    m->buffers[at][1] =
        (prefetches ? memory->offloaded : memory->device) + (size_t)from * BLOCK_BYTES;
    m->commands[at] = (tsr_device_command){.kind = kind,
                                           .buffer_count = 2,
                                           .buffers = m->buffers[at],
                                           .copy_bytes = BLOCK_BYTES,
                                           .location = ""};
}

static void add_await(moves *m, uint32_t awaited) {
    m->commands[m->list.command_count++] =
        (tsr_device_command){.kind = TSR_DEVICE_AWAIT, .awaited = awaited, .location = ""};
}

/* If `guarded` is the number of a command, a separate graph begins at that command. */
static void make_moves(moves *m, const tsr_device_memory *memory, uint32_t guarded) {
    static void *const anything[] = {NULL};
    *m = (moves){.list = {.name = "moves"}};
    add_move(m, memory, TSR_DEVICE_COPY, VALUE, IN);
    add_move(m, memory, TSR_DEVICE_COPY, VALUE + 1, IN + 1);
    add_move(m, memory, TSR_DEVICE_OFFLOAD, 0, VALUE);
    add_move(m, memory, TSR_DEVICE_OFFLOAD, 1, VALUE + 1);
    add_move(m, memory, TSR_DEVICE_COPY, BACK, VALUE); /* concurrent with both offloads */
    add_await(m, 2);
    add_move(m, memory, TSR_DEVICE_COPY, VALUE, ZERO);
    add_await(m, 3);
    add_move(m, memory, TSR_DEVICE_COPY, VALUE + 1, ZERO);
    add_move(m, memory, TSR_DEVICE_COPY, BACK, ZERO);
    add_move(m, memory, TSR_DEVICE_PREFETCH, BACK, 0);
    add_move(m, memory, TSR_DEVICE_PREFETCH, BACK + 1, 1);
    add_move(m, memory, TSR_DEVICE_COPY, VALUE, VALUE + 1); /* concurrent with both prefetches */
    add_await(m, 11);
    add_move(m, memory, TSR_DEVICE_COPY, OUT + 1, BACK + 1);
    add_await(m, 10);
    add_move(m, memory, TSR_DEVICE_COPY, OUT, BACK);
    REQUIRE(m->list.command_count == MOVES, "%u commands", m->list.command_count);
    m->list.commands = m->commands;
    m->list.inputs = (tsr_device_range){IN * BLOCK_BYTES, 2 * BLOCK_BYTES};
    m->list.outputs = (tsr_device_range){OUT * BLOCK_BYTES, 2 * BLOCK_BYTES};
    if (guarded == MOVES) return;
    m->commands[guarded].guarded = anything;
    m->commands[guarded].guarded_count = 1;
}

static void fill_block(char *block, unsigned seed) {
    for (size_t i = 0; i < BLOCK_BYTES; i++) block[i] = (char)(seed + i / 251 + i);
}

static void run_moves(bench *b, const tsr_device_memory *memory, moves *m, unsigned round) {
    tsr_fault fault;
    uint32_t command = 0;
    for (unsigned i = 0; i < 2; i++)
        fill_block(memory->host + (IN + i) * (size_t)BLOCK_BYTES, 7 * round + i);
    memset(memory->host + OUT * (size_t)BLOCK_BYTES, 0, 2 * (size_t)BLOCK_BYTES);
    memset(memory->offloaded, 0, 2 * (size_t)BLOCK_BYTES);
    bench_must(b, b->device->type->run(&b->ctx, b->device, memory, &m->list, &fault, &command));
    for (size_t i = 0; i < 2; i++) {
        const char *in = memory->host + (IN + i) * BLOCK_BYTES;
        REQUIRE(memcmp(memory->host + (OUT + i) * BLOCK_BYTES, in, BLOCK_BYTES) == 0,
                "%s, round %u: value %zu came back as another", b->device->type->name, round, i);
        REQUIRE(memcmp(memory->offloaded + i * BLOCK_BYTES, in, BLOCK_BYTES) == 0,
                "%s, round %u: value %zu lies there as another", b->device->type->name, round, i);
    }
}

/* Each copy has times of its own: it begins after the preceding copy ends, and it ends before it is
 * awaited. If `late`, it begins only then. */
static void require_times(bench *b, const tsr_device_memory *memory, moves *m, bool late) {
    tsr_device_span spans[MOVES + 2] = {{0, 0}};
    m->list.spans = spans;
    run_moves(b, memory, m, 9);
    m->list.spans = NULL;
    REQUIRE(!late || spans[2].begin_ns >= spans[4].end_ns, "the first is not timed by itself");
    for (uint32_t i = 0; i < MOVES; i++) {
        const tsr_device_command *command = &m->commands[i];
        REQUIRE(spans[i].begin_ns && spans[i].begin_ns <= spans[i].end_ns, "command %u", i);
        if (command->kind == TSR_DEVICE_AWAIT)
            REQUIRE(spans[command->awaited].end_ns <= spans[i].end_ns,
                    "%s: command %u is awaited by %lu, but ends at %lu", b->device->type->name,
                    command->awaited, spans[i].end_ns, spans[command->awaited].end_ns);
        bool overlap = command->kind == TSR_DEVICE_OFFLOAD || command->kind == TSR_DEVICE_PREFETCH;
        uint32_t before = i;
        while (before-- > 0 && m->commands[before].kind != TSR_DEVICE_COPY) continue;
        if (overlap)
            REQUIRE(spans[i].begin_ns >= spans[before].end_ns,
                    "%s: command %u begins at %lu, the one before it ends at %lu",
                    b->device->type->name, i, spans[i].begin_ns, spans[before].end_ns);
    }
}

/* `guarded`: number of the guarded command of the list, or MOVES. `early`: see fake_gpu.h. */
static void move_values(const char *device, uint32_t guarded, bool one_by_one, bool early) {
    bench b;
    moves m;
    tsr_device_memory memory;
    bench_open_as(&b, device, &(tsr_device_options){.one_by_one = one_by_one});
    const tsr_device_type *type = b.device->type;
    if (fake) fake->free_bytes = 1u << 30;
    if (fake) fake->early = early;
    int streams = fake ? fake->streams : 0, moved = fake ? fake->concurrent_moves : 0;
    bench_must(&b, type->allocate(&b.ctx, b.device, BLOCKS * (uint64_t)BLOCK_BYTES,
                                  2 * (uint64_t)BLOCK_BYTES,
                                  (tsr_device_range){0, VALUE * (uint64_t)BLOCK_BYTES}, &memory));
    REQUIRE(memory.offloaded && memory.offloaded_bytes >= 2 * BLOCK_BYTES, "%s", device);
    for (size_t i = 0; i < 2 * BLOCK_BYTES; i++) REQUIRE(memory.offloaded[i] == 0, "byte %zu", i);
    make_moves(&m, &memory, guarded);
    bench_must(&b, type->prepare(&b.ctx, b.device, &memory, &m.list));
    for (unsigned round = 1; round < 4; round++) run_moves(&b, &memory, &m, round);
    bool is_faked = type->gpu && fake, one_graph = !one_by_one && guarded == MOVES;
    require_times(&b, &memory, &m, is_faked && one_graph && !early);
    run_moves(&b, &memory, &m, 5);
    if (is_faked && one_graph) REQUIRE(fake->lanes == 3, "%d streams in a graph", fake->lanes);
    if (is_faked)
        REQUIRE(fake->streams == streams + (one_by_one ? 0 : 2) &&
                    fake->concurrent_moves == moved + (one_by_one ? 0 : 5 * 4),
                "%d more streams, %d copies in them", fake->streams - streams,
                fake->concurrent_moves - moved);
    if (m.list.prepared) type->finish(b.device, &m.list);
    type->release(b.device, &memory);
    REQUIRE(!memory.offloaded, "%s", device);
    if (fake) fake->early = false;
    bench_close(&b);
}

/* The copies contain the values from before the commands that follow the await. The results are the
 * same if a graph ends before the await, and if the copies run as early or as late as possible. */
void device_case_offloads(const char *device) {
    static const uint32_t guarded[] = {MOVES, 4, 6, 12, 14};
    for (size_t i = 0; i < TSR_COUNT(guarded); i++)
        for (int way = 0; way < 3; way++) move_values(device, guarded[i], way == 0, way == 1);
}

/* The same with a program. */
void device_case_values_offloaded(const char *device) {
    bench b;
    offloaded_program p;
    tsr_executor *executor = NULL;
    tsr_memory_plan plan;
    bench_open(&b, device);
    offloaded_make(&p);
    bench_must(&b, tsr_program_verify(&b.ctx, &p.program, &p.config, TSR_CORRUPT));
    bench_must(&b, tsr_executor_plan(&b.ctx, &p.config, &p.program, NULL, &plan));
    REQUIRE(plan.offloaded_bytes == 2 * OFFLOADED_BYTES, "%lu", plan.offloaded_bytes);
    bench_must(&b, tsr_executor_create(&b.ctx, &p.config, &p.program, b.device, NULL, &executor));
    for (int run = 1; run < 4; run++) {
        for (size_t i = 0; i < 2; i++)
            for (int k = 0; k < OFFLOADED_COUNT; k++)
                ((float *)tsr_executor_get_input(executor, 0, i))[k] =
                    (float)(1000 * run + 7000 * (int)i + k) / 2;
        bench_must(&b, tsr_executor_run(&b.ctx, executor, 0, 0));
        for (size_t i = 0; i < 2; i++)
            REQUIRE(memcmp(tsr_executor_get_output(executor, 0, i),
                           tsr_executor_get_input(executor, 0, i), OFFLOADED_BYTES) == 0,
                    "%s, run %d: y%zu", device, run, i);
    }
    tsr_executor_destroy(executor);
    bench_close(&b);
}

/* ---- loops ----------------------------------------------------------------------------------- */

/* Writes xs to ys in reverse order and their last row to y, three times if `go` remains true:
 * copies with changing addresses, and conditions in device memory. */
static const tsr_shape loop_row = {1, {4}}, loop_rows = {2, {3, 4}};
enum { LOOP_X, LOOP_GO, LOOP_YS, LOOP_Y, LOOP_SLICE, LOOP_ALL, LOOP_LAST, LOOP_BUFFERS };

static void make_loop(tsr_program_entry *entry) {
    static tsr_program_buffer buffers[LOOP_BUFFERS] = {
        [LOOP_X] = {.space = TSR_SPACE_INPUT},
        [LOOP_GO] = {.space = TSR_SPACE_INPUT, .index = 1},
        [LOOP_YS] = {.space = TSR_SPACE_OUTPUT},
        [LOOP_Y] = {.space = TSR_SPACE_OUTPUT, .index = 1},
        [LOOP_SLICE] = {.space = TSR_SPACE_WORKSPACE},
        [LOOP_ALL] = {.space = TSR_SPACE_WORKSPACE, .offset_bytes = 64},
        [LOOP_LAST] = {.space = TSR_SPACE_WORKSPACE, .offset_bytes = 128}};
    static uint32_t go[] = {LOOP_GO}, take[] = {LOOP_SLICE, LOOP_X}, put[] = {LOOP_ALL, LOOP_SLICE},
                    keep[] = {LOOP_LAST, LOOP_SLICE}, all[] = {LOOP_YS, LOOP_ALL},
                    last[] = {LOOP_Y, LOOP_LAST};
    static tsr_program_command commands[] = {
        {TSR_OP_REPEAT, 5, 3, 0, 0, 0, go, "", 0, 0}, {TSR_OP_STOP, 0, 0, 0, 1, 1, go, "", 0, 0},
        {TSR_OP_TAKE, 1, 0, 0, 2, 0, take, "", 0, 0}, {TSR_OP_PUT, 0, 0, 0, 2, 0, put, "", 0, 0},
        {TSR_OP_WHEN, 1, 0, 0, 1, 1, go, "", 0, 0},   {TSR_OP_COPY, 0, 0, 0, 2, 0, keep, "", 0, 0},
        {TSR_OP_COPY, 0, 0, 0, 2, 0, all, "", 0, 0},  {TSR_OP_COPY, 0, 0, 0, 2, 0, last, "", 0, 0}};
    for (uint32_t i = 0; i < LOOP_BUFFERS; i++) {
        bool whole = i == LOOP_X || i == LOOP_YS || i == LOOP_ALL;
        buffers[i].dtype = i == LOOP_GO ? TSR_DTYPE_I1 : TSR_DTYPE_F32;
        buffers[i].shape = i == LOOP_GO ? (tsr_shape){0} : whole ? loop_rows : loop_row;
        buffers[i].name = "";
    }
    *entry = (tsr_program_entry){.name = "f",
                                 .workspace_bytes = 192,
                                 .buffer_count = LOOP_BUFFERS,
                                 .command_count = TSR_COUNT(commands),
                                 .buffers = buffers,
                                 .commands = commands};
}

static void run_loop(bench *b, const tsr_config *config, const tsr_program *program) {
    tsr_executor *executor = NULL;
    bench_must(b, tsr_program_verify(&b->ctx, program, config, TSR_CORRUPT));
    bench_must(b, tsr_executor_create(&b->ctx, config, program, b->device, NULL, &executor));
    float *x = tsr_executor_get_input(executor, 0, 0);
    uint8_t *go = tsr_executor_get_input(executor, 0, 1);
    const float *ys = tsr_executor_get_output(executor, 0, 0);
    const float *y = tsr_executor_get_output(executor, 0, 1);
    for (int i = 0; i < 12; i++) x[i] = (float)(1 + i);
    for (int run = 0; run < 3; run++) {
        *go = run > 0;
        bench_must(b, tsr_executor_run(&b->ctx, executor, 0, 0));
        for (int i = 0; i < 12; i++)
            REQUIRE(ys[i] == (run ? x[(2 - i / 4) * 4 + i % 4] : 0), "run %d, ys[%d]", run, i);
        for (int i = 0; i < 4; i++) REQUIRE(y[i] == (run ? x[i] : 0), "run %d, y[%d]", run, i);
    }
    tsr_executor_destroy(executor);
}

void device_case_loops(const char *device) {
    tsr_config_port in[] = {
        {"x", TSR_DTYPE_F32, loop_rows, TSR_PORT_ARGUMENT, false, false, NULL, 0},
        {"go", TSR_DTYPE_I1, {0}, TSR_PORT_ARGUMENT, false, false, NULL, 0}};
    tsr_config_port out[] = {
        {"ys", TSR_DTYPE_F32, loop_rows, TSR_PORT_ARGUMENT, false, false, NULL, 0},
        {"y", TSR_DTYPE_F32, loop_row, TSR_PORT_ARGUMENT, false, false, NULL, 0}};
    tsr_config_entry declared = {.name = "f",
                                 .kind = TSR_ENTRY_INFER,
                                 .inputs = in,
                                 .input_count = 2,
                                 .outputs = out,
                                 .output_count = 2};
    const tsr_config config = {.version_major = 1,
                               .name = "m",
                               .producer = "test",
                               .numerics = "portable",
                               .virtual_ranks = 1,
                               .entry_count = 1,
                               .entries = &declared};
    const char *kernels[] = {"k"};
    tsr_program_entry entry;
    make_loop(&entry);
    bench b;
    bench_open(&b, device);
    run_loop(&b, &config, &(tsr_program){1, 1, kernels, &entry});
    bench_close(&b);
}

/* ---- hyper-parameters ------------------------------------------------------------------------ */

/* One of f64 and f32, and another one, are copied to outputs: each run, also of a captured graph,
 * has the values that were set last. */
static void run_hyperparameters(bench *b, const tsr_config *config, const tsr_program *program) {
    tsr_executor *executor = NULL;
    bench_must(b, tsr_program_verify(&b->ctx, program, config, TSR_CORRUPT));
    bench_must(b, tsr_executor_create(&b->ctx, config, program, b->device, NULL, &executor));
    const double lr[] = {0.1, 0.1, 0.003, 0.7}, eps[] = {0.5, 0.5, 0.5, 1e-8};
    for (int run = 0; run < 4; run++) {
        if (run == 1) tsr_executor_set_hyperparameter(executor, "lrr", 9);
        if (run > 1) tsr_executor_set_hyperparameter(executor, "lr", lr[run]);
        if (run == 3) tsr_executor_set_hyperparameter(executor, "eps", eps[run]);
        bench_must(b, tsr_executor_run(&b->ctx, executor, 0, (uint64_t)run + 1));
        double wide = *(double *)tsr_executor_get_output(executor, 0, 0);
        float narrow = *(float *)tsr_executor_get_output(executor, 0, 1);
        double other = *(double *)tsr_executor_get_output(executor, 0, 2);
        REQUIRE(wide == lr[run] && narrow == (float)lr[run], "run %d has %g and %g", run, wide,
                (double)narrow);
        REQUIRE(other == eps[run], "run %d has %g", run, other);
    }
    tsr_executor_destroy(executor);
}

void device_case_hyperparameters(const char *device) {
    enum { COUNT = 3 };
    const tsr_config_hyperparameter lr = {"lr", 0.1, 0, 1}, eps = {"eps", 0.5, 1e-30, 1};
    const tsr_dtype dtypes[COUNT] = {TSR_DTYPE_F64, TSR_DTYPE_F32, TSR_DTYPE_F64};
    const char *names[COUNT] = {"lr", "lr_", "eps"};
    tsr_config_port in[COUNT], out[COUNT];
    tsr_program_buffer buffers[2 * COUNT];
    uint32_t arguments[COUNT][2];
    tsr_program_command commands[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        in[i] = (tsr_config_port){.name = names[i],
                                  .dtype = dtypes[i],
                                  .source = TSR_PORT_HYPERPARAMETER,
                                  .hyperparameter = i < 2 ? &lr : &eps};
        out[i] =
            (tsr_config_port){.name = names[i], .dtype = dtypes[i], .source = TSR_PORT_ARGUMENT};
        buffers[i] = (tsr_program_buffer){
            .space = TSR_SPACE_OUTPUT, .index = i, .dtype = dtypes[i], .name = ""};
        buffers[COUNT + i] = (tsr_program_buffer){
            .space = TSR_SPACE_INPUT, .index = i, .dtype = dtypes[i], .name = ""};
        arguments[i][0] = i;
        arguments[i][1] = COUNT + i;
        commands[i] = (tsr_program_command){
            .opcode = TSR_OP_COPY, .argument_count = 2, .arguments = arguments[i], .location = ""};
    }
    tsr_config_entry declared = {.name = "f",
                                 .kind = TSR_ENTRY_TRAIN,
                                 .inputs = in,
                                 .input_count = COUNT,
                                 .outputs = out,
                                 .output_count = COUNT};
    const tsr_config config = {.version_major = 1,
                               .name = "m",
                               .producer = "test",
                               .numerics = "portable",
                               .virtual_ranks = 1,
                               .entry_count = 1,
                               .entries = &declared};
    const char *kernels[] = {"k"};
    tsr_program_entry entry = {.name = "f",
                               .buffer_count = 2 * COUNT,
                               .command_count = COUNT,
                               .buffers = buffers,
                               .commands = commands};
    bench b;
    bench_open(&b, device);
    run_hyperparameters(&b, &config, &(tsr_program){1, 1, kernels, &entry});
    bench_close(&b);
}

/* ---- the executor ---------------------------------------------------------------------------- */

typedef struct trained {
    float w[4], losses[14];
    int64_t count;
} trained;

static tsr_executor *create(bench *b) {
    tsr_executor *executor = NULL;
    bench_must(b,
               tsr_executor_create(&b->ctx, &toy_config, &toy_program, b->device, NULL, &executor));
    return executor;
}

static void train(bench *b, tsr_executor *executor, uint64_t steps, float out_losses[]) {
    uint8_t *x = tsr_executor_get_input(executor, TOY_TRAIN, 0);
    for (uint64_t step = 1; step <= steps; step++) {
        for (int i = 0; i < 8; i++) x[i] = (uint8_t)(step * 31 + (uint64_t)i * 7);
        bench_must(b, tsr_executor_run(&b->ctx, executor, TOY_TRAIN, step));
        out_losses[step - 1] = *(float *)tsr_executor_get_output(executor, TOY_TRAIN, 0);
    }
}

static void train_on(const char *device, trained *out) {
    bench b;
    bench_open(&b, device);
    tsr_executor *executor = create(&b);
    float *w = tsr_executor_get_tensor(executor, 0);
    int64_t *count = tsr_executor_get_tensor(executor, 1);
    for (int i = 0; i < 4; i++) w[i] = (float)i;
    tsr_executor_clear(executor, 1); /* it is zero already */
    train(&b, executor, 5, out->losses);
    /* Reads, changes and continues: changes by the host after a claim take effect. */
    bench_must(&b, tsr_executor_fetch(&b.ctx, executor));
    REQUIRE(*count == 5, "%ld steps are counted", *count);
    train(&b, executor, 3, out->losses + 5);
    bench_must(&b, tsr_executor_claim(&b.ctx, executor));
    REQUIRE(*count == 8, "%ld steps are counted", *count);
    w[2] += 10;
    *count = 100;
    train(&b, executor, 4, out->losses + 8);
    /* A tensor that was zero at first and has changed becomes zero again. One tensor is replaced,
     * and the others are not fetched. */
    tsr_executor_clear(executor, 1);
    *(float *)tsr_executor_replace(executor, 0) = 3;
    for (int i = 1; i < 4; i++) w[i] = (float)(3 + i);
    train(&b, executor, 2, out->losses + 12);
    bench_must(&b, tsr_executor_fetch(&b.ctx, executor));
    memcpy(out->w, w, sizeof out->w);
    out->count = *count;
    tsr_executor_destroy(executor);
    bench_close(&b);
}

/* The bits equal those of the CPU. */
void device_case_training(const char *device) {
    trained expected, got;
    train_on("cpu", &expected);
    train_on(device, &got);
    REQUIRE(got.count == 2 && expected.count == 2, "%ld, %ld", got.count, expected.count);
    REQUIRE(memcmp(got.w, expected.w, sizeof got.w) == 0, "w[0] is %a, on the CPU %a",
            (double)got.w[0], (double)expected.w[0]);
    for (int i = 0; i < 14; i++)
        REQUIRE(memcmp(&got.losses[i], &expected.losses[i], sizeof(float)) == 0,
                "loss %d is %a, on the CPU %a", i, (double)got.losses[i],
                (double)expected.losses[i]);
}

/* The losses are the same if each command is awaited, and if it is timed. */
void device_case_one_by_one(const char *device) {
    float losses[2][3];
    for (int way = 0; way < 2; way++) {
        bench b;
        bench_open_as(&b, device, &(tsr_device_options){.one_by_one = way == 1});
        tsr_executor *executor = create(&b);
        for (int i = 0; i < 4; i++) ((float *)tsr_executor_get_tensor(executor, 0))[i] = 1;
        train(&b, executor, 3, losses[way]);
        tsr_executor_destroy(executor);
        bench_close(&b);
    }
    REQUIRE(memcmp(losses[0], losses[1], sizeof losses[0]) == 0, "%a, one by one %a",
            (double)losses[0][2], (double)losses[1][2]);
}

/* A kernel reports a bad value; the next run has no fault. */
void device_case_faults(const char *device) {
    bench b;
    bench_limit = 100;
    bench_open(&b, device);
    tsr_executor *executor = create(&b);
    uint8_t *x = tsr_executor_get_input(executor, TOY_TRAIN, 0);
    memset(x, 1, 8);
    x[5] = 120;
    tsr_result result = tsr_executor_run(&b.ctx, executor, TOY_TRAIN, 1);
    REQUIRE(result.code == TSR_DATA, "code %d", (int)result.code);
    REQUIRE(strcmp(b.ctx.error.text, "x[5] is 120; expected 0 to 99 at toy.mlir:3:5") == 0, "%s",
            b.ctx.error.text);
    REQUIRE(tsr_executor_get_fault_row(executor) == 1, "%s", device);
    x[5] = 99;
    bench_must(&b, tsr_executor_run(&b.ctx, executor, TOY_TRAIN, 1));
    tsr_executor_destroy(executor);
    bench_close(&b);
    bench_limit = BENCH_LIMIT;
}

/* ---- reads concurrent with runs -------------------------------------------------------------- */

typedef struct reading {
    bench b;
    tsr_executor *executor;
    float before[4]; /* values of the tensor before the step */
    int guarded;
} reading;

/* No command writes the tensor until this function returns, regardless of the progress of the
 * step. */
static void check_guarded(void *user, const void *tensor) {
    reading *r = user;
    const void *bytes = NULL;
    REQUIRE(!tensor, "of a memory of its own: all of them");
    bench_must(&r->b,
               tsr_executor_read(&r->b.ctx, r->executor, 1, tsr_executor_get_tensor(r->executor, 0),
                                 sizeof r->before, &bytes));
    REQUIRE(memcmp(bytes, r->before, sizeof r->before) == 0, "step %d", r->guarded + 1);
    r->guarded++;
}

static void open_reading(reading *r, const char *device) {
    *r = (reading){.guarded = 0};
    bench_open(&r->b, device);
    r->executor = create(&r->b);
    float *w = tsr_executor_get_tensor(r->executor, 0);
    for (int i = 0; i < 4; i++) w[i] = (float)(i + 1);
    memcpy(r->before, w, sizeof r->before);
    memset(tsr_executor_get_input(r->executor, TOY_TRAIN, 0), 9, 8);
    bench_must(&r->b, tsr_executor_ready_readers(&r->b.ctx, r->executor, 2));
}

void device_case_readers(const char *device) {
    reading r;
    const void *bytes = NULL;
    open_reading(&r, device);
    float *w = tsr_executor_get_tensor(r.executor, 0);
    tsr_executor_set_guard(r.executor, check_guarded, &r);
    for (uint64_t step = 1; step < 4; step++) {
        bench_must(&r.b, tsr_executor_run(&r.b.ctx, r.executor, TOY_TRAIN, step));
        bench_must(&r.b, tsr_executor_read(&r.b.ctx, r.executor, 0, w, sizeof r.before, &bytes));
        REQUIRE(memcmp(bytes, r.before, sizeof r.before) != 0, "step %lu changes nothing", step);
        REQUIRE(bytes != (const void *)w, "the host's copy is that of before");
        memcpy(r.before, bytes, sizeof r.before);
    }
    REQUIRE(r.guarded == 3, "%d times", r.guarded);
    tsr_executor_set_guard(r.executor, NULL, NULL);
    bench_must(&r.b, tsr_executor_fetch(&r.b.ctx, r.executor));
    REQUIRE(memcmp(w, r.before, sizeof r.before) == 0, "w[0] is %g", (double)w[0]);
    tsr_executor_destroy(r.executor);
    bench_close(&r.b);
}

/* Kept tensors retain their values, regardless of the number of later runs. */
void device_case_snapshot(const char *device) {
    reading r;
    bool has_copy = false;
    open_reading(&r, device);
    bench_must(&r.b, tsr_executor_ready_snapshot(&r.b.ctx, r.executor, &has_copy));
    REQUIRE(has_copy, "%s has no room for 24 bytes", device);
    for (uint64_t runs = 0; runs < 4; runs++) {
        char now[2][16];
        const size_t sizes[2] = {16, 8};
        const void *bytes = NULL;
        bench_must(&r.b, tsr_executor_take_snapshot(&r.b.ctx, r.executor));
        for (size_t i = 0; i < 2; i++) {
            void *tensor = tsr_executor_get_tensor(r.executor, i);
            bench_must(&r.b, tsr_executor_read(&r.b.ctx, r.executor, 0, tensor, sizes[i], &bytes));
            memcpy(now[i], bytes, sizes[i]);
        }
        for (uint64_t step = 1; step <= runs; step++)
            bench_must(&r.b, tsr_executor_run(&r.b.ctx, r.executor, TOY_TRAIN, step));
        for (size_t i = 0; i < 2; i++) {
            void *tensor = tsr_executor_get_tensor(r.executor, i);
            bench_must(&r.b, tsr_executor_read_snapshot(&r.b.ctx, r.executor, 1, tensor, sizes[i],
                                                        &bytes));
            REQUIRE(memcmp(bytes, now[i], sizes[i]) == 0, "tensor %zu, %lu runs later", i, runs);
        }
    }
    tsr_executor_destroy(r.executor);
    bench_close(&r.b);
}

/* The device draws the same numbers as the host. */
static void draw(const char *device, bool told) {
    enum { COUNT = 1003, BEGIN = 64 };
    static float expected[COUNT];
    const tsr_config_tensor tensor = {.name = "w",
                                      .dtype = TSR_DTYPE_F32,
                                      .shape = {1, {COUNT}},
                                      .init = TSR_INIT_NORMAL,
                                      .init_a = 0.5,
                                      .init_b = 2,
                                      .init_stream = 9};
    const tsr_device_normals normals = {0, COUNT, 0.5, 2, 7, 9}, none = {.count = 0};
    const tsr_device_range all = {0, BEGIN + sizeof expected};
    bench b;
    tsr_device_memory memory;
    bench_open_as(&b, device, &(tsr_device_options){.samples = told});
    const tsr_device_type *type = b.device->type;
    bench_must(
        &b, type->allocate(&b.ctx, b.device, all.size_bytes, 0, (tsr_device_range){0, 0}, &memory));
    bench_must(&b, type->draw(&b.ctx, b.device, &memory, BEGIN, &none));
    bench_must(&b, type->draw(&b.ctx, b.device, &memory, BEGIN, &normals));
    bench_must(&b, type->download(&b.ctx, b.device, &memory, all));
    bench_must(&b, tsr_initialize_tensor(&b.ctx, &tensor, 7, NULL, expected));
    REQUIRE(memcmp(memory.host + BEGIN, expected, sizeof expected) == 0, "told: %d", told);
    for (int i = 0; i < BEGIN; i++) REQUIRE(memory.host[i] == 0, "byte %d", i);
    type->release(b.device, &memory);
    bench_close(&b);
}

void device_case_normals(const char *device) {
    draw(device, false);
    draw(device, true);
}

/* ---- limits ---------------------------------------------------------------------------------- */

void device_case_less_memory(const char *device) {
    bench b;
    tsr_executor *executor = NULL;
    bench_open_as(&b, device, &(tsr_device_options){.memory_max = 100});
    tsr_result result =
        tsr_executor_create(&b.ctx, &toy_config, &toy_program, b.device, NULL, &executor);
    REQUIRE(result.code == TSR_MEMORY, "code %d", (int)result.code);
    REQUIRE(strstr(b.ctx.error.text, "; 100 are allowed; ") &&
                strstr(b.ctx.error.text, bench_planned),
            "%s", b.ctx.error.text);
    bench_close(&b);
}

/* ---- the suite ------------------------------------------------------------------------------- */

static const char *const on_ALL[] = {"cpu", "null", "cuda:sm_90a", "hip:gfx942", NULL},
                         *const on_RUNS[] = {"cpu", "cuda", "hip", NULL},
                         *const on_APART[] = {"cuda", "hip", NULL},
                         *const on_SAMPLES[] = {"cuda", NULL};

const device_case device_cases[] = {
#define X(name, on) {#name, device_case_##name, on_##on},
#include "tests/runtime/device/cases.def"
#undef X
};
const unsigned device_case_count = TSR_COUNT(device_cases);
