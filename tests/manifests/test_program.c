/* SPDX-License-Identifier: Apache-2.0 */
#include "manifests/program.h"
#include "runtime/base/array.h"
#include "tests/base/random.h"
#include "tests/manifests/random_manifests.h"
#include "tests/manifests/refused.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- a small program as bytes ---- */

static const tsr_shape rows = {2, {4, 3}};
static tsr_config_tensor tensors[] = {
    {.name = "c", .role = TSR_ROLE_CONSTANT, .dtype = TSR_DTYPE_F32, .shape = {2, {4, 3}}},
    {.name = "w", .role = TSR_ROLE_PARAM, .dtype = TSR_DTYPE_F32, .shape = {2, {4, 3}}},
};
static tsr_config_port inputs[] = {
    {.name = "x", .dtype = TSR_DTYPE_F32, .shape = {2, {4, 3}}, .source = TSR_PORT_ARGUMENT}};
static tsr_config_port outputs[] = {
    {.name = "y", .dtype = TSR_DTYPE_F32, .shape = {2, {4, 3}}, .source = TSR_PORT_ARGUMENT}};
static tsr_config_entry entries[] = {
    {.name = "predict",
     .kind = TSR_ENTRY_INFER,
     .batch = 4,
     .input_count = 1,
     .output_count = 1,
     .inputs = inputs,
     .outputs = outputs},
    {.name = "train",
     .kind = TSR_ENTRY_TRAIN,
     .batch = 4,
     .input_count = 1,
     .output_count = 1,
     .inputs = inputs,
     .outputs = outputs},
};
static const tsr_config config = {.version_major = 1,
                                  .name = "m",
                                  .producer = "test",
                                  .numerics = "portable",
                                  .virtual_ranks = 1,
                                  .tensor_count = 2,
                                  .entry_count = 2,
                                  .tensors = tensors,
                                  .entries = entries};

typedef struct example {
    tsr_program program;
    const char *kernels[2];
    tsr_program_entry entries[2];
    tsr_program_buffer buffers[2][6];
    tsr_program_command commands[2][2];
    uint32_t launch[2][3], copy[2][2];
} example;

/* Both entries: k1(x, w) writes to the workspace, and y is a copy. */
static void make_example(example *e) {
    *e = (example){.program = {.kernel_count = 2, .entry_count = 2}, .kernels = {"k0", "_k1"}};
    e->program.kernels = e->kernels;
    e->program.entries = e->entries;
    for (int i = 0; i < 2; i++) {
        const tsr_space spaces[] = {TSR_SPACE_INPUT,     TSR_SPACE_TENSOR,    TSR_SPACE_OUTPUT,
                                    TSR_SPACE_WORKSPACE, TSR_SPACE_WORKSPACE, TSR_SPACE_TENSOR};
        for (int j = 0; j < 6; j++)
            e->buffers[i][j] = (tsr_program_buffer){
                .space = spaces[j], .dtype = TSR_DTYPE_F32, .shape = rows, .name = ""};
        e->buffers[i][1].index = 1;
        e->buffers[i][3].name = "sum";
        e->buffers[i][4].offset_bytes = 64;
        e->launch[i][0] = 0;
        e->launch[i][1] = 1;
        e->launch[i][2] = 3;
        e->copy[i][0] = 2;
        e->copy[i][1] = 3;
        e->commands[i][0] = (tsr_program_command){.opcode = TSR_OP_LAUNCH,
                                                  .kernel = 1,
                                                  .grid = 4,
                                                  .cost = 24,
                                                  .argument_count = 3,
                                                  .written_from = 2,
                                                  .arguments = e->launch[i],
                                                  .location = "m.mlir:3:8"};
        e->commands[i][1] = (tsr_program_command){
            .opcode = TSR_OP_COPY, .argument_count = 2, .arguments = e->copy[i], .location = ""};
        e->entries[i] = (tsr_program_entry){.name = entries[i].name,
                                            .workspace_bytes = 128,
                                            .buffer_count = 6,
                                            .command_count = 2,
                                            .buffers = e->buffers[i],
                                            .commands = e->commands[i]};
    }
}

Test(program, the_example_is_valid_and_listed) {
    example e;
    tsr_ctx ctx = {0};
    tsr_buffer text = {0};
    make_example(&e);
    cr_assert_eq(tsr_program_verify(&ctx, &e.program, &config, TSR_INTERNAL).code, TSR_OK, "%s",
                 ctx.error.text);
    tsr_program_format(&e.program, &config, &text);
    static const char predict[] =
        "program: 2 kernels, 2 entries\n"
        "entry @predict (infer, batch 4): workspace 128 bytes\n"
        "  %0 = input x : 4x3xf32\n"
        "  %1 = param w : 4x3xf32\n"
        "  %2 = output y : 4x3xf32\n"
        "  %3 = workspace +0 \"sum\" : 4x3xf32\n"
        "  %4 = workspace +64 : 4x3xf32\n"
        "  %5 = constant c : 4x3xf32\n"
        "  0: launch @_k1 grid 4 cost 24 read %0, %1 write %3    m.mlir:3:8\n"
        "  1: copy %2 <- %3\n"
        "entry @train (train, batch 4): workspace 128 bytes\n";
    cr_assert(strncmp(text.bytes, predict, sizeof predict - 1) == 0, "%s", text.bytes);
    tsr_buffer_finish(&text);
}

/* The layout of manifests/README.md, written by hand. */
Test(program, the_bytes_are_as_documented) {
    static const unsigned char want[] = {
        'T', 'S', 'R', 'P', 'R', 'O', 'G', '\n', 1,   0,   0,   0,        /* magic, version */
        2,   0,   0,   0,   2,   0,   0,   0,                             /* kernels, entries */
        2,   0,   0,   0,   'k', '0', 3,   0,    0,   0,   '_', 'k', '1', /* */
        7,   0,   0,   0,   'p', 'r', 'e', 'd',  'i', 'c', 't',           /* entry: name */
        128, 0,   0,   0,   0,   0,   0,   0,    6,   0,   0,   0,   2,
        0,   0,   0,                          /* workspace, buffers, commands */
        2,   0,   0,   0,   0,   0,   0,   0, /* buffer 0: input 0 */
        0,   0,   0,   0,   0,   0,   0,   0, /* offset */
        2,   0,   0,   0,   2,   0,   0,   0, /* f32, rank 2 */
        4,   0,   0,   0,   0,   0,   0,   0,    3,   0,   0,   0,   0,
        0,   0,   0,                          /* 4 x 3 */
        0,   0,   0,   0,                     /* no name */
        1,   0,   0,   0,   1,   0,   0,   0, /* buffer 1: tensor 1 */
    };
    example e;
    tsr_ctx ctx = {0};
    tsr_arena arena = {0};
    void *bytes;
    size_t size;
    make_example(&e);
    cr_assert_eq(tsr_program_encode(&ctx, &e.program, &arena, &bytes, &size).code, TSR_OK);
    cr_assert_gt(size, sizeof want);
    cr_assert_arr_eq(bytes, want, sizeof want);
    tsr_arena_finish(&arena);
}

static void expect_equal(const tsr_program *a, const tsr_program *b) {
    cr_assert(a->kernel_count == b->kernel_count && a->entry_count == b->entry_count);
    for (uint32_t i = 0; i < a->kernel_count; i++) cr_assert_str_eq(a->kernels[i], b->kernels[i]);
    for (uint32_t i = 0; i < a->entry_count; i++) {
        const tsr_program_entry *x = &a->entries[i], *y = &b->entries[i];
        cr_assert_str_eq(x->name, y->name);
        cr_assert_eq(x->workspace_bytes, y->workspace_bytes);
        cr_assert(x->buffer_count == y->buffer_count && x->command_count == y->command_count);
        for (uint32_t j = 0; j < x->buffer_count; j++) {
            const tsr_program_buffer *p = &x->buffers[j], *q = &y->buffers[j];
            cr_assert(p->space == q->space && p->index == q->index && p->dtype == q->dtype);
            cr_assert_eq(p->offset_bytes, q->offset_bytes);
            cr_assert(tsr_shape_equal(&p->shape, &q->shape));
            cr_assert_str_eq(p->name, q->name);
        }
        for (uint32_t j = 0; j < x->command_count; j++) {
            const tsr_program_command *p = &x->commands[j], *q = &y->commands[j];
            cr_assert(p->opcode == q->opcode && p->kernel == q->kernel && p->grid == q->grid);
            cr_assert(p->cost == q->cost && p->written_from == q->written_from);
            cr_assert_eq(p->argument_count, q->argument_count);
            for (uint32_t k = 0; k < p->argument_count; k++)
                cr_assert_eq(p->arguments[k], q->arguments[k]);
            cr_assert_str_eq(p->location, q->location);
        }
        cr_assert(x->region_count == y->region_count && x->on_recovery == y->on_recovery);
        for (uint32_t j = 0; j < x->region_count; j++) {
            cr_assert_str_eq(x->regions[j].name, y->regions[j].name);
            cr_assert(x->regions[j].mode == y->regions[j].mode &&
                      x->regions[j].on_failure == y->regions[j].on_failure);
        }
    }
}

Test(program, random_programs_survive) {
    uint32_t copies = 0;
    for (uint64_t seed = 0; seed < 300; seed++) {
        tsr_ctx ctx = {0};
        tsr_arena arena = {0};
        tsr_config random = random_config(seed, 1 + (uint32_t)(seed % 12), &arena);
        tsr_program program = random_program(seed, (uint32_t)(seed % 30), &random, &arena), again;
        void *bytes, *bytes_again;
        size_t size, size_again;
        cr_assert_eq(tsr_program_encode(&ctx, &program, &arena, &bytes, &size).code, TSR_OK);
        cr_assert_eq(decode_copy(&ctx, bytes, size, &random, &arena, &again).code, TSR_OK,
                     "seed %" PRIu64 ": %s", seed, ctx.error.text);
        expect_equal(&program, &again);
        cr_assert_eq(tsr_program_encode(&ctx, &again, &arena, &bytes_again, &size_again).code,
                     TSR_OK);
        cr_assert_eq(size, size_again);
        cr_assert_arr_eq(bytes, bytes_again, size);
        tsr_buffer text = {0};
        tsr_program_format(&again, &random, &text);
        cr_assert_not(text.failed);
        copies += strstr(text.bytes, ": copy %") != NULL;
        tsr_buffer_finish(&text);
        tsr_arena_finish(&arena);
    }
    cr_assert_gt(copies, 20, "the random programs must hold copies: %u", copies);
}

/* ---- bytes that must be refused ---- */

Test(program, every_truncation_is_refused) {
    example e;
    tsr_arena arena = {0};
    tsr_program program;
    void *bytes;
    size_t size;
    make_example(&e);
    cr_assert_eq(tsr_program_encode(&(tsr_ctx){0}, &e.program, &arena, &bytes, &size).code, TSR_OK);
    for (size_t cut = 0; cut < size; cut++) {
        tsr_ctx ctx = {0};
        cr_assert_eq(decode_copy(&ctx, bytes, cut, &config, &arena, &program).code, TSR_CORRUPT);
        cr_assert(strncmp(ctx.error.text, "program: ", 9) == 0, "%s", ctx.error.text);
        cr_assert(strstr(ctx.error.text, "expected"), "%s", ctx.error.text);
        cr_assert(strstr(ctx.error.text, "got"), "%s", ctx.error.text);
        cr_assert_not(strstr(ctx.error.text, "the end at"), "read past it: %s", ctx.error.text);
    }
    char *longer = calloc(1, size + 1);
    tsr_ctx ctx = {0};
    memcpy(longer, bytes, size);
    cr_assert_eq(decode_copy(&ctx, longer, size + 1, &config, &arena, &program).code, TSR_CORRUPT);
    cr_assert(strstr(ctx.error.text, "expected the end at offset"), "%s", ctx.error.text);
    cr_assert(strstr(ctx.error.text, "got 1 more byte"), "%s", ctx.error.text);
    free(longer);
    tsr_arena_finish(&arena);
}

/* A flipped bit gives another valid program with exactly these bytes, or an error. The allocated
 * memory stays small. */
static size_t check_flips(const char *bytes, size_t size, const tsr_config *of) {
    char *flipped = malloc(size);
    size_t accepted = 0;
    for (size_t bit = 0; bit < size * 8; bit++) {
        tsr_ctx ctx = {0};
        tsr_arena arena = {0};
        tsr_program program = {0};
        memcpy(flipped, bytes, size);
        flipped[bit / 8] ^= (char)(1 << bit % 8);
        tsr_code code = decode_copy(&ctx, flipped, size, of, &arena, &program).code;
        cr_assert(code == TSR_OK || code == TSR_CORRUPT || code == TSR_VERSION, "bit %zu", bit);
        cr_assert_leq(arena.used_bytes, 16 * size, "bit %zu: %zu of %zu", bit, arena.used_bytes,
                      size);
        if (code == TSR_OK) {
            void *again;
            size_t size_again;
            accepted++;
            cr_assert_eq(tsr_program_verify(&ctx, &program, of, TSR_CORRUPT).code, TSR_OK);
            cr_assert_eq(tsr_program_encode(&ctx, &program, &arena, &again, &size_again).code,
                         TSR_OK);
            cr_assert_eq(size, size_again);
            cr_assert_arr_eq(again, flipped, size);
        }
        tsr_arena_finish(&arena);
    }
    free(flipped);
    return accepted;
}

Test(program, every_bit_flip_is_refused_or_valid, .timeout = 200) {
    for (uint64_t seed = 0; seed < 8; seed++) {
        tsr_ctx ctx = {0};
        tsr_arena arena = {0};
        tsr_config random = random_config(seed, 3, &arena);
        tsr_program program = random_program(seed, 3, &random, &arena);
        void *bytes;
        size_t size;
        cr_assert_eq(tsr_program_encode(&ctx, &program, &arena, &bytes, &size).code, TSR_OK);
        size_t accepted = check_flips(bytes, size, &random);
        cr_assert(accepted > 0 && accepted < size * 4, "%zu of %zu bits", accepted, size * 8);
        tsr_arena_finish(&arena);
    }
}

Test(program, hostile_counts_take_no_memory) {
    example e;
    tsr_arena arena = {0};
    void *good;
    size_t size;
    make_example(&e);
    cr_assert_eq(tsr_program_encode(&(tsr_ctx){0}, &e.program, &arena, &good, &size).code, TSR_OK);
    char *bytes = malloc(size);
    static const uint32_t counts[] = {UINT32_MAX, 1u << 31, (1u << 20) + 1, 1u << 20, 100000, 1000};
    for (size_t at = 8; at + 4 <= size; at++)
        for (size_t i = 0; i < TSR_COUNT(counts); i++) {
            tsr_ctx ctx = {0};
            tsr_arena small = {0};
            tsr_program program;
            memcpy(bytes, good, size);
            for (int j = 0; j < 4; j++) bytes[at + (size_t)j] = (char)(counts[i] >> 8 * j);
            tsr_code code = decode_copy(&ctx, bytes, size, &config, &small, &program).code;
            cr_assert(code == TSR_OK || code == TSR_CORRUPT || code == TSR_VERSION);
            cr_assert_leq(small.used_bytes, 16 * size, "%u at %zu", counts[i], at);
            tsr_arena_finish(&small);
        }
    free(bytes);
    tsr_arena_finish(&arena);
}

Test(program, magic_and_version) {
    example e;
    tsr_arena arena = {0};
    tsr_program program;
    void *bytes;
    size_t size;
    tsr_ctx ctx = {0};
    make_example(&e);
    cr_assert_eq(tsr_program_encode(&ctx, &e.program, &arena, &bytes, &size).code, TSR_OK);
    ((char *)bytes)[8] = TSR_PROGRAM_VERSION + 1;
    cr_assert_eq(decode_copy(&ctx, bytes, size, &config, &arena, &program).code, TSR_VERSION);
    cr_assert(strstr(ctx.error.text, "program: version: expected 11, got 12; it needs a newer"));
    ((char *)bytes)[8] = 2;
    cr_assert_eq(decode_copy(&ctx, bytes, size, &config, &arena, &program).code, TSR_CORRUPT);
    cr_assert_str_eq(ctx.error.text, "program: version: expected 1 for its contents, got 2");
    ((char *)bytes)[8] = 0;
    cr_assert_eq(decode_copy(&ctx, bytes, size, &config, &arena, &program).code, TSR_CORRUPT);
    cr_assert_str_eq(ctx.error.text, "program: version: expected 1 ... 11, got 0");
    ((char *)bytes)[0] = 't';
    cr_assert_eq(decode_copy(&ctx, bytes, size, &config, &arena, &program).code, TSR_CORRUPT);
    cr_assert(strstr(ctx.error.text, "expected the magic 'TSRPROG'"));
    cr_assert_eq(decode_copy(&ctx, bytes, 5, &config, &arena, &program).code, TSR_CORRUPT);
    cr_assert_str_eq(ctx.error.text, "program: expected at least 20 bytes, got 5");
    tsr_arena_finish(&arena);
}

Test(program, noise_is_refused) {
    uint64_t seed = 4;
    for (int i = 0; i < 20000; i++) {
        char bytes[300];
        tsr_ctx ctx = {0};
        tsr_arena arena = {0};
        tsr_program program;
        size_t size = random_below(&seed, sizeof bytes);
        for (size_t j = 0; j < size; j++)
            bytes[j] = random_below(&seed, 3) ? 0 : (char)random_below(&seed, 8);
        if (i % 4 && size > 12) memcpy(bytes, "TSRPROG\n\1\0\0", 12);
        cr_assert_eq(decode_copy(&ctx, bytes, size, &config, &arena, &program).code, TSR_CORRUPT);
        cr_assert_leq(arena.used_bytes, 16 * sizeof bytes);
        tsr_arena_finish(&arena);
    }
}

/* ---- invalid programs, found by verify, and by decode after a round trip ---- */

#define REFUSED(change, message)                                                                   \
    do {                                                                                           \
        example e;                                                                                 \
        make_example(&e);                                                                          \
        tsr_program_buffer *buffers = e.buffers[0], *train_buffers = e.buffers[1];                 \
        tsr_program_command *launch = &e.commands[0][0], *copy = &e.commands[0][1];                \
        (void)buffers, (void)train_buffers, (void)launch, (void)copy;                              \
        change;                                                                                    \
        check_program_refused(&e.program, &config, #change, "program: " message);                  \
    } while (0)
#define AT_BUFFER(n) "entry 'predict': buffers[" #n "]: "
#define AT_LAUNCH "entry 'predict': commands[0]: "
#define AT_COPY "entry 'predict': commands[1]: "

Test(program, kernels_and_entries_are_checked) {
    REFUSED(e.kernels[0] = "_k1", "kernels: expected each symbol once, got '_k1' again");
    REFUSED(e.kernels[0] = "1k", "kernels[0]: expected a symbol [A-Za-z_][A-Za-z0-9_]*, got '1k'");
    REFUSED(e.kernels[1] = "", "kernels[1]: expected a symbol [A-Za-z_][A-Za-z0-9_]*, got '?'");
    REFUSED(e.kernels[1] = "k-1",
            "kernels[1]: expected a symbol [A-Za-z_][A-Za-z0-9_]*, got 'k-1'");
    REFUSED(e.program.entry_count = 1, "expected 2 entries as in the config, got 1");
    REFUSED(e.entries[1].name = "eval",
            "entries[1]: expected 'train' as in the config, got 'eval'");
    REFUSED(e.entries[0].workspace_bytes = 100,
            "entry 'predict': workspace: expected a multiple of 64 below 2^63, got 100");
    REFUSED(e.entries[0].workspace_bytes = UINT64_C(1) << 63,
            "entry 'predict': workspace: expected a multiple of 64 below 2^63, got "
            "9223372036854775808");
    REFUSED(copy->arguments[0] = 4,
            "entry 'predict': expected a command that writes output 'y', got none");
    REFUSED(e.entries[0].command_count = 0,
            "entry 'predict': expected a command that writes output 'y', got none");
}

Test(program, buffers_are_checked) {
    REFUSED(buffers[0].space = 0, AT_BUFFER(0) "space: expected 1 ... 7 or 16 ... 19, got 0");
    REFUSED(buffers[0].space = 8, AT_BUFFER(0) "space: expected 1 ... 7 or 16 ... 19, got 8");
    REFUSED(buffers[0].space = 16,
            AT_BUFFER(0) "space: expected one of an entry without virtual ranks, got 16");
    REFUSED(buffers[1].index = 2, AT_BUFFER(1) "index: expected less than 2, got 2");
    REFUSED(buffers[0].index = 1, AT_BUFFER(0) "index: expected less than 1, got 1");
    REFUSED(buffers[2].index = 1, AT_BUFFER(2) "index: expected less than 1, got 1");
    REFUSED(buffers[3].index = 1, AT_BUFFER(3) "index: expected 0 in the workspace, got 1");
    REFUSED(buffers[1].offset_bytes = 64, AT_BUFFER(1) "offset: expected 0, got 64");
    REFUSED(buffers[1].dtype = TSR_DTYPE_I32,
            AT_BUFFER(1) "expected 4x3xf32 as tensor 'w' has, got 4x3xi32");
    REFUSED(buffers[0].shape.dims[0] = 5,
            AT_BUFFER(0) "expected 4x3xf32 as input 'x' has, got 5x3xf32");
    REFUSED(buffers[2].shape.rank = 1,
            AT_BUFFER(2) "expected 4x3xf32 as output 'y' has, got 4xf32");
    REFUSED(buffers[4].dtype = 77, AT_BUFFER(4) "dtype: expected a known number, got 77");
    REFUSED(buffers[4].shape.dims[1] = UINT64_C(1) << 62,
            AT_BUFFER(4) "expected less than 2^63 bytes, got 4x4611686018427387904xf32");
    REFUSED(buffers[4].offset_bytes = 32, AT_BUFFER(4) "offset: expected a multiple of 64, got 32");
    REFUSED(buffers[4].offset_bytes = 128,
            AT_BUFFER(4) "expected 48 bytes at offset 128 inside the workspace, got a workspace of "
                         "128");
    REFUSED(buffers[4].offset_bytes = UINT64_MAX - 63,
            AT_BUFFER(4) "expected 48 bytes at offset 18446744073709551552 inside the workspace, "
                         "got a workspace of 128");
    REFUSED(buffers[4].shape.dims[0] = 6,
            AT_BUFFER(4) "expected 72 bytes at offset 64 inside the workspace, got a workspace of "
                         "128");
    REFUSED(buffers[4].name = "a\nb",
            AT_BUFFER(4) "name: expected at most 1024 bytes of printable UTF-8, got others");
}

Test(program, commands_are_checked) {
    REFUSED(launch->opcode = 12, AT_LAUNCH "opcode: expected 1 ... 11 or 16 ... 25, got 12");
    REFUSED(launch->opcode = TSR_OP_VERIFY,
            AT_LAUNCH "verify: expected 1 argument, written_from 1 and kernel 0, got 3, 2 and 1");
    REFUSED((launch->opcode = TSR_OP_VERIFY, launch->argument_count = launch->written_from = 1,
             launch->kernel = 0, launch->grid = launch->cost = UINT64_C(0x7ff8000000000000)),
            AT_LAUNCH "verify: expected bounds in order, got nan and nan");
    REFUSED(launch->kernel = 2, AT_LAUNCH "kernel: expected less than 2, got 2");
    REFUSED(launch->grid = 0, AT_LAUNCH "grid: expected 1 ... 2^63 - 1, got 0");
    REFUSED(launch->grid = UINT64_MAX,
            AT_LAUNCH "grid: expected 1 ... 2^63 - 1, got 18446744073709551615");
    REFUSED(launch->written_from = 3,
            AT_LAUNCH "written_from: expected less than the 3 arguments, got 3");
    REFUSED((launch->argument_count = 0, launch->written_from = 0),
            AT_LAUNCH "written_from: expected less than the 0 arguments, got 0");
    REFUSED(launch->arguments[1] = 6, AT_LAUNCH "arguments[1]: expected less than 6, got 6");
    REFUSED(launch->location = "\x1b[2J",
            AT_LAUNCH "location: expected at most 1024 bytes of printable UTF-8, got others");
    REFUSED(launch->written_from = 1,
            AT_LAUNCH "arguments[1]: expected a buffer that an entry of kind infer may write, got "
                      "param 'w'");
    REFUSED(launch->written_from = 0,
            AT_LAUNCH "arguments[0]: expected a buffer that may be written, got input 'x'");
    REFUSED(e.launch[1][2] = 5,
            "entry 'train': commands[0]: arguments[2]: expected a buffer that an entry of kind "
            "train may write, got constant 'c'");
    REFUSED(copy->argument_count = 1, AT_COPY "copy: expected 2 arguments, got 1");
    REFUSED(copy->written_from = 1,
            AT_COPY "copy: expected kernel, grid and written_from 0, got 0, 0 and 1");
    REFUSED(copy->grid = 1,
            AT_COPY "copy: expected kernel, grid and written_from 0, got 0, 1 and 0");
    REFUSED(copy->arguments[0] = 0,
            AT_COPY "arguments[0]: expected a buffer that may be written, got input 'x'");
    REFUSED(copy->arguments[1] = 2,
            AT_COPY "copy: expected buffers apart, got 2 and 2 that overlap");
    REFUSED((copy->arguments[0] = 4, buffers[4].offset_bytes = 0),
            AT_COPY "copy: expected buffers apart, got 4 and 3 that overlap");
    REFUSED(buffers[3].shape.dims[1] = 2,
            AT_COPY "copy: expected one type, got 4x3xf32 and 4x2xf32");
}

/* Both entries prepare buffer 0 from w, then y = x. */
static void make_prepacked(example *e) {
    make_example(e);
    for (int i = 0; i < 2; i++) {
        tsr_program_command *command = &e->commands[i][0];
        e->buffers[i][4] = e->buffers[i][1];
        e->buffers[i][4].space = TSR_SPACE_PREPACKED;
        e->buffers[i][4].index = 0;
        e->launch[i][0] = 1;
        e->launch[i][1] = 4;
        e->copy[i][1] = 0;
        command->opcode = TSR_OP_PREPARE;
        command->argument_count = 2;
        command->written_from = 1;
    }
}

#define REFUSED_PREPACKED(change, message)                                                         \
    do {                                                                                           \
        example e;                                                                                 \
        make_prepacked(&e);                                                                        \
        tsr_program_buffer *buffers = e.buffers[0], *train_buffers = e.buffers[1];                 \
        tsr_program_command *prepare = &e.commands[0][0], *train = &e.commands[1][0];              \
        (void)buffers, (void)train_buffers, (void)prepare, (void)train;                            \
        change;                                                                                    \
        check_program_refused(&e.program, &config, #change, "program: " message);                  \
    } while (0)
#define AT_TRAIN "entry 'train': commands[0]: "

Test(program, prepacked_buffers_are_listed_and_come_back) {
    example e;
    tsr_ctx ctx = {0};
    tsr_arena arena = {0};
    tsr_program program;
    tsr_buffer text = {0};
    void *bytes;
    size_t size;
    make_prepacked(&e);
    cr_assert_eq(tsr_program_encode(&ctx, &e.program, &arena, &bytes, &size).code, TSR_OK);
    cr_assert_eq(((char *)bytes)[8], 2, "version");
    cr_assert_eq(decode_copy(&ctx, bytes, size, &config, &arena, &program).code, TSR_OK, "%s",
                 ctx.error.text);
    cr_assert_eq(tsr_program_prepacked_count(&program), 1);
    tsr_prepacked_cursor cursor = {0};
    cr_assert_eq(tsr_program_next_prepacked(&program, &cursor), &program.entries[0].buffers[4]);
    cr_assert_null(tsr_program_next_prepacked(&program, &cursor));
    tsr_program_format(&program, &config, &text);
    cr_assert(strstr(text.bytes, "%4 = prepacked 0 : 4x3xf32\n"), "%s", text.bytes);
    cr_assert(strstr(text.bytes, "0: prepare @_k1 grid 4 cost 24 read %1 write %4"), "%s",
              text.bytes);
    ((char *)bytes)[8] = 1; /* a reader of version 1 would not know them */
    cr_assert_eq(decode_copy(&ctx, bytes, size, &config, &arena, &program).code, TSR_CORRUPT);
    cr_assert_str_eq(ctx.error.text, "program: version: expected 2 for its contents, got 1");
    tsr_buffer_finish(&text);
    tsr_arena_finish(&arena);
}

Test(program, what_is_prepacked_is_checked) {
    REFUSED_PREPACKED((buffers[3] = buffers[4], buffers[3].index = train_buffers[4].index = 1),
                      AT_BUFFER(3) "index: expected prepacked buffer 0 before 1, got none");
    REFUSED_PREPACKED(buffers[4].index = 2, AT_BUFFER(4) "index: expected less than 1, got 2");
    REFUSED_PREPACKED(buffers[4].offset_bytes = 64, AT_BUFFER(4) "offset: expected 0, got 64");
    REFUSED_PREPACKED(
        train_buffers[4].dtype = TSR_DTYPE_I32,
        "entry 'train': buffers[4]: expected 4x3xf32 as prepacked buffer 0 has elsewhere, "
        "got 4x3xi32");
    REFUSED_PREPACKED(prepare->kernel = 2, AT_LAUNCH "kernel: expected less than 2, got 2");
    REFUSED_PREPACKED(prepare->written_from = 0,
                      AT_LAUNCH "prepare: expected 2 arguments, written from 1, got 2, from 0");
    REFUSED_PREPACKED(prepare->arguments[0] = 0,
                      AT_LAUNCH "prepare: expected spaces 1 and 5, got 2 and 5");
    REFUSED_PREPACKED(prepare->arguments[1] = 3,
                      AT_LAUNCH "prepare: expected spaces 1 and 5, got 1 and 4");
    REFUSED_PREPACKED(prepare->opcode = TSR_OP_LAUNCH, AT_LAUNCH
                      "arguments[1]: expected a buffer that may be written, got prepacked "
                      "buffer 0");
    REFUSED_PREPACKED(train->kernel = 0, AT_TRAIN "prepare: expected buffer 0 from tensor 1 by "
                                                  "kernel 1 as elsewhere, got 1 by 0");
    REFUSED_PREPACKED(train->arguments[0] = 5,
                      AT_TRAIN "prepare: expected buffer 0 from tensor 1 by kernel 1 as elsewhere, "
                               "got 0 by 1");
    REFUSED_PREPACKED(train->grid = 5, AT_TRAIN "prepare: expected grid 4 as elsewhere, got 5");
    /* Read before this entry prepares it. */
    REFUSED_PREPACKED((e.commands[1][0] = e.commands[1][1], e.copy[1][1] = 4),
                      "entry 'train': commands[0]: arguments[1]: expected a command before that "
                      "prepares buffer 0, got none");
    /* The entry writes the tensor. */
    REFUSED_PREPACKED((e.copy[1][0] = 1), "entry 'train': commands[0]: prepare: expected a tensor "
                                          "that the entry does not write, got 'w'");
}

static void check_limit(const example *e, const char *message) {
    tsr_ctx ctx = {0};
    cr_assert_eq(tsr_program_verify(&ctx, &e->program, &config, TSR_COMPILE).code, TSR_COMPILE);
    cr_assert_str_eq(ctx.error.text, message);
}

Test(program, counts_are_limited) {
    uint32_t many[TSR_PROGRAM_ARGUMENTS_MAX + 1] = {0};
    example e;
    make_example(&e);
    e.program.kernel_count = TSR_PROGRAM_KERNELS_MAX + 1;
    check_limit(&e, "program: expected at most 4194304 kernels, got 4194305");
    make_example(&e);
    e.entries[0].buffer_count = TSR_PROGRAM_BUFFERS_MAX + 1;
    check_limit(&e, "program: entry 'predict': expected at most 4194304 buffers, got 4194305");
    make_example(&e);
    e.entries[0].command_count = TSR_PROGRAM_COMMANDS_MAX + 1;
    check_limit(&e, "program: entry 'predict': expected at most 4194304 commands, got 4194305");
    make_example(&e);
    e.buffers[0][3].shape.rank = TSR_RANK_MAX + 1;
    check_limit(&e, "program: " AT_BUFFER(3) "rank: expected 0 ... 8, got 9");
    make_example(&e);
    e.commands[0][0].argument_count = TSR_PROGRAM_ARGUMENTS_MAX + 1;
    e.commands[0][0].arguments = many;
    check_limit(&e, "program: " AT_LAUNCH "expected at most 2048 arguments, got 2049");
}

/* The same limits in bytes: found before memory is allocated or an array is filled. */
static void check_patched(const tsr_program *program, size_t at, uint32_t value,
                          const char *message) {
    tsr_ctx ctx = {0};
    tsr_arena arena = {0};
    tsr_program again;
    void *bytes;
    size_t size;
    cr_assert_eq(tsr_program_encode(&ctx, program, &arena, &bytes, &size).code, TSR_OK);
    for (int i = 0; i < 4; i++) ((char *)bytes)[at + (size_t)i] = (char)(value >> 8 * i);
    cr_assert_eq(decode_copy(&ctx, bytes, size, &config, &arena, &again).code, TSR_CORRUPT);
    cr_assert_str_eq(ctx.error.text, message);
    tsr_arena_finish(&arena);
}

Test(program, limits_in_bytes) {
    static char text[TSR_PROGRAM_TEXT_MAX + 1];
    uint32_t many[TSR_PROGRAM_ARGUMENTS_MAX + 1] = {0};
    example e;
    make_example(&e);
    size_t rank_at = 20 + 6 + 7 + 11 + 16 + 20, name_at = rank_at + 4 + 16;
    memset(text, 'a', TSR_PROGRAM_TEXT_MAX);
    e.buffers[0][0].name = e.buffers[0][1].name = text; /* long enough for the stated lengths */
    check_patched(&e.program, rank_at, 9,
                  "program: entries[0]: buffers[0] at offset 84: rank: expected 0 ... 8, got 9");
    check_patched(&e.program, name_at, TSR_PROGRAM_TEXT_MAX + 1,
                  "program: entries[0]: buffers[0] at offset 104: expected a text of at most 1024 "
                  "bytes, got 1025");
    check_patched(&e.program, name_at + 4, 0,
                  "program: entries[0]: buffers[0] at offset 104: expected a text without NUL, got "
                  "one");
    make_example(&e);
    e.commands[0][0].argument_count = TSR_PROGRAM_ARGUMENTS_MAX + 1;
    e.commands[0][0].arguments = many;
    check_patched(
        &e.program, 0, 0x50525354, /* unchanged */
        "program: entries[0]: commands[0] at offset 359: expected at most 2048 arguments, "
        "got 2049");
}

/* Only training entries write parameters. */
Test(program, training_writes_parameters) {
    example e;
    tsr_ctx ctx = {0};
    make_example(&e);
    e.commands[1][0].written_from = 1;
    cr_assert_eq(tsr_program_verify(&ctx, &e.program, &config, TSR_INTERNAL).code, TSR_OK, "%s",
                 ctx.error.text);
}
