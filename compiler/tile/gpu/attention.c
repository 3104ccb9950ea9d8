/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel family of attention on matrix units. A program computes one tile of a head's queries. With
 * wgmma and a causal mask each program computes two tiles: the first program the last tile and the
 * first one, the next program the last tile but one and the second one, and so on. All programs
 * then have the same amount of work.
 *
 * With mma.sync a program has one tile, and the tiles with the most work come first; several
 * programs run on a multiprocessor. Consecutive programs share a head, and consecutive heads share
 * their keys.
 */
#include "compiler/tile/gpu/attention.h"

#include "compiler/shim/shim.h"
#include "compiler/tile/attention/attention.h"
#include "compiler/tile/gpu/heads.h"
#include "compiler/tile/gpu/product.h"
#include "compiler/tile/gpu/ring.h"
#include "runtime/base/array.h"

#include <string.h>

enum { QUERY_STAGES = 2, RESULT_COLUMNS = 64, PAIR = 2, WGMMA_ARCH = 90 };

typedef enum units { WGMMA, SYNC } units;

typedef struct tile {
    units units;
    int64_t d;
    bool causal, drops;
    int64_t warps, rows, keys, stages, registers; /* rows: rows of a warp */
    bool pingpong;
} tile;

static const tile tiles[] = {
#define X(...) {__VA_ARGS__},
#include "compiler/tile/gpu/attentions.def"
#undef X
};

typedef struct attend {
    tsr_attention of;
    tile tile;
    int64_t rows; /* rows of a tile */
} attend;

static units units_of(const attend *a) {
    return a->of.group->b.target->arch == WGMMA_ARCH ? WGMMA : SYNC;
}

static bool fits(const attend *a, const tile *t) {
    return t->units == units_of(a) && t->d == a->of.d && (t->causal || !a->of.causal) &&
           (t->drops || !a->of.dropout);
}

/* Finds the first tile that fits, after skipping `skip` that fit. */
static bool find_tile(attend *a, int64_t skip) {
    enum { COUNT = TSR_COUNT(tiles) };
    for (size_t i = 0; i < COUNT; i++) {
        bool is_last = i + 1 == COUNT || !fits(a, &tiles[i + 1]);
        if (!fits(a, &tiles[i]) || (tiles[i].warps * tiles[i].rows > a->of.queries && !is_last) ||
            skip-- > 0)
            continue;
        a->tile = tiles[i];
        a->rows = tiles[i].warps * tiles[i].rows;
        return true;
    }
    return false;
}

static MlirValue make_ring(attend *a, int64_t stages, int64_t rows, int64_t columns) {
    return tsr_gpu_ring(&a->of.group->b, stages, rows, columns, a->of.storage);
}

enum { BUFFERS_MAX = 5 + TSR_ATTENTION_SAMPLES };

typedef struct tile_operands {
    MlirValue buffers[BUFFERS_MAX], rings[3];
    int64_t firsts[BUFFERS_MAX]; /* first columns of heads; -1: heads are not in adjacent columns */
    size_t buffer_count, ring_count;
} tile_operands;

static void add_heads(attend *a, tile_operands *p, tsr_gpu_heads heads, int64_t count,
                      int64_t rows) {
    tsr_tile_group *group = a->of.group;
    p->firsts[p->buffer_count] = heads.sides.first;
    p->buffers[p->buffer_count++] =
        tsr_gpu_heads_view(&group->b, group->buffers[heads.argument], &heads, count, rows, a->of.d);
}

static tile_operands make_operands(attend *a) {
    tsr_tile_group *group = a->of.group;
    int64_t heads = a->of.batch * a->of.heads, groups = a->of.batch * a->of.key_heads;
    int64_t logarithms[] = {heads, a->of.queries};
    tile_operands p = {.buffer_count = 0};
    add_heads(a, &p, tsr_gpu_heads_read(group, 0), heads, a->of.queries);
    add_heads(a, &p, tsr_gpu_heads_read(group, 1), groups, a->of.keys);
    add_heads(a, &p, tsr_gpu_heads_read(group, 2), groups, a->of.keys);
    add_heads(a, &p, tsr_gpu_heads_given(group, 0), heads, a->of.queries);
    if (group->output_count == 2) {
        MlirValue output = group->buffers[tsr_gpu_heads_given(group, 1).argument];
        p.firsts[p.buffer_count] = -1;
        p.buffers[p.buffer_count++] = tsr_gpu_view(&group->b, output, 2, logarithms);
    }
    for (size_t i = 0; a->of.dropout && i < TSR_ATTENTION_SAMPLES; i++) {
        p.firsts[p.buffer_count] = -1;
        p.buffers[p.buffer_count++] = a->of.samples[i];
    }
    bool sync = a->tile.units == SYNC;
    p.rings[p.ring_count++] = make_ring(a, sync ? 1 : QUERY_STAGES, a->rows, a->of.d);
    p.rings[p.ring_count++] = make_ring(a, a->tile.stages, a->tile.keys, a->of.d);
    if (!sync)
        p.rings[p.ring_count++] = make_ring(a, a->of.d / RESULT_COLUMNS, a->rows, RESULT_COLUMNS);
    return p;
}

/* Emits the tile of queries of `head` that begins at `row`. */
static void emit_tile(attend *a, const tile_operands *p, MlirValue head, MlirValue row) {
    tsr_tile_builder *b = &a->of.group->b;
    MlirContext context = b->at.context;
    MlirValue operands[BUFFERS_MAX + 6],
        group = tsr_tile_div(b, head, a->of.heads / a->of.key_heads);
    size_t count = p->buffer_count;
    int32_t sizes[] = {(int32_t)count, 3, (int32_t)p->ring_count};
    memcpy(operands, p->buffers, count * sizeof *operands);
    operands[count++] = head;
    operands[count++] = group;
    operands[count++] = row;
    memcpy(operands + count, p->rings, p->ring_count * sizeof *p->rings);
    count += p->ring_count;
    int64_t counts[] = {a->of.heads, a->of.key_heads, a->of.d};
    tsr_attr attrs[9] = {
        {"how", tsr_attr_make_string(context, "forward")},
        {"scale", mlirFloatAttrDoubleGet(context, mlirF64TypeGet(context), a->of.scale)},
        {"operandSegmentSizes", mlirDenseI32ArrayGet(context, 3, sizes)}};
    size_t attr_count = 3;
    if (a->of.causal) attrs[attr_count++] = (tsr_attr){"causal", tsr_attr_make_unit(context)};
    attr_count += tsr_gpu_drop_attributes(context, &a->of, attrs + attr_count);
    if (a->tile.pingpong) attrs[attr_count++] = (tsr_attr){"pingpong", tsr_attr_make_unit(context)};
    attr_count +=
        tsr_gpu_heads_attributes(context, p->firsts, p->buffer_count, counts, attrs + attr_count);
    tsr_build(&b->at, &(tsr_op_desc){.name = "tile.attend",
                                     .operand_count = count,
                                     .operands = operands,
                                     .attr_count = attr_count,
                                     .attrs = attrs});
}

static void emit(attend *a) {
    tsr_tile_group *group = a->of.group;
    tsr_tile_builder *b = &group->b;
    tile_operands p = make_operands(a);
    int64_t count = tsr_divide_up(a->of.queries, a->rows), heads = a->of.batch * a->of.heads;
    bool pairs = a->of.causal && a->tile.units == WGMMA;
    int64_t programs = pairs ? tsr_divide_up(count, PAIR) : count;
    group->grid = heads * programs;
    MlirValue pid = tsr_tile_program_id(b);
    MlirValue head = tsr_tile_div(b, pid, programs), number = tsr_tile_rem(b, pid, programs);
    if (programs == count) {
        if (a->of.causal) number = tsr_tile_sub(b, tsr_tile_index(b, count - 1), number);
        emit_tile(a, &p, head, tsr_tile_mul(b, number, a->rows));
        return;
    }
    /* The last tile but `number`, then tile `number`, unless both are the same. */
    MlirValue last = tsr_tile_sub(b, tsr_tile_index(b, count - 1), number);
    MlirValue apart = tsr_tile_sub(b, last, number);
    MlirValue tiles_here = tsr_tile_min(b, tsr_tile_offset(b, apart, 1), tsr_tile_index(b, PAIR));
    TSR_TILE_FOR(b, loop, tsr_tile_index(b, 0), tiles_here, 1) {
        MlirValue back = tsr_tile_2(b, "arith.muli", loop.index, apart);
        emit_tile(a, &p, head, tsr_tile_mul(b, tsr_tile_sub(b, last, back), a->rows));
    }
}

static bool is_taken(attend *a) {
    enum { OPERANDS = 3 }; /* q, k and v: no mask */
    const tsr_tile_group *group = a->of.group;
    int64_t skip = 0;
    tsr_op_i64(group->op, TSR_SKIP_NAME, &skip);
    return group->b.target->arch && (units_of(a) == WGMMA || tsr_gpu_counts_chunks(group)) &&
           tsr_dtype_is_narrow(a->of.storage) && tsr_gpu_can_drop(&a->of, OPERANDS) &&
           a->of.d == a->of.e && a->of.scale > 0 && a->of.batch && a->of.heads && a->of.queries &&
           a->of.keys && find_tile(a, skip);
}

tsr_result tsr_tile_can_attend(tsr_tile_group *group, bool *out_taken) {
    attend a = {0};
    TRY(group->ctx, tsr_attention_read(group, 3, &a.of));
    *out_taken = is_taken(&a);
    return TSR_SUCCESS;
}

tsr_result tsr_tile_lower_attend(tsr_tile_group *group, bool *out_taken) {
    attend a = {0};
    TRY(group->ctx, tsr_attention_read(group, 3, &a.of));
    *out_taken = is_taken(&a);
    if (!*out_taken) return TSR_SUCCESS;
    int64_t sizes[] = {a.rows, a.tile.keys, a.tile.stages, a.tile.pingpong};
    memcpy(group->tile, sizes, sizeof sizes);
    group->tile_count = TSR_COUNT(sizes);
    group->warps = a.tile.warps;
    group->registers = a.tile.registers;
    emit(&a);
    return TSR_SUCCESS;
}
