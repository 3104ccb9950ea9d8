/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules of tsched.func, one function per kind, and of tsched.call.
 */
#include "compiler/ir/op_rows.h"
#include "compiler/ir/value_map.h"
#include "compiler/schedule/fusion/rows.h"
#include "compiler/schedule/schedule.h"
#include "compiler/shim/shim.h"

#include <string.h>

typedef struct body {
    MlirOperation func;
    MlirOperation root;    /* null in a map of elementwise ops */
    MlirOperation view;    /* a tsched.unpack, or null */
    const tsr_op_row *row; /* row of the root */
    MlirOperation last;    /* the tsched.return */
    bool rows;             /* a rows group: several reductions */
    bool repairs;          /* contains a repair */
    size_t op_count;       /* constants and the return not counted */
    tsr_type output;       /* type of the first result */
} body;

static bool is_static(MlirValue value) {
    tsr_type type;
    return tsr_value_type(value, &type) && tsr_type_is_static(&type);
}

static bool check_values(MlirOperation op) {
    for (size_t i = 0; i < tsr_op_result_count(op); i++)
        if (!is_static(tsr_op_result(op, i)))
            return tsr_op_emit_error(op, TSR_DIAG_GROUP_TYPE,
                                     "the result must be a static tensor of a known element type");
    return true;
}

/* Finds root and return; the scheduler must know every op. */
static bool read_body(MlirOperation func, body *b) {
    MlirBlock block = tsr_op_body(func);
    const char *kind = tsr_op_string(func, "kind");
    *b = (body){.func = func, .rows = kind && strcmp(kind, "rows") == 0};
    for (intptr_t i = 0; i < mlirBlockGetNumArguments(block); i++)
        if (!is_static(mlirBlockGetArgument(block, i)))
            return tsr_op_emit_error(func, TSR_DIAG_GROUP_TYPE,
                                     "every input must be a static tensor of a known element type");
    TSR_FOR_EACH_OP(op, block) {
        if (tsr_op_is(op, TSR_SCHED_RETURN)) {
            b->last = op;
            break;
        }
        const tsr_op_row *row = tsr_op_row_find(op);
        if (!row || !tsr_op_row_is_computed(row))
            return tsr_op_emit_error(op, TSR_DIAG_GROUP_OP, "is not allowed in a fusion group");
        if (!check_values(op)) return false;
        b->op_count += row->op_class != TSR_CLASS_CONSTANT;
        if (row->op_class == TSR_CLASS_MAP || row->op_class == TSR_CLASS_CONSTANT) continue;
        if (row->op_class == TSR_CLASS_VIEW) {
            b->view = op;
            b->op_count--;
            continue;
        }
        if (b->rows && row->op_class != TSR_CLASS_REDUCE && !tsr_op_is(op, TSR_GRAPH_RESHAPE) &&
            !tsr_op_is(op, TSR_GRAPH_REPAIR))
            return tsr_op_emit_error(op, TSR_DIAG_GROUP_OP, "is not allowed in a rows group");
        b->repairs |= tsr_op_is(op, TSR_GRAPH_REPAIR);
        if (b->rows && (row->op_class != TSR_CLASS_REDUCE || !mlirOperationIsNull(b->root)))
            continue;
        if (!mlirOperationIsNull(b->root))
            return tsr_op_emit_error(op, TSR_DIAG_GROUP_OP,
                                     "a fusion group has at most one op that is not elementwise");
        b->root = op;
        b->row = row;
    }
    if (mlirOperationIsNull(b->last))
        return tsr_op_emit_error(func, TSR_DIAG_GROUP_RETURN, "the body must end in tsched.return");
    return true;
}

/* An op with several results forms a group with exactly these results. */
static bool check_parts(const body *b, size_t index) {
    if (index >= tsr_op_result_count(b->root) ||
        !mlirValueEqual(tsr_op_operand(b->last, index), tsr_op_result(b->root, index)) ||
        tsr_op_operand_count(b->last) != tsr_op_result_count(b->root))
        return tsr_op_emit_error(b->last, TSR_DIAG_GROUP_RETURN,
                                 "does not return the results of its op in order");
    return true;
}

static bool check_return(body *b) {
    MlirType type = mlirTypeAttrGetValue(tsr_op_attr(b->func, "function_type"));
    size_t count = tsr_op_operand_count(b->last);
    bool parts = !mlirOperationIsNull(b->root) && tsr_op_result_count(b->root) > 1;
    if (count == 0)
        return tsr_op_emit_error(b->func, TSR_DIAG_GROUP_RETURN,
                                 "a fusion group needs at least one output");
    if ((size_t)mlirFunctionTypeGetNumResults(type) != count)
        return tsr_op_emit_error(b->last, TSR_DIAG_GROUP_RETURN,
                                 "returns another number of values than the function declares");
    for (size_t i = 0; i < count; i++) {
        MlirValue value = tsr_op_operand(b->last, i);
        tsr_type output;
        if (!mlirTypeEqual(mlirValueGetType(value), mlirFunctionTypeGetResult(type, (intptr_t)i)))
            return tsr_op_emit_error(b->last, TSR_DIAG_GROUP_RETURN,
                                     "returns another type than the function declares");
        if (mlirOperationIsNull(tsr_value_owner(value)))
            return tsr_op_emit_error(b->last, TSR_DIAG_GROUP_RETURN,
                                     "an input cannot be an output");
        if (b->rows && tsr_op_is(tsr_value_owner(value), TSR_GRAPH_CONSTANT))
            return tsr_op_emit_error(b->last, TSR_DIAG_GROUP_RETURN,
                                     "a constant cannot be an output of a group of kind \"rows\"");
        if (!tsr_value_type(value, &output))
            return tsr_op_emit_error(b->last, TSR_DIAG_GROUP_TYPE, "output of unknown type");
        if (i == 0) b->output = output;
        if (parts && !check_parts(b, i)) return false;
        if (!parts && !b->rows && !tsr_shape_equal(&output.shape, &b->output.shape))
            return tsr_op_emit_error(b->last, TSR_DIAG_GROUP_SHAPE,
                                     "all outputs of a group must have the same shape");
    }
    return true;
}

static bool check_stretch(MlirOperation op, const tsr_shape *shape) {
    tsr_type type;
    if (!tsr_value_type(tsr_op_result(op, 0), &type) || !tsr_shape_stretches(&type.shape, shape))
        return tsr_op_emit_error(op, TSR_DIAG_GROUP_SHAPE,
                                 "its shape does not broadcast to the group's shape");
    return true;
}

/* Puts every value the root depends on into `before`; false when out of memory. */
static bool find_before(const body *b, tsr_arena *arena, tsr_value_map *before) {
    size_t count = 0;
    TSR_FOR_EACH_OP(op, tsr_op_body(b->func)) count++;
    MlirOperation *ops = TSR_NEW(arena, MlirOperation, count);
    if (!ops) return false;
    count = 0;
    TSR_FOR_EACH_OP(op, tsr_op_body(b->func)) ops[count++] = op;
    while (count-- > 0) {
        bool is_before = mlirOperationEqual(ops[count], b->root) ||
                         (tsr_op_result_count(ops[count]) == 1 &&
                          tsr_value_map_get(before, tsr_op_result(ops[count], 0)) == 1);
        for (size_t i = 0; is_before && i < tsr_op_operand_count(ops[count]); i++)
            if (!tsr_value_map_set(before, arena, tsr_op_operand(ops[count], i), 1)) return false;
    }
    return true;
}

/* Only casts of its first operand and of its result may surround an op that takes casts. */
static bool check_cast(const body *b, MlirOperation op) {
    bool before = mlirValueEqual(tsr_op_operand(b->root, 0), tsr_op_result(op, 0));
    bool behind = mlirValueEqual(tsr_op_operand(op, 0), tsr_op_result(b->root, 0));
    tsr_type type;
    bool widens = tsr_value_type(tsr_op_result(op, 0), &type) && type.dtype == TSR_DTYPE_F32;
    if (tsr_op_is_width_cast(op) && before == widens && behind != widens) return true;
    return tsr_op_emit_error(
        op, TSR_DIAG_GROUP_OP,
        "is not a cast of an operand or result of the op that must be alone in its group");
}

/* A matmul widens its second operand, an argument, as it reads it. */
static bool is_widened_matrix(const body *b, MlirOperation op) {
    tsr_type type;
    return b->row->op_class == TSR_CLASS_MATMUL && tsr_op_is_width_cast(op) &&
           mlirValueEqual(tsr_op_operand(b->root, 1), tsr_op_result(op, 0)) &&
           !mlirValueEqual(tsr_op_operand(b->root, 0), tsr_op_result(op, 0)) &&
           mlirValueIsABlockArgument(tsr_op_operand(op, 0)) &&
           tsr_value_type(tsr_op_result(op, 0), &type) && type.dtype == TSR_DTYPE_F32;
}

/* Elementwise ops before a reduction run over its input's shape and are gone after it; all others
 * run over the outputs' shape. */
static bool check_op_shape(const body *b, const tsr_value_map *before, MlirOperation op,
                           const tsr_shape *input) {
    bool has_root = !mlirOperationIsNull(b->root);
    bool is_before = tsr_value_map_get(before, tsr_op_result(op, 0)) == 1;
    if (is_before && b->row->op_class == TSR_CLASS_WIDE) return check_cast(b, op);
    if (is_before && is_widened_matrix(b, op)) return true;
    if (is_before && b->row->op_class != TSR_CLASS_REDUCE)
        return tsr_op_emit_error(op, TSR_DIAG_GROUP_OP,
                                 "only a reduction takes elementwise ops before it");
    for (size_t i = 0; i < tsr_op_operand_count(op) && has_root && !is_before; i++) {
        MlirOperation owner = tsr_value_owner(tsr_op_operand(op, i));
        const tsr_op_row *row = tsr_op_row_find(owner);
        if (row && row->op_class == TSR_CLASS_MAP &&
            tsr_value_map_get(before, tsr_op_operand(op, i)) == 1)
            return tsr_op_emit_error(op, TSR_DIAG_GROUP_SHAPE,
                                     "reads a value that exists only before the reduction");
    }
    if (has_root && b->row->op_class == TSR_CLASS_WIDE && !check_cast(b, op)) return false;
    return check_stretch(op, is_before ? input : &b->output.shape);
}

static bool check_shapes(const body *b) {
    tsr_type root = {0}, input = {0};
    tsr_arena arena = {0};
    tsr_value_map before = {0};
    bool good = true;
    if (!mlirOperationIsNull(b->root)) {
        if (!tsr_value_type(tsr_op_result(b->root, 0), &root) ||
            !tsr_shape_equal(&root.shape, &b->output.shape))
            return tsr_op_emit_error(b->root, TSR_DIAG_GROUP_SHAPE,
                                     "its result has another shape than the group's outputs");
        if (b->row->op_class == TSR_CLASS_REDUCE)
            tsr_value_type(tsr_op_operand(b->root, 0), &input);
        good = find_before(b, &arena, &before) ||
               tsr_op_emit_error(b->func, TSR_DIAG_MEMORY, "no memory to verify");
    }
    TSR_FOR_EACH_OP(op, tsr_op_body(b->func)) {
        const tsr_op_row *row = tsr_op_row_find(op);
        if (good && row && row->op_class == TSR_CLASS_MAP)
            good = check_op_shape(b, &before, op, &input.shape);
    }
    tsr_arena_finish(&arena);
    return good;
}

/* ---- rows ---- */

typedef struct rows_reader {
    tsr_arena arena;
    tsr_value_map numbers;
    tsr_fuse_node *nodes;
    uint32_t *members, *inputs, *outputs;
    uint32_t node_count, member_count;
} rows_reader;

/* False for a value that is defined further down: whether it exists is checked later. */
static bool rows_number(const rows_reader *r, MlirValue value, uint32_t *out_number) {
    *out_number = tsr_value_map_get(&r->numbers, value);
    return *out_number != UINT32_MAX;
}

static bool rows_add(rows_reader *r, MlirValue value, MlirOperation op, const tsr_op_row *row) {
    tsr_type type;
    if (!tsr_value_type(value, &type)) return false;
    tsr_fuse_node *node = &r->nodes[r->node_count];
    *node = (tsr_fuse_node){.dtype = type.dtype, .shape = type.shape};
    if (row && row->op_class != TSR_CLASS_CONSTANT) {
        size_t count = tsr_op_operand_count(op);
        uint32_t *operands = TSR_NEW(&r->arena, uint32_t, count + 1);
        if (!operands) return false;
        for (size_t i = 0; i < count; i++)
            if (!rows_number(r, tsr_op_operand(op, i), &operands[i])) return false;
        node->kind = row->op_class == TSR_CLASS_MAP ? TSR_FUSE_MAP : TSR_FUSE_REDUCE;
        node->operand_count = (uint32_t)count;
        node->operands = operands;
        tsr_rows_note(op, node);
        r->members[r->member_count++] = r->node_count;
    }
    return tsr_value_map_set(&r->numbers, &r->arena, value, r->node_count++);
}

static bool read_rows(const body *b, rows_reader *r) {
    MlirBlock block = tsr_op_body(b->func);
    size_t count = (size_t)mlirBlockGetNumArguments(block) + 1, inputs = count - 1;
    TSR_FOR_EACH_OP(op, block) count++;
    r->nodes = TSR_NEW(&r->arena, tsr_fuse_node, count);
    r->members = TSR_NEW(&r->arena, uint32_t, count);
    r->inputs = TSR_NEW(&r->arena, uint32_t, count);
    r->outputs = TSR_NEW(&r->arena, uint32_t, tsr_op_operand_count(b->last) + 1);
    if (!r->nodes || !r->members || !r->inputs || !r->outputs) return false;
    for (size_t i = 0; i < inputs; i++) {
        r->inputs[i] = (uint32_t)i;
        if (!rows_add(r, mlirBlockGetArgument(block, (intptr_t)i), b->func, NULL)) return false;
    }
    TSR_FOR_EACH_OP(op, block) {
        if (tsr_op_is(op, TSR_SCHED_RETURN)) break;
        if (!rows_add(r, tsr_op_result(op, 0), op, tsr_op_row_find(op))) return false;
    }
    for (size_t i = 0; i < tsr_op_operand_count(b->last); i++)
        if (!rows_number(r, tsr_op_operand(b->last, i), &r->outputs[i])) return false;
    return true;
}

static bool check_rows(const body *b) {
    rows_reader r = {0};
    uint64_t operations;
    bool idle, good = read_rows(b, &r);
    const tsr_rows_set set = {.nodes = r.nodes,
                              .members = r.members,
                              .member_count = r.member_count,
                              .inputs = r.inputs,
                              .outputs = r.outputs,
                              .input_count =
                                  (uint32_t)mlirBlockGetNumArguments(tsr_op_body(b->func)),
                              .output_count = (uint32_t)tsr_op_operand_count(b->last)};
    good = good && tsr_rows_fit(&set, &operations, &idle);
    tsr_arena_finish(&r.arena);
    return good ||
           tsr_op_emit_error(b->func, TSR_DIAG_GROUP_KIND,
                             "its ops do not form a rows group (compiler/schedule/fusion/rows.h)");
}

/* ---- strips ---- */

static bool is_narrow(tsr_dtype dtype) { return dtype == TSR_DTYPE_BF16 || dtype == TSR_DTYPE_F16; }

/* True if elements of the first type may be stored as the second. */
static bool has_bits_of(tsr_dtype dtype, tsr_dtype other) {
    return dtype == other || (is_narrow(dtype) && other == TSR_DTYPE_F32);
}

static bool check_strips(MlirOperation op, MlirValue matrix, bool transposed, MlirValue strips) {
    tsr_type from, to;
    if (!tsr_value_type(matrix, &from) || !tsr_value_type(strips, &to) || from.shape.rank < 2)
        return tsr_op_emit_error(op, TSR_DIAG_GROUP_SHAPE, "expected a matrix");
    bool pairs = tsr_op_flag(op, "pairs"), view = tsr_op_is(op, TSR_SCHED_UNPACK);
    if (tsr_op_flag(op, "words") && !tsr_pack_words(&from, &from))
        return tsr_op_emit_error(op, TSR_DIAG_GROUP_SHAPE,
                                 "expected a matrix of i8 or ui8 whose words are its rows'");
    tsr_shape shape = tsr_pack_shape(&from, to.dtype, transposed, pairs);
    bool fits =
        pairs ? from.dtype == TSR_DTYPE_BF16 && to.dtype == from.dtype
              : has_bits_of(from.dtype, to.dtype) || (view && has_bits_of(to.dtype, from.dtype));
    if (!fits || !tsr_shape_equal(&shape, &to.shape))
        return tsr_op_emit_error(op, TSR_DIAG_GROUP_SHAPE,
                                 "its types do not match: expected a matrix and its strips");
    return true;
}

static bool is_unchanged(MlirOperation view) {
    tsr_type strips, matrix;
    return tsr_value_type(tsr_op_operand(view, 0), &strips) &&
           tsr_value_type(tsr_op_result(view, 0), &matrix) && strips.dtype == matrix.dtype;
}

/* True for a product of one matrix, or a convolution without groups. */
static bool takes_strips(const body *b) {
    int64_t groups = 1;
    tsr_type matrix;
    if (mlirOperationIsNull(b->root)) return false;
    tsr_op_i64(b->root, "groups", &groups);
    if (tsr_op_is(b->root, TSR_GRAPH_CONV2D))
        return groups == 1 && !tsr_op_flag(b->view, "pairs") && is_unchanged(b->view);
    if (b->row->op_class != TSR_CLASS_MATMUL || tsr_op_flag(b->root, "transpose_b") ||
        !tsr_value_type(tsr_op_operand(b->root, 1), &matrix))
        return false;
    for (uint32_t d = 0; d + 2 < matrix.shape.rank; d++)
        if (matrix.shape.dims[d] != 1) return false;
    return true;
}

/* True if it has one argument that only the product reads. */
static bool check_view(const body *b) {
    MlirOperation op = b->view;
    if (mlirOperationIsNull(op)) return true;
    MlirValue strips = tsr_op_operand(op, 0), matrix = tsr_op_result(op, 0);
    if (!takes_strips(b) || !mlirValueEqual(tsr_op_operand(b->root, 1), matrix) ||
        !mlirValueIsABlockArgument(strips))
        return tsr_op_emit_error(op, TSR_DIAG_GROUP_OP,
                                 "may only be the second operand of a product, not transposed");
    TSR_FOR_EACH_OP(other, tsr_op_body(b->func)) {
        for (size_t i = 0; i < tsr_op_operand_count(other); i++) {
            MlirValue operand = tsr_op_operand(other, i);
            bool second = mlirOperationEqual(other, b->root) && i == 1;
            if ((mlirValueEqual(operand, matrix) && !second) ||
                (mlirValueEqual(operand, strips) && !mlirOperationEqual(other, op)))
                return tsr_op_emit_error(other, TSR_DIAG_GROUP_OP,
                                         "reads strips or views of them; only a product can");
        }
    }
    return check_strips(op, matrix, false, strips);
}

static bool check_attributes(const body *b) {
    int64_t sizes[8];
    size_t count = 0;
    const char *kind = tsr_op_string(b->func, "kind");
    const char *expected = mlirOperationIsNull(b->root) ? "map" : tsr_op_group_kind(b->row);
    if (b->rows && (b->repairs || !mlirOperationIsNull(b->root))) expected = "rows";
    if (!kind || strcmp(kind, expected) != 0) {
        tsr_diag_error(mlirOperationGetLocation(b->func), TSR_DIAG_GROUP_KIND,
                       "tsched.func: kind is \"%s\"; its ops make it \"%s\"", kind ? kind : "",
                       expected);
        return false;
    }
    if (!mlirOperationIsNull(b->root) && b->op_count > 1 &&
        (b->row->op_class == TSR_CLASS_MOVE || b->row->op_class == TSR_CLASS_ALONE))
        return tsr_op_emit_error(b->root, TSR_DIAG_GROUP_OP, "must be alone in its group");
    if (!tsr_op_has(b->func, "tile")) return true;
    if (!tsr_op_i64s(b->func, "tile", 8, sizes, &count))
        return tsr_op_emit_error(b->func, TSR_DIAG_GROUP_TILE,
                                 "tile must be an array of at most 8 integers");
    for (size_t i = 0; i < count; i++)
        if (sizes[i] < 0)
            return tsr_op_emit_error(b->func, TSR_DIAG_GROUP_TILE, "a tile size is below 0");
    return true;
}

bool tsr_schedule_verify_func(MlirOperation func) {
    body b;
    if (mlirRegionIsNull(mlirOperationGetRegion(func, 0)) || !tsr_op_has_body(func))
        return tsr_op_emit_error(func, TSR_DIAG_GROUP_RETURN, "a fusion group needs a body");
    const char *kind = tsr_op_string(func, "kind");
    if (kind && strcmp(kind, "batch") == 0) return tsr_segments_verify(func);
    if (!read_body(func, &b)) return false;
    bool pack = tsr_op_is(b.root, TSR_SCHED_PACK);
    if (pack && !check_strips(b.root, tsr_op_operand(b.root, 0), tsr_op_flag(b.root, "transpose"),
                              tsr_op_result(b.root, 0)))
        return false;
    return check_view(&b) && check_return(&b) && check_attributes(&b) &&
           (b.rows ? check_rows(&b) : check_shapes(&b));
}

/* After the tile stage the group is a kernel: input buffers, then output buffers. */
static bool check_kernel_call(MlirOperation call, MlirOperation kernel) {
    size_t inputs = tsr_op_operand_count(call), outputs = tsr_op_result_count(call);
    MlirBlock block = tsr_op_body(kernel);
    int64_t written = 0;
    if ((size_t)mlirBlockGetNumArguments(block) != inputs + outputs ||
        !tsr_op_i64(kernel, "outputs", &written) || (uint64_t)written != outputs)
        return tsr_op_emit_error(call, TSR_DIAG_GROUP_CALL,
                                 "the kernel has another number of inputs or outputs");
    for (size_t i = 0; i < inputs + outputs; i++) {
        tsr_type value, buffer;
        bool known =
            tsr_value_type(i < inputs ? tsr_op_operand(call, i) : tsr_op_result(call, i - inputs),
                           &value) &&
            tsr_value_type(mlirBlockGetArgument(block, (intptr_t)i), &buffer);
        if (!known || !tsr_shape_equal(&value.shape, &buffer.shape) ||
            tsr_dtype_size(value.dtype) != tsr_dtype_size(buffer.dtype))
            return tsr_op_emit_error(call, TSR_DIAG_GROUP_CALL,
                                     "the types differ from the kernel's");
    }
    return true;
}

bool tsr_schedule_verify_call(MlirOperation call, MlirOperation callee) {
    if (tsr_op_is(callee, TSR_TILE_FUNC)) return check_kernel_call(call, callee);
    if (!tsr_op_is(callee, TSR_SCHED_FUNC))
        return tsr_op_emit_error(call, TSR_DIAG_GROUP_CALL, "there is no such tsched.func");
    MlirType type = mlirTypeAttrGetValue(tsr_op_attr(callee, "function_type"));
    size_t inputs = tsr_op_operand_count(call), outputs = tsr_op_result_count(call);
    bool same = (size_t)mlirFunctionTypeGetNumInputs(type) == inputs &&
                (size_t)mlirFunctionTypeGetNumResults(type) == outputs;
    for (size_t i = 0; i < inputs && same; i++)
        same = mlirTypeEqual(mlirValueGetType(tsr_op_operand(call, i)),
                             mlirFunctionTypeGetInput(type, (intptr_t)i));
    for (size_t i = 0; i < outputs && same; i++)
        same = mlirTypeEqual(mlirValueGetType(tsr_op_result(call, i)),
                             mlirFunctionTypeGetResult(type, (intptr_t)i));
    if (!same)
        return tsr_op_emit_error(call, TSR_DIAG_GROUP_CALL, "the types differ from the group's");
    return true;
}
