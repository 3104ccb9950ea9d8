/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of tensors in a program: valid fields, the resulting distribution of the tensors over
 * ranks, their listing, their version.
 */
#include "tests/manifests/vrank_program.h"

static tsr_config_tensor tensors[] = {
    {.name = "w", .role = TSR_ROLE_PARAM, .dtype = TSR_DTYPE_F32, .shape = {2, {3, 3}}},
    {.name = "m", .role = TSR_ROLE_STATE, .dtype = TSR_DTYPE_F32, .shape = {2, {3, 3}}},
    {.name = "c", .role = TSR_ROLE_CONSTANT, .dtype = TSR_DTYPE_F32, .shape = {2, {3, 3}}}};
static tsr_config_entry entries[] = {{.name = "train", .kind = TSR_ENTRY_TRAIN, .batch = 8}};

enum { W_PART, M_PART, W, SUM, G_PART, OWN, BUFFERS };
enum { FIRST, ADD, SLICE, SECOND, STEP, GATHER, COMMANDS };

/* A sum over four leaves of nine elements. Its parts of three elements update parts of a parameter
 * and of its state; the parameter is then gathered. */
static void make_example(example *e) {
    static const tsr_space spaces[] = {TSR_SPACE_PART, TSR_SPACE_PART,  TSR_SPACE_TENSOR,
                                       TSR_SPACE_SUMS, TSR_SPACE_VRANK, TSR_SPACE_VRANK};
    static const uint32_t arguments[COMMANDS][VRANK_ARGUMENTS] = {
        {0}, {SUM, OWN}, {G_PART, SUM}, {0}, {G_PART, M_PART, W_PART}, {W, W_PART}};
    static const tsr_opcode opcodes[] = {TSR_OP_EACH_VRANK, TSR_OP_VRANK_SUM, TSR_OP_COLLECTIVE,
                                         TSR_OP_EACH_VRANK, TSR_OP_LAUNCH,    TSR_OP_COLLECTIVE};
    static const uint32_t counts[] = {0, 2, 2, 0, 3, 2}, written_from[] = {0, 0, 0, 0, 1, 0};
    begin_example(e, entries, BUFFERS, COMMANDS);
    e->config.tensors = tensors;
    e->config.tensor_count = 3;
    memcpy(e->arguments, arguments, sizeof arguments);
    for (int i = 0; i < BUFFERS; i++) {
        bool part = i == W_PART || i == M_PART || i == G_PART;
        e->buffers[i] = (tsr_program_buffer){.space = spaces[i],
                                             .index = i == M_PART,
                                             .offset_bytes = i == OWN ? 64 : 0,
                                             .dtype = TSR_DTYPE_F32,
                                             .shape = {1, {3}},
                                             .name = ""};
        if (!part) e->buffers[i].shape = (tsr_shape){2, {3, 3}};
    }
    for (int i = 0; i < COMMANDS; i++)
        e->commands[i] = (tsr_program_command){.opcode = opcodes[i],
                                               .kernel = i == SLICE    ? TSR_COLLECTIVE_SLICE
                                                         : i == GATHER ? TSR_COLLECTIVE_ALL_GATHER
                                                                       : 0,
                                               .grid = i != SLICE && i != GATHER,
                                               .argument_count = counts[i],
                                               .written_from = written_from[i],
                                               .arguments = e->arguments[i],
                                               .location = ""};
}

Test(parts, the_example_is_valid_and_listed) {
    example e;
    tsr_buffer out = {0};
    make_example(&e);
    list_valid(&e, &out);
    cr_assert(strstr(out.bytes, "%1 = part of m : 3xf32\n"), "%s", out.bytes);
    cr_assert(strstr(out.bytes, "slice among virtual ranks: %4 <- %3\n"), "%s", out.bytes);
    cr_assert(strstr(out.bytes, "all_gather among virtual ranks: %2 <- %0\n"), "%s", out.bytes);
    tsr_buffer_finish(&out);
}

Test(parts, only_programs_with_them_are_of_version_6) {
    example e;
    make_example(&e);
    check_version(&e, 6);
}

Test(parts, vranks_and_positions_are_told_apart) {
    uint8_t owners[BUFFERS];
    example e;
    make_example(&e);
    e.commands[FIRST].grid = 1;
    cr_assert(tsr_program_find_owners(&e.config, entries, &e.entry, owners));
    cr_expect_eq(owners[SUM], TSR_OWNER_JOINED);
    cr_expect_eq(owners[G_PART], TSR_OWNER_POSITION);
    cr_expect_eq(owners[W], TSR_OWNER_ALL);
    /* The number of a leaf as input of a step on parts. */
    e.buffers[OWN].space = TSR_SPACE_VRANK_NUMBER;
    cr_assert(tsr_program_find_owners(&e.config, entries, &e.entry, owners));
    cr_expect_eq(owners[SUM], TSR_OWNER_JOINED | TSR_OWNER_VRANK);
    e.arguments[STEP][0] = OWN;
    cr_expect(!tsr_program_find_owners(&e.config, entries, &e.entry, owners));
    /* If the parts belong to positions, a reduce_scatter cannot use turns; if they are exchanged
     * between leaves, no collective can. */
    make_example(&e);
    e.arguments[ADD][1] = M_PART;
    cr_assert(tsr_program_find_owners(&e.config, entries, &e.entry, owners));
    cr_expect_eq(owners[SUM], TSR_OWNER_JOINED | TSR_OWNER_POSITION);
    e.commands[SLICE].kernel = TSR_COLLECTIVE_REDUCE_SCATTER;
    cr_expect(!tsr_program_find_owners(&e.config, entries, &e.entry, owners));
    make_example(&e);
    e.commands[GATHER].kernel = TSR_COLLECTIVE_BROADCAST;
    cr_expect(!tsr_program_find_owners(&e.config, entries, &e.entry, owners));
}

Test(parts, a_rank_holds_what_entries_have) {
    tsr_holding holdings[3];
    example e;
    make_example(&e);
    tsr_program_find_holdings(&e.program, &e.config, holdings);
    cr_expect_eq(holdings[0], TSR_HOLDING_PADDED);
    cr_expect_eq(holdings[1], TSR_HOLDING_PARTS);
    cr_expect_eq(holdings[2], TSR_HOLDING_WHOLE);
    cr_expect_eq(tsr_program_part_bytes(&e.config, 0), 12);
    e.config.virtual_ranks = 8; /* 9 elements in parts of 2: the last parts are empty */
    cr_expect_eq(tsr_program_part_bytes(&e.config, 0), 8);
    uint32_t numbers[3] = {0};
    tsr_program_number_changes(&e.entry, numbers);
    cr_expect(numbers[1] == 1 && numbers[0] == 2 && numbers[2] == 0);
}

/* An entry that does not train gathers the parts of a tensor, and writes no part. */
static void make_reader(example *e) {
    static tsr_config_entry readers[] = {{.name = "train", .kind = TSR_ENTRY_EVAL, .batch = 8}};
    make_example(e);
    e->config.entries = readers;
    e->entry.buffer_count = e->entry.command_count = 1;
    e->buffers[1] = e->buffers[W];
    e->buffers[1].space = TSR_SPACE_WORKSPACE;
    e->entry.buffer_count = 2;
    e->entry.workspace_bytes = 64;
    e->commands[0] = e->commands[GATHER];
    e->arguments[GATHER][0] = 1;
    e->arguments[GATHER][1] = W_PART;
}

Test(parts, any_entry_gathers_them) {
    example e;
    tsr_ctx ctx = {0};
    tsr_holding holdings[3];
    make_reader(&e);
    cr_assert_eq(tsr_program_verify(&ctx, &e.program, &e.config, TSR_INTERNAL).code, TSR_OK, "%s",
                 ctx.error.text);
    tsr_program_find_holdings(&e.program, &e.config, holdings);
    cr_expect_eq(holdings[0], TSR_HOLDING_PARTS);
    e.buffers[1].space = TSR_SPACE_TENSOR;
    cr_expect_eq(tsr_program_verify(&ctx, &e.program, &e.config, TSR_CORRUPT).code, TSR_CORRUPT);
    cr_expect(strstr(ctx.error.text, "an entry of kind eval may write, got param 'w'"), "%s",
              ctx.error.text);
    make_reader(&e);
    e.buffers[W_PART].space = TSR_SPACE_VRANK;
    cr_expect_eq(tsr_program_verify(&ctx, &e.program, &e.config, TSR_CORRUPT).code, TSR_CORRUPT);
    cr_expect(strstr(ctx.error.text, "expected one of an entry without virtual ranks"), "%s",
              ctx.error.text);
}

/* The first loop gathers a tensor, as for a launch that reads it. */
static void make_gathering(example *e) {
    make_example(e);
    e->buffers[W].space = TSR_SPACE_WORKSPACE;
    e->entry.workspace_bytes = 64;
    for (int i = GATHER; i > ADD; i--) {
        e->commands[i] = e->commands[i - 1];
        memcpy(e->arguments[i], e->arguments[i - 1], sizeof e->arguments[i]);
        e->commands[i].arguments = e->arguments[i];
    }
    e->commands[ADD] = (tsr_program_command){.opcode = TSR_OP_COLLECTIVE,
                                             .kernel = TSR_COLLECTIVE_ALL_GATHER,
                                             .argument_count = 2,
                                             .arguments = e->arguments[ADD],
                                             .location = ""};
    e->arguments[ADD][0] = W;
    e->arguments[ADD][1] = W_PART;
    e->commands[FIRST].grid = 2;
}

Test(parts, only_programs_that_gather_in_loops_are_of_version_8) {
    example e;
    tsr_buffer out = {0};
    make_gathering(&e);
    list_valid(&e, &out);
    tsr_buffer_finish(&out);
    check_version(&e, 8);
}

static void refuse_gathering(const example *e, const char *message) {
    tsr_ctx ctx = {0};
    cr_expect_eq(tsr_program_verify(&ctx, &e->program, &e->config, TSR_CORRUPT).code, TSR_CORRUPT);
    cr_expect(strstr(ctx.error.text, message), "%s", ctx.error.text);
}

Test(parts, loops_gather_tensors_that_they_do_not_write) {
    example e;
    make_gathering(&e);
    e.commands[ADD].kernel = TSR_COLLECTIVE_BROADCAST;
    refuse_gathering(&e, "or an all_gather of a tensor's parts, got it in one");
    make_gathering(&e);
    e.arguments[ADD][1] = G_PART;
    refuse_gathering(&e, "or an all_gather of a tensor's parts, got it in one");
    make_gathering(&e);
    e.buffers[W].space = TSR_SPACE_TENSOR;
    refuse_gathering(&e, "expected a buffer of the virtual rank, written in a loop");
    make_gathering(&e);
    e.commands[SLICE] = e.commands[GATHER]; /* the step instead of the sum */
    refuse_gathering(&e, "all_gather: expected a tensor that its loop does not write, got 'w'");
}

Test(parts, bad_ones_are_refused) {
    REFUSED(e.config.virtual_ranks = 1, "expected one of an entry without virtual ranks");
    REFUSED(e.buffers[W_PART].index = 3, "buffers[0]: index: expected less than 3, got 3");
    REFUSED(e.buffers[W_PART].offset_bytes = 64, "buffers[0]: offset: expected 0, got 64");
    REFUSED(e.buffers[W_PART].shape.dims[0] = 4,
            "expected 3xf32 as a virtual rank's part of tensor 'w' has, got 4xf32");
    REFUSED(e.buffers[M_PART].dtype = TSR_DTYPE_I32,
            "expected 3xf32 as a virtual rank's part of tensor 'm' has, got 3xi32");
    REFUSED(e.buffers[M_PART].index = 2, "an entry of kind train may write, got constant 'c'");
    REFUSED((e.buffers[W].space = TSR_SPACE_PART, e.buffers[W].shape = e.buffers[W_PART].shape),
            "all_gather: expected its result in one buffer");
    REFUSED((e.commands[GATHER].opcode = TSR_OP_COPY, e.commands[GATHER].kernel = 0,
             e.arguments[GATHER][0] = M_PART),
            "arguments[0]: expected a buffer seen outside of loops over virtual ranks");
    REFUSED(e.arguments[SLICE][1] = M_PART,
            "slice: expected its result in a slot of each virtual rank");
    REFUSED((e.arguments[SLICE][0] = W_PART),
            "slice: expected its result in a slot of each virtual rank");
    REFUSED(e.buffers[G_PART].shape.dims[0] = 2, "slice: expected types that fit 4 virtual ranks");
    REFUSED(e.entry.command_count--,
            "expected an all_gather after the command that writes parts of tensor "
            "'w', which must be complete, got none");
    REFUSED(e.arguments[GATHER][1] = M_PART, "after the command that writes parts of tensor 'w'");
}
