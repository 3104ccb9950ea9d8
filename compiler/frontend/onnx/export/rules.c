/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules of ops.def. A rule refuses what ONNX computes in another way.
 */
#include "compiler/graph/rules.h"

#include "compiler/frontend/onnx/export/exporter.h"
#include "compiler/frontend/onnx/tensor.h"
#include "compiler/process/guard.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The names of the operands. */
static size_t read_inputs(tsr_exporter *x, MlirOperation op,
                          const char *out_names[TSR_RULE_OPERANDS_MAX]) {
    size_t count = tsr_op_operand_count(op);
    TSR_ASSERT(count <= TSR_RULE_OPERANDS_MAX);
    for (size_t i = 0; i < count; i++) out_names[i] = tsr_export_name(x, tsr_op_operand(op, i));
    return count;
}

static bool write_same(tsr_exporter *x, MlirOperation op, const char *name, tsr_buffer *attrs) {
    const char *inputs[TSR_RULE_OPERANDS_MAX];
    size_t count = read_inputs(x, op, inputs);
    tsr_export_results(x, op, name, count, inputs, attrs);
    return true;
}

static tsr_type operand_type(MlirOperation op, size_t index) {
    return tsr_type_of(tsr_op_operand(op, index));
}

static tsr_type result_type(MlirOperation op) { return tsr_type_of(tsr_op_result(op, 0)); }

static int64_t read_i64(MlirOperation op, const char *name) {
    int64_t value = 0;
    bool found = tsr_op_i64(op, name, &value);
    TSR_ASSERT(found);
    return value;
}

static size_t read_list(MlirOperation op, const char *name, int64_t out[2 * TSR_RANK_MAX]) {
    size_t count = 0;
    bool found = tsr_op_i64s(op, name, 2 * TSR_RANK_MAX, out, &count);
    return found ? count : 0;
}

/* ---- elementwise ----------------------------------------------------------------------------- */

bool tsr_export_same(tsr_exporter *x, MlirOperation op, const char *name) {
    return write_same(x, op, name, NULL);
}

/* ONNX has ops for truth values and ops for the bits of integers. */
bool tsr_export_logic(tsr_exporter *x, MlirOperation op, const char *name) {
    char bitwise[32];
    snprintf(bitwise, sizeof bitwise, "Bitwise%s", name);
    return write_same(x, op, operand_type(op, 0).dtype == TSR_DTYPE_I1 ? name : bitwise, NULL);
}

bool tsr_export_shift(tsr_exporter *x, MlirOperation op, const char *name) {
    tsr_buffer attrs = {0};
    tsr_dtype dtype = operand_type(op, 0).dtype;
    if (tsr_dtype_is_signed(dtype))
        return tsr_export_refuse(x, "its operands are %s, and ONNX shifts unsigned integers only",
                                 tsr_dtype_name(dtype));
    tsr_export_attr_text(&attrs, "direction", name);
    return write_same(x, op, "BitShift", &attrs);
}

bool tsr_export_compare(tsr_exporter *x, MlirOperation op, const char *name) {
    static const char *const names[] = {
        [TSR_PREDICATE_EQ] = "Equal",   [TSR_PREDICATE_NE] = "Equal",
        [TSR_PREDICATE_LT] = "Less",    [TSR_PREDICATE_LE] = "LessOrEqual",
        [TSR_PREDICATE_GT] = "Greater", [TSR_PREDICATE_GE] = "GreaterOrEqual"};
    const char *inputs[TSR_RULE_OPERANDS_MAX];
    tsr_predicate predicate;
    bool found = tsr_graph_predicate(op, &predicate);
    (void)name;
    TSR_ASSERT(found);
    size_t count = read_inputs(x, op, inputs);
    if (predicate != TSR_PREDICATE_NE) return write_same(x, op, names[predicate], NULL);
    const char *equal = tsr_export_node(x, names[predicate], count, inputs, NULL);
    tsr_export_results(x, op, "Not", 1, &equal, NULL);
    return true;
}

bool tsr_export_cast(tsr_exporter *x, MlirOperation op, const char *name) {
    tsr_buffer attrs = {0};
    tsr_export_attr_int(&attrs, "to", tsr_onnx_type_of_dtype(result_type(op).dtype));
    return write_same(x, op, name, &attrs);
}

bool tsr_export_clamp(tsr_exporter *x, MlirOperation op, const char *name) {
    double low = 0, high = 0;
    bool found = tsr_op_f64(op, "low", &low) && tsr_op_f64(op, "high", &high);
    const tsr_shape scalar = {0};
    tsr_dtype dtype = result_type(op).dtype;
    TSR_ASSERT(found);
    const char *inputs[] = {tsr_export_name(x, tsr_op_operand(op, 0)),
                            tsr_export_number(x, &scalar, dtype, low),
                            tsr_export_number(x, &scalar, dtype, high)};
    tsr_export_results(x, op, name, 3, inputs, NULL);
    return true;
}

bool tsr_export_gelu(tsr_exporter *x, MlirOperation op, const char *name) {
    const char *form = tsr_op_string(op, "approximate");
    tsr_buffer attrs = {0};
    if (tsr_op_flag(op, "slope")) return tsr_export_refuse(x, "it is the slope of gelu");
    tsr_export_attr_text(&attrs, "approximate", form ? form : "none");
    return write_same(x, op, name, &attrs);
}

/* Attributes of ONNX are f32: one of an op on f64 must be such a number. */
static bool add_real(tsr_exporter *x, tsr_buffer *attrs, MlirOperation op, const char *name,
                     double value) {
    if ((double)(float)value != value && operand_type(op, 0).dtype == TSR_DTYPE_F64) {
        tsr_buffer_finish(attrs);
        return tsr_export_refuse(x, "its %s, %g, needs f64", name, value);
    }
    tsr_export_attr_float(attrs, name, value);
    return true;
}

bool tsr_export_celu(tsr_exporter *x, MlirOperation op, const char *name) {
    double alpha = 1;
    tsr_buffer attrs = {0};
    tsr_op_f64(op, "alpha", &alpha);
    if (!add_real(x, &attrs, op, "alpha", alpha)) return false;
    return write_same(x, op, name, &attrs);
}

/* ---- constants ------------------------------------------------------------------------------- */

bool tsr_export_constant(tsr_exporter *x, MlirOperation op, const char *name) {
    tsr_type type;
    void *data = NULL;
    (void)name;
    if (!tsr_attr_elements(tsr_op_attr(op, "value"), &x->arena, &type, &data))
        return tsr_export_refuse(x, "its elements are not in the text of the program");
    tsr_export_bind(x, tsr_op_result(op, 0), tsr_export_tensor(x, &type, data));
    return true;
}

bool tsr_export_param(tsr_exporter *x, MlirOperation op, const char *name) {
    (void)name;
    tsr_export_bind(x, tsr_op_result(op, 0), tsr_op_string(op, "name"));
    return true;
}

/* The indices along the axis, stretched to the shape. */
bool tsr_export_iota(tsr_exporter *x, MlirOperation op, const char *name) {
    tsr_type type = result_type(op),
             line = {.dtype = type.dtype, .shape = {.rank = type.shape.rank}};
    int64_t axis = read_i64(op, "axis"), dims[TSR_RANK_MAX];
    if (!tsr_type_is_static(&type)) return tsr_export_refuse(x, "its shape has open dims");
    uint64_t count = type.shape.rank ? type.shape.dims[axis] : 1;
    for (uint32_t i = 0; i < type.shape.rank; i++) {
        line.shape.dims[i] = i == axis ? count : 1;
        dims[i] = (int64_t)type.shape.dims[i];
    }
    void *data = tsr_arena_alloc(&x->arena, (size_t)count + 1, tsr_dtype_size(type.dtype), 16);
    TSR_NEED(data);
    for (uint64_t i = 0; i < count; i++) tsr_dtype_write(type.dtype, (double)i, data, i);
    const char *inputs[] = {tsr_export_tensor(x, &line, data),
                            tsr_export_ints(x, type.shape.rank, dims)};
    tsr_export_results(x, op, name, 2, inputs, NULL);
    return true;
}

/* ---- products -------------------------------------------------------------------------------- */

static const char *swap_last(tsr_exporter *x, const char *value, uint32_t rank) {
    int64_t permutation[TSR_RANK_MAX];
    for (uint32_t i = 0; i < rank; i++) permutation[i] = i;
    permutation[rank - 1] = rank - 2;
    permutation[rank - 2] = rank - 1;
    return tsr_export_moved(x, value, rank, permutation);
}

/* Gemm transposes matrices itself. */
bool tsr_export_matmul(tsr_exporter *x, MlirOperation op, const char *name) {
    bool flags[] = {tsr_op_flag(op, "transpose_a"), tsr_op_flag(op, "transpose_b")};
    uint32_t ranks[] = {operand_type(op, 0).shape.rank, operand_type(op, 1).shape.rank};
    const char *inputs[TSR_RULE_OPERANDS_MAX];
    tsr_buffer attrs = {0};
    read_inputs(x, op, inputs);
    bool bytes = tsr_is_product_of_bytes(op);
    if (bytes) name = "MatMulInteger";
    if ((flags[0] || flags[1]) && !bytes && ranks[0] == 2 && ranks[1] == 2) {
        tsr_export_attr_int(&attrs, "transA", flags[0]);
        tsr_export_attr_int(&attrs, "transB", flags[1]);
        tsr_export_results(x, op, "Gemm", 2, inputs, &attrs);
        return true;
    }
    for (size_t i = 0; i < 2; i++)
        if (flags[i]) inputs[i] = swap_last(x, inputs[i], ranks[i]);
    tsr_export_results(x, op, name, 2, inputs, NULL);
    return true;
}

/* ---- along axes ------------------------------------------------------------------------------ */

bool tsr_export_reduce(tsr_exporter *x, MlirOperation op, const char *name) {
    int64_t axes[2 * TSR_RANK_MAX];
    size_t count = read_list(op, "axes", axes);
    tsr_buffer attrs = {0};
    const char *inputs[] = {tsr_export_name(x, tsr_op_operand(op, 0)),
                            tsr_export_ints(x, count, axes)};
    tsr_export_attr_int(&attrs, "keepdims", 0);
    tsr_export_attr_int(&attrs, "noop_with_empty_axes", 1);
    tsr_export_results(x, op, name, 2, inputs, &attrs);
    return true;
}

bool tsr_export_argmax(tsr_exporter *x, MlirOperation op, const char *name) {
    tsr_buffer attrs = {0};
    tsr_export_attr_int(&attrs, "axis", read_i64(op, "axis"));
    tsr_export_attr_int(&attrs, "keepdims", 0);
    return write_same(x, op, name, &attrs);
}

bool tsr_export_softmax(tsr_exporter *x, MlirOperation op, const char *name) {
    tsr_buffer attrs = {0};
    tsr_export_attr_int(&attrs, "axis", read_i64(op, "axis"));
    return write_same(x, op, name, &attrs);
}

bool tsr_export_cumsum(tsr_exporter *x, MlirOperation op, const char *name) {
    const int64_t axis = read_i64(op, "axis");
    const char *inputs[] = {tsr_export_name(x, tsr_op_operand(op, 0)),
                            tsr_export_ints(x, 1, &axis)};
    tsr_buffer attrs = {0};
    tsr_export_attr_int(&attrs, "reverse", tsr_op_flag(op, "reverse"));
    tsr_export_attr_int(&attrs, "exclusive", tsr_op_flag(op, "exclusive"));
    tsr_export_results(x, op, name, 2, inputs, &attrs);
    return true;
}

/* ---- moving elements ------------------------------------------------------------------------- */

/* One dim may be open: a reshape finds it out. */
bool tsr_export_to_shape(tsr_exporter *x, MlirOperation op, const char *name) {
    tsr_type type = result_type(op);
    int64_t dims[TSR_RANK_MAX];
    size_t open = 0;
    bool reshapes = tsr_op_is(op, TSR_GRAPH_RESHAPE);
    for (uint32_t i = 0; i < type.shape.rank; i++) {
        bool is_known = tsr_dim_is_known(type.shape.dims[i]);
        dims[i] = is_known ? (int64_t)type.shape.dims[i] : -1;
        open += !is_known;
    }
    if (open > 1 || (open && !reshapes))
        return tsr_export_refuse(x, "its result has more open dims than a constant shape can say");
    const char *inputs[] = {tsr_export_name(x, tsr_op_operand(op, 0)),
                            tsr_export_ints(x, type.shape.rank, dims)};
    tsr_buffer attrs = {0};
    if (reshapes && !open) tsr_export_attr_int(&attrs, "allowzero", 1);
    tsr_export_results(x, op, name, 2, inputs, &attrs);
    return true;
}

bool tsr_export_transpose(tsr_exporter *x, MlirOperation op, const char *name) {
    int64_t permutation[2 * TSR_RANK_MAX];
    size_t count = read_list(op, "permutation", permutation);
    tsr_buffer attrs = {0};
    tsr_export_attr_ints(&attrs, "perm", count, permutation);
    return write_same(x, op, name, &attrs);
}

bool tsr_export_slice(tsr_exporter *x, MlirOperation op, const char *name) {
    int64_t start[2 * TSR_RANK_MAX], size[2 * TSR_RANK_MAX], stride[2 * TSR_RANK_MAX],
        end[TSR_RANK_MAX], axes[TSR_RANK_MAX];
    size_t rank = operand_type(op, 0).shape.rank;
    if (read_list(op, "start", start) != rank || read_list(op, "size", size) != rank)
        return tsr_export_refuse(x, "its start or size depends on open dims");
    bool strides = read_list(op, "stride", stride) == rank;
    for (size_t i = 0; i < rank; i++) {
        if (!strides) stride[i] = 1;
        end[i] = size[i] ? start[i] + (size[i] - 1) * stride[i] + 1 : start[i];
        axes[i] = (int64_t)i;
    }
    const char *inputs[] = {tsr_export_name(x, tsr_op_operand(op, 0)),
                            tsr_export_ints(x, rank, start), tsr_export_ints(x, rank, end),
                            tsr_export_ints(x, rank, axes), tsr_export_ints(x, rank, stride)};
    tsr_export_results(x, op, name, 5, inputs, NULL);
    return true;
}

bool tsr_export_pad(tsr_exporter *x, MlirOperation op, const char *name) {
    int64_t pads[4 * TSR_RANK_MAX], high[2 * TSR_RANK_MAX], interior[2 * TSR_RANK_MAX];
    size_t rank = read_list(op, "low", pads), between = read_list(op, "interior", interior);
    const tsr_shape scalar = {0};
    double value = 0;
    read_list(op, "high", high);
    for (size_t i = 0; i < between; i++)
        if (interior[i]) return tsr_export_refuse(x, "it pads between elements");
    memcpy(pads + rank, high, rank * sizeof *high);
    tsr_op_f64(op, "value", &value);
    const char *inputs[] = {tsr_export_name(x, tsr_op_operand(op, 0)),
                            tsr_export_ints(x, 2 * rank, pads),
                            tsr_export_number(x, &scalar, result_type(op).dtype, value)};
    tsr_export_results(x, op, name, 3, inputs, NULL);
    return true;
}

bool tsr_export_concat(tsr_exporter *x, MlirOperation op, const char *name) {
    return tsr_export_softmax(x, op, name); /* an attribute axis, too */
}

bool tsr_export_split(tsr_exporter *x, MlirOperation op, const char *name) {
    int64_t axis = read_i64(op, "axis"), sizes[TSR_RULE_RESULTS_MAX];
    size_t count = tsr_op_result_count(op);
    tsr_buffer attrs = {0};
    for (size_t i = 0; i < count; i++)
        sizes[i] = (int64_t)tsr_type_of(tsr_op_result(op, i)).shape.dims[axis];
    const char *inputs[] = {tsr_export_name(x, tsr_op_operand(op, 0)),
                            tsr_export_ints(x, count, sizes)};
    tsr_export_attr_int(&attrs, "axis", axis);
    tsr_export_results(x, op, name, 2, inputs, &attrs);
    return true;
}

bool tsr_export_gather(tsr_exporter *x, MlirOperation op, const char *name) {
    tsr_dtype dtype = operand_type(op, 1).dtype;
    if (dtype != TSR_DTYPE_I64 && dtype != TSR_DTYPE_I32)
        return tsr_export_refuse(x, "its indices are %s", tsr_dtype_name(dtype));
    return tsr_export_softmax(x, op, name);
}

/* ---- norms ----------------------------------------------------------------------------------- */

/* Those over the last dims; a scale that is left out is 1. */
bool tsr_export_norm(tsr_exporter *x, MlirOperation op, const char *name) {
    int64_t axes[2 * TSR_RANK_MAX];
    size_t count = read_list(op, "axes", axes), given = tsr_op_operand_count(op);
    tsr_type type = operand_type(op, 0);
    tsr_shape rows = {.rank = (uint32_t)count};
    const char *inputs[TSR_RULE_OPERANDS_MAX];
    double eps = 1e-5;
    tsr_buffer attrs = {0};
    tsr_op_f64(op, "eps", &eps);
    for (size_t i = 0; i < count; i++) {
        if (axes[i] != (int64_t)(type.shape.rank - count + i) ||
            !tsr_dim_is_known(type.shape.dims[axes[i]]))
            return tsr_export_refuse(x, "its axes are not the last dims");
        rows.dims[i] = type.shape.dims[axes[i]];
    }
    read_inputs(x, op, inputs);
    if (given == 1) inputs[1] = tsr_export_number(x, &rows, type.dtype, 1);
    tsr_export_attr_int(&attrs, "axis", (int64_t)(type.shape.rank - count));
    if (!add_real(x, &attrs, op, "epsilon", eps)) return false;
    tsr_export_results(x, op, name, given == 1 ? 2 : given, inputs, &attrs);
    return true;
}

/* Moves dim `axis` to 1; `out_back` is the way back. */
static const char *move_axis(tsr_exporter *x, const char *value, uint32_t rank, int64_t axis,
                             int64_t out_back[TSR_RANK_MAX]) {
    int64_t there[TSR_RANK_MAX], at = 0;
    for (uint32_t i = 0; i < rank; i++) {
        if (i == 1) there[i] = axis;
        if (i == 1) continue;
        if (at == axis) at++;
        there[i] = at++;
    }
    for (uint32_t i = 0; i < rank; i++) out_back[there[i]] = i;
    return tsr_export_moved(x, value, rank, there);
}

bool tsr_export_batch_norm(tsr_exporter *x, MlirOperation op, const char *name) {
    int64_t axis = read_i64(op, "axis"), back[TSR_RANK_MAX];
    uint32_t rank = operand_type(op, 0).shape.rank;
    const char *inputs[TSR_RULE_OPERANDS_MAX];
    double eps = 1e-5;
    tsr_buffer attrs = {0};
    tsr_op_f64(op, "eps", &eps);
    size_t count = read_inputs(x, op, inputs);
    if (rank < 2 || count != 5)
        return tsr_export_refuse(x, "it has %u dims and %zu operands", rank, count);
    if (!add_real(x, &attrs, op, "epsilon", eps)) return false;
    if (axis == 1) {
        tsr_export_results(x, op, name, count, inputs, &attrs);
        return true;
    }
    inputs[0] = move_axis(x, inputs[0], rank, axis, back);
    const char *y = tsr_export_node(x, name, count, inputs, &attrs);
    tsr_buffer moves = {0};
    tsr_export_attr_ints(&moves, "perm", rank, back);
    tsr_export_results(x, op, "Transpose", 1, &y, &moves);
    return true;
}

/* ---- images: [N, H, W, C] here, [N, C, H, W] there ------------------------------------------- */

static const int64_t to_first[] = {0, 3, 1, 2}, to_last[] = {0, 2, 3, 1};

/* Ours: top, bottom, left, right. */
static void add_pads(tsr_buffer *attrs, MlirOperation op) {
    int64_t padding[2 * TSR_RANK_MAX];
    if (read_list(op, "padding", padding) != 4) return;
    const int64_t pads[] = {padding[0], padding[2], padding[1], padding[3]};
    tsr_export_attr_ints(attrs, "pads", 4, pads);
}

static void add_list(tsr_buffer *attrs, MlirOperation op, const char *ours, const char *name) {
    int64_t values[2 * TSR_RANK_MAX];
    size_t count = read_list(op, ours, values);
    if (count) tsr_export_attr_ints(attrs, name, count, values);
}

static void write_image(tsr_exporter *x, MlirOperation op, const char *name, size_t count,
                        const char *const *inputs, tsr_buffer *attrs) {
    const char *y = tsr_export_node(x, name, count, inputs, attrs);
    tsr_buffer moves = {0};
    tsr_export_attr_ints(&moves, "perm", 4, to_last);
    tsr_export_results(x, op, "Transpose", 1, &y, &moves);
}

bool tsr_export_conv(tsr_exporter *x, MlirOperation op, const char *name) {
    static const int64_t filter[] = {3, 2, 0, 1};
    int64_t groups = 1;
    tsr_buffer attrs = {0};
    tsr_op_i64(op, "groups", &groups);
    if (tsr_is_product_of_bytes(op)) name = "ConvInteger";
    const char *inputs[] = {
        tsr_export_moved(x, tsr_export_name(x, tsr_op_operand(op, 0)), 4, to_first),
        tsr_export_moved(x, tsr_export_name(x, tsr_op_operand(op, 1)), 4, filter)};
    add_list(&attrs, op, "strides", "strides");
    add_list(&attrs, op, "dilation", "dilations");
    add_pads(&attrs, op);
    tsr_export_attr_int(&attrs, "group", groups);
    write_image(x, op, name, 2, inputs, &attrs);
    return true;
}

bool tsr_export_pool(tsr_exporter *x, MlirOperation op, const char *name) {
    tsr_buffer attrs = {0};
    int64_t padding[2 * TSR_RANK_MAX];
    size_t count = read_list(op, "padding", padding);
    const char *input = tsr_export_moved(x, tsr_export_name(x, tsr_op_operand(op, 0)), 4, to_first);
    for (size_t i = 0; i < count; i++)
        if (padding[i] && tsr_op_is(op, TSR_GRAPH_AVG_POOL2D))
            return tsr_export_refuse(x, "it is padded");
    add_list(&attrs, op, "window", "kernel_shape");
    add_list(&attrs, op, "strides", "strides");
    add_pads(&attrs, op);
    write_image(x, op, name, 1, &input, &attrs);
    return true;
}

/* ---- attention ------------------------------------------------------------------------------- */

bool tsr_export_attention(tsr_exporter *x, MlirOperation op, const char *name) {
    tsr_shape q = operand_type(op, 0).shape, k = operand_type(op, 1).shape;
    double scale = 0;
    bool is_causal = tsr_op_flag(op, "causal");
    tsr_buffer attrs = {0};
    if (tsr_op_result_count(op) != 1) return tsr_export_refuse(x, "it returns a logsumexp, too");
    if (is_causal && q.dims[2] != k.dims[2])
        return tsr_export_refuse(x, "it is causal, with other numbers of queries and keys");
    if (tsr_op_f64(op, "scale", &scale) && !add_real(x, &attrs, op, "scale", scale)) return false;
    if (is_causal) tsr_export_attr_int(&attrs, "is_causal", 1);
    return write_same(x, op, name, &attrs);
}
