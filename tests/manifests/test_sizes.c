/* SPDX-License-Identifier: Apache-2.0
 *
 * The sizes of an entry with an open dim: decoded bytes encode to the same bytes, invalid sizes and
 * uses are refused, and what the verifier accepts holds for every dim.
 */
#include "tests/manifests/open_program.h"
#include "tests/manifests/refused.h"

#include <criterion/criterion.h>
#include <string.h>

Test(sizes, come_back_and_are_listed) {
    example e;
    tsr_ctx ctx = {0};
    tsr_arena arena = {0};
    tsr_program again;
    tsr_buffer text = {0};
    void *bytes, *twice;
    size_t size, twice_size;
    make_example(&e);
    cr_assert_eq(tsr_program_verify(&ctx, &e.program, &config, TSR_INTERNAL).code, TSR_OK, "%s",
                 ctx.error.text);
    cr_assert_eq(tsr_program_encode(&ctx, &e.program, &arena, &bytes, &size).code, TSR_OK);
    unsigned char *version = (unsigned char *)bytes + 8;
    cr_assert_eq(*version, 10, "the version that has sizes");
    cr_assert_eq(tsr_program_decode(&ctx, bytes, size, &config, &arena, &again).code, TSR_OK, "%s",
                 ctx.error.text);
    cr_assert_eq(tsr_program_encode(&ctx, &again, &arena, &twice, &twice_size).code, TSR_OK);
    cr_assert(size == twice_size && memcmp(bytes, twice, size) == 0);
    tsr_program_format(&again, &config, &text);
    cr_assert(strstr(text.bytes, "  #4 = divide_up #0, #3\n"), "%s", text.bytes);
    cr_assert(strstr(text.bytes, "  #0 = N, 1 to 64\n  #1 = 2\n  #2 = multiply #0, #1\n"));
    cr_assert(strstr(text.bytes, "  %3 = output t : 128xf32 rows #2\n"));
    cr_assert(strstr(text.bytes, "  %6 = size 4 : i64\n"));
    cr_assert(strstr(text.bytes, "  0: launch @rows grid 4 (#4) cost 64000 (#6) read %0, %1, %5, "
                                 "%6 write %4    m.mlir:1:1\n"));
    *version = 9;
    cr_assert_eq(tsr_program_decode(&ctx, bytes, size, &config, &arena, &again).code, TSR_CORRUPT);
    tsr_buffer_finish(&text);
    tsr_arena_finish(&arena);
}

Test(sizes, follow_from_the_dim) {
    example e;
    uint64_t values[SIZES];
    make_example(&e);
    for (uint64_t n = LOW; n <= HIGH; n++) {
        const uint64_t expected[SIZES] = {
            n,        2,     2 * n,  16, (n + 15) / 16,   1000,
            1000 * n, n / 2, n + 16, n,  n < 16 ? n : 16, n > 32 ? (n + 15) / 16 : 2};
        tsr_program_sizes(e.sizes, SIZES, n, values);
        for (int i = 0; i < SIZES; i++) cr_expect_eq(values[i], expected[i], "size %d", i);
        cr_expect(sizes_fit(&e.entry, n));
    }
}

#define REFUSED EXAMPLE_REFUSED
#define Z e.sizes
#define BUF e.buffers

Test(sizes, are_whole_numbers_for_every_dim) {
    REFUSED(Z[Z_TWO].kind = (tsr_size_kind)0, "sizes[1]: kind: expected 1 ... 9, got 0");
    REFUSED(Z[Z_TWO].kind = (tsr_size_kind)10, "sizes[1]: kind: expected 1 ... 9, got 10");
    REFUSED(Z[Z_TWO].number = UINT64_MAX,
            "sizes[1]: number: expected at most 2^63 - 1, got 18446744073709551615");
    REFUSED(Z[Z_TWICE].number = 1, "sizes[2]: number: expected at most 0, got 1");
    REFUSED(Z[Z_DIM].a = 1, "sizes[0]: expected no operands, got 1 and 0");
    REFUSED(Z[Z_TWICE].b = Z_TWICE, "sizes[2]: expected operands before size 2, got 0 and 2");
    REFUSED(Z[Z_TWICE].a = UINT32_MAX, "expected operands before size 2, got 4294967295 and 1");
    REFUSED((Z[Z_TWO].number = INT64_MAX),
            "sizes[2]: expected 0 ... 2^63 - 1 for every dim, got multiply of 1 ... 64 and "
            "9223372036854775807 ... 9223372036854775807");
    REFUSED((Z[Z_SIXTEEN].number = 0),
            "sizes[4]: expected 0 ... 2^63 - 1 for every dim, got divide_up of 1 ... 64 and 0 ... "
            "0");
    REFUSED((Z[Z_REST].a = Z_DIM),
            "sizes[9]: expected 0 ... 2^63 - 1 for every dim, got subtract of 1 ... 64 and 16 ... "
            "16");
    REFUSED((Z[Z_SIXTEEN].number = INT64_MAX), "sizes[8]: expected 0 ... 2^63 - 1 for every dim");
    REFUSED((e.entry.size_count = 0, c[ROWS_OF_W].grid_size = 0),
            "sizes: expected 1 ... 4096, got 0");
}

Test(sizes, fit_what_they_replace) {
    REFUSED(c[ROWS_OF_W].grid_size = 1 + SIZES,
            "commands[0]: grid: expected one of 12 sizes, got number 12");
    REFUSED(c[ROWS_OF_W].grid_size = 1 + Z_DIM,
            "commands[0]: grid: expected 1 ... 4 for every dim, got 1 ... 64");
    REFUSED(c[ROWS_OF_W].grid_size = 1 + Z_HALF,
            "commands[0]: grid: expected 1 ... 4 for every dim, got 0 ... 32");
    REFUSED(c[ROWS_OF_W].cost = 63999,
            "commands[0]: cost: expected 0 ... 63999 for every dim, got 1000 ... 64000");
    REFUSED(c[COPY].grid_size = 1, "commands[2]: expected no sizes of grid and cost, got 1 and 0");
    REFUSED(BUF[W].rows = 1 + Z_TWICE,
            "buffers[4]: rows: expected 0 ... 64 for every dim, got 2 ... 128");
    REFUSED(BUF[W].rows = UINT32_MAX, "buffers[4]: rows: expected one of 12 sizes, got number");
    REFUSED(BUF[S].rows = 1 + Z_TWO, "buffers[1]: rows: expected 0 times the dim as 's' has");
    REFUSED(BUF[X].rows = 0, "buffers[0]: rows: expected 1 times the dim as 'x' has, got size 0");
    REFUSED(BUF[T].rows = 1 + Z_DIM,
            "buffers[3]: rows: expected 2 times the dim as 't' has, got size 1");
    REFUSED(BUF[Y].rows = 1 + Z_LESS, "buffers[2]: rows: expected 1 times the dim as 'y' has");
    REFUSED(BUF[N].rows = 1, "buffers[5]: expected a scalar i64, one of 12 sizes");
    REFUSED(BUF[N].index = SIZES, "buffers[5]: expected a scalar i64, one of 12 sizes, got i64 of");
    REFUSED(BUF[N].dtype = TSR_DTYPE_F64, "buffers[5]: expected a scalar i64");
    REFUSED(BUF[W].rows = 1 + Z_LESS,
            "commands[2]: copy: expected one size of the rows, got 1 and");
    REFUSED(e.arguments[TWICE][2] = N, "got space 7");
}

Test(sizes, belong_to_open_dims) {
    example e;
    tsr_ctx ctx = {0};
    tsr_config_entry closed = config_entry;
    tsr_config other = config;
    make_example(&e);
    closed.open.name = NULL;
    other.entries = &closed;
    cr_assert_eq(tsr_program_verify(&ctx, &e.program, &other, TSR_CORRUPT).code, TSR_CORRUPT);
    cr_assert(strstr(ctx.error.text, "sizes: expected none, got 12"), "%s", ctx.error.text);
}

/* What is accepted fits for every dim; the ranges of products and quotients are exact often enough
 * that some tables are accepted. */
Test(sizes, accepted_tables_fit) {
    uint32_t state = 12345, accepted = 0;
#define RANDOM(limit) ((state = state * 1664525u + 1013904223u) >> 8) % (uint32_t)(limit)
    for (int round = 0; round < 200000; round++) {
        example e;
        tsr_ctx ctx = {0};
        make_example(&e);
        for (uint32_t i = Z_HALF; i < SIZES; i++) {
            e.sizes[i] =
                (tsr_program_size){(tsr_size_kind)(TSR_SIZE_CONSTANT + RANDOM(8)), 0, 0, 0};
            if (e.sizes[i].kind == TSR_SIZE_CONSTANT) {
                e.sizes[i].number = RANDOM(5) ? RANDOM(200) : (uint64_t)INT64_MAX - RANDOM(3);
                continue;
            }
            e.sizes[i].a = RANDOM(i);
            e.sizes[i].b = RANDOM(i);
        }
        e.commands[TWICE].grid_size = 1 + RANDOM(SIZES);
        e.commands[TWICE].grid = 1 + RANDOM(300);
        e.commands[TWICE].cost = RANDOM(5000);
        e.commands[TWICE].cost_size = RANDOM(SIZES + 1);
        if (tsr_program_verify(&ctx, &e.program, &config, TSR_CORRUPT).code) continue;
        accepted++;
        for (uint64_t n = LOW; n <= HIGH; n++) cr_assert(sizes_fit(&e.entry, n));
    }
    cr_assert(accepted > 2000, "only %u tables were accepted", accepted);
}
