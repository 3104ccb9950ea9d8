/* SPDX-License-Identifier: Apache-2.0
 *
 * Family `rows`: a program with several rows fetches the next ones while it computes one. The
 * elements that only one row reads are copied to a ring of rows, from which lanes load them when
 * that row is computed; scalars of a row are read one row ahead, into registers.
 *
 * After the program's last row it fetches the last row of all again: the cache lines of that row
 * are in the caches, and no test is necessary.
 */
#include "compiler/ir/targets/target.h"
#include "compiler/tile/rows/rows.h"

typedef tsr_row_item item;
typedef tsr_rows rows;

enum { STAGES_MAX = 2, BLOCK_BYTES = 1024, EXCHANGE_BYTES = 2048 };

static int64_t ring_row(const rows *r) {
    int64_t chunk = tsr_rows_chunk(r);
    return ((r->columns - 1) / chunk + 1) * chunk;
}

/* The number of rows that fit in shared memory. */
static uint32_t count_stages(const rows *r) {
    int64_t shared = tsr_target_shared_bytes(r->group->b.target);
    int64_t bytes = 0;
    for (uint32_t i = 0; i < r->item_count; i++)
        if (tsr_row_is_own(r, r->items[i]))
            bytes += ring_row(r) * (int64_t)tsr_dtype_size(r->items[i]->node.dtype);
    if (!shared || !bytes || !r->sums->blocks) return 0;
    int64_t capacity = (shared + BLOCK_BYTES) / r->sums->blocks;
    if (r->block_programs > 1) capacity -= tsr_rows_chunk(r) * (int64_t)sizeof(float);
    int64_t stages = (capacity - BLOCK_BYTES - EXCHANGE_BYTES) / bytes;
    return stages < 2 ? 0 : stages > STAGES_MAX ? STAGES_MAX : (uint32_t)stages;
}

/* True if this is an input scalar that differs from row to row. */
static bool is_scalar(const rows *r, const item *it) {
    bool moves = false;
    if (it->kind != TSR_ROW_LEAF || it->node.kind != TSR_NODE_VIEW || it->level == 2) return false;
    for (uint32_t d = 0; d + 1 < r->space.rank; d++)
        moves |= r->space.dims[d] > 1 && it->node.view.strides[d];
    return moves;
}

void tsr_rows_find_ahead(rows *r) {
    uint32_t carried = 1 + (uint32_t)(ring_row(r) / tsr_rows_chunk(r)) * r->sums->count;
    r->stages = r->even ? count_stages(r) : 0;
    for (uint32_t i = 0; i < r->item_count && r->stages; i++) {
        item *it = r->items[i];
        it->ahead = tsr_row_is_own(r, it);
        it->resident |= it->ahead;
        if (!is_scalar(r, it) || carried == TSR_TILE_CARRIED_MAX) continue;
        it->ahead = true;
        carried++;
    }
}

/* Copies row `row` to slot `slot` of the rings. */
static void fetch_row(rows *r, MlirValue row, MlirValue slot) {
    tsr_tile_builder *b = &r->group->b;
    uint32_t last = r->space.rank - 1, lanes = tsr_rows_chunk(r);
    MlirValue to = tsr_tile_mul(b, slot, ring_row(r));
    tsr_rows_set_row(r, row);
    for (uint32_t i = 0; i < r->item_count; i++) {
        item *it = r->items[i];
        for (int64_t at = 0; it->ahead && it->level == 2 && at < r->columns; at += lanes) {
            MlirValue mask = r->columns - at < (int64_t)lanes
                                 ? tsr_tile_mask(b, tsr_tile_index(b, r->columns - at), lanes)
                                 : tsr_tile_null;
            r->point.index[last] = tsr_tile_index(b, at);
            tsr_tile_fetch(b, it->node.view.buffer, tsr_point_offset(b, &r->point, &it->node.view),
                           it->ring, tsr_tile_offset(b, to, at), lanes, mask);
        }
    }
    tsr_tile_fetched(b, r->stages - 1);
}

/* Reads the scalars of row `row`. */
static void read_scalars(rows *r, MlirValue row) {
    tsr_tile_builder *b = &r->group->b;
    tsr_rows_set_row(r, row);
    tsr_point point = r->point;
    point.lanes = 0;
    point.mask = point.index[r->space.rank - 1] = tsr_tile_null;
    for (uint32_t i = 0; i < r->item_count; i++) {
        item *it = r->items[i];
        if (it->ahead && it->level < 2)
            it->next = tsr_tile_load(b, it->node.dtype, it->node.view.buffer,
                                     tsr_point_offset(b, &point, &it->node.view), 0, tsr_tile_null);
    }
}

/* The program's row that is `distance` rows after row `row`, or the last row. */
static MlirValue row_after(rows *r, const tsr_rows_span *span, MlirValue row, int64_t distance) {
    tsr_tile_builder *b = &r->group->b;
    MlirValue at = tsr_tile_min(b, tsr_tile_offset(b, row, distance * span->step),
                                tsr_tile_offset(b, span->end, -1));
    return tsr_tile_add(b, span->first, at);
}

void tsr_rows_begin_ahead(rows *r, const tsr_rows_span *span) {
    tsr_tile_builder *b = &r->group->b;
    if (!r->stages) return;
    for (uint32_t i = 0; i < r->item_count; i++)
        if (r->items[i]->ahead && r->items[i]->level == 2)
            r->items[i]->ring = tsr_tile_local_own(
                b, tsr_tile_storage_type(b, r->items[i]->node.dtype), r->stages * ring_row(r));
    for (uint32_t s = 0; s + 1 < r->stages; s++)
        fetch_row(r, row_after(r, span, span->begin, s), tsr_tile_index(b, s));
    read_scalars(r, row_after(r, span, span->begin, 0));
    r->next_slot = tsr_tile_index(b, 0);
}

void tsr_rows_fetch_ahead(rows *r, const tsr_rows_span *span, MlirValue row) {
    tsr_tile_builder *b = &r->group->b;
    if (!r->stages) return;
    MlirValue last = tsr_tile_offset(b, r->slot, (int64_t)r->stages - 1);
    last = tsr_tile_rem(b, last, r->stages);
    fetch_row(r, row_after(r, span, row, (int64_t)r->stages - 1), last);
    r->next_slot = tsr_tile_rem(b, tsr_tile_offset(b, r->slot, 1), r->stages);
    for (uint32_t i = 0; i < r->item_count; i++)
        if (r->items[i]->ahead && r->items[i]->level < 2) r->items[i]->scalar = r->items[i]->next;
    read_scalars(r, row_after(r, span, row, 1));
}

uint32_t tsr_rows_carry_ahead(rows *r, MlirValue *values, uint32_t count, bool from) {
    if (!r->stages) return count;
    *(from ? &r->slot : &values[count]) = from ? values[count] : r->next_slot;
    count++;
    for (uint32_t i = 0; i < r->item_count; i++) {
        item *it = r->items[i];
        if (!it->ahead || it->level == 2) continue;
        *(from ? &it->next : &values[count]) = from ? values[count] : it->next;
        count++;
    }
    return count;
}

MlirValue tsr_rows_load_ahead(rows *r, const item *it) {
    tsr_tile_builder *b = &r->group->b;
    MlirValue at = tsr_tile_mul(b, r->slot, ring_row(r));
    at = tsr_tile_add(b, at, r->point.index[r->space.rank - 1]);
    return tsr_tile_load_stored(b, it->node.dtype, it->ring, at, r->point.lanes, tsr_tile_null);
}
