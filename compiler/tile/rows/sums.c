/* SPDX-License-Identifier: Apache-2.0
 *
 * Family `rows` with sums over rows (compiler/schedule/fusion/rows.h), for example gradients of a
 * norm's scale and bias in the same walk as the gradient of its operand. A first kernel, whose
 * programs have several rows each, computes everything else and one row of partial sums per program
 * and sum; a second kernel adds these. The division of the rows, and therefore the order of the
 * sums, depends only on the shapes and the target.
 */
#include "compiler/ir/targets/target.h"
#include "compiler/schedule/fusion/rows.h"
#include "compiler/tile/attributes.h"
#include "compiler/tile/rows/rows.h"
#include "compiler/tile/sequence.h"

#include <string.h>

enum {
    ROWS_MIN = 4, /* rows of a program */
    CPU_PROGRAMS = 64,
    UNROLLED = 8, /* rows that are added together */
};

/* ---- adding, on a CPU ------------------------------------------------------------------------ */

/* A program adds the parts of one position for a vector of columns. */
typedef struct adding {
    tsr_tile_group *group;
    const tsr_rows_sums *sums;
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

/* Adds rows [begin, end) of all sums, `step` at a time, each with its own accumulator. */
static void add_rows(const adding *a, MlirValue begin, MlirValue end, uint32_t step,
                     MlirValue *values) {
    tsr_tile_builder *b = &a->group->b;
    TSR_TILE_FOR_CARRIED(b, loop, begin, end, step, a->sums->count * UNROLLED, values) {
        for (uint32_t s = 0; s < a->sums->count; s++)
            for (uint32_t i = 0; i < step; i++)
                values[s * UNROLLED + i] =
                    add_row(a, s, tsr_tile_offset(b, loop.index, i), values[s * UNROLLED + i]);
    }
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

static tsr_result lower_adding(tsr_tile_group *step, const void *plan) {
    const tsr_rows_sums *sums = plan;
    tsr_tile_builder *b = &step->b;
    adding a = {.group = step, .sums = sums, .lanes = b->target->vector_bytes / 4};
    int64_t slices = (sums->columns - 1) / a.lanes + 1;
    MlirValue program = tsr_tile_program_id(b), outer = tsr_tile_div(b, program, slices);
    MlirValue values[TSR_ROWS_OUTPUTS_MAX * UNROLLED];
    step->grid = sums->outer * slices;
    a.column = tsr_tile_mul(b, tsr_tile_rem(b, program, slices), a.lanes);
    if (sums->columns % a.lanes)
        a.mask =
            tsr_tile_mask(b, tsr_tile_sub(b, tsr_tile_index(b, sums->columns), a.column), a.lanes);
    MlirValue begin = tsr_tile_mul(b, outer, sums->parts);
    MlirValue whole = tsr_tile_offset(b, begin, sums->parts / UNROLLED * UNROLLED);
    MlirValue end = tsr_tile_offset(b, begin, sums->parts);
    for (uint32_t i = 0; i < sums->count * UNROLLED; i++)
        values[i] = tsr_tile_float(b, tsr_tile_value_type(b, TSR_DTYPE_F32, a.lanes), 0);
    add_rows(&a, begin, whole, UNROLLED, values);
    add_rows(&a, whole, end, 1, values);
    for (uint32_t s = 0; s < sums->count; s++) store_sum(&a, s, outer, values + s * UNROLLED);
    return TSR_SUCCESS;
}

/* ---- adding, on a GPU ------------------------------------------------------------------------ */

/* Several warps add all parts: a lane adds equally spaced rows of one column; then the lanes of a
 * column add their results. */
typedef struct together {
    tsr_tile_group *group;
    const tsr_rows_sums *sums;
    uint32_t warps, lanes, width; /* warps; lanes of all warps; columns of a program */
    MlirValue row, offset;        /* per lane: its row, and the offset of its first element */
    MlirValue top;                /* offset of its column in the first row */
} together;

enum { LANES = 32, WIDTH_MIN = 8, FEW_PARTS = 512, SLICES = 96, IN_FLIGHT = 16, REGISTERS = 64 };

/* Slices are narrow if there are few columns, so that many programs read concurrently. */
static together begin_together(tsr_tile_group *group, const tsr_rows_sums *sums) {
    tsr_tile_builder *b = &group->b;
    together t = {.group = group, .sums = sums, .width = LANES};
    while (t.width > WIDTH_MIN && sums->outer * sums->columns / t.width < SLICES) t.width /= 2;
    t.warps = sums->parts > FEW_PARTS ? 32 : 16;
    t.lanes = t.warps * LANES;
    int64_t slices = (sums->columns - 1) / t.width + 1;
    group->grid = sums->outer * slices;
    group->cooperative = t.warps;
    group->registers = REGISTERS;
    MlirValue program = tsr_tile_program_id(b), width = tsr_tile_index(b, t.width);
    MlirValue first = tsr_tile_mul(b, tsr_tile_div(b, program, slices), sums->parts);
    MlirValue column = tsr_tile_mul(b, tsr_tile_rem(b, program, slices), t.width);
    MlirValue lane = tsr_tile_step_vector(b, t.lanes);
    width = tsr_tile_splat(b, width, t.lanes);
    t.row = tsr_tile_2(b, "arith.divui", lane, width);
    MlirValue mine = tsr_tile_2(b, "arith.remui", lane, width);
    mine = tsr_tile_2(b, "arith.addi", mine, tsr_tile_splat(b, column, t.lanes));
    MlirValue last = tsr_tile_splat(b, tsr_tile_index(b, sums->columns - 1), t.lanes);
    if (sums->columns % t.width) mine = tsr_tile_2(b, "arith.minui", mine, last);
    MlirValue columns = tsr_tile_splat(b, tsr_tile_index(b, sums->columns), t.lanes);
    first = tsr_tile_splat(b, tsr_tile_mul(b, first, sums->columns), t.lanes);
    t.top = tsr_tile_2(b, "arith.addi", first, mine);
    t.offset = tsr_tile_2(b, "arith.addi", tsr_tile_2(b, "arith.muli", t.row, columns), t.top);
    return t;
}

/* Reads the rows from `at` on, one for each lane of a column; rows after the last one are zeros. */
static MlirValue read_part(const together *t, uint32_t sum, MlirValue at, MlirValue mask) {
    tsr_tile_builder *b = &t->group->b;
    MlirValue begin = tsr_tile_splat(b, tsr_tile_mul(b, at, t->sums->columns), t->lanes);
    MlirValue offset = tsr_tile_2(b, "arith.addi", t->offset, begin);
    if (!mlirValueIsNull(mask)) offset = tsr_tile_select(b, mask, offset, t->top);
    MlirValue value = tsr_tile_gather(b, t->group->buffers[sum], offset, t->lanes);
    MlirValue zero = tsr_tile_float(b, mlirValueGetType(value), 0);
    return mlirValueIsNull(mask) ? value : tsr_tile_select(b, mask, value, zero);
}

/* The partial sum of each lane; several rows are in flight at a time. */
static MlirValue sum_of_lanes(const together *t, uint32_t sum) {
    tsr_tile_builder *b = &t->group->b;
    int64_t rows = t->lanes / t->width, whole = t->sums->parts / rows;
    MlirValue zero = tsr_tile_float(b, tsr_tile_value_type(b, TSR_DTYPE_F32, t->lanes), 0);
    MlirValue values[IN_FLIGHT], carried = zero;
    if (whole >= IN_FLIGHT) {
        int64_t step = rows * IN_FLIGHT;
        TSR_TILE_FOR_CARRIED(b, loop, tsr_tile_index(b, 0),
                             tsr_tile_index(b, whole / IN_FLIGHT * step), step, 1, &carried) {
            for (int64_t i = 0; i < IN_FLIGHT; i++)
                values[i] =
                    read_part(t, sum, tsr_tile_offset(b, loop.index, i * rows), tsr_tile_null);
            for (int64_t i = 0; i < IN_FLIGHT; i++)
                carried = tsr_tile_2(b, "arith.addf", carried, values[i]);
        }
    }
    for (int64_t i = whole / IN_FLIGHT * IN_FLIGHT; i < whole; i++)
        carried = tsr_tile_2(b, "arith.addf", carried,
                             read_part(t, sum, tsr_tile_index(b, i * rows), tsr_tile_null));
    if (t->sums->parts == whole * rows) return carried;
    MlirValue left = tsr_tile_index(b, t->sums->parts - whole * rows);
    MlirValue mask = tsr_tile_icompare(b, TSR_ICMP_ULT, t->row, tsr_tile_splat(b, left, t->lanes));
    return tsr_tile_2(b, "arith.addf", carried,
                      read_part(t, sum, tsr_tile_index(b, whole * rows), mask));
}

static tsr_result lower_together(tsr_tile_group *step, const void *plan) {
    const tsr_rows_sums *sums = plan;
    tsr_tile_builder *b = &step->b;
    together t = begin_together(step, sums);
    MlirValue parts[TSR_ROWS_OUTPUTS_MAX], locals[TSR_ROWS_OUTPUTS_MAX];
    for (uint32_t s = 0; s < sums->count; s++) parts[s] = sum_of_lanes(&t, s);
    for (uint32_t s = 0; s < sums->count; s++) {
        for (uint32_t d = LANES / 2; d >= t.width; d /= 2)
            parts[s] = tsr_tile_2(b, "arith.addf", parts[s], tsr_tile_butterfly(b, parts[s], d));
        locals[s] = tsr_tile_local(b, tsr_tile_storage_type(b, TSR_DTYPE_F32), t.lanes);
        tsr_tile_store(b, TSR_DTYPE_F32, parts[s], locals[s], tsr_tile_index(b, 0), tsr_tile_null);
    }
    int64_t slices = (sums->columns - 1) / t.width + 1;
    MlirValue program = tsr_tile_program_id(b);
    MlirValue at = tsr_tile_mul(b, tsr_tile_rem(b, program, slices), t.width), mask = tsr_tile_null;
    if (sums->columns % t.width)
        mask = tsr_tile_mask(b, tsr_tile_sub(b, tsr_tile_index(b, sums->columns), at), t.width);
    at = tsr_tile_add(b, at, tsr_tile_mul(b, tsr_tile_div(b, program, slices), sums->columns));
    for (uint32_t s = 0; s < sums->count; s++) {
        MlirValue sum = tsr_tile_null;
        for (uint32_t w = 0; w < t.warps; w++) {
            MlirValue one = tsr_tile_load(b, TSR_DTYPE_F32, locals[s], tsr_tile_index(b, w * LANES),
                                          t.width, tsr_tile_null);
            sum = w ? tsr_tile_2(b, "arith.addf", sum, one) : one;
        }
        tsr_tile_store(b, TSR_DTYPE_F32, sum, step->buffers[sums->count + s], at, mask);
    }
    return TSR_SUCCESS;
}

/* ---- the plan -------------------------------------------------------------------------------- */

static tsr_result lower_rows(tsr_tile_group *step, const void *plan) {
    return tsr_rows_emit(step, plan);
}

/* Chooses the number of programs: enough for every multiprocessor, but few enough that adding their
 * partial sums is cheap. */
static void divide(const tsr_target *target, tsr_rows_sums *sums) {
    enum { BLOCK_PROGRAMS = 4, BLOCK_WARPS_MAX = 4 };
    int64_t programs = CPU_PROGRAMS;
    sums->warps = tsr_rows_sum_warps(sums->columns, sums->count, &sums->blocks);
    if (target->arch) programs = TSR_GPU_MULTIPROCESSORS * (int64_t)sums->blocks;
    int64_t parts = programs / sums->outer;
    if (parts > sums->rows / ROWS_MIN) parts = sums->rows / ROWS_MIN;
    if (parts < 1) parts = 1;
    bool shares =
        target->arch && sums->warps <= BLOCK_WARPS_MAX && sums->columns % TSR_BLOCKED_RUN == 0;
    sums->block_programs = shares && parts >= BLOCK_PROGRAMS ? BLOCK_PROGRAMS : 1;
    while (sums->blocks % sums->block_programs) sums->block_programs /= 2;
    parts /= sums->block_programs;
    sums->per_program = (sums->rows - 1) / parts + 1;
    sums->parts = target->arch ? parts : (sums->rows - 1) / sums->per_program + 1;
}

bool tsr_rows_divide(const tsr_rows *r, tsr_rows_sums *out_sums) {
    enum { MUCH = 3, LANE_ELEMENTS = 32, BLOCKS = 16, WARPS_MAX = 16 }; /* blocks have one warp */
    int64_t own = 0, shared = 0;
    if (!r->group->is_native || !r->even || r->columns % TSR_BLOCKED_RUN) return false;
    for (uint32_t i = 0; i < r->item_count; i++) {
        const tsr_row_item *it = r->items[i];
        if (it->kind != TSR_ROW_LEAF || it->node.kind != TSR_NODE_VIEW || it->level < 2) continue;
        *(tsr_row_is_own(r, it) ? &own : &shared) += (int64_t)tsr_dtype_size(it->node.dtype);
    }
    uint32_t warps = 1;
    while (warps < WARPS_MAX && (int64_t)warps * 32 * LANE_ELEMENTS < r->columns) warps *= 2;
    int64_t blocks = BLOCKS / warps, programs = TSR_GPU_MULTIPROCESSORS * blocks;
    if (shared < MUCH * own || r->row_count < ROWS_MIN * programs) return false;
    *out_sums = (tsr_rows_sums){.warps = warps,
                                .block_programs = 1,
                                .blocks = (uint32_t)blocks,
                                .outer = 1,
                                .rows = r->row_count,
                                .columns = r->columns};
    out_sums->per_program = (r->row_count - 1) / programs + 1;
    out_sums->parts = programs;
    return true;
}

static bool is_sum(const tsr_tile_group *group, uint32_t result) {
    MlirOperation op = tsr_value_owner(group->returned[result]);
    return !mlirOperationIsNull(op) && tsr_rows_is_sum(op);
}

/* Reads shapes; false if there is nothing to sum. */
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
        sums->outer = sums->rows = sums->columns = 1;
        for (uint32_t d = 0; d < from.shape.rank; d++) {
            int64_t *to_one = d < axes[0]                      ? &sums->outer
                              : d <= (uint32_t)axes[count - 1] ? &sums->rows
                                                               : &sums->columns;
            *to_one *= (int64_t)from.shape.dims[d];
        }
        sums->count++;
    }
    return sums->count && sums->outer && sums->rows && sums->columns;
}

static tsr_type rows_type(const tsr_rows_sums *sums, int64_t rows) {
    return (tsr_type){.dtype = TSR_DTYPE_F32,
                      .shape = {.rank = 2, .dims = {(uint64_t)rows, (uint64_t)sums->columns}}};
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
        rows->outputs[to] =
            sum ? rows_type(sums, sums->outer * sums->parts) : group->types[group->input_count + i];
        sequence->results[i] = first + to;
    }
    tsr_tile_step *adds = &sequence->steps[sequence->step_count++];
    *adds = (tsr_tile_step){.suffix = "_sums",
                            .input_count = sums->count,
                            .output_count = sums->count,
                            .lower = group->is_native ? lower_together : lower_adding};
    for (uint32_t i = 0; i < sums->count; i++) {
        uint32_t result = sums->order[plain + i];
        adds->inputs[i] = first + plain + i;
        adds->outputs[i] = group->types[group->input_count + result];
        sequence->results[result] = made + i;
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
