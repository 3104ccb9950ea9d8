/* SPDX-License-Identifier: Apache-2.0
 *
 * Loops and branches of a program: decoded bytes encode to the same bytes, verify and decode refuse
 * invalid programs, and buffers that a loop reads are live during the whole loop.
 */
#include "tests/manifests/control_program.h"
#include "tests/manifests/refused.h"

#include <criterion/criterion.h>
#include <string.h>

Test(control, comes_back_and_is_listed) {
    example e;
    tsr_ctx ctx = {0};
    tsr_arena arena = {0};
    tsr_program again;
    tsr_buffer text = {0};
    void *bytes;
    size_t size;
    make_example(&e);
    cr_assert_eq(tsr_program_verify(&ctx, &e.program, &config, TSR_INTERNAL).code, TSR_OK, "%s",
                 ctx.error.text);
    cr_assert_eq(tsr_program_encode(&ctx, &e.program, &arena, &bytes, &size).code, TSR_OK);
    unsigned char *version = (unsigned char *)bytes + 8;
    cr_assert_eq(*version, 7, "the version that has loops");
    cr_assert_eq(tsr_program_decode(&ctx, bytes, size, &config, &arena, &again).code, TSR_OK, "%s",
                 ctx.error.text);
    tsr_program_format(&again, &config, &text);
    static const char want[] = "  0: launch @zero grid 1 write %3\n"
                               "  1: repeat 3 times: the next 6    m.mlir:1:1\n"
                               "  2: launch @less grid 1 read %3 write %7\n"
                               "  3: stop unless %7\n"
                               "  4: take %4 <- slice of %0, from the last on\n"
                               "  5: launch @add grid 1 read %3, %4 write %5\n"
                               "  6: put slice of %6 <- %5, from the last on\n"
                               "  7: copy %3 <- %5\n"
                               "  8: launch @less grid 1 read %3 write %7\n"
                               "  9: when %7: the next 1\n"
                               "  10: launch @twice grid 1 write %3\n"
                               "  11: unless %7: the next 1\n";
    cr_assert(strstr(text.bytes, want), "%s", text.bytes);
    *version = 6;
    cr_assert_eq(tsr_program_decode(&ctx, bytes, size, &config, &arena, &again).code, TSR_CORRUPT);
    cr_assert(strstr(ctx.error.text, "expected 7 for its contents, got 6"), "%s", ctx.error.text);
    tsr_buffer_finish(&text);
    tsr_arena_finish(&arena);
}

#define REFUSED EXAMPLE_REFUSED

Test(control, ranges_lie_in_each_other) {
    REFUSED(c[REPEAT].kernel = 0, "commands[1]: repeat: expected 1 ... 13 commands, got 0");
    REFUSED(c[REPEAT].kernel = COMMANDS, "commands[1]: repeat: expected 1 ... 13 commands, got 15");
    REFUSED(c[REPEAT].kernel = UINT32_MAX, "expected 1 ... 13 commands, got 4294967295");
    REFUSED(c[UNLESS].kernel = 4, "commands[11]: unless: expected 1 ... 3 commands, got 4");
    REFUSED((c[WHEN].kernel = 2, c[UNLESS].kernel = 2),
            "commands[11]: unless: expected 1 ... 0 commands, got 2");
    REFUSED(c[REPEAT].grid = 0, "commands[1]: repeat: expected 1 ... 281474976710656 times, got 0");
    REFUSED(c[REPEAT].grid = UINT64_MAX, "times, got 18446744073709551615");
    REFUSED(c[REPEAT].opcode = (tsr_opcode)26, "opcode: expected 1 ... 11 or 16 ... 25, got 26");
}

Test(control, only_so_many_lie_in_each_other) {
    tsr_program_command commands[TSR_PROGRAM_DEPTH_MAX + COMMANDS + 1];
    for (int depth = TSR_PROGRAM_DEPTH_MAX - 1; depth <= TSR_PROGRAM_DEPTH_MAX; depth++) {
        example e;
        tsr_ctx ctx = {0};
        make_example(&e);
        /* The example itself has one more nested range. */
        for (int i = 0; i < depth; i++)
            commands[i] = (tsr_program_command){.opcode = TSR_OP_REPEAT,
                                                .kernel = (uint32_t)(depth - 1 - i + OUT_SUM),
                                                .grid = 2,
                                                .arguments = e.arguments[REPEAT],
                                                .location = ""};
        memcpy(commands + depth, e.commands, sizeof e.commands);
        e.entry.commands = commands;
        e.entry.command_count = (uint32_t)(COMMANDS + depth);
        tsr_code code = tsr_program_verify(&ctx, &e.program, &config, TSR_CORRUPT).code;
        cr_assert_eq(code, depth < TSR_PROGRAM_DEPTH_MAX ? TSR_OK : TSR_CORRUPT, "%s",
                     ctx.error.text);
        if (code) cr_assert(strstr(ctx.error.text, "at most 16 ranges in each other"));
    }
}

Test(control, conditions_are_scalars) {
    REFUSED(e.arguments[STOP][0] = SUM, "commands[3]: stop: expected a scalar i1, got 4xf32");
    REFUSED(e.buffers[GOES_ON].dtype = TSR_DTYPE_I8, "expected a scalar i1, got i8");
    REFUSED(c[WHEN].grid = 1, "commands[9]: when: expected grid 0, got 1");
    REFUSED(c[STOP].kernel = 1, "commands[3]: stop: expected kernel 0, got 1");
    REFUSED((c[STOP].argument_count = 2, c[STOP].written_from = 2),
            "stop: expected 1 argument and written_from 1, got 2 and 2");
    REFUSED(e.arguments[WHEN][0] = BUFFERS, "arguments[0]: expected less than 8, got 8");
}

Test(control, stops_and_slices_stand_in_a_loop) {
    REFUSED(c[WHEN] = c[STOP], "commands[9]: stop: expected in a loop, got it outside of one");
    REFUSED(c[TWICE] = c[TAKE], "commands[10]: take: expected in a loop, got it in a branch");
}

Test(control, slices_fit_their_loop) {
    REFUSED(c[REPEAT].grid = 4,
            "commands[4]: take: expected a sequence of type 4x4xf32 for this loop, got 3x4xf32");
    REFUSED(e.buffers[SLICE].shape.dims[0] = 3, "expected a sequence of type 3x3xf32");
    REFUSED((e.buffers[SUMS].dtype = TSR_DTYPE_I32, e.arguments[OUT_SUMS][1] = X),
            "put: expected a sequence of type 3x4xf32");
    REFUSED(e.buffers[NEXT].offset_bytes = 192, "expected buffers apart, got 6 and 5 that overlap");
    REFUSED(c[TAKE].kernel = 2, "take: expected direction 0 or 1 and grid 0, got 2 and 0");
    REFUSED(c[PUT].argument_count = 0, "put: expected 2 arguments and written_from 0, got 0 and 0");
    REFUSED(e.buffers[SLICE].shape = ((tsr_shape){8, {1, 1, 1, 1, 1, 1, 1, 4}}),
            "take: expected a slice of less than 8 dims, got 8");
}

Test(control, ranges_write_the_workspace_alone) {
    REFUSED(e.arguments[ADD][2] = Y,
            "arguments[2]: expected a buffer in the workspace, written in a loop or branch, got "
            "space 3");
    REFUSED(e.arguments[COPY_SUM][0] = Y, "expected a buffer in the workspace");
    REFUSED(e.arguments[TAKE][0] = X, "expected a buffer that may be written, got input 'x'");
    REFUSED(e.arguments[TWICE][0] = Y, "commands[10]: arguments[0]: expected a buffer in the");
}

Test(control, goes_with_no_region) {
    static tsr_program_region region = {"stage", TSR_REGION_REPLAY, 0};
    REFUSED((e.entry.regions = &region, e.entry.region_count = 1, c[WHEN].opcode = TSR_OP_ENTER,
             c[WHEN].kernel = 0, c[WHEN].argument_count = 0, c[WHEN].written_from = 0,
             c[TWICE] = c[WHEN], c[TWICE].opcode = TSR_OP_LEAVE),
            "commands[9]: opcode: expected a launch, copy, prepare or one of loops and branches");
}

/* A loop has no arguments; the field for the number of its commands is not an argument. */
Test(control, tensors_written_beside_loops_are_numbered) {
    example e;
    uint32_t numbers[3] = {0};
    make_example(&e);
    e.commands[REPEAT].arguments = NULL; /* must not be read */
    tsr_program_number_changes(&e.entry, numbers);
    cr_expect(!numbers[0] && !numbers[1] && !numbers[2], "outputs are no tensors");
    e.buffers[Y].space = TSR_SPACE_TENSOR; /* written after the loop */
    e.buffers[Y].index = 2;
    e.buffers[SUMS].space = TSR_SPACE_TENSOR; /* written by a PUT in the loop */
    e.buffers[SUMS].index = 1;
    e.buffers[X].space = e.buffers[GOES_ON].space = TSR_SPACE_TENSOR; /* read; written in loop */
    tsr_program_number_changes(&e.entry, numbers);
    cr_expect(numbers[0] == 1, "written by a launch of the loop, got %u", numbers[0]);
    cr_expect(numbers[1] == 2, "written by a put, got %u", numbers[1]);
    cr_expect(numbers[2] == 3, "written behind the loop, got %u", numbers[2]);
}

Test(control, what_a_command_writes_is_among_its_arguments) {
    uint32_t argument = 0;
    for (unsigned opcode = 0; opcode < 40; opcode++) {
        tsr_program_command c = {.opcode = (tsr_opcode)opcode, .arguments = &argument};
        cr_expect_eq(tsr_program_written_end(&c), 0, "opcode %u without arguments", opcode);
        c.argument_count = 1;
        cr_expect_leq(tsr_program_written_end(&c), 1, "opcode %u", opcode);
        c.argument_count = 2;
        bool ranges =
            opcode == TSR_OP_EACH_VRANK || (opcode >= TSR_OP_REPEAT && opcode < TSR_OP_TAKE);
        if (ranges) cr_expect_eq(tsr_program_written_end(&c), 0, "opcode %u", opcode);
    }
}

Test(control, what_a_loop_reads_is_in_use_until_it_ends) {
    example e;
    tsr_arena arena = {0};
    uint64_t live[COMMANDS];
    make_example(&e);
    cr_assert(tsr_program_live(&e.entry, &arena, live));
    /* The sums are live from the beginning of the loop on, and the running sum during the whole
     * loop. */
    cr_assert_eq(live[REPEAT], 16 + 48);
    cr_assert_eq(live[ADD], 16 + 48 + 16 + 16 + 1);
    cr_assert_eq(live[OUT_SUMS], 48);
    tsr_arena_finish(&arena);
}
