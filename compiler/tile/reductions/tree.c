/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/tile/reductions/tree.h"

#include <string.h>

/* ---- reductions ------------------------------------------------------------------------------ */

static uint32_t levels_of(int64_t leaves) {
    uint32_t levels = 0;
    while ((int64_t)1 << levels < leaves) levels++;
    return levels;
}

static MlirValue below(tsr_tile_builder *b, MlirValue first, int64_t size, int64_t end) {
    return tsr_tile_min(b, tsr_tile_offset(b, first, size), tsr_tile_index(b, end));
}

/* Emits the leaf in a loop with one iteration or no iteration, or uses the given last leaf. */
static void emit_leaf(const tsr_tree *t, MlirValue index, MlirValue *values) {
    tsr_tile_builder *b = t->b;
    if (!t->last) {
        t->leaf(t->user, index, values);
        return;
    }
    MlirValue last = tsr_tile_index(b, t->leaves - 1);
    MlirValue is_last = tsr_tile_icompare(b, TSR_ICMP_EQ, index, last);
    for (uint32_t i = 0; i < t->count; i++)
        values[i] = tsr_tile_select(b, is_last, t->last[i], t->empty[i]);
    TSR_TILE_FOR_CARRIED(b, once, index, below(b, index, 1, t->leaves - 1), 1, t->count, values) {
        t->leaf(t->user, once.index, values);
    }
}

/* Emits the subtree of up to 2^level leaves from `first` on. */
static void emit_node(const tsr_tree *t, uint32_t level, MlirValue first, MlirValue *values) {
    tsr_tile_builder *b = t->b;
    tsr_tile_loop loop;
    if (!level) {
        emit_leaf(t, first, values);
        return;
    }
    int64_t half = (int64_t)1 << (level - 1);
    tsr_tile_loop_begin(b, &loop, first, below(b, first, 2 * half, t->leaves), half, t->count,
                        t->empty);
    emit_node(t, level - 1, loop.index, values);
    for (uint32_t i = 0; i < t->count; i++)
        values[i] = t->combine(t->user, i, loop.carried[i], values[i]);
    tsr_tile_loop_end(b, &loop, values);
    memcpy(values, loop.carried, t->count * sizeof *values);
}

void tsr_tree_emit(const tsr_tree *t, MlirValue *out_values) {
    TSR_ASSERT(t->leaves > 0 && t->count <= TSR_TILE_CARRIED_MAX);
    if (t->leaves == 1 && t->last)
        memcpy(out_values, t->last, t->count * sizeof *out_values);
    else
        emit_node(t, levels_of(t->leaves), tsr_tile_index(t->b, 0), out_values);
}

/* ---- products -------------------------------------------------------------------------------- */

uint32_t tsr_product_slots(int64_t chunks) {
    uint32_t slots = 1;
    for (int64_t rest = (chunks - 1) / TSR_PRODUCT_GROUP; rest; rest /= TSR_PRODUCT_GROUP) slots++;
    TSR_ASSERT(slots <= TSR_PRODUCT_SLOTS_MAX);
    return slots;
}

MlirValue tsr_product_carries(tsr_tile_builder *b, MlirValue chunk, int64_t chunks) {
    MlirValue zero = tsr_tile_index(b, 0), one = tsr_tile_index(b, 1), carries = zero;
    MlirValue last = tsr_tile_index(b, chunks - 1);
    MlirValue is_last = tsr_tile_icompare(b, TSR_ICMP_EQ, chunk, last);
    MlirValue done = tsr_tile_select(b, is_last, one, tsr_tile_offset(b, chunk, 1));
    int64_t group = 1;
    for (uint32_t slot = 1; slot < tsr_product_slots(chunks); slot++) {
        group *= TSR_PRODUCT_GROUP;
        MlirValue left = tsr_tile_rem(b, done, group);
        MlirValue full = tsr_tile_icompare(b, TSR_ICMP_EQ, left, zero);
        carries = tsr_tile_add(b, carries, tsr_tile_select(b, full, one, zero));
    }
    return carries;
}

/* values += the slot's sums */
static void add_slot(tsr_tile_builder *b, const tsr_product_sums *s, const tsr_product_offsets *p,
                     MlirValue slot_at, MlirValue *values) {
    for (uint32_t i = 0; i < p->count; i++) {
        MlirValue at = tsr_tile_offset(b, slot_at, p->offsets[i]);
        MlirValue sum = tsr_tile_load(b, s->dtype, s->buffer, at, p->lanes, tsr_tile_null);
        values[i] = tsr_tile_2(b, "arith.addf", sum, values[i]);
    }
}

static void store_slot(tsr_tile_builder *b, const tsr_product_sums *s, const tsr_product_offsets *p,
                       MlirValue slot_at, const MlirValue *values) {
    for (uint32_t i = 0; i < p->count; i++)
        tsr_tile_store(b, s->dtype, values[i], s->buffer,
                       tsr_tile_offset(b, slot_at, p->offsets[i]), tsr_tile_null);
}

static MlirValue zero_of(tsr_tile_builder *b, const tsr_product_sums *s, uint32_t lanes) {
    return tsr_tile_float(b, tsr_tile_value_type(b, s->dtype, lanes), 0);
}

void tsr_product_clear(tsr_tile_builder *b, const tsr_product_sums *s,
                       const tsr_product_offsets *p) {
    MlirValue zeros[TSR_TILE_CARRIED_MAX];
    TSR_ASSERT(p->count <= TSR_TILE_CARRIED_MAX);
    for (uint32_t i = 0; i < p->count; i++) zeros[i] = zero_of(b, s, p->lanes);
    for (uint32_t slot = 0; slot < s->slots; slot++)
        store_slot(b, s, p, tsr_tile_offset(b, p->at, slot * s->slot), zeros);
}

void tsr_product_push(tsr_tile_builder *b, const tsr_product_sums *s, const tsr_product_offsets *p,
                      MlirValue carries, const MlirValue *values) {
    MlirValue next[TSR_TILE_CARRIED_MAX], zeros[TSR_TILE_CARRIED_MAX], at = p->at;
    TSR_ASSERT(p->count <= TSR_TILE_CARRIED_MAX);
    memcpy(next, values, p->count * sizeof *next);
    if (s->slots > 1) {
        TSR_TILE_FOR_CARRIED(b, loop, tsr_tile_index(b, 0), carries, 1, p->count, next) {
            MlirValue full = tsr_tile_add(b, p->at, tsr_tile_mul(b, loop.index, s->slot));
            add_slot(b, s, p, full, next);
            for (uint32_t i = 0; i < p->count; i++) zeros[i] = zero_of(b, s, p->lanes);
            store_slot(b, s, p, full, zeros);
        }
        at = tsr_tile_add(b, p->at, tsr_tile_mul(b, carries, s->slot));
    }
    add_slot(b, s, p, at, next);
    store_slot(b, s, p, at, next);
}

void tsr_product_finish(tsr_tile_builder *b, const tsr_product_sums *s,
                        const tsr_product_offsets *p, MlirValue *values) {
    for (uint32_t slot = 0; slot < s->slots; slot++)
        add_slot(b, s, p, tsr_tile_offset(b, p->at, slot * s->slot), values);
}
