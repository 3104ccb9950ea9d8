/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass tsched-pack. A product reads its second operand in strips of columns. If that operand is a
 * tensor that the entry only reads, a group of kind "pack" makes the strips, and the product's
 * group is replaced by one that takes them, as shown here. A convolution without groups is handled
 * alike; its filter is a matrix of taps and channels by features:
 *
 *     %w = tessera.param "w"                    %w = tessera.param "w"
 *     %y = tsched.call @k1_matmul(%x, %w)       %p = tsched.call @p0_pack(%w)
 *                                               %y = tsched.call @k1_matmul_packed(%x, %p)
 *
 * The host program runs the pack only when the tensor has changed (TSR_OP_PREPARE). If many rows
 * read strips of bf16 or f16, these are stored as f32: they are widened once, not at each product.
 * Strips for dot products of bf16 consist of pairs of rows.
 */
#include "compiler/graph/graph.h"
#include "compiler/schedule/fusion/fusion.h"
#include "compiler/schedule/schedule.h"
#include "runtime/base/array.h"

#include <stdio.h>
#include <string.h>

enum {
    NEAR_BYTES = 16 * 1024, /* a matrix of this size stays in the first-level cache and needs no
                             * packing */
    NARROW_ROWS_MAX = 16,   /* up to this number of rows, bf16 and f16 are widened at each read,
                             * because fewer bytes are read */
};

typedef struct packer {
    MlirModule module;
    MlirContext mlir;
    uint32_t pack_count;
    bool pairs; /* pack bf16 in pairs of rows */
    tsr_assigned assigned;
} packer;

/* The packing for one call. */
typedef struct job {
    MlirOperation call, group, product;
    size_t operand; /* operand of the call: the matrix */
    bool transposed, pairs, words;
    MlirValue source; /* the tensor that the strips are made of */
    tsr_type matrix, strips;
    tsr_dtype dtype; /* the type as which the product takes the matrix */
} job;

tsr_shape tsr_pack_shape(const tsr_type *matrix, tsr_dtype dtype, bool transposed, bool pairs) {
    uint64_t line = TSR_STRIP_BYTES / tsr_dtype_size(dtype), width = pairs ? line / 2 : line;
    uint64_t above = 1;
    uint64_t last = matrix->shape.dims[matrix->shape.rank - 1];
    for (uint32_t d = 0; d + 1 < matrix->shape.rank; d++) above *= matrix->shape.dims[d];
    uint64_t rows = transposed ? last : above, columns = transposed ? above : last;
    if (pairs) rows = rows / 2 + rows % 2;
    return (tsr_shape){.rank = 3, .dims = {(columns + width - 1) / width, rows, line}};
}

bool tsr_pack_words(const tsr_type *matrix, tsr_type *out_words) {
    enum { BYTES = 4 };
    tsr_type words = *matrix;
    bool is_signed = matrix->dtype == TSR_DTYPE_I8, one = true;
    if ((!is_signed && matrix->dtype != TSR_DTYPE_UI8) || words.shape.rank < 2) return false;
    for (uint32_t d = 0; d + 2 < words.shape.rank; d++) one = one && words.shape.dims[d] == 1;
    uint64_t *rows = &words.shape.dims[words.shape.rank - 2];
    if (!one && *rows % BYTES) return false;
    *rows = *rows / BYTES + (*rows % BYTES != 0);
    words.dtype = is_signed ? TSR_DTYPE_I32 : TSR_DTYPE_UI32;
    *out_words = words;
    return true;
}

/* ---- candidates ---- */

static bool is_convolution(MlirOperation op) {
    int64_t groups = 1;
    tsr_op_i64(op, "groups", &groups);
    return tsr_op_is(op, TSR_GRAPH_CONV2D) && groups == 1;
}

static MlirOperation find_product(MlirOperation group) {
    TSR_FOR_EACH_OP(op, tsr_op_body(group)) {
        if (tsr_op_is(op, TSR_GRAPH_MATMUL) || is_convolution(op)) return op;
    }
    return (MlirOperation){NULL};
}

/* True for a matrix, or a batch that contains one matrix. */
static bool is_one_matrix(const tsr_shape *shape) {
    for (uint32_t d = 0; d + 2 < shape->rank; d++)
        if (shape->dims[d] != 1) return false;
    return shape->rank >= 2;
}

static bool is_read_once(MlirOperation group, MlirValue argument) {
    size_t count = 0;
    TSR_FOR_EACH_OP(op, tsr_op_body(group)) {
        for (size_t i = 0; i < tsr_op_operand_count(op); i++)
            count += mlirValueEqual(tsr_op_operand(op, i), argument);
    }
    return count == 1;
}

/* The rows of all products of a batch, which read one matrix. */
static uint64_t product_rows(MlirOperation product) {
    tsr_type result = {0};
    uint64_t rows = 1;
    tsr_value_type(tsr_op_result(product, 0), &result);
    for (uint32_t i = 0; i + 1 < result.shape.rank; i++) rows *= result.shape.dims[i];
    return rows;
}

static bool is_narrow(const job *j) { return tsr_dtype_size(j->matrix.dtype) < sizeof(float); }

static bool is_worth(const job *j) {
    uint64_t size = 0, packed = 0, bytes = 0, rows = product_rows(j->product);
    if (!tsr_shape_count(&j->matrix.shape, &size) || !tsr_shape_count(&j->strips.shape, &packed) ||
        !tsr_shape_size(&j->strips.shape, j->strips.dtype, &bytes) ||
        (is_convolution(j->product) && is_narrow(j)))
        return false;
    /* With few columns, strips would be mostly zeros. Pairs always differ from the layout of the
     * matrix, and each program of a convolution would pack its filter: these strips are made in
     * any case. */
    bool made_anyway = j->pairs || is_convolution(j->product);
    if (j->words) return rows > 0; /* words are made in any case, and are small */
    return rows > 0 && (made_anyway || bytes > NEAR_BYTES) &&
           packed - size <= (made_anyway ? size : size / 4);
}

/* Chooses the layout of the strips. */
static void choose_strips(const packer *p, job *j) {
    bool product = !is_convolution(j->product);
    j->pairs =
        p->pairs && product && j->matrix.dtype == TSR_DTYPE_BF16 && j->dtype == j->matrix.dtype;
    j->strips.dtype = j->matrix.dtype;
    if (j->words) {
        tsr_type words;
        bool fits = tsr_pack_words(&j->matrix, &words);
        TSR_ASSERT(fits);
        j->strips.dtype = words.dtype;
        j->strips.shape = tsr_pack_shape(&words, words.dtype, false, false);
        return;
    }
    if (is_narrow(j) && product && !j->pairs && product_rows(j->product) > NARROW_ROWS_MAX)
        j->strips.dtype = TSR_DTYPE_F32;
    j->strips.shape = tsr_pack_shape(&j->matrix, j->strips.dtype, j->transposed, j->pairs);
}

/* Returns the second operand, which may be widened before the product. */
static MlirValue find_argument(MlirOperation product) {
    MlirValue value = tsr_op_operand(product, 1);
    MlirOperation owner = tsr_value_owner(value);
    bool widened = tsr_op_is(owner, TSR_GRAPH_CAST) && tsr_op_is(product, TSR_GRAPH_MATMUL);
    return widened ? tsr_op_operand(owner, 0) : value;
}

/* The tensor of whose rows the value is the words; null: it is not words. */
static MlirValue find_bytes(const packer *p, MlirValue value) {
    MlirOperation call = tsr_value_owner(value);
    const char *callee = tsr_op_is(call, TSR_SCHED_CALL) ? tsr_op_string(call, "callee") : NULL;
    MlirOperation group = callee ? tsr_module_find(p->module, callee) : (MlirOperation){NULL};
    if (mlirOperationIsNull(group) || !tsr_op_is(group, TSR_SCHED_FUNC)) return (MlirValue){NULL};
    MlirOperation op = mlirBlockGetFirstOperation(tsr_op_body(group));
    tsr_type from, words, packed;
    bool is_words = tsr_op_is(op, TSR_GRAPH_WORDS) &&
                    tsr_value_type(tsr_op_operand(op, 0), &from) &&
                    tsr_value_type(tsr_op_result(op, 0), &words) &&
                    tsr_pack_words(&from, &packed) && tsr_shape_equal(&packed.shape, &words.shape);
    return is_words ? tsr_op_operand(call, 0) : (MlirValue){NULL};
}

/* Finds the tensor from which strips of the call's operand can be made once. */
static bool find_source(packer *p, MlirOperation entry, MlirOperation call, job *j) {
    MlirValue value = tsr_op_operand(call, j->operand), bytes = find_bytes(p, value);
    j->words = !mlirValueIsNull(bytes);
    j->source = j->words ? bytes : value;
    return tsr_is_invariant(&p->assigned, entry, j->source) &&
           tsr_value_type(j->source, &j->matrix);
}

static bool find_job(packer *p, MlirOperation entry, MlirOperation call, job *j) {
    const char *callee = tsr_op_string(call, "callee");
    *j = (job){.call = call, .group = tsr_module_find(p->module, callee ? callee : "")};
    if (mlirOperationIsNull(j->group)) return false;
    j->product = find_product(j->group);
    if (mlirOperationIsNull(j->product)) return false;
    MlirValue argument = find_argument(j->product);
    tsr_type read;
    if (!mlirValueIsABlockArgument(argument) || !is_read_once(j->group, argument) ||
        !is_read_once(j->group, tsr_op_operand(j->product, 1)) ||
        !tsr_value_type(tsr_op_operand(j->product, 1), &read))
        return false;
    j->operand = (size_t)mlirBlockArgumentGetArgNumber(argument);
    j->transposed = tsr_op_flag(j->product, "transpose_b");
    if (!find_source(p, entry, call, j) ||
        !(is_one_matrix(&j->matrix.shape) || is_convolution(j->product)))
        return false;
    j->dtype = read.dtype;
    choose_strips(p, j);
    return tsr_op_operand_count(call) <= TSR_FUSE_ARGUMENTS_MAX &&
           tsr_op_result_count(call) <= TSR_FUSE_ARGUMENTS_MAX && is_worth(j);
}

/* ---- the groups ---- */

static MlirOperation add_group(packer *p, const char *symbol, const job *j, MlirBlock block,
                               MlirType type) {
    uint64_t size = 0, packed = 0;
    MlirRegion region = mlirRegionCreate();
    mlirRegionAppendOwnedBlock(region, block);
    tsr_shape_size(&j->matrix.shape, j->matrix.dtype, &size);
    tsr_shape_size(&j->strips.shape, j->strips.dtype, &packed);
    const tsr_attr attrs[] = {{"sym_name", tsr_attr_make_string(p->mlir, symbol)},
                              {"function_type", tsr_attr_make_type(type)},
                              {"kind", tsr_attr_make_string(p->mlir, "pack")},
                              {"source", tsr_attr_make_string(p->mlir, "default")},
                              {"flops", tsr_attr_make_i64(p->mlir, 0)},
                              {"bytes", tsr_attr_make_i64(p->mlir, (int64_t)(size + packed))}};
    tsr_builder at =
        tsr_builder_at_end(mlirModuleGetBody(p->module), mlirOperationGetLocation(j->call));
    return tsr_build(&at, &(tsr_op_desc){.name = "tsched.func",
                                         .attr_count = TSR_COUNT(attrs),
                                         .attrs = attrs,
                                         .region_count = 1,
                                         .regions = &region});
}

static MlirOperation make_pack_group(packer *p, const job *j, const char *symbol) {
    MlirType from = tsr_type_make(p->mlir, &j->matrix), to = tsr_type_make(p->mlir, &j->strips);
    MlirLocation location = mlirOperationGetLocation(j->call);
    MlirBlock block = mlirBlockCreate(1, &from, &location);
    tsr_builder at = tsr_builder_at_end(block, location);
    MlirValue argument = mlirBlockGetArgument(block, 0);
    tsr_attr attrs[] = {{"transpose", tsr_attr_make_bool(p->mlir, j->transposed)}, {0}, {0}};
    if (j->pairs) attrs[1] = (tsr_attr){"pairs", tsr_attr_make_bool(p->mlir, true)};
    if (j->words) attrs[1] = (tsr_attr){"words", tsr_attr_make_bool(p->mlir, true)};
    MlirValue strips = tsr_build_value(&at, "tsched.pack", &argument, 1, to, attrs);
    tsr_build(&at,
              &(tsr_op_desc){.name = "tsched.return", .operand_count = 1, .operands = &strips});
    return add_group(p, symbol, j, block, mlirFunctionTypeGet(p->mlir, 1, &from, 1, &to));
}

static bool is_pack_group(MlirOperation group, const job *j) {
    MlirOperation op = mlirBlockGetFirstOperation(tsr_op_body(group));
    tsr_type type, strips;
    return tsr_op_is(op, TSR_SCHED_PACK) && tsr_op_flag(op, "transpose") == j->transposed &&
           tsr_op_flag(op, "pairs") == j->pairs && tsr_op_flag(op, "words") == j->words &&
           tsr_value_type(tsr_op_operand(op, 0), &type) &&
           tsr_value_type(tsr_op_result(op, 0), &strips) && type.dtype == j->matrix.dtype &&
           strips.dtype == j->strips.dtype && tsr_shape_equal(&type.shape, &j->matrix.shape);
}

static MlirOperation find_pack_group(packer *p, const job *j) {
    char symbol[64];
    TSR_FOR_EACH_OP(op, mlirModuleGetBody(p->module)) {
        if (tsr_op_is(op, TSR_SCHED_FUNC) && is_pack_group(op, j)) return op;
    }
    do snprintf(symbol, sizeof symbol, "p%u_pack", p->pack_count++);
    while (!mlirOperationIsNull(tsr_module_find(p->module, symbol)));
    return make_pack_group(p, j, symbol);
}

/* Makes the product's group with the matrix in strips. */
static MlirOperation make_product_group(packer *p, const job *j) {
    MlirOperation group = mlirOperationClone(j->group);
    MlirOperation product = find_product(group);
    MlirValue argument = mlirBlockGetArgument(tsr_op_body(group), (intptr_t)j->operand);
    MlirType type = mlirTypeAttrGetValue(tsr_op_attr(group, "function_type"));
    MlirType inputs[TSR_FUSE_ARGUMENTS_MAX], results[TSR_FUSE_ARGUMENTS_MAX];
    intptr_t input_count = mlirFunctionTypeGetNumInputs(type),
             result_count = mlirFunctionTypeGetNumResults(type);
    for (intptr_t i = 0; i < input_count; i++) inputs[i] = mlirFunctionTypeGetInput(type, i);
    for (intptr_t i = 0; i < result_count; i++) results[i] = mlirFunctionTypeGetResult(type, i);
    inputs[j->operand] = tsr_type_make(p->mlir, &j->strips);
    tsr_type matrix = {j->dtype, j->matrix.shape};
    if (j->words) tsr_value_type(argument, &matrix);
    uint64_t *dims = matrix.shape.dims + matrix.shape.rank - 2, rows = dims[0];
    if (j->transposed) {
        dims[0] = dims[1];
        dims[1] = rows;
    }
    tsr_builder at = tsr_builder_before(product);
    const tsr_attr pairs[] = {{"pairs", tsr_attr_make_bool(p->mlir, true)}, {0}};
    MlirOperation cast = tsr_value_owner(tsr_op_operand(product, 1));
    mlirValueSetType(argument, inputs[j->operand]);
    MlirValue view = tsr_build_value(&at, "tsched.unpack", &argument, 1,
                                     tsr_type_make(p->mlir, &matrix), j->pairs ? pairs : NULL);
    mlirOperationSetOperand(product, 1, view);
    if (!mlirOperationIsNull(cast)) mlirOperationDestroy(cast);
    if (j->transposed) tsr_op_set(product, "transpose_b", tsr_attr_make_bool(p->mlir, false));
    tsr_op_set(group, "function_type",
               tsr_attr_make_type(
                   mlirFunctionTypeGet(p->mlir, input_count, inputs, result_count, results)));
    tsr_clone_add(p->module, j->group, group, "packed");
    return group;
}

static MlirOperation find_product_group(packer *p, const job *j) {
    MlirOperation found = tsr_clone_find(p->module, j->group, "packed");
    return mlirOperationIsNull(found) ? make_product_group(p, j) : found;
}

/* ---- the calls ---- */

/* Returns the strips of a tensor: from an earlier call, or from one that is added after the
 * tensor. */
static MlirValue find_strips(packer *p, MlirOperation entry, const job *j) {
    MlirValue matrix = j->source;
    const char *symbol = tsr_op_symbol(find_pack_group(p, j));
    for (MlirOpOperand use = mlirValueGetFirstUse(matrix); !mlirOpOperandIsNull(use);
         use = mlirOpOperandGetNextUse(use)) {
        MlirOperation op = mlirOpOperandGetOwner(use);
        const char *callee = tsr_op_is(op, TSR_SCHED_CALL) ? tsr_op_string(op, "callee") : NULL;
        if (callee && strcmp(callee, symbol) == 0 &&
            mlirBlockEqual(mlirOperationGetBlock(op), tsr_op_body(entry)) &&
            mlirOperationIsBeforeInBlock(op, j->call))
            return tsr_op_result(op, 0);
    }
    const tsr_attr attrs[] = {{"callee", tsr_attr_make_symbol(p->mlir, symbol)}, {0}};
    tsr_builder at = tsr_builder_before(j->call);
    return tsr_build_value(&at, "tsched.call", &matrix, 1, tsr_type_make(p->mlir, &j->strips),
                           attrs);
}

static void pack_entry(packer *p, MlirOperation func) {
    MlirOperation entry = tsr_entry_of(p->module, func);
    if (mlirOperationIsNull(entry) || !tsr_graph_is_lowered_func(entry)) return;
    TSR_FOR_EACH_OP(call, tsr_op_body(func)) {
        job j;
        if (!tsr_op_is(call, TSR_SCHED_CALL) || !find_job(p, entry, call, &j)) continue;
        MlirValue replaced = tsr_op_operand(call, j.operand);
        mlirOperationSetOperand(call, (intptr_t)j.operand, find_strips(p, func, &j));
        if (j.words && mlirOpOperandIsNull(mlirValueGetFirstUse(replaced)))
            mlirOperationDestroy(tsr_value_owner(replaced));
        MlirOperation group = find_product_group(p, &j);
        tsr_op_set(call, "callee", tsr_attr_make_symbol(p->mlir, tsr_op_symbol(group)));
    }
}

bool tsr_schedule_pack(MlirModule module, bool pairs) {
    packer p = {.module = module, .mlir = mlirModuleGetContext(module), .pairs = pairs};
    tsr_clones_begin(module);
    TSR_FOR_EACH_OP(op, mlirModuleGetBody(module)) {
        if (tsr_graph_is_lowered_func(op)) pack_entry(&p, op);
    }
    tsr_assigned_finish(&p.assigned);
    tsr_clones_end(module);
    return true;
}

bool tsr_pass_pack(MlirModule module) { return tsr_schedule_pack(module, false); }
