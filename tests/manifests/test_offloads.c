/* SPDX-License-Identifier: Apache-2.0
 *
 * Values that are offloaded to host memory: decoded bytes encode to the same bytes, verify and
 * decode refuse invalid programs, and the buffers of a copy are live until it is awaited.
 */
#include "tests/manifests/refused.h"

#include <criterion/criterion.h>
#include <string.h>

enum { K_MAKE, K_USE, KERNELS };
enum { X, Y, A, B, BACK, OFFLOADED_COPY, OFFLOADED_COPY_B, BUFFERS };
enum {
    MAKE_A,
    OFFLOAD, /* copies a to the host */
    MAKE_B,  /* reads a during the offload */
    AWAIT,
    MAKE_A_AGAIN, /* overwrites a */
    OFFLOAD_B,
    AWAIT_B,
    PREFETCH, /* copies a back to the slot of b */
    USE_A,    /* during the prefetch */
    AWAIT_BACK,
    USE,
    COMMANDS
};

static tsr_config_port inputs[] = {
    {"x", TSR_DTYPE_F32, {1, {32}}, TSR_PORT_ARGUMENT, false, false, NULL, 0}};
static tsr_config_port outputs[] = {
    {"y", TSR_DTYPE_F32, {1, {32}}, TSR_PORT_ARGUMENT, false, false, NULL, 0}};
static tsr_config_entry config_entry = {.name = "f",
                                        .kind = TSR_ENTRY_TRAIN,
                                        .batch = 4,
                                        .inputs = inputs,
                                        .input_count = 1,
                                        .outputs = outputs,
                                        .output_count = 1};
static const tsr_config config = {.version_major = 1,
                                  .name = "m",
                                  .producer = "test",
                                  .numerics = "portable",
                                  .virtual_ranks = 1,
                                  .entry_count = 1,
                                  .entries = &config_entry};
static const char *kernel_names[] = {"make", "use"};

typedef struct example {
    tsr_program program;
    tsr_program_entry entry;
    tsr_program_buffer buffers[BUFFERS];
    tsr_program_region region;
    tsr_program_command commands[COMMANDS + 1];
    uint32_t arguments[COMMANDS + 1][3];
} example;

static void make_example(example *e) {
    static const tsr_program_buffer buffers[BUFFERS] = {
        [X] = {TSR_SPACE_INPUT, 0, 0, TSR_DTYPE_F32, {1, {32}}, "", 0},
        [Y] = {TSR_SPACE_OUTPUT, 0, 0, TSR_DTYPE_F32, {1, {32}}, "", 0},
        [A] = {TSR_SPACE_WORKSPACE, 0, 0, TSR_DTYPE_F32, {1, {32}}, "a", 0},
        [B] = {TSR_SPACE_WORKSPACE, 0, 128, TSR_DTYPE_F32, {1, {16}}, "b", 0},
        [BACK] = {TSR_SPACE_WORKSPACE, 0, 128, TSR_DTYPE_F32, {1, {32}}, "a", 0},
        [OFFLOADED_COPY] = {TSR_SPACE_HOST, 0, 64, TSR_DTYPE_F32, {1, {32}}, "a", 0},
        [OFFLOADED_COPY_B] = {TSR_SPACE_HOST, 0, 0, TSR_DTYPE_F32, {1, {16}}, "", 0},
    };
    static const tsr_program_command commands[COMMANDS] = {
        [MAKE_A] = {TSR_OP_LAUNCH, K_MAKE, 1, 0, 2, 1, NULL, "", 0, 0},
        [OFFLOAD] = {TSR_OP_OFFLOAD, 0, 0, 0, 2, 0, NULL, "m.mlir:1:1", 0, 0},
        [MAKE_B] = {TSR_OP_LAUNCH, K_MAKE, 1, 0, 2, 1, NULL, "", 0, 0},
        [AWAIT] = {TSR_OP_AWAIT, OFFLOAD, 0, 0, 0, 0, NULL, "", 0, 0},
        [MAKE_A_AGAIN] = {TSR_OP_LAUNCH, K_MAKE, 1, 0, 2, 1, NULL, "", 0, 0},
        [OFFLOAD_B] = {TSR_OP_OFFLOAD, 0, 0, 0, 2, 0, NULL, "", 0, 0},
        [AWAIT_B] = {TSR_OP_AWAIT, OFFLOAD_B, 0, 0, 0, 0, NULL, "", 0, 0},
        [PREFETCH] = {TSR_OP_PREFETCH, 0, 0, 0, 2, 0, NULL, "", 0, 0},
        [USE_A] = {TSR_OP_LAUNCH, K_USE, 1, 0, 2, 1, NULL, "", 0, 0},
        [AWAIT_BACK] = {TSR_OP_AWAIT, PREFETCH, 0, 0, 0, 0, NULL, "", 0, 0},
        [USE] = {TSR_OP_LAUNCH, K_USE, 1, 0, 3, 2, NULL, "", 0, 0},
    };
    static const uint32_t arguments[COMMANDS][3] = {
        [MAKE_A] = {X, A},
        [OFFLOAD] = {OFFLOADED_COPY, A},
        [MAKE_B] = {A, B},
        [MAKE_A_AGAIN] = {X, A},
        [OFFLOAD_B] = {OFFLOADED_COPY_B, B},
        [PREFETCH] = {BACK, OFFLOADED_COPY},
        [USE_A] = {A, Y},
        [USE] = {A, BACK, Y},
    };
    *e = (example){.program = {KERNELS, 1, kernel_names, &e->entry},
                   .entry = {.name = "f",
                             .workspace_bytes = 256,
                             .buffer_count = BUFFERS,
                             .command_count = COMMANDS,
                             .buffers = e->buffers,
                             .commands = e->commands,
                             .regions = &e->region},
                   .region = {"stage", TSR_REGION_REPLAY, 0}};
    for (int i = 0; i < BUFFERS; i++) e->buffers[i] = buffers[i];
    for (int i = 0; i < COMMANDS; i++) {
        e->commands[i] = commands[i];
        e->commands[i].arguments = e->arguments[i];
        for (int k = 0; k < 3; k++) e->arguments[i][k] = arguments[i][k];
    }
}

Test(offloads, come_back_and_are_listed) {
    example e;
    tsr_ctx ctx = {0};
    tsr_arena arena = {0};
    tsr_program again;
    tsr_buffer text = {0};
    void *bytes, *bytes_again;
    size_t size, size_again;
    make_example(&e);
    cr_assert_eq(tsr_program_verify(&ctx, &e.program, &config, TSR_INTERNAL).code, TSR_OK, "%s",
                 ctx.error.text);
    cr_assert_eq(tsr_program_encode(&ctx, &e.program, &arena, &bytes, &size).code, TSR_OK);
    unsigned char *version = (unsigned char *)bytes + 8;
    cr_assert_eq(*version, 9, "the version that has offloads");
    cr_assert_eq(tsr_program_decode(&ctx, bytes, size, &config, &arena, &again).code, TSR_OK, "%s",
                 ctx.error.text);
    cr_assert_eq(tsr_program_encode(&ctx, &again, &arena, &bytes_again, &size_again).code, TSR_OK);
    cr_assert(size == size_again && memcmp(bytes, bytes_again, size) == 0);
    tsr_program_format(&again, &config, &text);
    static const char want[] = "entry @f (train, batch 4): workspace 256 bytes, host 192 bytes\n"
                               "  %0 = input x : 32xf32\n"
                               "  %1 = output y : 32xf32\n"
                               "  %2 = workspace +0 \"a\" : 32xf32\n"
                               "  %3 = workspace +128 \"b\" : 16xf32\n"
                               "  %4 = workspace +128 \"a\" : 32xf32\n"
                               "  %5 = host +64 \"a\" : 32xf32\n"
                               "  %6 = host +0 : 16xf32\n"
                               "  0: launch @make grid 1 read %0 write %2\n"
                               "  1: offload %5 <- %2    m.mlir:1:1\n"
                               "  2: launch @make grid 1 read %2 write %3\n"
                               "  3: await 1\n"
                               "  4: launch @make grid 1 read %0 write %2\n"
                               "  5: offload %6 <- %3\n"
                               "  6: await 5\n"
                               "  7: prefetch %4 <- %5\n"
                               "  8: launch @use grid 1 read %2 write %1\n"
                               "  9: await 7\n"
                               "  10: launch @use grid 1 read %2, %4 write %1\n";
    cr_assert(strstr(text.bytes, want), "%s", text.bytes);
    *version = 8;
    cr_assert_eq(tsr_program_decode(&ctx, bytes, size, &config, &arena, &again).code, TSR_CORRUPT);
    cr_assert(strstr(ctx.error.text, "expected 9 for its contents, got 8"), "%s", ctx.error.text);
    tsr_buffer_finish(&text);
    tsr_arena_finish(&arena);
}

Test(offloads, without_them_the_bytes_are_those_of_before) {
    example e;
    tsr_arena arena = {0};
    tsr_ctx ctx = {0};
    void *bytes;
    size_t size;
    make_example(&e);
    e.commands[OFFLOAD] = e.commands[MAKE_B];
    e.entry.command_count = MAKE_B;
    e.entry.buffer_count = OFFLOADED_COPY;
    cr_assert_eq(tsr_program_encode(&ctx, &e.program, &arena, &bytes, &size).code, TSR_OK);
    cr_assert_eq(((unsigned char *)bytes)[8], 1);
    e.entry.buffer_count = BUFFERS;
    cr_assert_eq(tsr_program_encode(&ctx, &e.program, &arena, &bytes, &size).code, TSR_OK);
    cr_assert_eq(((unsigned char *)bytes)[8], 9, "a buffer alone");
    tsr_arena_finish(&arena);
}

#define REFUSED EXAMPLE_REFUSED

static void swap(tsr_program_command *a, tsr_program_command *b) {
    tsr_program_command saved = *a;
    *a = *b;
    *b = saved;
}

Test(offloads, fields_are_those_of_a_copy) {
    REFUSED(c[OFFLOAD].argument_count = 3, "commands[1]: offload: expected 2 arguments, got 3");
    REFUSED(c[PREFETCH].argument_count = 1, "commands[7]: prefetch: expected 2 arguments, got 1");
    REFUSED(c[OFFLOAD].written_from = 1,
            "commands[1]: offload: expected kernel, grid and written_from 0, got 0, 0 and 1");
    REFUSED(c[PREFETCH].kernel = 1, "prefetch: expected kernel, grid and written_from 0, got 1, 0");
    REFUSED(c[PREFETCH].grid = 2, "prefetch: expected kernel, grid and written_from 0, got 0, 2");
    REFUSED(e.buffers[OFFLOADED_COPY].shape.dims[0] = 16,
            "commands[1]: offload: expected one type, got 16xf32 and 32xf32");
    REFUSED(e.buffers[BACK].dtype = TSR_DTYPE_I32,
            "commands[7]: prefetch: expected one type, got 32xi32 and 32xf32");
    REFUSED(e.buffers[A].shape.dims[0] = e.buffers[OFFLOADED_COPY].shape.dims[0] =
                e.buffers[BACK].shape.dims[0] = 0,
            "commands[1]: offload: expected at least one byte, got none");
    REFUSED(e.buffers[OFFLOADED_COPY].index = 1,
            "buffers[5]: index: expected 0 in the workspace, got 1");
    REFUSED(e.buffers[OFFLOADED_COPY].offset_bytes = 32,
            "buffers[5]: offset: expected a multiple of 64, got 32");
    REFUSED(e.buffers[OFFLOADED_COPY].offset_bytes = TSR_PROGRAM_VRANK_BYTES_MAX - 64,
            "buffers[5]: expected 128 bytes at offset 281474976710592 inside");
}

Test(offloads, the_host_is_written_by_offloads_and_read_by_prefetches) {
    REFUSED(e.arguments[MAKE_B][1] = OFFLOADED_COPY_B,
            "commands[2]: arguments[1]: expected the host's memory in an offload or prefetch "
            "alone, got opcode 1");
    REFUSED(e.arguments[USE][1] = OFFLOADED_COPY,
            "commands[10]: arguments[1]: expected the host's memory in an offload or prefetch "
            "alone, got opcode 1");
    REFUSED(c[OFFLOAD_B] = c[AWAIT_B] = c[MAKE_B],
            "program: entry 'f': buffers[6]: expected an offload or prefetch of the value in the "
            "host's memory, got none");
    REFUSED(c[PREFETCH].opcode = TSR_OP_COPY,
            "await: expected an export, import, offload or prefetch before it, got command 7");
    REFUSED((c[PREFETCH].opcode = TSR_OP_COPY, c[AWAIT_BACK] = c[USE_A]),
            "commands[7]: arguments[1]: expected the host's memory in an offload or prefetch "
            "alone, got opcode 2");
    REFUSED(e.arguments[OFFLOAD][0] = BACK,
            "commands[1]: offload: expected spaces 6 and 4, got 4 and 4");
    REFUSED(e.arguments[OFFLOAD][1] = X,
            "commands[1]: offload: expected spaces 6 and 4, got 6 and 2");
    REFUSED(c[OFFLOAD].opcode = TSR_OP_PREFETCH,
            "commands[1]: prefetch: expected spaces 4 and 6, got 6 and 4");
    REFUSED(e.arguments[PREFETCH][0] = Y,
            "commands[7]: prefetch: expected spaces 4 and 6, got 3 and 6");
}

Test(offloads, each_is_awaited_once) {
    REFUSED(c[AWAIT] = c[MAKE_B],
            "commands[1]: offload: expected an await of this command, got none");
    REFUSED(c[AWAIT_BACK] = c[USE_A],
            "commands[7]: prefetch: expected an await of this command, got none");
    REFUSED(c[AWAIT_B] = c[AWAIT], "commands[6]: await: expected command 1 once, got it again");
    REFUSED(swap(&c[OFFLOAD], &c[AWAIT]),
            "commands[1]: await: expected an export, import, offload or prefetch before it, got "
            "command 1");
}

Test(offloads, what_is_copied_is_left_alone_until_it_is_awaited) {
    REFUSED(e.arguments[MAKE_B][1] = A,
            "commands[2]: arguments[1]: expected command 1 to be awaited before buffer 2, which it "
            "copies, is written, got buffer 2");
    REFUSED(e.buffers[B].offset_bytes = 64,
            "commands[2]: arguments[1]: expected command 1 to be awaited before buffer 2, which it "
            "copies, is written, got buffer 3");
    REFUSED(e.arguments[USE_A][0] = BACK,
            "commands[8]: arguments[0]: expected command 7 to be awaited before buffer 4, to which "
            "it copies, is touched, got buffer 4");
    REFUSED(e.arguments[USE_A][1] = B,
            "commands[8]: arguments[1]: expected command 7 to be awaited before buffer 4, to which "
            "it copies, is touched, got buffer 3");
    /* Another offload overwrites the slot of one that is in flight. */
    REFUSED((c[MAKE_B] = c[OFFLOAD_B], c[OFFLOAD_B] = c[AWAIT_B], c[OFFLOAD_B].kernel = MAKE_B,
             e.buffers[OFFLOADED_COPY_B].offset_bytes = 128, c[AWAIT_B] = c[MAKE_A_AGAIN]),
            "commands[2]: arguments[0]: expected command 1 to be awaited before buffer 5, to which "
            "it copies, is touched, got buffer 6");
    /* A prefetch of a value that has not arrived. */
    REFUSED((c[MAKE_B] = c[PREFETCH], c[AWAIT_BACK].kernel = MAKE_B, c[PREFETCH] = c[USE_A]),
            "commands[2]: arguments[1]: expected command 1 to be awaited before buffer 5, to which "
            "it copies, is touched, got buffer 5");
    /* An offload overwrites a value that is being prefetched. */
    REFUSED((swap(&c[OFFLOAD_B], &c[PREFETCH]), swap(&c[AWAIT_B], &c[USE_A]),
             c[AWAIT_BACK].kernel = OFFLOAD_B, c[USE_A].kernel = PREFETCH,
             e.buffers[BACK].offset_bytes = 192, e.entry.workspace_bytes = 320,
             e.buffers[OFFLOADED_COPY_B].offset_bytes = 128),
            "commands[7]: arguments[0]: expected command 5 to be awaited before buffer 5, which it "
            "copies, is written, got buffer 6");
}

Test(offloads, may_read_what_another_one_reads) {
    example e;
    tsr_ctx ctx = {0};
    make_example(&e);
    e.buffers[OFFLOADED_COPY_B].offset_bytes = 192; /* a is copied to two slots at the same time */
    e.buffers[OFFLOADED_COPY_B].shape = e.buffers[B].shape = (tsr_shape){1, {32}};
    e.arguments[MAKE_B][0] = OFFLOADED_COPY_B;
    e.arguments[MAKE_B][1] = A;
    e.commands[MAKE_B].opcode = TSR_OP_OFFLOAD;
    e.commands[MAKE_B].kernel = e.commands[MAKE_B].written_from = 0;
    e.commands[MAKE_B].grid = 0;
    e.commands[OFFLOAD_B] = e.commands[AWAIT_B];
    e.commands[OFFLOAD_B].kernel = MAKE_B;
    e.commands[AWAIT_B] = e.commands[MAKE_A];
    swap(&e.commands[MAKE_A_AGAIN], &e.commands[OFFLOAD_B]);
    cr_assert_eq(tsr_program_verify(&ctx, &e.program, &config, TSR_INTERNAL).code, TSR_OK, "%s",
                 ctx.error.text);
}

Test(offloads, what_comes_back_is_what_went) {
    REFUSED(e.buffers[OFFLOADED_COPY_B].offset_bytes = 64,
            "commands[7]: prefetch: expected the value that "
            "was offloaded there last, which is 16xf32 at 64 "
            "by command 5, got 32xf32 at 64");
    REFUSED((e.buffers[OFFLOADED_COPY_B].offset_bytes = 128,
             e.buffers[OFFLOADED_COPY_B].shape = e.buffers[A].shape, e.arguments[OFFLOAD_B][1] = A),
            "commands[7]: prefetch: expected the value that was offloaded there last, which is "
            "32xf32 at 128 "
            "by command 5, got 32xf32 at 64");
    REFUSED((e.buffers[BACK].shape = e.buffers[OFFLOADED_COPY_B].shape,
             e.arguments[PREFETCH][1] = OFFLOADED_COPY_B,
             e.arguments[OFFLOAD_B][0] = OFFLOADED_COPY, e.arguments[OFFLOAD_B][1] = A),
            "commands[7]: prefetch: expected an offload before it to 16xf32 at 0, got none");
    REFUSED(e.buffers[OFFLOADED_COPY_B].offset_bytes = 128,
            "commands[7]: prefetch: expected the value that was offloaded there last, which is "
            "16xf32 at 128 "
            "by command 5, got 32xf32 at 64");
    REFUSED((e.buffers[BACK].dtype = TSR_DTYPE_I32, e.buffers[OFFLOADED_COPY_B].shape.dims[0] = 32,
             e.buffers[B].shape.dims[0] = 32, e.buffers[OFFLOADED_COPY_B].dtype = TSR_DTYPE_I32,
             e.buffers[OFFLOADED_COPY_B].offset_bytes = 64,
             e.arguments[OFFLOAD_B][0] = OFFLOADED_COPY,
             e.arguments[PREFETCH][1] = OFFLOADED_COPY_B),
            "commands[7]: prefetch: expected the value that was offloaded there last, which is "
            "32xf32 at 64 "
            "by command 5, got 32xi32 at 64");
    REFUSED((e.buffers[BACK].shape = e.buffers[OFFLOADED_COPY_B].shape,
             e.arguments[PREFETCH][1] = OFFLOADED_COPY_B,
             e.buffers[OFFLOADED_COPY_B].offset_bytes = 128,
             e.arguments[OFFLOAD_B][0] = OFFLOADED_COPY, e.arguments[OFFLOAD_B][1] = A),
            "commands[7]: prefetch: expected the value that was offloaded there last, which is "
            "32xf32 at 64 "
            "by command 5, got 16xf32 at 128");
    REFUSED((e.buffers[BACK].shape = e.buffers[OFFLOADED_COPY_B].shape,
             e.arguments[PREFETCH][1] = OFFLOADED_COPY_B,
             e.buffers[OFFLOADED_COPY_B].offset_bytes = 192,
             e.arguments[OFFLOAD_B][0] = OFFLOADED_COPY, e.arguments[OFFLOAD_B][1] = A),
            "commands[7]: prefetch: expected an offload before it to 16xf32 at 192, got none");
}

/* A second offload may overwrite a host buffer, which can then be prefetched. */
Test(offloads, a_place_is_taken_anew) {
    example e;
    tsr_ctx ctx = {0};
    make_example(&e);
    e.arguments[OFFLOAD_B][0] = OFFLOADED_COPY;
    e.arguments[OFFLOAD_B][1] = A;
    e.entry.buffer_count = OFFLOADED_COPY_B;
    cr_assert_eq(tsr_program_verify(&ctx, &e.program, &config, TSR_INTERNAL).code, TSR_OK, "%s",
                 ctx.error.text);
}

/* Puts a command between an offload and its await. */
static void stand_between(example *e, int at, tsr_program_command command) {
    e->commands[at] = command;
    e->commands[at].arguments = e->arguments[at];
    e->commands[at].location = "";
    e->entry.region_count = 1;
}

Test(offloads, stand_in_one_list_with_their_await) {
    REFUSED((stand_between(&e, MAKE_B, (tsr_program_command){.opcode = TSR_OP_ENTER}),
             stand_between(&e, USE, (tsr_program_command){.opcode = TSR_OP_LEAVE})),
            "commands[2]: expected launches, copies and prepares until command 1 is awaited, got "
            "opcode 4");
    REFUSED((stand_between(&e, MAKE_A, (tsr_program_command){.opcode = TSR_OP_ENTER}),
             stand_between(&e, MAKE_B, (tsr_program_command){.opcode = TSR_OP_LEAVE})),
            "commands[2]: expected launches, copies and prepares until command 1 is awaited, got "
            "opcode 5");
    REFUSED(stand_between(&e, MAKE_B, (tsr_program_command){.opcode = TSR_OP_IMPORT}),
            "commands[2]: expected launches, copies and prepares until command 1 is awaited, got "
            "opcode 7");
    /* Not in an entry with loops or branches, and not in one with leaves. */
    REFUSED((stand_between(&e, MAKE_B, (tsr_program_command){.opcode = TSR_OP_REPEAT}),
             c[MAKE_B].kernel = 1, c[MAKE_B].grid = 2, e.entry.region_count = 0),
            "commands[1]: opcode: expected a launch, copy, prepare or one of loops and branches");
    tsr_config with_vranks = config;
    example e;
    make_example(&e);
    with_vranks.virtual_ranks = 2;
    check_program_refused(
        &e.program, &with_vranks, "2 virtual ranks",
        "buffers[5]: space: expected none of the host in an entry with virtual ranks, "
        "got 6");
}

/* All offloads begin before the first is awaited. */
Test(offloads, only_so_many_are_in_flight) {
    enum { MOST = TSR_PROGRAM_IN_FLIGHT_MAX };
    static tsr_program_command commands[2 * (MOST + 1) + 2];
    static tsr_program_buffer buffers[OFFLOADED_COPY + MOST + 1];
    static uint32_t arguments[MOST + 1][2];
    for (uint32_t count = MOST; count <= MOST + 1; count++) {
        example e;
        tsr_ctx ctx = {0};
        make_example(&e);
        memcpy(buffers, e.buffers, OFFLOADED_COPY * sizeof *buffers);
        commands[0] = e.commands[MAKE_A];
        for (uint32_t i = 0; i < count; i++) {
            buffers[OFFLOADED_COPY + i] = e.buffers[OFFLOADED_COPY];
            buffers[OFFLOADED_COPY + i].offset_bytes = 128 * (count - i);
            arguments[i][0] = OFFLOADED_COPY + i;
            arguments[i][1] = A;
            commands[1 + i] = e.commands[OFFLOAD];
            commands[1 + i].arguments = arguments[i];
            commands[1 + count + i] = e.commands[AWAIT];
            commands[1 + count + i].kernel = 1 + i;
        }
        commands[1 + 2 * count] = e.commands[USE_A];
        e.entry.commands = commands;
        e.entry.command_count = 2 + 2 * count;
        e.entry.buffers = buffers;
        e.entry.buffer_count = OFFLOADED_COPY + count;
        tsr_code code = tsr_program_verify(&ctx, &e.program, &config, TSR_CORRUPT).code;
        cr_assert_eq(code, count <= MOST ? TSR_OK : TSR_CORRUPT, "%s", ctx.error.text);
        if (code)
            cr_assert_str_eq(ctx.error.text,
                             "program: entry 'f': commands[257]: offload: expected at most 256 "
                             "copies that are not awaited yet, got one more");
    }
}

Test(offloads, what_is_copied_is_in_use_until_it_is_awaited) {
    example e;
    tsr_arena arena = {0};
    uint64_t live[COMMANDS];
    make_example(&e);
    e.arguments[MAKE_A_AGAIN][1] = B; /* a is dead after its offload */
    e.arguments[USE_A][0] = X;
    e.arguments[USE][0] = X;
    cr_assert(tsr_program_live(&e.entry, &arena, live));
    const uint64_t want[COMMANDS] = {
        [MAKE_A] = 128,      [OFFLOAD] = 128,    [MAKE_B] = 128 + 64, [AWAIT] = 128 + 64,
        [MAKE_A_AGAIN] = 64, [OFFLOAD_B] = 64,   [AWAIT_B] = 64,      [PREFETCH] = 128,
        [USE_A] = 128,       [AWAIT_BACK] = 128, [USE] = 128};
    for (int i = 0; i < COMMANDS; i++)
        cr_expect_eq(live[i], want[i], "command %d: %lu, expected %lu", i, live[i], want[i]);
    cr_expect_eq(tsr_program_space_bytes(&e.entry, TSR_SPACE_HOST), 192);
    cr_expect_eq(tsr_program_command_bytes(&e.entry, &e.commands[OFFLOAD], NULL), 128, "read once");
    cr_expect_eq(tsr_program_command_bytes(&e.entry, &e.commands[PREFETCH], NULL), 128,
                 "written once");
    cr_expect_eq(tsr_program_command_bytes(&e.entry, &e.commands[AWAIT], NULL), 0);
    tsr_arena_finish(&arena);
}

/* A view is a separate buffer at the same offset as the written one. */
Test(offloads, what_is_read_in_another_shape_is_in_use_until_then) {
    enum { WRITTEN, VIEW, OTHER, OVER, ALL };
    tsr_arena arena = {0};
    tsr_program_buffer buffers[ALL] = {
        [WRITTEN] = {.space = TSR_SPACE_WORKSPACE, .dtype = TSR_DTYPE_F32},
        [OTHER] = {.space = TSR_SPACE_WORKSPACE, .dtype = TSR_DTYPE_F32, .offset_bytes = 64}};
    buffers[WRITTEN].shape = (tsr_shape){.rank = 1, .dims = {16}};
    buffers[VIEW] = buffers[OVER] = buffers[WRITTEN];
    buffers[VIEW].shape = (tsr_shape){.rank = 2, .dims = {4, 4}};
    buffers[OTHER].shape = buffers[WRITTEN].shape;
    uint32_t arguments[][2] = {{OTHER, WRITTEN}, {OTHER, OTHER}, {OTHER, OTHER},
                               {VIEW, OTHER},    {OTHER, OTHER}, {OTHER, OVER}};
    tsr_program_command commands[6];
    for (int i = 0; i < 6; i++)
        commands[i] = (tsr_program_command){.opcode = TSR_OP_LAUNCH,
                                            .argument_count = 2,
                                            .written_from = 1,
                                            .arguments = arguments[i]};
    const tsr_program_entry entry = {
        .buffers = buffers, .buffer_count = ALL, .commands = commands, .command_count = 6};
    uint64_t live[6];
    cr_assert(tsr_program_live(&entry, &arena, live));
    for (int i = 0; i < 4; i++) cr_expect_eq(live[i], 128, "command %d: %lu", i, live[i]);
    cr_expect_eq(live[4], 64, "what is written over it later is another value");
    cr_expect_eq(live[5], 128);
    tsr_arena_finish(&arena);
}
