/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients of scan, while and if, for pass tessera-autodiff.
 *
 *   scan  stacks the values carried into each iteration. A second scan, in reverse order, computes
 *         the body again from these values, followed by the body's gradients. The gradient's loop
 *         carries the gradients of the carried values, and sums of the gradients of captured
 *         values.
 *   while becomes a scan of `limit` iterations, which do nothing once the condition has failed; its
 *         gradient is the gradient of that scan.
 *   if    becomes another if with the same condition: each region computes the body again, and its
 *         gradients.
 *
 * The values of an iteration are therefore recomputed and not saved (Chen et al. 2016, section 3),
 * except for the results of products and similar ops in the first scan (choose_saved), which are
 * also stacked.
 */
#include "compiler/graph/derivatives/autodiff.h"
#include "compiler/ir/op_rows.h"
#include "compiler/process/guard.h"

#include <string.h>

static MlirValue *new_values(autodiff *ad, size_t count) {
    MlirValue *values = TSR_NEW(&ad->arena, MlirValue, count + 1);
    TSR_NEED(values);
    return values;
}

static void hoist(MlirBlock block, MlirOperation before) {
    if (mlirBlockIsNull(block)) return;
    TSR_FOR_EACH_OP(op, block) {
        for (intptr_t i = 0; i < mlirOperationGetNumRegions(op); i++)
            hoist(tsr_region_block(op, i), before);
        if (tsr_op_is(op, TSR_GRAPH_PARAM)) mlirOperationMoveBefore(op, before);
    }
}

void tsr_autodiff_hoist_from(MlirOperation op) {
    for (intptr_t i = 0; i < mlirOperationGetNumRegions(op); i++)
        hoist(tsr_region_block(op, i), op);
}

void tsr_autodiff_hoist(MlirBlock block) { TSR_FOR_EACH_OP(op, block) tsr_autodiff_hoist_from(op); }

/* ---- values read from outside ---------------------------------------------------------------- */

typedef struct captures {
    MlirValue *values; /* active, each once */
    size_t count;
} captures;

static void find_captures(autodiff *ad, MlirBlock block, captures *out) {
    if (mlirBlockIsNull(block)) return;
    TSR_FOR_EACH_OP(op, block) {
        for (size_t i = 0; i < tsr_op_operand_count(op); i++) {
            MlirValue operand = tsr_op_operand(op, i);
            const slot *known = tsr_autodiff_find(ad, operand);
            size_t k = 0;
            if (!known || !known->active) continue;
            while (k < out->count && !mlirValueEqual(out->values[k], operand)) k++;
            if (k < out->count) continue;
            MlirValue *larger = new_values(ad, out->count + 1);
            if (out->count) memcpy(larger, out->values, out->count * sizeof *larger);
            larger[out->count++] = operand;
            out->values = larger;
        }
        for (intptr_t r = 0; r < mlirOperationGetNumRegions(op); r++)
            find_captures(ad, tsr_region_block(op, r), out);
    }
}

static void add_to(autodiff *ad, tsr_builder *b, MlirValue value, MlirValue gradient) {
    tsr_autodiff_add(b, &tsr_autodiff_slot(ad, value)->gradient, gradient);
}

/* ---- if -------------------------------------------------------------------------------------- */

static bool reverse_if(autodiff *ad, tsr_builder *b, MlirOperation op) {
    captures x = {0};
    size_t results = tsr_op_result_count(op);
    MlirRegion regions[2];
    MlirLocation location = mlirOperationGetLocation(op);
    MlirValue condition = tsr_op_operand(op, 0), *gradients = new_values(ad, results);
    for (intptr_t i = 0; i < 2; i++) find_captures(ad, tsr_region_block(op, i), &x);
    if (x.count == 0) return true;
    for (size_t k = 0; k < results; k++)
        gradients[k] = tsr_autodiff_slot(ad, tsr_op_result(op, k))->gradient;
    MlirValue *out = new_values(ad, x.count), *seeds = new_values(ad, results);
    MlirType *types = TSR_NEW(&ad->arena, MlirType, x.count + 1);
    TSR_NEED(types);
    for (intptr_t i = 0; i < 2; i++) {
        MlirBlock from = tsr_region_block(op, i), block = mlirBlockCreate(0, NULL, NULL);
        MlirOperation end = mlirBlockGetTerminator(from);
        tsr_copies c = {.arena = &ad->arena};
        regions[i] = mlirRegionCreate();
        mlirRegionAppendOwnedBlock(regions[i], block);
        tsr_builder at = tsr_builder_at_end(block, location);
        tsr_copies_ops(&c, from, &at);
        for (size_t k = 0; k < results; k++) seeds[k] = tsr_copies_get(&c, tsr_op_operand(end, k));
        const tsr_question q = {.roots = x.values,
                                .root_count = x.count,
                                .seeds = seeds,
                                .gradients = gradients,
                                .seed_count = results,
                                .out = out};
        if (!tsr_autodiff_block(block, location, &q)) return false;
        for (size_t k = 0; k < x.count; k++)
            if (mlirValueIsNull(out[k])) out[k] = tsr_emit_zeros(&at, x.values[k]);
        tsr_block_yield(block, location, out, x.count);
    }
    for (size_t k = 0; k < x.count; k++) types[k] = mlirValueGetType(x.values[k]);
    MlirOperation made = tsr_build(b, &(tsr_op_desc){.name = TSR_GRAPH_NAME("if"),
                                                     .operand_count = 1,
                                                     .operands = &condition,
                                                     .result_count = x.count,
                                                     .results = types,
                                                     .region_count = 2,
                                                     .regions = regions});
    for (size_t k = 0; k < x.count; k++) add_to(ad, b, x.values[k], tsr_op_result(made, k));
    return true;
}

/* ---- scan ------------------------------------------------------------------------------------ */

typedef struct scan {
    autodiff *ad;
    tsr_builder *b;
    MlirOperation op;
    MlirLocation location;
    size_t carried, inputs, results;
    int64_t length;
    MlirValue *of_results; /* null: none */
    captures x;
    /* Operands of the reverse scan: carried values first. */
    MlirValue *operands;
    size_t operand_count, summed;
    tsr_copies copies; /* body values -> values in the reverse scan */
} scan;

/* True if the gradient of the scan's operand `index` is requested. Carried values always pass
 * gradients on. */
static bool is_root(const scan *s, size_t index) {
    MlirValue operand = tsr_op_operand(s->op, index);
    const slot *known = tsr_autodiff_find(s->ad, operand);
    return tsr_value_is_float(operand) && (index < s->carried || (known && known->active));
}

static MlirOperation build_scan(tsr_builder *b, const scan *s, size_t carried, bool reverse,
                                MlirRegion body, size_t operands, const MlirValue *values,
                                size_t results, const MlirType *types) {
    const tsr_attr attrs[] = {{"carried", tsr_attr_make_i64(b->context, (int64_t)carried)},
                              {"length", tsr_attr_make_i64(b->context, s->length)},
                              {"reverse", tsr_attr_make_unit(b->context)}};
    return tsr_build(b, &(tsr_op_desc){.name = TSR_GRAPH_NAME("scan"),
                                       .operand_count = operands,
                                       .operands = values,
                                       .result_count = results,
                                       .results = types,
                                       .attr_count = 2 + reverse,
                                       .attrs = attrs,
                                       .region_count = 1,
                                       .regions = &body});
}

static MlirType stacked(const scan *s, MlirValue slice) {
    tsr_type type = tsr_type_of(slice);
    for (uint32_t d = type.shape.rank++; d > 0; d--) type.shape.dims[d] = type.shape.dims[d - 1];
    type.shape.dims[0] = (uint64_t)s->length;
    return tsr_type_make(s->b->context, &type);
}

/* Redirects the mapped results of `old` to the results of s->op. */
static void replace_results(scan *s, MlirOperation old) {
    for (size_t i = 0; i < s->operand_count; i++) {
        MlirValue operand = s->operands[i];
        if (mlirValueIsAOpResult(operand) && mlirOperationEqual(tsr_value_owner(operand), old))
            s->operands[i] = tsr_op_result(s->op, (size_t)mlirOpResultGetResultNumber(operand));
    }
    for (size_t i = 0; i < tsr_op_result_count(old); i++)
        mlirValueReplaceAllUsesOfWith(tsr_op_result(old, i), tsr_op_result(s->op, i));
    mlirOperationDestroy(old);
}

/* Extends the scan by results that stack these values of its body over the iterations. */
static void stack_values(scan *s, const MlirValue *values, size_t count) {
    MlirBlock block = tsr_region_block(s->op, 0);
    MlirOperation old = s->op, end = mlirBlockGetTerminator(block);
    size_t results = tsr_op_result_count(old), all = results + count;
    MlirValue *yields = new_values(s->ad, all), *operands = new_values(s->ad, s->inputs);
    MlirType *types = TSR_NEW(&s->ad->arena, MlirType, all + 1);
    TSR_NEED(types);
    for (size_t i = 0; i < s->inputs; i++) operands[i] = tsr_op_operand(old, i);
    for (size_t i = 0; i < results; i++) {
        yields[i] = tsr_op_operand(end, i);
        types[i] = mlirValueGetType(tsr_op_result(old, i));
    }
    for (size_t k = 0; k < count; k++) {
        yields[results + k] = values[k];
        types[results + k] = stacked(s, values[k]);
    }
    mlirOperationDestroy(end);
    tsr_block_yield(block, s->location, yields, all);
    mlirBlockDetach(block);
    MlirRegion body = mlirRegionCreate();
    mlirRegionAppendOwnedBlock(body, block);
    tsr_builder before = tsr_builder_before(old);
    s->op = build_scan(&before, s, s->carried, tsr_op_flag(old, "reverse"), body, s->inputs,
                       operands, all, types);
    replace_results(s, old);
}

static void stack_carried(scan *s) {
    MlirValue *values = new_values(s->ad, s->carried);
    for (size_t k = 0; k < s->carried; k++)
        values[k] = mlirBlockGetArgument(tsr_region_block(s->op, 0), (intptr_t)k);
    stack_values(s, values, s->carried);
}

/* Adds an argument to the reverse scan's body: the operand itself or one of its slices. */
static MlirValue add_operand(scan *s, MlirBlock block, MlirValue operand, MlirType type) {
    s->operands[s->operand_count++] = operand;
    return mlirBlockAddArgument(block, type, s->location);
}

/* Carried: gradients of the carried values, and sums. Sequences: the carried values of the first
 * scan, its sequences, gradients of stacked results. The roots are the values whose gradients are
 * requested. */
static void make_arguments(scan *s, MlirBlock block, tsr_copies *c, MlirValue *roots,
                           MlirValue *gradients) {
    MlirBlock from = tsr_region_block(s->op, 0);
    size_t at = 0;
    for (size_t k = 0; k < s->carried; k++) {
        MlirValue inside = mlirBlockGetArgument(from, (intptr_t)k), g = s->of_results[k];
        if (!tsr_value_is_float(inside)) continue;
        if (mlirValueIsNull(g)) g = tsr_emit_zeros(s->b, inside);
        gradients[k] = add_operand(s, block, g, mlirValueGetType(inside));
    }
    for (size_t k = 0; k < s->x.count; k++)
        add_operand(s, block, tsr_emit_zeros(s->b, s->x.values[k]),
                    mlirValueGetType(s->x.values[k]));
    s->summed = s->operand_count;
    for (size_t k = 0; k < s->inputs; k++) {
        MlirValue inside = mlirBlockGetArgument(from, (intptr_t)k);
        MlirValue whole =
            k < s->carried ? tsr_op_result(s->op, s->results + k) : tsr_op_operand(s->op, k);
        MlirValue slice = add_operand(s, block, whole, mlirValueGetType(inside));
        tsr_copies_set(c, inside, slice);
        if (is_root(s, k)) roots[at++] = slice;
    }
    for (size_t k = s->carried; k < s->results; k++) {
        MlirValue inside = tsr_op_operand(mlirBlockGetTerminator(from), k);
        if (mlirValueIsNull(s->of_results[k])) continue;
        gradients[k] = add_operand(s, block, s->of_results[k], mlirValueGetType(inside));
    }
    for (size_t k = 0; k < s->x.count; k++) roots[at++] = s->x.values[k];
}

/* Collects the yields of the reverse scan's body: the next carried values, then gradients of
 * slices of sequences. */
static size_t collect_yields(scan *s, MlirBlock block, const MlirValue *out, MlirValue *yields,
                             MlirType *types) {
    MlirBlock from = tsr_region_block(s->op, 0);
    tsr_builder b = tsr_builder_at_end(block, s->location);
    size_t count = 0, root = 0, slices = 0;
    MlirValue *of_slices = new_values(s->ad, s->inputs);
    for (size_t k = 0; k < s->inputs; k++) {
        MlirValue inside = mlirBlockGetArgument(from, (intptr_t)k);
        if (!is_root(s, k)) continue;
        MlirValue g = mlirValueIsNull(out[root]) ? tsr_emit_zeros(&b, inside) : out[root];
        root++;
        if (k < s->carried)
            yields[count++] = g;
        else
            of_slices[slices++] = g;
    }
    for (size_t k = 0; k < s->x.count; k++, root++) {
        MlirValue sum = mlirBlockGetArgument(block, (intptr_t)count);
        if (!mlirValueIsNull(out[root])) tsr_autodiff_add(&b, &sum, out[root]);
        yields[count++] = sum;
    }
    for (size_t k = 0; k < count; k++) types[k] = mlirValueGetType(yields[k]);
    for (size_t k = 0; k < slices; k++) {
        types[count] = stacked(s, of_slices[k]);
        yields[count++] = of_slices[k];
    }
    tsr_block_yield(block, s->location, yields, count);
    return count;
}

/* ---- saved values ---------------------------------------------------------------------------- */

enum {
    OPERATIONS_PER_BYTE = 32, /* operations that saving a byte is worth: as in policy selective of
                               * checkpoints */
    SAVED_PER_CARRIED = 8,    /* limit, as a multiple of the carried bytes, which are kept in any
                               * case */
};

static uint64_t bytes_of(MlirValue value) {
    tsr_type type = tsr_type_of(value);
    uint64_t size = 0;
    return tsr_shape_size(&type.shape, type.dtype, &size) ? size : UINT64_MAX;
}

static bool is_worth_saving(MlirOperation op) {
    uint64_t bytes;
    if (tsr_op_result_count(op) != 1 || mlirOperationGetNumRegions(op) > 0) return false;
    if (tsr_type_of(tsr_op_result(op, 0)).shape.rank == TSR_RANK_MAX) return false;
    return !__builtin_mul_overflow(bytes_of(tsr_op_result(op, 0)), OPERATIONS_PER_BYTE, &bytes) &&
           tsr_op_work(op) >= bytes;
}

static void mark_operands(tsr_copies *live, MlirOperation op) {
    for (size_t i = 0; i < tsr_op_operand_count(op); i++) {
        MlirValue operand = tsr_op_operand(op, i);
        if (!tsr_copies_has(live, operand)) tsr_copies_set(live, operand, operand);
    }
    for (intptr_t r = 0; r < mlirOperationGetNumRegions(op); r++) {
        if (mlirBlockIsNull(tsr_region_block(op, r))) continue;
        TSR_FOR_EACH_OP(inner, tsr_region_block(op, r)) mark_operands(live, inner);
    }
}

static MlirOperation *list_ops(autodiff *ad, MlirBlock block, size_t *out_count) {
    size_t count = 0;
    TSR_FOR_EACH_OP(op, block) count++;
    MlirOperation *ops = TSR_NEW(&ad->arena, MlirOperation, count + 1);
    TSR_NEED(ops);
    *out_count = 0;
    TSR_FOR_EACH_OP(op, block) ops[(*out_count)++] = op;
    return ops;
}

/* Finds the values that the block's yield needs, directly or through other ops. */
static void find_live(autodiff *ad, MlirBlock block, tsr_copies *out_live) {
    size_t count;
    MlirOperation *ops = list_ops(ad, block, &count);
    while (count-- > 0) {
        bool needed = tsr_op_is(ops[count], TSR_GRAPH_YIELD);
        for (size_t k = 0; k < tsr_op_result_count(ops[count]); k++)
            needed = needed || tsr_copies_has(out_live, tsr_op_result(ops[count], k));
        if (needed) mark_operands(out_live, ops[count]);
    }
}

/* Chooses results of products and similar ops that the reverse scan's body needs, in order, up to
 * the limit. */
static size_t choose_saved(const scan *s, MlirBlock block, MlirValue *out_values) {
    tsr_copies live = {.arena = &s->ad->arena};
    uint64_t budget = 0, each;
    size_t count = 0;
    find_live(s->ad, block, &live);
    for (size_t k = 0; k < s->carried; k++) {
        each = bytes_of(mlirBlockGetArgument(tsr_region_block(s->op, 0), (intptr_t)k));
        if (__builtin_mul_overflow(each, SAVED_PER_CARRIED, &each) ||
            __builtin_add_overflow(budget, each, &budget))
            return 0;
    }
    TSR_FOR_EACH_OP(op, tsr_region_block(s->op, 0)) {
        if (!is_worth_saving(op)) continue;
        MlirValue value = tsr_op_result(op, 0), copy = tsr_copies_get(&s->copies, value);
        if (!tsr_copies_has(&live, copy) || bytes_of(value) > budget ||
            tsr_op_result_count(s->op) + count >= TSR_RULE_RESULTS_MAX)
            continue;
        budget -= bytes_of(value);
        out_values[count++] = value;
    }
    return count;
}

/* Replaces uses of `copy` in the reverse scan's body by a slice of result `index`. */
static void take_instead(scan *s, MlirBlock block, MlirValue copy, size_t index) {
    MlirValue slice = add_operand(s, block, tsr_op_result(s->op, index), mlirValueGetType(copy));
    mlirValueReplaceAllUsesOfWith(copy, slice);
}

/* True if recomputing this value of the block would run an op whose result is worth saving. */
static bool is_dear(MlirBlock block, MlirValue value, tsr_copies *seen) {
    MlirOperation op = tsr_value_owner(value);
    if (mlirOperationIsNull(op) || !mlirBlockEqual(mlirOperationGetBlock(op), block) ||
        tsr_copies_has(seen, value))
        return false;
    tsr_copies_set(seen, value, value);
    if (is_worth_saving(op)) return true;
    for (size_t i = 0; i < tsr_op_operand_count(op); i++)
        if (is_dear(block, tsr_op_operand(op, i), seen)) return true;
    return false;
}

/* Uses the values that the first scan stacks in any case. */
static void save_results(scan *s, MlirBlock block) {
    tsr_copies live = {.arena = &s->ad->arena};
    MlirOperation end = mlirBlockGetTerminator(tsr_region_block(s->op, 0));
    find_live(s->ad, block, &live);
    for (size_t k = s->carried; k < s->results; k++) {
        tsr_copies seen = {.arena = &s->ad->arena};
        MlirOperation owner = tsr_value_owner(tsr_op_operand(end, k));
        /* The copy of an inner scan was replaced by one that keeps its carried values. */
        if (mlirOperationIsNull(owner) || mlirOperationGetNumRegions(owner) > 0) continue;
        MlirValue copy = tsr_copies_get(&s->copies, tsr_op_operand(end, k));
        if (s->operand_count < TSR_RULE_OPERANDS_MAX && tsr_copies_has(&live, copy) &&
            is_dear(block, copy, &seen))
            take_instead(s, block, copy, k);
    }
}

/* Uses the values that the first scan stacks only for this purpose. */
static void save_products(scan *s, MlirBlock block) {
    MlirValue values[TSR_RULE_RESULTS_MAX];
    size_t count = choose_saved(s, block, values), first = tsr_op_result_count(s->op);
    if (count == 0 || s->operand_count + count > TSR_RULE_OPERANDS_MAX) return;
    stack_values(s, values, count);
    for (size_t k = 0; k < count; k++)
        take_instead(s, block, tsr_copies_get(&s->copies, values[k]), first + k);
}

/* Erases ops with unused results, and the sequences that only these read. */
static void drop_unread(scan *s, MlirBlock block) {
    size_t left = s->summed;
    tsr_block_sweep(block);
    for (size_t i = s->summed; i < s->operand_count; i++) {
        if (tsr_value_is_used(mlirBlockGetArgument(block, (intptr_t)left)))
            s->operands[left++] = s->operands[i];
        else
            mlirBlockEraseArgument(block, (unsigned)left);
    }
    s->operand_count = left;
}

/* Adds the reverse scan's results to the gradients of the operands and of the captured values. */
static void hand_on(scan *s, MlirOperation made) {
    size_t at = 0;
    for (size_t k = 0; k < s->carried; k++) {
        MlirValue operand = tsr_op_operand(s->op, k);
        if (!is_root(s, k)) continue;
        MlirValue gradient = tsr_op_result(made, at++);
        if (tsr_autodiff_slot(s->ad, operand)->active) add_to(s->ad, s->b, operand, gradient);
    }
    for (size_t k = 0; k < s->x.count; k++)
        add_to(s->ad, s->b, s->x.values[k], tsr_op_result(made, at++));
    for (size_t k = s->carried; k < s->inputs; k++)
        if (is_root(s, k)) add_to(s->ad, s->b, tsr_op_operand(s->op, k), tsr_op_result(made, at++));
}

/* Each carried value gets one more dim and one more result. */
static bool check_carried(const scan *s) {
    for (size_t k = 0; k < s->carried; k++) {
        if (tsr_type_of(tsr_op_operand(s->op, k)).shape.rank < TSR_RANK_MAX) continue;
        tsr_diag_error(s->location, TSR_DIAG_LIMIT,
                       "%s: carried value %zu has %d dims; a gradient keeps the value of each "
                       "iteration, so the limit is %d",
                       tsr_op_name(s->op), k, TSR_RANK_MAX, TSR_RANK_MAX - 1);
        return false;
    }
    if (s->results + s->carried <= TSR_RULE_RESULTS_MAX) return true;
    tsr_diag_error(
        s->location, TSR_DIAG_OPERANDS,
        "%s: carries %zu values and returns %zu; with a gradient, at most %d in total are possible",
        tsr_op_name(s->op), s->carried, s->results, TSR_RULE_RESULTS_MAX);
    return false;
}

static bool check_operands(const scan *s) {
    if (s->operand_count <= TSR_RULE_OPERANDS_MAX) return true;
    tsr_diag_error(s->location, TSR_DIAG_OPERANDS,
                   "%s: its gradient has %zu operands, for %zu carried values and %zu trained ones "
                   "that the body reads; at most %d",
                   tsr_op_name(s->op), s->operand_count, s->carried, s->x.count,
                   TSR_RULE_OPERANDS_MAX);
    return false;
}

static bool reverse_scan(autodiff *ad, tsr_builder *b, MlirOperation *op, MlirValue *of_results) {
    scan s = {.ad = ad,
              .b = b,
              .op = *op,
              .location = mlirOperationGetLocation(*op),
              .inputs = tsr_op_operand_count(*op),
              .results = tsr_op_result_count(*op)};
    int64_t carried = 0;
    bool known = tsr_op_i64(*op, "carried", &carried) && tsr_graph_scan_length(*op, &s.length);
    TSR_ASSERT(known); /* its shapes are */
    s.carried = (size_t)carried;
    find_captures(ad, tsr_region_block(*op, 0), &s.x);
    s.of_results = of_results;
    size_t most = s.inputs + 2 * s.results + s.carried + s.x.count + TSR_RULE_RESULTS_MAX;
    if (!check_carried(&s)) return false;
    stack_carried(&s);
    *op = s.op;
    s.operands = new_values(ad, most);
    MlirValue *roots = new_values(ad, most), *gradients = new_values(ad, s.results);
    MlirValue *out = new_values(ad, most), *seeds = new_values(ad, s.results);
    MlirValue *yields = new_values(ad, most);
    MlirType *types = TSR_NEW(&ad->arena, MlirType, most + 1);
    TSR_NEED(types);
    MlirBlock block = mlirBlockCreate(0, NULL, NULL), from = tsr_region_block(s.op, 0);
    MlirRegion body = mlirRegionCreate();
    mlirRegionAppendOwnedBlock(body, block);
    s.copies = (tsr_copies){.arena = &ad->arena};
    make_arguments(&s, block, &s.copies, roots, gradients);
    tsr_builder inside = tsr_builder_at_end(block, s.location);
    tsr_copies_ops(&s.copies, from, &inside);
    size_t root_count = s.x.count;
    for (size_t k = 0; k < s.inputs; k++) root_count += is_root(&s, k);
    for (size_t k = 0; k < s.results; k++)
        seeds[k] = tsr_copies_get(&s.copies, tsr_op_operand(mlirBlockGetTerminator(from), k));
    const tsr_question q = {roots, root_count, seeds, gradients, s.results, out};
    if (!tsr_autodiff_block(block, s.location, &q)) return false;
    size_t count = collect_yields(&s, block, out, yields, types);
    save_results(&s, block);
    save_products(&s, block);
    drop_unread(&s, block);
    *op = s.op;
    if (!check_operands(&s)) {
        mlirRegionDestroy(body);
        return false;
    }
    MlirOperation made = build_scan(b, &s, s.summed, !tsr_op_flag(s.op, "reverse"), body,
                                    s.operand_count, s.operands, count, types);
    hand_on(&s, made);
    return true;
}

/* ---- while ----------------------------------------------------------------------------------- */

/* Copies the ops of `from` into a new block, with these values instead of its arguments; the block
 * ends with a yield of the same values. */
static MlirRegion copy_region(autodiff *ad, MlirBlock from, const MlirValue *arguments) {
    MlirBlock block = mlirBlockCreate(0, NULL, NULL);
    MlirRegion made = mlirRegionCreate();
    mlirRegionAppendOwnedBlock(made, block);
    MlirOperation end = mlirBlockGetTerminator(from);
    size_t count = tsr_op_operand_count(end);
    MlirValue *values = new_values(ad, count);
    tsr_copies c = {.arena = &ad->arena};
    for (intptr_t k = 0; k < mlirBlockGetNumArguments(from); k++)
        tsr_copies_set(&c, mlirBlockGetArgument(from, k), arguments[k]);
    tsr_builder b = tsr_builder_at_end(block, mlirOperationGetLocation(end));
    tsr_copies_ops(&c, from, &b);
    for (size_t k = 0; k < count; k++) values[k] = tsr_copies_get(&c, tsr_op_operand(end, k));
    tsr_block_yield(block, mlirOperationGetLocation(end), values, count);
    return made;
}

static MlirRegion yield_region(MlirLocation location, const MlirValue *values, size_t count) {
    MlirRegion made = mlirRegionCreate();
    mlirRegionAppendOwnedBlock(made, mlirBlockCreate(0, NULL, NULL));
    tsr_block_yield(mlirRegionGetFirstBlock(made), location, values, count);
    return made;
}

/* if `condition` { the results of `from` on the values } else { the `count` values of `other` } */
static MlirOperation choose(autodiff *ad, tsr_builder *b, MlirValue condition, MlirBlock from,
                            const MlirValue *arguments, const MlirValue *other, size_t count) {
    MlirType *types = TSR_NEW(&ad->arena, MlirType, count + 1);
    TSR_NEED(types);
    for (size_t k = 0; k < count; k++) types[k] = mlirValueGetType(other[k]);
    MlirRegion regions[] = {copy_region(ad, from, arguments),
                            yield_region(b->location, other, count)};
    return tsr_build(b, &(tsr_op_desc){.name = TSR_GRAPH_NAME("if"),
                                       .operand_count = 1,
                                       .operands = &condition,
                                       .result_count = count,
                                       .results = types,
                                       .region_count = 2,
                                       .regions = regions});
}

/* Builds a scan that carries whether the condition has been true until now, then the values of the
 * while. */
static MlirOperation make_scan(autodiff *ad, MlirOperation op) {
    size_t count = tsr_op_operand_count(op);
    tsr_builder before = tsr_builder_before(op);
    scan s = {.ad = ad, .b = &before, .location = before.location};
    MlirBlock block = mlirBlockCreate(0, NULL, NULL);
    MlirRegion body = mlirRegionCreate();
    MlirValue *operands = new_values(ad, count + 1), *inside = new_values(ad, count + 1);
    MlirType *types = TSR_NEW(&ad->arena, MlirType, count + 1);
    TSR_NEED(types);
    bool known = tsr_op_i64(op, "limit", &s.length);
    TSR_ASSERT(known);
    mlirRegionAppendOwnedBlock(body, block);
    operands[0] = tsr_emit_constant(&before, TSR_DTYPE_I1, 1.0);
    for (size_t k = 0; k < count; k++) operands[k + 1] = tsr_op_operand(op, k);
    for (size_t k = 0; k <= count; k++) {
        types[k] = mlirValueGetType(operands[k]);
        inside[k] = mlirBlockAddArgument(block, types[k], s.location);
    }
    tsr_builder b = tsr_builder_at_end(block, s.location);
    MlirOperation holds = choose(ad, &b, inside[0], tsr_region_block(op, 0), inside + 1, inside, 1);
    MlirValue *yields = new_values(ad, count + 1);
    yields[0] = tsr_op_result(holds, 0);
    MlirOperation next =
        choose(ad, &b, yields[0], tsr_region_block(op, 1), inside + 1, inside + 1, count);
    for (size_t k = 0; k < count; k++) yields[k + 1] = tsr_op_result(next, k);
    tsr_block_yield(block, s.location, yields, count + 1);
    MlirOperation made =
        build_scan(&before, &s, count + 1, false, body, count + 1, operands, count + 1, types);
    for (size_t k = 0; k < count; k++)
        mlirValueReplaceAllUsesOfWith(tsr_op_result(op, k), tsr_op_result(made, k + 1));
    mlirOperationDestroy(op);
    return made;
}

bool tsr_autodiff_control(autodiff *ad, tsr_builder *builder, size_t index) {
    MlirOperation *op = &ad->ops[index];
    tsr_op id = tsr_op_of(*op);
    if (id == TSR_GRAPH_IF) return reverse_if(ad, builder, *op);
    size_t results = tsr_op_result_count(*op), first = id == TSR_GRAPH_WHILE;
    MlirValue *gradients = new_values(ad, first + results);
    gradients[0] = (MlirValue){NULL};
    for (size_t k = 0; k < results; k++)
        gradients[first + k] = tsr_autodiff_slot(ad, tsr_op_result(*op, k))->gradient;
    if (id == TSR_GRAPH_WHILE) *op = make_scan(ad, *op);
    return reverse_scan(ad, builder, op, gradients);
}
