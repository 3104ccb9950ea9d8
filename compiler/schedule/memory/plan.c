/* SPDX-License-Identifier: Apache-2.0
 *
 * 1. combine values into slots by take-overs;
 * 2. assign the slots in each order, best fit; keep the order with the smallest peak;
 * 3. compute the floor by a sweep over the starts and ends of the slots;
 * 4. above the floor, assign slots at the peak earlier.
 * With more than SLOTS_MAX slots, steps 2 and 4 would take too long: sweep.c assigns them.
 */
#include "compiler/schedule/memory/plan.h"

#include "compiler/schedule/memory/sweep.h"
#include "runtime/base/array.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    SLOT_NONE = UINT32_MAX,
    SQUEEZE_ROUNDS_MAX = 400,
    SQUEEZE_STEPS = 1 << 28, /* comparisons of two slots: 0.4 s */
    SLOTS_MAX = 1 << 13,     /* slots that are compared with each other */
};

typedef struct slot {
    uint64_t size, offset, align;
    uint32_t first, last;
    uint32_t index; /* index of its first value: the last tie-break */
} slot;

typedef struct planner {
    slot *slots;
    uint32_t slot_count;
    uint32_t *slot_of; /* value -> slot */
} planner;

static bool size_aligned(uint64_t size, uint64_t *out_size) {
    uint64_t up;
    if (size == 0) size = 1;
    if (__builtin_add_overflow(size, (uint64_t)(TSR_PLAN_ALIGN_BYTES - 1), &up)) return false;
    *out_size = up & ~(uint64_t)(TSR_PLAN_ALIGN_BYTES - 1);
    return true;
}

static uint64_t align_of(const tsr_plan_value *value) {
    uint32_t align = value->align_bytes;
    TSR_ASSERT((align & (align - 1)) == 0 || align < TSR_PLAN_ALIGN_BYTES);
    return align > TSR_PLAN_ALIGN_BYTES ? align : TSR_PLAN_ALIGN_BYTES;
}

/* The first candidate that dies here, has the same size and is not taken yet. */
static uint32_t take_over(const tsr_plan_value *values, uint32_t value_count,
                          const tsr_plan_value *value, const bool *taken) {
    for (uint32_t i = 0; i < value->replace_count; i++) {
        uint32_t other = value->replace[i];
        TSR_ASSERT(other < value_count);
        if (taken[other] || values[other].last != value->first) continue;
        if (values[other].size_bytes != value->size_bytes) continue;
        if (values[other].first >= value->first) continue;
        return other;
    }
    return SLOT_NONE;
}

/* Values in the order of their first command, so that a chain of take-overs is met front to back.
 */
static int by_first(const void *a, const void *b) {
    const slot *x = a, *y = b;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static int by_size(const void *a, const void *b) {
    const slot *x = a, *y = b;
    if (x->size != y->size) return x->size > y->size ? -1 : 1;
    return by_first(a, b);
}

static int by_area(const void *a, const void *b) {
    const slot *x = a, *y = b;
    long double p = (long double)x->size * ((long double)x->last - x->first + 1);
    long double q = (long double)y->size * ((long double)y->last - y->first + 1);
    if (p > q) return -1;
    if (p < q) return 1;
    return by_size(a, b);
}

static TSR_RESULT slots_build(tsr_ctx *ctx, const tsr_plan_value *values, uint32_t count,
                              tsr_arena *arena, planner *p, tsr_workspace_plan *plan) {
    slot *order = TSR_NEW(arena, slot, count);
    bool *taken = plan->replaced = TSR_NEW(arena, bool, count);
    p->slots = TSR_NEW(arena, slot, count);
    p->slot_of = TSR_NEW(arena, uint32_t, count);
    if (!order || !taken || !p->slots || !p->slot_of)
        FAIL(ctx, TSR_MEMORY, "no memory to plan %u values", count);
    for (uint32_t i = 0; i < count; i++) {
        TSR_ASSERT(values[i].first <= values[i].last);
        order[i] = (slot){.first = values[i].first, .index = i};
    }
    qsort(order, count, sizeof *order, by_first);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t index = order[i].index;
        const tsr_plan_value *value = &values[index];
        uint32_t other = take_over(values, count, value, taken);
        if (other != SLOT_NONE) {
            taken[other] = true;
            p->slot_of[index] = p->slot_of[other];
            slot *taken_over = &p->slots[p->slot_of[other]];
            taken_over->last = value->last;
            if (taken_over->align < align_of(value)) taken_over->align = align_of(value);
            plan->replaced_count++;
            continue;
        }
        slot s = {.align = align_of(value),
                  .first = value->first,
                  .last = value->last,
                  .index = p->slot_count};
        if (!size_aligned(value->size_bytes, &s.size))
            FAIL(ctx, TSR_MEMORY, "a value of %" PRIu64 " bytes does not fit into a workspace",
                 value->size_bytes);
        p->slot_of[index] = p->slot_count;
        p->slots[p->slot_count++] = s;
    }
    return TSR_SUCCESS;
}

static bool meets(const slot *a, const slot *b) {
    return a->first <= b->last && b->first <= a->last;
}

/* Finds the smallest gap that `s` fits in between the assigned slots that overlap it in time, or
 * the end. `assigned` is sorted by offset. False on overflow. */
static bool best_fit(const slot *assigned, uint32_t assigned_count, slot *s) {
    uint64_t top = 0, best_gap = UINT64_MAX, best = UINT64_MAX; /* multiples of s->align */
    for (uint32_t i = 0; i < assigned_count; i++) {
        const slot *other = &assigned[i];
        if (!meets(other, s)) continue;
        if (other->offset > top) {
            uint64_t gap = other->offset - top;
            if (gap >= s->size && gap < best_gap) {
                best_gap = gap;
                best = top;
            }
        }
        if (other->offset + other->size > top)
            top = (other->offset + other->size + s->align - 1) / s->align * s->align;
    }
    s->offset = best != UINT64_MAX ? best : top;
    uint64_t end;
    return !__builtin_add_overflow(s->offset, s->size, &end) && end <= INT64_MAX;
}

/* Assigns offsets to `order` (permuted by the caller); false on overflow. */
static bool assign_in_order(slot *order, slot *assigned, uint32_t count, uint64_t *out_peak) {
    uint64_t peak = 0;
    for (uint32_t i = 0; i < count; i++) {
        slot s = order[i];
        if (!best_fit(assigned, i, &s)) return false;
        order[i].offset = s.offset;
        uint32_t at = i;
        while (at > 0 && assigned[at - 1].offset > s.offset) at--;
        memmove(&assigned[at + 1], &assigned[at], (i - at) * sizeof *assigned);
        assigned[at] = s;
        if (s.offset + s.size > peak) peak = s.offset + s.size;
    }
    *out_peak = peak;
    return true;
}

typedef struct edge {
    uint32_t at; /* a slot counts from `first` to `last` + 1 */
    bool opens;
    uint64_t size;
} edge;

static int by_time(const void *a, const void *b) {
    const edge *x = a, *y = b;
    if (x->at != y->at) return x->at < y->at ? -1 : 1;
    return (int)x->opens - (int)y->opens; /* closings first */
}

static TSR_RESULT floor_compute(tsr_ctx *ctx, const planner *p, tsr_arena *arena,
                                uint64_t *out_floor) {
    edge *edges = TSR_NEW(arena, edge, 2 * (size_t)p->slot_count);
    if (!edges) FAIL(ctx, TSR_MEMORY, "no memory to plan %u slots", p->slot_count);
    for (uint32_t i = 0; i < p->slot_count; i++) {
        const slot *s = &p->slots[i];
        TSR_ASSERT(s->last < UINT32_MAX);
        edges[2 * i] = (edge){.at = s->first, .opens = true, .size = s->size};
        edges[2 * i + 1] = (edge){.at = s->last + 1, .opens = false, .size = s->size};
    }
    qsort(edges, 2 * (size_t)p->slot_count, sizeof *edges, by_time);
    uint64_t live = 0, floor = 0;
    for (uint32_t i = 0; i < 2 * p->slot_count; i++) {
        live = edges[i].opens ? live + edges[i].size : live - edges[i].size;
        if (live > floor) floor = live;
    }
    *out_floor = floor;
    return TSR_SUCCESS;
}

/* Moves each slot that ends at the peak before the slots that overlap it in time and assigns all
 * again, repeatedly, while the time limit allows or until the floor is reached. Leaves the best
 * offsets in p->slots. */
static void squeeze(planner *p, slot *order, slot *assigned, uint64_t floor, uint64_t *peak) {
    uint64_t rounds = SQUEEZE_STEPS / ((uint64_t)p->slot_count * p->slot_count + 1);
    if (rounds > SQUEEZE_ROUNDS_MAX) rounds = SQUEEZE_ROUNDS_MAX;
    uint64_t last = *peak;
    for (uint64_t round = 0; round<rounds && * peak> floor; round++) {
        uint32_t top = 0, to = 0;
        for (uint32_t i = 0; i < p->slot_count; i++)
            if (order[i].offset + order[i].size == last) top = i;
        while (to < top && !meets(&order[to], &order[top])) to++;
        slot moved = order[top];
        memmove(&order[to + 1], &order[to], (top - to) * sizeof *order);
        order[to] = moved;
        if (!assign_in_order(order, assigned, p->slot_count, &last)) return;
        if (last >= *peak) continue;
        *peak = last;
        for (uint32_t i = 0; i < p->slot_count; i++)
            p->slots[order[i].index].offset = order[i].offset;
    }
}

/* Tries each order, then squeezes. */
static TSR_RESULT assign_few(tsr_ctx *ctx, planner *p, tsr_arena *arena, tsr_workspace_plan *plan) {
    static int (*const orders[])(const void *, const void *) = {by_size, by_area, by_first};
    slot *order = TSR_NEW(arena, slot, p->slot_count);
    slot *assigned = TSR_NEW(arena, slot, p->slot_count),
         *best = TSR_NEW(arena, slot, p->slot_count);
    if (!order || !assigned || !best)
        FAIL(ctx, TSR_MEMORY, "no memory to plan %u slots", p->slot_count);
    for (size_t k = 0; k < TSR_COUNT(orders); k++) {
        uint64_t peak;
        memcpy(order, p->slots, p->slot_count * sizeof *order);
        qsort(order, p->slot_count, sizeof *order, orders[k]);
        if (!assign_in_order(order, assigned, p->slot_count, &peak))
            FAIL(ctx, TSR_MEMORY, "the workspace of %u slots exceeds 2^63 bytes", p->slot_count);
        if (peak >= plan->peak_bytes) continue;
        plan->peak_bytes = peak;
        memcpy(best, order, p->slot_count * sizeof *order);
        for (uint32_t i = 0; i < p->slot_count; i++)
            p->slots[order[i].index].offset = order[i].offset;
    }
    squeeze(p, best, assigned, plan->floor_bytes, &plan->peak_bytes);
    return TSR_SUCCESS;
}

static TSR_RESULT assign_many(tsr_ctx *ctx, planner *p, tsr_arena *arena,
                              tsr_workspace_plan *plan) {
    tsr_sweep_value *values = TSR_NEW(arena, tsr_sweep_value, p->slot_count);
    if (!values) FAIL(ctx, TSR_MEMORY, "no memory to plan %u slots", p->slot_count);
    for (uint32_t i = 0; i < p->slot_count; i++) {
        const slot *s = &p->slots[i];
        values[i] = (tsr_sweep_value){
            .size = s->size, .align = s->align, .first = s->first, .last = s->last};
    }
    for (int backward = 0; backward < 2; backward++) {
        uint64_t peak = 0;
        if (plan->peak_bytes <= plan->floor_bytes) break;
        TRY(ctx, tsr_memory_sweep(ctx, arena, values, p->slot_count, backward, &peak));
        if (peak >= plan->peak_bytes) continue;
        plan->peak_bytes = peak;
        for (uint32_t i = 0; i < p->slot_count; i++) p->slots[i].offset = values[i].offset;
    }
    return TSR_SUCCESS;
}

tsr_result tsr_workspace_plan_build(tsr_ctx *ctx, const tsr_plan_value *values,
                                    uint32_t value_count, tsr_arena *arena,
                                    tsr_workspace_plan *out_plan) {
    tsr_workspace_plan plan = {.peak_bytes = value_count ? UINT64_MAX : 0};
    planner p = {0};
    if (value_count == 0) {
        *out_plan = plan;
        return TSR_SUCCESS;
    }
    TRY(ctx, slots_build(ctx, values, value_count, arena, &p, &plan));
    plan.offset_bytes = TSR_NEW(arena, uint64_t, value_count);
    if (!plan.offset_bytes) FAIL(ctx, TSR_MEMORY, "no memory to plan %u values", value_count);
    TRY(ctx, floor_compute(ctx, &p, arena, &plan.floor_bytes));
    if (p.slot_count > SLOTS_MAX)
        TRY(ctx, assign_many(ctx, &p, arena, &plan));
    else
        TRY(ctx, assign_few(ctx, &p, arena, &plan));
    for (uint32_t i = 0; i < value_count; i++) plan.offset_bytes[i] = p.slots[p.slot_of[i]].offset;
    *out_plan = plan;
    return TSR_SUCCESS;
}
