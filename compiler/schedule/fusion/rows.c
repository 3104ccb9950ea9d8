/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/schedule/fusion/rows.h"

#include "compiler/ir/op_rows.h"
#include "compiler/schedule/schedule.h"

#include <string.h>

typedef struct form {
    const tsr_rows_set *set;
    tsr_shape full, parallel;
    uint32_t trailing;
    bool found;
    uint32_t sum_count; /* dims that sums over rows reduce; 0: no such sums */
    /* Columns: the first reduced dim and their number; other dims follow them. */
    uint32_t middle_begin, middle;
    tsr_shape ones; /* FULL with size 1 for these */
    uint32_t axes;  /* set for repairs only: a bit for each axis */
} form;

/* True if a reshape from one shape to the other only adds or drops last dims of size 1. */
static bool preserves_rows(const tsr_shape *from, const tsr_shape *to) {
    const tsr_shape *shorter = from->rank < to->rank ? from : to;
    const tsr_shape *longer = from->rank < to->rank ? to : from;
    if (from->rank == to->rank) return false;
    for (uint32_t d = 0; d < longer->rank; d++)
        if (longer->dims[d] != (d < shorter->rank ? shorter->dims[d] : 1)) return false;
    return true;
}

/* True if a reshape from one shape to the other only adds or drops dims of size 1. */
static bool preserves_others(const tsr_shape *from, const tsr_shape *to) {
    uint32_t i = 0, j = 0;
    if (from->rank == to->rank) return false;
    for (;;) {
        while (i < from->rank && from->dims[i] == 1) i++;
        while (j < to->rank && to->dims[j] == 1) j++;
        if (i == from->rank || j == to->rank) return i == from->rank && j == to->rank;
        if (from->dims[i++] != to->dims[j++]) return false;
    }
}

static bool is_member(const tsr_rows_set *set, uint32_t node) {
    uint32_t low = 0, high = set->member_count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (set->members[middle] == node) return true;
        if (set->members[middle] < node)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

static bool is_full(const form *f, const tsr_shape *shape) { return shape->rank == f->full.rank; }

/* True if all reductions have one shape and reduce the same last dims. */
static bool find_form(form *f) {
    const tsr_rows_set *set = f->set;
    for (uint32_t i = 0; i < set->member_count; i++) {
        const tsr_fuse_node *node = &set->nodes[set->members[i]];
        if (node->kind != TSR_FUSE_REDUCE) continue;
        const tsr_shape *shape = &set->nodes[node->operands[0]].shape;
        if (!node->trailing && node->sums_rows) continue;
        if (!node->trailing) return false;
        if (f->found && (node->trailing != f->trailing || !tsr_shape_equal(shape, &f->full)))
            return false;
        f->found = true;
        f->full = *shape;
        f->trailing = node->trailing;
        f->parallel = node->shape;
    }
    return f->found;
}

/* True if the shape has the reduced dims whole or all of size 1: a row then reads one run of
 * elements, or one element. */
static bool is_even(const form *f, const tsr_shape *shape) {
    bool whole = true, one = true;
    for (uint32_t i = 0; i < f->trailing; i++) {
        uint64_t dim = i < shape->rank ? shape->dims[shape->rank - 1 - i] : 1;
        whole &= dim == f->full.dims[f->full.rank - 1 - i];
        one &= dim == 1;
    }
    return whole || one;
}

static bool is_parallel_with_ones(const form *f, const tsr_shape *shape) {
    return is_full(f, shape) && preserves_rows(&f->parallel, shape);
}

static bool check_map(const form *f, const tsr_fuse_node *node) {
    bool full = is_full(f, &node->shape);
    if (!full && node->shape.rank != f->parallel.rank) return false;
    if (!tsr_shape_stretches(&node->shape, full ? &f->full : &f->parallel)) return false;
    if (full && !is_even(f, &node->shape)) return false;
    if (!node->operand_count && f->trailing > 1) return false; /* indices do not flatten */
    for (uint32_t k = 0; k < node->operand_count; k++) {
        const tsr_shape *operand = &f->set->nodes[node->operands[k]].shape;
        if (full && !is_even(f, operand)) return false;
        /* A value of a row would be read as one of the last dim. */
        bool of_row = is_member(f->set, node->operands[k]) && !is_full(f, operand);
        if (full && of_row && f->parallel.rank) return false;
    }
    return true;
}

static bool is_sum_over_rows(const tsr_fuse_node *node) {
    return node->kind == TSR_FUSE_REDUCE && !node->trailing;
}

static bool check_sum(form *f, const tsr_fuse_node *node) {
    if (f->sum_count && f->sum_count != node->middle) return false;
    f->sum_count = node->middle;
    const tsr_shape *from = &f->set->nodes[node->operands[0]].shape;
    return tsr_shape_equal(from, &f->full) &&
           node->middle_begin + node->middle == f->parallel.rank &&
           f->set->input_count <= TSR_ROWS_INPUTS_MAX &&
           f->set->output_count <= TSR_ROWS_OUTPUTS_MAX;
}

/* True for a repair of rows of FULL. */
static bool are_rows(const form *f, const tsr_fuse_node *node) {
    for (uint32_t k = 0; k < 1U + node->pairs; k++)
        if (!tsr_shape_equal(&f->set->nodes[node->operands[k]].shape, &f->full)) return false;
    return true;
}

static bool check_member(form *f, const tsr_fuse_node *node) {
    for (uint32_t k = 0; k < node->operand_count; k++)
        if (is_member(f->set, node->operands[k]) &&
            is_sum_over_rows(&f->set->nodes[node->operands[k]]))
            return false;
    if (is_sum_over_rows(node)) return check_sum(f, node);
    switch (node->kind) {
    case TSR_FUSE_REDUCE:
        return !is_member(f->set, node->operands[0]) ||
               is_full(f, &f->set->nodes[node->operands[0]].shape);
    case TSR_FUSE_RESHAPE: {
        const tsr_shape *from = &f->set->nodes[node->operands[0]].shape;
        return (tsr_shape_equal(from, &f->parallel) && is_parallel_with_ones(f, &node->shape)) ||
               (tsr_shape_equal(&node->shape, &f->parallel) && is_parallel_with_ones(f, from));
    }
    case TSR_FUSE_REPAIR:
        return are_rows(f, node) && (node->lone ? tsr_shape_equal(&node->shape, &f->parallel)
                                                : is_parallel_with_ones(f, &node->shape));
    case TSR_FUSE_MAP:
        return check_map(f, node);
    default:
        return false;
    }
}

static bool check_outputs(const form *f) {
    for (uint32_t i = 0; i < f->set->output_count; i++) {
        const tsr_shape *shape = &f->set->nodes[f->set->outputs[i]].shape;
        if (is_sum_over_rows(&f->set->nodes[f->set->outputs[i]])) continue;
        if (!tsr_shape_equal(shape, &f->full) && !tsr_shape_equal(shape, &f->parallel) &&
            !is_parallel_with_ones(f, shape))
            return false;
    }
    return true;
}

/* Bytes of one column, all arguments together. */
static uint64_t column_bytes(const form *f) {
    const tsr_rows_set *set = f->set;
    uint64_t width = 0;
    for (uint32_t i = 0; i < set->input_count + set->output_count; i++) {
        uint32_t node = i < set->input_count ? set->inputs[i] : set->outputs[i - set->input_count];
        if (tsr_shape_equal(&set->nodes[node].shape, &f->full))
            width += tsr_dtype_size(set->nodes[node].dtype);
    }
    return width;
}

static uint64_t saturating(uint64_t a, uint64_t b) {
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

/* True if a row is short enough to stay in a cache. */
static bool fits_cache(const form *f, uint64_t rows) {
    uint64_t bytes = column_bytes(f);
    for (uint32_t i = 0; i < f->trailing; i++)
        bytes = saturating(bytes, f->full.dims[f->full.rank - 1 - i]);
    return bytes <= (rows < TSR_ROWS_LONG_MIN ? TSR_ROWS_BYTES_MAX : TSR_ROWS_LONG_BYTES_MAX);
}

static bool check_rows(form *f) {
    const tsr_rows_set *set = f->set;
    uint64_t rows = 0;
    for (uint32_t i = 0; i < set->member_count; i++)
        if (!check_member(f, &set->nodes[set->members[i]])) return false;
    return check_outputs(f) && tsr_shape_count(&f->parallel, &rows) && fits_cache(f, rows);
}

/* ---- columns --------------------------------------------------------------------------------- */

/* True if all reductions have one shape and reduce the same dims, which others follow. */
static bool find_columns(form *f) {
    const tsr_rows_set *set = f->set;
    *f = (form){.set = set};
    for (uint32_t i = 0; i < set->member_count; i++) {
        const tsr_fuse_node *node = &set->nodes[set->members[i]];
        if (node->kind != TSR_FUSE_REDUCE) continue;
        const tsr_shape *shape = &set->nodes[node->operands[0]].shape;
        if (!node->middle ||
            (f->found && (node->middle != f->middle || node->middle_begin != f->middle_begin ||
                          !tsr_shape_equal(shape, &f->full))))
            return false;
        f->found = true;
        f->full = f->ones = *shape;
        f->middle = node->middle;
        f->middle_begin = node->middle_begin;
        f->parallel = node->shape;
    }
    for (uint32_t d = 0; d < f->middle; d++) f->ones.dims[f->middle_begin + d] = 1;
    return f->found;
}

/* Sets *out_reads if the node is over FULL and reads results of a reduction. */
static bool check_column_map(const form *f, const tsr_fuse_node *node, bool *out_reads) {
    bool full = is_full(f, &node->shape);
    if (!full && node->shape.rank != f->parallel.rank) return false;
    if (!tsr_shape_stretches(&node->shape, full ? &f->full : &f->parallel)) return false;
    for (uint32_t k = 0; k < node->operand_count; k++) {
        const tsr_fuse_node *operand = &f->set->nodes[node->operands[k]];
        if (!full || !is_member(f->set, node->operands[k])) continue;
        bool of_parallel = !is_full(f, &operand->shape);
        /* KEPT is read as the last dims of FULL. */
        if (of_parallel && f->middle_begin > 0) return false;
        *out_reads |=
            of_parallel || operand->kind == TSR_FUSE_RESHAPE || operand->kind == TSR_FUSE_REPAIR;
    }
    return true;
}

static bool check_column_member(const form *f, const tsr_fuse_node *node, bool *out_reads) {
    const tsr_fuse_node *operand = node->operand_count ? &f->set->nodes[node->operands[0]] : NULL;
    switch (node->kind) {
    case TSR_FUSE_REDUCE:
        return true;
    case TSR_FUSE_RESHAPE:
        return (tsr_shape_equal(&operand->shape, &f->parallel) &&
                tsr_shape_equal(&node->shape, &f->ones)) ||
               (tsr_shape_equal(&operand->shape, &f->ones) &&
                tsr_shape_equal(&node->shape, &f->parallel));
    case TSR_FUSE_REPAIR:
        return are_rows(f, node) &&
               tsr_shape_equal(&node->shape, node->lone ? &f->parallel : &f->ones);
    case TSR_FUSE_MAP:
        return check_column_map(f, node, out_reads);
    default:
        return false;
    }
}

/* Rows whose distance is a multiple of a power of two compete for the same sets of a cache. Returns
 * the largest power of two, up to WAY_BYTES, that divides the distance in bytes. */
static uint64_t shared_bytes(const form *f, uint64_t inner) {
    enum { WAY_BYTES = 64 * 1024 };
    uint64_t shared = WAY_BYTES, size = 1;
    for (uint32_t i = 0; i < f->set->member_count; i++) {
        const tsr_fuse_node *node = &f->set->nodes[f->set->members[i]];
        if (node->kind == TSR_FUSE_REDUCE)
            size = tsr_dtype_size(f->set->nodes[node->operands[0]].dtype);
    }
    while (inner * size % shared) shared /= 2;
    return shared;
}

/* A program handles adjacent columns that together fill a cache line. True if these fit in a
 * cache, they fill whole lines, and there are enough columns for all threads. */
static bool fits_columns(const form *f) {
    enum { SIDE_BY_SIDE = 16, SHARED_BYTES_MAX = 8 << 20 };
    uint64_t inner = 1, rows = 1, parallel = 0, width = column_bytes(f), all;
    for (uint32_t d = f->middle_begin; d < f->full.rank; d++) {
        uint64_t *product = d < f->middle_begin + f->middle ? &rows : &inner;
        *product = saturating(*product, f->full.dims[d]);
    }
    if (!tsr_shape_count(&f->parallel, &parallel)) return false;
    all = saturating(saturating(parallel, rows), width);
    return inner >= SIDE_BY_SIDE && saturating(rows, width * SIDE_BY_SIDE) <= TSR_ROWS_BYTES_MAX &&
           saturating(rows, shared_bytes(f, inner)) <= SHARED_BYTES_MAX &&
           (parallel / SIDE_BY_SIDE >= TSR_ROWS_LONG_MIN || all <= TSR_ROWS_BYTES_MAX);
}

/* Reductions without other ops are faster as separate kernels; a reshape leads to a reader. */
static bool check_columns(const form *f, bool *out_idle) {
    const tsr_rows_set *set = f->set;
    bool reads = false, reshapes = false;
    for (uint32_t i = 0; i < set->member_count; i++) {
        if (!check_column_member(f, &set->nodes[set->members[i]], &reads)) return false;
        reshapes |= set->nodes[set->members[i]].kind == TSR_FUSE_RESHAPE;
    }
    for (uint32_t i = 0; i < set->output_count; i++) {
        const tsr_shape *shape = &set->nodes[set->outputs[i]].shape;
        if (!tsr_shape_equal(shape, &f->full) && !tsr_shape_equal(shape, &f->parallel) &&
            !tsr_shape_equal(shape, &f->ones))
            return false;
    }
    *out_idle = !reads;
    return (reads || reshapes) && fits_columns(f);
}

/* ---- repairs --------------------------------------------------------------------------------- */

/* Repairs of the same rows, and nodes before their elements, which are computed only from
 * recomputed rows. Dims that all have with size 1 may be axes or not. */
static bool check_repairs(form *f) {
    const tsr_rows_set *set = f->set;
    *f = (form){.set = set};
    for (uint32_t i = 0; i < set->member_count; i++) {
        const tsr_fuse_node *node = &set->nodes[set->members[i]];
        if (node->kind == TSR_FUSE_MAP) continue;
        if (node->kind != TSR_FUSE_REPAIR) return false;
        const tsr_shape *full = &set->nodes[node->operands[0]].shape;
        if (f->found && (!tsr_shape_equal(full, &f->full) ||
                         !tsr_shape_equal(&node->shape, &f->parallel) || node->axes != f->axes))
            return false;
        *f = (form){
            .set = set, .found = true, .full = *full, .parallel = node->shape, .axes = node->axes};
    }
    for (uint32_t i = 0; i < set->output_count; i++)
        if (set->nodes[set->outputs[i]].kind != TSR_FUSE_REPAIR) return false;
    for (uint32_t i = 0; i < set->member_count; i++) {
        const tsr_fuse_node *node = &set->nodes[set->members[i]];
        for (uint32_t k = 0; k < node->operand_count; k++) {
            const tsr_fuse_node *operand = &set->nodes[node->operands[k]];
            if (!is_member(set, node->operands[k])) continue;
            if (operand->kind == TSR_FUSE_REPAIR && node->kind != TSR_FUSE_REPAIR) return false;
            if (operand->kind == TSR_FUSE_MAP && node->kind == TSR_FUSE_REPAIR && k > node->pairs)
                return false;
        }
        if (node->kind == TSR_FUSE_MAP && !tsr_shape_equal(&node->shape, &f->full)) return false;
    }
    return f->found;
}

/* True for a mean that is computed without a norm. */
static bool has_mean_alone(const tsr_rows_set *set) {
    bool lone = false, others = false;
    for (uint32_t i = 0; i < set->member_count; i++) {
        const tsr_fuse_node *node = &set->nodes[set->members[i]];
        lone |= node->kind == TSR_FUSE_REPAIR && node->lone;
        others |= node->kind == TSR_FUSE_REPAIR && !node->lone;
    }
    return lone && !others;
}

/* True if a row is so short that its sum is never split among several programs. */
static bool is_short(const form *f) {
    enum { BYTES_MAX = 16 * 1024 };
    uint64_t bytes = column_bytes(f);
    for (uint32_t i = 0; i < f->trailing; i++)
        bytes = saturating(bytes, f->full.dims[f->full.rank - 1 - i]);
    return bytes <= BYTES_MAX;
}

/* ---- all ------------------------------------------------------------------------------------- */

bool tsr_rows_fit(const tsr_rows_set *set, uint64_t *out_operations, bool *out_idle) {
    form f = {.set = set};
    uint64_t elements = 0, rows = 0, operations = 0, work;
    *out_idle = false;
    bool mean = has_mean_alone(set);
    bool computes = (find_form(&f) && check_rows(&f) && (!mean || is_short(&f))) ||
                    (!mean && find_columns(&f) && check_columns(&f, out_idle));
    if (!computes && !check_repairs(&f)) return false;
    if (!tsr_shape_count(&f.full, &elements) || !tsr_shape_count(&f.parallel, &rows)) return false;
    for (uint32_t i = 0; i < set->member_count; i++) {
        const tsr_fuse_node *node = &set->nodes[set->members[i]];
        bool over_full = is_full(&f, &node->shape);
        if (node->kind != TSR_FUSE_MAP || !computes) continue;
        if (__builtin_mul_overflow(node->weight, over_full ? elements : rows, &work) ||
            __builtin_add_overflow(operations, work, &operations))
            operations = UINT64_MAX / 2;
    }
    *out_operations = operations;
    return true;
}

uint32_t tsr_rows_root(const tsr_rows_set *set) {
    uint32_t root = TSR_FUSE_NONE;
    for (uint32_t i = set->member_count; i-- > 0;) {
        const tsr_fuse_node *node = &set->nodes[set->members[i]];
        if (node->kind != TSR_FUSE_REDUCE) continue;
        if (node->trailing || root == TSR_FUSE_NONE || !set->nodes[root].trailing)
            root = set->members[i];
    }
    return root;
}

void tsr_rows_note(MlirOperation op, tsr_fuse_node *node) {
    tsr_type from;
    int64_t axes[TSR_RANK_MAX];
    size_t count = 0;
    bool repairs = tsr_op_is(op, TSR_GRAPH_REPAIR), trailing = true, runs;
    if ((tsr_op_operand_count(op) != 1 && !repairs) ||
        !tsr_value_type(tsr_op_operand(op, 0), &from))
        return;
    if (tsr_op_is(op, TSR_GRAPH_RESHAPE) && preserves_others(&from.shape, &node->shape))
        node->kind = TSR_FUSE_RESHAPE;
    if (repairs) node->kind = TSR_FUSE_REPAIR;
    if ((node->kind != TSR_FUSE_REDUCE && !repairs) || tsr_op_is(op, TSR_GRAPH_ARGMAX) ||
        !tsr_op_i64s(op, "axes", TSR_RANK_MAX, axes, &count))
        return;
    runs = count > 0;
    for (size_t i = 0; i < count; i++) {
        trailing = trailing && axes[i] == (int64_t)(from.shape.rank - count + i);
        runs = runs && axes[i] == axes[0] + (int64_t)i;
    }
    if (repairs) {
        const char *of = tsr_op_string(op, "of");
        for (size_t i = 0; i < count; i++) node->axes |= 1U << axes[i];
        /* Groups of other rows are often just their reductions. */
        node->stays = of && strcmp(of, "offset") == 0 && trailing;
        node->pairs = of && strncmp(of, "incoming", strlen("incoming")) == 0;
        node->lone = of && (strcmp(of, "average") == 0 || strcmp(of, "variance") == 0);
    } else if (trailing) {
        node->trailing = (uint32_t)count;
    } else if (runs && axes[0] + (int64_t)count < from.shape.rank) {
        node->middle_begin = (uint32_t)axes[0];
        node->middle = (uint32_t)count;
        node->sums_rows = tsr_op_is(op, TSR_GRAPH_SUM) && from.dtype == TSR_DTYPE_F32;
    }
}
