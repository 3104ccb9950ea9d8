/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass tessera-count-samples: makes the samples of random ops in loops depend on the iteration. A
 * scan or while that contains random ops carries one more value: the count of its iterations until
 * now, including those of the enclosing loops. The random ops in the loop are lowered to
 * tessera.philox at element offsets of this count times their size (attention that drops weights
 * gets its first offset). The samples are therefore those of one tensor that holds the slices of
 * all iterations, whether or not the loop is unrolled, and no two slices share samples.
 */
#include "compiler/graph/rules.h"
#include "compiler/passes.h"

#include <inttypes.h>

typedef struct counting {
    bool trains;         /* false: dropout returns its operand */
    uint64_t times;      /* product of the iteration counts of the enclosing loops */
    tsr_samples samples; /* the iteration of the innermost loop */
} counting;

static MlirBlock region(MlirOperation op, intptr_t index) {
    return mlirRegionGetFirstBlock(mlirOperationGetRegion(op, index));
}

static bool is_random(MlirOperation op, bool trains) {
    tsr_op id = tsr_op_of(op);
    return id == TSR_GRAPH_RANDOM_UNIFORM || id == TSR_GRAPH_RANDOM_NORMAL ||
           (trains && (id == TSR_GRAPH_DROPOUT || tsr_attention_will_sample(op)));
}

static bool holds_random(MlirOperation op, bool trains) {
    for (intptr_t i = 0; i < mlirOperationGetNumRegions(op); i++) {
        MlirBlock block = region(op, i);
        if (mlirBlockIsNull(block)) continue;
        TSR_FOR_EACH_OP(inner, block) {
            if (is_random(inner, trains) || holds_random(inner, trains)) return true;
        }
    }
    return false;
}

static bool is_loop(MlirOperation op) {
    tsr_op id = tsr_op_of(op);
    return id == TSR_GRAPH_WHILE || id == TSR_GRAPH_SCAN;
}

static bool read_loop(MlirOperation op, int64_t *out_times, size_t *out_carried) {
    int64_t carried = (int64_t)tsr_op_operand_count(op);
    bool scans = tsr_op_is(op, TSR_GRAPH_SCAN);
    bool known = scans ? tsr_op_i64(op, "carried", &carried) && tsr_graph_scan_length(op, out_times)
                       : tsr_op_i64(op, "limit", out_times);
    *out_carried = (size_t)carried;
    return known;
}

/* ---- the additional carried value ------------------------------------------------------------ */

/* Makes the region also yield counter + 1, after the carried values. */
static void yield_next(MlirBlock block, size_t at, MlirValue counter) {
    MlirOperation end = mlirBlockGetTerminator(block);
    MlirValue values[TSR_RULE_RESULTS_MAX + 1];
    size_t count = tsr_op_operand_count(end);
    tsr_builder b = tsr_builder_before(end);
    for (size_t i = 0; i < count; i++) values[i + (i >= at)] = tsr_op_operand(end, i);
    values[at] = tsr_emit_add(&b, counter, tsr_emit_constant(&b, TSR_DTYPE_I64, 1.0));
    tsr_build(&b, &(tsr_op_desc){.name = TSR_GRAPH_NAME("yield"),
                                 .operand_count = count + 1,
                                 .operands = values});
    mlirOperationDestroy(end);
}

/* Adds to the loop a carried value with index `at` that starts at `first`; it is argument `at` of
 * its regions. */
static MlirOperation widen(MlirOperation op, size_t at, MlirValue first) {
    MlirValue operands[TSR_RULE_OPERANDS_MAX + 1], values[TSR_RULE_RESULTS_MAX];
    MlirType types[TSR_RULE_RESULTS_MAX + 1], counts = mlirValueGetType(first);
    MlirRegion regions[2];
    size_t inputs = tsr_op_operand_count(op), results = tsr_op_result_count(op);
    size_t region_count = (size_t)mlirOperationGetNumRegions(op);
    tsr_builder b = tsr_builder_before(op);
    for (size_t i = 0; i < inputs; i++) operands[i + (i >= at)] = tsr_op_operand(op, i);
    for (size_t i = 0; i < results; i++)
        types[i + (i >= at)] = mlirValueGetType(tsr_op_result(op, i));
    operands[at] = first;
    types[at] = counts;
    for (size_t i = 0; i < region_count; i++) {
        MlirBlock block = region(op, (intptr_t)i);
        MlirValue counter = mlirBlockInsertArgument(block, (intptr_t)at, counts, b.location);
        if (i + 1 == region_count) yield_next(block, at, counter);
        regions[i] = mlirRegionCreate();
        mlirRegionTakeBody(regions[i], mlirOperationGetRegion(op, (intptr_t)i));
    }
    MlirOperation made = tsr_build(&b, &(tsr_op_desc){.name = tsr_op_name(op),
                                                      .operand_count = inputs + 1,
                                                      .operands = operands,
                                                      .result_count = results + 1,
                                                      .results = types,
                                                      .region_count = region_count,
                                                      .regions = regions});
    for (intptr_t i = 0; i < mlirOperationGetNumAttributes(op); i++) {
        MlirNamedAttribute attr = mlirOperationGetAttribute(op, i);
        mlirOperationSetAttributeByName(made, mlirIdentifierStr(attr.name), attr.attribute);
    }
    if (tsr_op_has(made, "carried"))
        tsr_op_set(made, "carried", tsr_attr_make_i64(b.context, (int64_t)at + 1));
    for (size_t i = 0; i < results; i++) values[i] = tsr_op_result(made, i + (i >= at));
    tsr_emit_replace(op, results, values);
    return made;
}

/* ---- samples --------------------------------------------------------------------------------- */

/* Refuses element numbers that exceed the range in which our constants are exact, which is less
 * than philox's 64 bits. */
static bool check_elements(const counting *c, MlirOperation op) {
    uint64_t count, all;
    if (tsr_random_count(op, &count) && !__builtin_mul_overflow(count, c->times, &all) &&
        all <= UINT64_C(1) << 53)
        return true;
    tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_SAMPLES,
                   "%s: draws samples in up to %" PRIu64
                   " iterations; together they have more than 2^53 elements",
                   tsr_op_name(op), c->times);
    return false;
}

static bool count_block(const counting *c, MlirBlock block);

/* The first count in this loop: the iterations of the enclosing loops, times its own. */
static bool count_loop(const counting *outer, MlirOperation op) {
    counting c = *outer;
    int64_t times = 0;
    size_t at;
    if (!read_loop(op, &times, &at)) return true; /* tessera-flatten refuses it */
    tsr_builder b = tsr_builder_before(op);
    MlirValue first;
    if (__builtin_mul_overflow(c.times, (uint64_t)times, &c.times)) c.times = UINT64_MAX;
    if (mlirValueIsNull(outer->samples.iteration)) {
        first = tsr_emit_constant(&b, TSR_DTYPE_I64, 0.0);
        c.samples.step = tsr_random_source(&b, TSR_GRAPH_NAME("step"));
        c.samples.seed = tsr_random_source(&b, TSR_GRAPH_NAME("seed"));
    } else {
        first = tsr_emit_mul(&b, outer->samples.iteration,
                             tsr_emit_constant(&b, TSR_DTYPE_I64, (double)times));
    }
    MlirOperation made = widen(op, at, first);
    for (intptr_t i = 0; i < mlirOperationGetNumRegions(made); i++) {
        c.samples.iteration = mlirBlockGetArgument(region(made, i), (intptr_t)at);
        if (!count_block(&c, region(made, i))) return false;
    }
    return true;
}

static bool count_block(const counting *c, MlirBlock block) {
    bool loops = !mlirValueIsNull(c->samples.iteration);
    TSR_FOR_EACH_OP(op, block) {
        if (is_random(op, c->trains) && loops) {
            if (!check_elements(c, op) || !tsr_random_lower(op, &c->samples)) return false;
            continue;
        }
        if (!holds_random(op, c->trains)) continue;
        if (is_loop(op)) {
            if (!count_loop(c, op)) return false;
            continue;
        }
        for (intptr_t i = 0; i < mlirOperationGetNumRegions(op); i++) {
            MlirBlock inner = region(op, i);
            if (!mlirBlockIsNull(inner) && !count_block(c, inner)) return false;
        }
    }
    return true;
}

bool tsr_pass_count_samples(MlirModule module) {
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        tsr_entry_kind kind;
        if (!tsr_graph_is_lowered_func(func) || !tsr_graph_entry_kind(func, &kind)) continue;
        const counting c = {.trains = kind == TSR_ENTRY_TRAIN, .times = 1};
        if (!count_block(&c, tsr_op_body(func))) return false;
    }
    return true;
}
