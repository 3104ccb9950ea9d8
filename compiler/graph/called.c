/* SPDX-License-Identifier: Apache-2.0
 *
 * What calls come to: of every function, its ops and those of all that it calls, each as often as
 * it is called. Inlining copies them, so that 40 functions which call the next one twice would
 * never be done. A depth-first walk with a list of its own; calls in a circle are refused later.
 */
#include "compiler/graph/graph.h"
#include "compiler/source_limits.h"

#include <stdlib.h>

typedef struct node {
    MlirOperation func;
    uint64_t ops;                /* its own, and of the calls before `next` */
    size_t first, count, next;   /* calls: in `callees` */
    enum { NEW, OPEN, DONE } is; /* OPEN: what it calls is looked at */
} node;

typedef struct sizer {
    tsr_arena arena;
    MlirSymbolTable symbols;
    node *nodes; /* by address */
    size_t node_count;
    node **callees, **open;
    size_t callee_count;
} sizer;

static int by_address(const void *a, const void *b) {
    const node *x = a, *y = b;
    uintptr_t left = (uintptr_t)x->func.ptr, right = (uintptr_t)y->func.ptr;
    return left < right ? -1 : left > right;
}

static bool has_body(MlirOperation op) { return tsr_op_is(op, "func.func") && tsr_op_has_body(op); }

static MlirWalkResult count_call(MlirOperation op, void *user) {
    *(size_t *)user += tsr_op_is(op, "func.call");
    return MlirWalkResultAdvance;
}

typedef struct reading {
    sizer *sizer;
    node *node;
} reading;

static MlirWalkResult read_op(MlirOperation op, void *user) {
    const reading *r = user;
    sizer *s = r->sizer;
    r->node->ops++;
    const char *callee = tsr_op_is(op, "func.call") ? tsr_op_string(op, "callee") : NULL;
    if (!callee) return MlirWalkResultAdvance;
    const node key = {.func = mlirSymbolTableLookup(s->symbols, tsr_ref(callee))};
    node *found = bsearch(&key, s->nodes, s->node_count, sizeof key, by_address);
    if (found) s->callees[s->callee_count++] = found;
    return MlirWalkResultAdvance;
}

/* False where memory is short. */
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

/* Everything below `root`; null, or the first function that comes to too much. */
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
        at->next++;
    }
    return NULL;
}

bool tsr_graph_check_called(MlirModule module) {
    sizer s = {.symbols = mlirSymbolTableCreate(mlirModuleGetOperation(module))};
    const node *large = NULL;
    bool read = read_functions(&s, module);
    for (size_t i = 0; read && !large && i < s.node_count; i++) large = add_up(&s, &s.nodes[i]);
    if (!read)
        tsr_diag_error(mlirOperationGetLocation(mlirModuleGetOperation(module)), TSR_DIAG_MEMORY,
                       "no memory to count what is called");
    if (large)
        tsr_diag_error(mlirOperationGetLocation(large->func), TSR_DIAG_CALLED_OPS,
                       "func.func: '@%s' and all that it calls come to more than %d ops",
                       tsr_op_symbol(large->func), TSR_MLIR_CALLED_OPS_MAX);
    mlirSymbolTableDestroy(s.symbols);
    tsr_arena_finish(&s.arena);
    return read && !large;
}
