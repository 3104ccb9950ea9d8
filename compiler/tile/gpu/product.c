/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel family of products on matrix units: one program computes one tile,
 *
 *     sum = 0, or the row that is added to all rows
 *     for each step of K
 *         begin to copy a part of A and a part of B to the next stage
 *         wait for it; sum += A B; release it
 *     elementwise ops after the product
 *     store
 *
 * If there are few tiles and K is long, several programs run together: each computes one part of K,
 * then they add their sums, and each stores one part of the columns.
 *
 * Programs that run together may instead share their copies: those in a row share copies of A,
 * those in a column share copies of B.
 *
 * A tile may be computed transposed, B^T A^T: then its columns are rows of the matrix units, and
 * its rows their columns, which may be any multiple of 8. The result is transposed back in shared
 * memory when it is stored.
 *
 * Consecutive programs are in bands of rows, so that programs that run at the same time share parts
 * of A and of B in the second-level cache.
 */
#include "compiler/tile/gpu/product.h"

#include "compiler/graph/graph.h"
#include "compiler/shim/shim.h"
#include "compiler/tile/attributes.h"
#include "compiler/tile/gpu/ring.h"
#include "compiler/tile/plan.h"
#include "runtime/base/array.h"

#include <string.h>

enum {
    LANES = 64,
    BAND_ROWS = 2048,
    RESULT_BYTES = 128,
    RESULT_STAGES = 2,
    OUTPUTS_MAX = 4,
    COPY_BYTES = 16, /* the copy engine takes rows that begin at its multiples */
    ROW_ELEMENTS = 8 /* divides the rows of results */
};

typedef struct product {
    tsr_tile_group *group;
    tsr_tile_builder *b;
    tsr_region after;
    tsr_node *given;
    tsr_node *summed, *addend; /* given + addend, which is the same in all rows; or NULL */
    tsr_node *fetched;         /* the view that is loaded through the ring, or NULL */
    MlirValue other;           /* `fetched` as a fragment */
    MlirValue ring;            /* ring of results */
    tsr_dtype through;         /* type of the results that are stored through the ring */
    tsr_space space;           /* [batch,] rows, columns: the index space of the views of `after` */
    tsr_space whole;           /* index space of the result */
    bool at, bt, merged;       /* merged: the batch's matrices are rows of one matrix */
    tsr_dtype dtype;
    MlirValue a, b_buffer; /* two dimensions, or three with a batch */
    tsr_product_shape shape;
    tsr_product_tile tile;
    MlirValue batch_index, row, column; /* indices of the program */
    MlirValue rank;                     /* rank of the program among those that share K or copies */
} product;

/* ---- reading the group ----------------------------------------------------------------------- */

static bool find_operand(const product *p, size_t index, uint32_t *out_number) {
    MlirValue operand = tsr_op_operand(p->group->root, index);
    if (!mlirValueIsABlockArgument(operand)) return false;
    *out_number = (uint32_t)mlirBlockArgumentGetArgNumber(operand);
    const tsr_type *type = &p->group->types[*out_number];
    return type->shape.rank >= 2 && tsr_dtype_is_float(type->dtype);
}

/* True if the batch dimensions equal those of the result. */
static bool has_whole_batch(const product *p, const tsr_shape *shape) {
    if (shape->rank != p->whole.rank) return false;
    for (uint32_t d = 0; d + 2 < shape->rank; d++)
        if ((int64_t)shape->dims[d] != p->whole.dims[d]) return false;
    return true;
}

static bool read_dtype(product *p, tsr_dtype a, tsr_dtype b) {
    p->dtype = a;
    p->shape.element_bytes = (uint32_t)tsr_dtype_size(a);
    if (a != b) return false;
    const tsr_target *target = p->group->b.target;
    if (a != TSR_DTYPE_F32) return a == TSR_DTYPE_BF16 || a == TSR_DTYPE_F16;
    if (target->family == TSR_FAMILY_HIP) return tsr_product_takes_f32(target);
    bool contiguous = !p->at && p->bt; /* see factors.h */
    return tsr_op_has(p->group->root, TSR_TF32_NAME) && (contiguous || target->arch != 90);
}

static bool read_sizes(product *p, const tsr_shape *a, const tsr_shape *b) {
    const uint64_t *a_dims = a->dims + a->rank - 2, *b_dims = b->dims + b->rank - 2;
    p->shape.m = (int64_t)a_dims[p->at];
    p->shape.k = (int64_t)a_dims[!p->at];
    p->shape.n = (int64_t)b_dims[!p->bt];
    if (a_dims[!p->at] != b_dims[p->bt] || !has_whole_batch(p, a)) return false;
    p->shape.batch = 1;
    for (uint32_t d = 0; d + 2 < p->whole.rank; d++) p->shape.batch *= p->whole.dims[d];
    p->merged = b->rank == 2 && !p->at;
    if (b->rank == 2 && !p->merged && p->shape.batch != 1) return false;
    if (b->rank > 2 && !has_whole_batch(p, b)) return false;
    if (p->merged) {
        p->shape.m *= p->shape.batch;
        p->shape.batch = 1;
    }
    return p->shape.m > 0 && p->shape.n > 0 && p->shape.k > 0 && p->shape.batch > 0;
}

/* Elements from row to row of an argument of the group. */
static int64_t pitch_of(const product *p, uint32_t number) {
    const tsr_shape *shape = &p->group->types[number].shape;
    int64_t pitch = p->group->pitches[number];
    return pitch ? pitch : (int64_t)shape->dims[shape->rank - 1];
}

/* Replaces a view's strides by strides over [batch,] rows, columns. Returns false if no strides
 * describe the view. */
static bool narrow_view(const product *p, tsr_view *view) {
    uint32_t rank = p->whole.rank, to = p->space.rank - 2;
    int64_t strides[3] = {0}, column = view->strides[rank - 1], row = view->strides[rank - 2];
    uint32_t first = p->merged ? rank - 2 : rank - 3; /* dims before it must follow from the next */
    for (uint32_t d = 0; d + 2 < rank; d++) {
        if (d >= first) break;
        int64_t follows = view->strides[d + 1] * p->whole.dims[d + 1];
        if (p->whole.dims[d] > 1 && view->strides[d] != follows) return false;
    }
    if (to && rank > 2) strides[0] = view->strides[rank - 3];
    strides[to] = row;
    strides[to + 1] = column;
    memset(view->strides, 0, sizeof view->strides);
    memcpy(view->strides, strides, sizeof strides);
    return true;
}

static uint32_t work_of(const tsr_node *node) {
    switch (tsr_op_of(node->op)) {
    case TSR_GRAPH_CAST:
        return 0;
    case TSR_GRAPH_ADD:
    case TSR_GRAPH_SUB:
    case TSR_GRAPH_MUL:
    case TSR_GRAPH_MAX:
    case TSR_GRAPH_MIN:
    case TSR_GRAPH_RELU:
        return 1;
    default:
        return 3;
    }
}

/* The one op that uses the node, or NULL. */
static tsr_node *find_user(const product *p, const tsr_node *node) {
    tsr_node *user = NULL;
    for (uint32_t i = 0; i < p->after.result_count; i++)
        if (p->after.results[i] == node) return NULL;
    for (uint32_t i = 0; i < p->after.node_count; i++)
        for (uint32_t k = 0; k < p->after.nodes[i]->operand_count; k++) {
            if (p->after.nodes[i]->operands[k] != node) continue;
            if (user) return NULL;
            user = p->after.nodes[i];
        }
    return user;
}

/* The one op that uses the node, after any casts. Casts have no effect here, because all values are
 * f32. */
static tsr_node *find_reader(const product *p, const tsr_node *node) {
    tsr_node *user = find_user(p, node);
    while (user && tsr_op_is(user->op, TSR_GRAPH_CAST)) user = find_user(p, user);
    return user;
}

/* Finds an addition directly after the product, of a view that is the same in all rows. */
static void find_addend(product *p) {
    tsr_node *reader = find_reader(p, p->given);
    if (!reader || !tsr_op_is(reader->op, TSR_GRAPH_ADD)) return;
    for (uint32_t i = 0; i < p->after.node_count; i++) {
        tsr_node *node = p->after.nodes[i];
        if (node->kind != TSR_NODE_VIEW || node->view.strides[p->space.rank - 2] ||
            find_reader(p, node) != reader)
            continue;
        p->summed = reader;
        p->addend = node;
    }
}

/* True if the node is a whole buffer with the rows and columns of the result, whose rows begin
 * where the copy engine can read them. */
static bool has_layout_of_result(const product *p, const tsr_node *node) {
    uint32_t at = p->space.rank - 2;
    const int64_t *strides = node->view.strides;
    uint64_t count = 0, result = (uint64_t)(p->shape.batch * p->shape.m * p->shape.n);
    if (!mlirValueIsABlockArgument(node->view.buffer)) return false;
    uint32_t number = (uint32_t)mlirBlockArgumentGetArgNumber(node->view.buffer);
    int64_t pitch = pitch_of(p, number);
    return node->view.offset == 0 && strides[at + 1] == 1 && strides[at] == pitch &&
           pitch * (int64_t)tsr_dtype_size(node->dtype) % COPY_BYTES == 0 &&
           (!at || strides[0] == p->shape.m * pitch) &&
           tsr_shape_count(&p->group->types[number].shape, &count) && count == result;
}

/* The type of results that are stored through a ring: the type of 16 bits, if there is one. */
static tsr_dtype find_through(const product *p) {
    const tsr_type *types = p->group->types + p->group->input_count;
    tsr_dtype through = types[0].dtype;
    for (uint32_t i = 1; i < p->group->output_count; i++)
        if (tsr_dtype_is_narrow(types[i].dtype)) through = types[i].dtype;
    return through;
}

/* The bytes moved for each element of the result. Views that are the same in all rows or all
 * columns do not count. */
static uint32_t epilogue_bytes_of(const product *p) {
    const tsr_type *outputs = p->group->types + p->group->input_count;
    const int at = (int)p->space.rank - 2;
    size_t bytes = 0;
    for (uint32_t i = 0; i < p->group->output_count; i++) bytes += tsr_dtype_size(outputs[i].dtype);
    for (uint32_t i = 0; i < p->after.node_count; i++) {
        const tsr_node *node = p->after.nodes[i];
        if (node->kind == TSR_NODE_VIEW && node->view.strides[at] && node->view.strides[at + 1])
            bytes += tsr_dtype_size(node->dtype);
    }
    return (uint32_t)bytes;
}

/* Finds an operand of the only result, of the same type. */
static void find_fetched(product *p) {
    if (p->group->output_count != 1 || !p->shape.by_rows) return;
    for (uint32_t i = 0; i < p->after.node_count && !p->fetched; i++) {
        tsr_node *node = p->after.nodes[i];
        if (node->kind == TSR_NODE_VIEW && node->dtype == p->through &&
            has_layout_of_result(p, node))
            p->fetched = node;
    }
}

static tsr_result read_after(product *p, bool *out_taken) {
    tsr_tile_group *group = p->group;
    TRY(group->ctx, tsr_region_init(group, group->returned, group->output_count,
                                    tsr_op_result(group->root, 0), &p->whole, NULL, &p->after));
    *out_taken = true;
    for (uint32_t i = 0; i < p->after.node_count; i++) {
        tsr_node *node = p->after.nodes[i];
        if (node->kind == TSR_NODE_GIVEN) p->given = node;
        if (node->kind == TSR_NODE_OP) p->shape.work += work_of(node);
        if (node->kind == TSR_NODE_IOTA ||
            (node->kind != TSR_NODE_SPLAT && tsr_tile_compute_dtype(node->dtype) != TSR_DTYPE_F32))
            *out_taken = false;
        if (node->kind == TSR_NODE_VIEW && !narrow_view(p, &node->view)) *out_taken = false;
    }
    if (!p->given) *out_taken = false;
    if (*out_taken) find_addend(p);
    return TSR_SUCCESS;
}

static bool outputs_fit(const product *p) {
    const tsr_tile_group *group = p->group;
    if (group->output_count > OUTPUTS_MAX) return false;
    for (uint32_t i = 0; i < group->output_count; i++) {
        const tsr_type *type = &group->types[group->input_count + i];
        if (tsr_tile_compute_dtype(type->dtype) != TSR_DTYPE_F32 ||
            !has_whole_batch(p, &type->shape) ||
            (int64_t)type->shape.dims[type->shape.rank - 1] != p->shape.n)
            return false;
    }
    return true;
}

static tsr_result read_product(product *p, bool *out_taken) {
    tsr_tile_group *group = p->group;
    tsr_type result;
    uint32_t a = 0, b = 0;
    *out_taken = false;
    if (!find_operand(p, 0, &a) || !find_operand(p, 1, &b) ||
        !tsr_value_type(tsr_op_result(group->root, 0), &result) || result.shape.rank < 2)
        return TSR_SUCCESS;
    p->whole.rank = result.shape.rank;
    for (uint32_t d = 0; d < result.shape.rank; d++)
        p->whole.dims[d] = (int64_t)result.shape.dims[d];
    p->at = tsr_op_flag(group->root, "transpose_a");
    p->bt = tsr_op_flag(group->root, "transpose_b");
    p->a = group->buffers[a];
    p->b_buffer = group->buffers[b];
    if (!read_dtype(p, group->types[a].dtype, group->types[b].dtype) ||
        !read_sizes(p, &group->types[a].shape, &group->types[b].shape) || !outputs_fit(p))
        return TSR_SUCCESS;
    p->shape.a_pitch = pitch_of(p, a);
    p->shape.b_pitch = pitch_of(p, b);
    int64_t dims[3] = {p->shape.batch, p->shape.m, p->shape.n};
    p->space.rank = p->shape.batch > 1 ? 3 : 2;
    memcpy(p->space.dims, dims + 3 - p->space.rank, p->space.rank * sizeof *dims);
    return read_after(p, out_taken);
}

/* ---- emitting the kernel --------------------------------------------------------------------- */

static MlirValue build(product *p, const char *name, const MlirValue *operands, size_t count,
                       MlirType type, const tsr_attr *attrs) {
    return tsr_build_value(&p->b->at, name, operands, count, type, attrs);
}

static void build_none(product *p, const char *name, const MlirValue *operands, size_t count) {
    tsr_build(&p->b->at,
              &(tsr_op_desc){.name = name, .operand_count = count, .operands = operands});
}

/* The buffer as [batch,] rows, columns. */
static MlirValue view(product *p, MlirValue buffer, int64_t rows, int64_t columns) {
    int64_t dims[3] = {p->shape.batch, rows, columns};
    return tsr_gpu_view(p->b, buffer, p->space.rank, dims + 3 - p->space.rank);
}

static int64_t together_of(const tsr_product_tile *tile) {
    return (int64_t)tile->parts * tile->cluster_columns * tile->cluster_rows;
}

/* Orders programs in bands of rows; within a band, down its columns. */
static void find_program(product *p) {
    tsr_tile_builder *b = p->b;
    int64_t height =
        p->tile.rows * p->tile.cluster_rows; /* rows of the programs that run together */
    int64_t width = p->tile.columns * p->tile.cluster_columns;
    int64_t rows = tsr_divide_up(p->shape.m, height), columns = tsr_divide_up(p->shape.n, width);
    int64_t band = BAND_ROWS / height < rows ? BAND_ROWS / height : rows;
    int64_t together = together_of(&p->tile);
    p->group->grid = rows * columns * p->shape.batch * together;
    MlirValue pid = tsr_tile_program_id(b);
    if (together > 1) {
        p->rank = tsr_tile_rem(b, pid, together);
        pid = tsr_tile_div(b, pid, together);
    }
    p->batch_index = tsr_tile_div(b, pid, rows * columns);
    MlirValue rest = p->shape.batch > 1 ? tsr_tile_rem(b, pid, rows * columns) : pid;
    MlirValue first = tsr_tile_mul(b, tsr_tile_div(b, rest, band * columns), band);
    MlirValue inner = tsr_tile_rem(b, rest, band * columns);
    MlirValue in_band = tsr_tile_index(b, band);
    if (rows % band)
        in_band = tsr_tile_min(b, tsr_tile_sub(b, tsr_tile_index(b, rows), first), in_band);
    MlirValue row = tsr_tile_2(b, "arith.remui", inner, in_band);
    MlirValue column = tsr_tile_2(b, "arith.divui", inner, in_band);
    p->row = tsr_tile_mul(b, tsr_tile_add(b, first, row), height);
    p->column = tsr_tile_mul(b, column, width);
    if (p->tile.cluster_rows > 1) {
        MlirValue down = tsr_tile_div(b, p->rank, p->tile.cluster_columns);
        p->row = tsr_tile_add(b, p->row, tsr_tile_mul(b, down, p->tile.rows));
    }
    if (p->tile.cluster_columns > 1) {
        MlirValue column_offset = tsr_tile_rem(b, p->rank, p->tile.cluster_columns);
        p->column = tsr_tile_add(b, p->column, tsr_tile_mul(b, column_offset, p->tile.columns));
    }
}

static void copy(product *p, MlirValue buffer, MlirValue row, MlirValue column, MlirValue ring,
                 MlirValue stage, int64_t sharers, int64_t apart) {
    MlirValue operands[6] = {buffer};
    size_t count = 1;
    if (p->space.rank == 3) operands[count++] = p->batch_index;
    operands[count++] = row;
    operands[count++] = column;
    operands[count++] = ring;
    operands[count++] = stage;
    const int64_t share[] = {sharers, apart};
    tsr_attr attrs[] = {{TSR_SHARED_NAME, tsr_attr_make_i64s(p->b->at.context, 2, share)}};
    tsr_build(&p->b->at, &(tsr_op_desc){.name = "tile.async_copy",
                                        .operand_count = count,
                                        .operands = operands,
                                        .attr_count = sharers > 1,
                                        .attrs = attrs});
}

/* ---- ops after the product ------------------------------------------------------------------- */

/* Replaces rows and columns beyond the edge by the last ones; values read for them are not
 * stored. */
static MlirValue inside(product *p, MlirValue index, int64_t size, int64_t tile) {
    if (size % tile == 0) return index;
    MlirType type = mlirValueGetType(index);
    return tsr_tile_2(p->b, "arith.minsi", index, tsr_tile_int(p->b, type, size - 1));
}

/* True if two neighbours of a row, the first in an even column, are adjacent and aligned, so that
 * one load reads both. */
static bool is_in_aligned_pairs(const product *p, const tsr_node *node) {
    uint32_t at = p->space.rank - 2;
    const int64_t *strides = node->view.strides;
    return !p->tile.transposed && p->shape.n % 2 == 0 && strides[at + 1] == 1 &&
           strides[at] % 2 == 0 && node->view.offset % 2 == 0 && (!at || strides[0] % 2 == 0);
}

static MlirValue load_view(product *p, const tsr_node *node, MlirValue row, MlirValue column) {
    tsr_tile_builder *b = p->b;
    uint32_t at = p->space.rank - 2;
    MlirType type = mlirValueGetType(row);
    MlirValue base = tsr_tile_index(b, node->view.offset);
    if (at) base = tsr_tile_add(b, base, tsr_tile_mul(b, p->batch_index, node->view.strides[0]));
    int64_t strides[] = {node->view.strides[at], node->view.strides[at + 1]};
    if (!strides[0] && !strides[1])
        return tsr_tile_splat(
            b, tsr_tile_load(b, node->dtype, node->view.buffer, base, 0, tsr_tile_null), LANES);
    MlirValue offsets = tsr_tile_splat(b, base, LANES), parts[] = {row, column};
    for (int i = 0; i < 2; i++) {
        if (!strides[i]) continue;
        MlirValue part = tsr_tile_2(b, "arith.muli", parts[i], tsr_tile_int(b, type, strides[i]));
        offsets = tsr_tile_2(b, "arith.addi", offsets, strides[i] == 1 ? parts[i] : part);
    }
    MlirValue operands[] = {node->view.buffer, offsets};
    MlirType stored = tsr_tile_vector_type(tsr_tile_storage_type(b, node->dtype), LANES);
    const tsr_attr pairs[] = {{TSR_PAIRS_NAME, tsr_attr_make_unit(b->at.context)}, {0}};
    MlirValue value =
        build(p, "tile.gather", operands, 2, stored, is_in_aligned_pairs(p, node) ? pairs : NULL);
    return tsr_dtype_is_narrow(node->dtype)
               ? tsr_tile_to(b, "arith.extf", value, tsr_tile_value_type(b, TSR_DTYPE_F32, LANES))
               : value;
}

/* True if the sums already include the node, because they began with the addend. */
static bool leads_to_sum(const product *p, const tsr_node *node) {
    return p->summed && (node == p->summed || find_reader(p, node) == p->summed);
}

static void compute(product *p, MlirValue row, MlirValue column, MlirValue sum) {
    tsr_tile_builder *b = p->b;
    for (uint32_t i = 0; i < p->after.node_count; i++) {
        tsr_node *node = p->after.nodes[i];
        MlirValue operands[TSR_ELEMENT_OPERANDS_MAX];
        if (node->kind == TSR_NODE_GIVEN) node->value = sum;
        if (node->kind == TSR_NODE_SPLAT)
            node->value = tsr_tile_splat(b, tsr_splat_value(b, node), LANES);
        if (node->kind == TSR_NODE_VIEW && node != p->addend && node != p->fetched)
            node->value = load_view(p, node, row, column);
        if (node == p->summed) node->value = sum;
        if (node->kind != TSR_NODE_OP || leads_to_sum(p, node)) continue;
        for (uint32_t k = 0; k < node->operand_count; k++) operands[k] = node->operands[k]->value;
        node->value = tsr_element_build(b, node->op, operands);
    }
}

/* Computes `result` at each element. `sum` is the product, or the product plus the addend. */
static MlirValue map(product *p, MlirValue sum, tsr_node *result) {
    tsr_tile_builder *b = p->b;
    MlirType index = tsr_tile_vector_type(tsr_tile_index_type(b), LANES);
    MlirType f32 = tsr_tile_value_type(b, TSR_DTYPE_F32, LANES), types[] = {index, index, f32, f32};
    MlirLocation location = b->at.location, locations[] = {location, location, location, location};
    bool fetches = p->fetched && result != p->addend;
    MlirBlock body = mlirBlockCreate(3 + fetches, types, locations), outer = b->at.block;
    b->at.block = body;
    b->wide = true;
    b->approximate = tsr_dtype_is_narrow(result->dtype);
    if (b->approximate) p->group->contracts = true;
    MlirValue row = inside(p, mlirBlockGetArgument(body, 0), p->shape.m, p->tile.rows);
    MlirValue column = inside(p, mlirBlockGetArgument(body, 1), p->shape.n, p->tile.columns);
    if (fetches) p->fetched->value = mlirBlockGetArgument(body, 3);
    if (result == p->addend)
        result->value = load_view(p, result, row, column);
    else
        compute(p, row, column, mlirBlockGetArgument(body, 2));
    build_none(p, "tile.yield", &result->value, 1);
    if (b->approximate) tsr_tile_approximate(b, body);
    b->wide = b->approximate = false;
    b->at.block = outer;
    MlirRegion region = mlirRegionCreate();
    mlirRegionAppendOwnedBlock(region, body);
    MlirValue operands[] = {sum, p->row, p->column, p->other};
    MlirType type = mlirValueGetType(sum);
    tsr_attr attrs[] = {{"transposed", tsr_attr_make_unit(b->at.context)}};
    MlirOperation op = tsr_build(&b->at, &(tsr_op_desc){.name = "tile.map",
                                                        .operand_count = 3 + fetches,
                                                        .operands = operands,
                                                        .attr_count = p->tile.transposed,
                                                        .attrs = attrs,
                                                        .result_count = 1,
                                                        .results = &type,
                                                        .region_count = 1,
                                                        .regions = &region});
    return tsr_op_result(op, 0);
}

/* ---- the product ----------------------------------------------------------------------------- */

/* The steps of K of this program. If the parts are not equal, the first programs have one step
 * more. The code has no divisions: from the difference of two quotients of 32 bits, widened, ptxas
 * 13.0 computes a negative number if the second one is 0. */
static void share_steps(product *p, int64_t steps, MlirValue *out_first, MlirValue *out_count) {
    tsr_tile_builder *b = p->b;
    int64_t parts = p->tile.parts, even = steps / parts;
    *out_first = tsr_tile_index(b, 0);
    *out_count = tsr_tile_index(b, steps);
    if (parts == 1) return;
    MlirValue more = tsr_tile_index(b, steps % parts), before = tsr_tile_min(b, p->rank, more);
    MlirValue with = tsr_tile_min(b, tsr_tile_offset(b, p->rank, 1), more);
    *out_first = tsr_tile_add(b, tsr_tile_mul(b, p->rank, even), before);
    *out_count = tsr_tile_offset(b, tsr_tile_sub(b, with, before), even);
}

/* The dims of the fragment of a tile. */
static void fragment_dims(const product *p, int64_t *out_dims) {
    out_dims[0] = p->tile.transposed ? p->tile.columns : p->tile.rows;
    out_dims[1] = p->tile.transposed ? p->tile.rows : p->tile.columns;
}

/* The dims of the part of the tile that this program stores. */
static void own_dims(const product *p, int64_t *out_dims) {
    fragment_dims(p, out_dims);
    out_dims[1] /= p->tile.parts;
}

/* Adds the sums of the programs that share K. Returns this program's part of the columns. */
static MlirValue sum_parts(product *p, MlirValue sum) {
    tsr_tile_builder *b = p->b;
    int64_t dims[2];
    if (p->tile.parts == 1) return sum;
    own_dims(p, dims);
    MlirValue *column_offset = p->tile.transposed ? &p->row : &p->column;
    *column_offset = tsr_tile_add(b, *column_offset, tsr_tile_mul(b, p->rank, dims[1]));
    MlirType f32 = tsr_tile_value_type(b, TSR_DTYPE_F32, 0);
    MlirType type = tsr_shim_tile_fragment_make(dims, f32, true);
    return build(p, "tile.sum_programs", &sum, 1, type, NULL);
}

/* Starts to load `fetched` before the program multiplies. */
static void fetch(product *p) {
    tsr_tile_builder *b = p->b;
    MlirValue operands[5] = {view(p, p->fetched->view.buffer, p->shape.m, p->shape.n)};
    int64_t dims[2];
    own_dims(p, dims);
    size_t count = 1;
    MlirValue column = p->column;
    if (p->tile.parts > 1) column = tsr_tile_add(b, column, tsr_tile_mul(b, p->rank, dims[1]));
    if (p->space.rank == 3) operands[count++] = p->batch_index;
    operands[count++] = p->row;
    operands[count++] = column;
    operands[count++] = p->ring;
    MlirType f32 = tsr_tile_value_type(b, TSR_DTYPE_F32, 0);
    MlirType type = tsr_shim_tile_fragment_make(dims, f32, true);
    p->other = build(p, "tile.load_fragment", operands, count, type, NULL);
}

static MlirValue multiply(product *p) {
    tsr_tile_builder *b = p->b;
    const tsr_product_tile *t = &p->tile;
    const tsr_product_shape *s = &p->shape;
    int64_t dims[2];
    fragment_dims(p, dims);
    MlirType f32 = tsr_tile_value_type(b, TSR_DTYPE_F32, 0);
    MlirType type = tsr_shim_tile_fragment_make(dims, f32, true);
    MlirValue a = view(p, p->a, p->at ? s->k : s->m, p->at ? s->m : s->k);
    MlirValue bb = view(p, p->b_buffer, p->bt ? s->n : s->k, p->bt ? s->k : s->n);
    MlirValue ra = tsr_gpu_ring(b, t->stages, p->at ? t->depth : t->rows,
                                p->at ? t->rows : t->depth, p->dtype);
    MlirValue rb = tsr_gpu_ring(b, t->stages, p->bt ? t->columns : t->depth,
                                p->bt ? t->depth : t->columns, p->dtype);
    MlirValue zero = tsr_tile_float(b, f32, 0), sum = build(p, "tile.fill", &zero, 1, type, NULL);
    MlirValue first, count;
    if (p->addend) sum = map(p, sum, p->addend);
    if (p->fetched) fetch(p);
    share_steps(p, tsr_divide_up(s->k, t->depth), &first, &count);
    TSR_TILE_FOR_CARRIED(b, loop, tsr_tile_index(b, 0), count, 1, 1, &sum) {
        MlirValue k = tsr_tile_mul(b, tsr_tile_add(b, loop.index, first), t->depth);
        copy(p, a, p->at ? k : p->row, p->at ? p->row : k, ra, loop.index, t->cluster_columns, 1);
        copy(p, bb, p->bt ? p->column : k, p->bt ? k : p->column, rb, loop.index, t->cluster_rows,
             t->cluster_columns);
        build_none(p, "tile.wait_async", &loop.index, 1);
        MlirValue operands[] = {t->transposed ? rb : ra, t->transposed ? ra : rb, sum, loop.index};
        MlirAttribute unit = tsr_attr_make_unit(b->at.context);
        tsr_attr attrs[3] = {{0}};
        size_t used = 0;
        if (t->transposed ? !p->bt : p->at) attrs[used++] = (tsr_attr){"transpose_a", unit};
        if (t->transposed ? !p->at : p->bt) attrs[used++] = (tsr_attr){"transpose_b", unit};
        sum = build(p, "tile.mma", operands, 4, type, attrs);
        build_none(p, "tile.release", &loop.index, 1);
    }
    if (t->tail)
        tsr_op_set(tsr_value_owner(sum), TSR_TAIL_NAME, tsr_attr_make_i64(b->at.context, t->tail));
    return sum_parts(p, sum);
}

static void store(product *p, MlirValue value, uint32_t output) {
    const tsr_type *type = &p->group->types[p->group->input_count + output];
    MlirValue operands[6] = {
        value, view(p, p->group->buffers[p->group->input_count + output], p->shape.m, p->shape.n)};
    bool through = type->dtype == p->through && !mlirValueIsNull(p->ring);
    int32_t sizes[4] = {1, 1, (int32_t)p->space.rank, through};
    size_t count = 2;
    if (p->space.rank == 3) operands[count++] = p->batch_index;
    operands[count++] = p->row;
    operands[count++] = p->column;
    if (through) operands[count++] = p->ring;
    tsr_attr attrs[] = {{"operandSegmentSizes", mlirDenseI32ArrayGet(p->b->at.context, 4, sizes)},
                        {"transposed", tsr_attr_make_unit(p->b->at.context)}};
    tsr_build(&p->b->at, &(tsr_op_desc){.name = "tile.store_fragment",
                                        .operand_count = count,
                                        .operands = operands,
                                        .attr_count = p->tile.transposed ? 2 : 1,
                                        .attrs = attrs});
}

/* False if a transposed tile would be slow: a transposed tile can only be stored through shared
 * memory, and views that are read after the product are contiguous in pairs along rows. */
static bool transposes_well(const product *p) {
    const tsr_type *outputs = p->group->types + p->group->input_count;
    for (uint32_t i = 0; i < p->group->output_count; i++)
        if (!tsr_dtype_is_narrow(outputs[i].dtype) || outputs[i].dtype != outputs[0].dtype)
            return false;
    for (uint32_t i = 0; i < p->after.node_count; i++) {
        const tsr_node *node = p->after.nodes[i];
        const int64_t *strides = node->view.strides + p->space.rank - 2;
        if (node->kind == TSR_NODE_VIEW && strides[0] && strides[1]) return false;
    }
    return true;
}

/* Allocates the ring of results, with rows of 128 bytes. */
static void make_ring(product *p) {
    int64_t columns = RESULT_BYTES / (int64_t)tsr_dtype_size(p->through), dims[2];
    own_dims(p, dims);
    if (!p->shape.by_rows || (!p->tile.transposed && dims[1] % columns)) {
        p->fetched = NULL;
        return;
    }
    p->ring = tsr_gpu_ring(p->b, RESULT_STAGES, dims[0], columns, p->through);
}

static void emit(product *p) {
    find_program(p);
    if (p->tile.parts > 1) p->summed = p->addend = NULL;
    make_ring(p);
    MlirValue sum = multiply(p);
    for (uint32_t i = 0; i < p->group->output_count; i++) {
        bool plain = p->after.results[i] == p->given;
        store(p, plain ? sum : map(p, sum, p->after.results[i]), i);
    }
}

/* True if the rows of results that are stored through a ring begin where the copy engine can write
 * them. */
static bool stores_by_rows(const product *p) {
    const tsr_tile_group *group = p->group;
    if (group->b.target->arch != 90) return false;
    for (uint32_t i = group->input_count; i < group->input_count + group->output_count; i++)
        if (group->types[i].dtype == p->through && pitch_of(p, i) % ROW_ELEMENTS) return false;
    return true;
}

/* Reads the product and selects its tile. */
static tsr_result plan(product *p, bool *out_taken) {
    tsr_tile_group *group = p->group;
    int64_t skip = 0;
    TRY(group->ctx, read_product(p, out_taken));
    if (!*out_taken) return TSR_SUCCESS;
    tsr_op_i64(group->op, TSR_SKIP_NAME, &skip);
    p->through = find_through(p);
    p->shape.by_rows = stores_by_rows(p);
    find_fetched(p);
    p->shape.epilogue_bytes = epilogue_bytes_of(p);
    p->shape.may_transpose = p->shape.by_rows && transposes_well(p);
    p->shape.a_transposed = p->at;
    if (group->planned == TSR_TILING_MATRIX_PRODUCT)
        *out_taken = tsr_product_take(group->b.target, &p->shape, group->given, true, &p->tile,
                                      group->refusal);
    else
        *out_taken = group->planned == TSR_TILING_NONE &&
                     tsr_product_select(group->b.target, &p->shape, (uint32_t)skip, &p->tile);
    return TSR_SUCCESS;
}

static void add_best(const product *p, tsr_tiling *tiling) {
    enum { BEST = 12 };
    tsr_product_tile best[BEST];
    int64_t sizes[TSR_TILE_SIZES_MAX] = {0};
    size_t count = tsr_product_rank(p->group->b.target, &p->shape, BEST, best);
    for (size_t i = 0; i < count; i++) {
        tsr_product_sizes(&best[i], sizes);
        tsr_tiling_add(tiling, sizes);
    }
}

tsr_result tsr_product_choose(tsr_tile_group *group, tsr_tiling *tiling) {
    product p = {.group = group, .b = &group->b};
    bool taken = false, is_given = false, skips = tsr_op_has(group->op, TSR_SKIP_NAME);
    for (size_t i = 0; i < TSR_TILE_SIZES_MAX; i++) is_given |= group->given[i] != 0;
    TRY(group->ctx, plan(&p, &taken));
    if (!taken && !(is_given && skips)) return TSR_SUCCESS;
    tiling->kind = TSR_TILING_MATRIX_PRODUCT;
    tiling->source = TSR_TILING_MODEL;
    if (is_given && skips)
        tsr_tile_refuse(group, "the assembler spills registers, or refuses the kernel");
    else if (is_given)
        tsr_product_take(group->b.target, &p.shape, group->given, false, &p.tile, group->refusal);
    tsr_product_sizes(&p.tile, tiling->sizes);
    tsr_tiling_add(tiling, tiling->sizes);
    add_best(&p, tiling);
    return TSR_SUCCESS;
}

tsr_result tsr_tile_time_product(tsr_tile_group *group, bool *out_taken, double *out_cycles) {
    product p = {.group = group, .b = &group->b};
    MlirBlock block;
    TRY(group->ctx, tsr_tile_group_open(group, &block));
    group->b.at.block = block;
    tsr_result result = plan(&p, out_taken);
    if (!result.code && *out_taken)
        *out_cycles = tsr_product_time(group->b.target, &p.shape, &p.tile);
    mlirBlockDestroy(block);
    return result;
}

tsr_result tsr_tile_lower_product(tsr_tile_group *group, bool *out_taken) {
    product p = {.group = group, .b = &group->b};
    TRY(group->ctx, plan(&p, out_taken));
    if (group->refusal[0]) FAIL(group->ctx, TSR_COMPILE, "'%s': %s", group->name, group->refusal);
    if (!*out_taken) return TSR_SUCCESS;
    int64_t tile[] = {p.tile.rows,         p.tile.columns,   p.tile.depth, p.tile.stages,
                      p.tile.warps,        p.tile.teams,     p.tile.parts, p.tile.cluster_columns,
                      p.tile.cluster_rows, p.tile.transposed};
    memcpy(group->tile, tile, sizeof tile);
    group->tile_count = TSR_COUNT(tile);
    group->warps = p.tile.warps;
    group->registers = p.tile.registers;
    group->teams = p.tile.teams;
    group->together = (uint32_t)together_of(&p.tile);
    emit(&p);
    return TSR_SUCCESS;
}
