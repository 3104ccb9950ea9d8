/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass tessera-verify: the rules for a whole program, beyond the checks of each op.
 *
 *   functions  one block of tessera ops, calls and a return
 *   tensors    named; stored data or an init rule; one name, one declaration
 *   assigns    to a known tensor of the same type, once, in a train entry
 *   entries    ports named, batch dims equal
 *   attributes names with the dialect's prefix must be known for the op that has them
 */
#include "compiler/graph/graph.h"
#include "compiler/ir/attributes.h"
#include "compiler/ir/resilience_ops.h"
#include "compiler/passes.h"
#include "compiler/process/guard.h"
#include "compiler/shim/shim.h"
#include "runtime/base/suggest.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static MlirLocation where(MlirOperation op) { return mlirOperationGetLocation(op); }

/* ---- functions ------------------------------------------------------------------------------- */

/* Regions contain neither returns nor ops that change tensors; called.c checks the functions that
 * they call. */
static bool check_nested(MlirOperation op) {
    bool returns = tsr_op_is(op, TSR_FUNC_RETURN);
    if (!returns && !tsr_graph_changes(op)) return true;
    MlirOperation around = returns ? mlirOperationGetParentOperation(op) : tsr_graph_computing(op);
    if (mlirOperationIsNull(around)) return true;
    tsr_diag_error(where(op), TSR_DIAG_REGION_OP, "%s: is not allowed in a region of %s",
                   tsr_op_name(op), tsr_op_name(around));
    return false;
}

/* Plans are next to the program; in a scheduled program entries call groups, or the kernels made
 * from them. */
static bool is_scheduling(MlirOperation op, bool scheduled) {
    return tsr_op_is_plan(op) ||
           (scheduled && (tsr_op_is(op, TSR_SCHED_CALL) || tsr_op_is(op, TSR_SCHED_FUNC) ||
                          tsr_op_is(op, TSR_SCHED_DIM) || tsr_op_is(op, TSR_TILE_FUNC)));
}

/* Ops that a module contains in addition to its program: plans, groups and kernels, texts for
 * later stages. */
static bool is_beside(MlirOperation op, bool scheduled) {
    return is_scheduling(op, scheduled) || tsr_op_is(op, TSR_TARGET_DOCUMENT);
}

static bool check_op(MlirOperation op, bool scheduled) {
    bool done = true;
    if (is_scheduling(op, scheduled)) return true;
    if (!tsr_op_is_of(op, TSR_DIALECT_GRAPH) && !tsr_op_is_of(op, TSR_DIALECT_SR) &&
        !tsr_op_is(op, TSR_FUNC_CALL) && !tsr_op_is(op, TSR_FUNC_RETURN) &&
        !tsr_op_is(op, TSR_ASYNC_AWAIT)) {
        tsr_diag_error(where(op), TSR_DIAG_OPERATION,
                       "%s: functions hold only tessera ops, func.call and func.return",
                       tsr_op_name(op));
        return false;
    }
    for (intptr_t i = 0; i < mlirOperationGetNumRegions(op); i++) {
        MlirBlock block = mlirRegionGetFirstBlock(mlirOperationGetRegion(op, i));
        if (mlirBlockIsNull(block)) continue;
        TSR_FOR_EACH_OP(inner, block) {
            done = check_nested(inner) && done;
            done = check_op(inner, scheduled) && done;
        }
    }
    return done;
}

static bool check_func(MlirOperation func, bool scheduled) {
    bool done = true;
    if (is_beside(func, scheduled)) return true;
    if (!tsr_op_is(func, TSR_FUNC_FUNC)) {
        tsr_diag_error(where(func), TSR_DIAG_MODULE_OP, "%s: a program holds only functions",
                       tsr_op_name(func));
        return false;
    }
    if (!tsr_op_has_body(func)) {
        tsr_diag_error(where(func), TSR_DIAG_BODY, "func.func: '@%s' has no body",
                       tsr_op_symbol(func));
        return false;
    }
    if (!mlirBlockIsNull(mlirBlockGetNextInRegion(tsr_op_body(func)))) {
        tsr_diag_error(where(func), TSR_DIAG_BLOCKS,
                       "func.func: '@%s' has several blocks; programs are straight-line",
                       tsr_op_symbol(func));
        return false;
    }
    TSR_FOR_EACH_OP(op, tsr_op_body(func)) { done = check_op(op, scheduled) && done; }
    return done;
}

/* ---- tensors --------------------------------------------------------------------------------- */

static bool is_name(const char *name) {
    return name && name[0] && tsr_text_valid(name, TSR_NAME_MAX);
}

/* !tessera.opt.state describes a state, but does not read it. */
static bool is_declared_only(MlirOperation op) {
    return tsr_shim_is_opt_state(mlirValueGetType(tsr_op_result(op, 0)));
}

static bool check_declaration(MlirOperation op) {
    const char *name = tsr_op_string(op, "name"), *kind = tsr_op_name(op);
    bool is_state = tsr_op_is(op, TSR_GRAPH_OPT_STATE);
    tsr_type type;
    char text[TSR_TYPE_TEXT_MAX];
    if (!is_name(name)) {
        tsr_diag_error(where(op), TSR_DIAG_NAME_MISSING,
                       "%s: needs a name of 1 to %d bytes of printable UTF-8", kind, TSR_NAME_MAX);
        return false;
    }
    if (!tsr_value_type(tsr_op_result(op, 0), &type)) {
        tsr_diag_error(where(op), TSR_DIAG_TENSOR_TYPE,
                       "%s: '%s' needs a ranked tensor of at most %d dims, whose elements are %s",
                       kind, name, TSR_RANK_MAX, tsr_dtype_names());
        return false;
    }
    if (!tsr_type_is_static(&type)) {
        tsr_diag_error(where(op), TSR_DIAG_DYNAMIC, "%s: dims of '%s' must be known, has %s", kind,
                       name, tsr_type_text(&type, text));
        return false;
    }
    uint64_t count = 0;
    if (!tsr_shape_count(&type.shape, &count) || count == 0) {
        tsr_diag_error(where(op), TSR_DIAG_EMPTY_TENSOR, "%s: '%s' has no elements (%s)", kind,
                       name, tsr_type_text(&type, text));
        return false;
    }
    if (!tsr_op_has(op, "init") && !tsr_op_has(op, "data")) {
        tsr_diag_error(where(op), TSR_DIAG_INIT, "%s: '%s' needs an init rule%s", kind, name,
                       is_state ? "" : " or data");
        return false;
    }
    if (is_state && (!is_name(tsr_op_string(op, "of")) || !is_name(tsr_op_string(op, "kind")))) {
        tsr_diag_error(where(op), TSR_DIAG_STATE, "%s: '%s' needs `of` and `kind`", kind, name);
        return false;
    }
    return true;
}

static bool same_attr(MlirOperation a, MlirOperation b, const char *name) {
    MlirAttribute x = tsr_op_attr(a, name), y = tsr_op_attr(b, name);
    return mlirAttributeIsNull(x) ? mlirAttributeIsNull(y)
                                  : !mlirAttributeIsNull(y) && mlirAttributeEqual(x, y);
}

static bool check_same(MlirOperation op, MlirOperation first) {
    char text[512];
    bool same = tsr_op_of(op) == tsr_op_of(first) &&
                mlirTypeEqual(mlirValueGetType(tsr_op_result(op, 0)),
                              mlirValueGetType(tsr_op_result(first, 0))) &&
                same_attr(op, first, "init") && same_attr(op, first, "data") &&
                same_attr(op, first, "of") && same_attr(op, first, "kind") &&
                same_attr(op, first, "frozen") && same_attr(op, first, "no_decay") &&
                same_attr(op, first, "lr_factor");
    if (same) return true;
    snprintf(text, sizeof text, "%s: '%.300s' is declared in two ways", tsr_op_name(op),
             tsr_op_string(op, "name"));
    tsr_diag_error_note(where(op), TSR_DIAG_NAME_TAKEN, text, where(first), "declared first here");
    return false;
}

static const tsr_graph_tensor *find(const tsr_graph_tensor *tensors, size_t count,
                                    const char *name) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(name, tensors[middle].name);
        if (order == 0) return &tensors[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

static bool check_tensor_op(MlirOperation op, const tsr_graph_tensor *tensors, size_t count) {
    const tsr_graph_tensor *first = find(tensors, count, tsr_op_string(op, "name"));
    if (!first) {
        tsr_diag_error(where(op), TSR_DIAG_OPERATION,
                       "%s: '%s' is read in no function of the program", tsr_op_name(op),
                       tsr_op_string(op, "name"));
        return false;
    }
    if (!check_same(op, first->op)) return false;
    if (first->role != TSR_ROLE_STATE) return true;
    const tsr_graph_tensor *of = find(tensors, count, first->of);
    if (of && of->role == TSR_ROLE_PARAM) return true;
    tsr_diag_error(where(op), TSR_DIAG_STATE,
                   "%s: '%s' is state of '%s', but no entry reads a parameter of that name",
                   tsr_op_name(op), first->name, first->of);
    return false;
}

/* ---- assigns --------------------------------------------------------------------------------- */

/* Suggests the tensor with the most similar name, if there is one. */
static bool refuse_unknown(MlirOperation op, const char *target, const tsr_graph_tensor *tensors,
                           size_t count) {
    char text[512], note[512];
    tsr_suggestion meant = {.wrong = target};
    snprintf(text, sizeof text, "tessera.assign: nothing in the program reads a tensor '%.300s'",
             target);
    for (size_t i = 0; i < count; i++) tsr_suggest(&meant, tensors[i].name);
    const tsr_graph_tensor *nearest = meant.best ? find(tensors, count, meant.best) : NULL;
    if (nearest) {
        snprintf(note, sizeof note, "did you mean '%.300s', declared here?", nearest->name);
        tsr_diag_error_note(where(op), TSR_DIAG_UNKNOWN_TENSOR, text, where(nearest->op), note);
    } else
        tsr_diag_error(where(op), TSR_DIAG_UNKNOWN_TENSOR, "%s", text);
    return false;
}

/* Assigns of one tensor, the latest first. */
typedef struct assigns {
    MlirOperation op;
    struct assigns *before;
} assigns;

typedef struct program {
    const tsr_graph_tensor *tensors;
    size_t count;
    assigns **assigned; /* assigns of each tensor */
    tsr_arena *arena;
    MlirOperation func; /* the function that is checked */
    bool done;
} program;

/* Assigns in a region to tensors that are also assigned outside are detected once regions are
 * inlined. */
static bool check_assign(program *p, MlirOperation op) {
    const tsr_graph_tensor *tensors = p->tensors;
    size_t count = p->count;
    const char *target = tsr_op_string(op, "target");
    const tsr_graph_tensor *tensor = find(tensors, count, target);
    tsr_type type;
    char is[TSR_TYPE_TEXT_MAX], must[TSR_TYPE_TEXT_MAX], text[512];
    if (!tensor) return refuse_unknown(op, target, tensors, count);
    if (tsr_value_type(tsr_op_operand(op, 0), &type) && tsr_type_is_static(&type) &&
        (type.dtype != tensor->type.dtype || !tsr_shape_equal(&type.shape, &tensor->type.shape))) {
        snprintf(text, sizeof text, "tessera.assign: the value is %s, '%.300s' is %s",
                 tsr_type_text(&type, is), target, tsr_type_text(&tensor->type, must));
        tsr_diag_error_note(where(op), TSR_DIAG_ASSIGN, text, where(tensor->op), "declared here");
        return false;
    }
    assigns **head = &p->assigned[tensor - tensors], *added = TSR_NEW(p->arena, assigns, 1);
    MlirOperation first = {NULL};
    TSR_NEED(added);
    for (const assigns *other = *head; other; other = other->before)
        if (mlirBlockEqual(mlirOperationGetBlock(other->op), mlirOperationGetBlock(op)))
            first = other->op;
    *added = (assigns){op, *head};
    *head = added;
    if (mlirOperationIsNull(first)) return true;
    snprintf(text, sizeof text, "tessera.assign: '%.300s' already has a next value", target);
    tsr_diag_error_note(where(op), TSR_DIAG_ASSIGN_TWICE, text, where(first), "assigned here");
    return false;
}

static bool check_training(MlirOperation op, MlirOperation func) {
    tsr_entry_kind kind;
    if (!tsr_op_has(func, "tessera.entry")) return true;
    if (tsr_graph_entry_kind(func, &kind) && kind == TSR_ENTRY_TRAIN) return true;
    tsr_diag_error(where(op), TSR_DIAG_READ_ONLY,
                   "%s: only a train entry can change tensors; '@%s' is \"%s\"", tsr_op_name(op),
                   tsr_op_symbol(func), tsr_op_string(func, "tessera.entry"));
    return false;
}

static MlirWalkResult check_use(MlirOperation op, void *user) {
    program *p = user;
    switch (tsr_op_of(op)) {
    case TSR_GRAPH_PARAM:
    case TSR_GRAPH_OPT_STATE:
        p->done = (is_declared_only(op) || check_tensor_op(op, p->tensors, p->count)) && p->done;
        break;
    case TSR_GRAPH_MINIMIZE:
        p->done = check_training(op, p->func) && p->done;
        break;
    case TSR_GRAPH_ASSIGN:
        p->done = check_training(op, p->func) && p->done;
        p->done = check_assign(p, op) && p->done;
        break;
    default:
        break;
    }
    return MlirWalkResultAdvance;
}

static bool check_program(MlirModule module, const tsr_graph_tensor *tensors, size_t count,
                          tsr_arena *arena) {
    program p = {.tensors = tensors, .count = count, .arena = arena, .done = true};
    p.assigned = TSR_NEW(arena, assigns *, count + 1);
    TSR_NEED(p.assigned);
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        p.func = func;
        if (tsr_op_has_body(func)) mlirOperationWalk(func, check_use, &p, MlirWalkPreOrder);
    }
    return p.done;
}

/* ---- entries --------------------------------------------------------------------------------- */

static bool port_error(MlirOperation func, tsr_diag_number number, const char *what, size_t index,
                       const char *text) {
    tsr_diag_error(where(func), number, "entry '@%s': %s %zu %s", tsr_op_symbol(func), what, index,
                   text);
    return false;
}

static void append(MlirStringRef text, void *user) {
    tsr_buffer_append(user, text.data, text.length);
}

static bool port_type_error(MlirOperation func, const char *what, size_t index, MlirType type) {
    tsr_buffer text = {0};
    tsr_buffer_text(&text, "has the type ");
    mlirTypePrint(type, append, &text);
    tsr_buffer_printf(&text,
                      "; expected a ranked tensor without an encoding, of at most %d dims, whose "
                      "elements are %s",
                      TSR_RANK_MAX, tsr_dtype_names());
    port_error(func, TSR_DIAG_TENSOR_TYPE, what, index,
               text.bytes && !text.failed ? text.bytes : "has no type of a tensor");
    tsr_buffer_finish(&text);
    return false;
}

static bool check_ports(MlirOperation func, const char *what, const tsr_graph_port *ports,
                        size_t count) {
    char text[64];
    snprintf(text, sizeof text, "needs a name of 1 to %d bytes of printable UTF-8", TSR_NAME_MAX);
    for (size_t i = 0; i < count; i++) {
        if (!is_name(ports[i].name)) return port_error(func, TSR_DIAG_PORT_NAME, what, i, text);
        for (size_t k = 0; k < i; k++)
            if (strcmp(ports[i].name, ports[k].name) == 0)
                return port_error(func, TSR_DIAG_PORT_TAKEN, what, i,
                                  "has the name of an earlier one");
    }
    return true;
}

/* All ports with rows must have the same number of rows. */
static bool check_rows(const tsr_graph_entry *entry) {
    const tsr_graph_port *first = NULL;
    for (size_t i = 0; i < entry->input_count + entry->output_count; i++) {
        bool is_input = i < entry->input_count;
        const tsr_graph_port *port =
            is_input ? &entry->inputs[i] : &entry->outputs[i - entry->input_count];
        bool has_rows = entry->rows_independent || port->source == TSR_PORT_DATA ||
                        (!is_input && entry->kind == TSR_ENTRY_EVAL);
        if (!has_rows) continue;
        if (port->type.shape.rank == 0) {
            tsr_diag_error(where(entry->func), TSR_DIAG_ROWS,
                           "entry '@%s': '%s' is a scalar, but must have one row per sample",
                           entry->name, port->name);
            return false;
        }
        if (first && !tsr_dim_fits(first->type.shape.dims[0], port->type.shape.dims[0])) {
            char one[TSR_DIM_TEXT_MAX], other[TSR_DIM_TEXT_MAX];
            tsr_diag_error(where(entry->func), TSR_DIAG_ROWS,
                           "entry '@%s': '%s' has %s rows, '%s' has %s", entry->name, first->name,
                           tsr_dim_text(first->type.shape.dims[0], one), port->name,
                           tsr_dim_text(port->type.shape.dims[0], other));
            return false;
        }
        if (!first) first = port;
    }
    return true;
}

/* Rejects memrefs, vectors and tensors with an encoding that is not #tessera.dims: it specifies
 * another layout. */
static bool is_plain_tensor(MlirType type) {
    tsr_type ignored;
    if (!mlirTypeIsARankedTensor(type)) return false;
    MlirAttribute encoding = mlirRankedTensorTypeGetEncoding(type);
    return (mlirAttributeIsNull(encoding) || tsr_shim_dims_count(encoding)) &&
           tsr_type_read(type, &ignored);
}

static bool check_port_attrs(MlirOperation func) {
    MlirType type = mlirTypeAttrGetValue(tsr_op_attr(func, "function_type"));
    size_t inputs = (size_t)mlirFunctionTypeGetNumInputs(type);
    size_t outputs = (size_t)mlirFunctionTypeGetNumResults(type);
    tsr_graph_port port;
    if (inputs > TSR_CONFIG_PORTS_MAX || outputs > TSR_CONFIG_PORTS_MAX) {
        tsr_diag_error(where(func), TSR_DIAG_PORT_LIMIT,
                       "entry '@%s': has %zu arguments and %zu results; the limit is %d each",
                       tsr_op_symbol(func), inputs, outputs, TSR_CONFIG_PORTS_MAX);
        return false;
    }
    for (size_t i = 0; i < inputs; i++) {
        MlirType input = mlirFunctionTypeGetInput(type, (intptr_t)i);
        if (!is_plain_tensor(input)) return port_type_error(func, "argument", i, input);
        if (!tsr_graph_input_read(func, i, &port))
            return port_error(func, TSR_DIAG_PORT, "argument", i,
                              "needs one of the attributes tessera.data and tessera.name");
    }
    for (size_t i = 0; i < outputs; i++) {
        MlirType output = mlirFunctionTypeGetResult(type, (intptr_t)i);
        if (!is_plain_tensor(output)) return port_type_error(func, "result", i, output);
        if (!tsr_graph_output_read(func, i, &port))
            return port_error(func, TSR_DIAG_PORT, "result", i, "needs the attribute tessera.name");
    }
    return true;
}

/* ---- symbols of open dims -------------------------------------------------------------------- */

typedef struct symbols {
    const tsr_graph_entry *entry;
    MlirAttribute declared; /* an array of strings */
    MlirOperation op;       /* that has the dim */
    bool done;
} symbols;

static const char *declared_symbol(const symbols *s, intptr_t index) {
    return tsr_attr_string(mlirArrayAttrGetElement(s->declared, index));
}

static intptr_t declared_count(const symbols *s) {
    return mlirAttributeIsNull(s->declared) ? 0 : mlirArrayAttrGetNumElements(s->declared);
}

static void check_declared(void *user, const char *name) {
    symbols *s = user;
    char hint[TSR_DIM_SYMBOL_MAX + 32] = "";
    tsr_suggestion meant = {.wrong = name};
    for (intptr_t i = 0; i < declared_count(s); i++) {
        if (strcmp(declared_symbol(s, i), name) == 0) return;
        tsr_suggest(&meant, declared_symbol(s, i));
    }
    if (!s->done) return;
    if (meant.best) snprintf(hint, sizeof hint, "; did you mean '%s'?", meant.best);
    tsr_diag_error(where(s->op), TSR_DIAG_DIM_SYMBOL,
                   "%s: '%s' is the symbol of a dim; " TSR_DIMS_NAME
                   " of entry '@%s' does not list "
                   "it%s",
                   tsr_op_name(s->op), name, s->entry->name, hint);
    s->done = false;
}

static void check_dims(symbols *s, MlirOperation op, MlirValue value) {
    tsr_type type;
    if (!tsr_value_type(value, &type)) return;
    s->op = op;
    for (uint32_t i = 0; i < type.shape.rank; i++)
        tsr_dim_symbols(type.shape.dims[i], check_declared, s);
}

/* The dims in an array of an op. */
static void check_list(symbols *s, MlirOperation op, const char *name) {
    MlirAttribute list = tsr_op_attr(op, name);
    uint64_t dim;
    if (mlirAttributeIsNull(list) || !mlirAttributeIsAArray(list)) return;
    s->op = op;
    for (intptr_t i = 0; i < mlirArrayAttrGetNumElements(list); i++)
        if (tsr_dim_read(mlirArrayAttrGetElement(list, i), &dim))
            tsr_dim_symbols(dim, check_declared, s);
}

static MlirWalkResult check_op_symbols(MlirOperation op, void *user) {
    for (size_t i = 0; i < tsr_op_result_count(op); i++) check_dims(user, op, tsr_op_result(op, i));
    if (tsr_op_is(op, TSR_GRAPH_SLICE)) {
        check_list(user, op, "start");
        check_list(user, op, "size");
    }
    if (tsr_op_is(op, TSR_GRAPH_SIZES)) check_list(user, op, "values");
    return MlirWalkResultAdvance;
}

static bool is_dim_of_input(const tsr_graph_entry *entry, const char *name) {
    for (size_t i = 0; i < entry->input_count; i++)
        for (uint32_t k = 0; k < entry->inputs[i].type.shape.rank; k++) {
            const char *symbol = tsr_dim_symbol(entry->inputs[i].type.shape.dims[k]);
            if (symbol && strcmp(symbol, name) == 0) return true;
        }
    return false;
}

static bool symbol_error(const tsr_graph_entry *entry, const char *format, const char *name) {
    char text[256];
    snprintf(text, sizeof text, format, name ? name : "");
    tsr_diag_error(where(entry->func), TSR_DIAG_DIM_SYMBOL, "entry '@%s': %s", entry->name, text);
    return false;
}

static bool check_declarations_of(symbols *s) {
    for (intptr_t i = 0; i < declared_count(s); i++) {
        const char *name = declared_symbol(s, i);
        if (!name || !tsr_dim_is_symbol(name, strlen(name)))
            return symbol_error(s->entry,
                                TSR_DIMS_NAME " lists '%.64s'; a symbol has letters, digits, '_' "
                                              "and '.', and is not floor, min or max",
                                name);
        for (intptr_t k = 0; k < i; k++)
            if (strcmp(declared_symbol(s, k), name) == 0)
                return symbol_error(s->entry, TSR_DIMS_NAME " lists '%.64s' twice", name);
        if (!is_dim_of_input(s->entry, name))
            return symbol_error(s->entry,
                                "no argument has the dim '%.64s', which would say its size", name);
    }
    return true;
}

/* Every symbol in the entry is declared, and is the dim of an argument. */
static bool check_symbols(const tsr_graph_entry *entry) {
    symbols s = {.entry = entry, .declared = tsr_op_attr(entry->func, TSR_DIMS_NAME), .done = true};
    MlirBlock body = tsr_op_body(entry->func);
    if (!mlirAttributeIsNull(s.declared) && !mlirAttributeIsAArray(s.declared))
        return symbol_error(entry, TSR_DIMS_NAME " is not a list of symbols, such as [\"N\"]%s",
                            NULL);
    if (!check_declarations_of(&s)) return false;
    for (intptr_t i = 0; i < mlirBlockGetNumArguments(body); i++)
        check_dims(&s, entry->func, mlirBlockGetArgument(body, i));
    mlirOperationWalk(entry->func, check_op_symbols, &s, MlirWalkPreOrder);
    return s.done;
}

static bool check_entry(MlirOperation func, tsr_arena *arena) {
    tsr_graph_entry entry;
    tsr_entry_kind kind;
    if (!tsr_op_has(func, "tessera.entry")) return true;
    if (!tsr_graph_entry_kind(func, &kind)) {
        const char *is = tsr_op_string(func, "tessera.entry");
        const char *quote = is ? "\"" : "";
        tsr_diag_error(where(func), TSR_DIAG_ENTRY,
                       "entry '@%s': tessera.entry is %s%s%s, must be \"train\", \"eval\" or "
                       "\"infer\"",
                       tsr_op_symbol(func), quote, is ? is : "no string", quote);
        return false;
    }
    if (!is_name(tsr_op_symbol(func))) {
        tsr_diag_error(where(func), TSR_DIAG_NAME_MISSING,
                       "entry '@%s': needs a name of 1 to %d bytes of printable UTF-8",
                       tsr_op_symbol(func), TSR_NAME_MAX);
        return false;
    }
    if (strcmp(tsr_op_symbol(func), TSR_DEVICE_NAME) == 0) {
        tsr_diag_error(where(func), TSR_DIAG_NAME_TAKEN,
                       "entry '@%s': the name is that of the module of kernels", TSR_DEVICE_NAME);
        return false;
    }
    if (!check_port_attrs(func)) return false;
    TSR_NEED(tsr_graph_entry_read(func, arena, &entry));
    return check_ports(func, "argument", entry.inputs, entry.input_count) &&
           check_ports(func, "result", entry.outputs, entry.output_count) && check_rows(&entry) &&
           check_symbols(&entry);
}

/* ---- attributes ------------------------------------------------------------------------------ */

enum { SHOWN_MAX = 100 };

/* Indexed by the kind of op: attributes that a program may have, NULL, attributes that passes add,
 * NULL. */
static const char *const of_module[] = {"tessera.mesh",
                                        TSR_WEIGHTS_NAME,
                                        TSR_WEIGHTS_DIGEST_NAME,
                                        NULL,
                                        TSR_NUMERICS_NAME,
                                        TSR_WORKSPACE_MAX_NAME,
                                        TSR_TARGET_NAME,
                                        TSR_SR_VIRTUAL_RANKS,
                                        TSR_OPERATIONS_NAME,
                                        TSR_HYPERPARAMETERS_NAME,
                                        TSR_SIZES_NAME,
                                        TSR_BOUNDS_NAME,
                                        NULL};
static const char *const of_func[] = {"tessera.entry",
                                      "tessera.rows_independent",
                                      TSR_DIMS_NAME,
                                      TSR_EFFECTS_NAME,
                                      TSR_DETERMINISTIC_NAME,
                                      TSR_CONSTRAINTS_NAME,
                                      NULL,
                                      TSR_BODY_NAME,
                                      TSR_OPEN_DIM_NAME,
                                      TSR_OPEN_RANGE_NAME,
                                      TSR_OPEN_INPUTS_NAME,
                                      TSR_OPEN_OUTPUTS_NAME,
                                      NULL};
static const char *const of_argument[] = {"tessera.data", "tessera.name", TSR_DIMS_NAME, NULL,
                                          NULL};
static const char *const of_result[] = {"tessera.name", TSR_INFINITE_NAME, TSR_DIMS_NAME,
                                        NULL,           TSR_WATCHED_NAME,  NULL};
static const char *const of_call[] = {"tessera.prefix", TSR_CALLED_NAME, NULL, NULL};
static const char *const of_op[] = {
    "tessera.opt.shard", "tessera.opt.partition", NULL,          TSR_EXP_SHIFTED, TSR_CONSTANT_NAME,
    TSR_SETTABLE_NAME,   TSR_GROUP_NAME,          TSR_SEED_NAME, TSR_LAYOUT_AXIS, TSR_LAYOUT_DIM,
    TSR_CHECKED_NAME,    TSR_WORDS_NAME,          NULL};

/* A misspelled attribute would be kept, and have no effect. Names outside this dialect belong to
 * others. */
static bool check_known(MlirOperation op, const char *owner, MlirNamedAttribute attribute,
                        const char *const *names) {
    static const char dialect[] = "tessera.";
    MlirStringRef is = mlirIdentifierStr(attribute.name);
    char name[SHOWN_MAX + 1], symbol[SHOWN_MAX + 8] = "", all[200] = "";
    if (is.length < sizeof dialect - 1 || memcmp(is.data, dialect, sizeof dialect - 1) != 0)
        return true;
    snprintf(name, sizeof name, "%.*s", (int)(is.length < SHOWN_MAX ? is.length : SHOWN_MAX),
             is.data);
    tsr_suggestion meant = {.wrong = name};
    size_t i = 0, at = 0;
    for (; names[i]; i++) {
        if (strcmp(name, names[i]) == 0) return true;
        tsr_suggest(&meant, names[i]);
        at += (size_t)snprintf(all + at, sizeof all - at, "%s%s", i ? ", " : "", names[i]);
    }
    while (names[++i])
        if (strcmp(name, names[i]) == 0) return true;
    if (tsr_op_symbol(op)[0])
        snprintf(symbol, sizeof symbol, " @%.*s", SHOWN_MAX, tsr_op_symbol(op));
    if (meant.best)
        tsr_diag_error(where(op), TSR_DIAG_TESSERA_ATTRIBUTE,
                       "%s%s: %s has no attribute '%s'; did you mean '%s'?", tsr_op_name(op),
                       symbol, owner, name, meant.best);
    else
        tsr_diag_error(where(op), TSR_DIAG_TESSERA_ATTRIBUTE,
                       "%s%s: %s has no attribute '%s'; known are %s", tsr_op_name(op), symbol,
                       owner, name, all);
    return false;
}

static bool check_own(MlirOperation op, const char *owner, const char *const *names) {
    bool done = true;
    for (intptr_t i = 0; i < mlirOperationGetNumDiscardableAttributes(op); i++)
        done = check_known(op, owner, mlirOperationGetDiscardableAttribute(op, i), names) && done;
    return done;
}

/* `list`: "arg_attrs", "res_attrs". */
static bool check_port_names(MlirOperation func, const char *list, const char *what,
                             const char *const *names) {
    MlirAttribute all = tsr_op_attr(func, list);
    char owner[32];
    bool done = true;
    if (mlirAttributeIsNull(all) || !mlirAttributeIsAArray(all)) return true;
    for (intptr_t i = 0; i < mlirArrayAttrGetNumElements(all); i++) {
        MlirAttribute one = mlirArrayAttrGetElement(all, i);
        snprintf(owner, sizeof owner, "%s %zd", what, (ssize_t)i);
        for (intptr_t k = 0;
             mlirAttributeIsADictionary(one) && k < mlirDictionaryAttrGetNumElements(one); k++)
            done = check_known(func, owner, mlirDictionaryAttrGetElement(one, k), names) && done;
    }
    return done;
}

static MlirWalkResult check_inner(MlirOperation op, void *user) {
    bool *done = user;
    if (tsr_op_is(op, TSR_FUNC_CALL))
        *done = check_own(op, "a call", of_call) && *done;
    else if (!tsr_op_is(op, TSR_FUNC_FUNC))
        *done = check_own(op, "it", of_op) && *done;
    return MlirWalkResultAdvance;
}

static bool check_attributes(MlirModule module, bool scheduled) {
    bool done = check_own(mlirModuleGetOperation(module), "a module", of_module);
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        if (is_beside(func, scheduled)) continue;
        done = check_own(func, "a function", of_func) && done;
        done = check_port_names(func, "arg_attrs", "argument", of_argument) && done;
        done = check_port_names(func, "res_attrs", "result", of_result) && done;
        mlirOperationWalk(func, check_inner, &done, MlirWalkPreOrder);
    }
    return done;
}

/* ---- all ------------------------------------------------------------------------------------- */

static MlirWalkResult declare(MlirOperation op, void *user) {
    bool *done = user;
    tsr_op id = tsr_op_of(op);
    if ((id == TSR_GRAPH_PARAM || id == TSR_GRAPH_OPT_STATE) && !is_declared_only(op))
        *done = check_declaration(op) && *done;
    return MlirWalkResultAdvance;
}

static bool check_declarations(MlirModule module) {
    bool done = true;
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        if (tsr_op_has_body(func)) mlirOperationWalk(func, declare, &done, MlirWalkPreOrder);
    }
    return done;
}

bool tsr_graph_verify(MlirModule module, bool scheduled) {
    tsr_arena arena = {0};
    tsr_ctx ctx = {0};
    tsr_graph_tensor *tensors;
    size_t count;
    bool done = true;
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) { done = check_func(func, scheduled) && done; }
    done = done && check_attributes(module, scheduled);
    done = done && check_declarations(module);
    done = done && tsr_graph_tensors(&ctx, module, &arena, &tensors, &count).code == TSR_OK &&
           check_program(module, tensors, count, &arena);
    if (done) TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
            if (!is_beside(func, scheduled)) done = check_entry(func, &arena) && done;
        }
    tsr_arena_finish(&arena);
    return done;
}

bool tsr_pass_verify(MlirModule module) {
    return tsr_graph_verify(module, false) && tsr_graph_check_called(module);
}
