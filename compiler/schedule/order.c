/* SPDX-License-Identifier: Apache-2.0
 *
 * The order in which the groups of an entry run. Edges: operands; readers of a tensor's old value
 * before the group that overwrites it; groups that can fault before those that overwrite. Edges of
 * the last two kinds are preferences: one that would close a cycle is left out. A list scheduler
 * follows, which keeps the groups that are ready in a heap.
 */
#include "compiler/schedule/fusion/fusion.h"
#include "runtime/base/array.h"

#include <string.h>

typedef struct arrow {
    uint32_t to, next; /* next: the next arrow of the same group; TSR_FUSE_NONE at the end */
} arrow;

/* A group that can run, with its priority: lower is better. */
typedef struct ready {
    int64_t growth;
    uint32_t slot, group;
} ready;

typedef struct orderer {
    tsr_ctx *ctx;
    tsr_arena *arena;
    const tsr_fuse_node *nodes;
    tsr_fuse_group *groups;
    uint32_t group_count;
    uint32_t *made_by; /* node -> group that outputs it, or TSR_FUSE_NONE */
    uint32_t *readers; /* node -> groups that have yet to read it */
    arrow *arrows;
    uint32_t arrow_count;
    size_t arrow_capacity;
    uint32_t *first;   /* group -> its first arrow */
    uint32_t *waiting; /* group -> groups before it that have not run */
    uint32_t *seen, stamp, *stack;
    uint32_t *reader_start; /* node -> its groups in reader_groups, up to those of the next node */
    uint32_t *reader_groups;
    ready *heap;
    size_t heap_count;
} orderer;

static TSR_RESULT arrow_add(orderer *o, uint32_t from, uint32_t to) {
    for (uint32_t i = o->first[from]; i != TSR_FUSE_NONE; i = o->arrows[i].next)
        if (o->arrows[i].to == to) return TSR_SUCCESS;
    if (o->arrow_count == o->arrow_capacity) {
        arrow *larger = TSR_ARENA_GROW(o->arena, o->arrows, &o->arrow_capacity, 1024);
        if (!larger) FAIL(o->ctx, TSR_MEMORY, "no memory to order %u groups", o->group_count);
        o->arrows = larger;
    }
    o->arrows[o->arrow_count] = (arrow){.to = to, .next = o->first[from]};
    o->first[from] = o->arrow_count++;
    o->waiting[to]++;
    return TSR_SUCCESS;
}

static bool leads(orderer *o, uint32_t from, uint32_t to) {
    uint32_t depth = 0;
    if (from == to) return true;
    o->seen[from] = ++o->stamp;
    o->stack[depth++] = from;
    while (depth > 0) {
        uint32_t group = o->stack[--depth];
        for (uint32_t i = o->first[group]; i != TSR_FUSE_NONE; i = o->arrows[i].next) {
            uint32_t next = o->arrows[i].to;
            if (next == to) return true;
            if (o->seen[next] == o->stamp) continue;
            o->seen[next] = o->stamp;
            o->stack[depth++] = next;
        }
    }
    return false;
}

static TSR_RESULT wish(orderer *o, uint32_t before, uint32_t after) {
    if (leads(o, after, before)) return TSR_SUCCESS;
    return arrow_add(o, before, after);
}

static bool can_fault(const orderer *o, uint32_t group) {
    uint32_t root = o->groups[group].root;
    return root != TSR_FUSE_NONE && o->nodes[root].faults;
}

static TSR_RESULT wishes(orderer *o) {
    uint32_t *faults = TSR_NEW(o->arena, uint32_t, (size_t)o->group_count + 1), fault_count = 0;
    if (!faults) FAIL(o->ctx, TSR_MEMORY, "no memory to order %u groups", o->group_count);
    for (uint32_t g = 0; g < o->group_count; g++)
        if (can_fault(o, g)) faults[fault_count++] = g;
    for (uint32_t g = 0; g < o->group_count; g++) {
        const tsr_fuse_group *group = &o->groups[g];
        for (uint32_t k = 0; k < group->output_count; k++) {
            uint32_t old = o->nodes[group->outputs[k]].replaces;
            if (old == TSR_FUSE_NONE) continue;
            /* Readers and groups that can fault, merged in their order. */
            uint32_t reader = o->reader_start[old], end = o->reader_start[old + 1], f = 0;
            while (reader < end || f < fault_count) {
                uint32_t a = reader < end ? o->reader_groups[reader] : TSR_FUSE_NONE;
                uint32_t b = f < fault_count ? faults[f] : TSR_FUSE_NONE;
                uint32_t other = a < b ? a : b;
                reader += other == a;
                f += other == b;
                if (other != g) TRY(o->ctx, wish(o, other, g));
            }
        }
    }
    return TSR_SUCCESS;
}

/* The groups that read each node, in ascending order. */
static TSR_RESULT list_readers(orderer *o, uint32_t node_count) {
    size_t total = 0;
    for (uint32_t n = 0; n < node_count; n++) total += o->readers[n];
    o->reader_start = TSR_NEW(o->arena, uint32_t, (size_t)node_count + 2);
    o->reader_groups = TSR_NEW(o->arena, uint32_t, total + 1);
    o->heap = TSR_NEW(o->arena, ready, (size_t)o->group_count + node_count + 1);
    if (!o->reader_start || !o->reader_groups || !o->heap)
        FAIL(o->ctx, TSR_MEMORY, "no memory to order %u groups", o->group_count);
    for (uint32_t n = 0; n < node_count; n++)
        o->reader_start[n + 1] = o->reader_start[n] + o->readers[n];
    /* Filled from the starts; afterwards each start is where the next one was. */
    for (uint32_t g = 0; g < o->group_count; g++)
        for (uint32_t k = 0; k < o->groups[g].input_count; k++)
            o->reader_groups[o->reader_start[o->groups[g].inputs[k]]++] = g;
    for (uint32_t n = node_count; n > 0; n--) o->reader_start[n] = o->reader_start[n - 1];
    o->reader_start[0] = 0;
    return TSR_SUCCESS;
}

static TSR_RESULT orderer_prepare(orderer *o, uint32_t node_count) {
    size_t groups = (size_t)o->group_count + 1;
    o->made_by = TSR_NEW(o->arena, uint32_t, (size_t)node_count + 1);
    o->readers = TSR_NEW(o->arena, uint32_t, (size_t)node_count + 1);
    o->first = TSR_NEW(o->arena, uint32_t, groups);
    o->waiting = TSR_NEW(o->arena, uint32_t, groups);
    o->seen = TSR_NEW(o->arena, uint32_t, groups);
    o->stack = TSR_NEW(o->arena, uint32_t, groups);
    if (!o->made_by || !o->readers || !o->first || !o->waiting || !o->seen || !o->stack)
        FAIL(o->ctx, TSR_MEMORY, "no memory to order %u groups", o->group_count);
    memset(o->made_by, 0xff, node_count * sizeof *o->made_by);
    memset(o->first, 0xff, o->group_count * sizeof *o->first);
    for (uint32_t g = 0; g < o->group_count; g++)
        for (uint32_t k = 0; k < o->groups[g].output_count; k++)
            o->made_by[o->groups[g].outputs[k]] = g;
    for (uint32_t g = 0; g < o->group_count; g++)
        for (uint32_t k = 0; k < o->groups[g].input_count; k++) {
            uint32_t input = o->groups[g].inputs[k];
            o->readers[input]++;
            if (o->made_by[input] != TSR_FUSE_NONE) TRY(o->ctx, arrow_add(o, o->made_by[input], g));
        }
    return list_readers(o, node_count);
}

static int64_t node_bytes(const orderer *o, uint32_t node) {
    uint64_t size = 0;
    bool fits = tsr_shape_size(&o->nodes[node].shape, o->nodes[node].dtype, &size);
    TSR_ASSERT(fits);
    return (int64_t)size;
}

/* The number of bytes of workspace that running the group now would add (negative: frees). */
static int64_t growth(const orderer *o, const tsr_fuse_group *group) {
    int64_t bytes = 0;
    for (uint32_t i = 0; i < group->output_count; i++)
        if (!o->nodes[group->outputs[i]].live_out) bytes += node_bytes(o, group->outputs[i]);
    for (uint32_t i = 0; i < group->input_count; i++) {
        uint32_t input = group->inputs[i];
        bool planned = o->made_by[input] != TSR_FUSE_NONE && !o->nodes[input].live_out;
        if (planned && o->readers[input] == 1) bytes -= node_bytes(o, input);
    }
    return bytes;
}

/* Growth below this limit is ignored, so that scalars that other groups wait for come early. */
enum { NEGLIGIBLE_BYTES = 256 };

static bool is_better(const ready *a, const ready *b) {
    if (a->growth != b->growth) return a->growth < b->growth;
    if (a->slot != b->slot) return a->slot < b->slot;
    return a->group < b->group;
}

/* Pushes a group that waits for no other: when it becomes ready, and again when its growth
 * decreases. */
static void push(orderer *o, uint32_t g) {
    const tsr_fuse_group *group = &o->groups[g];
    int64_t grows = growth(o, group);
    if (grows > 0) grows = grows > NEGLIGIBLE_BYTES;
    ready item = {grows, group->nodes[group->node_count - 1], g};
    size_t at = o->heap_count++;
    for (; at > 0 && is_better(&item, &o->heap[(at - 1) / 2]); at = (at - 1) / 2)
        o->heap[at] = o->heap[(at - 1) / 2];
    o->heap[at] = item;
}

static uint32_t pop(orderer *o) {
    TSR_ASSERT(o->heap_count);
    uint32_t best = o->heap[0].group;
    ready item = o->heap[--o->heap_count];
    size_t at = 0;
    for (size_t child = 1; child < o->heap_count; child = 2 * at + 1) {
        if (child + 1 < o->heap_count && is_better(&o->heap[child + 1], &o->heap[child])) child++;
        if (!is_better(&o->heap[child], &item)) break;
        o->heap[at] = o->heap[child];
        at = child;
    }
    o->heap[at] = item;
    return best;
}

/* Picks a group that can run: the group that frees most memory, otherwise the first one in source
 * order (the position of a group is the position of its last node). */
static uint32_t pick(orderer *o, const bool *done) {
    uint32_t best = pop(o);
    while (done[best]) best = pop(o);
    return best;
}

/* The last group that has not yet read a node now frees it, so it may run earlier. */
static void update_last_reader(orderer *o, const bool *done, uint32_t node) {
    for (uint32_t i = o->reader_start[node]; i < o->reader_start[node + 1]; i++) {
        uint32_t g = o->reader_groups[i];
        if (done[g]) continue;
        if (!o->waiting[g]) push(o, g);
        return;
    }
}

/* Updates the state after a group has run. */
static void leave(orderer *o, const bool *done, uint32_t g) {
    const tsr_fuse_group *group = &o->groups[g];
    for (uint32_t k = 0; k < group->input_count; k++)
        if (--o->readers[group->inputs[k]] == 1) update_last_reader(o, done, group->inputs[k]);
    for (uint32_t a = o->first[g]; a != TSR_FUSE_NONE; a = o->arrows[a].next)
        if (--o->waiting[o->arrows[a].to] == 0) push(o, o->arrows[a].to);
}

tsr_result tsr_fuse_plan_order(tsr_ctx *ctx, const tsr_fuse_node *nodes, uint32_t node_count,
                               tsr_arena *arena, tsr_fuse_plan *plan) {
    orderer o = {.ctx = ctx,
                 .arena = arena,
                 .nodes = nodes,
                 .groups = plan->groups,
                 .group_count = plan->group_count};
    TRY(ctx, orderer_prepare(&o, node_count));
    TRY(ctx, wishes(&o));
    tsr_fuse_group *ordered = TSR_NEW(arena, tsr_fuse_group, (size_t)plan->group_count + 1);
    bool *done = TSR_NEW(arena, bool, (size_t)plan->group_count + 1);
    if (!ordered || !done) FAIL(ctx, TSR_MEMORY, "no memory to order %u groups", o.group_count);
    for (uint32_t g = 0; g < plan->group_count; g++)
        if (!o.waiting[g]) push(&o, g);
    for (uint32_t i = 0; i < plan->group_count; i++) {
        uint32_t g = pick(&o, done);
        done[g] = true;
        ordered[i] = o.groups[g];
        leave(&o, done, g);
    }
    plan->groups = ordered;
    return TSR_SUCCESS;
}
