/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs after all merging: part (splits off reshapes that led to no reader), then lets readers
 * recompute values instead of reading them: peel (values that products store wider than
 * necessary), remake (values that can be computed from other available values) and copy (cheap map
 * groups).
 */
#include "compiler/schedule/fusion/planner.h"

#include <string.h>

typedef tsr_fuse_set set;
typedef tsr_fuse_planner planner;
typedef tsr_fuse_description description;

/* A new version of the set with other nodes and that cost. */
static TSR_RESULT remake_set(const planner *p, const set *of, const uint32_t *nodes, uint32_t count,
                             uint64_t cost, set *out_set) {
    uint32_t *own = tsr_arena_memdup(p->arena, nodes, count * sizeof *nodes);
    if (!own) FAIL(p->ctx, TSR_MEMORY, "no memory to fuse %u ops", p->node_count);
    *out_set = (set){.nodes = own, .count = count, .version = of->version + 1, .cost = cost};
    return TSR_SUCCESS;
}

/* ---- part ---- */

/* A reshape that was merged with a reduction for possible readers becomes a view after the
 * reduction if no reader was merged. */
tsr_result tsr_fuse_part(planner *p, uint32_t index) {
    uint32_t nodes[TSR_FUSE_NODES_MAX], count = 0;
    description d;
    const set from = p->sets[index];
    if (from.count > TSR_FUSE_NODES_MAX || p->nodes[index].no_kernel ||
        !tsr_fuse_describe(p, from.nodes, from.count, index, index, &d) || !d.idle)
        return TSR_SUCCESS;
    for (uint32_t i = 0; i < from.count; i++) {
        bool is_reshape =
            p->nodes[from.nodes[i]].kind == TSR_FUSE_RESHAPE && from.nodes[i] != index;
        if (is_reshape) p->home[from.nodes[i]] = from.nodes[i];
        if (!is_reshape) nodes[count++] = from.nodes[i];
    }
    bool legal = tsr_fuse_describe(p, nodes, count, index, index, &d) && !d.rows;
    if (legal) TRY(p->ctx, remake_set(p, &from, nodes, count, d.cost, &p->sets[index]));
    for (uint32_t i = 0; i < from.count; i++) {
        uint32_t node = from.nodes[i];
        if (p->home[node] != node || node == index) continue;
        p->home[node] = legal ? node : index;
        if (!legal) continue;
        const set none = {0};
        bool described = tsr_fuse_describe(p, &node, 1, node, node, &d);
        TSR_ASSERT(described);
        TRY(p->ctx, remake_set(p, &none, &node, 1, d.cost, &p->sets[node]));
    }
    return TSR_SUCCESS;
}

/* ---- copy ---- */

enum { READERS_MAX = 16 };

/* Finds the sets that read set `index`; false if there are too many or its values are needed
 * elsewhere. */
static bool find_readers(const planner *p, uint32_t index, uint32_t *out_readers,
                         uint32_t *out_count) {
    const set *s = &p->sets[index];
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        uint32_t node = s->nodes[i];
        if (p->home[node] != index || p->nodes[node].live_out) return false;
        if (p->storing[node] == TSR_FUSE_ASKED) return false;
        for (uint32_t c = p->consumer_start[node]; c < p->consumer_start[node + 1]; c++) {
            uint32_t consumer = p->consumers[c], home = p->home[consumer], k = 0;
            if (!p->live[consumer] || home == index) continue;
            if (home == TSR_FUSE_NONE) return false; /* a copy: it may be in several sets */
            while (k < count && out_readers[k] != home) k++;
            if (k < count) continue;
            if (count == READERS_MAX) return false;
            out_readers[count++] = home;
        }
    }
    *out_count = count;
    return count > 0;
}

tsr_result tsr_fuse_copy_into_readers(planner *p, uint32_t index) {
    uint32_t readers[READERS_MAX], reader_count;
    uint32_t nodes[2 * TSR_FUSE_NODES_MAX];
    uint64_t before = p->sets[index].cost, after = 0;
    set merged[READERS_MAX];
    if (!tsr_fuse_is_map_set(p, index) || !find_readers(p, index, readers, &reader_count))
        return TSR_SUCCESS;
    for (uint32_t i = 0; i < reader_count; i++) {
        const set *reader = &p->sets[readers[i]];
        description d;
        if (reader->count + p->sets[index].count > TSR_FUSE_NODES_MAX) return TSR_SUCCESS;
        uint32_t count = tsr_fuse_unite(reader, &p->sets[index], nodes);
        if (!tsr_fuse_describe(p, nodes, count, readers[i], readers[i], &d)) return TSR_SUCCESS;
        before = tsr_fuse_add(before, reader->cost);
        after = tsr_fuse_add(after, d.cost);
        TRY(p->ctx, remake_set(p, reader, nodes, count, d.cost, &merged[i]));
    }
    if (after >= before) return TSR_SUCCESS;
    for (uint32_t i = 0; i < reader_count; i++) p->sets[readers[i]] = merged[i];
    for (uint32_t i = 0; i < p->sets[index].count; i++)
        p->home[p->sets[index].nodes[i]] = TSR_FUSE_NONE;
    p->sets[index] = (set){0};
    return TSR_SUCCESS;
}

/* ---- peel ---- */

/* True if the set overwrites a tensor in place. */
static bool is_replacing(const planner *p, uint32_t index) {
    const set *s = &p->sets[index];
    for (uint32_t i = 0; i < s->count; i++)
        if (p->nodes[s->nodes[i]].replaces != TSR_FUSE_NONE) return true;
    return false;
}

static bool holds(const set *s, uint32_t node) {
    for (uint32_t i = 0; i < s->count && s->nodes[i] <= node; i++)
        if (s->nodes[i] == node) return true;
    return false;
}

/* Adds a reader once; false if there are too many. */
static bool add_reader(const planner *p, uint32_t index, uint32_t *readers, uint32_t *count) {
    for (uint32_t k = 0; k < *count; k++)
        if (readers[k] == index) return true;
    if (*count == READERS_MAX || is_replacing(p, index)) return false;
    readers[(*count)++] = index;
    return true;
}

/* Finds the sets that read the node; its own set counts only with `inside`. */
static bool find_node_readers(const planner *p, uint32_t node, bool inside, uint32_t *out_readers,
                              uint32_t *out_count) {
    uint32_t count = 0;
    for (uint32_t c = p->consumer_start[node]; c < p->consumer_start[node + 1]; c++) {
        uint32_t consumer = p->consumers[c], home = p->home[consumer];
        if (!p->live[consumer]) continue;
        if (home == p->home[node] && inside) continue;
        if (home == p->home[node]) return false;
        if (home != TSR_FUSE_NONE && !add_reader(p, home, out_readers, &count)) return false;
        for (uint32_t i = 0; i < p->node_count && home == TSR_FUSE_NONE;
             i++) /* a consumer that is a copy */
            if (holds(&p->sets[i], consumer) && !add_reader(p, i, out_readers, &count))
                return false;
    }
    *out_count = count;
    return count > 0;
}

/* Moves the node out of its set and copies it into its readers; undone unless it saves anything. */
static TSR_RESULT peel_node(planner *p, uint32_t index, uint32_t node, bool *out_done) {
    uint32_t readers[READERS_MAX], count = 0, nodes[TSR_FUSE_NODES_MAX + 1];
    set made[READERS_MAX + 1], *from = &p->sets[index];
    uint64_t before = from->cost, after = 0;
    *out_done = false;
    bool repairs = p->nodes[node].kind == TSR_FUSE_REPAIR;
    if ((p->nodes[node].kind != TSR_FUSE_MAP && !repairs) || p->nodes[node].live_out ||
        !find_node_readers(p, node, false, readers, &count))
        return TSR_SUCCESS;
    const set alone = {.nodes = &node, .count = 1};
    p->home[node] = TSR_FUSE_NONE;
    for (uint32_t i = 0; i <= count; i++) {
        const set *other = i < count ? &p->sets[readers[i]] : from;
        uint32_t home = i < count ? readers[i] : index, used = 0;
        description d;
        if (i < count && other->count < TSR_FUSE_NODES_MAX)
            used = tsr_fuse_unite(other, &alone, nodes);
        for (uint32_t k = 0; k < other->count && i == count; k++)
            if (other->nodes[k] != node) nodes[used++] = other->nodes[k];
        if (!used || !tsr_fuse_describe(p, nodes, used, home, home, &d)) {
            p->home[node] = index;
            return TSR_SUCCESS;
        }
        if (i < count) before = tsr_fuse_add(before, other->cost);
        after = tsr_fuse_add(after, d.cost);
        TRY(p->ctx, remake_set(p, other, nodes, used, d.cost, &made[i]));
    }
    *out_done = after < before;
    if (!*out_done) p->home[node] = index;
    for (uint32_t i = 0; i < count && *out_done; i++) p->sets[readers[i]] = made[i];
    if (*out_done) *from = made[count];
    return TSR_SUCCESS;
}

/* If a product on matrix units ends with nodes that store a wider type than necessary, their
 * readers compute them instead: a widening cast, for example, is cheapest where its result is
 * read. */
tsr_result tsr_fuse_peel(planner *p, uint32_t index) {
    bool done = true;
    while (done) {
        const set *s = &p->sets[index];
        bool on_units = false;
        done = false;
        for (uint32_t i = 0; i < s->count; i++) on_units |= p->nodes[s->nodes[i]].on_units;
        for (uint32_t i = s->count; i-- > 0 && on_units && !done;)
            TRY(p->ctx, peel_node(p, index, s->nodes[i], &done));
    }
    return TSR_SUCCESS;
}

/* ---- remake ---- */

enum { REMADE_MAX = 8 };

/* Node `node` of set `index`, and those elementwise nodes of the set that it needs and that are
 * not stored; its other inputs are stored, or will be stored for it. */
typedef struct remaking {
    uint32_t nodes[REMADE_MAX], count;                   /* ascending */
    uint32_t asked[TSR_FUSE_ARGUMENTS_MAX], asked_count; /* nodes that must be stored for it */
} remaking;

static bool is_stored(const planner *p, uint32_t node) {
    tsr_fuse_kind kind = p->nodes[node].kind;
    return kind == TSR_FUSE_SOURCE || kind == TSR_FUSE_SPLAT || p->nodes[node].live_out ||
           (p->home[node] != TSR_FUSE_NONE && p->storing[node] == TSR_FUSE_ASKED);
}

/* True if both nodes have the same size, so that it saves time to recompute the node. A repair
 * takes no time. */
static bool is_whole(const planner *p, uint32_t node, uint32_t other) {
    if (p->nodes[node].kind == TSR_FUSE_REPAIR) return true;
    return p->nodes[node].kind == TSR_FUSE_MAP &&
           tsr_shape_equal(&p->nodes[node].shape, &p->nodes[other].shape);
}

static bool add_node(remaking *r, uint32_t node) {
    uint32_t at = r->count;
    for (uint32_t i = 0; i < r->count; i++)
        if (r->nodes[i] == node) return true;
    if (r->count == REMADE_MAX) return false;
    for (; at > 0 && r->nodes[at - 1] > node; at--) r->nodes[at] = r->nodes[at - 1];
    r->nodes[at] = node;
    r->count++;
    return true;
}

static bool ask_for(planner *p, remaking *r, uint32_t node) {
    if (is_stored(p, node)) return true;
    if (p->home[node] == TSR_FUSE_NONE || p->storing[node] != TSR_FUSE_WHERE_READ ||
        r->asked_count == TSR_FUSE_ARGUMENTS_MAX)
        return false;
    p->storing[node] = TSR_FUSE_ASKED;
    r->asked[r->asked_count++] = node;
    return true;
}

/* Operands are earlier nodes, so one walk from the last node visits all needed nodes. */
static bool find_remade(planner *p, uint32_t index, uint32_t node, remaking *r) {
    const set *s = &p->sets[index];
    add_node(r, node);
    for (uint32_t i = s->count; i-- > 0;) {
        const tsr_fuse_node *member = &p->nodes[s->nodes[i]];
        bool needed = false;
        for (uint32_t k = 0; k < r->count; k++) needed |= r->nodes[k] == s->nodes[i];
        for (uint32_t k = 0; k < member->operand_count && needed; k++) {
            uint32_t operand = member->operands[k];
            bool again = holds(s, operand) && is_whole(p, operand, node) && !is_stored(p, operand);
            if (!(again ? add_node(r, operand) : ask_for(p, r, operand))) return false;
        }
    }
    return true;
}

/* Builds the sets of `readers` with the copies, and set `index` without the nodes. *out_done is
 * false if this saves nothing, or if a reader cannot hold the copies or is not a rows group;
 * products on matrix units, for example, read their operands from memory as stored. */
static TSR_RESULT move_copies(planner *p, remaking *r, uint32_t index, const uint32_t *readers,
                              uint32_t count, set *out_made, bool *out_done) {
    const set copies = {.nodes = r->nodes, .count = r->count};
    uint64_t before = 0, after = 0;
    *out_done = false;
    uint32_t nodes[TSR_FUSE_NODES_MAX + REMADE_MAX];
    for (uint32_t i = 0; i <= count; i++) {
        uint32_t home = i < count ? readers[i] : index;
        const set *other = &p->sets[home];
        description d;
        if (other->count + r->count > TSR_FUSE_NODES_MAX) return TSR_SUCCESS;
        uint32_t used = tsr_fuse_unite(other, i < count ? &copies : &(set){0}, nodes);
        if (p->nodes[nodes[0]].vrank != p->nodes[r->nodes[0]].vrank ||
            !tsr_fuse_describe(p, nodes, used, home, home, &d) || !d.rows)
            return TSR_SUCCESS;
        before = tsr_fuse_add(before, other->cost);
        after = tsr_fuse_add(after, d.cost);
        TRY(p->ctx, remake_set(p, other, nodes, used, d.cost, &out_made[i]));
    }
    *out_done = after < before;
    return TSR_SUCCESS;
}

static TSR_RESULT remake_node(planner *p, uint32_t index, uint32_t node) {
    uint32_t readers[READERS_MAX], count = 0;
    set made[READERS_MAX + 1];
    remaking r = {.count = 0};
    bool done = false;
    if (p->nodes[node].kind != TSR_FUSE_MAP || p->nodes[node].live_out || p->home[node] != index ||
        p->storing[node] != TSR_FUSE_WHERE_READ ||
        !find_node_readers(p, node, true, readers, &count))
        return TSR_SUCCESS;
    p->storing[node] = TSR_FUSE_REMADE;
    if (find_remade(p, index, node, &r))
        TRY(p->ctx, move_copies(p, &r, index, readers, count, made, &done));
    for (uint32_t i = 0; i < count && done; i++) p->sets[readers[i]] = made[i];
    if (done) {
        p->sets[index] = made[count];
        return TSR_SUCCESS;
    }
    p->storing[node] = TSR_FUSE_WHERE_READ;
    for (uint32_t i = 0; i < r.asked_count; i++) p->storing[r.asked[i]] = TSR_FUSE_WHERE_READ;
    return TSR_SUCCESS;
}

/* Handles a value that a rows group stores although its readers can recompute it from values that
 * are stored in any case and from a few numbers of each row. An example is the x of a norm without
 * its mean and divided by its size. */
tsr_result tsr_fuse_remake(planner *p, uint32_t index) {
    bool of_rows = false;
    for (uint32_t i = 0; i < p->sets[index].count; i++)
        of_rows |= p->nodes[p->sets[index].nodes[i]].trailing > 0;
    for (uint32_t i = p->sets[index].count; i-- > 0 && of_rows;)
        TRY(p->ctx, remake_node(p, index, p->sets[index].nodes[i]));
    return TSR_SUCCESS;
}
