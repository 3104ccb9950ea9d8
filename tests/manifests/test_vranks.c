/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs with leaves of virtual ranks: valid fields, their listing, their version.
 */
#include "tests/manifests/vrank_program.h"

static tsr_config_port inputs[] = {
    {.name = "x", .dtype = TSR_DTYPE_F32, .shape = {2, {8, 3}}, .source = TSR_PORT_DATA}};
static tsr_config_port outputs[] = {
    {.name = "y", .dtype = TSR_DTYPE_F32, .shape = {2, {2, 3}}, .source = TSR_PORT_ARGUMENT}};
static tsr_config_entry entries[] = {{.name = "train",
                                      .kind = TSR_ENTRY_TRAIN,
                                      .batch = 8,
                                      .input_count = 1,
                                      .output_count = 1,
                                      .inputs = inputs,
                                      .outputs = outputs}};

enum { X, NUMBER, PART, SUM, ALL, Y, BUFFERS, COMMANDS = 5 };

/* y = the sum over four leaves of k(number, x); no command reads the gathered values. */
static void make_example(example *e) {
    static const tsr_space spaces[] = {TSR_SPACE_INPUT, TSR_SPACE_VRANK_NUMBER, TSR_SPACE_VRANK,
                                       TSR_SPACE_SUMS,  TSR_SPACE_WORKSPACE,    TSR_SPACE_OUTPUT};
    static const uint32_t arguments[COMMANDS][VRANK_ARGUMENTS] = {
        {0}, {NUMBER, X, PART}, {SUM, PART}, {ALL, PART}, {Y, SUM}};
    static const uint32_t counts[] = {0, 3, 2, 2, 2};
    static const tsr_opcode opcodes[] = {TSR_OP_EACH_VRANK, TSR_OP_LAUNCH, TSR_OP_VRANK_SUM,
                                         TSR_OP_VRANK_GATHER, TSR_OP_COPY};
    begin_example(e, entries, BUFFERS, COMMANDS);
    e->entry.workspace_bytes = 128;
    memcpy(e->arguments, arguments, sizeof arguments);
    for (int i = 0; i < BUFFERS; i++)
        e->buffers[i] = (tsr_program_buffer){
            .space = spaces[i], .dtype = TSR_DTYPE_F32, .shape = {2, {2, 3}}, .name = ""};
    e->buffers[NUMBER].dtype = TSR_DTYPE_I64;
    e->buffers[NUMBER].shape.rank = 0;
    e->buffers[ALL].shape.dims[0] = 8;
    for (int i = 0; i < COMMANDS; i++)
        e->commands[i] = (tsr_program_command){.opcode = opcodes[i],
                                               .grid = i == 0 ? 3 : i < 3,
                                               .argument_count = counts[i],
                                               .written_from = i == 1 ? 2 : 0,
                                               .arguments = e->arguments[i],
                                               .location = ""};
}

Test(vranks, the_example_is_valid_and_listed) {
    static const char text[] = "program: 1 kernel, 1 entry\n"
                               "entry @train (train, batch 8): workspace 128 bytes\n"
                               "  %0 = input x : 2x3xf32\n"
                               "  %1 = virtual rank number : i64\n"
                               "  %2 = virtual rank +0 : 2x3xf32\n"
                               "  %3 = sums +0 : 2x3xf32\n"
                               "  %4 = workspace +0 : 8x3xf32\n"
                               "  %5 = output y : 2x3xf32\n"
                               "  0: for each virtual rank: the next 3\n"
                               "  1: launch @k grid 1 read %1, %0 write %2\n"
                               "  2: sum over virtual ranks by @k grid 1: %3 <- %2\n"
                               "  3: gather from virtual ranks: %4 <- %2\n"
                               "  4: copy %5 <- %3\n";
    example e;
    tsr_buffer out = {0};
    make_example(&e);
    list_valid(&e, &out);
    cr_assert_str_eq(out.bytes, text);
    tsr_buffer_finish(&out);
    cr_assert_eq(tsr_program_space_bytes(&e.entry, TSR_SPACE_VRANK), 64);
    e.buffers[PART].offset_bytes = 128;
    cr_assert_eq(tsr_program_space_bytes(&e.entry, TSR_SPACE_VRANK), 192);
    cr_assert_eq(tsr_program_space_bytes(&e.entry, TSR_SPACE_SUMS), 64);
}

Test(vranks, only_programs_with_loops_are_of_version_4) {
    example e;
    make_example(&e);
    check_version(&e, 4);
}

Test(vranks, bad_ones_are_refused) {
    REFUSED(e.config.virtual_ranks = 1, "as input 'x' has");
    REFUSED(e.buffers[X].shape.dims[0] = 8, "expected 2x3xf32 as input 'x' has, got 8x3xf32");
    REFUSED(e.buffers[NUMBER].shape.rank = 1, "a scalar i64");
    REFUSED(e.buffers[NUMBER].offset_bytes = 64, "a scalar i64 at offset 0");
    REFUSED(e.buffers[PART].offset_bytes = 8, "a multiple of 64, got 8");
    REFUSED(e.buffers[PART].offset_bytes = UINT64_C(1) << 48, "inside the workspace");
    REFUSED(e.buffers[SUM].index = 1, "expected 0 in the workspace, got 1");
    REFUSED(e.buffers[Y].space = (tsr_space)20, "space: expected 1 ... 7 or 16 ... 19, got 20");
    REFUSED(e.commands[0].grid = 0, "each_vrank: expected 1 ... 4 commands, got 0");
    REFUSED(e.commands[0].grid = 5, "each_vrank: expected 1 ... 4 commands, got 5");
    REFUSED(e.commands[0].kernel = 1, "each_vrank: expected no arguments");
    REFUSED(e.commands[0].grid = 4,
            "expected a launch, sum or gather in a loop over virtual ranks, got 2");
    REFUSED(e.commands[0].grid = 1, "vrank_sum: expected inside of a loop");
    REFUSED(e.commands[0].grid = 2, "vrank_gather: expected inside of a loop");
    REFUSED(e.commands[1] = e.commands[0], "expected the end of the loop before, got 3");
    REFUSED(e.arguments[1][2] = NUMBER, "may be written, got space 18");
    REFUSED(e.arguments[1][2] = SUM, "may be written, got space 17");
    REFUSED(e.arguments[1][2] = Y, "a buffer of the virtual rank, written in a loop, got space 3");
    REFUSED(e.arguments[2][0] = PART,
            "a buffer of sums and one of a virtual rank, got spaces 16 and 16");
    REFUSED(e.commands[2].kernel = 1, "kernel: expected less than 1, got 1");
    REFUSED(e.commands[2].grid = 0, "grid: expected 1");
    REFUSED(e.commands[2].written_from = 1, "vrank_sum: expected 2 arguments and written_from 0");
    REFUSED(e.buffers[SUM].shape.dims[0] = 3, "vrank_sum: expected one type, got 3x3xf32 and");
    REFUSED((e.buffers[SUM].dtype = e.buffers[PART].dtype = TSR_DTYPE_I32), "f32, f64 or i64");
    REFUSED(e.commands[3].grid = 1, "vrank_gather: expected 2 arguments");
    REFUSED(e.buffers[ALL].shape.dims[0] = 6, "expected a buffer of 96 bytes in the workspace");
    REFUSED(e.arguments[4][1] = PART, "arguments[1]: expected a buffer seen outside of loops");
    REFUSED(e.arguments[4][1] = X, "arguments[1]: expected a buffer seen outside of loops");
}
