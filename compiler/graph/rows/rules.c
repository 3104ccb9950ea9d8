/* SPDX-License-Identifier: Apache-2.0
 *
 * Row rules of ops without regions, one function per family: they derive the layout of the rows in
 * the results, and detect ops that mix rows. Outline: helpers · elementwise · reductions and ops
 * along axes · products · ops that move elements · indices · norms · attention · images · values
 * without operands.
 */
#include "compiler/graph/rows/flow.h"
#include "compiler/ir/resilience_ops.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

static const tsr_rows_fn table[TSR_OP_COUNT] = {
#define X(ID, mnemonic, Class, KIND, check, gradient, forward, lowering, rows, dims)               \
    [TSR_GRAPH_##ID] = tsr_rows_##rows,
#include "compiler/graph/ops.def"
#undef X
};

tsr_rows_fn tsr_graph_rows(tsr_op op) { return table[op] ? table[op] : tsr_rows_of_other; }

/* ---- helpers --------------------------------------------------------------------------------- */

bool tsr_row_mix(tsr_row_flow *flow, size_t operand, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(flow->reason, sizeof flow->reason, format, args);
    va_end(args);
    flow->culprit = operand;
    flow->by_number = false;
    return false;
}

bool tsr_row_mix_joined(tsr_row_flow *flow, size_t operand, tsr_row_fault fault) {
    if (fault == TSR_ROW_PAIRED) return tsr_row_mix(flow, operand, "combines rows with other rows");
    tsr_row_mix(flow, operand,
                "combines the rows with a value that differs from row to row by "
                "itself, so that results depend on the position of a row in its batch");
    flow->by_number = true;
    return false;
}

/* The operand, split by dims. */
static bool view(tsr_row_flow *flow, size_t operand, tsr_row_dims *out_dims) {
    if (tsr_row_split(&flow->operands[operand].layout, &flow->types[operand].shape, out_dims))
        return true;
    return tsr_row_mix(flow, operand, "reads rows that cannot be followed through its dims");
}

static bool refuse_dim(tsr_row_flow *flow, size_t operand, const char *verb, uint32_t dim) {
    return tsr_row_mix(flow, operand, "%s dim %" PRIu32 " of operand %zu, which holds the rows",
                       verb, dim, operand);
}

/* Fails if rows are along the dim. */
static bool check_no_rows(tsr_row_flow *flow, size_t operand, const tsr_row_dims *dims,
                          const char *verb, uint32_t dim) {
    return !tsr_row_has_digit(&dims->dims[dim]) || refuse_dim(flow, operand, verb, dim);
}

/* All dims of a shape with the same label. */
static tsr_row_dims dims_of(const tsr_shape *shape, tsr_row_label label) {
    tsr_row_dims dims = {.rank = shape->rank};
    for (uint32_t i = 0; i < shape->rank; i++)
        dims.dims[i] = tsr_row_layout_of(shape->dims[i], label);
    return dims;
}

static bool set_result(tsr_row_flow *flow, size_t result, const tsr_row_dims *dims) {
    if (tsr_row_merge(dims, &flow->results[result])) return true;
    return tsr_row_mix(flow, 0, "arranges the rows in too many parts");
}

/* Joins dims, which belong to the operand, into those of a result. */
static bool join_into(tsr_row_flow *flow, size_t operand, const tsr_row_dims *dims,
                      tsr_row_dims *result) {
    for (uint32_t i = 0; i < result->rank; i++) {
        tsr_row_layout joined;
        tsr_row_fault fault = tsr_row_join(&result->dims[i], &dims->dims[i], &joined);
        if (fault) return tsr_row_mix_joined(flow, operand, fault);
        result->dims[i] = joined;
    }
    return true;
}

/* NumPy's broadcasting of the first `count` dims of `from`, a value of this shape, to the first
 * dims of `to`. */
static tsr_row_dims stretch(const tsr_row_dims *from, const tsr_shape *shape, uint32_t count,
                            const tsr_shape *to, uint32_t to_count) {
    tsr_row_dims dims = dims_of(to, TSR_ROW_SAME);
    for (uint32_t i = 0; i < count && i < to_count; i++) {
        uint32_t at = to_count - 1 - i, own = count - 1 - i;
        if (shape->dims[own] == to->dims[at]) dims.dims[at] = from->dims[own];
    }
    return dims;
}

static bool join_stretched(tsr_row_flow *flow, size_t operand, const tsr_shape *to,
                           tsr_row_dims *result) {
    tsr_row_dims dims;
    const tsr_shape *shape = &flow->types[operand].shape;
    if (!view(flow, operand, &dims)) return false;
    dims = stretch(&dims, shape, shape->rank, to, to->rank);
    return join_into(flow, operand, &dims, result);
}

/* The ascending dims that `axes` or `axis` names. */
static size_t read_axes(const tsr_row_flow *flow, int64_t out_axes[static TSR_RANK_MAX]) {
    size_t count = 0;
    if (tsr_op_i64s(flow->op, "axes", TSR_RANK_MAX, out_axes, &count)) return count;
    return tsr_op_i64(flow->op, "axis", &out_axes[0]);
}

static uint32_t read_axis(const tsr_row_flow *flow) {
    int64_t axis = 0;
    bool read = tsr_op_i64(flow->op, "axis", &axis);
    TSR_ASSERT(read && axis >= 0 && axis < TSR_RANK_MAX);
    return (uint32_t)axis;
}

/* ---- elementwise ----------------------------------------------------------------------------- */

bool tsr_rows_aligned(tsr_row_flow *flow) {
    for (size_t r = 0; r < flow->result_count; r++) {
        const tsr_shape *shape = &flow->result_types[r].shape;
        tsr_row_dims result = dims_of(shape, TSR_ROW_SAME);
        for (size_t k = 0; k < flow->operand_count; k++)
            if (!join_stretched(flow, k, shape, &result)) return false;
        if (!set_result(flow, r, &result)) return false;
    }
    return true;
}

/* ---- reductions, and ops along axes ---------------------------------------------------------- */

bool tsr_rows_reduce(tsr_row_flow *flow) {
    int64_t axes[TSR_RANK_MAX];
    size_t count = read_axes(flow, axes), next = 0;
    tsr_row_dims dims, result = {0};
    if (!view(flow, 0, &dims)) return false;
    for (uint32_t i = 0; i < dims.rank; i++) {
        if (next < count && axes[next] == (int64_t)i) {
            if (!check_no_rows(flow, 0, &dims, "reduces", i)) return false;
            next++;
        } else {
            result.dims[result.rank++] = dims.dims[i];
        }
    }
    return set_result(flow, 0, &result);
}

/* Operand 0, and others as large, are reduced; the result and the others have size 1 for it, or no
 * such dims. */
bool tsr_rows_repair(tsr_row_flow *flow) {
    int64_t axes[TSR_RANK_MAX];
    size_t count = read_axes(flow, axes);
    size_t next = 0;
    tsr_row_dims all, dims = {0};
    if (!view(flow, 0, &all)) return false;
    bool removes = flow->result_types[0].shape.rank < all.rank;
    for (uint32_t d = 0; d < all.rank; d++) {
        bool is_axis = next < count && axes[next] == (int64_t)d;
        next += is_axis;
        if (is_axis && !check_no_rows(flow, 0, &all, "reduces", d)) return false;
        if (is_axis && removes) continue;
        dims.dims[dims.rank++] = is_axis ? tsr_row_layout_of(1, TSR_ROW_SAME) : all.dims[d];
    }
    for (size_t k = 1; k < flow->operand_count; k++) {
        tsr_row_dims whole;
        bool is_whole = tsr_shape_equal(&flow->types[k].shape, &flow->types[0].shape);
        if (!is_whole && !join_stretched(flow, k, &flow->result_types[0].shape, &dims))
            return false;
        if (!is_whole) continue;
        if (!view(flow, k, &whole)) return false;
        for (size_t i = 0; i < count; i++) {
            uint32_t axis = (uint32_t)axes[i];
            if (!check_no_rows(flow, k, &whole, "reduces", axis)) return false;
            whole.dims[axis] = tsr_row_layout_of(1, TSR_ROW_SAME);
        }
        if (!join_into(flow, k, &whole, &dims)) return false;
    }
    return set_result(flow, 0, &dims);
}

/* softmax, cumsum, sort, top_k; norms, whose scale and bias are broadcast to the first operand. */
bool tsr_rows_axis(tsr_row_flow *flow) {
    int64_t axes[TSR_RANK_MAX];
    size_t count = read_axes(flow, axes);
    const tsr_shape *shape = &flow->result_types[0].shape;
    tsr_row_dims dims;
    if (!view(flow, 0, &dims)) return false;
    for (size_t i = 0; i < count; i++) {
        uint32_t axis = (uint32_t)axes[i];
        if (!check_no_rows(flow, 0, &dims, "combines elements along", axis)) return false;
        dims.dims[axis] = tsr_row_layout_of(shape->dims[axis], TSR_ROW_VARIES);
    }
    for (size_t k = 1; k < flow->operand_count; k++)
        if (!join_stretched(flow, k, shape, &dims)) return false;
    for (size_t r = 0; r < flow->result_count; r++)
        if (!set_result(flow, r, &dims)) return false;
    return true;
}

/* Logits [R, C], labels and gradients [R]. */
bool tsr_rows_cross_entropy(tsr_row_flow *flow) {
    const tsr_shape *shape = &flow->result_types[0].shape;
    tsr_row_dims result = dims_of(shape, TSR_ROW_VARIES), rows = {.rank = 1};
    rows.dims[0] = tsr_row_layout_of(shape->dims[0], TSR_ROW_SAME);
    for (size_t k = 0; k < flow->operand_count; k++) {
        tsr_row_dims dims;
        if (!view(flow, k, &dims)) return false;
        if (dims.rank > 1 && !check_no_rows(flow, k, &dims, "reduces", 1)) return false;
        if (!join_into(flow, k, &dims, &rows)) return false;
    }
    result.dims[0] = rows.dims[0];
    return set_result(flow, 0, &result);
}

/* ---- products -------------------------------------------------------------------------------- */

bool tsr_rows_matmul(tsr_row_flow *flow) {
    const tsr_shape *to = &flow->result_types[0].shape;
    tsr_row_dims result = dims_of(to, TSR_ROW_SAME);
    for (size_t k = 0; k < 2; k++) {
        const tsr_shape *shape = &flow->types[k].shape;
        bool swapped = tsr_op_flag(flow->op, k ? "transpose_b" : "transpose_a");
        uint32_t inner = shape->rank - (swapped == (k == 0) ? 2 : 1);
        uint32_t outer = shape->rank - (swapped == (k == 0) ? 1 : 2), at = to->rank - (k ? 1 : 2);
        tsr_row_dims dims, stretched;
        if (!view(flow, k, &dims)) return false;
        if (!check_no_rows(flow, k, &dims, "sums products over", inner)) return false;
        stretched = stretch(&dims, shape, shape->rank - 2, to, to->rank - 2);
        stretched.dims[at] = dims.dims[outer];
        if (!join_into(flow, k, &stretched, &result)) return false;
    }
    return set_result(flow, 0, &result);
}

/* ---- ops that move elements ------------------------------------------------------------------ */

bool tsr_rows_reshape(tsr_row_flow *flow) {
    tsr_row_dims dims;
    flow->results[0] = flow->operands[0].layout;
    if (tsr_row_split(&flow->results[0], &flow->result_types[0].shape, &dims)) return true;
    return tsr_row_mix(
        flow, 0, "splits the rows: a dim of its result has a part of the rows and other elements");
}

bool tsr_rows_transpose(tsr_row_flow *flow) {
    int64_t permutation[TSR_RANK_MAX];
    size_t count = 0;
    tsr_row_dims dims, result = {0};
    if (!view(flow, 0, &dims)) return false;
    bool read = tsr_op_i64s(flow->op, "permutation", TSR_RANK_MAX, permutation, &count);
    TSR_ASSERT(read && count == dims.rank);
    for (result.rank = 0; result.rank < dims.rank; result.rank++)
        result.dims[result.rank] = dims.dims[permutation[result.rank]];
    return set_result(flow, 0, &result);
}

/* The innermost factors of a dim, from its outermost digit on: they must be moved as one block. */
static tsr_row_layout block_of(const tsr_row_layout *dim) {
    tsr_row_layout block = {0};
    for (uint32_t i = 0; i < dim->count; i++)
        if (block.count || dim->factors[i].label == TSR_ROW_DIGIT)
            block.factors[block.count++] = dim->factors[i];
    return block;
}

static uint64_t size_of(const tsr_row_layout *layout) {
    uint64_t size = 1;
    for (uint32_t i = 0; i < layout->count; i++) size *= layout->factors[i].size;
    return size;
}

/* A dim of `size` elements that is a sequence of blocks. */
static tsr_row_layout repeat(const tsr_row_layout *block, uint64_t size) {
    tsr_row_layout dim = tsr_row_layout_of(size / size_of(block), TSR_ROW_VARIES);
    bool fits = tsr_row_append(&dim, block);
    TSR_ASSERT(fits);
    return dim;
}

static bool is_same(const tsr_row_layout *dim) {
    return dim->count == 0 || (dim->count == 1 && dim->factors[0].label == TSR_ROW_SAME);
}

/* `size` elements of a dim of the operand from `start` on. */
static bool cut_dim(tsr_row_flow *flow, uint32_t dim, uint64_t start, uint64_t size,
                    uint64_t stride, tsr_row_layout *io_dim) {
    tsr_row_layout block = block_of(io_dim);
    uint64_t step = size_of(&block);
    if (start == 0 && size == flow->types[0].shape.dims[dim]) return true;
    if (block.count == 0)
        *io_dim = tsr_row_layout_of(size, is_same(io_dim) ? TSR_ROW_SAME : TSR_ROW_VARIES);
    else if (stride == 1 && size > 0 && start % step == 0 && size % step == 0)
        *io_dim = repeat(&block, size);
    else
        return refuse_dim(flow, 0, "takes some elements of", dim);
    return true;
}

bool tsr_rows_slice(tsr_row_flow *flow) {
    const tsr_shape *shape = &flow->types[0].shape;
    int64_t start[TSR_RANK_MAX], size[TSR_RANK_MAX], stride[TSR_RANK_MAX];
    size_t count = 0, strides = 0;
    tsr_row_dims dims;
    if (!view(flow, 0, &dims)) return false;
    bool read = tsr_op_i64s(flow->op, "start", TSR_RANK_MAX, start, &count) &&
                tsr_op_i64s(flow->op, "size", TSR_RANK_MAX, size, &count);
    TSR_ASSERT(read && count == shape->rank);
    bool given = tsr_op_i64s(flow->op, "stride", TSR_RANK_MAX, stride, &strides);
    for (uint32_t i = 0; i < dims.rank; i++)
        if (!cut_dim(flow, i, (uint64_t)start[i], (uint64_t)size[i],
                     given ? (uint64_t)stride[i] : 1, &dims.dims[i]))
            return false;
    return set_result(flow, 0, &dims);
}

bool tsr_rows_split(tsr_row_flow *flow) {
    uint32_t axis = read_axis(flow);
    uint64_t start = 0;
    for (size_t r = 0; r < flow->result_count; r++) {
        uint64_t size = flow->result_types[r].shape.dims[axis];
        tsr_row_dims dims;
        if (!view(flow, 0, &dims)) return false;
        if (!cut_dim(flow, axis, start, size, 1, &dims.dims[axis])) return false;
        if (!set_result(flow, r, &dims)) return false;
        start += size;
    }
    return true;
}

bool tsr_rows_pad(tsr_row_flow *flow) {
    const tsr_shape *to = &flow->result_types[0].shape;
    int64_t low[TSR_RANK_MAX], high[TSR_RANK_MAX], interior[TSR_RANK_MAX];
    size_t count = 0, interiors = 0;
    tsr_row_dims dims;
    if (!view(flow, 0, &dims)) return false;
    bool read = tsr_op_i64s(flow->op, "low", TSR_RANK_MAX, low, &count) &&
                tsr_op_i64s(flow->op, "high", TSR_RANK_MAX, high, &count);
    TSR_ASSERT(read && count == dims.rank);
    bool given = tsr_op_i64s(flow->op, "interior", TSR_RANK_MAX, interior, &interiors);
    for (uint32_t i = 0; i < dims.rank; i++) {
        tsr_row_layout block = block_of(&dims.dims[i]);
        uint64_t step = size_of(&block);
        bool apart = given && interior[i] > 0;
        if (!low[i] && !high[i] && !apart) continue;
        if (block.count == 0)
            dims.dims[i] = tsr_row_layout_of(to->dims[i], TSR_ROW_VARIES);
        else if (!apart && (uint64_t)low[i] % step == 0 && (uint64_t)high[i] % step == 0)
            dims.dims[i] = repeat(&block, to->dims[i]);
        else
            return refuse_dim(flow, 0, "pads", i);
    }
    return set_result(flow, 0, &dims);
}

/* Finds the block that all operands consist of along the axis; empty if no rows are along it. */
static bool find_block(tsr_row_flow *flow, uint32_t axis, tsr_row_layout *out_block) {
    *out_block = (tsr_row_layout){0};
    for (size_t k = 0; k < flow->operand_count && out_block->count == 0; k++) {
        tsr_row_dims dims;
        if (!view(flow, k, &dims)) return false;
        *out_block = block_of(&dims.dims[axis]);
    }
    return true;
}

/* Joins the operand's dim along the axis; `block` is the common block of all operands. */
static bool join_block(tsr_row_flow *flow, size_t operand, uint32_t axis,
                       const tsr_row_layout *block, tsr_row_layout *io_dim) {
    uint64_t size = flow->types[operand].shape.dims[axis];
    tsr_row_layout own = block_of(io_dim);
    if (size % size_of(block))
        return refuse_dim(flow, operand, "puts other elements after those of", axis);
    if (own.count ? !tsr_row_layout_equal(&own, block) : !is_same(io_dim))
        return tsr_row_mix_joined(flow, operand, own.count ? TSR_ROW_PAIRED : TSR_ROW_NUMBERED);
    return true;
}

bool tsr_rows_concat(tsr_row_flow *flow) {
    const tsr_shape *to = &flow->result_types[0].shape;
    uint32_t axis = read_axis(flow);
    tsr_row_dims result = dims_of(to, TSR_ROW_SAME);
    tsr_row_layout block, none = {0};
    if (!find_block(flow, axis, &block)) return false;
    result.dims[axis] = none;
    for (size_t k = 0; k < flow->operand_count; k++) {
        tsr_row_dims dims;
        if (flow->types[k].shape.dims[axis] == 0) continue;
        if (!view(flow, k, &dims)) return false;
        if (block.count && !join_block(flow, k, axis, &block, &dims.dims[axis])) return false;
        dims.dims[axis] = none;
        if (!join_into(flow, k, &dims, &result)) return false;
    }
    result.dims[axis] = block.count ? repeat(&block, to->dims[axis])
                                    : tsr_row_layout_of(to->dims[axis], TSR_ROW_VARIES);
    return set_result(flow, 0, &result);
}

/* ---- indices --------------------------------------------------------------------------------- */

bool tsr_rows_gather(tsr_row_flow *flow) {
    const tsr_shape *to = &flow->result_types[0].shape;
    uint32_t axis = read_axis(flow);
    tsr_row_dims from, indices, whole = dims_of(to, TSR_ROW_SAME), chosen = whole;
    if (!view(flow, 0, &from) || !view(flow, 1, &indices)) return false;
    if (!check_no_rows(flow, 0, &from, "picks elements of", axis)) return false;
    for (uint32_t i = 0; i < from.rank; i++)
        if (i != axis) whole.dims[i < axis ? i : i - 1 + indices.rank] = from.dims[i];
    for (uint32_t i = 0; i < indices.rank; i++) chosen.dims[axis + i] = indices.dims[i];
    return join_into(flow, 1, &chosen, &whole) && set_result(flow, 0, &whole);
}

/* scatter_add and scatter */
bool tsr_rows_scatter_add(tsr_row_flow *flow) {
    uint32_t axis = read_axis(flow);
    tsr_row_dims result, indices, updates, added;
    if (!view(flow, 0, &result) || !view(flow, 1, &indices) || !view(flow, 2, &updates))
        return false;
    bool adds = tsr_op_is(flow->op, TSR_GRAPH_SCATTER_ADD);
    const char *into = adds ? "adds to elements of" : "changes elements of";
    const char *by = adds ? "sums the elements that indices select along"
                          : "changes the elements that indices select along";
    if (!check_no_rows(flow, 0, &result, into, axis)) return false;
    added = dims_of(&flow->types[0].shape, TSR_ROW_VARIES);
    for (uint32_t i = 0; i < indices.rank; i++)
        if (!check_no_rows(flow, 1, &indices, by, i) ||
            !check_no_rows(flow, 2, &updates, adds ? "adds up" : "combines", axis + i))
            return false;
    for (uint32_t i = 0; i < result.rank; i++)
        if (i != axis) added.dims[i] = updates.dims[i < axis ? i : i - 1 + indices.rank];
    return join_into(flow, 2, &added, &result) && set_result(flow, 0, &result);
}

bool tsr_rows_one_hot(tsr_row_flow *flow) {
    uint32_t axis = read_axis(flow);
    tsr_row_dims dims, result = dims_of(&flow->result_types[0].shape, TSR_ROW_VARIES);
    if (!view(flow, 0, &dims)) return false;
    for (uint32_t i = 0; i < dims.rank; i++) result.dims[i < axis ? i : i + 1] = dims.dims[i];
    return set_result(flow, 0, &result);
}

/* ---- norms by channel ------------------------------------------------------------------------ */

/* Operands `first` and on are [C], C the dim `axis` of the result. */
static bool join_channels(tsr_row_flow *flow, size_t first, uint32_t axis, tsr_row_dims *result) {
    for (size_t k = first; k < flow->operand_count; k++) {
        tsr_row_dims own, dims = dims_of(&flow->types[0].shape, TSR_ROW_SAME);
        if (!view(flow, k, &own)) return false;
        dims.dims[axis] = own.dims[0];
        if (!join_into(flow, k, &dims, result)) return false;
    }
    return true;
}

bool tsr_rows_channels(tsr_row_flow *flow) {
    tsr_row_dims dims;
    return view(flow, 0, &dims) && join_channels(flow, 1, read_axis(flow), &dims) &&
           set_result(flow, 0, &dims);
}

bool tsr_rows_batch_norm_train(tsr_row_flow *flow) {
    uint32_t axis = read_axis(flow);
    tsr_row_dims dims, channels = {.rank = 1};
    if (!view(flow, 0, &dims)) return false;
    for (uint32_t i = 0; i < dims.rank; i++)
        if (i != axis && !check_no_rows(flow, 0, &dims, "takes mean and variance over", i))
            return false;
    if (!join_channels(flow, 1, axis, &dims)) return false;
    channels.dims[0] = dims.dims[axis];
    return set_result(flow, 0, &dims) && set_result(flow, 1, &channels) &&
           set_result(flow, 2, &channels);
}

bool tsr_rows_rotary(tsr_row_flow *flow) {
    uint32_t axis = read_axis(flow), last = flow->types[0].shape.rank - 1;
    tsr_row_dims dims;
    if (!view(flow, 0, &dims)) return false;
    if (!check_no_rows(flow, 0, &dims, "rotates by the position along", axis)) return false;
    if (!check_no_rows(flow, 0, &dims, "combines pairs of", last)) return false;
    dims.dims[axis] = tsr_row_vary(&dims.dims[axis]);
    dims.dims[last] = tsr_row_vary(&dims.dims[last]);
    return set_result(flow, 0, &dims);
}

/* ---- attention ------------------------------------------------------------------------------- */

enum { BATCH, HEAD, POSITION, DEPTH };

/* Keys and values [B, G, T, D]: query head h reads head h / (H / G). */
static bool join_keys(tsr_row_flow *flow, size_t operand, uint64_t heads, tsr_row_dims *result) {
    tsr_row_dims dims, seen = *result;
    uint64_t own = flow->types[operand].shape.dims[HEAD];
    if (!view(flow, operand, &dims)) return false;
    if (!check_no_rows(flow, operand, &dims, "sums over", POSITION)) return false;
    if (operand == 1 && !check_no_rows(flow, operand, &dims, "sums over", DEPTH)) return false;
    tsr_row_layout repeated = tsr_row_layout_of(own ? heads / own : 1, TSR_ROW_SAME);
    seen.dims[BATCH] = dims.dims[BATCH];
    seen.dims[HEAD] = dims.dims[HEAD];
    if (!tsr_row_append(&seen.dims[HEAD], &repeated))
        return refuse_dim(flow, operand, "shares heads along", HEAD);
    seen.dims[POSITION] = tsr_row_layout_of(flow->types[0].shape.dims[POSITION], TSR_ROW_SAME);
    seen.dims[DEPTH] = operand == 2
                           ? dims.dims[DEPTH]
                           : tsr_row_layout_of(flow->types[2].shape.dims[DEPTH], TSR_ROW_SAME);
    return join_into(flow, operand, &seen, result);
}

/* The mask is broadcast to [B, H, S, T]. */
static bool join_mask(tsr_row_flow *flow, tsr_row_dims *result) {
    const tsr_shape *shape = &flow->types[3].shape;
    tsr_shape to = flow->types[0].shape;
    tsr_row_dims dims;
    to.dims[DEPTH] = flow->types[1].shape.dims[POSITION];
    if (!view(flow, 3, &dims)) return false;
    dims = stretch(&dims, shape, shape->rank, &to, to.rank);
    if (!check_no_rows(flow, 3, &dims, "sums over", DEPTH)) return false;
    dims.dims[DEPTH] = tsr_row_layout_of(flow->types[2].shape.dims[DEPTH], TSR_ROW_SAME);
    return join_into(flow, 3, &dims, result);
}

bool tsr_rows_attention(tsr_row_flow *flow) {
    tsr_row_dims dims;
    uint64_t heads = flow->types[0].shape.dims[HEAD];
    if (flow->operand_count > 4)
        return tsr_rows_opaque(flow); /* it has dropout: only in train entries */
    if (!view(flow, 0, &dims)) return false;
    if (!check_no_rows(flow, 0, &dims, "sums over", DEPTH)) return false;
    if (tsr_op_flag(flow->op, "causal")) {
        if (!check_no_rows(flow, 0, &dims, "masks by the position along", POSITION)) return false;
        dims.dims[POSITION] = tsr_row_vary(&dims.dims[POSITION]);
    }
    dims.dims[DEPTH] = tsr_row_layout_of(flow->types[2].shape.dims[DEPTH], TSR_ROW_SAME);
    if (!join_keys(flow, 1, heads, &dims) || !join_keys(flow, 2, heads, &dims)) return false;
    if (flow->operand_count > 3 && !join_mask(flow, &dims)) return false;
    if (!set_result(flow, 0, &dims)) return false;
    dims.rank = DEPTH;
    return flow->result_count == 1 || set_result(flow, 1, &dims);
}

/* Only the batch may contain rows: one of the gradients sums over each other dim. */
bool tsr_rows_attention_grad(tsr_row_flow *flow) {
    tsr_row_dims batch = {.rank = 1};
    uint64_t size = flow->types[0].shape.dims[BATCH];
    batch.dims[0] = tsr_row_layout_of(size, TSR_ROW_SAME);
    for (size_t k = 0; k < flow->operand_count; k++) {
        const tsr_shape *shape = &flow->types[k].shape;
        bool has_batch =
            shape->rank >= 3 && shape->dims[BATCH] == size && (k < 6 || shape->rank == 4);
        tsr_row_dims dims;
        if (!view(flow, k, &dims)) return false;
        for (uint32_t i = has_batch; i < dims.rank; i++)
            if (!check_no_rows(flow, k, &dims, "sums over", i)) return false;
        if (has_batch && !join_into(flow, k, &dims, &batch)) return false;
    }
    for (size_t r = 0; r < flow->result_count; r++) {
        tsr_row_dims result = dims_of(&flow->result_types[r].shape, TSR_ROW_VARIES);
        result.dims[BATCH] = batch.dims[0];
        if (!set_result(flow, r, &result)) return false;
    }
    return true;
}

/* ---- images ---------------------------------------------------------------------------------- */

enum { IMAGE_H = 1, IMAGE_W, IMAGE_C };

bool tsr_rows_conv2d(tsr_row_flow *flow) {
    tsr_row_dims image, filter, result = dims_of(&flow->result_types[0].shape, TSR_ROW_VARIES);
    tsr_row_dims channels = dims_of(&flow->result_types[0].shape, TSR_ROW_SAME);
    int64_t groups = 1;
    if (!view(flow, 0, &image) || !view(flow, 1, &filter)) return false;
    for (uint32_t i = IMAGE_H; i <= IMAGE_C; i++)
        if (!check_no_rows(flow, 0, &image, "sums over windows of", i) ||
            !check_no_rows(flow, 1, &filter, "sums over", i - 1))
            return false;
    tsr_op_i64(flow->op, "groups", &groups);
    result.dims[0] = image.dims[0];
    channels.dims[IMAGE_C] = filter.dims[IMAGE_C];
    if (groups == 1)
        result.dims[IMAGE_C] =
            tsr_row_layout_of(flow->result_types[0].shape.dims[IMAGE_C], TSR_ROW_SAME);
    return join_into(flow, 1, &channels, &result) && set_result(flow, 0, &result);
}

/* A filter, and the gradient of the result. */
bool tsr_rows_conv2d_grad_input(tsr_row_flow *flow) {
    tsr_row_dims filter, dims, result = dims_of(&flow->result_types[0].shape, TSR_ROW_VARIES);
    if (!view(flow, 0, &filter) || !view(flow, 1, &dims)) return false;
    for (uint32_t i = 0; i < filter.rank; i++)
        if (!check_no_rows(flow, 0, &filter, "sums over", i)) return false;
    for (uint32_t i = IMAGE_H; i <= IMAGE_C; i++)
        if (!check_no_rows(flow, 1, &dims, "sums over", i)) return false;
    result.dims[0] = dims.dims[0];
    return set_result(flow, 0, &result);
}

bool tsr_rows_conv2d_grad_filter(tsr_row_flow *flow) {
    for (size_t k = 0; k < flow->operand_count; k++) {
        tsr_row_dims dims;
        if (!view(flow, k, &dims)) return false;
        for (uint32_t i = 0; i < dims.rank; i++)
            if (!check_no_rows(flow, k, &dims, "sums over", i)) return false;
    }
    tsr_row_dims result = dims_of(&flow->result_types[0].shape, TSR_ROW_VARIES);
    return set_result(flow, 0, &result);
}

/* Images and gradients of images: windows go over H and W. */
bool tsr_rows_pool(tsr_row_flow *flow) {
    tsr_row_dims result = dims_of(&flow->result_types[0].shape, TSR_ROW_VARIES);
    result.dims[0] = tsr_row_layout_of(flow->result_types[0].shape.dims[0], TSR_ROW_SAME);
    result.dims[IMAGE_C] =
        tsr_row_layout_of(flow->result_types[0].shape.dims[IMAGE_C], TSR_ROW_SAME);
    for (size_t k = 0; k < flow->operand_count; k++) {
        tsr_row_dims dims;
        if (!view(flow, k, &dims)) return false;
        for (uint32_t i = IMAGE_H; i <= IMAGE_W; i++) {
            if (!check_no_rows(flow, k, &dims, "has windows over", i)) return false;
            dims.dims[i] = tsr_row_layout_of(flow->result_types[0].shape.dims[i], TSR_ROW_VARIES);
        }
        if (!join_into(flow, k, &dims, &result)) return false;
    }
    return set_result(flow, 0, &result);
}

/* ---- values without operands, and all else --------------------------------------------------- */

bool tsr_rows_constant(tsr_row_flow *flow) {
    bool same = !mlirAttributeIsNull(tsr_attr_splat_element(tsr_op_attr(flow->op, "value")));
    tsr_row_dims dims = dims_of(&flow->result_types[0].shape, same ? TSR_ROW_SAME : TSR_ROW_VARIES);
    return set_result(flow, 0, &dims);
}

bool tsr_rows_iota(tsr_row_flow *flow) {
    uint32_t axis = read_axis(flow);
    const tsr_shape *shape = &flow->result_types[0].shape;
    tsr_row_dims dims = dims_of(shape, TSR_ROW_SAME);
    dims.dims[axis] = tsr_row_layout_of(shape->dims[axis], TSR_ROW_VARIES);
    return set_result(flow, 0, &dims);
}

/* Parameters, state, the step: values that depend on no row, but may differ from element to
 * element. */
bool tsr_rows_varies(tsr_row_flow *flow) {
    for (size_t r = 0; r < flow->result_count; r++) {
        tsr_row_dims dims = dims_of(&flow->result_types[r].shape, TSR_ROW_VARIES);
        if (!set_result(flow, r, &dims)) return false;
    }
    return true;
}

bool tsr_rows_random(tsr_row_flow *flow) {
    if (tsr_row_get_scope(flow->walk)->by_row)
        return tsr_row_mix(flow, 0,
                           "draws other numbers in each iteration, and iterates over the rows");
    return tsr_rows_varies(flow);
}

/* Ops of compiler/resilience: some return their operands, some are other spellings of our ops. */
bool tsr_rows_of_other(tsr_row_flow *flow) {
    tsr_op id = tsr_sr_op_plain(flow->op);
    if (id == TSR_SR_TILE_GEMM) return tsr_rows_matmul(flow);
    if (id == TSR_SR_TILE_RELU) return tsr_rows_aligned(flow);
    if (id != TSR_SR_OPTIMIZER_SHARD && id != TSR_SR_BARRIER) return tsr_rows_opaque(flow);
    for (size_t r = 0; r < flow->result_count; r++) flow->results[r] = flow->operands[r].layout;
    return true;
}

bool tsr_rows_nothing(tsr_row_flow *flow) {
    TSR_ASSERT(flow->result_count == 0);
    return true;
}

bool tsr_rows_opaque(tsr_row_flow *flow) {
    for (size_t k = 0; k < flow->operand_count; k++)
        if (flow->operands[k].kind == TSR_ROWS_APART)
            return tsr_row_mix(flow, k, "reads rows in a way that is not followed");
    return tsr_rows_varies(flow);
}

/* ---- sums over all rows ---------------------------------------------------------------------- */

bool tsr_row_sums_all(const tsr_row_flow *flow) {
    tsr_op id = tsr_op_of(flow->op);
    int64_t axes[TSR_RANK_MAX];
    size_t count = read_axes(flow, axes), next = 0;
    tsr_row_dims dims;
    if (id != TSR_GRAPH_SUM && id != TSR_GRAPH_MEAN) return false;
    if (!tsr_row_split(&flow->operands[0].layout, &flow->types[0].shape, &dims)) return false;
    for (uint32_t i = 0; i < dims.rank; i++)
        if (next < count && axes[next] == (int64_t)i)
            next++;
        else if (tsr_row_has_digit(&dims.dims[i]))
            return false;
    return true;
}

bool tsr_row_preserves_sum(const tsr_row_flow *flow) {
    size_t sums = 0;
    for (size_t k = 0; k < flow->operand_count; k++) {
        bool is_sum = flow->operands[k].kind == TSR_ROWS_MIXED && flow->operands[k].is_sum;
        if (!is_sum && flow->operands[k].kind != TSR_ROWS_FREE) return false;
        sums += is_sum;
    }
    switch (tsr_op_of(flow->op)) {
    case TSR_GRAPH_NEG:
    case TSR_GRAPH_RESHAPE:
    case TSR_GRAPH_TRANSPOSE:
    case TSR_GRAPH_BROADCAST:
    case TSR_GRAPH_SUM:
    case TSR_GRAPH_MEAN:
    case TSR_GRAPH_ADD:
    case TSR_GRAPH_SUB:
        return true;
    case TSR_GRAPH_CAST:
        return tsr_dtype_is_float(flow->result_types[0].dtype);
    case TSR_GRAPH_MUL:
        return sums == 1;
    case TSR_GRAPH_DIV:
        return sums == 1 && flow->operands[0].kind == TSR_ROWS_MIXED;
    default:
        return false;
    }
}
