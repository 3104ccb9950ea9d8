/* SPDX-License-Identifier: Apache-2.0
 *
 * Folding the leaves of each rank, then the ranks, gives the same bits as adding neighbours level
 * by level.
 */
#include "runtime/base/array.h"
#include "runtime/exec/vranks.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VRANKS = 70, SLOTS = 2 * TSR_TREE_DEPTH_MAX };

static float draw(void) { return (float)(rand() % 20001 - 10000) * ldexpf(1.0f, rand() % 24 - 12); }

/* An element without a neighbour is added on a later level. */
static float pair_up(const float *vranks, uint32_t count) {
    float row[VRANKS];
    memcpy(row, vranks, count * sizeof *row);
    for (; count > 1; count = (count + 1) / 2)
        for (uint32_t i = 0; i < count; i += 2)
            row[i / 2] = i + 1 < count ? row[i] + row[i + 1] : row[i];
    return row[0];
}

static uint32_t fold_rank(const tsr_vranks *of, const float *vranks, float *slots) {
    uint32_t taken = 0, limit = tsr_vranks_count_slots(of);
    for (uint32_t i = 0; i < of->count; i++) {
        tsr_vrank_fold fold;
        tsr_vranks_fold(of, i, &fold);
        cr_assert(fold.slots_taken >= 1 && fold.slots_taken <= limit && limit <= SLOTS);
        if (fold.step_count == 0) slots[fold.copy_to] = vranks[of->first + i];
        for (uint32_t k = 0; k < fold.step_count; k++) {
            const tsr_vrank_step *step = &fold.steps[k];
            float b = step->b == TSR_VRANK_SUMMAND ? vranks[of->first + i] : slots[step->b];
            slots[step->out] = slots[step->a] + b;
        }
        taken = fold.slots_taken;
    }
    return taken;
}

Test(vranks, sums_do_not_depend_on_the_number_of_ranks) {
    srand(7);
    for (uint32_t total = 1; total <= VRANKS; total++) {
        float vranks[VRANKS], scratch[TSR_TREE_DEPTH_MAX];
        for (uint32_t i = 0; i < total; i++) vranks[i] = draw();
        float expected = pair_up(vranks, total);
        for (uint32_t ranks = 1; ranks <= total; ranks++) {
            tsr_subtree parts[VRANKS];
            float slots[VRANKS][SLOTS], sum;
            const void *values[VRANKS];
            uint32_t count = 0, held = 0;
            for (uint32_t rank = 0; rank < ranks; rank++) {
                tsr_ctx ctx = {0};
                tsr_vranks of;
                cr_assert_eq(tsr_vranks_share(&ctx, total, rank, ranks, &of).code, TSR_OK);
                cr_assert(of.count >= total / ranks && of.count <= total / ranks + 1);
                cr_assert_eq(of.first, held);
                held += of.count;
                uint32_t taken = fold_rank(&of, vranks, slots[rank]);
                cr_assert_eq(taken, tsr_tree_cover(total, of.first, of.count, parts + count));
                for (uint32_t i = 0; i < taken; i++) values[count++] = &slots[rank][i];
            }
            cr_assert_eq(held, total);
            tsr_tree_reduce(&(tsr_tree_inputs){.reduction = TSR_REDUCTION_SUM_F32,
                                               .leaf_count = total,
                                               .subtrees = parts,
                                               .values = values,
                                               .count = 1,
                                               .scratch = scratch},
                            &sum);
            cr_assert_eq(memcmp(&sum, &expected, sizeof sum), 0, "%u virtual ranks, %u ranks",
                         total, ranks);
        }
    }
}

/* Sums turn by turn, each folded as it arrives. */
static float sum_in_rounds(const float *vranks, uint32_t total, uint32_t ranks) {
    tsr_ctx ctx = {0};
    tsr_vranks of;
    float sums[VRANKS] = {0}, slots[SLOTS];
    cr_assert_eq(tsr_vranks_share(&ctx, total, 0, ranks, &of).code, TSR_OK);
    of.by_rounds = true;
    for (uint32_t i = 0; i < of.count; i++) {
        cr_assert_eq(tsr_vranks_number(&of, i), i * ranks);
        sums[i] = pair_up(vranks + tsr_vranks_number(&of, i), ranks);
    }
    of.first = 0; /* fold_rank reads from this index */
    cr_assert_eq(fold_rank(&of, sums, slots), 1);
    return slots[0];
}

Test(vranks, turns_are_the_upper_part_of_the_tree) {
    uint32_t found = 0;
    srand(11);
    for (uint32_t total = 1; total <= VRANKS; total++) {
        float vranks[VRANKS];
        for (uint32_t i = 0; i < total; i++) vranks[i] = draw();
        float expected = pair_up(vranks, total);
        for (uint32_t ranks = 1; ranks <= total; ranks++) {
            const tsr_vranks of = {.total = total, .rank_count = ranks};
            if (!tsr_vranks_have_rounds(&of)) continue;
            found++;
            float sum = sum_in_rounds(vranks, total, ranks);
            cr_assert_eq(memcmp(&sum, &expected, sizeof sum), 0, "%u virtual ranks, %u ranks",
                         total, ranks);
        }
    }
    cr_expect_gt(found, 2 * VRANKS);
    cr_expect(!tsr_vranks_have_rounds(&(tsr_vranks){.total = 8, .rank_count = 3}));
    cr_expect(!tsr_vranks_have_rounds(&(tsr_vranks){.total = 12, .rank_count = 6}));
}

Test(vranks, few_slots_are_needed) {
    const uint32_t expected[][2] = {{1, 1}, {2, 1}, {4, 2}, {8, 3}, {64, 6}, {4096, 12}};
    for (size_t i = 0; i < TSR_COUNT(expected); i++) {
        tsr_ctx ctx = {0};
        tsr_vranks of;
        cr_assert_eq(tsr_vranks_share(&ctx, expected[i][0], 0, 1, &of).code, TSR_OK);
        cr_expect_eq(tsr_vranks_count_slots(&of), expected[i][1], "%u virtual ranks",
                     expected[i][0]);
    }
}

Test(vranks, too_many_ranks_or_vranks_are_refused) {
    tsr_ctx ctx = {0};
    tsr_vranks of;
    cr_expect_eq(tsr_vranks_share(&ctx, 4, 4, 5, &of).code, TSR_USAGE);
    cr_expect(strstr(ctx.error.text, "5 ranks for 4 virtual ranks"), "%s", ctx.error.text);
    cr_expect_eq(tsr_vranks_share(&ctx, TSR_LEAVES_MAX + 1, 0, 1, &of).code, TSR_USAGE);
    cr_expect(strstr(ctx.error.text, "4097 virtual ranks; at most 4096"), "%s", ctx.error.text);
}
