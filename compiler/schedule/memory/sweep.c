/* SPDX-License-Identifier: Apache-2.0
 *
 * The workspace up to `top` is a sequence of blocks, each free or taken. Adjacent free blocks are
 * merged, and the last block is taken.
 */
#include "compiler/schedule/memory/sweep.h"

#include "compiler/schedule/memory/plan.h"

#include <stdlib.h>
#include <string.h>

enum {
    NONE = UINT32_MAX,
    STEPS = 16, /* lists of each power of two */
    STEP_BITS = 4,
    LISTS = 64 * STEPS,
    SCANNED_MAX = 16, /* gaps of a list that are tried */
    BLOCKS_EACH = 3,  /* maximum blocks that a value adds: itself, the blocks before and after it */
};

typedef struct block {
    uint64_t offset, size;
    uint32_t before, behind;           /* neighbours */
    uint32_t list_before, list_behind; /* links of a free block */
    bool free;
} block;

typedef struct sweep {
    block *blocks;
    uint32_t *unused; /* blocks */
    uint32_t unused_count;
    uint32_t last; /* block */
    uint64_t top;
    uint32_t lists[LISTS]; /* their first blocks */
    uint64_t filled[LISTS / 64];
} sweep;

/* The list of a size: given by its power of two and the bits after its highest. */
static uint32_t list_of(uint64_t size) {
    unsigned high = 63u - (unsigned)__builtin_clzll(size);
    uint64_t rest = size - (UINT64_C(1) << high);
    return high * STEPS + (uint32_t)(high >= STEP_BITS ? rest >> (high - STEP_BITS) : 0);
}

/* ---- lists ---- */

static void list_add(sweep *s, uint32_t at) {
    uint32_t list = list_of(s->blocks[at].size), next = s->lists[list];
    s->blocks[at].free = true;
    s->blocks[at].list_before = NONE;
    s->blocks[at].list_behind = next;
    if (next != NONE) s->blocks[next].list_before = at;
    s->lists[list] = at;
    s->filled[list / 64] |= UINT64_C(1) << (list % 64);
}

static void list_remove(sweep *s, uint32_t at) {
    block *p = &s->blocks[at];
    uint32_t list = list_of(p->size);
    p->free = false;
    if (p->list_behind != NONE) s->blocks[p->list_behind].list_before = p->list_before;
    if (p->list_before != NONE) {
        s->blocks[p->list_before].list_behind = p->list_behind;
        return;
    }
    s->lists[list] = p->list_behind;
    if (p->list_behind == NONE) s->filled[list / 64] &= ~(UINT64_C(1) << (list % 64));
}

/* A gap of at least `size`, or NONE. */
static uint32_t find_gap(const sweep *s, uint64_t size) {
    uint32_t list = list_of(size), best = NONE, at = s->lists[list];
    for (int scanned = 0; scanned < SCANNED_MAX && at != NONE;
         scanned++, at = s->blocks[at].list_behind) {
        if (s->blocks[at].size < size) continue;
        if (best == NONE || s->blocks[at].size < s->blocks[best].size) best = at;
    }
    if (best != NONE) return best;
    for (uint32_t from = list + 1; from < LISTS; from = from / 64 * 64 + 64) {
        uint64_t filled = s->filled[from / 64] >> (from % 64);
        if (filled) return s->lists[from + (uint32_t)__builtin_ctzll(filled)];
    }
    return NONE;
}

/* ---- blocks ---- */

/* Inserts a new block after `before`. */
static uint32_t insert(sweep *s, uint32_t before, uint64_t offset, uint64_t size) {
    TSR_ASSERT(s->unused_count > 0);
    uint32_t at = s->unused[--s->unused_count];
    uint32_t behind = before == NONE ? NONE : s->blocks[before].behind;
    s->blocks[at] = (block){.offset = offset, .size = size, .before = before, .behind = behind};
    if (before != NONE) s->blocks[before].behind = at;
    if (behind != NONE) s->blocks[behind].before = at;
    if (before == s->last) s->last = at;
    return at;
}

static void unlink_block(sweep *s, uint32_t at) {
    const block *p = &s->blocks[at];
    if (p->before != NONE) s->blocks[p->before].behind = p->behind;
    if (p->behind != NONE) s->blocks[p->behind].before = p->before;
    if (s->last == at) s->last = p->before;
    s->unused[s->unused_count++] = at;
}

/* Splits the block in two: `size` bytes, and the rest after it, which is free. */
static void cut(sweep *s, uint32_t at, uint64_t size) {
    block *p = &s->blocks[at];
    if (p->size == size) return;
    uint32_t rest = insert(s, at, p->offset + size, p->size - size);
    p->size = size;
    list_add(s, rest);
}

/* Free space at the end is not a block. */
static void lower_top(sweep *s) {
    if (s->last == NONE || !s->blocks[s->last].free) return;
    uint32_t last = s->last;
    list_remove(s, last);
    s->top = s->blocks[last].offset;
    unlink_block(s, last);
}

static bool allocate_block(sweep *s, uint64_t size, uint64_t align, uint32_t *out_block) {
    uint64_t wanted = 0, end = 0;
    if (__builtin_add_overflow(size, align - TSR_PLAN_ALIGN_BYTES, &wanted)) return false;
    uint32_t at = find_gap(s, wanted);
    if (at == NONE) {
        if (__builtin_add_overflow(s->top, wanted, &end) || end > INT64_MAX) return false;
        at = insert(s, s->last, s->top, wanted);
        s->top = end;
    } else {
        list_remove(s, at);
    }
    uint64_t skipped = -s->blocks[at].offset & (align - 1);
    if (skipped) {
        uint32_t gap = at;
        at = insert(s, gap, s->blocks[gap].offset + skipped, s->blocks[gap].size - skipped);
        s->blocks[gap].size = skipped;
        list_add(s, gap);
    }
    cut(s, at, size);
    lower_top(s);
    *out_block = at;
    return true;
}

static void free_block(sweep *s, uint32_t at) {
    uint32_t before = s->blocks[at].before, behind = s->blocks[at].behind;
    if (behind != NONE && s->blocks[behind].free) {
        list_remove(s, behind);
        s->blocks[at].size += s->blocks[behind].size;
        unlink_block(s, behind);
    }
    if (before != NONE && s->blocks[before].free) {
        list_remove(s, before);
        s->blocks[before].size += s->blocks[at].size;
        unlink_block(s, at);
        at = before;
    }
    list_add(s, at);
    lower_top(s);
}

/* ---- the sweep ---- */

typedef struct event {
    uint32_t at; /* a value is freed at `last` + 1 */
    bool takes;
    uint32_t value;
} event;

static int by_time(const void *a, const void *b) {
    const event *x = a, *y = b;
    if (x->at != y->at) return x->at < y->at ? -1 : 1;
    if (x->takes != y->takes) return (int)x->takes - (int)y->takes; /* frees come first */
    return x->value < y->value ? -1 : x->value > y->value;
}

static sweep *sweep_make(tsr_arena *arena, uint32_t count) {
    size_t blocks = (size_t)count * BLOCKS_EACH + 1;
    sweep *s = TSR_NEW(arena, sweep, 1);
    if (!s || blocks >= NONE) return NULL;
    s->last = NONE;
    s->blocks = TSR_NEW(arena, block, blocks);
    s->unused = TSR_NEW(arena, uint32_t, blocks);
    if (!s->blocks || !s->unused) return NULL;
    while (s->unused_count < blocks) {
        s->unused[s->unused_count] = s->unused_count;
        s->unused_count++;
    }
    for (size_t i = 0; i < LISTS; i++) s->lists[i] = NONE;
    return s;
}

tsr_result tsr_memory_sweep(tsr_ctx *ctx, tsr_arena *arena, tsr_sweep_value *values, uint32_t count,
                            bool backward, uint64_t *out_peak) {
    event *events = TSR_NEW(arena, event, 2 * (size_t)count + 1);
    uint32_t *block_of = TSR_NEW(arena, uint32_t, (size_t)count + 1);
    sweep *s = sweep_make(arena, count);
    uint64_t peak = 0;
    if (!events || !block_of || !s) FAIL(ctx, TSR_MEMORY, "no memory to plan %u values", count);
    for (uint32_t i = 0; i < count; i++) {
        const tsr_sweep_value *v = &values[i];
        TSR_ASSERT(v->first <= v->last && v->last < UINT32_MAX);
        uint32_t first = backward ? UINT32_MAX - 1 - v->last : v->first;
        uint32_t last = backward ? UINT32_MAX - 1 - v->first : v->last;
        events[2 * i] = (event){.at = first, .takes = true, .value = i};
        events[2 * i + 1] = (event){.at = last + 1, .value = i};
    }
    qsort(events, 2 * (size_t)count, sizeof *events, by_time);
    for (uint32_t i = 0; i < 2 * count; i++) {
        uint32_t value = events[i].value;
        if (!events[i].takes) {
            free_block(s, block_of[value]);
            continue;
        }
        if (!allocate_block(s, values[value].size, values[value].align, &block_of[value]))
            FAIL(ctx, TSR_MEMORY, "the workspace of %u values exceeds 2^63 bytes", count);
        values[value].offset = s->blocks[block_of[value]].offset;
        uint64_t end = values[value].offset + values[value].size;
        if (end > peak) peak = end;
    }
    *out_peak = peak;
    return TSR_SUCCESS;
}
