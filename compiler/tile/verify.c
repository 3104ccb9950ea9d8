/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules of dialect tile: one function per rule of ops.def. Ops that a target cannot execute are
 * refused if the module states its target.
 */
#include "compiler/tile/verify.h"

#include "compiler/ir/attributes.h"
#include "compiler/ir/mlir.h"
#include "compiler/ir/targets/features.h"
#include "compiler/shim/shim.h"
#include "compiler/tile/attributes.h"
#include "compiler/tile/tile.h"

#include <inttypes.h>
#include <string.h>

enum {
    WARP_LANES = 32,
    WARPS_MAX = 12,
    STAGES_MAX = 16,
    ROWS_MAX = 256, /* rows of a matrix in shared memory: limit of one copy */
    COLUMNS_MAX = 512,
    SWIZZLE_ROWS = 8,
    SWIZZLE_BYTES = 128,
    COPY_UNIT = SWIZZLE_ROWS * SWIZZLE_BYTES,
    COPY_BYTES = 16,      /* divides rows without swizzle */
    MMA_ROWS = 16,        /* minimum for a warp */
    MMA_COLUMNS = 256,    /* maximum */
    MMA_DEPTH_BYTES = 32, /* depth of one instruction */
};

/* ---- the context of an op -------------------------------------------------------------------- */

tsr_where tsr_check_context(MlirOperation op) {
    tsr_where p = {.func = {NULL}};
    for (MlirOperation at = op; !mlirOperationIsNull(at);
         at = mlirOperationGetParentOperation(at)) {
        if (tsr_op_is(at, TSR_TILE_MAP) && at.ptr != op.ptr) p.in_map = true;
        if (tsr_op_is(at, TSR_TILE_FUNC) && mlirOperationIsNull(p.func)) {
            p.func = at;
            tsr_op_i64(at, "warps", &p.warps);
        }
        if (!p.target && tsr_op_is(at, TSR_BUILTIN_MODULE))
            p.target = tsr_op_string(at, TSR_TARGET_NAME);
    }
    bool is_gpu =
        p.target && (strncmp(p.target, "cuda:", 5) == 0 || strncmp(p.target, "hip:", 4) == 0);
    if (is_gpu) p.has = tsr_feature_find(strchr(p.target, ':') + 1);
    return p;
}

bool tsr_check_together(MlirOperation op) {
    tsr_where p = tsr_check_context(op);
    if (!p.warps || p.in_map)
        return tsr_op_emit_error(op, TSR_DIAG_TILE_CONTEXT,
                                 "is %s; expected a tile.func with warps",
                                 p.in_map ? "in tile.map" : "in a program of one warp");
    if (p.target && !p.has)
        return tsr_op_emit_error(op, TSR_DIAG_TILE_TARGET,
                                 "there is no machine code for it on '%s'; expected a GPU",
                                 p.target);
    return true;
}

/* Ops on the elements of one warp. */
static bool check_vectors(MlirOperation op) {
    tsr_where p = tsr_check_context(op);
    if (!p.warps) return true;
    return tsr_op_emit_error(op, TSR_DIAG_TILE_CONTEXT,
                             "is in a program of %" PRId64 " warps; expected one of a single warp",
                             p.warps);
}

int64_t tsr_check_size(MlirType type) {
    if (mlirTypeIsAF64(type)) return 8;
    if (mlirTypeIsAF32(type)) return 4;
    return mlirTypeIsABF16(type) || mlirTypeIsAF16(type) ? 2 : 0;
}

tsr_matrix tsr_check_matrix(MlirValue value) {
    tsr_matrix m = {0};
    int64_t dims[3] = {0};
    MlirType type = mlirValueGetType(value);
    if (tsr_shim_tile_shared(type, dims, &m.element)) {
        m.stages = dims[0], m.rows = dims[1], m.columns = dims[2];
    } else if (tsr_shim_tile_fragment(type, dims, &m.element, &m.is_acc)) {
        m.rows = dims[0], m.columns = dims[1];
    }
    m.size = tsr_check_size(m.element);
    return m;
}

bool tsr_check_is_xor(MlirValue ring) {
    MlirOperation owner = tsr_value_owner(ring);
    const char *how = mlirOperationIsNull(owner) ? NULL : tsr_op_string(owner, "swizzle");
    return how && strcmp(how, "xor") == 0;
}

bool tsr_check_count(MlirOperation op, const char *what, int64_t value, int64_t min, int64_t max) {
    if (value >= min && value <= max) return true;
    return tsr_op_emit_error(op, TSR_DIAG_TILE_SHAPE,
                             "%s are %" PRId64 "; expected %" PRId64 " to %" PRId64, what, value,
                             min, max);
}

bool tsr_check_multiple(MlirOperation op, const char *what, int64_t value, int64_t unit) {
    if (value % unit == 0) return true;
    return tsr_op_emit_error(op, TSR_DIAG_TILE_SHAPE,
                             "%s are %" PRId64 "; expected a multiple of %" PRId64, what, value,
                             unit);
}

static bool check_matrix_type(MlirOperation op, const tsr_matrix *m) {
    if (m->size == 2 || m->size == 4) return true;
    return tsr_op_emit_error(op, TSR_DIAG_TILE_TYPE, "elements of a matrix are bf16, f16 or f32");
}

bool tsr_check_equal(MlirOperation op, const char *what, int64_t a, int64_t b) {
    if (a == b) return true;
    return tsr_op_emit_error(op, TSR_DIAG_TILE_SHAPE, "%s: %" PRId64 " and %" PRId64, what, a, b);
}

static bool check_ring_type(MlirOperation op, const tsr_matrix *m) {
    if (!check_matrix_type(op, m)) return false;
    if (m->stages < 1 || m->stages > STAGES_MAX)
        return tsr_op_emit_error(op, TSR_DIAG_TILE_STAGE, "%" PRId64 " stages; expected 1 to %d",
                                 m->stages, STAGES_MAX);
    return tsr_check_count(op, "rows", m->rows, 1, ROWS_MAX) &&
           tsr_check_count(op, "columns", m->columns, 1, COLUMNS_MAX);
}

bool tsr_check_ring(MlirOperation op, MlirValue ring) {
    tsr_matrix m = tsr_check_matrix(ring);
    if (tsr_op_is(tsr_value_owner(ring), TSR_TILE_ALLOC_SHARED)) return check_ring_type(op, &m);
    return tsr_op_emit_error(op, TSR_DIAG_TILE_TYPE, "a ring is not a result of tile.alloc_shared");
}

/* ---- functions ------------------------------------------------------------------------------- */

typedef struct contents {
    int64_t shared_bytes;
    MlirOperation copy, attend; /* first ops of their kinds */
    int64_t stages;             /* stages of the rings that copies write to */
    MlirOperation foreign;
} contents;

static bool is_released(MlirOperation wait) {
    for (MlirOperation op = mlirOperationGetNextInBlock(wait); !mlirOperationIsNull(op);
         op = mlirOperationGetNextInBlock(op))
        if (tsr_op_is(op, TSR_TILE_RELEASE) &&
            mlirValueEqual(tsr_op_operand(op, 0), tsr_op_operand(wait, 0)))
            return true;
    return false;
}

/* A program with attention has no other copies: attention uses all their stages. */
static bool visit_attend(contents *c, MlirOperation op) {
    bool alone = mlirOperationIsNull(c->attend) && mlirOperationIsNull(c->copy);
    c->attend = op;
    return alone || tsr_op_emit_error(op, TSR_DIAG_TILE_STAGE,
                                      "comes after copies or attention in its program");
}

/* The buffer that an op writes, or null; attention and rings are checked elsewhere. */
static MlirValue written_by(MlirOperation op) {
    static const size_t writers[TSR_OP_COUNT] = {[TSR_TILE_STORE] = 1,
                                                 [TSR_TILE_SCATTER] = 1,
                                                 [TSR_TILE_FETCH] = 2,
                                                 [TSR_TILE_ADD_PROGRAMS] = 1,
                                                 [TSR_TILE_STORE_FRAGMENT] = 1};
    size_t operand = writers[tsr_op_of(op)];
    return operand ? tsr_op_operand(op, operand) : (MlirValue){NULL};
}

static bool check_written(MlirOperation op) {
    MlirValue buffer = written_by(op);
    if (mlirValueIsNull(buffer) || mlirOperationIsNull(tsr_value_owner(buffer)) ||
        !tsr_op_is(tsr_value_owner(buffer), TSR_TILE_CONSTANT))
        return true;
    return tsr_op_emit_error(op, TSR_DIAG_TILE_TYPE,
                             "writes a tile.constant; expected an argument or a tile.local");
}

static bool visit(contents *c, MlirOperation op) {
    if (!check_written(op)) return false;
    if (tsr_op_is(op, TSR_TILE_ALLOC_SHARED)) {
        tsr_matrix ring = tsr_check_matrix(tsr_op_result(op, 0));
        if (ring.stages <= STAGES_MAX && ring.rows <= ROWS_MAX && ring.columns <= COLUMNS_MAX)
            c->shared_bytes += ring.stages * ring.rows * ring.columns * ring.size;
    }
    if (tsr_op_is(op, TSR_TILE_STORE) || tsr_op_is(op, TSR_TILE_LOCAL) ||
        tsr_op_is(op, TSR_TILE_SCATTER) || tsr_op_is(op, TSR_TILE_CHECK_INDEX) ||
        tsr_op_is(op, TSR_TILE_PREFETCH))
        c->foreign = op;
    if (tsr_op_is(op, TSR_TILE_WAIT_ASYNC) && !is_released(op))
        return tsr_op_emit_error(op, TSR_DIAG_TILE_STAGE,
                                 "no tile.release of the stage follows in the same block");
    if (tsr_op_is(op, TSR_TILE_ATTEND)) return visit_attend(c, op);
    if (!tsr_op_is(op, TSR_TILE_ASYNC_COPY)) return true;
    if (!mlirOperationIsNull(c->attend)) return visit_attend(c, op);
    size_t count = tsr_op_operand_count(op);
    tsr_matrix ring = tsr_check_matrix(tsr_op_operand(op, count - 2));
    if (mlirOperationIsNull(c->copy)) {
        c->copy = op;
        c->stages = ring.stages;
        return true;
    }
    MlirValue first = tsr_op_operand(c->copy, tsr_op_operand_count(c->copy) - 1);
    if (!mlirBlockEqual(mlirOperationGetBlock(op), mlirOperationGetBlock(c->copy)) ||
        !mlirValueEqual(first, tsr_op_operand(op, count - 1)))
        return tsr_op_emit_error(
            op, TSR_DIAG_TILE_STAGE,
            "is not at the same position, with the same stage, as the first copy of the program");
    if (ring.stages == c->stages) return true;
    return tsr_op_emit_error(op, TSR_DIAG_TILE_STAGE,
                             "the ring has %" PRId64
                             " stages; another target of copies has %" PRId64,
                             ring.stages, c->stages);
}

static bool scan(contents *c, MlirBlock block) {
    TSR_FOR_EACH_OP(op, block) {
        if (!visit(c, op)) return false;
        for (intptr_t r = 0; r < mlirOperationGetNumRegions(op); r++) {
            MlirBlock inner = mlirRegionGetFirstBlock(mlirOperationGetRegion(op, r));
            if (!mlirBlockIsNull(inner) && !scan(c, inner)) return false;
        }
    }
    return true;
}

static bool check_cap(MlirOperation op, const char *name, int64_t min, int64_t max) {
    int64_t value = 0;
    if (!tsr_op_has(op, name)) return true;
    if (tsr_op_i64(op, name, &value) && value >= min && value <= max) return true;
    return tsr_op_emit_error(op, TSR_DIAG_TILE_CAP,
                             "%s is %" PRId64 "; expected %" PRId64 " to %" PRId64, name, value,
                             min, max);
}

static bool rule_func(MlirOperation op) {
    static const tsr_feature widest = {.registers = 255, .shared_bytes = 232448};
    tsr_where p = tsr_check_context(op);
    const tsr_feature *has = p.has ? p.has : &widest;
    contents c = {.copy = {NULL}, .attend = {NULL}, .foreign = {NULL}};
    int64_t cap = has->shared_bytes;
    if (tsr_op_has(op, "warps") && p.warps != 4 && p.warps != 8 && p.warps != WARPS_MAX)
        return tsr_op_emit_error(op, TSR_DIAG_TILE_CAP, "warps is %" PRId64 "; expected 4, 8 or 12",
                                 p.warps);
    if (!check_cap(op, "registers", 16, has->registers) ||
        !check_cap(op, "shared", 0, has->shared_bytes))
        return false;
    MlirBlock body = mlirRegionGetFirstBlock(mlirOperationGetRegion(op, 0));
    if (mlirBlockIsNull(body)) return true;
    if (!scan(&c, body)) return false;
    if (p.warps && !mlirOperationIsNull(c.foreign))
        return tsr_op_emit_error(
            c.foreign, TSR_DIAG_TILE_CONTEXT,
            "is in a program of %" PRId64 " warps; expected one of a single warp", p.warps);
    tsr_op_i64(op, "shared", &cap);
    if (c.shared_bytes <= cap) return true;
    return tsr_op_emit_error(
        op, TSR_DIAG_TILE_CAP,
        "rings take %" PRId64 " bytes of shared memory; there are %" PRId64 "%s%s%s",
        c.shared_bytes, cap, p.has ? " on '" : "", p.has ? p.target : "", p.has ? "'" : "");
}

/* ---- buffers --------------------------------------------------------------------------------- */

MlirValue tsr_check_argument(MlirValue buffer) {
    MlirOperation owner = tsr_value_owner(buffer);
    if (tsr_op_is(owner, TSR_TILE_VIEW)) buffer = tsr_op_operand(owner, 0);
    return mlirValueIsABlockArgument(buffer) ? buffer : (MlirValue){NULL};
}

/* Returns -1 if the number exceeds 64 bits. */
static int64_t elements_of(MlirType type) {
    int64_t count = 1;
    for (int64_t d = 0; d < mlirShapedTypeGetRank(type); d++)
        if (__builtin_mul_overflow(count, mlirShapedTypeGetDimSize(type, d), &count)) return -1;
    return count;
}

/* Checks that a view of a buffer with a pitch has the same rows. */
static bool check_pitches(MlirOperation op, MlirType from, MlirType to) {
    int64_t pitches[2] = {0}, ranks[] = {mlirShapedTypeGetRank(from), mlirShapedTypeGetRank(to)};
    if (!tsr_buffer_pitch(from, &pitches[0]) || !tsr_buffer_pitch(to, &pitches[1]))
        return tsr_op_emit_error(op, TSR_DIAG_TILE_TYPE,
                                 "a buffer is neither dense nor has a pitch");
    if (!pitches[0] && !pitches[1]) return true;
    return tsr_check_equal(op, "pitches of the buffer and of the view", pitches[0], pitches[1]) &&
           tsr_check_equal(op, "rows of the buffer and of the view",
                           mlirShapedTypeGetDimSize(from, ranks[0] - 1),
                           mlirShapedTypeGetDimSize(to, ranks[1] - 1));
}

static bool rule_view(MlirOperation op) {
    MlirType from = mlirValueGetType(tsr_op_operand(op, 0)),
             to = mlirValueGetType(tsr_op_result(op, 0));
    if (!mlirTypeEqual(mlirShapedTypeGetElementType(from), mlirShapedTypeGetElementType(to)))
        return tsr_op_emit_error(op, TSR_DIAG_TILE_TYPE, "the view has elements of another type");
    if (!mlirValueIsABlockArgument(tsr_op_operand(op, 0)))
        return tsr_op_emit_error(op, TSR_DIAG_TILE_TYPE,
                                 "is a view of a buffer that is not an argument of the kernel");
    return tsr_check_count(op, "elements of the view", elements_of(to), 0, INT64_MAX) &&
           tsr_check_equal(op, "elements of the buffer and of the view", elements_of(from),
                           elements_of(to)) &&
           check_pitches(op, from, to);
}

/* ---- vectors --------------------------------------------------------------------------------- */

static int64_t lanes_of(MlirValue value) {
    MlirType type = mlirValueGetType(value);
    return mlirTypeIsAVector(type) ? mlirShapedTypeGetDimSize(type, 0) : 0;
}

/* tile.gather and tile.scatter */
static bool rule_each(MlirOperation op) {
    bool is_store = !tsr_op_result_count(op);
    MlirValue value = is_store ? tsr_op_operand(op, 0) : tsr_op_result(op, 0);
    int64_t offsets = lanes_of(tsr_op_operand(op, is_store + 1U));
    if (!tsr_check_equal(op, "offsets and elements", offsets, lanes_of(value))) return false;
    MlirValue buffer = tsr_op_operand(op, is_store);
    MlirType type = mlirShapedTypeGetElementType(mlirValueGetType(buffer));
    if (mlirTypeEqual(type, mlirShapedTypeGetElementType(mlirValueGetType(value)))) return true;
    return tsr_op_emit_error(op, TSR_DIAG_TILE_TYPE, "the element type differs from the buffer's");
}

static bool rule_barrier(MlirOperation op) {
    tsr_where p = tsr_check_context(op);
    if (!mlirOperationIsNull(p.func) && !p.in_map) return true;
    return tsr_op_emit_error(op, TSR_DIAG_TILE_CONTEXT, "is %s; expected a tile.func",
                             p.in_map ? "in tile.map" : "in no program");
}

static bool rule_shuffle(MlirOperation op) {
    int64_t lanes = lanes_of(tsr_op_operand(op, 0));
    return check_vectors(op) && tsr_check_multiple(op, "elements", lanes, WARP_LANES) &&
           tsr_check_equal(op, "elements and positions", lanes, lanes_of(tsr_op_operand(op, 1)));
}

static bool rule_butterfly(MlirOperation op) {
    int64_t distance = 0;
    if (!check_vectors(op) ||
        !tsr_check_multiple(op, "elements", lanes_of(tsr_op_operand(op, 0)), WARP_LANES))
        return false;
    if (tsr_op_i64(op, "distance", &distance) && distance > 0 && distance < WARP_LANES &&
        (distance & (distance - 1)) == 0)
        return true;
    return tsr_op_emit_error(op, TSR_DIAG_TILE_SHAPE,
                             "distance is %" PRId64 "; expected a power of two below %d", distance,
                             WARP_LANES);
}

static bool rule_vote(MlirOperation op) {
    const char *how = tsr_op_string(op, "how");
    MlirType type = mlirValueGetType(tsr_op_result(op, 0));
    bool ballot = how && strcmp(how, "ballot") == 0;
    if (!check_vectors(op) ||
        !tsr_check_equal(op, "conditions of a warp", lanes_of(tsr_op_operand(op, 0)), WARP_LANES))
        return false;
    if (!how || (!ballot && strcmp(how, "any") != 0 && strcmp(how, "all") != 0))
        return tsr_op_emit_error(op, TSR_DIAG_TILE_TYPE,
                                 "there is no vote \"%s\"; expected any, all, ballot",
                                 how ? how : "");
    if (mlirIntegerTypeGetWidth(type) == (ballot ? 32u : 1u)) return true;
    return tsr_op_emit_error(op, TSR_DIAG_TILE_TYPE, "\"%s\" gives %s", how, ballot ? "i32" : "i1");
}

/* ---- shared memory --------------------------------------------------------------------------- */

static bool rule_alloc_shared(MlirOperation op) {
    tsr_matrix m = tsr_check_matrix(tsr_op_result(op, 0));
    const char *how = tsr_op_string(op, "swizzle");
    if (!tsr_check_together(op) || !check_ring_type(op, &m)) return false;
    bool is_swizzled = how && strcmp(how, "xor") == 0;
    if (!how || (!is_swizzled && strcmp(how, "none") != 0))
        return tsr_op_emit_error(op, TSR_DIAG_TILE_SWIZZLE,
                                 "there is no swizzle \"%s\"; expected none, xor", how ? how : "");
    int64_t row_bytes = m.columns * m.size, unit = is_swizzled ? SWIZZLE_BYTES : COPY_BYTES;
    if (row_bytes % unit)
        return tsr_op_emit_error(op, TSR_DIAG_TILE_SWIZZLE,
                                 "rows are %" PRId64 " bytes; \"%s\" needs a multiple of %" PRId64,
                                 row_bytes, how, unit);
    if (!is_swizzled || m.rows % SWIZZLE_ROWS == 0) return true;
    return tsr_op_emit_error(op, TSR_DIAG_TILE_SWIZZLE,
                             "there are %" PRId64 " rows; \"xor\" needs a multiple of %d", m.rows,
                             SWIZZLE_ROWS);
}

static bool check_indices(MlirOperation op, MlirValue buffer, size_t count) {
    int64_t rank = mlirShapedTypeGetRank(mlirValueGetType(buffer));
    if (rank < 2)
        return tsr_op_emit_error(op, TSR_DIAG_TILE_SHAPE,
                                 "the buffer has %" PRId64 " dimensions; expected 2 or more", rank);
    return tsr_check_equal(op, "dimensions and indices", rank, (int64_t)count);
}

static bool rule_async_copy(MlirOperation op) {
    size_t count = tsr_op_operand_count(op);
    MlirValue buffer = tsr_op_operand(op, 0);
    if (!tsr_check_together(op) || !check_indices(op, buffer, count - 3) ||
        !tsr_check_ring(op, tsr_op_operand(op, count - 2)))
        return false;
    tsr_matrix ring = tsr_check_matrix(tsr_op_operand(op, count - 2));
    if (mlirValueIsNull(tsr_check_argument(buffer)))
        return tsr_op_emit_error(op, TSR_DIAG_TILE_TYPE,
                                 "copies from a buffer that is not an argument of the kernel");
    if (!tsr_check_multiple(op, "bytes of a stage", ring.rows * ring.columns * ring.size,
                            COPY_UNIT))
        return false;
    if (mlirTypeEqual(ring.element, mlirShapedTypeGetElementType(mlirValueGetType(buffer))))
        return true;
    return tsr_op_emit_error(op, TSR_DIAG_TILE_TYPE,
                             "the buffer and the ring differ in element type");
}

static bool rule_stage(MlirOperation op) { return tsr_check_together(op); }

/* ---- fragments ------------------------------------------------------------------------------- */

static bool check_fragment(MlirOperation op, const tsr_matrix *m) {
    tsr_where p = tsr_check_context(op);
    bool whole = p.warps < 1 || p.warps > WARPS_MAX || /* the function's rule reports it */
                 tsr_check_multiple(op, "rows of a fragment", m->rows, MMA_ROWS * p.warps);
    if (!whole || !tsr_check_count(op, "rows of a fragment", m->rows, 1, 2 * ROWS_MAX) ||
        !tsr_check_multiple(op, "columns of a fragment", m->columns, m->is_acc ? 8 : 16) ||
        !tsr_check_count(op, "columns of a fragment", m->columns, 1, MMA_COLUMNS))
        return false;
    if (m->is_acc ? mlirTypeIsAF32(m->element) : m->size == 2) return true;
    return tsr_op_emit_error(op, TSR_DIAG_TILE_TYPE, "a fragment \"%s\" has elements of %s",
                             m->is_acc ? "acc" : "a", m->is_acc ? "f32" : "bf16 or f16");
}

static bool rule_fill(MlirOperation op) {
    tsr_matrix m = tsr_check_matrix(tsr_op_result(op, 0));
    if (!tsr_check_together(op) || !check_fragment(op, &m)) return false;
    if (m.is_acc && mlirTypeEqual(m.element, mlirValueGetType(tsr_op_operand(op, 0)))) return true;
    return tsr_op_emit_error(op, TSR_DIAG_TILE_TYPE,
                             "the type of the value differs from the fragment's");
}

static bool check_factors(MlirOperation op, const tsr_matrix *a, const tsr_matrix *b,
                          const tsr_matrix *acc) {
    bool at = tsr_op_flag(op, "transpose_a"), bt = tsr_op_flag(op, "transpose_b");
    int64_t depth = at ? a->rows : a->columns;
    if (at && !a->stages)
        return tsr_op_emit_error(op, TSR_DIAG_TILE_TYPE, "a fragment cannot be transposed");
    if (!tsr_check_equal(op, "rows of A and of the sum", at ? a->columns : a->rows, acc->rows) ||
        !tsr_check_equal(op, "columns of B and of the sum", bt ? b->rows : b->columns,
                         acc->columns) ||
        !tsr_check_equal(op, "columns of A and rows of B", depth, bt ? b->columns : b->rows) ||
        !tsr_check_multiple(op, "columns of A", depth, MMA_DEPTH_BYTES / a->size))
        return false;
    return a->size != 4 || (!at && bt) || tsr_tile_rule_strided(op, tsr_check_context(op).has);
}

static bool rule_mma(MlirOperation op) {
    tsr_matrix a = tsr_check_matrix(tsr_op_operand(op, 0)),
               b = tsr_check_matrix(tsr_op_operand(op, 1));
    tsr_matrix acc = tsr_check_matrix(tsr_op_operand(op, 2));
    if (!tsr_check_together(op) || !check_fragment(op, &acc)) return false;
    if (!acc.is_acc || (!a.stages && a.is_acc))
        return tsr_op_emit_error(op, TSR_DIAG_TILE_TYPE,
                                 "expected a fragment \"acc\" as the sum, and as A "
                                 "a ring or a fragment \"a\"");
    bool fits = a.stages ? tsr_check_ring(op, tsr_op_operand(op, 0)) : check_fragment(op, &a);
    if (!fits || !tsr_check_ring(op, tsr_op_operand(op, 1))) return false;
    if (!mlirTypeEqual(a.element, b.element))
        return tsr_op_emit_error(op, TSR_DIAG_TILE_TYPE, "A and B differ in element type");
    if ((a.stages && !tsr_check_is_xor(tsr_op_operand(op, 0))) ||
        !tsr_check_is_xor(tsr_op_operand(op, 1)))
        return tsr_op_emit_error(op, TSR_DIAG_TILE_SWIZZLE,
                                 "the matrix units only read rings with swizzle \"xor\"");
    return check_factors(op, &a, &b, &acc);
}

static bool check_same(MlirOperation op, const tsr_matrix *m, const tsr_matrix *ring) {
    return tsr_check_equal(op, "rows", m->rows, ring->rows) &&
           tsr_check_equal(op, "columns", m->columns, ring->columns);
}

static bool rule_load_shared(MlirOperation op) {
    tsr_matrix ring = tsr_check_matrix(tsr_op_operand(op, 0)),
               m = tsr_check_matrix(tsr_op_result(op, 0));
    tsr_matrix transposed = {.rows = m.columns, .columns = m.rows};
    bool is_transposed = tsr_op_has(op, "transpose");
    if (!tsr_check_together(op) || !tsr_check_ring(op, tsr_op_operand(op, 0)) ||
        !check_fragment(op, &m) || !check_same(op, is_transposed ? &transposed : &m, &ring))
        return false;
    bool is_same = mlirTypeEqual(m.element, ring.element);
    if (is_same && (m.is_acc || !is_transposed)) return true;
    return tsr_op_emit_error(op, TSR_DIAG_TILE_TYPE,
                             is_same ? "a fragment \"a\" cannot be transposed"
                                     : "the ring and the fragment differ in element type");
}

static bool rule_store_shared(MlirOperation op) {
    tsr_matrix m = tsr_check_matrix(tsr_op_operand(op, 0)),
               ring = tsr_check_matrix(tsr_op_operand(op, 1));
    if (!tsr_check_together(op) || !tsr_check_ring(op, tsr_op_operand(op, 1)) ||
        !check_fragment(op, &m) || !check_same(op, &m, &ring))
        return false;
    return m.is_acc || tsr_op_emit_error(op, TSR_DIAG_TILE_TYPE, "expected a fragment \"acc\"");
}

static bool rule_map(MlirOperation op) {
    enum { ELEMENTS = 64 };
    tsr_matrix m = tsr_check_matrix(tsr_op_operand(op, 0));
    MlirBlock body = mlirRegionGetFirstBlock(mlirOperationGetRegion(op, 0));
    intptr_t count = (intptr_t)tsr_op_operand_count(op); /* `with` adds one to each */
    if (!tsr_check_together(op) || !check_fragment(op, &m)) return false;
    if (!m.is_acc || mlirBlockGetNumArguments(body) != count)
        return tsr_op_emit_error(
            op, TSR_DIAG_TILE_TYPE,
            "expected a fragment \"acc\" and a body of rows, columns and elements");
    for (intptr_t i = 0; i < count; i++) {
        MlirType type = mlirValueGetType(mlirBlockGetArgument(body, i));
        bool fits = mlirTypeIsAVector(type) && mlirShapedTypeGetDimSize(type, 0) == ELEMENTS;
        MlirType element = fits ? mlirShapedTypeGetElementType(type) : type;
        if (!fits || !(i < 2 ? mlirTypeIsAIndex(element) : mlirTypeIsAF32(element)))
            return tsr_op_emit_error(op, TSR_DIAG_TILE_TYPE,
                                     "argument %zd of the body is not a vector<%dx%s>", i, ELEMENTS,
                                     i < 2 ? "index" : "f32");
    }
    MlirOperation yield = mlirBlockGetTerminator(body);
    if (tsr_op_is(yield, TSR_TILE_YIELD) &&
        mlirTypeEqual(mlirValueGetType(tsr_op_operand(yield, 0)),
                      mlirValueGetType(mlirBlockGetArgument(body, 2))))
        return true;
    return tsr_op_emit_error(op, TSR_DIAG_TILE_TYPE,
                             "the body does not end with tile.yield of elements");
}

/* The number of programs of the kernel that run together. */
static int64_t together_of(MlirOperation op) {
    int64_t count = 1;
    tsr_where p = tsr_check_context(op);
    if (!mlirOperationIsNull(p.func)) tsr_op_i64(p.func, TSR_TOGETHER_NAME, &count);
    return count;
}

static bool rule_sum_programs(MlirOperation op) {
    tsr_matrix m = tsr_check_matrix(tsr_op_operand(op, 0)),
               part = tsr_check_matrix(tsr_op_result(op, 0));
    if (!tsr_check_together(op) || !check_fragment(op, &m) || !check_fragment(op, &part))
        return false;
    if (!m.is_acc || !part.is_acc)
        return tsr_op_emit_error(op, TSR_DIAG_TILE_TYPE, "expected fragments \"acc\"");
    int64_t together = together_of(op);
    return tsr_check_count(op, "programs that run together", together, 2, TSR_TOGETHER_MAX) &&
           tsr_check_equal(op, "rows of the sum and of a part", m.rows, part.rows) &&
           tsr_check_equal(op, "columns of the sum and of all parts", m.columns,
                           part.columns * together);
}

static bool rule_store_fragment(MlirOperation op) {
    tsr_matrix m = tsr_check_matrix(tsr_op_operand(op, 0));
    MlirValue buffer = tsr_op_operand(op, 1);
    MlirAttribute segments = tsr_op_attr(op, "operandSegmentSizes");
    size_t indices = tsr_op_operand_count(op) - 2;
    bool through = !mlirAttributeIsNull(segments) && mlirDenseI32ArrayGetElement(segments, 3) == 1;
    MlirType stored = mlirShapedTypeGetElementType(mlirValueGetType(buffer));
    if (!tsr_check_together(op) || !check_fragment(op, &m) ||
        !check_indices(op, buffer, indices - through))
        return false;
    if (!m.is_acc || !tsr_check_size(stored) || tsr_check_size(stored) > 4)
        return tsr_op_emit_error(op, TSR_DIAG_TILE_TYPE,
                                 "expected a fragment \"acc\" and a buffer of f32, bf16 or f16");
    if (mlirValueIsNull(tsr_check_argument(buffer)))
        return tsr_op_emit_error(op, TSR_DIAG_TILE_TYPE,
                                 "stores to a buffer that is not an argument of the kernel");
    if (!through) return true;
    if (!tsr_check_ring(op, tsr_op_operand(op, indices + 1))) return false;
    tsr_matrix ring = tsr_check_matrix(tsr_op_operand(op, indices + 1));
    if (!mlirTypeEqual(ring.element, stored))
        return tsr_op_emit_error(op, TSR_DIAG_TILE_TYPE,
                                 "the ring and the buffer differ in element type");
    if (!tsr_check_is_xor(tsr_op_operand(op, indices + 1)))
        return tsr_op_emit_error(op, TSR_DIAG_TILE_SWIZZLE, "through: expected swizzle \"xor\"");
    return tsr_check_equal(op, "rows", m.rows, ring.rows) &&
           tsr_check_equal(op, "bytes of a row of the ring", ring.columns * ring.size,
                           SWIZZLE_BYTES) &&
           (tsr_op_flag(op, "transposed") ||
            tsr_check_multiple(op, "columns", m.columns, ring.columns));
}

#define rule_none NULL
#define rule_attend tsr_tile_rule_attend
#define rule_load_fragment tsr_tile_rule_load_fragment
#define rule_segment tsr_tile_rule_segment
#define rule_dot tsr_tile_rule_dot
#define rule_dot_bytes tsr_tile_rule_dot_bytes
bool tsr_tile_verify_op(MlirOperation op) {
    static bool (*const rules[TSR_OP_COUNT])(MlirOperation op) = {
#define X(ID, mnemonic, Class, WHEN, rule) [TSR_TILE_##ID] = rule_##rule,
#include "compiler/tile/ops.def"
#undef X
    };
    tsr_op id = tsr_op_of(op);
    TSR_ASSERT(rules[id]); /* of a WHEN that is not NEVER */
    return rules[id](op);
}
