/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass tessera-constraints: names of dims, constraints of functions, and the sizes that break them.
 * Pass tessera-drop-constraints removes what only this pass reads.
 *
 *   names    the sizes of named dims of arguments and results; sizes of open dims (TSR_SIZES_NAME)
 *   read     the constraints
 *   solve    constraints that contradict each other
 *   compare  constraints with sizes: each size of an anchor, all sizes of a range
 */
#include "compiler/graph/constraints/constraints.h"
#include "compiler/graph/effects/effects.h"
#include "compiler/graph/graph.h"
#include "compiler/ir/attributes.h"
#include "compiler/passes.h"
#include "compiler/process/guard.h"
#include "runtime/base/array.h"
#include "runtime/base/suggest.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 512, SIZES_MAX = 64 };

/* What is known of the sizes of a symbol. */
typedef struct sizes {
    int64_t list[SIZES_MAX];
    size_t count;     /* 0: none */
    bool is_range;    /* list[0] … list[1] */
    char origin[128]; /* "argument 1 'x', dim 2" */
} sizes;

typedef struct checker {
    tsr_arena arena;
    tsr_constraints set;
    MlirOperation module, func;
    sizes *of; /* by symbol */
    size_t capacity;
    tsr_domain *domains;
    bool done;
} checker;

static bool refuse(checker *c, tsr_diag_number number, const char *text, const tsr_notes *with) {
    char whole[TEXT_MAX + 128];
    snprintf(whole, sizeof whole, "func.func: '@%.60s': %s", tsr_op_symbol(c->func), text);
    tsr_diag_error_notes(mlirOperationGetLocation(c->func), number, whole, with ? with->count : 0,
                         with ? with->list : NULL);
    c->done = false;
    return false;
}

static uint32_t symbol_of(checker *c, const char *name) {
    uint32_t symbol = tsr_constraints_symbol(&c->set, name, strlen(name));
    TSR_NEED(symbol != UINT32_MAX);
    while (c->capacity <= symbol) {
        size_t before = c->capacity;
        sizes *larger =
            tsr_arena_grow(&c->arena, c->of, &c->capacity, 16, sizeof *c->of, _Alignof(sizes));
        TSR_NEED(larger);
        c->of = larger;
        memset(c->of + before, 0, (c->capacity - before) * sizeof *c->of);
    }
    return symbol;
}

/* ---- names ----------------------------------------------------------------------------------- */

/* The name has this size there. */
static bool add_size(checker *c, const char *name, int64_t size, const char *origin) {
    const uint32_t symbol = symbol_of(c, name); /* may move c->of */
    sizes *of = &c->of[symbol];
    char text[TEXT_MAX];
    snprintf(text, sizeof text, "dim '%.60s' is %" PRId64 " in %s and %" PRId64 " in %s", name,
             of->list[0], of->origin, size, origin);
    if (of->count && of->list[0] != size) return refuse(c, TSR_DIAG_DIM_NAMES, text, NULL);
    of->list[0] = size;
    of->count = 1;
    snprintf(of->origin, sizeof of->origin, "%s", origin);
    return true;
}

static bool name_dim(checker *c, const char *port, MlirAttribute attr, uint32_t at, uint64_t dim) {
    const char *name = tsr_attr_string(attr), *symbol = tsr_dim_symbol(dim);
    char text[TEXT_MAX], origin[128];
    snprintf(origin, sizeof origin, "%s, dim %" PRIu32, port, at);
    if (!name || !tsr_dim_is_symbol(name, strlen(name))) {
        snprintf(text, sizeof text, "%s has no name that is a symbol", origin);
        return refuse(c, TSR_DIAG_DIM_NAMES, text, NULL);
    }
    if (tsr_dim_is_known(dim)) return add_size(c, name, (int64_t)dim, origin);
    symbol_of(c, name);
    snprintf(text, sizeof text, "%s is named '%.60s', but its type says '%.60s'", origin, name,
             symbol ? symbol : "?");
    if (symbol && strcmp(symbol, name) != 0) return refuse(c, TSR_DIAG_DIM_NAMES, text, NULL);
    return true;
}

static void add_symbol(void *user, const char *name) { symbol_of(user, name); }

static void name_port(checker *c, const char *what, intptr_t index, MlirAttribute attrs,
                      MlirType type) {
    char port[80], text[TEXT_MAX];
    tsr_type read;
    if (!tsr_type_read(type, &read)) return;
    for (uint32_t i = 0; i < read.shape.rank; i++)
        if (tsr_dim_is_open(read.shape.dims[i])) tsr_dim_symbols(read.shape.dims[i], add_symbol, c);
    if (mlirAttributeIsNull(attrs)) return;
    MlirAttribute names = mlirDictionaryAttrGetElementByName(attrs, tsr_ref(TSR_DIMS_NAME));
    MlirAttribute own = mlirDictionaryAttrGetElementByName(attrs, tsr_ref("tessera.name"));
    if (mlirAttributeIsNull(own))
        own = mlirDictionaryAttrGetElementByName(attrs, tsr_ref("tessera.data"));
    const char *given = mlirAttributeIsNull(own) ? NULL : tsr_attr_string(own);
    if (mlirAttributeIsNull(names)) return;
    snprintf(port, sizeof port, "%s %zd%s%.40s%s", what, (ssize_t)index, given ? " '" : "",
             given ? given : "", given ? "'" : "");
    bool fits = mlirAttributeIsAArray(names) &&
                (uint32_t)mlirArrayAttrGetNumElements(names) == read.shape.rank;
    snprintf(text, sizeof text,
             "%s has %" PRIu32 " dims, so " TSR_DIMS_NAME " must be a list of %" PRIu32 " names",
             port, read.shape.rank, read.shape.rank);
    if (!fits) refuse(c, TSR_DIAG_DIM_NAMES, text, NULL);
    for (uint32_t i = 0; fits && i < read.shape.rank; i++)
        fits =
            name_dim(c, port, mlirArrayAttrGetElement(names, (intptr_t)i), i, read.shape.dims[i]);
}

static MlirAttribute port_attrs(MlirOperation func, const char *list, intptr_t index) {
    MlirAttribute all = tsr_op_attr(func, list);
    bool has = !mlirAttributeIsNull(all) && mlirAttributeIsAArray(all) &&
               index < mlirArrayAttrGetNumElements(all);
    return has ? mlirArrayAttrGetElement(all, index) : mlirAttributeGetNull();
}

static void name_ports(checker *c) {
    MlirType type = mlirTypeAttrGetValue(tsr_op_attr(c->func, "function_type"));
    for (intptr_t i = 0; i < mlirFunctionTypeGetNumInputs(type); i++)
        name_port(c, "argument", i, port_attrs(c->func, "arg_attrs", i),
                  mlirFunctionTypeGetInput(type, i));
    for (intptr_t i = 0; i < mlirFunctionTypeGetNumResults(type); i++)
        name_port(c, "result", i, port_attrs(c->func, "res_attrs", i),
                  mlirFunctionTypeGetResult(type, i));
}

/* The sizes of --dim, for symbols that the function has. */
static void read_sizes(checker *c) {
    MlirAttribute all = tsr_op_attr(c->module, TSR_SIZES_NAME);
    if (mlirAttributeIsNull(all) || !mlirAttributeIsADictionary(all)) return;
    for (uint32_t s = 0; s < c->set.symbol_count; s++) {
        MlirAttribute own = mlirDictionaryAttrGetElementByName(all, tsr_ref(c->set.symbols[s]));
        sizes *of = &c->of[s];
        if (mlirAttributeIsNull(own) || of->count) continue;
        snprintf(of->origin, sizeof of->origin, "its given sizes");
        if (mlirAttributeIsADictionary(own)) {
            MlirAttribute low = mlirDictionaryAttrGetElementByName(own, tsr_ref("low"));
            MlirAttribute high = mlirDictionaryAttrGetElementByName(own, tsr_ref("high"));
            of->is_range = !mlirAttributeIsNull(low) && !mlirAttributeIsNull(high) &&
                           tsr_attr_i64(low, &of->list[0]) && tsr_attr_i64(high, &of->list[1]);
            of->count = of->is_range;
        } else if (mlirAttributeIsAArray(own)) {
            for (intptr_t i = 0; i < mlirArrayAttrGetNumElements(own) && of->count < SIZES_MAX; i++)
                of->count += tsr_attr_i64(mlirArrayAttrGetElement(own, i), &of->list[of->count]);
        } else {
            of->count = tsr_attr_i64(own, &of->list[0]);
        }
    }
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool read_one(checker *c, MlirAttribute attr, uint32_t declared) {
    const char *source = mlirAttributeIsAString(attr) ? tsr_attr_string(attr) : NULL;
    tsr_dim_error error = {0};
    char text[TEXT_MAX];
    if (!source)
        return refuse(c, TSR_DIAG_CONSTRAINT, TSR_CONSTRAINTS_NAME " is not a list of strings",
                      NULL);
    snprintf(text, sizeof text, "\"%.100s\"", source);
    if (!tsr_constraints_add(&c->set, source, &error)) {
        snprintf(text, sizeof text, "\"%.100s\", at character %zu: %s", source, error.at,
                 error.text);
        return refuse(c, TSR_DIAG_CONSTRAINT, text, NULL);
    }
    if (c->set.symbol_count <= declared) return true;
    tsr_suggestion meant = {.wrong = c->set.symbols[declared]};
    for (uint32_t i = 0; i < declared; i++) tsr_suggest(&meant, c->set.symbols[i]);
    snprintf(text, sizeof text, "\"%.100s\": no argument or result has a dim '%.60s'%s%.60s%s",
             source, meant.wrong, meant.best ? "; did you mean '" : "",
             meant.best ? meant.best : "", meant.best ? "'?" : "");
    return refuse(c, TSR_DIAG_CONSTRAINT, text, NULL);
}

static bool read_constraints(checker *c) {
    MlirAttribute list = tsr_op_attr(c->func, TSR_CONSTRAINTS_NAME);
    const uint32_t declared = c->set.symbol_count;
    if (mlirAttributeIsNull(list)) return true;
    if (!mlirAttributeIsAArray(list))
        return refuse(c, TSR_DIAG_CONSTRAINT, TSR_CONSTRAINTS_NAME " is not a list of strings",
                      NULL);
    for (intptr_t i = 0; i < mlirArrayAttrGetNumElements(list); i++)
        if (!read_one(c, mlirArrayAttrGetElement(list, i), declared)) return false;
    return true;
}

/* ---- solving --------------------------------------------------------------------------------- */

static void any_sizes(checker *c) {
    for (uint32_t s = 0; s < c->set.symbol_count; s++) c->domains[s] = tsr_domain_any();
}

static bool check_contradiction(checker *c) {
    tsr_notes with = {.count = 0};
    uint32_t broken, *list = TSR_NEW(&c->arena, uint32_t, (size_t)c->set.count + 1);
    char text[TEXT_MAX];
    TSR_NEED(list);
    any_sizes(c);
    if (tsr_constraints_narrow(&c->set, NULL, c->domains, &broken)) return true;
    any_sizes(c);
    uint32_t count = tsr_constraints_conflict(&c->set, c->domains, list);
    for (uint32_t i = 0; i < count && with.count + 1 < TSR_DIAG_NOTES_MAX; i++)
        snprintf(tsr_notes_add(&with, mlirOperationGetLocation(c->func)), TSR_NOTE_MAX,
                 "\"%.200s\"", c->set.list[list[i]].text);
    snprintf(text, sizeof text,
             count == 1 ? "no sizes satisfy this constraint"
                        : "no sizes satisfy these %" PRIu32 " constraints together",
             count);
    return refuse(c, TSR_DIAG_CONTRADICTION, text, &with);
}

/* ---- comparing ------------------------------------------------------------------------------- */

typedef struct comparison {
    checker *c;
    const tsr_constraint *constraint;
    uint32_t symbols[16], count; /* of the constraint, each once */
} comparison;

static void find_symbols(comparison *of) {
    const tsr_constraint_part *part = &of->constraint->parts[0];
    for (uint32_t i = 0; i < part->count; i++)
        for (uint32_t k = 0; k < part->terms[i].degree; k++) {
            uint32_t symbol = part->terms[i].symbols[k], at = 0;
            while (at < of->count && of->symbols[at] != symbol) at++;
            if (at == of->count && of->count < 16) of->symbols[of->count++] = symbol;
        }
}

/* The nearest size of the symbol, upward first, with which all constraints can hold; 0: none. */
static int64_t find_size(checker *c, uint32_t symbol, int64_t size) {
    enum { STEPS_MAX = 4096 };
    uint32_t broken;
    for (int64_t i = 1; i <= 2 * STEPS_MAX; i++) {
        int64_t tried = i <= STEPS_MAX ? size + i : size - (i - STEPS_MAX);
        if (tried < 1) break;
        any_sizes(c);
        c->domains[symbol] = tsr_domain_of(tried, tried);
        if (tsr_constraints_narrow(&c->set, NULL, c->domains, &broken)) return tried;
    }
    return 0;
}

static bool refuse_sizes(comparison *of) {
    checker *c = of->c;
    char text[TEXT_MAX];
    size_t at =
        (size_t)snprintf(text, sizeof text, "\"%.100s\" does not hold: ", of->constraint->text);
    for (uint32_t i = 0; i < of->count && at < sizeof text - 160; i++) {
        const tsr_domain *d = &c->domains[of->symbols[i]];
        if (d->low != d->high) continue;
        at += (size_t)snprintf(text + at, sizeof text - at, "%s'%.40s' = %" PRId64 " (%s)",
                               text[at - 2] == ':' ? "" : ", ", c->set.symbols[of->symbols[i]],
                               d->low, c->of[of->symbols[i]].origin);
    }
    int64_t size = c->domains[of->symbols[0]].low;
    int64_t fit = of->count == 1 ? find_size(c, of->symbols[0], size) : 0;
    if (fit)
        snprintf(text + at, sizeof text - at, "; %s '%.40s' to %" PRId64,
                 fit > size ? "pad" : "reduce", c->set.symbols[of->symbols[0]], fit);
    return refuse(c, TSR_DIAG_CONSTRAINT_BROKEN, text, NULL);
}

static bool refuse_range(comparison *of) {
    char text[TEXT_MAX];
    const char *name = "";
    const sizes *range = NULL;
    for (uint32_t i = 0; i < of->count; i++)
        if (of->c->of[of->symbols[i]].is_range) {
            range = &of->c->of[of->symbols[i]];
            name = of->c->set.symbols[of->symbols[i]];
        }
    snprintf(text, sizeof text,
             "\"%.100s\" is not proved for all sizes of '%.40s' from %" PRId64 " to %" PRId64,
             of->constraint->text, name, range->list[0], range->list[1]);
    return refuse(of->c, TSR_DIAG_CONSTRAINT_OPEN, text, NULL);
}

/* Chooses a size for each symbol from number `at` on. */
static bool compare(comparison *of, uint32_t at, bool has_range) {
    checker *c = of->c;
    if (at == of->count) {
        tsr_verdict verdict = tsr_constraint_decide(of->constraint, c->domains);
        if (verdict == TSR_PROVED) return true;
        return verdict == TSR_OPEN && has_range ? refuse_range(of) : refuse_sizes(of);
    }
    uint32_t symbol = of->symbols[at];
    const sizes *s = &c->of[symbol];
    if (s->is_range) {
        c->domains[symbol] = tsr_domain_of(s->list[0], s->list[1]);
        return compare(of, at + 1, true);
    }
    for (size_t i = 0; i < s->count; i++) {
        c->domains[symbol] = tsr_domain_of(s->list[i], s->list[i]);
        if (!compare(of, at + 1, has_range)) return false;
    }
    return true;
}

/* Constraints all of whose symbols have sizes. */
static bool compare_each(checker *c) {
    bool done = true;
    for (uint32_t i = 0; i < c->set.count; i++) {
        comparison of = {.c = c, .constraint = &c->set.list[i]};
        bool all = true;
        find_symbols(&of);
        for (uint32_t k = 0; k < of.count; k++) all = all && c->of[of.symbols[k]].count;
        any_sizes(c);
        if (all && of.count) done = compare(&of, 0, false) && done;
    }
    return done;
}

/* Sizes that leave nothing for a symbol without a size. */
static bool compare_together(checker *c) {
    uint32_t broken = 0;
    any_sizes(c);
    for (uint32_t s = 0; s < c->set.symbol_count; s++)
        if (c->of[s].count == 1 && !c->of[s].is_range)
            c->domains[s] = tsr_domain_of(c->of[s].list[0], c->of[s].list[0]);
    tsr_domain *narrowed = TSR_NEW(&c->arena, tsr_domain, (size_t)c->set.symbol_count + 1);
    TSR_NEED(narrowed);
    memcpy(narrowed, c->domains, c->set.symbol_count * sizeof *narrowed);
    if (tsr_constraints_narrow(&c->set, NULL, narrowed, &broken)) return true;
    comparison of = {.c = c, .constraint = &c->set.list[broken]};
    find_symbols(&of);
    return refuse_sizes(&of);
}

/* ---- the passes ------------------------------------------------------------------------------ */

static bool has_names(MlirOperation func, const char *list) {
    MlirAttribute all = tsr_op_attr(func, list);
    if (mlirAttributeIsNull(all) || !mlirAttributeIsAArray(all)) return false;
    for (intptr_t i = 0; i < mlirArrayAttrGetNumElements(all); i++) {
        MlirAttribute one = mlirArrayAttrGetElement(all, i);
        if (mlirAttributeIsADictionary(one) &&
            !mlirAttributeIsNull(mlirDictionaryAttrGetElementByName(one, tsr_ref(TSR_DIMS_NAME))))
            return true;
    }
    return false;
}

static bool check_func(MlirOperation module, MlirOperation func) {
    checker c = {.module = module, .func = func, .done = true};
    if (!tsr_op_has(func, TSR_CONSTRAINTS_NAME) && !has_names(func, "arg_attrs") &&
        !has_names(func, "res_attrs"))
        return true;
    c.set.arena = &c.arena;
    name_ports(&c);
    bool read = c.done && read_constraints(&c);
    if (read) {
        c.domains = TSR_NEW(&c.arena, tsr_domain, (size_t)c.set.symbol_count + 1);
        TSR_NEED(c.domains);
        read_sizes(&c);
    }
    if (read && check_contradiction(&c) && compare_each(&c)) compare_together(&c);
    tsr_arena_finish(&c.arena);
    return c.done;
}

bool tsr_pass_constraints(MlirModule module) {
    bool done = true;
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        if (tsr_op_is(func, TSR_FUNC_FUNC))
            done = check_func(mlirModuleGetOperation(module), func) && done;
    }
    return done;
}

static MlirAttribute without_names(MlirContext context, MlirAttribute attrs) {
    MlirNamedAttribute others[64];
    intptr_t count = 0, all = mlirDictionaryAttrGetNumElements(attrs);
    for (intptr_t i = 0; i < all && count < 64; i++) {
        MlirNamedAttribute one = mlirDictionaryAttrGetElement(attrs, i);
        if (!tsr_ref_is(mlirIdentifierStr(one.name), TSR_DIMS_NAME)) others[count++] = one;
    }
    return mlirDictionaryAttrGet(context, count, others);
}

static void drop_names(MlirOperation func, const char *list) {
    MlirContext context = mlirOperationGetContext(func);
    MlirAttribute all = tsr_op_attr(func, list), made[256];
    if (!has_names(func, list) || mlirArrayAttrGetNumElements(all) > 256) return;
    intptr_t count = mlirArrayAttrGetNumElements(all);
    for (intptr_t i = 0; i < count; i++)
        made[i] = without_names(context, mlirArrayAttrGetElement(all, i));
    tsr_op_set(func, list, mlirArrayAttrGet(context, count, made));
}

bool tsr_pass_drop_constraints(MlirModule module) {
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        if (!tsr_op_is(func, TSR_FUNC_FUNC)) continue;
        mlirOperationRemoveDiscardableAttributeByName(func, tsr_ref(TSR_CONSTRAINTS_NAME));
        drop_names(func, "arg_attrs");
        drop_names(func, "res_attrs");
    }
    return true;
}
