/* SPDX-License-Identifier: Apache-2.0
 *
 * Outline: prepare (consumers, nodes that lead to a fault) · describe (whether a set of nodes is a
 * group, and its cost) · merge (a heap of pairs, the best first; paths.c) · copies (copies.c:
 * values that readers recompute) · emit.
 */
#include "compiler/schedule/fusion/planner.h"
#include "compiler/schedule/fusion/rows.h"
#include "runtime/base/array.h"

#include <stdlib.h>
#include <string.h>

typedef tsr_fuse_set set;
typedef tsr_fuse_pair pair;
typedef tsr_fuse_planner planner;
typedef tsr_fuse_description description;

static uint64_t elements_of(const tsr_fuse_node *node) {
    uint64_t count = 0;
    bool fits = tsr_shape_count(&node->shape, &count);
    TSR_ASSERT(fits);
    return count;
}

static uint64_t bytes_of(const tsr_fuse_node *node) {
    return elements_of(node) * tsr_dtype_size(node->dtype);
}

static bool broadcasts(const tsr_shape *from, const tsr_shape *to) {
    if (from->rank > to->rank) return false;
    for (uint32_t i = 0; i < from->rank; i++) {
        uint64_t dim = from->dims[from->rank - 1 - i];
        if (dim != 1 && dim != to->dims[to->rank - 1 - i]) return false;
    }
    return true;
}

uint64_t tsr_fuse_add(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

static uint64_t mul_saturating(uint64_t a, uint64_t b) {
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

/* ---- describe ---- */

/* A SPLAT is computed inside, unless the root reads it whole. */
static bool is_inner_splat(const planner *p, uint32_t node, uint32_t reader) {
    const tsr_fuse_node *by = &p->nodes[reader];
    if (p->nodes[node].kind != TSR_FUSE_SPLAT) return false;
    if (!by->fills || by->operands[0] != node) return by->kind == TSR_FUSE_MAP;
    for (uint32_t i = 1; i < by->operand_count; i++)
        if (by->operands[i] == node) return false;
    return true;
}

static bool is_member(const planner *p, uint32_t node) { return p->mark[node] == p->stamp; }

static bool has_parts(const planner *p, uint32_t node) {
    return node + 1 < p->node_count && p->nodes[node + 1].kind == TSR_FUSE_PART &&
           p->nodes[node].kind != TSR_FUSE_PART;
}

static bool is_output(const planner *p, uint32_t node, uint32_t set_a, uint32_t set_b) {
    if (p->home[node] != set_a && p->home[node] != set_b) return false; /* a copy */
    if (p->nodes[node].live_out || p->nodes[node].kind == TSR_FUSE_PART) return true;
    if (has_parts(p, node)) return true;
    if (p->storing[node] != TSR_FUSE_WHERE_READ) return p->storing[node] == TSR_FUSE_ASKED;
    for (uint32_t i = p->consumer_start[node]; i < p->consumer_start[node + 1]; i++) {
        uint32_t consumer = p->consumers[i];
        if (p->live[consumer] && !is_member(p, consumer)) return true;
    }
    return false;
}

/* Adds an output in order; numbers of rows, which repairs output, follow the rows themselves. */
static void add_output(const planner *p, description *d, uint32_t node) {
    uint32_t at = d->output_count++;
    bool repairs = p->nodes[node].kind == TSR_FUSE_REPAIR;
    for (; at > 0 && !repairs && p->nodes[d->outputs[at - 1]].kind == TSR_FUSE_REPAIR; at--)
        d->outputs[at] = d->outputs[at - 1];
    d->outputs[at] = node;
}

static bool find_arguments(const planner *p, const uint32_t *members, uint32_t count,
                           uint32_t set_a, uint32_t set_b, description *d) {
    for (uint32_t i = 0; i < count; i++) {
        const tsr_fuse_node *node = &p->nodes[members[i]];
        for (uint32_t k = 0; k < node->operand_count; k++) {
            uint32_t operand = node->operands[k], j = 0;
            if (is_member(p, operand) || is_inner_splat(p, operand, members[i])) continue;
            while (j < d->input_count && d->inputs[j] != operand) j++;
            if (j < d->input_count) continue;
            if (d->input_count == TSR_FUSE_ARGUMENTS_MAX) return false;
            d->inputs[d->input_count++] = operand;
            d->read_bytes = tsr_fuse_add(d->read_bytes, bytes_of(&p->nodes[operand]));
        }
        if (!is_output(p, members[i], set_a, set_b)) continue;
        if (d->output_count == TSR_FUSE_ARGUMENTS_MAX) return false;
        add_output(p, d, members[i]);
        d->written_bytes = tsr_fuse_add(d->written_bytes, bytes_of(node));
    }
    return d->input_count + d->output_count <= TSR_FUSE_ARGUMENTS_MAX && d->output_count > 0;
}

/* Finds root and shapes; false if the nodes have two roots or no common shape. */
static bool find_shape(const planner *p, const uint32_t *members, uint32_t count, description *d) {
    uint32_t parts = 0;
    d->root = TSR_FUSE_NONE;
    for (uint32_t i = 0; i < count; i++) {
        parts += p->nodes[members[i]].kind == TSR_FUSE_PART;
        if (p->nodes[members[i]].kind == TSR_FUSE_MAP || p->nodes[members[i]].kind == TSR_FUSE_PART)
            continue;
        if (d->root != TSR_FUSE_NONE) return false;
        d->root = members[i];
    }
    if (d->root != TSR_FUSE_NONE && count > 1 + parts &&
        (p->nodes[d->root].kind == TSR_FUSE_ALONE || p->nodes[d->root].kind == TSR_FUSE_RESHAPE ||
         p->nodes[d->root].kind == TSR_FUSE_REPAIR))
        return false;
    d->shape = p->nodes[d->root != TSR_FUSE_NONE ? d->root : d->outputs[0]].shape;
    for (uint32_t i = 0; i < d->output_count && !parts; i++)
        if (!tsr_shape_equal(&p->nodes[d->outputs[i]].shape, &d->shape)) return false;
    return true;
}

/* Determines, from the last member to the first, whether each elementwise member runs before the
 * root (in the reduction's prologue); adds its work. */
static bool divide_members(planner *p, const uint32_t *members, uint32_t count, uint32_t set_a,
                           uint32_t set_b, description *d) {
    uint32_t before = ++p->seen_stamp;
    const tsr_fuse_node *root = d->root == TSR_FUSE_NONE ? NULL : &p->nodes[d->root];
    uint64_t elements = 0, prologue_elements = 0;
    if (root && root->kind == TSR_FUSE_REDUCE) {
        d->prologue = p->nodes[root->operands[0]].shape;
        tsr_shape_count(&d->prologue, &prologue_elements);
    }
    tsr_shape_count(&d->shape, &elements);
    for (uint32_t i = count; i-- > 0;) {
        uint32_t member = members[i];
        const tsr_fuse_node *node = &p->nodes[member];
        bool is_before = member == d->root || p->seen[member] == before;
        for (uint32_t k = 0; k < node->operand_count && is_before; k++)
            p->seen[node->operands[k]] = before;
        if (member == d->root || node->kind == TSR_FUSE_PART) continue;
        if (is_before) {
            if (root->kind != TSR_FUSE_REDUCE || is_output(p, member, set_a, set_b)) return false;
            /* Values of the prologue are not available after the reduction. */
            for (uint32_t c = p->consumer_start[member]; c < p->consumer_start[member + 1]; c++) {
                uint32_t consumer = p->consumers[c];
                if (is_member(p, consumer) && consumer != d->root && p->seen[consumer] != before)
                    return false;
            }
        }
        if (!broadcasts(&node->shape, is_before ? &d->prologue : &d->shape)) return false;
        d->operations = tsr_fuse_add(
            d->operations, mul_saturating(node->weight, is_before ? prologue_elements : elements));
    }
    return true;
}

/* Describes the nodes as a rows group. */
static bool find_rows(const planner *p, const uint32_t *members, uint32_t count, description *d) {
    const tsr_rows_set all = {.nodes = p->nodes,
                              .members = members,
                              .member_count = count,
                              .inputs = d->inputs,
                              .outputs = d->outputs,
                              .input_count = d->input_count,
                              .output_count = d->output_count};
    d->rows = tsr_rows_fit(&all, &d->operations, &d->idle);
    d->root = d->rows ? tsr_rows_root(&all) : d->root;
    return d->rows;
}

/* Describes the nodes as a node that `casts` and the casts around it. */
static bool find_casts(const planner *p, const uint32_t *members, uint32_t count, description *d) {
    uint32_t before = 0, behind = 0;
    d->root = TSR_FUSE_NONE;
    d->operations = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!p->nodes[members[i]].casts) continue;
        if (d->root != TSR_FUSE_NONE) return false;
        d->root = members[i];
    }
    if (d->root == TSR_FUSE_NONE || d->output_count != 1) return false;
    for (uint32_t i = 0; i < count; i++) {
        const tsr_fuse_node *node = &p->nodes[members[i]];
        if (members[i] == d->root) continue;
        if (!node->is_cast) return false;
        bool reads = node->operands[0] == d->root;
        if (!reads && p->nodes[d->root].operands[0] != members[i]) return false;
        if (reads == (node->dtype == TSR_DTYPE_F32)) return false;
        *(reads ? &behind : &before) += 1;
        d->operations =
            tsr_fuse_add(d->operations, mul_saturating(node->weight, elements_of(node)));
    }
    d->shape = p->nodes[d->outputs[0]].shape;
    return before <= 1 && behind <= 1 && p->nodes[d->outputs[0]].is_cast == (behind > 0);
}

/* A group that a fault can follow, or that is neither map nor matmul, cannot overwrite tensors in
 * place: it costs a copy of each tensor. */
static uint64_t late_copies(const planner *p, const uint32_t *members, uint32_t count,
                            const description *d) {
    bool early = d->root != TSR_FUSE_NONE && p->nodes[d->root].kind != TSR_FUSE_MATMUL;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) early |= p->early[members[i]];
    for (uint32_t i = 0; i < d->output_count && early; i++)
        if (p->nodes[d->outputs[i]].replaces != TSR_FUSE_NONE)
            bytes = tsr_fuse_add(bytes, 2 * bytes_of(&p->nodes[d->outputs[i]]));
    return bytes;
}

/* The step of an optimizer, which reads and writes a parameter and its state, is batched with the
 * steps of other parameters. A product on matrix units also has no registers for the step, because
 * the result of the product uses most registers. */
static bool holds_step(const planner *p, const uint32_t *members, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (p->nodes[members[i]].apart) return true;
    return false;
}

/* True if the group reads only rows that are computed again. */
static bool repairs_alone(const planner *p, const uint32_t *members, uint32_t count) {
    bool repairs = false;
    for (uint32_t i = 0; i < count; i++) {
        tsr_fuse_kind kind = p->nodes[members[i]].kind;
        if (kind != TSR_FUSE_MAP && kind != TSR_FUSE_REPAIR) return false;
        repairs |= kind == TSR_FUSE_REPAIR;
    }
    return repairs;
}

/* True if one of several nodes reads a value that only rows groups may read. */
static bool reads_what_stays(const planner *p, const uint32_t *members, uint32_t count) {
    for (uint32_t i = 0; i < count && count > 1; i++) {
        const tsr_fuse_node *node = &p->nodes[members[i]];
        for (uint32_t k = 0; k < node->operand_count; k++)
            if (p->nodes[node->operands[k]].stays) return true;
    }
    return false;
}

bool tsr_fuse_describe(planner *p, const uint32_t *members, uint32_t count, uint32_t set_a,
                       uint32_t set_b, description *d) {
    *d = (description){.root = TSR_FUSE_NONE};
    p->stamp++;
    for (uint32_t i = 0; i < count; i++) {
        if (p->nodes[members[i]].planned != p->nodes[members[0]].planned) return false;
        p->mark[members[i]] = p->stamp;
    }
    if (!find_arguments(p, members, count, set_a, set_b, d)) return false;
    bool plain = !reads_what_stays(p, members, count) && find_shape(p, members, count, d) &&
                 divide_members(p, members, count, set_a, set_b, d);
    if (!plain && !find_rows(p, members, count, d) && !find_casts(p, members, count, d))
        return false;
    if (repairs_alone(p, members, count)) d->read_bytes = 0; /* only a few odd rows are read */
    if (count > 1 && d->root != TSR_FUSE_NONE && holds_step(p, members, count)) return false;
    d->cost = tsr_fuse_add(d->read_bytes, d->written_bytes);
    d->cost = tsr_fuse_add(d->cost, d->operations);
    d->cost = tsr_fuse_add(d->cost, late_copies(p, members, count, d));
    d->cost = tsr_fuse_add(d->cost, TSR_FUSE_LAUNCH_COST);
    return true;
}

/* ---- merge ---- */

static bool pair_before(const pair *x, const pair *y) {
    if (x->saved != y->saved) return x->saved > y->saved;
    return x->a != y->a ? x->a < y->a : x->b < y->b;
}

static TSR_RESULT heap_push(planner *p, pair item) {
    if (p->heap_count == p->heap_capacity) {
        pair *larger = TSR_ARENA_GROW(p->arena, p->heap, &p->heap_capacity, 1024);
        if (!larger) FAIL(p->ctx, TSR_MEMORY, "no memory to fuse %u ops", p->node_count);
        p->heap = larger;
    }
    uint32_t at = p->heap_count++;
    while (at > 0 && pair_before(&item, &p->heap[(at - 1) / 2])) {
        p->heap[at] = p->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    p->heap[at] = item;
    return TSR_SUCCESS;
}

static pair heap_pop(planner *p) {
    pair top = p->heap[0], item = p->heap[--p->heap_count];
    uint32_t at = 0;
    for (uint32_t child = 1; child < p->heap_count; child = 2 * at + 1) {
        if (child + 1 < p->heap_count && pair_before(&p->heap[child + 1], &p->heap[child])) child++;
        if (!pair_before(&p->heap[child], &item)) break;
        p->heap[at] = p->heap[child];
        at = child;
    }
    p->heap[at] = item;
    return top;
}

/* Members of both, ascending, each once. */
uint32_t tsr_fuse_unite(const set *a, const set *b, uint32_t *out_nodes) {
    uint32_t i = 0, j = 0, count = 0;
    while (i < a->count || j < b->count) {
        if (j == b->count || (i < a->count && a->nodes[i] < b->nodes[j]))
            out_nodes[count++] = a->nodes[i++];
        else if (i == a->count || b->nodes[j] < a->nodes[i])
            out_nodes[count++] = b->nodes[j++];
        else {
            out_nodes[count++] = a->nodes[i++];
            j++;
        }
    }
    return count;
}

static bool reads_from(const planner *p, uint32_t reader, uint32_t from) {
    const set *s = &p->sets[reader];
    for (uint32_t i = 0; i < s->count; i++) {
        const tsr_fuse_node *node = &p->nodes[s->nodes[i]];
        for (uint32_t k = 0; k < node->operand_count; k++)
            if (p->home[node->operands[k]] == from) return true;
    }
    return false;
}

bool tsr_fuse_is_map_set(const planner *p, uint32_t index) {
    const set *s = &p->sets[index];
    for (uint32_t i = 0; i < s->count; i++)
        if (p->nodes[s->nodes[i]].kind != TSR_FUSE_MAP) return false;
    return true;
}

/* A sum over rows, optionally with the nodes before it. */
static bool is_sum_set(const planner *p, uint32_t index) {
    const set *s = &p->sets[index];
    for (uint32_t i = 0; i < s->count; i++)
        if (p->nodes[s->nodes[i]].sums_rows) return true;
    return false;
}

static bool is_vrank_set(const planner *p, uint32_t index) {
    return p->nodes[p->sets[index].nodes[0]].vrank;
}

static bool are_steps(const planner *p, uint32_t a, uint32_t b) {
    return holds_step(p, p->sets[a].nodes, p->sets[a].count) &&
           holds_step(p, p->sets[b].nodes, p->sets[b].count);
}

/* Pushes the pair if merging it saves anything. */
static TSR_RESULT consider(planner *p, uint32_t a, uint32_t b) {
    uint32_t nodes[2 * TSR_FUSE_NODES_MAX];
    description d;
    if (a == b || p->sets[a].count + p->sets[b].count > TSR_FUSE_NODES_MAX) return TSR_SUCCESS;
    if (is_vrank_set(p, a) != is_vrank_set(p, b)) return TSR_SUCCESS;
    if (a > b) {
        uint32_t swap = a;
        a = b;
        b = swap;
    }
    bool planned = p->nodes[p->sets[a].nodes[0]].planned > 0;
    bool joined = planned || reads_from(p, b, a) || reads_from(p, a, b);
    bool sums = is_sum_set(p, a) || is_sum_set(p, b);
    if (!joined && !sums && (!tsr_fuse_is_map_set(p, a) || !tsr_fuse_is_map_set(p, b)))
        return TSR_SUCCESS;
    if (!joined && are_steps(p, a, b)) return TSR_SUCCESS;
    uint32_t count = tsr_fuse_unite(&p->sets[a], &p->sets[b], nodes);
    if (!tsr_fuse_describe(p, nodes, count, a, b, &d)) return TSR_SUCCESS;
    /* One pass over the rows serves all sums that read them. */
    joined = joined || (sums && d.rows);
    if (!joined && tsr_fuse_add(d.read_bytes, d.written_bytes) > TSR_FUSE_SIDEWAYS_BYTES_MAX)
        return TSR_SUCCESS;
    uint64_t apart = tsr_fuse_add(p->sets[a].cost, p->sets[b].cost);
    if (d.cost >= apart && !planned) return TSR_SUCCESS;
    return heap_push(p, (pair){.saved = planned ? UINT64_MAX - d.cost : apart - d.cost,
                               .a = a,
                               .b = b,
                               .version_a = p->sets[a].version,
                               .version_b = p->sets[b].version});
}

/* Considers the sets next to the consumer at `at` in its operand's list of consumers. */
static TSR_RESULT consider_sideways(planner *p, uint32_t index, uint32_t operand, uint32_t reader) {
    uint32_t start = p->consumer_start[operand], end = p->consumer_start[operand + 1], at = start;
    for (uint32_t last = end - 1; at < last;) { /* the first that is not below the reader */
        uint32_t middle = at + (last - at) / 2;
        if (p->consumers[middle] < reader)
            at = middle + 1;
        else
            last = middle;
    }
    for (uint32_t i = at; i-- > start;) {
        uint32_t other = p->home[p->consumers[i]];
        if (other == index || other == TSR_FUSE_NONE) continue;
        TRY(p->ctx, consider(p, index, other));
        break;
    }
    for (uint32_t i = at + 1; i < end; i++) {
        uint32_t other = p->home[p->consumers[i]];
        if (other == index || other == TSR_FUSE_NONE) continue;
        TRY(p->ctx, consider(p, index, other));
        break;
    }
    return TSR_SUCCESS;
}

static TSR_RESULT consider_neighbours(planner *p, uint32_t index) {
    const set *s = &p->sets[index];
    for (uint32_t i = 0; i < s->count; i++) {
        const tsr_fuse_node *node = &p->nodes[s->nodes[i]];
        for (uint32_t k = 0; k < node->operand_count; k++) {
            uint32_t other = p->home[node->operands[k]];
            if (other != TSR_FUSE_NONE) TRY(p->ctx, consider(p, index, other));
            if (p->nodes[node->operands[k]].kind != TSR_FUSE_SPLAT)
                TRY(p->ctx, consider_sideways(p, index, node->operands[k], s->nodes[i]));
        }
        for (uint32_t c = p->consumer_start[s->nodes[i]]; c < p->consumer_start[s->nodes[i] + 1];
             c++) {
            uint32_t other = p->home[p->consumers[c]];
            if (other != TSR_FUSE_NONE) TRY(p->ctx, consider(p, index, other));
        }
    }
    return TSR_SUCCESS;
}

static TSR_RESULT merge(planner *p, uint32_t a, uint32_t b) {
    description d;
    set *into = &p->sets[a], *from = &p->sets[b];
    uint32_t *nodes = TSR_NEW(p->arena, uint32_t, into->count + from->count);
    if (!nodes) FAIL(p->ctx, TSR_MEMORY, "no memory to fuse %u ops", p->node_count);
    uint32_t count = tsr_fuse_unite(into, from, nodes);
    bool legal = tsr_fuse_describe(p, nodes, count, a, b, &d);
    TSR_ASSERT(legal);
    for (uint32_t i = 0; i < from->count; i++) p->home[from->nodes[i]] = a;
    *into = (set){.nodes = nodes, .count = count, .version = into->version + 1, .cost = d.cost};
    *from = (set){0};
    return consider_neighbours(p, a);
}

static TSR_RESULT merge_all(planner *p) {
    for (uint32_t i = 0; i < p->node_count; i++)
        if (p->sets[i].count) TRY(p->ctx, consider_neighbours(p, i));
    while (p->heap_count > 0) {
        pair best = heap_pop(p);
        if (p->sets[best.a].version != best.version_a || p->sets[best.b].version != best.version_b)
            continue;
        /* The graph is acyclic before the merge: a path back can exist only if there is no path in
         * the other direction. */
        bool forth = reads_from(p, best.b, best.a), back = reads_from(p, best.a, best.b);
        if (!back && tsr_fuse_leads_around(p, best.a, best.b)) continue;
        if (!forth && tsr_fuse_leads_around(p, best.b, best.a)) continue;
        TRY(p->ctx, merge(p, best.a, best.b));
    }
    return TSR_SUCCESS;
}

/* ---- prepare, emit ---- */

static TSR_RESULT find_consumers(planner *p) {
    uint32_t total = 0;
    p->consumer_start = TSR_NEW(p->arena, uint32_t, (size_t)p->node_count + 2);
    for (uint32_t i = 0; i < p->node_count; i++) total += p->nodes[i].operand_count;
    p->consumers = TSR_NEW(p->arena, uint32_t, (size_t)total + 1);
    if (!p->consumer_start || !p->consumers)
        FAIL(p->ctx, TSR_MEMORY, "no memory to fuse %u ops", p->node_count);
    uint32_t *fill = p->consumer_start + 1; /* shifted by one, so that filling corrects it */
    for (uint32_t i = 0; i < p->node_count; i++)
        for (uint32_t k = 0; k < p->nodes[i].operand_count; k++) {
            TSR_ASSERT(p->nodes[i].operands[k] < i);
            fill[p->nodes[i].operands[k] + 1]++;
        }
    for (uint32_t i = 0; i < p->node_count; i++) fill[i + 1] += fill[i];
    for (uint32_t i = 0; i < p->node_count; i++)
        for (uint32_t k = 0; k < p->nodes[i].operand_count; k++)
            p->consumers[fill[p->nodes[i].operands[k]]++] = i;
    return TSR_SUCCESS;
}

static TSR_RESULT prepare(planner *p) {
    size_t count = (size_t)p->node_count + 1;
    p->live = TSR_NEW(p->arena, bool, count);
    p->early = TSR_NEW(p->arena, bool, count);
    p->home = TSR_NEW(p->arena, uint32_t, count);
    p->storing = TSR_NEW(p->arena, tsr_fuse_storing, count);
    p->sets = TSR_NEW(p->arena, set, count);
    p->mark = TSR_NEW(p->arena, uint32_t, count);
    p->seen = TSR_NEW(p->arena, uint32_t, count);
    p->stack = TSR_NEW(p->arena, uint32_t, count);
    uint32_t *own = TSR_NEW(p->arena, uint32_t, count);
    if (!p->live || !p->early || !p->home || !p->storing || !p->sets || !p->mark || !p->seen ||
        !p->stack || !own)
        FAIL(p->ctx, TSR_MEMORY, "no memory to fuse %u ops", p->node_count);
    TRY(p->ctx, find_consumers(p));
    for (uint32_t i = p->node_count; i-- > 0;) {
        const tsr_fuse_node *node = &p->nodes[i];
        p->live[i] |= node->live_out;
        p->early[i] |= node->faults && p->live[i];
        for (uint32_t k = 0; k < node->operand_count; k++) {
            p->live[node->operands[k]] |= p->live[i];
            p->early[node->operands[k]] |= p->early[i];
        }
    }
    for (uint32_t i = 0, owner = 0; i < p->node_count; i++) {
        tsr_fuse_kind kind = p->nodes[i].kind;
        p->home[i] = TSR_FUSE_NONE;
        if (kind != TSR_FUSE_PART) owner = i;
        TSR_ASSERT(kind != TSR_FUSE_PART || p->nodes[i].operands[0] == owner);
        p->live[i] |= p->live[owner];
        if (!p->live[i] || kind == TSR_FUSE_SOURCE || kind == TSR_FUSE_SPLAT) continue;
        own[i] = i;
        p->home[i] = owner;
        if (owner == i) p->sets[i] = (set){.nodes = &own[i], .version = 1};
        p->sets[owner].count++;
    }
    TRY(p->ctx, tsr_fuse_find_longest(p));
    for (uint32_t i = 0; i < p->node_count; i++) {
        description d;
        if (p->sets[i].count == 0 || p->nodes[i].no_kernel) continue;
        if (!tsr_fuse_describe(p, &own[i], p->sets[i].count, i, i, &d))
            FAIL(p->ctx, TSR_INTERNAL, "op %u cannot be made a kernel", i);
        p->sets[i].cost = d.cost;
    }
    return TSR_SUCCESS;
}

static int ascending(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* Emits ops that are not kernels: the group reads the op's operands and outputs all its results. */
static TSR_RESULT emit_as_is(planner *p, uint32_t index, tsr_fuse_group *group) {
    const set *s = &p->sets[index];
    const tsr_fuse_node *node = &p->nodes[index];
    *group =
        (tsr_fuse_group){.nodes = s->nodes,
                         .node_count = s->count,
                         .root = index,
                         .inputs = TSR_NEW(p->arena, uint32_t, (size_t)node->operand_count + 1),
                         .outputs = s->nodes,
                         .output_count = s->count};
    if (!group->inputs) FAIL(p->ctx, TSR_MEMORY, "no memory to fuse %u ops", p->node_count);
    p->stamp++;
    for (uint32_t k = 0; k < node->operand_count; k++) {
        if (is_member(p, node->operands[k])) continue;
        p->mark[node->operands[k]] = p->stamp;
        group->inputs[group->input_count++] = node->operands[k];
    }
    return TSR_SUCCESS;
}

static TSR_RESULT emit(planner *p, uint32_t index, tsr_fuse_group *group) {
    const set *s = &p->sets[index];
    description d;
    uint32_t inside = s->count;
    bool legal = tsr_fuse_describe(p, s->nodes, s->count, index, index, &d);
    TSR_ASSERT(legal);
    for (uint32_t i = 0; i < s->count; i++) inside += p->nodes[s->nodes[i]].operand_count;
    *group = (tsr_fuse_group){
        .nodes = TSR_NEW(p->arena, uint32_t, inside),
        .root = d.root,
        .rows = d.rows,
        .inputs = tsr_arena_memdup(p->arena, d.inputs, d.input_count * sizeof *d.inputs),
        .outputs = tsr_arena_memdup(p->arena, d.outputs, d.output_count * sizeof *d.outputs),
        .input_count = d.input_count,
        .output_count = d.output_count,
        .read_bytes = d.read_bytes,
        .written_bytes = d.written_bytes,
        .operations = d.operations,
        .planned = p->nodes[s->nodes[0]].planned};
    if (!group->nodes || !group->inputs || !group->outputs)
        FAIL(p->ctx, TSR_MEMORY, "no memory to fuse %u ops", p->node_count);
    for (uint32_t i = 0; i < s->count; i++) {
        const tsr_fuse_node *node = &p->nodes[s->nodes[i]];
        group->nodes[group->node_count++] = s->nodes[i];
        for (uint32_t k = 0; k < node->operand_count; k++) {
            uint32_t operand = node->operands[k];
            if (!is_inner_splat(p, operand, s->nodes[i]) || is_member(p, operand)) continue;
            p->mark[operand] = p->stamp;
            group->nodes[group->node_count++] = operand;
        }
    }
    qsort(group->nodes, group->node_count, sizeof *group->nodes, ascending);
    return TSR_SUCCESS;
}

tsr_result tsr_fuse_plan_build(tsr_ctx *ctx, const tsr_fuse_node *nodes, uint32_t node_count,
                               tsr_arena *arena, tsr_fuse_plan *out_plan) {
    planner p = {.ctx = ctx, .arena = arena, .nodes = nodes, .node_count = node_count};
    tsr_fuse_plan plan = {0};
    TRY(ctx, prepare(&p));
    TRY(ctx, merge_all(&p));
    for (uint32_t i = 0; i < node_count; i++)
        if (p.sets[i].count) TRY(ctx, tsr_fuse_part(&p, i));
    for (uint32_t i = 0; i < node_count; i++)
        if (p.sets[i].count) TRY(ctx, tsr_fuse_peel(&p, i));
    for (uint32_t i = 0; i < node_count; i++)
        if (p.sets[i].count) TRY(ctx, tsr_fuse_remake(&p, i));
    for (uint32_t i = node_count; i-- > 0;)
        if (p.sets[i].count) TRY(ctx, tsr_fuse_copy_into_readers(&p, i));
    for (uint32_t i = 0; i < node_count; i++) plan.group_count += p.sets[i].count > 0;
    plan.groups = TSR_NEW(arena, tsr_fuse_group, (size_t)plan.group_count + 1);
    if (!plan.groups) FAIL(ctx, TSR_MEMORY, "no memory for %u groups", plan.group_count);
    plan.group_count = 0;
    for (uint32_t i = 0; i < node_count; i++)
        if (p.sets[i].count)
            TRY(ctx,
                (nodes[i].no_kernel ? emit_as_is : emit)(&p, i, &plan.groups[plan.group_count++]));
    TRY(ctx, tsr_fuse_plan_order(ctx, nodes, node_count, arena, &plan));
    *out_plan = plan;
    return TSR_SUCCESS;
}
