/* SPDX-License-Identifier: Apache-2.0
 *
 * The planner of fusion groups on random graphs: for every plan, running the groups in order must
 * compute the same values as the graph. Values are modelled by hashes of all their inputs.
 */
#include "compiler/schedule/fusion/fusion.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { NODES = 60, OPERANDS = 3 };

static tsr_ctx ctx;
static tsr_arena arena;
static tsr_fuse_node nodes[NODES];
static uint32_t operands[NODES][OPERANDS];

static void finish(void) {
    tsr_arena_finish(&arena);
    arena = (tsr_arena){0};
}

static tsr_fuse_plan plan_of(uint32_t count) {
    tsr_fuse_plan plan;
    tsr_result result = tsr_fuse_plan_build(&ctx, nodes, count, &arena, &plan);
    cr_assert_eq(result.code, TSR_OK, "%s", ctx.error.text);
    return plan;
}

static uint32_t add(uint32_t at, tsr_fuse_kind kind, tsr_shape shape, uint32_t count, uint32_t a,
                    uint32_t b) {
    operands[at][0] = a;
    operands[at][1] = b;
    nodes[at] = (tsr_fuse_node){.kind = kind,
                                .dtype = TSR_DTYPE_F32,
                                .shape = shape,
                                .operand_count = count,
                                .operands = operands[at],
                                .weight = 1,
                                .replaces = TSR_FUSE_NONE};
    return at;
}

static const tsr_shape scalar = {.rank = 0}, row = {.rank = 1, .dims = {16}},
                       square = {.rank = 2, .dims = {16, 16}},
                       large = {.rank = 2, .dims = {512, 512}};

static bool same(const tsr_shape *a, const tsr_shape *b) { return tsr_shape_equal(a, b); }

/* A random node that node `at` could read with this shape, or any source. */
static uint32_t pick(uint32_t at, const tsr_shape *wanted, bool may_stretch) {
    for (int tries = 0; tries < 50; tries++) {
        uint32_t node = (uint32_t)rand() % at;
        if (same(&nodes[node].shape, wanted)) return node;
        if (may_stretch && nodes[node].shape.rank < wanted->rank &&
            (nodes[node].shape.rank == 0 || same(wanted, &square)))
            return node;
    }
    return same(wanted, &row) ? 1 : same(wanted, &square) ? 2 : 0;
}

/* Adds up to two further results of the preceding node; returns the index of the last node. */
static uint32_t add_parts(uint32_t at, uint32_t count) {
    const tsr_shape *shapes[] = {&scalar, &row, &square};
    uint32_t owner = at;
    for (int parts = rand() % 3; parts > 0 && at + 1 < count; parts--) {
        add(++at, TSR_FUSE_PART, *shapes[rand() % 3], 1, owner, 0);
        nodes[at].live_out = rand() % 6 == 0;
    }
    return at;
}

/* Nodes 0, 1, 2 are sources of each shape; node 3 is a splat. */
static void random_graph(uint32_t count) {
    add(0, TSR_FUSE_SOURCE, scalar, 0, 0, 0);
    add(1, TSR_FUSE_SOURCE, row, 0, 0, 0);
    add(2, TSR_FUSE_SOURCE, square, 0, 0, 0);
    add(3, TSR_FUSE_SPLAT, scalar, 0, 0, 0);
    bool has_plans = rand() % 3 == 0;
    for (uint32_t at = 4; at < count; at++) {
        const tsr_shape *shapes[] = {&scalar, &row, &square, &square};
        const tsr_shape *shape = shapes[rand() % 4];
        switch (rand() % 8) {
        case 0:
            add(at, TSR_FUSE_MATMUL, square, 2, pick(at, &square, false), pick(at, &square, false));
            break;
        case 1:
            add(at, TSR_FUSE_REDUCE, row, 1, pick(at, &square, false), 0);
            break;
        case 2:
            add(at, TSR_FUSE_ALONE, *shape, 1, pick(at, shape, false), 0);
            nodes[at].faults = rand() % 2;
            at = add_parts(at, count);
            continue;
        default:
            add(at, TSR_FUSE_MAP, *shape, 2, pick(at, shape, true), pick(at, shape, true));
            nodes[at].weight = rand() % 5 == 0 ? 64 : 1;
            nodes[at].planned = has_plans && rand() % 2 ? 1 + (uint32_t)rand() % 3 : 0;
        }
        nodes[at].live_out = rand() % 6 == 0;
        if (nodes[at].live_out && rand() % 2 && same(&nodes[at].shape, &square))
            nodes[at].replaces = 2;
    }
    nodes[count - 1].live_out = true;
    for (uint32_t at = count; at < NODES; at++) nodes[at].kind = TSR_FUSE_SOURCE;
}

static uint64_t mix(uint64_t a, uint64_t b) {
    uint64_t x = (a ^ (b + 0x9e3779b97f4a7c15ull)) * 0xff51afd7ed558ccdull;
    return x ^ x >> 31;
}

static uint64_t value_of(uint32_t node, const uint64_t *values) {
    uint64_t value = mix(node, 77);
    for (uint32_t i = 0; i < nodes[node].operand_count; i++)
        value = mix(value, values[nodes[node].operands[i]]);
    return value;
}

/* Runs one group from its inputs alone. */
static void run_group(const tsr_fuse_group *group, const uint64_t *memory, uint64_t *out_memory) {
    uint64_t local[NODES] = {0};
    bool known[NODES] = {false};
    for (uint32_t i = 0; i < group->input_count; i++) {
        uint32_t input = group->inputs[i];
        cr_assert_neq(memory[input], 0, "node %u is read before it is computed", input);
        local[input] = memory[input];
        known[input] = true;
    }
    for (uint32_t i = 0; i < group->node_count; i++) {
        uint32_t node = group->nodes[i];
        cr_assert(i == 0 || node > group->nodes[i - 1]);
        cr_assert(nodes[node].kind == TSR_FUSE_SPLAT || nodes[node].planned == group->planned);
        for (uint32_t k = 0; k < nodes[node].operand_count; k++)
            cr_assert(known[nodes[node].operands[k]], "node %u lacks operand %u", node,
                      nodes[node].operands[k]);
        local[node] = value_of(node, local);
        known[node] = true;
    }
    for (uint32_t i = 0; i < group->output_count; i++) {
        cr_assert(known[group->outputs[i]]);
        cr_assert_eq(out_memory[group->outputs[i]], 0, "node %u is written twice",
                     group->outputs[i]);
        out_memory[group->outputs[i]] = local[group->outputs[i]];
    }
}

/* Every result is an output, whether it is read or not: the kernel writes it. */
static void check_alone(const tsr_fuse_group *group) {
    uint32_t parts = 0;
    while (group->nodes[0] + parts + 1 < NODES &&
           nodes[group->nodes[0] + parts + 1].kind == TSR_FUSE_PART &&
           nodes[group->nodes[0] + parts + 1].operands[0] == group->nodes[0])
        parts++;
    cr_assert_eq(group->node_count, 1 + parts);
    cr_assert_eq(group->output_count, 1 + parts);
    for (uint32_t i = 0; i <= parts; i++) cr_assert_eq(group->outputs[i], group->nodes[0] + i);
}

/* There is at most one root; every output has the root's shape; nothing precedes a matmul. */
static void check_form(const tsr_fuse_group *group) {
    uint32_t roots = 0;
    for (uint32_t i = 0; i < group->node_count; i++) {
        tsr_fuse_kind kind = nodes[group->nodes[i]].kind;
        cr_assert_neq(kind, TSR_FUSE_SOURCE);
        if (kind == TSR_FUSE_MAP || kind == TSR_FUSE_SPLAT) continue;
        if (kind == TSR_FUSE_PART) {
            cr_assert_eq(nodes[group->nodes[i]].operands[0], group->nodes[0]);
            continue;
        }
        roots++;
        cr_assert_eq(group->root, group->nodes[i]);
        if (kind == TSR_FUSE_ALONE) check_alone(group);
        if (kind != TSR_FUSE_MATMUL) continue;
        for (uint32_t k = 0; k < 2; k++) {
            bool is_input = false;
            for (uint32_t j = 0; j < group->input_count; j++)
                is_input |= group->inputs[j] == nodes[group->nodes[i]].operands[k];
            cr_assert(is_input, "matmul %u reads what its own group computes", group->nodes[i]);
        }
    }
    cr_assert_leq(roots, 1);
    cr_assert_eq(roots == 0, group->root == TSR_FUSE_NONE);
    const tsr_shape *shape =
        &nodes[group->root == TSR_FUSE_NONE ? group->outputs[0] : group->root].shape;
    for (uint32_t i = 0; i < group->output_count; i++)
        cr_assert(nodes[group->outputs[i]].kind == TSR_FUSE_PART ||
                  same(&nodes[group->outputs[i]].shape, shape));
}

/* Values computed before a reduction are not available after it. */
static void check_reduction(const tsr_fuse_group *group) {
    bool before[NODES] = {false};
    if (group->root == TSR_FUSE_NONE || nodes[group->root].kind != TSR_FUSE_REDUCE) return;
    before[group->root] = true;
    for (uint32_t i = group->node_count; i-- > 0;)
        for (uint32_t k = 0; k < nodes[group->nodes[i]].operand_count; k++)
            if (before[group->nodes[i]]) before[nodes[group->nodes[i]].operands[k]] = true;
    for (uint32_t i = 0; i < group->node_count; i++) {
        uint32_t node = group->nodes[i];
        for (uint32_t k = 0; k < nodes[node].operand_count && !before[node]; k++) {
            uint32_t operand = nodes[node].operands[k];
            bool inside = false;
            for (uint32_t j = 0; j < group->node_count; j++) inside |= group->nodes[j] == operand;
            bool gone = inside && before[operand] && operand != group->root &&
                        nodes[operand].kind == TSR_FUSE_MAP;
            cr_assert(!gone, "node %u reads node %u after the reduction", node, operand);
        }
    }
}

static void check_plan(const tsr_fuse_plan *plan, uint32_t count) {
    uint64_t wanted[NODES], memory[NODES] = {0};
    for (uint32_t i = 0; i < count; i++) {
        wanted[i] = value_of(i, wanted);
        if (nodes[i].kind == TSR_FUSE_SOURCE || nodes[i].kind == TSR_FUSE_SPLAT)
            memory[i] = wanted[i];
    }
    for (uint32_t g = 0; g < plan->group_count; g++) {
        check_form(&plan->groups[g]);
        check_reduction(&plan->groups[g]);
        run_group(&plan->groups[g], memory, memory);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (memory[i]) cr_assert_eq(memory[i], wanted[i]);
        if (nodes[i].live_out)
            cr_assert_eq(memory[i], wanted[i], "node %u is live out, but not there", i);
    }
}

/* Maps too large to be merged; a map that would connect them. */
Test(fusion, plans_are_kept_to, .fini = finish) {
    for (uint32_t planned = 0; planned < 2; planned++) {
        add(0, TSR_FUSE_SOURCE, large, 0, 0, 0);
        for (uint32_t i = 1; i < 3; i++) {
            add(i, TSR_FUSE_MAP, large, 1, 0, 0);
            nodes[i].planned = planned;
            nodes[i].live_out = true;
        }
        add(3, TSR_FUSE_MAP, large, 1, 2, 0);
        nodes[3].live_out = true;
        tsr_fuse_plan plan = plan_of(4);
        cr_assert_eq(plan.group_count, 2);
        for (uint32_t g = 0; g < 2; g++) {
            const tsr_fuse_group *group = &plan.groups[g];
            uint32_t last = group->nodes[group->node_count - 1];
            cr_expect_eq(group->planned, planned && last != 3);
            cr_expect_eq(group->node_count, planned ? (last == 3 ? 1 : 2) : (last == 3 ? 2 : 1));
        }
    }
}

Test(fusion, random_graphs_compute_the_same, .fini = finish) {
    uint32_t merged = 0;
    for (unsigned seed = 0; seed < 2000; seed++) {
        srand(seed);
        uint32_t count = 6 + (uint32_t)rand() % (NODES - 6);
        random_graph(count);
        tsr_fuse_plan plan = plan_of(count);
        check_plan(&plan, count);
        for (uint32_t g = 0; g < plan.group_count; g++) merged += plan.groups[g].node_count > 2;
        finish();
    }
    cr_assert_gt(merged, 2000, "hardly anything was merged: %u", merged);
}

Test(fusion, the_same_graph_gives_the_same_groups, .fini = finish) {
    srand(5);
    random_graph(NODES);
    tsr_fuse_plan a = plan_of(NODES), b = plan_of(NODES);
    cr_assert_eq(a.group_count, b.group_count);
    for (uint32_t g = 0; g < a.group_count; g++) {
        cr_assert_eq(a.groups[g].node_count, b.groups[g].node_count);
        cr_assert_arr_eq(a.groups[g].nodes, b.groups[g].nodes,
                         a.groups[g].node_count * sizeof(uint32_t));
    }
}

Test(fusion, an_unread_node_is_left_out, .fini = finish) {
    add(0, TSR_FUSE_SOURCE, square, 0, 0, 0);
    add(1, TSR_FUSE_MAP, square, 1, 0, 0);
    add(2, TSR_FUSE_MAP, square, 1, 0, 0);
    nodes[2].live_out = true;
    tsr_fuse_plan plan = plan_of(3);
    cr_assert_eq(plan.group_count, 1);
    cr_assert_eq(plan.groups[0].node_count, 1);
    cr_assert_eq(plan.groups[0].nodes[0], 2);
}

Test(fusion, a_merged_group_has_at_most_32_arguments, .fini = finish) {
    /* A long sum of different sources. */
    uint32_t sources = 40, at = sources;
    static tsr_fuse_node many[80];
    static uint32_t pairs[80][2];
    for (uint32_t i = 0; i < sources; i++)
        many[i] = (tsr_fuse_node){.kind = TSR_FUSE_SOURCE,
                                  .dtype = TSR_DTYPE_F32,
                                  .shape = large,
                                  .replaces = TSR_FUSE_NONE};
    for (uint32_t i = 1; i < sources; i++, at++) {
        pairs[at][0] = i == 1 ? 0 : at - 1;
        pairs[at][1] = i;
        many[at] = (tsr_fuse_node){.kind = TSR_FUSE_MAP,
                                   .dtype = TSR_DTYPE_F32,
                                   .shape = large,
                                   .operand_count = 2,
                                   .operands = pairs[at],
                                   .weight = 1,
                                   .replaces = TSR_FUSE_NONE};
    }
    many[at - 1].live_out = true;
    tsr_fuse_plan plan;
    cr_assert_eq(tsr_fuse_plan_build(&ctx, many, at, &arena, &plan).code, TSR_OK);
    cr_assert_eq(plan.group_count, 2);
    for (uint32_t g = 0; g < plan.group_count; g++)
        cr_assert_leq(plan.groups[g].input_count + plan.groups[g].output_count, 32);
}

Test(fusion, an_update_waits_for_readers_and_faults, .fini = finish) {
    add(0, TSR_FUSE_SOURCE, square, 0, 0, 0);
    add(1, TSR_FUSE_MAP, square, 1, 0, 0); /* the update */
    nodes[1].live_out = true;
    nodes[1].replaces = 0;
    add(2, TSR_FUSE_MATMUL, square, 2, 0, 0); /* reads the old value */
    add(3, TSR_FUSE_ALONE, square, 1, 2, 0);  /* can fault */
    nodes[3].faults = true;
    nodes[3].live_out = true;
    tsr_fuse_plan plan = plan_of(4);
    cr_assert_eq(plan.group_count, 3);
    cr_assert_eq(plan.groups[0].root, 2);
    cr_assert_eq(plan.groups[1].root, 3);
    cr_assert_eq(plan.groups[2].outputs[0], 1);
}

/* A gradient, a map that follows it, and the update of a tensor. */
Test(fusion, a_step_that_stays_apart_follows_no_product, .fini = finish) {
    for (int apart = 0; apart < 2; apart++) {
        add(0, TSR_FUSE_SOURCE, large, 0, 0, 0);
        add(1, TSR_FUSE_SOURCE, large, 0, 0, 0); /* the tensor */
        add(2, TSR_FUSE_MATMUL, large, 2, 0, 0);
        add(3, TSR_FUSE_MAP, large, 1, 2, 0);
        add(4, TSR_FUSE_MAP, large, 2, 3, 1); /* the update */
        nodes[4].live_out = true;
        nodes[4].apart = apart;
        nodes[4].replaces = 1;
        tsr_fuse_plan plan = plan_of(5);
        cr_assert_eq(plan.group_count, apart ? 2 : 1);
        cr_assert_eq(plan.groups[0].root, 2);
        finish();
    }
}

/* Two tensors, and a scalar that both updates read. */
Test(fusion, steps_that_stay_apart_are_not_merged, .fini = finish) {
    for (int apart = 0; apart < 2; apart++) {
        add(0, TSR_FUSE_SOURCE, square, 0, 0, 0);
        add(1, TSR_FUSE_SOURCE, square, 0, 0, 0);
        add(2, TSR_FUSE_SOURCE, scalar, 0, 0, 0);
        for (uint32_t i = 0; i < 2; i++) {
            add(3 + i, TSR_FUSE_MAP, square, 2, i, 2);
            nodes[3 + i].live_out = true;
            nodes[3 + i].apart = apart;
            nodes[3 + i].replaces = i;
        }
        cr_assert_eq(plan_of(5).group_count, apart ? 2 : 1);
        finish();
    }
}

/* Layers side by side, as in a model that adds them up: a weight, its product with the source, a
 * function of it, the sum so far; then the loss; then for each layer a slope, of its function and
 * the loss, and a product with the source. */
static tsr_fuse_node layer_node(uint32_t layers, uint32_t i, uint32_t out_reads[2]) {
    static const tsr_fuse_kind kinds[] = {TSR_FUSE_SOURCE, TSR_FUSE_MATMUL, TSR_FUSE_MAP,
                                          TSR_FUSE_MAP,    TSR_FUSE_MAP,    TSR_FUSE_MATMUL};
    static const uint32_t operand_counts[] = {0, 2, 1, 2, 2, 2};
    uint32_t loss = 4 * layers + 1, part = i ? (i - 1) % 4 : 0;
    out_reads[0] = i ? i - 1 : 0;
    out_reads[1] = part == 3 && i > 4 ? i - 4 : 0;
    if (i == loss) part = 2;
    if (i > loss) {
        uint32_t layer = (i - loss - 1) / 2;
        part = 4 + (i - loss - 1) % 2;
        if (part == 4) out_reads[0] = 4 * layer + 3;
        if (part == 4) out_reads[1] = loss;
    }
    return (tsr_fuse_node){.kind = kinds[part],
                           .dtype = TSR_DTYPE_F32,
                           .shape = square,
                           .operand_count = operand_counts[part],
                           .operands = out_reads,
                           .weight = 1,
                           .live_out = part == 5,
                           .replaces = TSR_FUSE_NONE};
}

static double seconds_of_layers(uint32_t layers) {
    uint32_t count = 6 * layers + 2, (*reads)[2] = calloc(count, sizeof *reads);
    tsr_fuse_node *many = calloc(count, sizeof *many);
    tsr_fuse_plan plan;
    cr_assert(many && reads);
    for (uint32_t i = 0; i < count; i++) many[i] = layer_node(layers, i, reads[i]);
    clock_t begin = clock();
    tsr_result result = tsr_fuse_plan_build(&ctx, many, count, &arena, &plan);
    clock_t end = clock();
    cr_assert_eq(result.code, TSR_OK, "%s", ctx.error.text);
    cr_assert_lt(plan.group_count, 5 * layers, "nothing was fused");
    finish();
    free(many);
    free(reads);
    return (double)(end - begin) / CLOCKS_PER_SEC;
}

Test(fusion, time_is_linear_in_the_number_of_layers, .fini = finish) {
    double few = INFINITY, many = INFINITY;
    for (int round = 0; round < 2; round++) {
        few = fmin(few, seconds_of_layers(4000));
        many = fmin(many, seconds_of_layers(16000));
    }
    cr_assert_lt(many, 6 * few, "4,000 layers: %.3f s, 16,000: %.3f s", few, many);
}
