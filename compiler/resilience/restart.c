/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass tessera-resilience-restart, on straight-line programs. Regions have been inlined there
 * (tessera-inline-regions), or are inlined here; but a function that autodiff has yet to run on
 * is left unchanged. SSA values connect the ops that must run in order, so that no later pass can
 * reorder them:
 *
 *   chain    each enter takes the token of the previous op of the chain, each leave that of its
 *            enter
 *   barriers values that a region reads pass a barrier with the token of its enter; values that
 *            leave it pass one that its leave waits for, and one with the token of its leave
 *   export   export_begin takes the values and the token of the leave; its token is awaited at the
 *            end of the step
 *   import   import_begin is part of the chain
 *
 * Tokens become !async.token, and waiting for them async.await. Exported values are stored in
 * tensors REGION.export.0, … of the optimizer state, so that the generation that is committed after
 * the step contains them.
 */
#include "compiler/graph/emit.h"
#include "compiler/ir/op_rows.h"
#include "compiler/resilience/passes.h"
#include "compiler/resilience/resilience.h"
#include "runtime/base/array.h"

#include <stdio.h>
#include <string.h>

typedef struct threader {
    MlirOperation func;
    MlirBlock block;
    MlirContext context;
    MlirType token;
    tsr_arena arena;
    MlirValue chain;       /* null before the first */
    MlirOperation enter;   /* enter of the open region, or null */
    MlirValue *pending;    /* tokens to await */
    const char **exported; /* their names, the same number */
    size_t pending_count;
    MlirOperation *users; /* capacity for the users of one value */
    size_t user_capacity;
} threader;

static bool no_memory(MlirOperation op) {
    tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_MEMORY, "no memory to order '%s'",
                   tsr_op_name(op));
    return false;
}

/* ---- uses ------------------------------------------------------------------------------------ */

/* The op of the function's block that is `op` or contains it. */
static MlirOperation outermost(const threader *t, MlirOperation op) {
    while (!mlirBlockEqual(mlirOperationGetBlock(op), t->block))
        op = mlirOperationGetParentOperation(op);
    return op;
}

static bool is_source(MlirOperation op) {
    const tsr_op_row *row = tsr_op_row_find(op);
    return row && (row->op_class == TSR_CLASS_SOURCE || row->op_class == TSR_CLASS_CONSTANT);
}

/* True if the op is part of the region that `enter` begins and `leave` ends. Reads of tensors are
 * not. */
static bool is_member(const threader *t, MlirOperation op, MlirOperation leave) {
    return !is_source(op) && mlirOperationIsBeforeInBlock(t->enter, op) &&
           mlirOperationIsBeforeInBlock(op, leave);
}

/* Fills t->users with the ops that use the value: members of the region, or ops that are not. */
static bool find_users(threader *t, MlirValue value, MlirOperation leave, bool members,
                       size_t *out_count) {
    size_t count = 0;
    for (MlirOpOperand use = mlirValueGetFirstUse(value); !mlirOpOperandIsNull(use);
         use = mlirOpOperandGetNextUse(use)) {
        MlirOperation user = mlirOpOperandGetOwner(use), top = outermost(t, user);
        if (mlirOperationEqual(top, leave) || is_member(t, top, leave) != members) continue;
        if (count == t->user_capacity) {
            MlirOperation *larger = TSR_ARENA_GROW(&t->arena, t->users, &t->user_capacity, 16);
            if (!larger) return no_memory(leave);
            t->users = larger;
        }
        t->users[count++] = user;
    }
    *out_count = count;
    return true;
}

static void replace_in(threader *t, size_t count, MlirValue from, MlirValue to) {
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < tsr_op_operand_count(t->users[i]); k++)
            if (mlirValueEqual(tsr_op_operand(t->users[i], k), from))
                mlirOperationSetOperand(t->users[i], (intptr_t)k, to);
}

/* ---- ops ------------------------------------------------------------------------------------- */

/* Builds an op of the dialect with `count` values, then tokens, as operands; the result types are
 * those of the first `results` values, optionally followed by a token. The rules of the ops limit
 * their number. */
static MlirOperation build(threader *t, tsr_builder *b, const char *op, const MlirValue *values,
                           size_t count, const MlirValue *tokens, size_t token_count,
                           size_t results, bool gives_token, const tsr_attr *attrs,
                           size_t attr_count) {
    MlirValue operands[3 * TSR_SR_VALUES_MAX]; /* an export has two of each value, and a token */
    MlirType types[TSR_SR_VALUES_MAX + 1];
    TSR_ASSERT(count + token_count <= TSR_COUNT(operands) && results <= TSR_SR_VALUES_MAX);
    for (size_t i = 0; i < count; i++) operands[i] = values[i];
    for (size_t i = 0; i < token_count; i++) operands[count + i] = tokens[i];
    for (size_t i = 0; i < results; i++) types[i] = mlirValueGetType(values[i]);
    if (gives_token) types[results] = t->token;
    return tsr_build(b, &(tsr_op_desc){.name = op,
                                       .operand_count = count + token_count,
                                       .operands = operands,
                                       .result_count = results + gives_token,
                                       .results = types,
                                       .attr_count = attr_count,
                                       .attrs = attrs});
}

/* A barrier: the values are not available before the token. */
static MlirOperation build_barrier(threader *t, tsr_builder *b, const MlirValue *values,
                                   size_t count, MlirValue token) {
    return build(t, b, "tessera_sr.barrier", values, count, &token, 1, count, false, NULL, 0);
}

/* ---- a region -------------------------------------------------------------------------------- */

static bool thread_enter(threader *t, MlirOperation old) {
    tsr_builder b = tsr_builder_before(old);
    MlirAttribute handler = tsr_op_attr(old, "on_failure");
    if (mlirAttributeIsNull(handler)) handler = tsr_op_attr(t->func, TSR_SR_FAILURE_HANDLER);
    if (!mlirOperationIsNull(t->enter))
        return tsr_op_emit_error(old, TSR_DIAG_SR_ORDER, "a region that is open is not left");
    const tsr_attr attrs[] = {{"name", tsr_op_attr(old, "name")},
                              {"mode", tsr_op_attr(old, "mode")},
                              {"on_failure", handler}};
    size_t count = mlirAttributeIsNull(handler) ? 2 : 3;
    bool chained = !mlirValueIsNull(t->chain);
    t->enter = build(t, &b, "tessera_sr.enter", NULL, 0, &t->chain, chained, 0, true, attrs, count);
    t->chain = tsr_op_result(t->enter, 0);
    mlirOperationDestroy(old);
    return true;
}

static bool is_token(MlirValue value) { return tsr_sr_is_token(mlirValueGetType(value)); }

/* True for operands that must pass the barrier of the region: values from outside that are not
 * read from a tensor; if an op only reads tensors, one operand. */
static bool comes_in(const threader *t, MlirOperation op, size_t index) {
    MlirValue value = tsr_op_operand(op, index);
    MlirOperation owner = tsr_value_owner(value);
    bool outside = mlirOperationIsNull(owner) || mlirOperationIsBeforeInBlock(owner, t->enter);
    if (is_token(value)) return false;
    if (mlirOperationIsNull(owner) || !is_source(owner)) return outside;
    if (tsr_op_is(owner, TSR_GRAPH_CONSTANT)) return false;
    for (size_t i = 0; i < tsr_op_operand_count(op); i++) {
        MlirOperation other = tsr_value_owner(tsr_op_operand(op, i));
        if (mlirOperationIsNull(other) || !is_source(other)) return false;
        if (i < index && !tsr_op_is(other, TSR_GRAPH_CONSTANT)) return false;
    }
    return true;
}

static bool put_operands_behind_barriers(threader *t, MlirOperation leave) {
    MlirOperation first = mlirOperationGetNextInBlock(t->enter);
    for (MlirOperation op = first; !mlirOperationEqual(op, leave);
         op = mlirOperationGetNextInBlock(op)) {
        if (!is_member(t, op, leave)) continue;
        for (size_t i = 0; i < tsr_op_operand_count(op); i++) {
            MlirValue value = tsr_op_operand(op, i);
            size_t count = 0;
            if (!comes_in(t, op, i)) continue;
            MlirOperation owner = tsr_value_owner(value);
            bool read = !mlirOperationIsNull(owner) && is_source(owner);
            tsr_builder b = tsr_builder_before(read ? op : first);
            MlirValue passed =
                tsr_op_result(build_barrier(t, &b, &value, 1, tsr_op_result(t->enter, 0)), 0);
            if (read) {
                mlirOperationSetOperand(op, (intptr_t)i, passed);
                continue;
            }
            if (!find_users(t, value, leave, true, &count)) return false;
            for (size_t k = 0; k < count; k++)
                if (mlirOperationEqual(t->users[k], tsr_value_owner(passed)))
                    t->users[k--] = t->users[--count];
            replace_in(t, count, value, passed);
        }
    }
    return true;
}

/* Finds the values that members compute and others use. */
static bool find_leaving(threader *t, MlirOperation leave, MlirValue *values, size_t *out_count) {
    size_t count = 0, users = 0;
    for (MlirOperation op = mlirOperationGetNextInBlock(t->enter); !mlirOperationEqual(op, leave);
         op = mlirOperationGetNextInBlock(op)) {
        if (!is_member(t, op, leave)) continue;
        for (size_t i = 0; i < tsr_op_result_count(op); i++) {
            if (is_token(tsr_op_result(op, i))) continue;
            if (!find_users(t, tsr_op_result(op, i), leave, false, &users)) return false;
            if (users) values[count++] = tsr_op_result(op, i);
        }
    }
    *out_count = count;
    return true;
}

static size_t count_results(const threader *t, MlirOperation leave) {
    size_t count = 0;
    for (MlirOperation op = mlirOperationGetNextInBlock(t->enter); !mlirOperationEqual(op, leave);
         op = mlirOperationGetNextInBlock(op))
        count += tsr_op_result_count(op);
    return count;
}

static bool thread_leave(threader *t, MlirOperation old) {
    size_t leaving = 0, chunks = 0;
    if (mlirOperationIsNull(t->enter))
        return tsr_op_emit_error(old, TSR_DIAG_SR_ORDER, "no region is open");
    if (!put_operands_behind_barriers(t, old)) return false;
    size_t capacity = count_results(t, old) + 1;
    MlirValue *values = TSR_NEW(&t->arena, MlirValue, capacity);
    MlirValue *tokens = TSR_NEW(&t->arena, MlirValue, capacity + 1);
    MlirValue *yielded = TSR_NEW(&t->arena, MlirValue, tsr_op_operand_count(old) + 1);
    if (!values || !tokens || !yielded) return no_memory(old);
    if (!find_leaving(t, old, values, &leaving)) return false;
    tsr_builder before = tsr_builder_before(old);
    tokens[chunks++] = tsr_op_result(t->enter, 0);
    for (size_t i = 0; i < leaving; i += TSR_SR_VALUES_MAX) {
        size_t count = leaving - i < TSR_SR_VALUES_MAX ? leaving - i : TSR_SR_VALUES_MAX;
        tokens[chunks++] = tsr_op_result(
            build(t, &before, "tessera_sr.barrier", values + i, count, NULL, 0, 0, true, NULL, 0),
            0);
    }
    /* One op takes a limited number of tokens; more are joined first. */
    while (chunks > TSR_SR_VALUES_MAX) {
        chunks -= TSR_SR_VALUES_MAX;
        tokens[chunks] = tsr_op_result(build(t, &before, "tessera_sr.barrier", NULL, 0,
                                             tokens + chunks, TSR_SR_VALUES_MAX, 0, true, NULL, 0),
                                       0);
        chunks++;
    }
    size_t tensors = 0;
    while (tensors < tsr_op_operand_count(old) && !is_token(tsr_op_operand(old, tensors))) {
        yielded[tensors] = tsr_op_operand(old, tensors);
        tensors++;
    }
    const tsr_attr name = {"name", tsr_op_attr(old, "name")};
    MlirOperation leave =
        build(t, &before, "tessera_sr.leave", yielded, tensors, tokens, chunks, 0, true, &name, 1);
    t->chain = tsr_op_result(leave, 0);
    tsr_builder after = tsr_builder_before(old);
    for (size_t i = 0; i < leaving; i += TSR_SR_VALUES_MAX) {
        size_t count = leaving - i < TSR_SR_VALUES_MAX ? leaving - i : TSR_SR_VALUES_MAX;
        MlirOperation passed = build_barrier(t, &after, values + i, count, t->chain);
        for (size_t k = 0; k < count; k++) {
            size_t users = 0;
            if (!find_users(t, values[i + k], leave, false, &users)) return false;
            for (size_t u = 0; u < users; u++)
                if (mlirOperationEqual(t->users[u], passed) || mlirOperationEqual(t->users[u], old))
                    t->users[u--] = t->users[--users];
            replace_in(t, users, values[i + k], tsr_op_result(passed, k));
        }
    }
    mlirValueReplaceAllUsesOfWith(tsr_op_result(old, 0), t->chain);
    mlirOperationDestroy(old);
    t->enter = (MlirOperation){NULL};
    return true;
}

/* ---- exports and imports --------------------------------------------------------------------- */

/* State belongs to a parameter: the first that the function reads. */
static const char *first_param(const threader *t) {
    TSR_FOR_EACH_OP(op, t->block) {
        if (tsr_op_is(op, TSR_GRAPH_PARAM)) return tsr_op_string(op, "name");
    }
    return NULL;
}

/* A read of the tensor that holds value `index` of a region. */
static bool read_tensor(threader *t, tsr_builder *b, MlirOperation op, MlirValue like, size_t index,
                        MlirValue *out_value) {
    const char *of = first_param(t), *region = tsr_op_string(op, "name");
    tsr_type type;
    if (!of)
        return tsr_op_emit_error(op, TSR_DIAG_SR_ORDER,
                                 "an exported value belongs to the state: it must be a parameter");
    if (!tsr_value_type(like, &type) || !tsr_type_is_static(&type))
        return tsr_op_emit_error(op, TSR_DIAG_SR_ORDER, "a value has no static type");
    const char *name = tsr_arena_printf(&t->arena, "%s.export.%zu", region, index);
    if (!name) return no_memory(op);
    TSR_FOR_EACH_OP(other, t->block) {
        const char *taken =
            tsr_op_is(other, TSR_GRAPH_OPT_STATE) ? tsr_op_string(other, "name") : NULL;
        if (!taken || strcmp(taken, name) != 0) continue;
        for (MlirOpOperand use = mlirValueGetFirstUse(tsr_op_result(other, 0));
             !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use))
            if (!tsr_op_is(mlirOpOperandGetOwner(use), TSR_SR_IMPORT_BEGIN))
                return tsr_op_emit_error(op, TSR_DIAG_SR_ORDER,
                                         "its tensor is read elsewhere in the function; import it");
    }
    *out_value = tsr_emit_state(b, &type, name, of, "export");
    return true;
}

static bool is_exported(const threader *t, const char *name) {
    for (size_t i = 0; i < t->pending_count; i++)
        if (strcmp(t->exported[i], name) == 0) return true;
    return false;
}

static bool thread_export(threader *t, MlirOperation op) {
    MlirOperation leave = tsr_value_owner(tsr_op_operand(op, 0));
    const char *entry = tsr_op_string(t->func, "tessera.entry");
    MlirValue values[2 * TSR_SR_VALUES_MAX];
    size_t count = 0;
    if (!tsr_op_is(leave, TSR_SR_LEAVE))
        return tsr_op_emit_error(op, TSR_DIAG_SR_ORDER, "needs the token of a region");
    if (entry && strcmp(entry, "train") != 0)
        return tsr_op_emit_error(op, TSR_DIAG_SR_ORDER, "only a train entry exports");
    const char *name = tsr_op_string(leave, "name");
    if (is_exported(t, name))
        return tsr_op_emit_error(op, TSR_DIAG_SR_ORDER, "the region is exported already");
    while (count < tsr_op_operand_count(leave) && !is_token(tsr_op_operand(leave, count))) count++;
    TSR_ASSERT(count <= TSR_SR_VALUES_MAX);
    tsr_builder b = tsr_builder_before(op);
    for (size_t i = 0; i < count; i++) {
        values[i] = tsr_op_operand(leave, i);
        if (!read_tensor(t, &b, leave, values[i], i, &values[count + i])) return false;
    }
    const tsr_attr attr = {"name", tsr_op_attr(leave, "name")};
    MlirValue token = tsr_op_result(leave, 0);
    MlirOperation begin =
        build(t, &b, "tessera_sr.export_begin", values, 2 * count, &token, 1, 0, true, &attr, 1);
    t->exported[t->pending_count] = name;
    t->pending[t->pending_count++] = tsr_op_result(begin, 0);
    mlirOperationDestroy(op);
    return true;
}

static bool thread_import(threader *t, MlirOperation op) {
    MlirValue reads[TSR_SR_VALUES_MAX];
    size_t count = tsr_op_result_count(op) - 1;
    tsr_builder b = tsr_builder_before(op);
    if (count > TSR_SR_VALUES_MAX)
        return tsr_op_emit_error(op, TSR_DIAG_SR_ORDER,
                                 "returns more values than a region can yield");
    if (is_exported(t, tsr_op_string(op, "name")))
        return tsr_op_emit_error(op, TSR_DIAG_SR_ORDER, "comes after the export of its region");
    for (size_t i = 0; i < count; i++)
        if (!read_tensor(t, &b, op, tsr_op_result(op, i + 1), i, &reads[i])) return false;
    const tsr_attr attr = {"name", tsr_op_attr(op, "name")};
    bool chained = !mlirValueIsNull(t->chain);
    MlirOperation begin = build(t, &b, "tessera_sr.import_begin", reads, count, &t->chain, chained,
                                count, true, &attr, 1);
    for (size_t i = 0; i < count; i++)
        mlirValueReplaceAllUsesOfWith(tsr_op_result(op, i + 1), tsr_op_result(begin, i));
    t->chain = tsr_op_result(begin, count);
    mlirValueReplaceAllUsesOfWith(tsr_op_result(op, 0), t->chain);
    mlirOperationDestroy(op);
    return true;
}

/* ---- the pass -------------------------------------------------------------------------------- */

static void await(tsr_builder *b, MlirValue token) {
    tsr_build(b, &(tsr_op_desc){.name = "async.await", .operand_count = 1, .operands = &token});
}

static bool is_ordered(MlirOperation op) {
    switch (tsr_sr_op_plain(op)) {
    case TSR_SR_ENTER:
    case TSR_SR_LEAVE:
    case TSR_SR_EXPORT:
    case TSR_SR_IMPORT:
        return true;
    default:
        return false;
    }
}

static bool thread_ops(threader *t) {
    TSR_FOR_EACH_OP(op, t->block) {
        bool done = true;
        switch (tsr_sr_op_plain(op)) {
        case TSR_SR_ENTER:
            done = thread_enter(t, op);
            break;
        case TSR_SR_LEAVE:
            done = thread_leave(t, op);
            break;
        case TSR_SR_EXPORT:
            done = thread_export(t, op);
            break;
        case TSR_SR_IMPORT:
            done = thread_import(t, op);
            break;
        default:
            break;
        }
        if (!done) return false;
    }
    return true;
}

/* Threaded by this pass or in the source. */
static bool is_threaded(const threader *t) {
    TSR_FOR_EACH_OP(op, t->block) {
        for (size_t i = 0; is_ordered(op) && i < tsr_op_result_count(op); i++)
            if (mlirTypeEqual(mlirValueGetType(tsr_op_result(op, i)), t->token)) return true;
    }
    return false;
}

typedef struct contents {
    bool closed, waits; /* closed: has regions that are not open; waits: autodiff has yet to run on
                         * it */
    size_t ordered;
} contents;

/* Finds all in one scan: each scan of the ops of a long function is expensive. */
static contents read_contents(MlirBlock block) {
    contents c = {0};
    TSR_FOR_EACH_OP(op, block) {
        c.closed = c.closed || tsr_sr_op_plain(op) == TSR_SR_RESILIENCE_REGION;
        c.waits = c.waits || tsr_op_is(op, TSR_GRAPH_MINIMIZE);
        c.ordered += is_ordered(op);
    }
    return c;
}

static bool thread_func(MlirOperation func) {
    contents c = read_contents(tsr_op_body(func));
    if (c.closed) {
        if (c.waits) return true;
        if (!tsr_sr_inline_regions(func)) return false;
        c = read_contents(tsr_op_body(func));
    }
    threader t = {
        .func = func, .block = tsr_op_body(func), .context = mlirOperationGetContext(func)};
    if (c.ordered == 0) return true;
    t.token = mlirTypeParseGet(t.context, tsr_ref("!async.token"));
    if (is_threaded(&t)) return true;
    t.pending = TSR_NEW(&t.arena, MlirValue, c.ordered);
    t.exported = TSR_NEW(&t.arena, const char *, c.ordered);
    bool done = t.pending && t.exported ? thread_ops(&t) : no_memory(func);
    if (done && !mlirOperationIsNull(t.enter))
        done = tsr_op_emit_error(t.enter, TSR_DIAG_SR_ORDER, "the region is not left");
    if (done) {
        tsr_builder end = tsr_builder_before(mlirBlockGetTerminator(t.block));
        await(&end, t.chain);
        for (size_t i = 0; i < t.pending_count; i++) await(&end, t.pending[i]);
        mlirOperationRemoveDiscardableAttributeByName(func, tsr_ref(TSR_SR_FAILURE_HANDLER));
    }
    tsr_arena_finish(&t.arena);
    return done;
}

bool tsr_pass_resilience_restart(MlirModule module) {
    bool done = true;
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        if (tsr_op_is(func, TSR_FUNC_FUNC) && tsr_op_has_body(func))
            done = thread_func(func) && done;
    }
    return done;
}
