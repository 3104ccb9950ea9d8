/* SPDX-License-Identifier: Apache-2.0
 *
 * Passes that give the symbols of open dims the sizes that the module's attribute TSR_SIZES_NAME
 * says.
 *
 * Pass tessera-bind-dims binds symbols that have one size. If all have, every dim is known
 * afterwards, and the program is the same as if its source had these sizes. A dim with a symbol of
 * several sizes stays open until calls are inlined.
 *
 * Pass tessera-copy-anchors then replaces an entry that has such symbols by one copy for each
 * combination of their sizes, an anchor: @predict becomes @"predict[N=1]" and @"predict[N=8]", in
 * which every dim is known. A dim with a range of sizes stays open at run time: the entry, or each
 * of its copies, gets the largest size, and attributes that say which of its ports have the dim.
 *
 * Outline: the sizes · dims and types · attributes of ops · functions · errors about symbols ·
 * anchors.
 */
#include "compiler/graph/graph.h"
#include "compiler/ir/attributes.h"
#include "compiler/passes.h"
#include "compiler/process/guard.h"
#include "runtime/base/array.h"
#include "runtime/base/suggest.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    SIZES_MAX = 64,   /* of one symbol */
    ANCHORS_MAX = 256 /* of one entry */
};

typedef struct symbol {
    const char *name; /* borrowed from the MLIR context */
    int64_t sizes[SIZES_MAX];
    size_t count;
    size_t chosen; /* the size that dims get; `count`: dims with the symbol stay open */
    int64_t low;   /* not 0: the dim stays open at run time, from this size to sizes[0] */
    bool used;     /* some dim of the program has it */
} symbol;

typedef struct binder {
    MlirModule module;
    MlirContext context;
    tsr_arena arena;
    symbol *symbols;
    size_t count;
    MlirOperation op;         /* for errors */
    const char *unbound;      /* the first symbol without a size in the dim that is bound */
    MlirOperation unbound_in; /* the op where a symbol without a size was reported */
    bool stays;               /* the dim that is bound has a symbol of several sizes */
    bool all;                 /* a dim that stays open is an error */
    bool done;                /* no error yet */
} binder;

/* ---- the sizes ------------------------------------------------------------------------------- */

static bool refuse(MlirOperation op, const char *text) {
    tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_DIM_BINDING, "%s", text);
    return false;
}

/* {low = 1, high = 64}: the dim stays open at run time. */
static bool read_range(MlirOperation module, MlirAttribute attr, symbol *s) {
    char text[256];
    MlirAttribute low = mlirDictionaryAttrGetElementByName(attr, tsr_ref("low"));
    MlirAttribute high = mlirDictionaryAttrGetElementByName(attr, tsr_ref("high"));
    bool read = !mlirAttributeIsNull(low) && !mlirAttributeIsNull(high) &&
                tsr_attr_i64(low, &s->low) && tsr_attr_i64(high, &s->sizes[0]);
    snprintf(text, sizeof text,
             "dim '%.100s' has sizes from %" PRId64 " to %" PRId64
             ", needs a size from 1 on and a larger one",
             s->name, s->low, s->sizes[0]);
    if (!read || s->low < 1 || s->sizes[0] <= s->low) return refuse(module, text);
    s->count = s->chosen = 1;
    return true;
}

/* The sizes of one symbol: an integer, or an array of them. */
static bool read_list(MlirOperation module, MlirAttribute attr, symbol *s) {
    bool is_list = mlirAttributeIsAArray(attr);
    intptr_t count = is_list ? mlirArrayAttrGetNumElements(attr) : 1;
    char text[256];
    if (mlirAttributeIsADictionary(attr)) return read_range(module, attr, s);
    if (count < 1 || count > SIZES_MAX) {
        snprintf(text, sizeof text, "dim '%.100s' has %zd sizes, needs 1 to %d", s->name,
                 (ssize_t)count, SIZES_MAX);
        return refuse(module, text);
    }
    for (intptr_t i = 0; i < count; i++) {
        int64_t size = 0;
        bool read = tsr_attr_i64(is_list ? mlirArrayAttrGetElement(attr, i) : attr, &size);
        snprintf(text, sizeof text, "dim '%.100s' has the size %" PRId64 ", needs at least 1",
                 s->name, size);
        if (!read || size < 1) return refuse(module, text);
        snprintf(text, sizeof text, "dim '%.100s' has the size %" PRId64 " twice", s->name, size);
        for (size_t k = 0; k < s->count; k++)
            if (s->sizes[k] == size) return refuse(module, text);
        s->sizes[s->count++] = size;
    }
    s->chosen = s->count > 1 ? s->count : 0;
    return true;
}

/* The sizes must be those for which the program was made. */
static bool check_bounds(MlirOperation module, const symbol *s) {
    MlirAttribute all = tsr_op_attr(module, TSR_BOUNDS_NAME), own, low_attr, high_attr;
    int64_t low = 1, high = INT64_MAX;
    char text[256];
    if (mlirAttributeIsNull(all) || !mlirAttributeIsADictionary(all)) return true;
    own = mlirDictionaryAttrGetElementByName(all, tsr_ref(s->name));
    if (mlirAttributeIsNull(own)) return true;
    bool is_pair = mlirAttributeIsAArray(own) && mlirArrayAttrGetNumElements(own) == 2;
    low_attr = is_pair ? mlirArrayAttrGetElement(own, 0) : own;
    high_attr = is_pair ? mlirArrayAttrGetElement(own, 1) : own;
    if (!is_pair || !tsr_attr_i64(low_attr, &low) || !tsr_attr_i64(high_attr, &high))
        return refuse(module,
                      TSR_BOUNDS_NAME " is not a dictionary of pairs, such as {N = [1, 64]}");
    for (size_t i = 0; i < s->count; i++) {
        int64_t least = s->low ? s->low : s->sizes[i];
        snprintf(text, sizeof text,
                 "dim '%.100s' has the size %" PRId64 "; the program was imported for sizes from "
                 "%" PRId64 " to %" PRId64,
                 s->name, least < low ? least : s->sizes[i], low, high);
        if (least < low || s->sizes[i] > high) return refuse(module, text);
    }
    return true;
}

static bool read_sizes(binder *b, MlirOperation module) {
    MlirAttribute list = tsr_op_attr(module, TSR_SIZES_NAME);
    if (mlirAttributeIsNull(list)) return true;
    if (!mlirAttributeIsADictionary(list))
        return refuse(module, TSR_SIZES_NAME " is not a dictionary of sizes, such as {N = 64}");
    b->count = (size_t)mlirDictionaryAttrGetNumElements(list);
    b->symbols = TSR_NEW(&b->arena, symbol, b->count + 1);
    TSR_NEED(b->symbols);
    for (size_t i = 0; i < b->count; i++) {
        MlirNamedAttribute one = mlirDictionaryAttrGetElement(list, (intptr_t)i);
        symbol *s = &b->symbols[i];
        s->name = mlirIdentifierStr(one.name).data;
        if (!read_list(module, one.attribute, s) || !check_bounds(module, s)) return false;
    }
    return true;
}

static symbol *find_symbol(const binder *b, const char *name) {
    for (size_t i = 0; i < b->count; i++)
        if (strcmp(b->symbols[i].name, name) == 0) return &b->symbols[i];
    return NULL;
}

static tsr_dim_range size_of(void *user, const char *name) {
    binder *b = user;
    symbol *s = find_symbol(b, name);
    if (!s) {
        if (!b->unbound) b->unbound = tsr_arena_strdup(&b->arena, name);
        return (tsr_dim_range){INT64_MIN, INT64_MAX};
    }
    s->used = true;
    b->stays = b->stays || s->chosen == s->count;
    if (s->chosen == s->count) return (tsr_dim_range){INT64_MIN, INT64_MAX};
    return (tsr_dim_range){s->sizes[s->chosen], s->sizes[s->chosen]};
}

/* ---- dims and types -------------------------------------------------------------------------- */

/* Appends "N = 17, S = 4": the symbols of the dim. */
static void list_symbol(void *user, const char *name) {
    tsr_buffer *out = ((void **)user)[0];
    const symbol *s = find_symbol(((void **)user)[1], name);
    if (s)
        tsr_buffer_printf(out, "%s%s = %" PRId64, out->size_bytes ? ", " : "", name,
                          s->sizes[s->chosen]);
}

static void refuse_value(binder *b, uint64_t dim) {
    char text[TSR_DIM_TEXT_MAX];
    tsr_buffer sizes = {0};
    tsr_dim_symbols(dim, list_symbol, (void *[]){&sizes, b});
    tsr_diag_error(mlirOperationGetLocation(b->op), TSR_DIAG_DIM_BINDING,
                   "%s: '%s' is not a size of a dim where %s", tsr_op_name(b->op),
                   tsr_dim_text(dim, text), sizes.bytes ? sizes.bytes : "");
    tsr_buffer_finish(&sizes);
    b->done = false;
}

/* A symbol without a size is an error once for the whole program. */
static void refuse_unbound(binder *b, uint64_t dim) {
    char text[TSR_DIM_TEXT_MAX];
    tsr_suggestion meant = {.wrong = b->unbound};
    b->done = false;
    if (!mlirOperationIsNull(b->unbound_in)) return;
    b->unbound_in = b->op;
    for (size_t i = 0; i < b->count; i++) tsr_suggest(&meant, b->symbols[i].name);
    tsr_diag_error(mlirOperationGetLocation(b->op), TSR_DIAG_DIM_BINDING,
                   "%s: a dim is %s, but '%s' has no size%s%s%s", tsr_op_name(b->op),
                   tsr_dim_text(dim, text), b->unbound,
                   meant.best ? "; did you mean that of '" : "", meant.best ? meant.best : "",
                   meant.best ? "'?" : "");
}

/* A function that the entry called had the symbol; the entry does not list it. */
static void refuse_unlisted(binder *b, uint64_t dim) {
    char text[TSR_DIM_TEXT_MAX];
    if (b->done)
        tsr_diag_error(mlirOperationGetLocation(b->op), TSR_DIAG_DIM_SYMBOL,
                       "%s: a dim is %s, but " TSR_DIMS_NAME
                       " of the entry does not list all of its symbols",
                       tsr_op_name(b->op), tsr_dim_text(dim, text));
    b->done = false;
}

/* The value of an atom of an expression, as a dim: a symbol with one size is that size. */
static bool bind_atom(binder *b, const char *atom, uint64_t *out_dim) {
    const symbol *s = find_symbol(b, atom);
    if (s && s->chosen < s->count) {
        *out_dim = (uint64_t)s->sizes[s->chosen];
        return true;
    }
    return tsr_dim_read(tsr_attr_make_string(b->context, atom), out_dim);
}

/* Replaces the symbols of one size in an expression that has others: "N*S" becomes "128*N". */
static void bind_part(binder *b, uint64_t *dim) {
    tsr_dim_expression e;
    tsr_dim_error error;
    char text[TSR_DIM_TEXT_MAX];
    uint64_t sum = 0, less = 0;
    tsr_dim_text(*dim, text);
    if (!tsr_dim_expression_parse(&b->arena, text, strlen(text), &e, &error)) return;
    for (uint32_t i = 0; i < e.count; i++) {
        int64_t factor = e.terms[i].factor;
        uint64_t term = factor < 0 ? 0 - (uint64_t)factor : (uint64_t)factor, atom;
        if (!tsr_dim_is_known(term)) return;
        for (uint32_t k = 0; k < e.terms[i].degree; k++)
            if (!bind_atom(b, e.terms[i].atoms[k], &atom) || !tsr_dim_multiply(term, atom, &term))
                return;
        uint64_t *to = factor < 0 ? &less : &sum;
        if (!tsr_dim_add(*to, term, to)) return;
    }
    if (tsr_dim_subtract(sum, less, &sum)) *dim = sum;
}

static void bind_dim(binder *b, uint64_t *dim) {
    uint64_t value;
    b->unbound = NULL;
    b->stays = false;
    if (!tsr_dim_is_open(*dim)) return;
    bool found = tsr_dim_value(*dim, size_of, b, &value);
    if (b->unbound)
        refuse_unbound(b, *dim);
    else if (b->stays && b->all)
        refuse_unlisted(b, *dim);
    else if (!found && !b->stays)
        refuse_value(b, *dim);
    else if (!b->stays)
        *dim = value;
    else
        bind_part(b, dim);
}

/* The type with its dims bound; the same type if none is open. */
static MlirType bind_type(binder *b, MlirType type) {
    tsr_type read;
    bool any = false;
    if (!mlirTypeIsARankedTensor(type) || !tsr_type_read(type, &read)) return type;
    for (uint32_t i = 0; i < read.shape.rank; i++) {
        any = any || tsr_dim_is_open(read.shape.dims[i]);
        bind_dim(b, &read.shape.dims[i]);
    }
    return any && b->done ? tsr_type_make(b->context, &read) : type;
}

static void bind_value(binder *b, MlirValue value) {
    MlirType is = mlirValueGetType(value), bound = bind_type(b, is);
    if (!mlirTypeEqual(is, bound)) mlirValueSetType(value, bound);
}

/* ---- attributes of ops ----------------------------------------------------------------------- */

/* An array with an expression. */
static void bind_list(binder *b, MlirOperation op, const char *name) {
    MlirAttribute list = tsr_op_attr(op, name);
    MlirAttribute values[TSR_RANK_MAX];
    bool any = false;
    if (mlirAttributeIsNull(list) || !mlirAttributeIsAArray(list)) return;
    size_t count = (size_t)mlirArrayAttrGetNumElements(list);
    if (count > TSR_RANK_MAX) return; /* the op's rule refuses it */
    for (size_t i = 0; i < count; i++) {
        uint64_t dim;
        MlirAttribute entry = mlirArrayAttrGetElement(list, (intptr_t)i);
        if (!tsr_dim_read(entry, &dim)) return;
        any = any || mlirAttributeIsAString(entry);
        bind_dim(b, &dim);
        values[i] = tsr_dim_attr(b->context, dim);
    }
    if (any && b->done) tsr_op_set(op, name, mlirArrayAttrGet(b->context, (intptr_t)count, values));
}

/* An entry of tessera.sizes: a number, which may be negative. It waits for all of its symbols. */
static MlirAttribute bind_number(binder *b, MlirAttribute entry) {
    tsr_dim_expression e;
    tsr_dim_error error;
    uint64_t dim;
    MlirStringRef text = mlirStringAttrGetValue(entry);
    b->unbound = NULL;
    b->stays = false;
    if (!tsr_dim_read(entry, &dim) ||
        !tsr_dim_expression_parse(&b->arena, text.data, text.length, &e, &error))
        return entry; /* the op's rule refuses it */
    tsr_dim_range value = tsr_dim_expression_range(&e, size_of, b);
    if (b->unbound)
        refuse_unbound(b, dim);
    else if (b->stays && b->all)
        refuse_unlisted(b, dim);
    else if (!b->stays && value.low != value.high)
        refuse_value(b, dim);
    else if (!b->stays)
        return tsr_attr_make_i64(b->context, value.low);
    return entry;
}

static void bind_numbers(binder *b, MlirOperation op) {
    MlirAttribute list = tsr_op_attr(op, "values");
    if (mlirAttributeIsNull(list) || !mlirAttributeIsAArray(list)) return;
    size_t count = (size_t)mlirArrayAttrGetNumElements(list);
    MlirAttribute *values = TSR_NEW(&b->arena, MlirAttribute, count + 1);
    TSR_NEED(values);
    for (size_t i = 0; i < count; i++) {
        values[i] = mlirArrayAttrGetElement(list, (intptr_t)i);
        if (mlirAttributeIsAString(values[i])) values[i] = bind_number(b, values[i]);
    }
    if (b->done) tsr_op_set(op, "values", mlirArrayAttrGet(b->context, (intptr_t)count, values));
}

static void bind_function_type(binder *b, MlirOperation func) {
    MlirType type = mlirTypeAttrGetValue(tsr_op_attr(func, "function_type"));
    size_t input_count = (size_t)mlirFunctionTypeGetNumInputs(type);
    size_t result_count = (size_t)mlirFunctionTypeGetNumResults(type);
    MlirType *types = TSR_NEW(&b->arena, MlirType, input_count + result_count + 1);
    TSR_NEED(types);
    for (size_t i = 0; i < input_count; i++)
        types[i] = bind_type(b, mlirFunctionTypeGetInput(type, (intptr_t)i));
    for (size_t i = 0; i < result_count; i++)
        types[input_count + i] = bind_type(b, mlirFunctionTypeGetResult(type, (intptr_t)i));
    MlirType bound = mlirFunctionTypeGet(b->context, (intptr_t)input_count, types,
                                         (intptr_t)result_count, types + input_count);
    if (!mlirTypeEqual(type, bound)) tsr_op_set(func, "function_type", tsr_attr_make_type(bound));
}

/* ---- functions ------------------------------------------------------------------------------- */

static MlirWalkResult bind_op(MlirOperation op, void *user) {
    binder *b = user;
    b->op = op;
    for (intptr_t r = 0; r < mlirOperationGetNumRegions(op); r++)
        for (MlirBlock block = mlirRegionGetFirstBlock(mlirOperationGetRegion(op, r));
             !mlirBlockIsNull(block); block = mlirBlockGetNextInRegion(block))
            for (intptr_t i = 0; i < mlirBlockGetNumArguments(block); i++)
                bind_value(b, mlirBlockGetArgument(block, i));
    for (size_t i = 0; i < tsr_op_result_count(op); i++) bind_value(b, tsr_op_result(op, i));
    if (tsr_op_is(op, TSR_FUNC_FUNC)) bind_function_type(b, op);
    if (tsr_op_is(op, TSR_GRAPH_SLICE)) {
        bind_list(b, op, "start");
        bind_list(b, op, "size");
    }
    if (tsr_op_is(op, TSR_GRAPH_SIZES)) bind_numbers(b, op);
    return MlirWalkResultAdvance;
}

/* ---- errors about symbols -------------------------------------------------------------------- */

static void name_declared(binder *b, tsr_suggestion *meant) {
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(b->module)) {
        MlirAttribute dims = tsr_op_attr(func, TSR_DIMS_NAME);
        if (mlirAttributeIsNull(dims) || !mlirAttributeIsAArray(dims)) continue;
        for (intptr_t i = 0; i < mlirArrayAttrGetNumElements(dims); i++) {
            const char *name = tsr_attr_string(mlirArrayAttrGetElement(dims, i));
            if (name) tsr_suggest(meant, name);
        }
    }
}

/* A size for a symbol that no dim has. */
static bool check_used(binder *b) {
    for (size_t i = 0; i < b->count && b->done; i++) {
        const symbol *s = &b->symbols[i];
        char text[256], hint[100] = "";
        tsr_suggestion meant = {.wrong = s->name};
        if (s->used) continue;
        name_declared(b, &meant);
        if (meant.best) snprintf(hint, sizeof hint, "; did you mean '%.64s'?", meant.best);
        snprintf(text, sizeof text,
                 "dim '%.64s' has the size %" PRId64
                 ", but no open dim of the program has this name%s",
                 s->name, s->sizes[0], hint);
        b->done = refuse(mlirModuleGetOperation(b->module), text);
    }
    return b->done;
}

/* Leaves in the entry's list the symbols whose dims stay open; removes an empty list. */
static void shorten_list(binder *b, MlirOperation func) {
    MlirAttribute dims = tsr_op_attr(func, TSR_DIMS_NAME), *left;
    intptr_t count = 0;
    if (mlirAttributeIsNull(dims) || !mlirAttributeIsAArray(dims)) return;
    intptr_t all = mlirArrayAttrGetNumElements(dims);
    left = TSR_NEW(&b->arena, MlirAttribute, (size_t)all + 1);
    TSR_NEED(left);
    for (intptr_t i = 0; i < all; i++) {
        MlirAttribute one = mlirArrayAttrGetElement(dims, i);
        const char *name = tsr_attr_string(one);
        const symbol *s = name ? find_symbol(b, name) : NULL;
        if (s && s->chosen == s->count) left[count++] = one;
    }
    if (count)
        tsr_op_set(func, TSR_DIMS_NAME, mlirArrayAttrGet(b->context, count, left));
    else
        mlirOperationRemoveDiscardableAttributeByName(func, tsr_ref(TSR_DIMS_NAME));
}

static void drop_sizes(MlirOperation module) {
    static const char *const names[] = {TSR_SIZES_NAME, TSR_BOUNDS_NAME};
    for (size_t i = 0; i < TSR_COUNT(names); i++)
        if (tsr_op_has(module, names[i]))
            mlirOperationRemoveDiscardableAttributeByName(module, tsr_ref(names[i]));
}

bool tsr_pass_bind_dims(MlirModule module) {
    MlirOperation top = mlirModuleGetOperation(module);
    binder b = {.module = module, .context = mlirModuleGetContext(module), .done = true};
    bool done = read_sizes(&b, top), stays = false;
    if (done) {
        mlirOperationWalk(top, bind_op, &b, MlirWalkPreOrder);
        done = check_used(&b);
    }
    if (done) TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
            shorten_list(&b, func);
        }
    for (size_t i = 0; i < b.count; i++) stays = stays || b.symbols[i].chosen == b.symbols[i].count;
    if (done && !stays) drop_sizes(top);
    tsr_arena_finish(&b.arena);
    return done;
}

/* ---- anchors --------------------------------------------------------------------------------- */

static bool refuse_entry(MlirOperation func, const char *format, const char *name, size_t number) {
    char text[256];
    snprintf(text, sizeof text, format, name, number);
    tsr_diag_error(mlirOperationGetLocation(func), TSR_DIAG_DIM_BINDING, "entry '@%s': %s",
                   tsr_op_symbol(func), text);
    return false;
}

/* The symbols in the entry's list; false if one has no size. */
static bool list_symbols(const binder *b, MlirOperation func, symbol **out_symbols,
                         size_t *out_count) {
    MlirAttribute dims = tsr_op_attr(func, TSR_DIMS_NAME);
    size_t count = 0;
    if (!mlirAttributeIsAArray(dims))
        return refuse_entry(func, "%s is not a list of symbols", TSR_DIMS_NAME, 0);
    for (intptr_t i = 0; i < mlirArrayAttrGetNumElements(dims); i++) {
        const char *name = tsr_attr_string(mlirArrayAttrGetElement(dims, i));
        symbol *s = name ? find_symbol(b, name) : NULL;
        if (!s) return refuse_entry(func, "dim '%.64s' has no size", name ? name : "", 0);
        if (count == b->count) return refuse_entry(func, "dim '%.64s' is listed twice", name, 0);
        out_symbols[count++] = s;
    }
    *out_count = count;
    return count || refuse_entry(func, "%s lists no symbol", TSR_DIMS_NAME, 0);
}

/* The number of combinations. */
static bool count_anchors(MlirOperation func, symbol *const *symbols, size_t count,
                          size_t *out_anchors) {
    tsr_entry_kind kind;
    size_t anchors = 1;
    if (!tsr_graph_entry_kind(func, &kind) || kind != TSR_ENTRY_INFER)
        return refuse_entry(func, "dim '%.64s' has %zu sizes; only an infer entry can have several",
                            symbols[0]->name, symbols[0]->count);
    if (tsr_op_has(func, "tessera.rows_independent"))
        return refuse_entry(func,
                            "dim '%.64s' has %zu sizes; an entry that is tessera.rows_independent "
                            "has one, and takes any number of rows",
                            symbols[0]->name, symbols[0]->count);
    for (size_t i = 0; i < count && anchors <= ANCHORS_MAX; i++) anchors *= symbols[i]->count;
    if (anchors > ANCHORS_MAX)
        return refuse_entry(func, "the sizes of '%.64s' and others have more than %zu combinations",
                            symbols[0]->name, ANCHORS_MAX);
    *out_anchors = anchors;
    return true;
}

/* "predict[N=8,S=4]" */
static const char *name_anchor(binder *b, MlirOperation func, symbol *const *symbols,
                               size_t count) {
    const char *name = tsr_arena_printf(&b->arena, "%s[", tsr_op_symbol(func));
    for (size_t i = 0; i < count && name; i++)
        name = tsr_arena_printf(&b->arena, "%s%s%s=%" PRId64, name, i ? "," : "", symbols[i]->name,
                                symbols[i]->sizes[symbols[i]->chosen]);
    if (name) name = tsr_arena_printf(&b->arena, "%s]", name);
    TSR_NEED(name);
    return name;
}

/* Keeps a dim open at run time; the entry then has its largest size. All other symbols have one. */
static bool open_entry(binder *b, MlirOperation func, symbol *open) {
    if (!tsr_graph_open_mark(func, open->name, open->low, open->sizes[0])) return false;
    open->chosen = 0;
    mlirOperationWalk(func, bind_op, b, MlirWalkPreOrder);
    open->chosen = open->count;
    return b->done;
}

/* `open`: a symbol whose dim stays open in the copy, or NULL. */
static bool copy_anchor(binder *b, MlirOperation func, symbol *const *symbols, size_t count,
                        symbol *open) {
    const char *name = name_anchor(b, func, symbols, count);
    MlirOperation made = mlirOperationClone(func);
    mlirOperationRemoveDiscardableAttributeByName(made, tsr_ref(TSR_DIMS_NAME));
    tsr_op_set(made, "sym_name", tsr_attr_make_string(b->context, name));
    mlirBlockInsertOwnedOperationBefore(mlirModuleGetBody(b->module), func, made);
    b->all = !open;
    mlirOperationWalk(made, bind_op, b, MlirWalkPreOrder);
    b->all = true;
    return b->done && (!open || open_entry(b, made, open));
}

/* The names of copies, NAME[…], are not for other functions: a call of the entry would choose from
 * them, too. */
static bool check_names(const binder *b, MlirOperation func) {
    const char *name = tsr_op_symbol(func);
    size_t length = strlen(name);
    TSR_FOR_EACH_OP(other, mlirModuleGetBody(b->module)) {
        const char *is = tsr_op_symbol(other);
        if (strncmp(is, name, length) == 0 && is[length] == '[')
            return refuse_entry(
                func, "its copies have names such as '@%.200s'; rename this function", is, 0);
    }
    return true;
}

/* An entry whose dim `open` stays open. The others have several sizes each. */
static bool check_open(MlirOperation func, symbol *const *others, size_t count,
                       const symbol *open) {
    char text[256];
    tsr_entry_kind kind;
    for (size_t i = 0; i < count; i++) {
        if (!others[i]->low) continue;
        snprintf(text, sizeof text,
                 "%s' and '%.64s' are open, and only one dim can be; give the "
                 "others sizes, as in --dim %.64s=8,64",
                 open->name, others[i]->name, others[i]->name);
        return refuse_entry(func, "dims '%.240s", text, 0);
    }
    if (!tsr_graph_entry_kind(func, &kind) || kind != TSR_ENTRY_INFER)
        return refuse_entry(func, "dim '%.64s' is open; only an infer entry can have an open dim",
                            open->name, 0);
    if (tsr_op_has(func, "tessera.rows_independent") && open->low > 1)
        return refuse_entry(func,
                            "dim '%.64s' begins at %zu; an entry that is tessera.rows_independent "
                            "takes any number of rows, so begin at 1",
                            open->name, (size_t)open->low);
    return true;
}

/* Copies the entry for every combination: the last symbol changes first. */
static bool copy_all(binder *b, MlirOperation func, symbol *const *symbols, size_t count,
                     symbol *open) {
    size_t anchors = 0;
    if (!count_anchors(func, symbols, count, &anchors) || !check_names(b, func)) return false;
    for (size_t at = 0; at < anchors; at++) {
        size_t rest = at;
        for (size_t i = count; i-- > 0; rest /= symbols[i]->count)
            symbols[i]->chosen = rest % symbols[i]->count;
        if (!copy_anchor(b, func, symbols, count, open)) return false;
    }
    for (size_t i = 0; i < count; i++) symbols[i]->chosen = symbols[i]->count;
    mlirOperationDestroy(func);
    return true;
}

static bool copy_anchors(binder *b, MlirOperation func) {
    symbol **symbols = TSR_NEW(&b->arena, symbol *, b->count + 1), *open = NULL;
    TSR_NEED(symbols);
    size_t count = 0, others = 0;
    if (!list_symbols(b, func, symbols, &count)) return false;
    for (size_t i = 0; i < count; i++) {
        if (!open && symbols[i]->low)
            open = symbols[i];
        else
            symbols[others++] = symbols[i];
    }
    if (open && !check_open(func, symbols, others, open)) return false;
    if (others) return copy_all(b, func, symbols, others, open);
    mlirOperationRemoveDiscardableAttributeByName(func, tsr_ref(TSR_DIMS_NAME));
    return open_entry(b, func, open);
}

bool tsr_pass_copy_anchors(MlirModule module) {
    MlirOperation top = mlirModuleGetOperation(module);
    binder b = {.module = module, .context = mlirModuleGetContext(module), .done = true};
    bool done = read_sizes(&b, top);
    b.all = true;
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        if (done && tsr_op_has(func, TSR_DIMS_NAME)) {
            done = copy_anchors(&b, func);
        } else if (done && tsr_op_has(func, "tessera.entry")) {
            mlirOperationWalk(func, bind_op, &b, MlirWalkPreOrder);
            done = b.done;
        }
    }
    if (done) drop_sizes(top);
    tsr_arena_finish(&b.arena);
    return done;
}
