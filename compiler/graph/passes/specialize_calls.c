/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass tessera-specialize-calls: each call of a function may have tensors of its own.
 *
 * A call with `tessera.prefix = "h.0"` becomes a call of a copy of the function, in which tensor
 * NAME is "h.0.NAME"; calls in that copy also have the prefix, before their own. A block is
 * therefore written once, and twelve calls read the parameters of twelve layers; calls of one
 * function with one prefix share a copy and its tensors. A function that is only called with
 * prefixes is removed, because its tensor names are not part of the program.
 *
 * The walk begins at entries and at functions that are never called, and continues with the
 * functions called from there, using a list of functions whose calls were not scanned yet. A
 * copy's symbol encodes its origin and the prefix. A function may be copied after it was scanned:
 * its calls are then calls of copies, whose attributes hold their prefix and origin.
 */
#include "compiler/graph/graph.h"
#include "compiler/ir/text/source_limits.h"
#include "compiler/passes.h"
#include "runtime/base/array.h"

#include <string.h>

#define PREFIX "tessera.prefix"
/* Attributes of functions while the pass runs. */
#define CALLED "tessera.called"    /* some function calls it */
#define ENQUEUED "tessera.reached" /* is or was in the list */
#define COPIED "tessera.copied"    /* has copies */
#define ORIGIN "tessera.origin"    /* for a copy: the symbol of the original function */
#define OUTER "tessera.outer"      /* for a copy: its prefix, with the dot */

typedef struct specializer {
    MlirContext context;
    MlirModule module;
    MlirSymbolTable symbols;
    tsr_arena arena;
    MlirOperation *funcs; /* whose calls are not scanned yet */
    size_t count, capacity, copies;
    const char *outer; /* prefix of the function that is scanned */
    bool good;
} specializer;

static void mark_func(MlirOperation func, const char *name) {
    tsr_op_set(func, name, tsr_attr_make_unit(mlirOperationGetContext(func)));
}

static void drop_mark(MlirOperation op, const char *name) {
    mlirOperationRemoveDiscardableAttributeByName(op, tsr_ref(name));
}

static void drop_marks(MlirOperation func) {
    static const char *const marks[] = {CALLED, ENQUEUED, COPIED, ORIGIN, OUTER};
    for (size_t i = 0; i < TSR_COUNT(marks); i++) drop_mark(func, marks[i]);
}

static void enqueue(specializer *p, MlirOperation func) {
    if (tsr_op_has(func, ENQUEUED)) return;
    mark_func(func, ENQUEUED);
    if (p->count == p->capacity) {
        MlirOperation *larger = TSR_ARENA_GROW(&p->arena, p->funcs, &p->capacity, 64);
        p->good = p->good && larger;
        if (!larger) return;
        p->funcs = larger;
    }
    p->funcs[p->count++] = func;
}

static bool is_func(MlirOperation op) {
    return tsr_op_is(op, TSR_FUNC_FUNC) && tsr_op_has_body(op);
}

/* The function that is called; null if it does not exist or has no body. */
static MlirOperation callee_of(specializer *p, MlirOperation call) {
    const char *name = tsr_op_is(call, TSR_FUNC_CALL) ? tsr_op_string(call, "callee") : NULL;
    MlirOperation func = mlirSymbolTableLookup(p->symbols, tsr_ref(name ? name : ""));
    return is_func(func) ? func : (MlirOperation){NULL};
}

/* ---- copies ---------------------------------------------------------------------------------- */

static void rename_one(specializer *p, MlirOperation op, const char *attr) {
    const char *name = tsr_op_string(op, attr);
    if (!name || !name[0]) return; /* tessera-verify reports it */
    const char *text = tsr_arena_printf(&p->arena, "%s%s", p->outer, name);
    p->good = p->good && text;
    if (text) tsr_op_set(op, attr, tsr_attr_make_string(p->context, text));
}

static MlirWalkResult rename_op(MlirOperation op, void *user) {
    switch (tsr_op_of(op)) {
    case TSR_GRAPH_OPT_STATE:
        rename_one(user, op, "of");
        rename_one(user, op, "name");
        break;
    case TSR_GRAPH_PARAM:
        rename_one(user, op, "name");
        break;
    case TSR_GRAPH_ASSIGN:
        rename_one(user, op, "target");
        break;
    default:
        break;
    }
    return MlirWalkResultAdvance;
}

static void copy(specializer *p, MlirOperation func, const char *symbol, const char *prefix) {
    const char *outer = p->outer;
    MlirOperation made = mlirOperationClone(func);
    mark_func(func, COPIED);
    drop_marks(made);
    drop_mark(made, "tessera.entry");
    tsr_op_set(made, "sym_name", tsr_attr_make_string(p->context, symbol));
    tsr_op_set(made, "sym_visibility", tsr_attr_make_string(p->context, "private"));
    tsr_op_set(made, ORIGIN, tsr_attr_make_string(p->context, tsr_op_symbol(func)));
    tsr_op_set(made, OUTER, tsr_attr_make_string(p->context, prefix));
    p->outer = prefix;
    mlirOperationWalk(made, rename_op, p, MlirWalkPreOrder);
    p->outer = outer;
    mlirSymbolTableInsert(p->symbols, made);
    enqueue(p, made);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static bool refuse_prefix(MlirOperation call) {
    tsr_diag_error(
        mlirOperationGetLocation(call), TSR_DIAG_NAME_MISSING,
        "func.call: " PREFIX
        " needs 1 to %d bytes of printable UTF-8, including the prefixes of the enclosing calls",
        TSR_NAME_MAX - 1);
    return false;
}

/* The prefix of the tensors that `call`, a call of `func`, reads: the prefix of the enclosing
 * function, then its own, with a dot. NULL after an error. */
static const char *prefix_of(specializer *p, MlirOperation call, MlirOperation func) {
    const char *own = tsr_op_string(call, PREFIX), *before = tsr_op_string(func, OUTER);
    const char *text = p->outer;
    bool wrong = tsr_op_has(call, PREFIX) && (!own || !own[0]);
    if (before) text = tsr_arena_printf(&p->arena, "%s%s", text, before);
    if (own && text) text = tsr_arena_printf(&p->arena, "%s%s.", text, own);
    p->good = p->good && text;
    if (!text || (!wrong && (!text[0] || tsr_text_valid(text, TSR_NAME_MAX)))) return text;
    p->good = refuse_prefix(call);
    return NULL;
}

/* Returns the copy with that symbol, and creates it if necessary. */
static void find_copy(specializer *p, MlirOperation call, MlirOperation func, const char *symbol,
                      const char *prefix) {
    MlirOperation made = mlirSymbolTableLookup(p->symbols, tsr_ref(symbol));
    if (!mlirOperationIsNull(made)) {
        if (tsr_op_has(made, ORIGIN)) return;
        tsr_diag_error(mlirOperationGetLocation(made), TSR_DIAG_NAME_TAKEN,
                       "func.func: '@%s' is the name that calls of '@%s' with " PREFIX " are of",
                       symbol, tsr_op_symbol(func));
        p->good = false;
    } else if (p->copies++ < TSR_MLIR_SYMBOLS_MAX) {
        copy(p, func, symbol, prefix);
    } else {
        tsr_diag_error(mlirOperationGetLocation(call), TSR_DIAG_SYMBOLS,
                       "func.call: with prefixes, calls need more than %d functions",
                       TSR_MLIR_SYMBOLS_MAX);
        p->good = false;
    }
}

static MlirWalkResult direct(MlirOperation call, void *user) {
    specializer *p = user;
    MlirOperation func = callee_of(p, call);
    if (mlirOperationIsNull(func)) return MlirWalkResultAdvance;
    const char *prefix = prefix_of(p, call, func), *origin = tsr_op_string(func, ORIGIN);
    if (!p->good) return MlirWalkResultInterrupt;
    if (!prefix[0]) {
        enqueue(p, func);
        return MlirWalkResultAdvance;
    }
    if (origin) func = mlirSymbolTableLookup(p->symbols, tsr_ref(origin));
    const char *symbol = tsr_arena_printf(&p->arena, "%s[%.*s]", tsr_op_symbol(func),
                                          (int)strlen(prefix) - 1, prefix);
    p->good = symbol != NULL;
    if (symbol) find_copy(p, call, func, symbol, prefix);
    if (!p->good) return MlirWalkResultInterrupt;
    tsr_op_set(call, "callee", tsr_attr_make_symbol(p->context, symbol));
    drop_mark(call, PREFIX);
    return MlirWalkResultAdvance;
}

/* ---- the pass -------------------------------------------------------------------------------- */

static MlirWalkResult mark_callee(MlirOperation call, void *user) {
    MlirOperation func = callee_of(user, call);
    if (!mlirOperationIsNull(func)) mark_func(func, CALLED);
    return MlirWalkResultAdvance;
}

static void direct_all(specializer *p) {
    MlirBlock all = mlirModuleGetBody(p->module);
    TSR_FOR_EACH_OP(func, all) {
        if (is_func(func)) drop_marks(func);
    }
    mlirOperationWalk(mlirModuleGetOperation(p->module), mark_callee, p, MlirWalkPreOrder);
    TSR_FOR_EACH_OP(func, all) {
        if (is_func(func) && (tsr_op_has(func, "tessera.entry") || !tsr_op_has(func, CALLED)))
            enqueue(p, func);
    }
    while (p->count > 0 && p->good) {
        MlirOperation func = p->funcs[--p->count];
        const char *outer = tsr_op_string(func, OUTER);
        p->outer = outer ? outer : "";
        mlirOperationWalk(func, direct, p, MlirWalkPreOrder);
    }
}

bool tsr_pass_specialize_calls(MlirModule module) {
    MlirOperation self = mlirModuleGetOperation(module);
    specializer p = {.context = mlirModuleGetContext(module), .module = module, .good = true};
    p.symbols = mlirSymbolTableCreate(self);
    direct_all(&p);
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        if (!is_func(func)) continue;
        bool used = tsr_op_has(func, ENQUEUED) || !tsr_op_has(func, COPIED);
        drop_marks(func);
        if (p.good && !used) mlirOperationDestroy(func);
    }
    mlirSymbolTableDestroy(p.symbols);
    tsr_arena_finish(&p.arena);
    return p.good;
}
