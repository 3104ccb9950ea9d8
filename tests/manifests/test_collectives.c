/* SPDX-License-Identifier: Apache-2.0
 *
 * Collectives of a program: valid fields, their listing, their version.
 */
#include "tests/manifests/vrank_program.h"

static tsr_config_port outputs[] = {
    {.name = "y", .dtype = TSR_DTYPE_F32, .shape = {1, {7}}, .source = TSR_PORT_ARGUMENT}};
static tsr_config_entry entries[] = {
    {.name = "train", .kind = TSR_ENTRY_TRAIN, .batch = 8, .output_count = 1, .outputs = outputs}};

enum { OWN, SUM, PART, Y, ROWS, MIXED, BUFFERS };
enum { LOOP, FILL, ADD, SCATTER, GATHER, MIX, COMMANDS };

/* A sum over four leaves of seven elements, reduced in parts of two elements and gathered again. */
static void make_example(example *e) {
    static const tsr_space spaces[] = {TSR_SPACE_VRANK,  TSR_SPACE_SUMS,  TSR_SPACE_VRANK,
                                       TSR_SPACE_OUTPUT, TSR_SPACE_VRANK, TSR_SPACE_VRANK};
    static const uint64_t dims[] = {7, 7, 2, 7, 8, 8};
    static const uint32_t arguments[COMMANDS][VRANK_ARGUMENTS] = {
        {0}, {OWN, ROWS}, {SUM, OWN}, {PART, SUM}, {Y, PART}, {MIXED, ROWS}};
    static const tsr_opcode opcodes[] = {TSR_OP_EACH_VRANK, TSR_OP_LAUNCH,     TSR_OP_VRANK_SUM,
                                         TSR_OP_COLLECTIVE, TSR_OP_COLLECTIVE, TSR_OP_COLLECTIVE};
    static const uint32_t kernels[] = {0,
                                       0,
                                       0,
                                       TSR_COLLECTIVE_REDUCE_SCATTER,
                                       TSR_COLLECTIVE_ALL_GATHER,
                                       TSR_COLLECTIVE_ALL_TO_ALL};
    begin_example(e, entries, BUFFERS, COMMANDS);
    memcpy(e->arguments, arguments, sizeof arguments);
    for (int i = 0; i < BUFFERS; i++)
        e->buffers[i] =
            (tsr_program_buffer){.space = spaces[i],
                                 .offset_bytes = i == SUM || i == Y ? 0 : 64u * (unsigned)i,
                                 .dtype = TSR_DTYPE_F32,
                                 .shape = {1, {dims[i]}},
                                 .name = ""};
    for (int i = 0; i < COMMANDS; i++)
        e->commands[i] = (tsr_program_command){.opcode = opcodes[i],
                                               .kernel = kernels[i],
                                               .grid = i == LOOP ? 2 : i < SCATTER,
                                               .argument_count = i == LOOP ? 0 : 2,
                                               .written_from = 0,
                                               .arguments = e->arguments[i],
                                               .location = ""};
}

Test(collectives, the_example_is_valid_and_listed) {
    static const char text[] = "  3: reduce_scatter among virtual ranks: %2 <- %1\n"
                               "  4: all_gather among virtual ranks: %3 <- %2\n"
                               "  5: all_to_all among virtual ranks: %5 <- %4\n";
    example e;
    tsr_buffer out = {0};
    make_example(&e);
    list_valid(&e, &out);
    cr_assert(strstr(out.bytes, text), "%s", out.bytes);
    tsr_buffer_finish(&out);
}

Test(collectives, only_programs_with_them_are_of_version_5) {
    example e;
    make_example(&e);
    check_version(&e, 5);
}

Test(collectives, each_is_found_by_its_name_and_number) {
    for (uint32_t i = 1; i <= 6; i++) {
        const tsr_collective_row *row = tsr_collective_get(i);
        cr_assert(row && row->kind == (tsr_collective_kind)i);
        cr_expect_eq(tsr_collective_find(row->name), row);
    }
    cr_expect_null(tsr_collective_get(0));
    cr_expect_null(tsr_collective_get(7));
    cr_expect_null(tsr_collective_find("gossip"));
}

Test(collectives, parts_cover_the_whole) {
    for (uint64_t count = 0; count < 40; count++)
        for (uint64_t positions = 1; positions < 12; positions++) {
            uint64_t part = tsr_collective_part(count, positions);
            cr_expect(part * positions >= count && (part == 0 || (part - 1) * positions < count));
        }
    cr_expect_eq(tsr_collective_part(UINT64_MAX, 2), UINT64_C(1) << 63);
}

Test(collectives, bad_ones_are_refused) {
    REFUSED(e.config.virtual_ranks = 1, "expected one of an entry without virtual ranks");
    REFUSED(e.commands[LOOP].grid = 3, "commands[3]: collective: expected outside of loops");
    REFUSED(e.commands[SCATTER].kernel = 0, "collective: expected one of 1 ... 6, got 0");
    REFUSED(e.commands[SCATTER].kernel = 7, "collective: expected one of 1 ... 6, got 7");
    REFUSED(e.commands[SCATTER].grid = 1, "reduce_scatter: expected grid and written_from 0");
    REFUSED(e.commands[SCATTER].written_from = 1, "reduce_scatter: expected grid and written_from");
    REFUSED(e.commands[SCATTER].argument_count = 1, "collective: expected 2 arguments, got 1");
    REFUSED(e.arguments[SCATTER][1] = OWN,
            "its operand a sum over virtual ranks, got spaces 16 and 16");
    REFUSED(e.arguments[SCATTER][0] = Y, "its result in a slot of each virtual rank");
    REFUSED(e.commands[SCATTER].kernel = TSR_COLLECTIVE_ALL_REDUCE,
            "all_reduce: expected its result in one buffer");
    REFUSED(e.arguments[GATHER][0] = SUM, "expected a buffer that may be written, got space 17");
    REFUSED(e.buffers[PART].shape.dims[0] = 3,
            "types that fit 4 virtual ranks, got 3xf32 and 7xf32");
    REFUSED(e.buffers[PART].dtype = TSR_DTYPE_F64,
            "types that fit 4 virtual ranks, got 2xf64 and 7xf32");
    REFUSED((e.buffers[ROWS].shape.dims[0] = e.buffers[MIXED].shape.dims[0] = 6),
            "all_to_all: expected types that fit 4 virtual ranks, got 6xf32 and 6xf32");
    REFUSED(e.buffers[MIXED].offset_bytes = e.buffers[ROWS].offset_bytes,
            "all_to_all: expected buffers apart, got 5 and 4 that overlap");
    REFUSED(e.commands[MIX] = e.commands[SCATTER], "a sum that no other takes, got buffer 1 again");
    REFUSED((e.commands[MIX].opcode = TSR_OP_COPY, e.commands[MIX].kernel = 0,
             e.arguments[MIX][0] = Y, e.arguments[MIX][1] = SUM),
            "arguments[1]: expected no sum that a collective takes, got buffer 1");
    REFUSED((e.arguments[ADD][1] = ROWS, e.arguments[ADD][0] = OWN), "a buffer of sums");
    REFUSED((e.commands[ADD] = e.commands[FILL], e.arguments[ADD][0] = ROWS),
            "expected a loop before that sums buffer 1, got none");
    REFUSED((e.config.virtual_ranks = 257, e.buffers[PART].shape.dims[0] = 1,
             e.buffers[ROWS].shape.dims[0] = e.buffers[MIXED].shape.dims[0] = 257,
             e.buffers[MIXED].offset_bytes = 4096),
            "all_to_all: expected at most 256 virtual ranks, got 257");
}
