/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/schedule/memory/plan.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static tsr_ctx ctx;
static tsr_arena arena;

static void finish(void) { tsr_arena_finish(&arena); }

static tsr_workspace_plan plan_of(const tsr_plan_value *values, uint32_t count) {
    tsr_workspace_plan plan;
    tsr_result result = tsr_workspace_plan_build(&ctx, values, count, &arena, &plan);
    cr_assert_eq(result.code, TSR_OK, "%s", ctx.error.text);
    return plan;
}

static uint64_t up(uint64_t size) { return ((size ? size : 1) + 63) / 64 * 64; }

/* Two values that are live at the same command must not overlap, unless the later one may replace
 * the earlier. */
static void check_apart(const tsr_plan_value *values, uint32_t count,
                        const tsr_workspace_plan *plan) {
    for (uint32_t i = 0; i < count; i++) {
        cr_assert_eq(plan->offset_bytes[i] % 64, 0);
        if (values[i].align_bytes) cr_assert_eq(plan->offset_bytes[i] % values[i].align_bytes, 0);
        cr_assert_leq(plan->offset_bytes[i] + values[i].size_bytes, plan->peak_bytes);
        for (uint32_t j = 0; j < count; j++) {
            if (i == j || values[i].first > values[j].last || values[j].first > values[i].last)
                continue;
            uint64_t a = plan->offset_bytes[i], b = plan->offset_bytes[j];
            if (a + up(values[i].size_bytes) <= b || b + up(values[j].size_bytes) <= a) continue;
            const tsr_plan_value *late =
                values[i].first > values[j].first ? &values[i] : &values[j];
            uint32_t early = late == &values[i] ? j : i;
            bool allowed = false;
            for (uint32_t k = 0; k < late->replace_count; k++) allowed |= late->replace[k] == early;
            cr_assert(allowed && a == b && values[early].last == late->first,
                      "values %u and %u overlap at %" PRIu64 " and %" PRIu64, i, j, a, b);
        }
    }
}

/* The smallest peak over all orders of placing each value at the lowest free offset: some order is
 * optimal, so this is the optimum (only for values that do not replace others). */
static void optimum(const tsr_plan_value *values, uint32_t count, uint32_t done, uint64_t *offsets,
                    bool *used, uint32_t *order, uint64_t *best) {
    if (done == count) {
        uint64_t peak = 0;
        for (uint32_t i = 0; i < count; i++)
            if (offsets[i] + up(values[i].size_bytes) > peak)
                peak = offsets[i] + up(values[i].size_bytes);
        if (peak < *best) *best = peak;
        return;
    }
    for (uint32_t v = 0; v < count; v++) {
        if (used[v]) continue;
        uint64_t at = 0;
        for (bool moved = true; moved;) {
            moved = false;
            for (uint32_t k = 0; k < done; k++) {
                uint32_t o = order[k];
                if (values[o].first > values[v].last || values[v].first > values[o].last) continue;
                uint64_t end = offsets[o] + up(values[o].size_bytes);
                if (at < end && offsets[o] < at + up(values[v].size_bytes)) {
                    at = end;
                    moved = true;
                }
            }
        }
        offsets[v] = at;
        used[v] = true;
        order[done] = v;
        optimum(values, count, done + 1, offsets, used, order, best);
        used[v] = false;
    }
}

Test(memory_plan, no_values) {
    tsr_workspace_plan plan = plan_of(NULL, 0);
    cr_assert_eq(plan.peak_bytes, 0);
}

Test(memory_plan, values_apart_in_time_share_an_offset, .fini = finish) {
    tsr_plan_value values[] = {{.size_bytes = 100, .first = 0, .last = 1},
                               {.size_bytes = 128, .first = 2, .last = 3}};
    tsr_workspace_plan plan = plan_of(values, 2);
    cr_assert_eq(plan.offset_bytes[0], 0);
    cr_assert_eq(plan.offset_bytes[1], 0);
    cr_assert_eq(plan.peak_bytes, 128);
    cr_assert_eq(plan.floor_bytes, 128);
}

Test(memory_plan, input_and_output_of_a_command_do_not_share, .fini = finish) {
    tsr_plan_value values[] = {{.size_bytes = 64, .first = 0, .last = 1},
                               {.size_bytes = 64, .first = 1, .last = 2}};
    tsr_workspace_plan plan = plan_of(values, 2);
    check_apart(values, 2, &plan);
    cr_assert_eq(plan.peak_bytes, 128);
    cr_assert_eq(plan.replaced_count, 0);
}

Test(memory_plan, in_place_chain_needs_one_place, .fini = finish) {
    static const uint32_t r0 = 0, r1 = 1;
    tsr_plan_value values[] = {
        {.size_bytes = 1000, .first = 0, .last = 1},
        {.size_bytes = 1000, .first = 1, .last = 2, .replace = &r0, .replace_count = 1},
        {.size_bytes = 1000, .first = 2, .last = 5, .replace = &r1, .replace_count = 1}};
    tsr_workspace_plan plan = plan_of(values, 3);
    check_apart(values, 3, &plan);
    cr_assert_eq(plan.peak_bytes, 1024);
    cr_assert_eq(plan.replaced_count, 2);
}

Test(memory_plan, memory_is_taken_over_once, .fini = finish) {
    static const uint32_t r0 = 0;
    tsr_plan_value values[] = {
        {.size_bytes = 64, .first = 0, .last = 1},
        {.size_bytes = 64, .first = 1, .last = 2, .replace = &r0, .replace_count = 1},
        {.size_bytes = 64, .first = 1, .last = 2, .replace = &r0, .replace_count = 1}};
    tsr_workspace_plan plan = plan_of(values, 3);
    check_apart(values, 3, &plan);
    cr_assert_eq(plan.peak_bytes, 128);
    cr_assert_eq(plan.replaced_count, 1);
}

Test(memory_plan, no_take_over_of_a_value_read_later_or_of_another_size, .fini = finish) {
    static const uint32_t both[] = {0, 1};
    tsr_plan_value values[] = {
        {.size_bytes = 64, .first = 0, .last = 3},
        {.size_bytes = 32, .first = 0, .last = 1},
        {.size_bytes = 64, .first = 1, .last = 2, .replace = both, .replace_count = 2}};
    tsr_workspace_plan plan = plan_of(values, 3);
    check_apart(values, 3, &plan);
    cr_assert_eq(plan.replaced_count, 0);
    cr_assert_eq(plan.peak_bytes, 192);
}

/* An aligned value after another one; in a gap that is too short after its first aligned offset;
 * and replacing a value that need not be aligned, which then is aligned too. */
Test(memory_plan, alignment, .fini = finish) {
    static const uint32_t r1 = 1;
    tsr_plan_value behind[] = {{.size_bytes = 320, .first = 0, .last = 1, .align_bytes = 128},
                               {.size_bytes = 320, .first = 0, .last = 1, .align_bytes = 128}};
    tsr_workspace_plan plan = plan_of(behind, 2);
    check_apart(behind, 2, &plan);
    cr_assert_eq(plan.offset_bytes[0] + plan.offset_bytes[1], 384);
    cr_assert_eq(plan.peak_bytes, 704);
    behind[1].align_bytes = 0;
    cr_assert_eq(plan_of(behind, 2).peak_bytes, 640);
    tsr_plan_value gap[] = {{.size_bytes = 320, .first = 0, .last = 9},
                            {.size_bytes = 256, .first = 0, .last = 1},
                            {.size_bytes = 192, .first = 0, .last = 9},
                            {.size_bytes = 128, .first = 3, .last = 4, .align_bytes = 256},
                            {.size_bytes = 64, .first = 3, .last = 4, .align_bytes = 64}};
    plan = plan_of(gap, 5);
    check_apart(gap, 5, &plan);
    tsr_plan_value chain[] = {{.size_bytes = 64, .first = 0, .last = 5},
                              {.size_bytes = 64, .first = 0, .last = 1},
                              {.size_bytes = 64,
                               .first = 1,
                               .last = 2,
                               .align_bytes = 128,
                               .replace = &r1,
                               .replace_count = 1}};
    plan = plan_of(chain, 3);
    check_apart(chain, 3, &plan);
    cr_assert_eq(plan.replaced_count, 1);
    cr_assert_eq(plan.offset_bytes[1] % 128, 0);
}

Test(memory_plan, sizes_that_overflow_are_refused, .fini = finish) {
    tsr_plan_value values[] = {{.size_bytes = UINT64_MAX - 3, .first = 0, .last = 1}};
    tsr_workspace_plan plan;
    cr_assert_eq(tsr_workspace_plan_build(&ctx, values, 1, &arena, &plan).code, TSR_MEMORY);
    tsr_plan_value two[] = {{.size_bytes = UINT64_MAX / 2, .first = 0, .last = 1},
                            {.size_bytes = UINT64_MAX / 2, .first = 0, .last = 1}};
    cr_assert_eq(tsr_workspace_plan_build(&ctx, two, 2, &arena, &plan).code, TSR_MEMORY);
}

/* Small problems against the exact optimum. The result is never below the optimum (that would be an
 * overlap) and seldom above: at most 3 in 100 of these fixed problems are not optimal, none by more
 * than a third. */
Test(memory_plan, small_problems_are_near_the_optimum, .fini = finish) {
    uint32_t worse = 0;
    srand(7);
    for (int round = 0; round < 300; round++) {
        tsr_plan_value values[6];
        uint64_t offsets[6], best = UINT64_MAX;
        bool used[6] = {false};
        uint32_t order[6];
        for (int i = 0; i < 6; i++) {
            uint32_t first = (uint32_t)rand() % 8;
            values[i] = (tsr_plan_value){.size_bytes = (uint64_t)(rand() % 8 + 1) * 64,
                                         .first = first,
                                         .last = first + (uint32_t)rand() % 4};
        }
        tsr_workspace_plan plan = plan_of(values, 6);
        check_apart(values, 6, &plan);
        optimum(values, 6, 0, offsets, used, order, &best);
        cr_assert_geq(plan.peak_bytes, best);
        cr_assert_leq(plan.floor_bytes, best);
        cr_assert_leq(plan.peak_bytes * 3, best * 4);
        if (plan.peak_bytes > best) worse++;
    }
    cr_assert_leq(worse, 9, "%u of 300 plans are not optimal", worse);
}

Test(memory_plan, large_random_problems_with_take_overs, .fini = finish) {
    enum { COUNT = 400 };
    static tsr_plan_value values[COUNT];
    static uint32_t replace[COUNT][3];
    srand(11);
    for (int round = 0; round < 20; round++) {
        for (uint32_t i = 0; i < COUNT; i++) {
            uint32_t first = (uint32_t)rand() % 200;
            values[i] = (tsr_plan_value){.size_bytes = (uint64_t)(rand() % 5) * 50,
                                         .first = first,
                                         .last = first + (uint32_t)rand() % 9,
                                         .replace = replace[i]};
        }
        for (uint32_t i = 0; i < COUNT; i++)
            for (uint32_t j = 0; j < COUNT && values[i].replace_count < 3; j++)
                if (values[j].last == values[i].first && rand() % 2)
                    replace[i][values[i].replace_count++] = j;
        tsr_workspace_plan plan = plan_of(values, COUNT), again = plan_of(values, COUNT);
        check_apart(values, COUNT, &plan);
        cr_assert_gt(plan.replaced_count, 0);
        cr_assert_leq(plan.peak_bytes * 2, plan.floor_bytes * 3);
        cr_assert_eq(plan.peak_bytes, again.peak_bytes);
        cr_assert_arr_eq(plan.offset_bytes, again.offset_bytes, sizeof(uint64_t) * COUNT);
        tsr_arena_finish(&arena);
        arena = (tsr_arena){0};
    }
}

/* Larger problems against the total size of the values at the busiest command, summed over these
 * fixed problems: without placing the values at the peak again the result is 3 % above. */
Test(memory_plan, larger_problems_are_near_the_floor, .fini = finish) {
    enum { VALUES = 60 };
    uint64_t peaks = 0, floors = 0;
    srand(11);
    for (int round = 0; round < 100; round++) {
        tsr_plan_value values[VALUES];
        for (int i = 0; i < VALUES; i++) {
            uint32_t first = (uint32_t)rand() % 40;
            values[i] = (tsr_plan_value){.size_bytes = (uint64_t)(rand() % 50 + 1) * 64,
                                         .first = first,
                                         .last = first + (uint32_t)rand() % 12};
        }
        tsr_workspace_plan plan = plan_of(values, VALUES);
        check_apart(values, VALUES, &plan);
        peaks += plan.peak_bytes;
        floors += plan.floor_bytes;
    }
    double ratio = (double)peaks / (double)floors;
    cr_assert_lt(ratio, 1.02, "%f", ratio);
}

/* A sweep over the ends: among the values that are live at a command, those with neighbouring
 * offsets must not overlap. */
static int by_offset(const void *a, const void *b) {
    const uint64_t *x = a, *y = b;
    return x[0] < y[0] ? -1 : x[0] > y[0];
}
static void check_apart_at(const tsr_plan_value *values, uint32_t count,
                           const tsr_workspace_plan *plan, uint32_t command) {
    uint64_t(*live)[2] = malloc(count * sizeof *live), used = 0;
    cr_assert_not_null(live);
    for (uint32_t i = 0; i < count; i++) {
        if (values[i].first > command || values[i].last < command) continue;
        live[used][0] = plan->offset_bytes[i];
        live[used++][1] = plan->offset_bytes[i] + up(values[i].size_bytes);
        cr_assert_eq(plan->offset_bytes[i] % (values[i].align_bytes ? values[i].align_bytes : 64),
                     0);
        cr_assert_leq(live[used - 1][1], plan->peak_bytes);
    }
    qsort(live, used, sizeof *live, by_offset);
    for (uint64_t i = 1; i < used; i++) cr_assert_leq(live[i - 1][1], live[i][0]);
    free(live);
}

/* The values of a training step with LAYERS layers: activations, and gradients of a layer or two. A
 * quadratic comparison of slots takes 20 s. */
Test(memory_plan, many_values_are_placed_in_linear_time, .fini = finish) {
    enum { LAYERS = 60000, COUNT = 2 * LAYERS };
    static tsr_plan_value values[COUNT];
    for (uint32_t i = 0; i < LAYERS; i++) {
        uint32_t back = COUNT - 1 - i;
        values[2 * i] = (tsr_plan_value){.size_bytes = 256, .first = i, .last = back};
        values[2 * i + 1] = (tsr_plan_value){
            .size_bytes = i % 3 ? 1024 : 320, .first = back, .last = back + 1 + i % 2};
    }
    clock_t begin = clock();
    tsr_workspace_plan plan = plan_of(values, COUNT);
    double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    for (uint32_t i = 0; i < 20; i++) check_apart_at(values, COUNT, &plan, i * (COUNT / 20));
    cr_assert_leq(plan.peak_bytes, plan.floor_bytes + plan.floor_bytes / 100);
    cr_assert_lt(seconds, 4, "%d values take %f s", COUNT, seconds);
}

Test(memory_plan, many_random_values_are_near_the_floor, .fini = finish) {
    enum { COUNT = 20000 };
    static tsr_plan_value values[COUNT];
    srand(13);
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t first = (uint32_t)rand() % 2000;
        values[i] = (tsr_plan_value){.size_bytes = (uint64_t)(rand() % 5000),
                                     .first = first,
                                     .last = first + (uint32_t)rand() % 300,
                                     .align_bytes = i % 100 ? 0 : 256};
    }
    tsr_workspace_plan plan = plan_of(values, COUNT);
    for (uint32_t at = 0; at < 2300; at += 13) check_apart_at(values, COUNT, &plan, at);
    cr_assert_leq((double)plan.peak_bytes, 1.12 * (double)plan.floor_bytes, "%f",
                  (double)plan.peak_bytes / (double)plan.floor_bytes);
}

Test(memory_plan, many_sizes_that_overflow_are_refused, .fini = finish) {
    enum { COUNT = 9000 };
    static tsr_plan_value values[COUNT];
    tsr_workspace_plan plan;
    for (uint32_t i = 0; i < COUNT; i++)
        values[i] = (tsr_plan_value){.size_bytes = UINT64_C(1) << 50, .first = 0, .last = 1};
    cr_assert_eq(tsr_workspace_plan_build(&ctx, values, COUNT, &arena, &plan).code, TSR_MEMORY);
}
