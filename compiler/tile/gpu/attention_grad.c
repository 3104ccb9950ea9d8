/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/tile/gpu/attention_grad.h"

#include "compiler/shim/shim.h"
#include "compiler/tile/attention/attention.h"
#include "compiler/tile/gpu/product.h"
#include "compiler/tile/gpu/ring.h"

#include <string.h>

enum {
    ARCH = 90,
    WARPS = 8,
    LANES = 32,
    TILE_KEYS = 128,
    STEP_ELEMENTS = 64 * 128, /* of the queries of a step */
    STAGES = 2,
    CAST_LANES = 1024,
    TILES_MAX = 1 << 24,
};

/* Operands of tessera.attention_grad. */
enum { QUERY, KEY, VALUE, RESULT, LOGARITHM, DRESULT, MASK };
enum { DQUERY, DKEY, DVALUE, GRADIENTS };

typedef struct plan {
    int64_t batch, heads, key_heads, size, d, step;
    double scale;
    bool causal;
    tsr_dtype storage;
} plan;

static MlirValue view(tsr_tile_group *step, uint32_t argument, int64_t heads, int64_t rows,
                      int64_t columns) {
    int64_t dims[] = {heads, rows, columns};
    return tsr_gpu_view(&step->b, step->buffers[argument], columns ? 3 : 2, dims);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static MlirValue load_wide(tsr_tile_group *step, uint32_t argument, MlirValue at) {
    return tsr_tile_load(&step->b, step->types[argument].dtype, step->buffers[argument], at,
                         TSR_SPREAD_ELEMENTS, tsr_tile_null);
}

/* Of 256 elements from `at` on, as loads are spread: a lane has eight that follow each other. The
 * sum over rows, in all lanes of a row. */
static MlirValue sum_rows(tsr_tile_group *step, const plan *p, MlirValue at) {
    enum { RESULT_ARGUMENT = 0, DRESULT_ARGUMENT = 2 };
    tsr_tile_builder *b = &step->b;
    MlirValue x = load_wide(step, RESULT_ARGUMENT, at), y = load_wide(step, DRESULT_ARGUMENT, at);
    MlirValue product = tsr_tile_2(b, "arith.mulf", x, y), parts[TSR_SPREAD_RUN];
    for (int64_t i = 0; i < TSR_SPREAD_RUN; i++)
        parts[i] = tsr_tile_slice(b, product, i * LANES, LANES);
    for (int64_t count = TSR_SPREAD_RUN; count > 1; count /= 2)
        for (int64_t i = 0; i < count / 2; i++)
            parts[i] = tsr_tile_2(b, "arith.addf", parts[i], parts[i + count / 2]);
    for (int64_t distance = 1; distance < p->d / TSR_SPREAD_RUN; distance *= 2) {
        tsr_attr attrs[] = {{"distance", tsr_attr_make_i64(b->at.context, distance)}, {0}};
        MlirValue other =
            tsr_build_value(&b->at, "tile.butterfly", parts, 1, mlirValueGetType(parts[0]), attrs);
        parts[0] = tsr_tile_2(b, "arith.addf", parts[0], other);
    }
    return parts[0];
}

/* The sums of 32 rows from element `at` on, one in each lane. */
static MlirValue sum_32_rows(tsr_tile_group *step, const plan *p, MlirValue at) {
    tsr_tile_builder *b = &step->b;
    MlirType i32 = mlirIntegerTypeGet(b->at.context, 32), type = tsr_tile_vector_type(i32, LANES);
    int64_t rows = TSR_SPREAD_ELEMENTS / p->d; /* of one load */
    MlirValue lane = tsr_tile_iota(b, i32, LANES), unit = tsr_tile_int(b, type, rows);
    MlirValue part = tsr_tile_2(b, "arith.divui", lane, unit);
    MlirValue from = tsr_tile_2(b, "arith.muli", tsr_tile_2(b, "arith.remui", lane, unit),
                                tsr_tile_int(b, type, p->d / TSR_SPREAD_RUN));
    MlirValue sums = tsr_tile_null;
    for (int64_t i = 0; i < LANES / rows; i++) {
        MlirValue sum = sum_rows(step, p, tsr_tile_offset(b, at, i * TSR_SPREAD_ELEMENTS));
        MlirValue operands[] = {sum, from};
        sum = tsr_build_value(&b->at, "tile.shuffle", operands, 2, mlirValueGetType(sum), NULL);
        MlirValue mine = tsr_tile_icompare(b, TSR_ICMP_EQ, part, tsr_tile_int(b, type, i));
        sums = i ? tsr_tile_select(b, mine, sum, sums) : sum;
    }
    return sums;
}

/* A program has the queries of a step. */
static tsr_result lower_rows(tsr_tile_group *step, const void *user) {
    enum { LOGARITHM_ARGUMENT = 1, LOGARITHMS = 3, TOTALS, COUNTS };
    const plan *p = user;
    tsr_tile_builder *b = &step->b;
    MlirType f32 = tsr_tile_value_type(b, TSR_DTYPE_F32, LANES);
    MlirType i32 = tsr_tile_value_type(b, TSR_DTYPE_I32, 0);
    MlirValue pid = tsr_tile_program_id(b), first = tsr_tile_mul(b, pid, p->step);
    tsr_tile_loop loop;
    step->grid = p->batch * p->heads * p->size / p->step;
    tsr_tile_loop_begin(b, &loop, tsr_tile_index(b, 0), tsr_tile_index(b, p->step), LANES, 0, NULL);
    MlirValue row = tsr_tile_add(b, first, loop.index);
    MlirValue sums = sum_32_rows(step, p, tsr_tile_mul(b, row, p->d));
    tsr_tile_store(b, TSR_DTYPE_F32, tsr_tile_1(b, "arith.negf", sums), step->buffers[TOTALS], row,
                   tsr_tile_null);
    MlirValue logarithm = tsr_tile_load(b, TSR_DTYPE_F32, step->buffers[LOGARITHM_ARGUMENT], row,
                                        LANES, tsr_tile_null);
    logarithm = tsr_tile_2(b, "arith.mulf", logarithm, tsr_tile_float(b, f32, -1 / p->scale));
    tsr_tile_store(b, TSR_DTYPE_F32, logarithm, step->buffers[LOGARITHMS], row, tsr_tile_null);
    tsr_tile_loop_end(b, &loop, NULL);
    tsr_tile_store(b, TSR_DTYPE_I32, tsr_tile_int(b, i32, 0), step->buffers[COUNTS], pid,
                   tsr_tile_null);
    tsr_tile_spread(b, b->at.block, false);
    return TSR_SUCCESS;
}

/* ---- tiles ----------------------------------------------------------------------------------- */

static size_t add_rings(tsr_tile_group *step, const plan *p, MlirValue *out_rings) {
    tsr_tile_builder *b = &step->b;
    int64_t dims[] = {STAGES, 2, p->step};
    MlirType rows = tsr_shim_tile_shared_make(dims, tsr_tile_storage_type(b, TSR_DTYPE_F32));
    tsr_attr attrs[] = {{"swizzle", tsr_attr_make_string(b->at.context, "none")}, {0}};
    size_t count = 0;
    out_rings[count++] = tsr_gpu_ring(b, 1, TILE_KEYS, p->d, p->storage);
    out_rings[count++] = tsr_gpu_ring(b, 1, TILE_KEYS, p->d, p->storage);
    out_rings[count++] = tsr_gpu_ring(b, STAGES, p->step, p->d, p->storage);
    out_rings[count++] = tsr_gpu_ring(b, STAGES, p->step, p->d, p->storage);
    out_rings[count++] = tsr_gpu_ring(b, STAGES, TILE_KEYS, p->step, p->storage);
    out_rings[count++] = tsr_gpu_ring(b, STAGES, p->step, p->d, TSR_DTYPE_F32);
    out_rings[count++] = tsr_build_value(&b->at, "tile.alloc_shared", NULL, 0, rows, attrs);
    return count;
}

static size_t add_buffers(tsr_tile_group *step, const plan *p, MlirValue *out_buffers) {
    int64_t heads = p->batch * p->heads, groups = p->batch * p->key_heads;
    size_t count = 0;
    out_buffers[count] = view(step, (uint32_t)count, heads, p->size, p->d), count++;
    out_buffers[count] = view(step, (uint32_t)count, groups, p->size, p->d), count++;
    out_buffers[count] = view(step, (uint32_t)count, groups, p->size, p->d), count++;
    out_buffers[count] = view(step, (uint32_t)count, heads, p->size, p->d), count++;
    out_buffers[count] = view(step, (uint32_t)count, heads, p->size, 0), count++;
    out_buffers[count] = view(step, (uint32_t)count, heads, p->size, 0), count++;
    out_buffers[count] = view(step, (uint32_t)count, heads, p->size / p->step, 0), count++;
    out_buffers[count] = view(step, (uint32_t)count, heads, p->size, p->d), count++;
    out_buffers[count] = view(step, (uint32_t)count, groups, p->size, p->d), count++;
    out_buffers[count] = view(step, (uint32_t)count, groups, p->size, p->d), count++;
    return count;
}

/* A program has 128 keys; those of a head follow each other, where it is causal from its last. */
static tsr_result lower_tiles(tsr_tile_group *step, const void *user) {
    const plan *p = user;
    tsr_tile_builder *b = &step->b;
    MlirContext context = b->at.context;
    MlirValue operands[24];
    int64_t tiles = p->size / TILE_KEYS;
    MlirValue pid = tsr_tile_program_id(b), group = tsr_tile_div(b, pid, tiles);
    MlirValue number = tsr_tile_rem(b, pid, tiles);
    if (p->causal) number = tsr_tile_sub(b, tsr_tile_index(b, tiles - 1), number);
    size_t buffers = add_buffers(step, p, operands), count = buffers;
    operands[count++] = tsr_tile_mul(b, group, p->heads / p->key_heads);
    operands[count++] = group;
    operands[count++] = tsr_tile_mul(b, number, TILE_KEYS);
    size_t rings = add_rings(step, p, operands + count);
    int32_t sizes[] = {(int32_t)buffers, 3, (int32_t)rings};
    tsr_attr attrs[] = {
        {"how", tsr_attr_make_string(context, "backward")},
        {"scale", mlirFloatAttrDoubleGet(context, mlirF64TypeGet(context), p->scale)},
        {"operandSegmentSizes", mlirDenseI32ArrayGet(context, 3, sizes)},
        {"causal", tsr_attr_make_unit(context)}};
    tsr_build(&b->at, &(tsr_op_desc){.name = "tile.attend",
                                     .operand_count = count + rings,
                                     .operands = operands,
                                     .attr_count = p->causal ? 4 : 3,
                                     .attrs = attrs});
    step->grid = p->batch * p->key_heads * tiles;
    step->warps = WARPS;
    step->tile[step->tile_count++] = TILE_KEYS;
    step->tile[step->tile_count++] = p->step;
    return TSR_SUCCESS;
}

/* ---- cast ------------------------------------------------------------------------------------ */

static tsr_result lower_cast(tsr_tile_group *step, const void *user) {
    const plan *p = user;
    tsr_tile_builder *b = &step->b;
    step->grid = p->batch * p->heads * p->size * p->d / CAST_LANES;
    MlirValue at = tsr_tile_mul(b, tsr_tile_program_id(b), CAST_LANES);
    MlirValue x = tsr_tile_load(b, TSR_DTYPE_F32, step->buffers[0], at, CAST_LANES, tsr_tile_null);
    x = tsr_tile_2(b, "arith.mulf", x, tsr_tile_float(b, mlirValueGetType(x), p->scale));
    tsr_tile_store(b, p->storage, x, step->buffers[1], at, tsr_tile_null);
    tsr_tile_spread(b, b->at.block, false);
    return TSR_SUCCESS;
}

/* ---- which, and what of it ------------------------------------------------------------------- */

static bool is_taken(const tsr_tile_group *group, const tsr_attention *of) {
    int64_t skip = 0;
    tsr_op_i64(group->op, TSR_SKIP_NAME, &skip);
    return group->b.target->arch == ARCH && !skip && tsr_dtype_is_narrow(of->storage) &&
           mlirValueIsNull(of->mask) && of->d == of->e && (of->d == 64 || of->d == 128) &&
           of->queries == of->keys && of->queries && of->queries % TILE_KEYS == 0 &&
           of->scale > 0 && of->batch && of->key_heads && of->heads &&
           of->heads % of->key_heads == 0 &&
           of->queries / TILE_KEYS < TILES_MAX / of->batch / of->heads;
}

/* The group's argument that is operand `index`. */
static uint32_t argument_of(const tsr_tile_group *group, size_t index) {
    return (uint32_t)mlirBlockArgumentGetArgNumber(tsr_op_operand(group->root, index));
}

/* The group's results are the op's, in some order. */
static bool find_results(const tsr_tile_group *group, const uint32_t *values,
                         tsr_tile_sequence *sequence) {
    if (group->output_count > TSR_SEQUENCE_RESULTS_MAX) return false;
    for (uint32_t i = 0; i < group->output_count; i++) {
        bool found = false;
        for (uint32_t r = 0; r < GRADIENTS; r++) {
            if (!mlirValueEqual(group->returned[i], tsr_op_result(group->root, r))) continue;
            sequence->results[i] = values[r];
            found = true;
        }
        if (!found) return false;
    }
    return true;
}

static void make_steps(const tsr_tile_group *group, const plan *p, tsr_tile_sequence *sequence) {
    enum { ROWS, TILES, CAST, COUNT };
    uint64_t batch = (uint64_t)p->batch, heads = (uint64_t)p->heads, size = (uint64_t)p->size;
    uint32_t made = group->input_count;
    tsr_type row = {TSR_DTYPE_F32, {.rank = 3, .dims = {batch, heads, size}}};
    tsr_type count = {TSR_DTYPE_I32, {.rank = 3, .dims = {batch, heads, size / (uint64_t)p->step}}};
    tsr_type query = group->types[argument_of(group, QUERY)], sum = query;
    sum.dtype = TSR_DTYPE_F32;
    sequence->steps[ROWS] =
        (tsr_tile_step){.suffix = "_rows",
                        .inputs = {argument_of(group, RESULT), argument_of(group, LOGARITHM),
                                   argument_of(group, DRESULT)},
                        .input_count = 3,
                        .outputs = {row, row, count},
                        .output_count = 3,
                        .lower = lower_rows};
    sequence->steps[TILES] = (tsr_tile_step){
        .suffix = "",
        .inputs = {argument_of(group, QUERY), argument_of(group, KEY), argument_of(group, VALUE),
                   argument_of(group, DRESULT), made, made + 1, made + 2},
        .input_count = 7,
        .outputs = {sum, group->types[argument_of(group, KEY)],
                    group->types[argument_of(group, VALUE)]},
        .output_count = 3,
        .is_main = true,
        .lower = lower_tiles};
    sequence->steps[CAST] = (tsr_tile_step){.suffix = "_cast",
                                            .inputs = {made + 3},
                                            .input_count = 1,
                                            .outputs = {query},
                                            .output_count = 1,
                                            .lower = lower_cast};
    sequence->step_count = COUNT;
}

tsr_result tsr_tile_plan_attend_grad(tsr_tile_group *group, tsr_tile_sequence *out_sequence,
                                     bool *out_taken) {
    tsr_attention of = {0};
    uint32_t made = group->input_count;
    const uint32_t values[GRADIENTS] = {made + 6, made + 4, made + 5};
    *out_taken = false;
    TRY(group->ctx, tsr_attention_read(group, MASK, &of));
    if (!is_taken(group, &of) || !find_results(group, values, out_sequence)) return TSR_SUCCESS;
    plan *p = TSR_NEW(group->arena, plan, 1);
    if (!p) FAIL(group->ctx, TSR_MEMORY, "no memory to lower '%s'", group->name);
    *p = (plan){.batch = of.batch,
                .heads = of.heads,
                .key_heads = of.key_heads,
                .size = of.queries,
                .d = of.d,
                .step = STEP_ELEMENTS / of.d,
                .scale = of.scale,
                .causal = of.causal,
                .storage = of.storage};
    make_steps(group, p, out_sequence);
    out_sequence->plan = p;
    *out_taken = true;
    return TSR_SUCCESS;
}
