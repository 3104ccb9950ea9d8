/* SPDX-License-Identifier: Apache-2.0
 *
 * The rule of tile.attend, forward and backward.
 */
#include "compiler/ir/mlir.h"
#include "compiler/ir/targets/features.h"
#include "compiler/tile/attributes.h"
#include "compiler/tile/tile.h"
#include "compiler/tile/verify.h"

#include <inttypes.h>
#include <string.h>

enum {
    ATTEND_BUFFERS = 4,
    ATTEND_INDICES = 3,
    ATTEND_RINGS = 3,
    ATTEND_SYNC_RINGS = 2, /* mma.sync: o is stored through the ring of the queries */
    ATTEND_ROWS_MAX = 32,  /* limit for a warp */
    ATTEND_KEYS_MAX = 256, /* limit for a block */
    WARP_THREADS = 32,
    CHUNK_ELEMENTS = 8,
    WARPS_MAX = 12,
    STAGES_MAX = 16,
    MMA_ROWS = 16,
    COLUMNS_MAX = 128,
    SWIZZLE_BYTES = 128,
    ATTEND_SIZE_MAX = 1 << 30, /* positions are counted in 32 bits */
    GROUP_ROWS = 64,
};

static bool check_attend_counts(MlirOperation op, const int64_t counts[3]) {
    return tsr_check_count(op, "buffers of attention", counts[0], ATTEND_BUFFERS,
                           ATTEND_BUFFERS + 1) &&
           tsr_check_equal(op, "indices, expected and given", ATTEND_INDICES, counts[1]) &&
           tsr_check_count(op, "rings of attention", counts[2], ATTEND_SYNC_RINGS, ATTEND_RINGS);
}

/* Checks that o has the sizes of q, that v has the sizes of k, and that l has the sizes of q
 * without the last dim. */
static bool check_attend_sizes(MlirOperation op, int64_t count) {
    for (intptr_t d = 0; d < 3; d++) {
        if (!tsr_check_count(op, "sizes of queries", tsr_attend_dim(op, 0, d), 1,
                             ATTEND_SIZE_MAX) ||
            !tsr_check_count(op, "sizes of keys", tsr_attend_dim(op, 1, d), 1, ATTEND_SIZE_MAX) ||
            !tsr_check_equal(op, "sizes of keys and of values", tsr_attend_dim(op, 1, d),
                             tsr_attend_dim(op, 2, d)) ||
            !tsr_check_equal(op, "sizes of queries and of the result", tsr_attend_dim(op, 0, d),
                             tsr_attend_dim(op, 3, d)))
            return false;
        if (count > ATTEND_BUFFERS && d < 2 &&
            !tsr_check_equal(op, "sizes of queries and of logarithms", tsr_attend_dim(op, 0, d),
                             tsr_attend_dim(op, ATTEND_BUFFERS, d)))
            return false;
    }
    return tsr_check_equal(op, "sizes of heads", tsr_attend_dim(op, 0, 2),
                           tsr_attend_dim(op, 1, 2));
}

/* q, k, v and o are [.., .., D] of one type of 16 bits; l is f32. */
static bool check_attend_buffers(MlirOperation op, int64_t count, MlirType *out_element,
                                 int64_t *out_columns) {
    MlirType first = mlirValueGetType(tsr_op_operand(op, 0));
    *out_element = mlirShapedTypeGetElementType(first);
    for (int64_t i = 0; i < count; i++) {
        MlirType type = mlirValueGetType(tsr_op_operand(op, (size_t)i));
        MlirType element = mlirShapedTypeGetElementType(type);
        bool is_matrix = i < ATTEND_BUFFERS;
        if (mlirValueIsNull(tsr_check_argument(tsr_op_operand(op, (size_t)i))))
            return tsr_op_emit_error(op, TSR_DIAG_TILE_TYPE,
                                     "buffer %" PRId64 " is not an argument of the kernel", i);
        if (is_matrix ? !mlirTypeEqual(element, *out_element) || tsr_check_size(element) != 2
                      : !mlirTypeIsAF32(element))
            return tsr_op_emit_error(op, TSR_DIAG_TILE_TYPE,
                                     "expected q, k, v and o all of bf16 or of f16, l of f32");
        if (!tsr_check_equal(op, "dimensions, expected and given", is_matrix ? 3 : 2,
                             mlirShapedTypeGetRank(type)))
            return false;
    }
    *out_columns = tsr_attend_dim(op, 0, 2);
    return check_attend_sizes(op, count);
}

static bool check_attend_ring(MlirOperation op, size_t index, MlirType element, int64_t columns,
                              int64_t rows) {
    MlirValue value = tsr_op_operand(op, index);
    tsr_matrix ring = tsr_check_matrix(value);
    if (!tsr_check_ring(op, value)) return false;
    if (!mlirTypeEqual(ring.element, element))
        return tsr_op_emit_error(op, TSR_DIAG_TILE_TYPE,
                                 "the buffers and a ring differ in element type");
    if (!tsr_check_is_xor(value))
        return tsr_op_emit_error(op, TSR_DIAG_TILE_SWIZZLE,
                                 "the matrix units only read rings with swizzle \"xor\"");
    return tsr_check_equal(op, "columns of a ring, expected and given", columns, ring.columns) &&
           (rows ? tsr_check_equal(op, "rows of a ring, expected and given", rows, ring.rows)
                 : tsr_check_multiple(op, "rows of the ring of keys", ring.rows, GROUP_ROWS));
}

static bool check_attend_attributes(MlirOperation op) {
    double scale = 0;
    if (tsr_op_f64(op, "scale", &scale) && scale > 0) return tsr_attend_check_samples(op);
    return tsr_op_emit_error(op, TSR_DIAG_TILE_SHAPE, "scale is %g; expected more than 0", scale);
}

/* Each thread copies 16 bytes, always of the same columns; the rows of a ring must be a multiple of
 * the rows that all threads copy at once. */
static bool check_sync_ring(MlirOperation op, size_t index, int64_t stages, MlirType element,
                            int64_t columns, int64_t warps) {
    tsr_matrix ring = tsr_check_matrix(tsr_op_operand(op, index));
    int64_t at_once = warps * WARP_THREADS * CHUNK_ELEMENTS / columns;
    if (!check_attend_ring(op, index, element, columns, ring.rows) ||
        !tsr_check_multiple(op, "rows of a ring", ring.rows,
                            at_once > MMA_ROWS ? at_once : MMA_ROWS))
        return false;
    return stages ? tsr_check_equal(op, "stages of the resident operand, expected and given",
                                    stages, ring.stages)
                  : tsr_check_count(op, "stages of a ring", ring.stages, 2, STAGES_MAX);
}

/* Chunks of 16 bytes are counted in 32 bits. */
static bool check_sync_buffers(MlirOperation op) {
    for (size_t i = 0; i < tsr_attend_buffers(op); i++) {
        MlirType type = mlirValueGetType(tsr_op_operand(op, i));
        int64_t chunks = 1;
        bool fits = true;
        for (intptr_t d = 0; d < mlirShapedTypeGetRank(type); d++)
            fits =
                fits && !__builtin_mul_overflow(chunks, mlirShapedTypeGetDimSize(type, d), &chunks);
        if (!fits || chunks / CHUNK_ELEMENTS > UINT32_MAX)
            return tsr_op_emit_error(op, TSR_DIAG_TILE_SHAPE,
                                     "buffer %zu has more than 2^32 chunks of %d elements", i,
                                     CHUNK_ELEMENTS);
    }
    return true;
}

/* Checks that the warps divide the rows of the resident operand evenly. */
static bool check_sync_rows(MlirOperation op, size_t index, int64_t warps) {
    int64_t rows = tsr_check_matrix(tsr_op_operand(op, index)).rows;
    return tsr_check_multiple(op, "rows of the resident operand", rows, warps * MMA_ROWS) &&
           tsr_check_count(op, "rows of a warp", rows / warps, MMA_ROWS, ATTEND_ROWS_MAX);
}

static bool check_sync_rings(MlirOperation op, MlirType element, int64_t columns, int64_t warps) {
    size_t at = tsr_op_operand_count(op) - ATTEND_SYNC_RINGS;
    return check_sync_buffers(op) && check_sync_ring(op, at, 1, element, columns, warps) &&
           check_sync_ring(op, at + 1, 0, element, columns, warps) &&
           check_sync_rows(op, at, warps) &&
           tsr_check_count(op, "rows of the ring of keys",
                           tsr_check_matrix(tsr_op_operand(op, at + 1)).rows, MMA_ROWS,
                           ATTEND_KEYS_MAX);
}

static bool rule_forward(MlirOperation op, int64_t warps) {
    MlirAttribute segments = tsr_op_attr(op, "operandSegmentSizes");
    int64_t columns = 0, rows = warps * MMA_ROWS,
            counts[] = {(int64_t)tsr_attend_buffers(op), 0, 0};
    for (int i = 1; i < 3; i++) counts[i] = mlirDenseI32ArrayGetElement(segments, i);
    MlirType element;
    if (!check_attend_counts(op, counts) ||
        !check_attend_buffers(op, counts[0], &element, &columns) ||
        !tsr_check_multiple(op, "columns of a head", columns, SWIZZLE_BYTES / 2) ||
        !tsr_check_count(op, "columns of a head", columns, 1, COLUMNS_MAX) ||
        !check_attend_attributes(op))
        return false;
    if (counts[2] == ATTEND_SYNC_RINGS) return check_sync_rings(op, element, columns, warps);
    size_t at = tsr_op_operand_count(op) - ATTEND_RINGS;
    return tsr_check_equal(op, "stages of the ring of results, expected and given",
                           columns / (SWIZZLE_BYTES / 2),
                           tsr_check_matrix(tsr_op_operand(op, at + 2)).stages) &&
           check_attend_ring(op, at, element, columns, rows) &&
           check_attend_ring(op, at + 1, element, columns, 0) &&
           check_attend_ring(op, at + 2, element, SWIZZLE_BYTES / 2, rows);
}

/* ---- the gradient ---------------------------------------------------------------------------- */

enum {
    GRAD_KEYS = 128,          /* keys of a tile */
    GRAD_ELEMENTS = 64 * 128, /* elements of a step's queries */
    GRAD_STAGES = 2,
    GRAD_WARPS = 8,
};

/* Checks one buffer. `like` names the buffer with the same sizes: q or k; l is q without the last
 * dim. `kind` is n for the 16-bit type of q, f for f32, i for i32. */
static bool check_grad_buffer(MlirOperation op, size_t index, char like, char kind) {
    MlirValue value = tsr_op_operand(op, index);
    MlirType first = mlirShapedTypeGetElementType(mlirValueGetType(tsr_op_operand(op, 0)));
    MlirType element = mlirShapedTypeGetElementType(mlirValueGetType(value));
    intptr_t rank = like == 'l' ? 2 : 3;
    bool right = kind == 'n' ? mlirTypeEqual(element, first) && tsr_check_size(element) == 2
                 : kind == 'f'
                     ? mlirTypeIsAF32(element)
                     : mlirTypeIsAInteger(element) && mlirIntegerTypeGetWidth(element) == 32;
    if (mlirValueIsNull(tsr_check_argument(value)))
        return tsr_op_emit_error(op, TSR_DIAG_TILE_TYPE,
                                 "buffer %zu is not an argument of the kernel", index);
    if (!right)
        return tsr_op_emit_error(op, TSR_DIAG_TILE_TYPE,
                                 "buffer %zu has elements of another type; expected %s", index,
                                 kind == 'n'   ? "those of q, of 16 bits"
                                 : kind == 'f' ? "f32"
                                               : "i32");
    if (!tsr_check_equal(op, "dimensions, expected and given", rank,
                         mlirShapedTypeGetRank(mlirValueGetType(value))))
        return false;
    for (intptr_t d = 0; d < rank; d++) {
        int64_t expected = tsr_attend_dim(op, like == 'k' ? 1 : 0, d);
        if (kind == 'i' && d == 1) expected /= GRAD_ELEMENTS / tsr_attend_dim(op, 0, 2);
        if (!tsr_check_equal(op, "sizes of a buffer, expected and given", expected,
                             tsr_attend_dim(op, index, d)))
            return false;
    }
    return true;
}

/* `likes` and `kinds` have one letter for each buffer, as above. */
static bool check_grad_buffers(MlirOperation op, const char *likes, const char *kinds) {
    for (size_t i = 0; i < 2; i++)
        if (!tsr_check_equal(op, "dimensions, expected and given", 3,
                             mlirShapedTypeGetRank(mlirValueGetType(tsr_op_operand(op, i)))))
            return false;
    int64_t columns = tsr_attend_dim(op, 0, 2), size = tsr_attend_dim(op, 0, 1),
            heads = tsr_attend_dim(op, 0, 0);
    int64_t key_heads = tsr_attend_dim(op, 1, 0);
    if (!tsr_check_count(op, "sizes of queries", size, GRAD_KEYS, ATTEND_SIZE_MAX) ||
        !tsr_check_multiple(op, "queries", size, GRAD_KEYS) ||
        !tsr_check_equal(op, "queries and keys", size, tsr_attend_dim(op, 1, 1)) ||
        !tsr_check_multiple(op, "columns of a head", columns, SWIZZLE_BYTES / 2) ||
        !tsr_check_count(op, "columns of a head", columns, 1, COLUMNS_MAX) ||
        !tsr_check_equal(op, "sizes of heads", columns, tsr_attend_dim(op, 1, 2)) ||
        !tsr_check_count(op, "heads of queries", heads, 1, ATTEND_SIZE_MAX) ||
        !tsr_check_count(op, "heads of keys", key_heads, 1, heads) ||
        !tsr_check_multiple(op, "heads of queries", heads, key_heads))
        return false;
    for (size_t i = 0; likes[i]; i++)
        if (!check_grad_buffer(op, i, likes[i], kinds[i])) return false;
    return true;
}

static bool check_grad_ring(MlirOperation op, size_t index, int64_t stages, int64_t rows,
                            int64_t columns, char kind) {
    MlirValue value = tsr_op_operand(op, index);
    tsr_matrix ring = tsr_check_matrix(value);
    MlirType first = mlirShapedTypeGetElementType(mlirValueGetType(tsr_op_operand(op, 0)));
    if (!tsr_check_ring(op, value)) return false;
    if (kind == 'n' ? !mlirTypeEqual(ring.element, first) : !mlirTypeIsAF32(ring.element))
        return tsr_op_emit_error(op, TSR_DIAG_TILE_TYPE,
                                 "the buffers and a ring differ in element type");
    if (tsr_check_is_xor(value) != (kind != 'r'))
        return tsr_op_emit_error(op, TSR_DIAG_TILE_SWIZZLE, "expected a ring of swizzle \"%s\"",
                                 kind == 'r' ? "none" : "xor");
    return tsr_check_equal(op, "stages of a ring, expected and given", stages, ring.stages) &&
           tsr_check_equal(op, "rows of a ring, expected and given", rows, ring.rows) &&
           tsr_check_equal(op, "columns of a ring, expected and given", columns, ring.columns);
}

static bool rule_backward(MlirOperation op, int64_t warps) {
    enum { BUFFERS = 10, RINGS = 7 };
    MlirAttribute segments = tsr_op_attr(op, "operandSegmentSizes");
    int64_t indices = mlirDenseI32ArrayGetElement(segments, 1),
            rings = mlirDenseI32ArrayGetElement(segments, 2);
    if (!tsr_check_equal(op, "buffers, expected and given", BUFFERS,
                         (int64_t)tsr_attend_buffers(op)) ||
        !tsr_check_equal(op, "indices, expected and given", ATTEND_INDICES, indices) ||
        !tsr_check_equal(op, "rings, expected and given", RINGS, rings) ||
        !tsr_check_equal(op, "warps, expected and given", GRAD_WARPS, warps) ||
        !check_grad_buffers(op, "qkkqlllqkk", "nnnnffifnn") || !check_attend_attributes(op))
        return false;
    if (!tsr_op_is(mlirOperationGetParentOperation(op), TSR_TILE_FUNC))
        return tsr_op_emit_error(op, TSR_DIAG_TILE_CONTEXT,
                                 "is in a loop; expected it in the block of the tile.func");
    int64_t columns = tsr_attend_dim(op, 0, 2), step = GRAD_ELEMENTS / columns;
    size_t at = tsr_op_operand_count(op) - RINGS;
    return check_grad_ring(op, at, 1, GRAD_KEYS, columns, 'n') &&
           check_grad_ring(op, at + 1, 1, GRAD_KEYS, columns, 'n') &&
           check_grad_ring(op, at + 2, GRAD_STAGES, step, columns, 'n') &&
           check_grad_ring(op, at + 3, GRAD_STAGES, step, columns, 'n') &&
           check_grad_ring(op, at + 4, GRAD_STAGES, GRAD_KEYS, step, 'n') &&
           check_grad_ring(op, at + 5, GRAD_STAGES, step, columns, 'f') &&
           check_grad_ring(op, at + 6, GRAD_STAGES, 2, step, 'r');
}

/* ---- the gradient with mma.sync: two kernels ------------------------------------------------- */

enum { SYNC_SIDES = 2, SYNC_RINGS = 2 * SYNC_SIDES };

/* `halved`: each half of the warps has all rows. */
static bool check_grad_sync_rings(MlirOperation op, bool of_keys, bool halved, size_t at,
                                  int64_t warps) {
    MlirType element = mlirShapedTypeGetElementType(mlirValueGetType(tsr_op_operand(op, 0)));
    int64_t columns = tsr_attend_dim(op, 0, 2), least = halved ? 3 : 2;
    tsr_matrix own[SYNC_SIDES], other[SYNC_SIDES];
    for (size_t i = 0; i < SYNC_SIDES; i++) {
        if (!check_sync_ring(op, at + i, 1, element, columns, warps) ||
            !check_sync_ring(op, at + SYNC_SIDES + i, 0, element, columns, warps))
            return false;
        own[i] = tsr_check_matrix(tsr_op_operand(op, at + i));
        other[i] = tsr_check_matrix(tsr_op_operand(op, at + SYNC_SIDES + i));
    }
    return check_sync_rows(op, at, halved ? warps / 2 : warps) &&
           tsr_check_equal(op, "rows of the resident operand", own[0].rows, own[1].rows) &&
           tsr_check_equal(op, "rows of a step", other[0].rows, other[1].rows) &&
           tsr_check_equal(op, "stages of a step", other[0].stages, other[1].stages) &&
           tsr_check_count(op, "stages of a step", other[0].stages, least, STAGES_MAX) &&
           tsr_check_multiple(op, "rows of the resident operand", own[0].rows, other[0].rows) &&
           (GRAD_KEYS % own[0].rows == 0 ||
            tsr_check_equal(op, "rows of the resident operand, expected and given", GRAD_KEYS,
                            own[0].rows)) &&
           (!of_keys ||
            check_grad_ring(op, at + SYNC_RINGS, other[0].stages, 2, other[0].rows, 'r')) &&
           (!halved ||
            check_grad_ring(op, at + SYNC_RINGS + 1, 2, own[0].rows, other[0].rows, 'r'));
}

static bool rule_backward_sync(MlirOperation op, bool of_keys, int64_t warps) {
    MlirAttribute segments = tsr_op_attr(op, "operandSegmentSizes");
    const char *likes = of_keys ? "qkkqllkk" : "qkkqllq", *kinds = of_keys ? "nnnnffnn" : "nnnnffn";
    int64_t rings = mlirDenseI32ArrayGetElement(segments, 2), least = SYNC_RINGS + of_keys;
    return tsr_check_equal(op, "buffers, expected and given", (int64_t)strlen(likes),
                           (int64_t)tsr_attend_buffers(op)) &&
           tsr_check_equal(op, "indices, expected and given", ATTEND_INDICES,
                           mlirDenseI32ArrayGetElement(segments, 1)) &&
           tsr_check_count(op, "rings", rings, least, least + of_keys) &&
           check_grad_buffers(op, likes, kinds) && check_sync_buffers(op) &&
           check_attend_attributes(op) &&
           check_grad_sync_rings(op, of_keys, rings > least,
                                 tsr_op_operand_count(op) - (size_t)rings, warps);
}

bool tsr_tile_rule_attend(MlirOperation op) {
    static const char *const hows[] = {"forward", "backward", "backward_queries", "backward_keys"};
    enum { FORWARD, BACKWARD, QUERIES, KEYS, HOWS };
    const char *how = tsr_op_string(op, "how");
    int which = 0;
    tsr_where p = tsr_check_context(op);
    if (!tsr_check_together(op)) return false;
    while (which < HOWS && (!how || strcmp(how, hows[which]) != 0)) which++;
    if (which == HOWS)
        return tsr_op_emit_error(op, TSR_DIAG_TILE_TYPE,
                                 "there is no attention \"%s\"; expected forward, backward, "
                                 "backward_queries or backward_keys",
                                 how ? how : "");
    bool has_wgmma = tsr_feature_has(p.has, "wgmma.");
    if (p.has && which != FORWARD && has_wgmma != (which == BACKWARD))
        return tsr_op_emit_error(op, TSR_DIAG_TILE_TARGET,
                                 "there is no machine code for \"%s\" on '%s'; expected %s", how,
                                 p.target, has_wgmma ? "\"backward\"" : "'cuda:sm_90a'");
    if (p.warps < 1 || p.warps > WARPS_MAX) return true; /* the function's rule reports it */
    if (!tsr_attend_check_heads(op)) return false;
    if (which == BACKWARD) return rule_backward(op, p.warps);
    if (which != FORWARD) return rule_backward_sync(op, which == KEYS, p.warps);
    if (!rule_forward(op, p.warps)) return false;
    int64_t rings = mlirDenseI32ArrayGetElement(tsr_op_attr(op, "operandSegmentSizes"), 2);
    return !p.has || tsr_check_equal(op, "rings on this target, expected and given",
                                     has_wgmma ? ATTEND_RINGS : ATTEND_SYNC_RINGS, rings);
}
