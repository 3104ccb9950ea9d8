/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether two sets may become one: not if a path leads from one to the other through a third set,
 * because then groups would wait for each other.
 *
 * Most such paths are found without a search: they follow a longest path of the graph, of which
 * each node knows the first node that it leads to and the last one that leads to it. In a model
 * with many layers side by side, or one after the other, the ops of a layer and of its gradient are
 * connected by way of the loss.
 *
 * Otherwise two searches take turns edge by edge, one from the first set along consumers, one from
 * the second set along operands. There is a path where they meet, and none if either search ends.
 * So the time is that of the shorter search: of many ops that all read one value, or add up to one
 * value, most have few sets on one of their sides.
 */
#include "compiler/schedule/fusion/planner.h"

typedef tsr_fuse_set set;
typedef tsr_fuse_planner planner;

/* ---- the longest path ---- */

static bool has_set(const planner *p, uint32_t node) { return p->home[node] != TSR_FUSE_NONE; }

/* Writes the path that ends with `end`; depth: the number of nodes of a longest path to a node. */
static void trace(planner *p, const uint32_t *depth, uint32_t end) {
    p->longest_count = depth[end];
    for (uint32_t at = p->longest_count; at-- > 0;) {
        const tsr_fuse_node *node = &p->nodes[end];
        p->longest[at] = end;
        p->first[end] = at;
        p->last[end] = at + 1;
        for (uint32_t k = 0; k < node->operand_count; k++) {
            uint32_t operand = node->operands[k];
            if (!has_set(p, operand) || depth[operand] != at) continue;
            end = operand;
            break;
        }
    }
}

tsr_result tsr_fuse_find_longest(planner *p) {
    size_t count = (size_t)p->node_count + 1;
    uint32_t *depth = TSR_NEW(p->arena, uint32_t, count), end = 0;
    p->longest = TSR_NEW(p->arena, uint32_t, count);
    p->first = TSR_NEW(p->arena, uint32_t, count);
    p->last = TSR_NEW(p->arena, uint32_t, count);
    if (!depth || !p->longest || !p->first || !p->last)
        FAIL(p->ctx, TSR_MEMORY, "no memory to fuse %u ops", p->node_count);
    for (uint32_t i = 0; i < p->node_count; i++) {
        const tsr_fuse_node *node = &p->nodes[i];
        p->first[i] = TSR_FUSE_NONE;
        if (!has_set(p, i)) continue;
        depth[i] = 1;
        for (uint32_t k = 0; k < node->operand_count; k++)
            if (depth[node->operands[k]] >= depth[i]) depth[i] = depth[node->operands[k]] + 1;
        if (depth[i] > depth[end]) end = i;
    }
    if (depth[end]) trace(p, depth, end);
    for (uint32_t i = 0; i < p->node_count; i++)
        for (uint32_t k = 0; k < p->nodes[i].operand_count && has_set(p, i); k++) {
            uint32_t operand = p->nodes[i].operands[k];
            if (p->last[operand] > p->last[i]) p->last[i] = p->last[operand];
        }
    for (uint32_t i = p->node_count; i-- > 0;)
        for (uint32_t k = 0; k < p->nodes[i].operand_count && has_set(p, i); k++) {
            uint32_t operand = p->nodes[i].operands[k];
            if (p->first[i] < p->first[operand]) p->first[operand] = p->first[i];
        }
    return TSR_SUCCESS;
}

/* True if the longest path leads from one set to the other through a third one. */
static bool leads_by_longest(const planner *p, uint32_t from, uint32_t to) {
    const set *a = &p->sets[from], *b = &p->sets[to];
    uint32_t first = TSR_FUSE_NONE, end = 0;
    for (uint32_t i = 0; i < a->count; i++)
        if (p->first[a->nodes[i]] < first) first = p->first[a->nodes[i]];
    for (uint32_t i = 0; i < b->count; i++)
        if (p->last[b->nodes[i]] > end) end = p->last[b->nodes[i]];
    for (uint32_t at = first; at < end; at++) {
        uint32_t home = p->home[p->longest[at]];
        if (home != from && home != to) return true;
    }
    return false;
}

/* ---- searches ---- */

typedef struct search {
    bool forward; /* along consumers, else along operands */
    uint32_t begin, stamp;
    uint32_t at, member, edge; /* the next edge: of this set, of this member */
    uint32_t *waiting, count;  /* sets that were reached, but not yet left */
} search;

static void push(search *s, uint32_t reached) {
    uint32_t at = s->count++;
    *(s->forward ? s->waiting + at : s->waiting - at) = reached;
}

static uint32_t pop(search *s) {
    uint32_t at = --s->count;
    return *(s->forward ? s->waiting + at : s->waiting - at);
}

/* Follows the next edge: *out_set is the set that it leads to, TSR_FUSE_NONE if it leads to none.
 * False if no edge is left. */
static bool follow(const planner *p, search *s, uint32_t *out_set) {
    for (;;) {
        const set *at = &p->sets[s->at];
        if (s->member == at->count) {
            if (!s->count) return false;
            s->at = pop(s);
            s->member = s->edge = 0;
            continue;
        }
        uint32_t node = at->nodes[s->member], start = p->consumer_start[node];
        uint32_t edges =
            s->forward ? p->consumer_start[node + 1] - start : p->nodes[node].operand_count;
        if (s->edge == edges) {
            s->member++;
            s->edge = 0;
            continue;
        }
        uint32_t other =
            s->forward ? p->consumers[start + s->edge] : p->nodes[node].operands[s->edge];
        s->edge++;
        *out_set = p->home[other];
        return true;
    }
}

bool tsr_fuse_leads_around(planner *p, uint32_t from, uint32_t to) {
    if (leads_by_longest(p, from, to)) return true;
    p->seen_stamp += 2;
    /* Each set waits once at most, so both searches share the stack: from its two ends. */
    search searches[] = {{.forward = true, .begin = from, .at = from, .waiting = p->stack},
                         {.begin = to, .at = to, .waiting = p->stack + p->node_count}};
    for (uint32_t i = 0; i < 2; i++) {
        searches[i].stamp = p->seen_stamp - i;
        p->seen[searches[i].begin] = searches[i].stamp;
    }
    for (uint32_t turn = 0;; turn = 1 - turn) {
        search *s = &searches[turn];
        const search *other = &searches[1 - turn];
        uint32_t next;
        if (!follow(p, s, &next)) return false;
        if (next == TSR_FUSE_NONE || p->seen[next] == s->stamp) continue;
        if (s->at == s->begin && next == other->begin) continue; /* without a third set */
        if (p->seen[next] == other->stamp) return true;
        p->seen[next] = s->stamp;
        push(s, next);
    }
}
