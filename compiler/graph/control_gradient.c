/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients of scan, while and if, for pass tessera-autodiff.
 *
 *   scan  keeps what it carried into each iteration, stacked. Another scan, the other way, has the
 *         body once more on that, and behind it the body's gradients; it carries the gradients of
 *         what was carried, and sums of those of values that the body read from outside.
 *   while becomes a scan of `limit` iterations, which do nothing once the condition has failed; its
 *         gradient is that of the scan.
 *   if    of the same condition: in each region the body once more, and its gradients.
 *
 * So what an iteration computes is computed twice and not kept (Chen et al. 2016, section 3), but
 * for what the first scan's products and the like give (choose_saved): they are stacked, too.
 */
#include "compiler/graph/autodiff.h"
#include "compiler/guard.h"
#include "compiler/schedule/schedule.h"

#include <string.h>

static MlirBlock region(MlirOperation op, intptr_t index) {
    return mlirRegionGetFirstBlock(mlirOperationGetRegion(op, index));
}

static bool is_float(MlirValue value) {
    tsr_type type;
    return tsr_value_type(value, &type) && tsr_dtype_is_float(type.dtype);
}

static MlirValue zeros(tsr_builder *b, MlirValue like) {
    tsr_type type = tsr_type_of(like);
    return tsr_emit_filled(b, &type, 0.0);
}

static MlirValue *new_values(autodiff *ad, size_t count) {
    MlirValue *values = TSR_NEW(&ad->arena, MlirValue, count + 1);
    TSR_NEED(values);
    return values;
}

static void hoist(MlirBlock block, MlirOperation before) {
    TSR_FOR_EACH_OP(op, block) {
        for (intptr_t i = 0; i < mlirOperationGetNumRegions(op); i++) hoist(region(op, i), before);
        if (tsr_graph_op_of(op) == TSR_GRAPH_PARAM) mlirOperationMoveBefore(op, before);
    }
}

void tsr_autodiff_hoist(MlirBlock block) {
    TSR_FOR_EACH_OP(op, block) {
        for (intptr_t i = 0; i < mlirOperationGetNumRegions(op); i++) hoist(region(op, i), op);
    }
}

/* ---- values read from outside ---------------------------------------------------------------- */

typedef struct captures {
    MlirValue *values; /* active, each once */
    size_t count;
} captures;

static void find_captures(autodiff *ad, MlirBlock block, captures *out) {
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
            find_captures(ad, region(op, r), out);
    }
}

/* ---- a body once more ------------------------------------------------------------------------ */

typedef struct copier {
    tsr_arena *arena;
    tsr_value_map numbers; /* of originals */
    MlirValue *values;
    uint32_t count, capacity;
} copier;

static void stand_for(copier *c, MlirValue from, MlirValue to) {
    if (c->count == c->capacity) {
        c->capacity = c->capacity ? 2 * c->capacity : 64;
        MlirValue *larger = TSR_NEW(c->arena, MlirValue, c->capacity);
        TSR_NEED(larger);
        if (c->count) memcpy(larger, c->values, c->count * sizeof *larger);
        c->values = larger;
    }
    c->values[c->count] = to;
    bool set = tsr_value_map_set(&c->numbers, c->arena, from, c->count++);
    TSR_NEED(set);
}

static MlirValue copy_of(const copier *c, MlirValue value) {
    uint32_t number = tsr_value_map_get(&c->numbers, value);
    return number == UINT32_MAX ? value : c->values[number];
}

static void rewire(const copier *c, MlirOperation op) {
    for (size_t i = 0; i < tsr_op_operand_count(op); i++)
        mlirOperationSetOperand(op, (intptr_t)i, copy_of(c, tsr_op_operand(op, i)));
    for (intptr_t r = 0; r < mlirOperationGetNumRegions(op); r++)
        TSR_FOR_EACH_OP(inner, region(op, r)) rewire(c, inner);
}

/* All but the yield. */
static void copy_ops(copier *c, MlirBlock from, MlirBlock to) {
    TSR_FOR_EACH_OP(op, from) {
        if (tsr_graph_op_of(op) == TSR_GRAPH_YIELD) return;
        MlirOperation copy = mlirOperationClone(op);
        rewire(c, copy);
        mlirBlockAppendOwnedOperation(to, copy);
        for (size_t i = 0; i < tsr_op_result_count(op); i++)
            stand_for(c, tsr_op_result(op, i), tsr_op_result(copy, i));
    }
}

/* What the body's gradients are asked for, and what of. */
typedef struct question {
    const MlirValue *roots;
    size_t root_count;
    const MlirValue *seeds, *gradients; /* of the yield's values; null: none */
    size_t seed_count;
    MlirValue *out; /* by root; null where there is none */
} question;

/* Of the ops that stand in the block; theirs are appended. */
static bool differentiate_block(autodiff *outer, MlirBlock block, MlirLocation location,
                                const question *q) {
    autodiff inner = {.module = outer->module, .block = block};
    tsr_builder b = tsr_builder_at_end(block, location);
    tsr_autodiff_collect(&inner, q->root_count + q->seed_count);
    for (size_t i = 0; i < q->root_count; i++)
        tsr_autodiff_slot(&inner, q->roots[i])->active = true;
    tsr_autodiff_mark(&inner);
    for (size_t i = 0; i < q->seed_count; i++) {
        slot *seed = tsr_autodiff_find(&inner, q->seeds[i]);
        if (seed && seed->active && !mlirValueIsNull(q->gradients[i]))
            tsr_autodiff_add(&b, &seed->gradient, q->gradients[i]);
    }
    bool done = tsr_autodiff_reverse(&inner, &b);
    for (size_t i = 0; i < q->root_count; i++)
        q->out[i] = tsr_autodiff_slot(&inner, q->roots[i])->gradient;
    tsr_arena_finish(&inner.arena);
    return done;
}

static void yield(MlirBlock block, MlirLocation location, const MlirValue *values, size_t count) {
    tsr_builder b = tsr_builder_at_end(block, location);
    tsr_build(&b, &(tsr_op_desc){
                      .name = TSR_GRAPH_NAME("yield"), .operand_count = count, .operands = values});
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
    for (intptr_t i = 0; i < 2; i++) find_captures(ad, region(op, i), &x);
    if (x.count == 0) return true;
    for (size_t k = 0; k < results; k++)
        gradients[k] = tsr_autodiff_slot(ad, tsr_op_result(op, k))->gradient;
    MlirValue *out = new_values(ad, x.count), *seeds = new_values(ad, results);
    MlirType *types = TSR_NEW(&ad->arena, MlirType, x.count + 1);
    TSR_NEED(types);
    for (intptr_t i = 0; i < 2; i++) {
        MlirBlock from = region(op, i), block = mlirBlockCreate(0, NULL, NULL);
        MlirOperation end = mlirBlockGetTerminator(from);
        copier c = {.arena = &ad->arena};
        regions[i] = mlirRegionCreate();
        mlirRegionAppendOwnedBlock(regions[i], block);
        copy_ops(&c, from, block);
        for (size_t k = 0; k < results; k++) seeds[k] = copy_of(&c, tsr_op_operand(end, k));
        const question q = {.roots = x.values,
                            .root_count = x.count,
                            .seeds = seeds,
                            .gradients = gradients,
                            .seed_count = results,
                            .out = out};
        if (!differentiate_block(ad, block, location, &q)) return false;
        tsr_builder at = tsr_builder_at_end(block, location);
        for (size_t k = 0; k < x.count; k++)
            if (mlirValueIsNull(out[k])) out[k] = zeros(&at, x.values[k]);
        yield(block, location, out, x.count);
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
    /* Operands of the other scan: carried first. */
    MlirValue *operands;
    size_t operand_count, summed;
    copier copies; /* of the body, in that of the other scan */
} scan;

/* Is the gradient of the scan's operand `index` asked for? What is carried hands gradients on in
 * any case. */
static bool is_root(const scan *s, size_t index) {
    MlirValue operand = tsr_op_operand(s->op, index);
    const slot *known = tsr_autodiff_find(s->ad, operand);
    return is_float(operand) && (index < s->carried || (known && known->active));
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

/* What stood for a result of `old` is that of s->op. */
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

/* The scan gives also these values of each iteration, of its body: results behind the others. */
static void keep(scan *s, const MlirValue *values, size_t count) {
    MlirBlock block = region(s->op, 0);
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
    yield(block, s->location, yields, all);
    mlirBlockDetach(block);
    MlirRegion body = mlirRegionCreate();
    mlirRegionAppendOwnedBlock(body, block);
    tsr_builder before = tsr_builder_before(old);
    s->op = build_scan(&before, s, s->carried, tsr_op_flag(old, "reverse"), body, s->inputs,
                       operands, all, types);
    replace_results(s, old);
}

static void keep_carried(scan *s) {
    MlirValue *values = new_values(s->ad, s->carried);
    for (size_t k = 0; k < s->carried; k++)
        values[k] = mlirBlockGetArgument(region(s->op, 0), (intptr_t)k);
    keep(s, values, s->carried);
}

/* The next argument of the other scan's body: of the operand itself, or a slice of it. */
static MlirValue take(scan *s, MlirBlock block, MlirValue operand, MlirType type) {
    s->operands[s->operand_count++] = operand;
    return mlirBlockAddArgument(block, type, s->location);
}

/* Carried: gradients of what was carried, sums. Sequences: what was carried, the sequences,
 * gradients of stacked results. The roots are what gradients are asked for. */
static void make_arguments(scan *s, MlirBlock block, copier *c, MlirValue *roots,
                           MlirValue *gradients) {
    MlirBlock from = region(s->op, 0);
    size_t at = 0;
    for (size_t k = 0; k < s->carried; k++) {
        MlirValue inside = mlirBlockGetArgument(from, (intptr_t)k), g = s->of_results[k];
        if (!is_float(inside)) continue;
        if (mlirValueIsNull(g)) g = zeros(s->b, inside);
        gradients[k] = take(s, block, g, mlirValueGetType(inside));
    }
    for (size_t k = 0; k < s->x.count; k++)
        take(s, block, zeros(s->b, s->x.values[k]), mlirValueGetType(s->x.values[k]));
    s->summed = s->operand_count;
    for (size_t k = 0; k < s->inputs; k++) {
        MlirValue inside = mlirBlockGetArgument(from, (intptr_t)k);
        MlirValue whole =
            k < s->carried ? tsr_op_result(s->op, s->results + k) : tsr_op_operand(s->op, k);
        MlirValue slice = take(s, block, whole, mlirValueGetType(inside));
        stand_for(c, inside, slice);
        if (is_root(s, k)) roots[at++] = slice;
    }
    for (size_t k = s->carried; k < s->results; k++) {
        MlirValue inside = tsr_op_operand(mlirBlockGetTerminator(from), k);
        if (mlirValueIsNull(s->of_results[k])) continue;
        gradients[k] = take(s, block, s->of_results[k], mlirValueGetType(inside));
    }
    for (size_t k = 0; k < s->x.count; k++) roots[at++] = s->x.values[k];
}

/* What the other scan's body yields: the next carried values, gradients of slices of sequences. */
static size_t collect_yields(scan *s, MlirBlock block, const MlirValue *out, MlirValue *yields,
                             MlirType *types) {
    MlirBlock from = region(s->op, 0);
    tsr_builder b = tsr_builder_at_end(block, s->location);
    size_t count = 0, root = 0, slices = 0;
    MlirValue *of_slices = new_values(s->ad, s->inputs);
    for (size_t k = 0; k < s->inputs; k++) {
        MlirValue inside = mlirBlockGetArgument(from, (intptr_t)k);
        if (!is_root(s, k)) continue;
        MlirValue g = mlirValueIsNull(out[root]) ? zeros(&b, inside) : out[root];
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
    yield(block, s->location, yields, count);
    return count;
}

/* ---- what is saved --------------------------------------------------------------------------- */

enum {
    OPERATIONS_PER_BYTE = 32, /* that saving a byte is worth: as policy selective of checkpoints */
    SAVED_PER_CARRIED = 8,    /* times the bytes that are carried, which are kept anyway */
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

static void mark_operands(copier *live, MlirOperation op) {
    for (size_t i = 0; i < tsr_op_operand_count(op); i++) {
        MlirValue operand = tsr_op_operand(op, i);
        if (tsr_value_map_get(&live->numbers, operand) == UINT32_MAX)
            stand_for(live, operand, operand);
    }
    for (intptr_t r = 0; r < mlirOperationGetNumRegions(op); r++)
        TSR_FOR_EACH_OP(inner, region(op, r)) mark_operands(live, inner);
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

/* What the yield of the block needs, straight or by other ops. */
static void find_live(autodiff *ad, MlirBlock block, copier *out_live) {
    size_t count;
    MlirOperation *ops = list_ops(ad, block, &count);
    while (count-- > 0) {
        bool needed = tsr_graph_op_of(ops[count]) == TSR_GRAPH_YIELD;
        for (size_t k = 0; k < tsr_op_result_count(ops[count]); k++)
            needed = needed || tsr_value_map_get(&out_live->numbers,
                                                 tsr_op_result(ops[count], k)) != UINT32_MAX;
        if (needed) mark_operands(out_live, ops[count]);
    }
}

/* Results of products and the like that the other scan's body needs, in order while there is room.
 */
static size_t choose_saved(const scan *s, MlirBlock block, MlirValue *out_values) {
    copier live = {.arena = &s->ad->arena};
    uint64_t room = 0, each;
    size_t count = 0;
    find_live(s->ad, block, &live);
    for (size_t k = 0; k < s->carried; k++) {
        each = bytes_of(mlirBlockGetArgument(region(s->op, 0), (intptr_t)k));
        if (__builtin_mul_overflow(each, SAVED_PER_CARRIED, &each) ||
            __builtin_add_overflow(room, each, &room))
            return 0;
    }
    TSR_FOR_EACH_OP(op, region(s->op, 0)) {
        if (!is_worth_saving(op)) continue;
        MlirValue value = tsr_op_result(op, 0), copy = copy_of(&s->copies, value);
        if (tsr_value_map_get(&live.numbers, copy) == UINT32_MAX || bytes_of(value) > room ||
            tsr_op_result_count(s->op) + count >= TSR_RULE_RESULTS_MAX)
            continue;
        room -= bytes_of(value);
        out_values[count++] = value;
    }
    return count;
}

/* What stands for `copy` in the other scan's body is now a slice of result `index`. */
static void take_instead(scan *s, MlirBlock block, MlirValue copy, size_t index) {
    MlirValue slice = take(s, block, tsr_op_result(s->op, index), mlirValueGetType(copy));
    mlirValueReplaceAllUsesOfWith(copy, slice);
}

/* Would computing this value of the block again run what is worth saving? */
static bool is_dear(MlirBlock block, MlirValue value, copier *seen) {
    MlirOperation op = tsr_value_owner(value);
    if (mlirOperationIsNull(op) || !mlirBlockEqual(mlirOperationGetBlock(op), block) ||
        tsr_value_map_get(&seen->numbers, value) != UINT32_MAX)
        return false;
    stand_for(seen, value, value);
    if (is_worth_saving(op)) return true;
    for (size_t i = 0; i < tsr_op_operand_count(op); i++)
        if (is_dear(block, tsr_op_operand(op, i), seen)) return true;
    return false;
}

/* What the first scan stacks in any case. */
static void save_results(scan *s, MlirBlock block) {
    copier live = {.arena = &s->ad->arena};
    MlirOperation end = mlirBlockGetTerminator(region(s->op, 0));
    find_live(s->ad, block, &live);
    for (size_t k = s->carried; k < s->results; k++) {
        copier seen = {.arena = &s->ad->arena};
        MlirOperation owner = tsr_value_owner(tsr_op_operand(end, k));
        /* The copy of an inner scan gave way to one that keeps what it carries. */
        if (mlirOperationIsNull(owner) || mlirOperationGetNumRegions(owner) > 0) continue;
        MlirValue copy = copy_of(&s->copies, tsr_op_operand(end, k));
        if (s->operand_count < TSR_RULE_OPERANDS_MAX &&
            tsr_value_map_get(&live.numbers, copy) != UINT32_MAX && is_dear(block, copy, &seen))
            take_instead(s, block, copy, k);
    }
}

/* What the first scan stacks for this alone. */
static void save_products(scan *s, MlirBlock block) {
    MlirValue values[TSR_RULE_RESULTS_MAX];
    size_t count = choose_saved(s, block, values), first = tsr_op_result_count(s->op);
    if (count == 0 || s->operand_count + count > TSR_RULE_OPERANDS_MAX) return;
    keep(s, values, count);
    for (size_t k = 0; k < count; k++)
        take_instead(s, block, copy_of(&s->copies, values[k]), first + k);
}

/* Ops whose results nothing reads any more, and the sequences that they alone read. */
static void drop_unread(scan *s, MlirBlock block) {
    size_t kept = s->summed, count;
    MlirOperation *ops = list_ops(s->ad, block, &count);
    while (count-- > 0) {
        bool read = tsr_graph_op_of(ops[count]) == TSR_GRAPH_YIELD;
        for (size_t k = 0; k < tsr_op_result_count(ops[count]); k++)
            read = read || tsr_value_is_used(tsr_op_result(ops[count], k));
        if (!read) mlirOperationDestroy(ops[count]);
    }
    for (size_t i = s->summed; i < s->operand_count; i++) {
        if (tsr_value_is_used(mlirBlockGetArgument(block, (intptr_t)kept)))
            s->operands[kept++] = s->operands[i];
        else
            mlirBlockEraseArgument(block, (unsigned)kept);
    }
    s->operand_count = kept;
}

/* The other scan's results go to the operands and to what was read from outside. */
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

/* What is carried gets a dim and a result more. */
static bool check_kept(const scan *s) {
    for (size_t k = 0; k < s->carried; k++) {
        if (tsr_type_of(tsr_op_operand(s->op, k)).shape.rank < TSR_RANK_MAX) continue;
        tsr_diag_error(
            s->location, TSR_DIAG_LIMIT,
            "%s: carried value %zu has %d dims; a gradient keeps it of each iteration, so "
            "that it may have %d",
            tsr_op_name(s->op), k, TSR_RANK_MAX, TSR_RANK_MAX - 1);
        return false;
    }
    if (s->results + s->carried <= TSR_RULE_RESULTS_MAX) return true;
    tsr_diag_error(s->location, TSR_DIAG_OPERANDS,
                   "%s: carries %zu values and gives %zu; with a gradient both together may be %d",
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
    find_captures(ad, region(*op, 0), &s.x);
    s.of_results = of_results;
    size_t most = s.inputs + 2 * s.results + s.carried + s.x.count + TSR_RULE_RESULTS_MAX;
    if (!check_kept(&s)) return false;
    keep_carried(&s);
    *op = s.op;
    s.operands = new_values(ad, most);
    MlirValue *roots = new_values(ad, most), *gradients = new_values(ad, s.results);
    MlirValue *out = new_values(ad, most), *seeds = new_values(ad, s.results);
    MlirValue *yields = new_values(ad, most);
    MlirType *types = TSR_NEW(&ad->arena, MlirType, most + 1);
    TSR_NEED(types);
    MlirBlock block = mlirBlockCreate(0, NULL, NULL), from = region(s.op, 0);
    MlirRegion body = mlirRegionCreate();
    mlirRegionAppendOwnedBlock(body, block);
    s.copies = (copier){.arena = &ad->arena};
    make_arguments(&s, block, &s.copies, roots, gradients);
    copy_ops(&s.copies, from, block);
    size_t root_count = s.x.count;
    for (size_t k = 0; k < s.inputs; k++) root_count += is_root(&s, k);
    for (size_t k = 0; k < s.results; k++)
        seeds[k] = copy_of(&s.copies, tsr_op_operand(mlirBlockGetTerminator(from), k));
    const question q = {roots, root_count, seeds, gradients, s.results, out};
    if (!differentiate_block(ad, block, s.location, &q)) return false;
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

/* Ops of `from`, on these values instead of its arguments, in a block of their own; ends with what
 * it yields. */
static MlirRegion copy_region(autodiff *ad, MlirBlock from, const MlirValue *arguments) {
    MlirBlock block = mlirBlockCreate(0, NULL, NULL);
    MlirRegion made = mlirRegionCreate();
    mlirRegionAppendOwnedBlock(made, block);
    MlirOperation end = mlirBlockGetTerminator(from);
    size_t count = tsr_op_operand_count(end);
    MlirValue *values = new_values(ad, count);
    copier c = {.arena = &ad->arena};
    for (intptr_t k = 0; k < mlirBlockGetNumArguments(from); k++)
        stand_for(&c, mlirBlockGetArgument(from, k), arguments[k]);
    copy_ops(&c, from, block);
    for (size_t k = 0; k < count; k++) values[k] = copy_of(&c, tsr_op_operand(end, k));
    yield(block, mlirOperationGetLocation(end), values, count);
    return made;
}

static MlirRegion yield_region(MlirLocation location, const MlirValue *values, size_t count) {
    MlirRegion made = mlirRegionCreate();
    mlirRegionAppendOwnedBlock(made, mlirBlockCreate(0, NULL, NULL));
    yield(mlirRegionGetFirstBlock(made), location, values, count);
    return made;
}

/* if `condition` { what `from` makes of the values } else { the `count` values of `other` } */
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

/* Carries whether the condition has held so far, then what the while does. */
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
    MlirOperation holds = choose(ad, &b, inside[0], region(op, 0), inside + 1, inside, 1);
    MlirValue *yields = new_values(ad, count + 1);
    yields[0] = tsr_op_result(holds, 0);
    MlirOperation next = choose(ad, &b, yields[0], region(op, 1), inside + 1, inside + 1, count);
    for (size_t k = 0; k < count; k++) yields[k + 1] = tsr_op_result(next, k);
    yield(block, s.location, yields, count + 1);
    MlirOperation made =
        build_scan(&before, &s, count + 1, false, body, count + 1, operands, count + 1, types);
    for (size_t k = 0; k < count; k++)
        mlirValueReplaceAllUsesOfWith(tsr_op_result(op, k), tsr_op_result(made, k + 1));
    mlirOperationDestroy(op);
    return made;
}

bool tsr_autodiff_control(autodiff *ad, tsr_builder *builder, size_t index) {
    MlirOperation *op = &ad->ops[index];
    tsr_graph_op id = tsr_graph_op_of(*op);
    if (id == TSR_GRAPH_IF) return reverse_if(ad, builder, *op);
    size_t results = tsr_op_result_count(*op), first = id == TSR_GRAPH_WHILE;
    MlirValue *gradients = new_values(ad, first + results);
    gradients[0] = (MlirValue){NULL};
    for (size_t k = 0; k < results; k++)
        gradients[first + k] = tsr_autodiff_slot(ad, tsr_op_result(*op, k))->gradient;
    if (id == TSR_GRAPH_WHILE) *op = make_scan(ad, *op);
    return reverse_scan(ad, builder, op, gradients);
}
