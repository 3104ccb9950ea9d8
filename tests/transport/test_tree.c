/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares the tree with another description: adjacent values are paired level by level, and a
 * value without a neighbour is added on a later level.
 */
#include "runtime/base/array.h"
#include "runtime/transport/tree.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEAVES = 300, COUNT = 37 };

static float draw(void) { return (float)(rand() % 20001 - 10000) * ldexpf(1.0f, rand() % 24 - 12); }

static void pair_up(float (*rows)[COUNT], uint32_t count) {
    while (count > 1) {
        uint32_t next = 0;
        for (uint32_t i = 0; i < count; i += 2, next++)
            for (size_t j = 0; j < COUNT; j++)
                rows[next][j] = i + 1 < count ? rows[i][j] + rows[i + 1][j] : rows[i][j];
        count = next;
    }
}

Test(tree, splits_at_the_largest_power_of_two_below) {
    const uint32_t expected[][2] = {{2, 1}, {3, 2}, {4, 2}, {5, 4}, {8, 4}, {9, 8}, {4096, 2048}};
    for (size_t i = 0; i < TSR_COUNT(expected); i++)
        cr_expect_eq(tsr_tree_split(expected[i][0]), expected[i][1], "of %u", expected[i][0]);
}

Test(tree, covers_are_whole_and_largest) {
    for (uint32_t all = 1; all <= 33; all++)
        for (uint32_t first = 0; first <= all; first++)
            for (uint32_t count = 0; first + count <= all; count++) {
                tsr_subtree parts[64];
                uint32_t n = tsr_tree_cover(all, first, count, parts), at = first;
                cr_assert_eq(n, tsr_tree_cover(all, first, count, NULL));
                for (uint32_t i = 0; i < n; i++) {
                    cr_assert_eq(parts[i].first_leaf, at);
                    at += parts[i].leaf_count;
                }
                cr_assert_eq(at, first + count, "%u leaves from %u of %u", count, first, all);
                if (count == all) cr_assert_eq(n, 1);
            }
}

/* The steps of a plan, executed, give the same bits. */
static void expect_plan(uint32_t all, const tsr_subtree *parts, uint32_t count,
                        const void *const *values, const float *sum) {
    static float temporary[TSR_TREE_DEPTH_MAX][COUNT];
    static tsr_tree_step steps[LEAVES];
    float out[COUNT];
    uint32_t needed = tsr_tree_plan(all, parts, steps);
    cr_assert_leq(needed, TSR_TREE_DEPTH_MAX);
    for (uint32_t i = 0; i + 1 < count; i++) {
        const uint32_t operands[] = {steps[i].out, steps[i].a, steps[i].b};
        void *at[3];
        for (size_t k = 0; k < TSR_COUNT(operands); k++) {
            bool is_temporary = operands[k] >= TSR_TREE_SCRATCH;
            cr_assert(!is_temporary || operands[k] - TSR_TREE_SCRATCH < needed);
            cr_assert(operands[k] >= TSR_TREE_OUT || operands[k] < count);
            at[k] = operands[k] == TSR_TREE_OUT ? out
                    : is_temporary              ? temporary[operands[k] - TSR_TREE_SCRATCH]
                                                : (void *)(uintptr_t)values[operands[k]];
        }
        tsr_tree_combine(TSR_REDUCTION_SUM_F32, at[0], at[1], at[2], COUNT);
    }
    if (count > 1) cr_assert_arr_eq(out, sum, sizeof out, "%u leaves in %u parts", all, count);
}

/* The bits equal those of pairing adjacent values, for every distribution of leaves to ranks. */
Test(tree, sums_do_not_depend_on_who_holds_the_leaves) {
    static float leaves[LEAVES][COUNT], rows[LEAVES][COUNT], levels[TSR_TREE_DEPTH_MAX][COUNT];
    static tsr_subtree parts[LEAVES];
    srand(1);
    for (int round = 0; round < 200; round++) {
        uint32_t all = 1 + (uint32_t)rand() % (round < 150 ? 16 : LEAVES), n = 0;
        for (uint32_t i = 0; i < all; i++)
            for (size_t j = 0; j < COUNT; j++) leaves[i][j] = draw();
        for (uint32_t at = 0; at < all;) {
            uint32_t take = 1 + (uint32_t)rand() % (all - at);
            n += tsr_tree_cover(all, at, take, parts + n);
            at += take;
        }
        const void *values[LEAVES];
        for (uint32_t i = 0; i < n; i++) {
            memcpy(rows, leaves + parts[i].first_leaf, parts[i].leaf_count * sizeof *rows);
            pair_up(rows, parts[i].leaf_count);
            float *copy = malloc(sizeof *rows);
            cr_assert_not_null(copy);
            memcpy(copy, rows[0], sizeof *rows);
            values[i] = copy;
        }
        float sum[COUNT];
        tsr_tree_inputs inputs = {.reduction = TSR_REDUCTION_SUM_F32,
                                  .leaf_count = all,
                                  .subtrees = parts,
                                  .values = values,
                                  .count = COUNT,
                                  .scratch = levels};
        tsr_tree_reduce(&inputs, sum);
        expect_plan(all, parts, n, values, sum);
        pair_up(leaves, all);
        cr_assert_arr_eq(sum, leaves[0], sizeof sum, "%u leaves in %u parts", all, n);
        for (uint32_t i = 0; i < n; i++) free((void *)(uintptr_t)values[i]);
    }
}

#define REDUCE(NAME, type, a0, a1, out)                                                            \
    do {                                                                                           \
        type left[1] = {a0}, right[1] = {a1}, levels[TSR_TREE_DEPTH_MAX];                          \
        const void *values[2] = {left, right};                                                     \
        const tsr_subtree parts[2] = {{0, 1}, {1, 1}};                                             \
        tsr_tree_reduce(&(tsr_tree_inputs){TSR_REDUCTION_##NAME, 2, parts, values, 1, levels},     \
                        out);                                                                      \
    } while (0)

Test(tree, reductions_are_what_they_say) {
    double d;
    float f;
    int64_t i;
    REDUCE(SUM_F64, double, 0.1, 0.2, &d);
    cr_expect_eq(d, 0.1 + 0.2);
    REDUCE(SUM_I64, int64_t, INT64_MAX, 1, &i);
    cr_expect_eq(i, INT64_MIN, "wraps around");
    REDUCE(MAX_F32, float, -1.0f, 2.0f, &f);
    cr_expect_eq(f, 2.0f);
    REDUCE(MAX_F32, float, NAN, 2.0f, &f);
    cr_expect(isnan(f));
    REDUCE(MAX_F32, float, 2.0f, NAN, &f);
    cr_expect(isnan(f));
    REDUCE(MAX_F64, double, -0.5, -0.25, &d);
    cr_expect_eq(d, -0.25);
    REDUCE(MAX_I64, int64_t, -3, -7, &i);
    cr_expect_eq(i, -3);
    cr_expect_eq(tsr_reduction_get_size(TSR_REDUCTION_MAX_I64), 8);
}
