/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass tessera-bind-dims: gives the symbols of open dims the sizes that the module's attribute
 * TSR_SIZES_NAME says, so that every dim that was open is known. The program is then the same as if
 * its source had these sizes.
 *
 * Outline: the sizes · dims and types · attributes of ops · functions · errors about symbols.
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

typedef struct symbol {
    const char *name; /* borrowed from the MLIR context */
    int64_t size;
    bool used; /* some dim of the program has it */
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
    bool done;                /* no error yet */
} binder;

/* ---- the sizes ------------------------------------------------------------------------------- */

static bool refuse(MlirOperation op, const char *text) {
    tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_DIM_BINDING, "%s", text);
    return false;
}

static bool read_sizes(binder *b, MlirOperation module) {
    MlirAttribute list = tsr_op_attr(module, TSR_SIZES_NAME);
    char text[256];
    if (mlirAttributeIsNull(list)) return true;
    if (!mlirAttributeIsADictionary(list))
        return refuse(module, TSR_SIZES_NAME " is no dictionary of sizes, such as {N = 64}");
    b->count = (size_t)mlirDictionaryAttrGetNumElements(list);
    b->symbols = TSR_NEW(&b->arena, symbol, b->count + 1);
    TSR_NEED(b->symbols);
    for (size_t i = 0; i < b->count; i++) {
        MlirNamedAttribute one = mlirDictionaryAttrGetElement(list, (intptr_t)i);
        symbol *s = &b->symbols[i];
        s->name = mlirIdentifierStr(one.name).data;
        if (tsr_attr_i64(one.attribute, &s->size) && s->size >= 1) continue;
        snprintf(text, sizeof text, "dim '%.100s' has the size %" PRId64 ", needs at least 1",
                 s->name, s->size);
        return refuse(module, text);
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
    return (tsr_dim_range){s->size, s->size};
}

/* ---- dims and types -------------------------------------------------------------------------- */

/* Appends "N = 17, S = 4": the symbols of the dim. */
static void list_symbol(void *user, const char *name) {
    tsr_buffer *out = ((void **)user)[0];
    const symbol *s = find_symbol(((void **)user)[1], name);
    if (s) tsr_buffer_printf(out, "%s%s = %" PRId64, out->size_bytes ? ", " : "", name, s->size);
}

static void refuse_value(binder *b, uint64_t dim) {
    char text[TSR_DIM_TEXT_MAX];
    tsr_buffer sizes = {0};
    tsr_dim_symbols(dim, list_symbol, (void *[]){&sizes, b});
    tsr_diag_error(mlirOperationGetLocation(b->op), TSR_DIAG_DIM_BINDING,
                   "%s: '%s' is no size of a dim where %s", tsr_op_name(b->op),
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

static void bind_dim(binder *b, uint64_t *dim) {
    uint64_t value;
    b->unbound = NULL;
    if (!tsr_dim_is_open(*dim)) return;
    bool found = tsr_dim_value(*dim, size_of, b, &value);
    if (b->unbound)
        refuse_unbound(b, *dim);
    else if (!found)
        refuse_value(b, *dim);
    else
        *dim = value;
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
    int64_t values[TSR_RANK_MAX];
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
        values[i] = (int64_t)dim;
    }
    if (any && b->done) tsr_op_set(op, name, tsr_attr_make_i64s(b->context, count, values));
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
                 s->name, s->size, hint);
        b->done = refuse(mlirModuleGetOperation(b->module), text);
    }
    return b->done;
}

bool tsr_pass_bind_dims(MlirModule module) {
    MlirOperation top = mlirModuleGetOperation(module);
    binder b = {.module = module, .context = mlirModuleGetContext(module), .done = true};
    bool done = read_sizes(&b, top);
    if (done) {
        mlirOperationWalk(top, bind_op, &b, MlirWalkPreOrder);
        done = check_used(&b);
    }
    if (done && b.count)
        mlirOperationRemoveDiscardableAttributeByName(top, tsr_ref(TSR_SIZES_NAME));
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        if (done && tsr_op_has(func, TSR_DIMS_NAME))
            mlirOperationRemoveDiscardableAttributeByName(func, tsr_ref(TSR_DIMS_NAME));
    }
    tsr_arena_finish(&b.arena);
    return done;
}
