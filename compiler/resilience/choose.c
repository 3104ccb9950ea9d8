/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses the values that a segment saves, by a minimum cut, and finds segments if the program
 * declares none.
 */
#include "compiler/resilience/cut.h"
#include "compiler/resilience/recompute.h"

#include <math.h>
#include <string.h>

enum { NONE = UINT32_MAX };

typedef struct chooser {
    tsr_sr_program *program;
    tsr_cut cut;
    uint32_t segment;
    uint32_t *in, *out; /* value -> its two nodes, or NONE */
    uint32_t *ops;      /* node of the program -> node of the cut, or NONE */
} chooser;

static uint64_t scaled(uint64_t count, uint64_t by) {
    uint64_t product;
    if (__builtin_mul_overflow(count, by, &product) || product > TSR_CUT_FOREVER / 4)
        return TSR_CUT_FOREVER / 4;
    return product;
}

static bool is_inside(const chooser *c, uint32_t value) {
    uint32_t op = c->program->values[value].op;
    return op != NONE && c->ops[op] != NONE;
}

/* The cost of having the value available for the backward pass. */
static uint64_t cost_of(const chooser *c, uint32_t value) {
    const tsr_sr_value *v = &c->program->values[value];
    bool source = v->op == NONE || c->program->nodes[v->op].source;
    return v->saved || source ? 0 : scaled(v->size_bytes, TSR_SR_PRICE_UNIT);
}

static bool add_value(chooser *c, uint32_t value) {
    if (c->out[value] != NONE) return true;
    c->out[value] = tsr_cut_node(&c->cut);
    c->in[value] = is_inside(c, value) ? tsr_cut_node(&c->cut) : TSR_CUT_SOURCE;
    if (c->out[value] == NONE || c->in[value] == NONE) return false;
    return tsr_cut_edge(&c->cut, c->in[value], c->out[value], cost_of(c, value));
}

static bool add_op(chooser *c, uint32_t index, uint64_t price) {
    const tsr_sr_node *node = &c->program->nodes[index];
    uint32_t op = c->ops[index];
    if (!tsr_cut_edge(&c->cut, TSR_CUT_SOURCE, op, scaled(node->work, price))) return false;
    for (uint32_t i = 0; i < node->operand_count; i++)
        if (!add_value(c, node->operands[i]) ||
            !tsr_cut_edge(&c->cut, c->out[node->operands[i]], op, TSR_CUT_FOREVER))
            return false;
    for (uint32_t i = 0; i < node->result_count; i++) {
        uint32_t value = node->first_result + i;
        if (!add_value(c, value) || !tsr_cut_edge(&c->cut, op, c->in[value], TSR_CUT_FOREVER))
            return false;
        if (c->program->values[value].needed &&
            !tsr_cut_edge(&c->cut, c->out[value], TSR_CUT_SINK, TSR_CUT_FOREVER))
            return false;
    }
    return true;
}

static bool chooser_init(chooser *c) {
    const tsr_sr_program *p = c->program;
    c->in = TSR_NEW(p->arena, uint32_t, (size_t)p->value_count + 1);
    c->out = TSR_NEW(p->arena, uint32_t, (size_t)p->value_count + 1);
    c->ops = TSR_NEW(p->arena, uint32_t, (size_t)p->node_count + 1);
    if (!c->in || !c->out || !c->ops || !tsr_cut_init(&c->cut, p->arena)) return false;
    memset(c->out, 0xff, p->value_count * sizeof *c->out);
    for (uint32_t i = 0; i < p->node_count; i++) {
        bool inside = p->nodes[i].segment == c->segment && !p->nodes[i].source;
        c->ops[i] = inside ? tsr_cut_node(&c->cut) : NONE;
        if (inside && c->ops[i] == NONE) return false;
    }
    return true;
}

static void read_cut(chooser *c, const bool *sink_side, bool commit, tsr_sr_choice *out_choice) {
    const tsr_sr_program *p = c->program;
    tsr_sr_choice choice = {0};
    for (uint32_t i = 0; i < p->node_count; i++)
        if (c->ops[i] != NONE && sink_side[c->ops[i]]) choice.work += p->nodes[i].work;
    for (uint32_t v = 0; v < p->value_count; v++) {
        if (c->out[v] == NONE) continue;
        bool available = sink_side[c->out[v]];
        bool made_again = available && is_inside(c, v) && sink_side[c->in[v]];
        if (commit) p->values[v].again = made_again || (p->values[v].again && !is_inside(c, v));
        if (!available || made_again) continue;
        choice.saved_bytes += cost_of(c, v) / TSR_SR_PRICE_UNIT;
        if (commit) p->values[v].saved = true;
    }
    *out_choice = choice;
}

bool tsr_sr_choose(tsr_sr_program *program, uint32_t segment, uint64_t price, bool commit,
                   tsr_sr_choice *out_choice) {
    chooser c = {.program = program, .segment = segment};
    if (!chooser_init(&c)) return false;
    for (uint32_t i = 0; i < program->node_count; i++)
        if (c.ops[i] != NONE && !add_op(&c, i, price)) return false;
    bool *sink_side = TSR_NEW(program->arena, bool, c.cut.node_count);
    if (!sink_side || !tsr_cut_solve(&c.cut, sink_side)) return false;
    read_cut(&c, sink_side, commit, out_choice);
    return true;
}

/* ---- segments ---- */

bool tsr_sr_node_is_free(const tsr_sr_node *node) {
    return !node->backward && !node->source && !node->fixed && node->segment == TSR_SR_NO_SEGMENT;
}

/* crossing[i]: bytes computed before node i and read by a forward node from i on. */
static bool count_crossing(const tsr_sr_program *p, uint64_t *crossing) {
    uint32_t *last = TSR_NEW(p->arena, uint32_t, (size_t)p->value_count + 1);
    if (!last) return false;
    for (uint32_t i = 0; i < p->node_count; i++)
        for (uint32_t k = 0; k < p->nodes[i].operand_count; k++)
            if (!p->nodes[i].backward) last[p->nodes[i].operands[k]] = i;
    for (uint32_t v = 0; v < p->value_count; v++) {
        uint32_t op = p->values[v].op;
        if (op == NONE || p->nodes[op].source || p->nodes[op].backward) continue;
        if (last[v] <= op) continue;
        crossing[op + 1] += p->values[v].size_bytes;
        crossing[last[v] + 1] -= p->values[v].size_bytes; /* wraps around; the sums below do not */
    }
    for (uint32_t i = 1; i <= p->node_count; i++) crossing[i] += crossing[i - 1];
    return true;
}

uint32_t tsr_sr_find_segments(tsr_sr_program *p, uint32_t first, uint32_t limit) {
    uint64_t total = 0, needed = 0;
    uint32_t segment = 0, at = 0;
    uint64_t *crossing = TSR_NEW(p->arena, uint64_t, (size_t)p->node_count + 1);
    if (!crossing || !count_crossing(p, crossing)) return 0;
    for (uint32_t v = 0; v < p->value_count; v++) {
        if (!p->values[v].needed || p->values[v].op == NONE) continue;
        if (!tsr_sr_node_is_free(&p->nodes[p->values[v].op])) continue;
        total += p->values[v].size_bytes;
        needed++;
    }
    uint32_t wanted = (uint32_t)lround(sqrt((double)needed));
    if (wanted == 0) return 0;
    if (wanted > limit) wanted = limit;
    while (at < p->node_count) {
        /* Extends the segment to the node with the fewest bytes crossing, between one half and
         * three halves of an equal share. */
        uint32_t end = p->node_count, i = at;
        uint64_t share = total / wanted, best = UINT64_MAX, here = 0;
        for (; i < p->node_count && here <= share + share / 2; i++) {
            const tsr_sr_node *node = &p->nodes[i];
            if (here >= share / 2 && here > 0 && crossing[i] < best) {
                best = crossing[i];
                end = i;
            }
            if (!tsr_sr_node_is_free(node)) continue;
            for (uint32_t k = 0; k < node->result_count; k++)
                if (p->values[node->first_result + k].needed)
                    here += p->values[node->first_result + k].size_bytes;
        }
        if (i == p->node_count || segment + 1 == wanted) end = p->node_count;
        for (i = at; i < end; i++)
            if (tsr_sr_node_is_free(&p->nodes[i])) p->nodes[i].segment = first + segment;
        segment++;
        at = end;
    }
    return segment;
}
