/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/tile/products/words.h"

#include "compiler/diag/diag.h"
#include "compiler/graph/graph.h"
#include "compiler/ir/attributes.h"
#include "compiler/ir/targets/target.h"
#include "compiler/tile/kernels/runs.h"
#include "compiler/tile/open.h"
#include "compiler/tile/tile.h"

#include <inttypes.h>

enum { BYTE_BITS = 8 };

tsr_gemm_words tsr_words_of(MlirOperation product) {
    tsr_type a, b;
    bool known = tsr_op_has(product, TSR_WORDS_NAME) &&
                 tsr_value_type(tsr_op_operand(product, 0), &a) &&
                 tsr_value_type(tsr_op_operand(product, 1), &b);
    if (!known) return (tsr_gemm_words){0};
    return (tsr_gemm_words){.is = true,
                            .a_unsigned = a.dtype == TSR_DTYPE_UI32,
                            .b_unsigned = b.dtype == TSR_DTYPE_UI32};
}

MlirValue tsr_words_dot(tsr_tile_builder *b, const tsr_gemm_words *words, MlirValue x, MlirValue y,
                        MlirValue sum) {
    tsr_attr attrs[3] = {{0}};
    size_t count = 0;
    if (words->a_unsigned)
        attrs[count++] = (tsr_attr){"a_unsigned", tsr_attr_make_unit(b->at.context)};
    if (words->b_unsigned)
        attrs[count++] = (tsr_attr){"b_unsigned", tsr_attr_make_unit(b->at.context)};
    MlirValue operands[] = {x, y, sum};
    return tsr_build_value(&b->at, "tile.dot_bytes", operands, 3, mlirValueGetType(sum), attrs);
}

/* ---- words of rows --------------------------------------------------------------------------- */

/* Bytes as numbers of 32 bits, at the position of byte `number` of a word. */
static MlirValue move_byte(tsr_tile_builder *b, MlirValue bytes, uint32_t lanes, int64_t number) {
    MlirType type = tsr_tile_value_type(b, TSR_DTYPE_I32, lanes);
    MlirValue wide = tsr_tile_to(b, "arith.extui", bytes, type);
    if (!number) return wide;
    return tsr_tile_2(b, "arith.shli", wide, tsr_tile_int(b, type, BYTE_BITS * number));
}

/* The words of `count` rows that begin at `at`, `step` elements apart. */
static MlirValue join_rows(tsr_tile_builder *b, tsr_dtype dtype, MlirValue buffer, MlirValue at,
                           int64_t step, int64_t count, uint32_t lanes, MlirValue mask) {
    MlirValue word = tsr_tile_null;
    for (int64_t i = 0; i < count; i++) {
        MlirValue from = tsr_tile_offset(b, at, i * step);
        MlirValue part =
            move_byte(b, tsr_tile_load_stored(b, dtype, buffer, from, lanes, mask), lanes, i);
        word = i ? tsr_tile_2(b, "arith.ori", word, part) : part;
    }
    return word;
}

static void pack_words(tsr_tile_builder *b, const tsr_gemm_pack *p, MlirValue step, int64_t count) {
    MlirValue from = tsr_tile_mul(b, step, TSR_WORD_BYTES * p->from_step);
    MlirValue to = tsr_tile_add(b, p->to_at, tsr_tile_mul(b, step, p->to_step));
    for (uint32_t v = 0; v < p->vectors; v++) {
        int64_t column = (int64_t)v * p->lanes;
        MlirValue mask = tsr_tile_null;
        if (!mlirValueIsNull(p->columns))
            mask = tsr_tile_mask(b, tsr_tile_offset(b, p->columns, -column), p->lanes);
        MlirValue at = tsr_tile_offset(b, tsr_tile_add(b, p->from_at, from), column);
        MlirValue word =
            join_rows(b, p->from_dtype, p->from, at, p->from_step, count, p->lanes, mask);
        tsr_tile_store_stored(b, word, p->to, tsr_tile_offset(b, to, column), tsr_tile_null);
    }
}

void tsr_words_pack_rows(tsr_tile_builder *b, const tsr_gemm_pack *p, int64_t rows) {
    int64_t whole = rows / TSR_WORD_BYTES;
    TSR_TILE_FOR(b, loop, tsr_tile_index(b, 0), tsr_tile_index(b, whole), 1) {
        pack_words(b, p, loop.index, TSR_WORD_BYTES);
    }
    if (rows % TSR_WORD_BYTES) pack_words(b, p, tsr_tile_index(b, whole), rows % TSR_WORD_BYTES);
}

/* ---- family `words` -------------------------------------------------------------------------- */

typedef struct words {
    tsr_tile_group *group;
    tsr_dtype dtype;
    MlirValue from, to;
    tsr_axis bytes, packed; /* the axis in the operand, in the result */
    uint32_t lanes;
} words;

/* Words of elements that are `inner` apart, of `lanes` neighbours at offset `at` of the result. */
static void emit_words(words *w, MlirValue outer, MlirValue word, MlirValue at, int64_t count,
                       MlirValue mask) {
    tsr_tile_builder *b = &w->group->b;
    int64_t inner = w->bytes.inner;
    MlirValue row = tsr_tile_add(b, tsr_tile_mul(b, outer, w->bytes.size),
                                 tsr_tile_mul(b, word, TSR_WORD_BYTES));
    MlirValue from = tsr_tile_add(b, tsr_tile_mul(b, row, inner), at);
    MlirValue to = tsr_tile_add(b, tsr_tile_mul(b, outer, w->packed.size), word);
    to = tsr_tile_add(b, tsr_tile_mul(b, to, inner), at);
    MlirValue value = join_rows(b, w->dtype, w->from, from, inner, count, w->lanes, mask);
    tsr_tile_store_stored(b, value, w->to, to, mask);
}

/* All neighbours of one word. */
static void emit_row(words *w, MlirValue outer, MlirValue word, int64_t count) {
    tsr_tile_builder *b = &w->group->b;
    int64_t inner = w->bytes.inner;
    TSR_TILE_FOR(b, loop, tsr_tile_index(b, 0), tsr_tile_index(b, inner), w->lanes ? w->lanes : 1) {
        MlirValue mask = tsr_tile_null;
        if (w->lanes && inner % w->lanes)
            mask =
                tsr_tile_mask(b, tsr_tile_sub(b, tsr_tile_index(b, inner), loop.index), w->lanes);
        emit_words(w, outer, word, loop.index, count, mask);
    }
}

static void emit_outer(words *w, MlirValue outer) {
    tsr_tile_builder *b = &w->group->b;
    int64_t whole = w->bytes.size / TSR_WORD_BYTES, rest = w->bytes.size % TSR_WORD_BYTES;
    TSR_TILE_FOR(b, loop, tsr_tile_index(b, 0), tsr_tile_index(b, whole), 1) {
        emit_row(w, outer, loop.index, TSR_WORD_BYTES);
    }
    if (rest) emit_row(w, outer, tsr_tile_index(b, whole), rest);
}

tsr_result tsr_tile_lower_words(tsr_tile_group *group) {
    enum { PROGRAM_BYTES = 64 * 1024 };
    tsr_tile_builder *b = &group->b;
    uint32_t number = 0;
    int64_t axis = 0;
    TRY(group->ctx, tsr_runs_argument(group, 0, &number));
    if (!tsr_op_i64(group->root, "axis", &axis))
        FAIL(group->ctx, TSR_INTERNAL, "'%s': malformed words", group->name);
    words w = {.group = group,
               .dtype = group->types[number].dtype,
               .from = group->buffers[number],
               .to = group->buffers[group->input_count],
               .bytes = tsr_axis_of(&group->types[number].shape, axis),
               .packed = tsr_axis_of(&group->types[group->input_count].shape, axis)};
    int64_t each = w.bytes.size * w.bytes.inner;
    if (!each || !w.bytes.outer) return TSR_SUCCESS;
    if (w.bytes.inner > 1)
        w.lanes = tsr_lanes_fit(b->target->vector_bytes / TSR_WORD_BYTES, w.bytes.inner);
    int64_t items = PROGRAM_BYTES / each + 1;
    if (items > w.bytes.outer) items = w.bytes.outer;
    group->grid = tsr_divide_up(w.bytes.outer, items);
    tsr_tile_open_grid(group, w.bytes.outer, items, 1);
    MlirValue begin = tsr_tile_index(b, 0), end = tsr_tile_open_count(group, w.bytes.outer);
    if (group->grid > 1) {
        begin = tsr_tile_mul(b, tsr_tile_program_id(b), items);
        end = tsr_tile_min(b, tsr_tile_offset(b, begin, items), end);
    }
    TSR_TILE_FOR(b, loop, begin, end, 1) { emit_outer(&w, loop.index); }
    return TSR_SUCCESS;
}

/* ---- the op ---------------------------------------------------------------------------------- */

bool tsr_tile_rule_dot_bytes(MlirOperation op) {
    MlirType type = mlirValueGetType(tsr_op_operand(op, 0));
    if (mlirTypeIsAVector(type)) type = mlirShapedTypeGetElementType(type);
    if (mlirTypeIsAInteger(type) && mlirIntegerTypeGetWidth(type) == BYTE_BITS * TSR_WORD_BYTES)
        return true;
    tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_TILE_SHAPE,
                   "tile.dot_bytes: the operands are no words; expected i32");
    return false;
}
