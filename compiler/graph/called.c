/* SPDX-License-Identifier: Apache-2.0
 *
 * The total size of calls: for every function, the number of its ops and those of all functions it
 * calls, counted once per call, and whether any op changes a tensor. Inlining copies the ops,
 * so a chain of 40 functions that each call the next one twice would never finish. Ops inlined
 * into a branch or a loop, where no tensor may be changed, would be dropped with it. A depth-first
 * walk with an explicit stack; recursive calls are refused later.
 */
#include "compiler/graph/graph.h"
#include "compiler/ir/resilience_ops.h"
#include "compiler/ir/text/source_limits.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct node {
    MlirOperation func;
    MlirOperation change;        /* the first op that changes a tensor, directly or through a call;
                                  * null */
    uint64_t ops;                /* its own, and of the calls before `next` */
    size_t first, count, next;   /* its calls: indices into `callees` */
    enum { NEW, OPEN, DONE } is; /* OPEN: the functions that it calls are being scanned */
} node;

typedef struct sizer {
    tsr_arena arena;
    MlirSymbolTable symbols;
    node *nodes; /* sorted by address */
    size_t node_count;
    node **callees, **open;
    size_t callee_count;
    bool done;
} sizer;

static int by_address(const void *a, const void *b) {
    const node *x = a, *y = b;
    uintptr_t left = (uintptr_t)x->func.ptr, right = (uintptr_t)y->func.ptr;
    return left < right ? -1 : left > right;
}

static bool has_body(MlirOperation op) {
    return tsr_op_is(op, TSR_FUNC_FUNC) && tsr_op_has_body(op);
}

static MlirWalkResult count_call(MlirOperation op, void *user) {
    *(size_t *)user += tsr_op_is(op, TSR_FUNC_CALL);
    return MlirWalkResultAdvance;
}

typedef struct reading {
    sizer *sizer;
    node *node;
} reading;

/* NULL: `op` is not a call, or its function has no body. */
static node *find_callee(sizer *s, MlirOperation op) {
    const char *callee = tsr_op_is(op, TSR_FUNC_CALL) ? tsr_op_string(op, "callee") : NULL;
    if (!callee) return NULL;
    const node key = {.func = mlirSymbolTableLookup(s->symbols, tsr_ref(callee))};
    return bsearch(&key, s->nodes, s->node_count, sizeof key, by_address);
}

static MlirWalkResult read_op(MlirOperation op, void *user) {
    const reading *r = user;
    sizer *s = r->sizer;
    r->node->ops++;
    if (mlirOperationIsNull(r->node->change) && tsr_graph_changes(op)) r->node->change = op;
    node *found = find_callee(s, op);
    if (found) s->callees[s->callee_count++] = found;
    return MlirWalkResultAdvance;
}

/* False if out of memory. */
static bool read_functions(sizer *s, MlirModule module) {
    size_t functions = 0, calls = 0;
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        functions += has_body(func);
        if (has_body(func)) mlirOperationWalk(func, count_call, &calls, MlirWalkPreOrder);
    }
    s->nodes = TSR_NEW(&s->arena, node, functions + 1);
    s->open = TSR_NEW(&s->arena, node *, functions + 1);
    s->callees = TSR_NEW(&s->arena, node *, calls + 1);
    if (!s->nodes || !s->open || !s->callees) return false;
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        if (has_body(func)) s->nodes[s->node_count++] = (node){.func = func};
    }
    qsort(s->nodes, s->node_count, sizeof *s->nodes, by_address);
    for (size_t i = 0; i < s->node_count; i++) {
        reading r = {s, &s->nodes[i]};
        r.node->first = s->callee_count;
        mlirOperationWalk(r.node->func, read_op, &r, MlirWalkPreOrder);
        r.node->count = s->callee_count - r.node->first;
    }
    return true;
}

/* Adds up everything that `root` calls; null, or the first function that exceeds the limit. */
static const node *add_up(sizer *s, node *root) {
    size_t depth = 0;
    if (root->is == NEW) s->open[depth++] = root;
    while (depth) {
        node *at = s->open[depth - 1];
        at->is = OPEN;
        if (at->ops > TSR_MLIR_CALLED_OPS_MAX) return at;
        if (at->next == at->count) {
            at->is = DONE;
            depth--;
            continue;
        }
        node *callee = s->callees[at->first + at->next];
        if (callee->is == NEW) {
            s->open[depth++] = callee;
            continue;
        }
        if (callee->is == DONE) at->ops += callee->ops;
        if (mlirOperationIsNull(at->change)) at->change = callee->change;
        at->next++;
    }
    return NULL;
}

/* ---- calls in regions ------------------------------------------------------------------------ */

bool tsr_graph_changes(MlirOperation op) {
    tsr_op id = tsr_op_of(op);
    return id == TSR_GRAPH_ASSIGN || id == TSR_GRAPH_MINIMIZE || id == TSR_GRAPH_VERIFY_NUMERICS;
}

MlirOperation tsr_graph_computing(MlirOperation op) {
    MlirOperation around = mlirOperationGetParentOperation(op);
    while (!mlirOperationIsNull(around) && !tsr_op_is(around, TSR_FUNC_FUNC)) {
        if (!tsr_sr_is_region(around)) return around;
        around = mlirOperationGetParentOperation(around);
    }
    return (MlirOperation){NULL};
}

static MlirOperation func_of(MlirOperation op) {
    while (!tsr_op_is(op, TSR_FUNC_FUNC)) op = mlirOperationGetParentOperation(op);
    return op;
}

static MlirWalkResult check_call(MlirOperation op, void *user) {
    sizer *s = user;
    char text[512], change[512], region[256];
    const node *callee = find_callee(s, op);
    if (!callee || mlirOperationIsNull(callee->change)) return MlirWalkResultAdvance;
    MlirOperation around = tsr_graph_computing(op);
    if (mlirOperationIsNull(around)) return MlirWalkResultAdvance;
    const char *kind = tsr_op_name(callee->change);
    const char *target = tsr_op_string(callee->change, "target");
    snprintf(text, sizeof text,
             "func.call: is not allowed in a region of %s: '@%.200s' leads to a %s",
             tsr_op_name(around), tsr_op_symbol(callee->func), kind);
    snprintf(change, sizeof change, "%s%s%.150s%s in '@%.200s'", kind, target ? " to '" : "",
             target ? target : "", target ? "'" : "", tsr_op_symbol(func_of(callee->change)));
    snprintf(region, sizeof region, "the %s around the call", tsr_op_name(around));
    const tsr_diag_note notes[] = {{mlirOperationGetLocation(callee->change), change},
                                   {mlirOperationGetLocation(around), region}};
    tsr_diag_error_notes(mlirOperationGetLocation(op), TSR_DIAG_REGION_OP, text, 2, notes);
    s->done = false;
    return MlirWalkResultAdvance;
}

bool tsr_graph_check_called(MlirModule module) {
    sizer s = {.symbols = mlirSymbolTableCreate(mlirModuleGetOperation(module)), .done = true};
    const node *large = NULL;
    bool read = read_functions(&s, module);
    for (size_t i = 0; read && !large && i < s.node_count; i++) large = add_up(&s, &s.nodes[i]);
    if (!read)
        tsr_diag_error(mlirOperationGetLocation(mlirModuleGetOperation(module)), TSR_DIAG_MEMORY,
                       "no memory to count called functions");
    if (large)
        tsr_diag_error(mlirOperationGetLocation(large->func), TSR_DIAG_CALLED_OPS,
                       "func.func: '@%s' and its callees have more than %d ops in total",
                       tsr_op_symbol(large->func), TSR_MLIR_CALLED_OPS_MAX);
    if (read && !large) /* in the order of the text */
        mlirOperationWalk(mlirModuleGetOperation(module), check_call, &s, MlirWalkPreOrder);
    mlirSymbolTableDestroy(s.symbols);
    tsr_arena_finish(&s.arena);
    return read && !large && s.done;
}
