/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass tessera-effects: infers the effects of every function, and checks what functions promise.
 *
 *   read    the effects of each function's own ops, and its calls
 *   infer   adds the effects of callees, in an order in which callees come first; the walk has an
 *           explicit stack, and a recursive call, which is refused later, adds nothing
 *   check   the effects that functions state, deterministic functions, derivatives of regions
 *
 * A set has two forms: `visible` leaves out what tessera.effects.suspend hides, and the callers of
 * a function that states its effects see exactly those; `actual` is what really happens. Every
 * effect of a set has a cause, an op or a call, so that messages can show the path to it.
 */
#include "compiler/graph/effects/effects.h"
#include "compiler/graph/graph.h"
#include "compiler/ir/attributes.h"
#include "compiler/ir/resilience_ops.h"
#include "compiler/passes.h"
#include "compiler/process/guard.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Effects that no derivative may move. */
enum { FIXED = TSR_EFFECT_IO | TSR_EFFECT_STATE | TSR_EFFECT_COLLECTIVE };

typedef struct cause {
    MlirOperation op;          /* the op or the call; null: the function states the effect */
    const struct node *callee; /* of the call; else NULL */
} cause;

typedef struct effects {
    uint32_t set;
    cause causes[TSR_EFFECT_KINDS];
} effects;

typedef struct node {
    MlirOperation func;
    effects visible, actual;
    bool states;
    uint32_t stated;
    size_t first, count, next; /* its calls */
    enum { NEW, OPEN, DONE } is;
} node;

typedef struct edge {
    MlirOperation call;
    node *callee;
    uint32_t hidden;
} edge;

typedef struct inference {
    tsr_arena arena;
    MlirSymbolTable symbols;
    node *nodes; /* sorted by address */
    size_t node_count;
    edge *edges;
    size_t edge_count;
    node **open;
    node *current; /* the function that is read */
    bool done;
} inference;

/* ---- reading --------------------------------------------------------------------------------- */

static int by_address(const void *a, const void *b) {
    const node *x = a, *y = b;
    uintptr_t left = (uintptr_t)x->func.ptr, right = (uintptr_t)y->func.ptr;
    return left < right ? -1 : left > right;
}

static bool has_body(MlirOperation op) {
    return tsr_op_is(op, TSR_FUNC_FUNC) && tsr_op_has_body(op);
}

static node *find_callee(const inference *self, MlirOperation op) {
    const char *callee = tsr_effects_callee(op);
    if (!callee) return NULL;
    const node key = {.func = mlirSymbolTableLookup(self->symbols, tsr_ref(callee))};
    return bsearch(&key, self->nodes, self->node_count, sizeof key, by_address);
}

/* What the suspensions around the op hide. */
static uint32_t find_hidden(MlirOperation op) {
    uint32_t hidden = 0;
    MlirOperation around = mlirOperationGetParentOperation(op);
    for (; !tsr_op_is(around, TSR_FUNC_FUNC); around = mlirOperationGetParentOperation(around))
        if (tsr_op_is(around, TSR_SR_SUSPEND))
            hidden |= tsr_effects_list(tsr_op_attr(around, "effects"));
    return hidden;
}

static void add(effects *to, uint32_t set, cause by) {
    for (size_t i = 0; i < TSR_EFFECT_KINDS; i++)
        if ((set & ~to->set) >> i & 1) to->causes[i] = by;
    to->set |= set;
}

static MlirWalkResult count_calls(MlirOperation op, void *user) {
    *(size_t *)user += tsr_effects_callee(op) != NULL;
    return MlirWalkResultAdvance;
}

static MlirWalkResult read_op(MlirOperation op, void *user) {
    inference *self = user;
    uint32_t own = tsr_effects_of(op);
    node *callee = find_callee(self, op);
    if (!own && !callee) return MlirWalkResultAdvance;
    uint32_t hidden = find_hidden(op);
    add(&self->current->actual, own, (cause){.op = op});
    add(&self->current->visible, own & ~hidden, (cause){.op = op});
    if (callee) self->edges[self->edge_count++] = (edge){op, callee, hidden};
    return MlirWalkResultAdvance;
}

static void read_functions(inference *self, MlirModule module) {
    size_t functions = 0, calls = 0;
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        functions += has_body(func);
        if (has_body(func)) mlirOperationWalk(func, count_calls, &calls, MlirWalkPreOrder);
    }
    self->nodes = TSR_NEW(&self->arena, node, functions + 1);
    self->open = TSR_NEW(&self->arena, node *, functions + 1);
    self->edges = TSR_NEW(&self->arena, edge, calls + 1);
    TSR_NEED(self->nodes && self->open && self->edges);
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        if (has_body(func)) self->nodes[self->node_count++] = (node){.func = func};
    }
    qsort(self->nodes, self->node_count, sizeof *self->nodes, by_address);
    for (size_t i = 0; i < self->node_count; i++) {
        node *n = self->current = &self->nodes[i];
        n->states = tsr_effects_read(n->func, &n->stated);
        n->first = self->edge_count;
        mlirOperationWalk(n->func, read_op, self, MlirWalkPreOrder);
        n->count = self->edge_count - n->first;
    }
}

/* ---- inferring ------------------------------------------------------------------------------- */

/* What callers see. */
static uint32_t signature(const node *n) {
    return n->states ? n->stated | (n->visible.set & TSR_EFFECT_NONDETERMINISTIC) : n->visible.set;
}

static void add_callee(node *n, const edge *e) {
    const cause by = {e->call, e->callee};
    add(&n->actual, e->callee->actual.set, by);
    add(&n->visible, signature(e->callee) & ~e->hidden, by);
}

static void infer(inference *self, node *root) {
    size_t depth = 0;
    if (root->is == NEW) self->open[depth++] = root;
    while (depth) {
        node *at = self->open[depth - 1];
        at->is = OPEN;
        if (at->next == at->count) {
            at->is = DONE;
            depth--;
            continue;
        }
        const edge *e = &self->edges[at->first + at->next];
        if (e->callee->is == NEW) {
            self->open[depth++] = e->callee;
            continue;
        }
        if (e->callee->is == DONE) add_callee(at, e);
        at->next++;
    }
}

/* ---- messages -------------------------------------------------------------------------------- */

enum { CALLS_SHOWN = 4 };

static const cause *cause_of(const node *n, size_t kind, bool actual) {
    return actual ? &n->actual.causes[kind] : &n->visible.causes[kind];
}

/* True if the callers of a function see the effect only because the function states it. */
static bool only_stated(const node *n, size_t kind, bool actual) {
    return !actual && !(n->visible.set >> kind & 1);
}

static void note_end(tsr_notes *to, const cause *last, const node *in, size_t kind) {
    if (last) {
        const char *attribute = tsr_op_is(last->op, TSR_GRAPH_MATMUL) ? " with " TSR_TF32_NAME : "";
        snprintf(tsr_notes_add(to, mlirOperationGetLocation(last->op)), TSR_NOTE_MAX, "%s%s %s%s",
                 tsr_op_name(last->op), attribute,
                 kind == TSR_EFFECT_COUNT ? "may give other bits on other targets"
                                          : "has the effect ",
                 kind == TSR_EFFECT_COUNT ? "" : tsr_effect_word(kind));
    } else {
        snprintf(tsr_notes_add(to, mlirOperationGetLocation(in->func)), TSR_NOTE_MAX,
                 "'@%.200s' states the effect %s", tsr_op_symbol(in->func), tsr_effect_word(kind));
    }
}

/* Notes the calls from `n` to the op with the effect; of many calls, the first and the last. */
static void note_path(tsr_notes *to, const node *n, const cause *from, size_t kind, bool actual) {
    size_t length = 0, at = 0;
    const cause *c = from;
    while (c->callee) {
        const node *callee = c->callee;
        length++;
        if (only_stated(callee, kind, actual)) break;
        c = cause_of(callee, kind, actual);
    }
    for (c = from; c->callee; at++) {
        const node *callee = c->callee;
        bool shown = at < CALLS_SHOWN || at + CALLS_SHOWN >= length;
        if (shown)
            snprintf(tsr_notes_add(to, mlirOperationGetLocation(c->op)), TSR_NOTE_MAX,
                     "'@%.120s' calls '@%.120s'", tsr_op_symbol(n->func),
                     tsr_op_symbol(callee->func));
        else if (at == CALLS_SHOWN)
            snprintf(tsr_notes_add(to, mlirOperationGetLocation(c->op)), TSR_NOTE_MAX,
                     "%zu more calls", length - 2 * CALLS_SHOWN);
        n = callee;
        if (only_stated(callee, kind, actual)) {
            note_end(to, NULL, callee, kind);
            return;
        }
        c = cause_of(callee, kind, actual);
    }
    note_end(to, c, n, kind);
}
static_assert(2 * CALLS_SHOWN + 2 <= TSR_DIAG_NOTES_MAX, "calls, what is between them, the op");

static void refuse(inference *self, MlirOperation at, tsr_diag_number number, const char *text,
                   const tsr_notes *with) {
    tsr_diag_error_notes(mlirOperationGetLocation(at), number, text, with->count, with->list);
    self->done = false;
}

/* ---- checking -------------------------------------------------------------------------------- */

static void check_stated(inference *self, const node *n) {
    char text[TSR_NOTE_MAX + 128], stated[TSR_EFFECTS_TEXT_MAX];
    uint32_t missing = n->visible.set & ~n->stated & TSR_EFFECTS_ALL;
    for (size_t i = 0; n->states && i < TSR_EFFECT_COUNT; i++) {
        tsr_notes with = {.count = 0};
        if (!(missing >> i & 1)) continue;
        note_path(&with, n, &n->visible.causes[i], i, false);
        snprintf(text, sizeof text, "func.func: '@%.200s' states the effects [%s], but also has %s",
                 tsr_op_symbol(n->func), n->stated ? tsr_effects_format(n->stated, stated) : "",
                 tsr_effect_word(i));
        refuse(self, n->func, TSR_DIAG_EFFECT_UNSTATED, text, &with);
    }
}

static void check_deterministic(inference *self, const node *n, bool native) {
    char text[TSR_NOTE_MAX + 128];
    uint32_t seed;
    tsr_notes with = {.count = 0};
    if (!tsr_op_has(n->func, TSR_DETERMINISTIC_NAME)) return;
    if (!tsr_deterministic_read(n->func, &seed)) {
        self->done = tsr_op_emit_error(n->func, TSR_DIAG_DETERMINISTIC,
                                       "'@%.200s': " TSR_DETERMINISTIC_NAME
                                       " is not {seed = N : i64} with N from 0 to 2^32 - 1",
                                       tsr_op_symbol(n->func));
        return;
    }
    if (native)
        self->done = tsr_op_emit_error(
            n->func, TSR_DIAG_NONDETERMINISTIC,
            "'@%.200s' is deterministic, but the module has native numerics, whose bits differ "
            "from target to target; expected portable numerics",
            tsr_op_symbol(n->func));
    if (!(n->visible.set & TSR_EFFECT_NONDETERMINISTIC)) return;
    note_path(&with, n, &n->visible.causes[TSR_EFFECT_COUNT], TSR_EFFECT_COUNT, false);
    snprintf(text, sizeof text,
             "func.func: '@%.200s' is deterministic, but contains an op that is not",
             tsr_op_symbol(n->func));
    refuse(self, n->func, TSR_DIAG_NONDETERMINISTIC, text, &with);
}

/* The innermost derivative whose region the op is in; null: none. */
static MlirOperation find_derivative(MlirOperation op) {
    MlirOperation around = mlirOperationGetParentOperation(op);
    for (; !tsr_op_is(around, TSR_FUNC_FUNC); around = mlirOperationGetParentOperation(around)) {
        tsr_op id = tsr_op_of(around);
        if (id == TSR_GRAPH_VJP || id == TSR_GRAPH_JVP || id == TSR_GRAPH_CUSTOM_DERIVATIVE)
            return around;
    }
    return (MlirOperation){NULL};
}

static MlirWalkResult check_region(MlirOperation op, void *user) {
    inference *self = user;
    const node *callee = find_callee(self, op);
    uint32_t set = tsr_effects_of(op) | (callee ? callee->actual.set : 0);
    char text[TSR_NOTE_MAX];
    if (!(set & FIXED)) return MlirWalkResultAdvance;
    MlirOperation derivative = find_derivative(op);
    if (mlirOperationIsNull(derivative)) return MlirWalkResultAdvance;
    for (size_t i = 0; i < TSR_EFFECT_COUNT; i++) {
        tsr_notes with = {.count = 0};
        if (!((set & FIXED) >> i & 1)) continue;
        note_path(&with, self->current, &(cause){op, callee}, i, true);
        snprintf(text, sizeof text,
                 "%s: its region has the effect %s, across which no derivative is moved",
                 tsr_op_name(derivative), tsr_effect_word(i));
        refuse(self, derivative, TSR_DIAG_GRADIENT_EFFECT, text, &with);
    }
    return MlirWalkResultAdvance;
}

/* A deterministic function that states no effects gets those that it has. */
static void state_effects(const node *n) {
    MlirContext context = mlirOperationGetContext(n->func);
    MlirAttribute list[TSR_EFFECT_COUNT];
    intptr_t count = 0;
    if (n->states || !tsr_op_has(n->func, TSR_DETERMINISTIC_NAME)) return;
    for (size_t i = 0; i < TSR_EFFECT_COUNT; i++)
        if (n->visible.set >> i & 1)
            list[count++] = tsr_attr_make_string(context, tsr_effect_word(i));
    tsr_op_set(n->func, TSR_EFFECTS_NAME, mlirArrayAttrGet(context, count, list));
}

static bool check_lists(MlirModule module) {
    bool done = true;
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        if (has_body(func) && tsr_op_has(func, TSR_EFFECTS_NAME))
            done = tsr_effects_check(func, TSR_EFFECTS_NAME, false) && done;
    }
    return done;
}

bool tsr_pass_effects(MlirModule module) {
    inference self = {.done = true};
    if (!check_lists(module)) return false;
    const char *numerics = tsr_op_string(mlirModuleGetOperation(module), TSR_NUMERICS_NAME);
    self.symbols = mlirSymbolTableCreate(mlirModuleGetOperation(module));
    read_functions(&self, module);
    for (size_t i = 0; i < self.node_count; i++) infer(&self, &self.nodes[i]);
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) { /* in the order of the text */
        const node key = {.func = func};
        if (!has_body(func)) continue;
        self.current = bsearch(&key, self.nodes, self.node_count, sizeof key, by_address);
        check_stated(&self, self.current);
        check_deterministic(&self, self.current, numerics && strcmp(numerics, "native") == 0);
        mlirOperationWalk(func, check_region, &self, MlirWalkPreOrder);
        if (self.done) state_effects(self.current);
    }
    mlirSymbolTableDestroy(self.symbols);
    tsr_arena_finish(&self.arena);
    return self.done;
}
