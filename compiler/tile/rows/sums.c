/* SPDX-License-Identifier: Apache-2.0
 *
 * Family `rows` with sums over rows (compiler/schedule/rows.h): gradients of a norm's scale and
 * bias in the walk that makes the operand's. A first kernel, in which a program has several rows,
 * makes everything else and of each sum one row a program; those are then added. How rows are
 * divided follows from the shapes and the target, and with it the order of the sums.
 */
#include "compiler/schedule/rows.h"
#include "compiler/tile/rows/rows.h"
#include "compiler/tile/sequence.h"

#include <string.h>

enum {
    ROWS_MIN = 4, /* of a program */
    CPU_PROGRAMS = 64,
    GPU_MULTIPROCESSORS = 132,
    UNROLLED = 8,    /* rows that are added at a time */
    GROUP_ROWS = 32, /* where there are more than twice as many they are added in groups */
};

/* ---- adding ---------------------------------------------------------------------------------- */

/* A program adds rows of one group of one place, a vector of columns. */
typedef struct adding {
    tsr_tile_group *group;
    const tsr_rows_sums *sums;
    int64_t parts, groups; /* rows of a place; what they are divided in */
    uint32_t lanes;
    MlirValue column, mask;
} adding;

static MlirValue add_row(const adding *a, uint32_t sum, MlirValue row, MlirValue to) {
    tsr_tile_builder *b = &a->group->b;
    MlirValue at = tsr_tile_add(b, tsr_tile_mul(b, row, a->sums->columns), a->column);
    MlirValue value =
        tsr_tile_load(b, TSR_DTYPE_F32, a->group->buffers[sum], at, a->lanes, a->mask);
    return tsr_tile_2(b, "arith.addf", to, value);
}

/* Rows begin … of all sums, `step` at a time, each with an accumulator of its own. */
static void add_rows(const adding *a, MlirValue begin, MlirValue end, uint32_t step,
                     MlirValue *values) {
    tsr_tile_builder *b = &a->group->b;
    tsr_tile_loop loop;
    tsr_tile_loop_begin(b, &loop, begin, end, step, a->sums->count * UNROLLED, values);
    memcpy(values, loop.carried, a->sums->count * UNROLLED * sizeof *values);
    for (uint32_t s = 0; s < a->sums->count; s++)
        for (uint32_t i = 0; i < step; i++)
            values[s * UNROLLED + i] =
                add_row(a, s, tsr_tile_offset(b, loop.index, i), loop.carried[s * UNROLLED + i]);
    tsr_tile_loop_end(b, &loop, values);
    memcpy(values, loop.carried, a->sums->count * UNROLLED * sizeof *values);
}

static void store_sum(const adding *a, uint32_t sum, MlirValue row, MlirValue *values) {
    tsr_tile_builder *b = &a->group->b;
    for (uint32_t half = UNROLLED / 2; half; half /= 2)
        for (uint32_t i = 0; i < half; i++)
            values[i] = tsr_tile_2(b, "arith.addf", values[i], values[i + half]);
    MlirValue at = tsr_tile_add(b, tsr_tile_mul(b, row, a->sums->columns), a->column);
    tsr_tile_store(b, TSR_DTYPE_F32, values[0], a->group->buffers[a->sums->count + sum], at,
                   a->mask);
}

static tsr_result lower_adding(adding *a) {
    tsr_tile_builder *b = &a->group->b;
    int64_t columns = a->sums->columns, each = (a->parts - 1) / a->groups + 1;
    a->lanes = b->target->vector_bytes / 4;
    int64_t slices = (columns - 1) / a->lanes + 1;
    MlirValue program = tsr_tile_program_id(b), row = tsr_tile_div(b, program, slices);
    MlirValue values[TSR_ROWS_OUTPUTS_MAX * UNROLLED];
    a->group->grid = a->sums->places * a->groups * slices;
    a->column = tsr_tile_mul(b, tsr_tile_rem(b, program, slices), a->lanes);
    if (columns % a->lanes)
        a->mask =
            tsr_tile_mask(b, tsr_tile_sub(b, tsr_tile_index(b, columns), a->column), a->lanes);
    MlirValue first = tsr_tile_mul(b, tsr_tile_div(b, row, a->groups), a->parts);
    MlirValue at = tsr_tile_mul(b, tsr_tile_rem(b, row, a->groups), each);
    MlirValue left = tsr_tile_sub(b, tsr_tile_index(b, a->parts), at);
    MlirValue count = tsr_tile_min(b, left, tsr_tile_index(b, each));
    MlirValue begin = tsr_tile_add(b, first, at), end = tsr_tile_add(b, begin, count);
    MlirValue whole = tsr_tile_sub(b, end, tsr_tile_rem(b, count, UNROLLED));
    for (uint32_t i = 0; i < a->sums->count * UNROLLED; i++)
        values[i] = tsr_tile_float(b, tsr_tile_value_type(b, TSR_DTYPE_F32, a->lanes), 0);
    add_rows(a, begin, whole, UNROLLED, values);
    add_rows(a, whole, end, 1, values);
    for (uint32_t s = 0; s < a->sums->count; s++) store_sum(a, s, row, values + s * UNROLLED);
    return TSR_SUCCESS;
}

static tsr_result lower_groups(tsr_tile_group *step, const void *plan) {
    const tsr_rows_sums *sums = plan;
    adding a = {.group = step, .sums = sums, .parts = sums->parts, .groups = sums->groups};
    return lower_adding(&a);
}

static tsr_result lower_last(tsr_tile_group *step, const void *plan) {
    const tsr_rows_sums *sums = plan;
    adding a = {.group = step,
                .sums = sums,
                .parts = sums->groups > 1 ? sums->groups : sums->parts,
                .groups = 1};
    return lower_adding(&a);
}

/* ---- the plan -------------------------------------------------------------------------------- */

static tsr_result lower_rows(tsr_tile_group *step, const void *plan) {
    return tsr_rows_emit(step, plan);
}

/* So many programs that every multiprocessor has some, and few enough that what they leave to be
 * added is little. */
static void divide(const tsr_target *target, tsr_rows_sums *sums) {
    int64_t programs = CPU_PROGRAMS;
    uint32_t blocks = 1;
    sums->warps = tsr_rows_sum_warps(sums->columns, &blocks);
    if (target->arch) programs = GPU_MULTIPROCESSORS * (int64_t)blocks;
    int64_t parts = programs / sums->places;
    if (parts > sums->rows / ROWS_MIN) parts = sums->rows / ROWS_MIN;
    if (parts < 1) parts = 1;
    sums->per_program = (sums->rows - 1) / parts + 1;
    sums->parts = (sums->rows - 1) / sums->per_program + 1;
    int64_t groups = (sums->parts - 1) / GROUP_ROWS + 1, each = (sums->parts - 1) / groups + 1;
    sums->groups = sums->parts > 2 * GROUP_ROWS ? (sums->parts - 1) / each + 1 : 1;
}

bool tsr_rows_divide(const tsr_rows *r, tsr_rows_sums *out_sums) {
    enum { MUCH = 3, LANE_ELEMENTS = 32, BLOCKS = 16, WARPS_MAX = 16 }; /* blocks of one warp */
    int64_t own = 0, shared = 0;
    if (!r->group->is_native || !r->even || r->columns % TSR_SPREAD_RUN) return false;
    for (uint32_t i = 0; i < r->item_count; i++) {
        const tsr_row_item *it = r->items[i];
        if (it->kind != TSR_ROW_LEAF || it->node.kind != TSR_NODE_VIEW || it->level < 2) continue;
        *(tsr_row_is_own(r, it) ? &own : &shared) += (int64_t)tsr_dtype_size(it->node.dtype);
    }
    uint32_t warps = 1;
    while (warps < WARPS_MAX && (int64_t)warps * 32 * LANE_ELEMENTS < r->columns) warps *= 2;
    int64_t programs = (int64_t)GPU_MULTIPROCESSORS * (BLOCKS / warps);
    if (shared < MUCH * own || r->row_count < ROWS_MIN * programs) return false;
    *out_sums =
        (tsr_rows_sums){.warps = warps, .places = 1, .rows = r->row_count, .columns = r->columns};
    out_sums->per_program = (r->row_count - 1) / programs + 1;
    out_sums->parts = (r->row_count - 1) / out_sums->per_program + 1;
    return true;
}

static bool is_sum(const tsr_tile_group *group, uint32_t result) {
    MlirOperation op = tsr_value_owner(group->returned[result]);
    return !mlirOperationIsNull(op) && tsr_rows_is_sum(op);
}

/* Reads shapes; false where nothing is to be summed. */
static bool read(const tsr_tile_group *group, tsr_rows_sums *sums) {
    for (uint32_t i = 0; i < group->output_count; i++) {
        if (!is_sum(group, i)) continue;
        tsr_type from, to;
        int64_t axes[TSR_RANK_MAX];
        size_t count = 0;
        MlirOperation op = tsr_value_owner(group->returned[i]);
        bool known = tsr_value_type(tsr_op_operand(op, 0), &from) &&
                     tsr_value_type(group->returned[i], &to) &&
                     tsr_op_i64s(op, "axes", TSR_RANK_MAX, axes, &count);
        TSR_ASSERT(known);
        sums->places = sums->rows = sums->columns = 1;
        for (uint32_t d = 0; d < from.shape.rank; d++) {
            int64_t *to_one = d < axes[0]                      ? &sums->places
                              : d <= (uint32_t)axes[count - 1] ? &sums->rows
                                                               : &sums->columns;
            *to_one *= (int64_t)from.shape.dims[d];
        }
        sums->count++;
    }
    return sums->count && sums->places && sums->rows && sums->columns;
}

static tsr_type rows_type(const tsr_rows_sums *sums, int64_t rows) {
    return (tsr_type){.dtype = TSR_DTYPE_F32,
                      .shape = {.rank = 2, .dims = {(uint64_t)rows, (uint64_t)sums->columns}}};
}

/* A step that adds what values `first` … are; returns the first of those it makes. */
static uint32_t push_adding(const tsr_rows_sums *sums, tsr_tile_sequence *sequence, uint32_t first,
                            uint32_t made, bool is_last) {
    tsr_tile_step *step = &sequence->steps[sequence->step_count++];
    *step = (tsr_tile_step){.suffix = is_last ? "_sums" : "_parts",
                            .input_count = sums->count,
                            .output_count = sums->count,
                            .lower = is_last ? lower_last : lower_groups};
    for (uint32_t i = 0; i < sums->count; i++) {
        step->inputs[i] = first + i;
        step->outputs[i] = rows_type(sums, sums->places * sums->groups);
    }
    return made;
}

static void make_steps(const tsr_tile_group *group, tsr_rows_sums *sums,
                       tsr_tile_sequence *sequence) {
    uint32_t plain = group->output_count - sums->count, at[2] = {0, plain};
    uint32_t first = group->input_count, made = first + group->output_count;
    tsr_tile_step *rows = &sequence->steps[sequence->step_count++];
    *rows = (tsr_tile_step){.suffix = "",
                            .input_count = group->input_count,
                            .output_count = group->output_count,
                            .is_main = true,
                            .lower = lower_rows};
    for (uint32_t i = 0; i < group->input_count; i++) rows->inputs[i] = i;
    for (uint32_t i = 0; i < group->output_count; i++) {
        bool sum = is_sum(group, i);
        uint32_t to = at[sum]++;
        sums->order[to] = i;
        rows->outputs[to] = sum ? rows_type(sums, sums->places * sums->parts)
                                : group->types[group->input_count + i];
        sequence->results[i] = first + to;
    }
    uint32_t last = first + plain;
    if (sums->groups > 1) {
        last = push_adding(sums, sequence, last, made, false);
        made += sums->count;
    }
    last = push_adding(sums, sequence, last, made, true);
    tsr_tile_step *adds = &sequence->steps[sequence->step_count - 1];
    for (uint32_t i = 0; i < sums->count; i++) {
        uint32_t result = sums->order[plain + i];
        adds->outputs[i] = group->types[group->input_count + result];
        sequence->results[result] = last + i;
    }
    sequence->plan = sums;
}

tsr_result tsr_tile_plan_rows(tsr_tile_group *group, tsr_tile_sequence *out_sequence,
                              bool *out_taken) {
    tsr_rows_sums *sums = TSR_NEW(group->arena, tsr_rows_sums, 1);
    uint32_t *order = TSR_NEW(group->arena, uint32_t, group->output_count);
    if (!sums || !order) FAIL(group->ctx, TSR_MEMORY, "no memory to lower '%s'", group->name);
    *sums = (tsr_rows_sums){.order = order};
    *out_taken = read(group, sums);
    if (!*out_taken) return TSR_SUCCESS;
    TSR_ASSERT(group->input_count <= TSR_ROWS_INPUTS_MAX &&
               group->output_count <= TSR_ROWS_OUTPUTS_MAX);
    divide(group->b.target, sums);
    make_steps(group, sums, out_sequence);
    return TSR_SUCCESS;
}
