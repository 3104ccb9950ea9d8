/* SPDX-License-Identifier: Apache-2.0
 *
 * Statements: assignments, definitions, branches, loops.
 */
#include "compiler/frontend/language/evaluate/run.h"
#include "runtime/base/array.h"

#include <string.h>

/* ---- assignments ---- */

static void assign_items(tsr_evaluator *e, const tsr_ast *target, tsr_value value) {
    const tsr_ast_list *targets = &target->field[TSR_AST_TUPLE_ELTS].list;
    size_t count = 0;
    const tsr_value *items = tsr_evaluate_items(e, value, target->span, &count);
    if (items && count != targets->count) {
        tsr_evaluate_fail(e, target->span, TSR_DIAG_EVALUATE_VALUE,
                          "%zu names stand for %zu values", targets->count, count);
        items = NULL;
    }
    for (size_t i = 0; i < targets->count; i++)
        tsr_evaluate_assign(e, targets->items[i], items ? items[i] : TSR_POISON);
}

static void assign_subscript(tsr_evaluator *e, const tsr_ast *target, tsr_value value) {
    tsr_value a = tsr_evaluate_expression(e, target->field[TSR_AST_SUBSCRIPT_VALUE].node);
    tsr_value index = tsr_evaluate_expression(e, target->field[TSR_AST_SUBSCRIPT_SLICE].node);
    int64_t at;
    if (!a.kind || !index.kind || !value.kind) return;
    if (a.kind == TSR_VALUE_DICT) {
        if (!tsr_evaluate_can_change(e, a, target->span)) return;
        tsr_evaluate_set_key(e, a.dict, index, value, target->span);
    } else if (tsr_value_is_traced(a)) {
        tsr_evaluate_fail(e, target->span, TSR_DIAG_EVALUATE_TRACED,
                          "elements of a tensor cannot be assigned; where(condition, a, b) or "
                          "scatter_add(…) makes a new tensor");
    } else if (a.kind != TSR_VALUE_LIST || !tsr_value_as_integer(index, &at)) {
        tsr_evaluate_fail(e, target->span, TSR_DIAG_EVALUATE_TYPE,
                          "an item of %s at %s cannot be assigned to", tsr_value_type_name(a),
                          tsr_value_type_name(index));
    } else {
        int64_t from = at < 0 ? at + (int64_t)a.list->count : at;
        if (from < 0 || (uint64_t)from >= a.list->count)
            tsr_evaluate_subscript(e, a, index, target->span); /* says so */
        else if (tsr_evaluate_can_change(e, a, target->span))
            a.list->items[from] = value;
    }
}

void tsr_evaluate_assign(tsr_evaluator *e, const tsr_ast *target, tsr_value value) {
    switch ((tsr_ast_kind)target->kind) {
    case TSR_AST_NAME:
        tsr_evaluate_bind(e, tsr_evaluate_scope(e), target->field[TSR_AST_NAME_ID].text.bytes,
                          value, target->span);
        break;
    case TSR_AST_TUPLE:
    case TSR_AST_LIST:
        assign_items(e, target, value);
        break;
    case TSR_AST_SUBSCRIPT:
        assign_subscript(e, target, value);
        break;
    default:
        tsr_evaluate_fail(e, target->span, TSR_DIAG_EVALUATE_TYPE,
                          "values have no attributes that can be assigned to");
    }
}

static void augment(tsr_evaluator *e, const tsr_ast *s) {
    const tsr_ast *target = s->field[TSR_AST_AUG_ASSIGN_TARGET].node;
    tsr_operator op = s->field[TSR_AST_AUG_ASSIGN_OP].op;
    tsr_value old = tsr_evaluate_expression(e, target);
    tsr_value by = tsr_evaluate_expression(e, s->field[TSR_AST_AUG_ASSIGN_VALUE].node);
    size_t count;
    if (old.kind == TSR_VALUE_LIST && op == TSR_OPERATOR_ADD && by.kind) { /* in place */
        if (!tsr_evaluate_can_change(e, old, s->span)) return;
        const tsr_value *items = tsr_evaluate_items(e, by, s->span, &count);
        for (size_t i = 0; items && i < count; i++)
            if (!tsr_list_append(e->arena, old.list, items[i])) tsr_evaluate_no_memory(e);
        return;
    }
    tsr_evaluate_assign(e, target, tsr_evaluate_binary(e, op, old, by, s->span));
}

/* ---- definitions ---- */

typedef struct names {
    tsr_evaluator *e;
    const char **items;
    size_t count, capacity;
} names;

static void add_name(names *n, const char *name) {
    for (size_t i = 0; i < n->count; i++)
        if (strcmp(n->items[i], name) == 0) return;
    if (n->count == n->capacity) {
        const char **items = TSR_ARENA_GROW(n->e->arena, n->items, &n->capacity, 16);
        if (!items) {
            tsr_evaluate_no_memory(n->e);
            return;
        }
        n->items = items;
    }
    n->items[n->count++] = name;
}

/* Names that statements assign to; those of functions and comprehensions in them are their own. */
static void find_locals(void *user, tsr_ast *node) {
    names *n = user;
    if (node->kind == TSR_AST_NAME && node->context == TSR_AST_STORE)
        add_name(n, node->field[TSR_AST_NAME_ID].text.bytes);
    if (node->kind == TSR_AST_FUNCTION_DEF)
        add_name(n, node->field[TSR_AST_FUNCTION_DEF_NAME].text.bytes);
    if (node->kind == TSR_AST_FUNCTION_DEF || node->kind == TSR_AST_LIST_COMP ||
        node->kind == TSR_AST_DICT_COMP)
        return;
    tsr_ast_visit(node, find_locals, n);
}

static bool evaluate_defaults(tsr_evaluator *e, const tsr_ast_list *list, const tsr_value **out) {
    tsr_value *values = TSR_NEW(e->arena, tsr_value, list->count + 1);
    bool failed = !values;
    if (failed) tsr_evaluate_no_memory(e);
    for (size_t i = 0; !failed && i < list->count; i++) {
        if (!list->items[i]) continue; /* POISON: there is no default */
        values[i] = tsr_evaluate_expression(e, list->items[i]);
        failed = !values[i].kind;
    }
    *out = values;
    return !failed;
}

static bool check_parameters(tsr_evaluator *e, const tsr_ast_field *args) {
    const tsr_ast_list *lists[] = {&args[TSR_AST_ARGUMENTS_ARGS].list,
                                   &args[TSR_AST_ARGUMENTS_KWONLY].list};
    names n = {.e = e};
    for (size_t k = 0; k < TSR_COUNT(lists); k++)
        for (size_t i = 0; i < lists[k]->count; i++) {
            const tsr_ast *arg = lists[k]->items[i];
            size_t before = n.count;
            add_name(&n, arg->field[TSR_AST_ARG_NAME].text.bytes);
            if (n.count > before) continue;
            tsr_evaluate_fail(e, arg->span, TSR_DIAG_EVALUATE_NAME,
                              "the function has two parameters '%s'",
                              arg->field[TSR_AST_ARG_NAME].text.bytes);
            return false;
        }
    return true;
}

/* list[…] and dict[…] say nothing that is checked. */
static bool is_container(const tsr_ast *node) {
    static const char *const types[] = {"dict", "list", "tuple"};
    const tsr_ast *of =
        node->kind == TSR_AST_SUBSCRIPT ? node->field[TSR_AST_SUBSCRIPT_VALUE].node : NULL;
    for (size_t i = 0; of && of->kind == TSR_AST_NAME && i < TSR_COUNT(types); i++)
        if (strcmp(of->field[TSR_AST_NAME_ID].text.bytes, types[i]) == 0) return true;
    return false;
}

/* POISON where there is none. False, reported, if it has no value. */
static bool evaluate_annotation(tsr_evaluator *e, const tsr_ast *node, tsr_value *out) {
    if (!node || is_container(node)) return true;
    *out = tsr_evaluate_expression(e, node);
    return out->kind != TSR_VALUE_POISON;
}

static bool evaluate_annotations(tsr_evaluator *e, tsr_function *f) {
    const tsr_ast_field *args = f->node->field[TSR_AST_FUNCTION_DEF_ARGS].node->field;
    const tsr_ast_list *lists[] = {&args[TSR_AST_ARGUMENTS_ARGS].list,
                                   &args[TSR_AST_ARGUMENTS_KWONLY].list};
    tsr_value *values = TSR_NEW(e->arena, tsr_value, tsr_function_parameter_count(f) + 1);
    size_t at = 0;
    if (!values) return tsr_evaluate_no_memory(e), false;
    for (size_t k = 0; k < TSR_COUNT(lists); k++)
        for (size_t i = 0; i < lists[k]->count; i++)
            if (!evaluate_annotation(e, lists[k]->items[i]->field[TSR_AST_ARG_ANNOTATION].node,
                                     &values[at++]))
                return false;
    f->annotations = values;
    return evaluate_annotation(e, f->node->field[TSR_AST_FUNCTION_DEF_RETURNS].node, &f->returns);
}

static tsr_value make_function(tsr_evaluator *e, const tsr_ast *s) {
    const tsr_ast_field *args = s->field[TSR_AST_FUNCTION_DEF_ARGS].node->field;
    tsr_function *f = TSR_NEW(e->arena, tsr_function, 1);
    names locals = {.e = e};
    if (!f) return tsr_evaluate_no_memory(e);
    if (!check_parameters(e, args)) return TSR_POISON;
    *f = (tsr_function){.name = s->field[TSR_AST_FUNCTION_DEF_NAME].text.bytes,
                        .node = s,
                        .source = e->frame->source,
                        .globals = e->frame->globals,
                        .outer = e->frame->function ? e->frame : NULL};
    if (!evaluate_defaults(e, &args[TSR_AST_ARGUMENTS_DEFAULTS].list, &f->defaults) ||
        !evaluate_defaults(e, &args[TSR_AST_ARGUMENTS_KW_DEFAULTS].list, &f->keyword_defaults) ||
        !evaluate_annotations(e, f))
        return TSR_POISON;
    const tsr_ast_list *body = &s->field[TSR_AST_FUNCTION_DEF_BODY].list;
    for (size_t i = 0; i < body->count; i++) find_locals(&locals, body->items[i]);
    f->locals = locals.items;
    f->local_count = locals.count;
    return (tsr_value){.kind = TSR_VALUE_FUNCTION, .function = f};
}

static tsr_value apply_decorator(tsr_evaluator *e, const tsr_ast *node, tsr_value v) {
    tsr_value decorator = tsr_evaluate_expression(e, node);
    tsr_argument arg = {.value = v, .span = node->span};
    tsr_call call = {.args = &arg, .count = 1, .span = node->span, .callee = "the decorator"};
    return decorator.kind && v.kind ? tsr_evaluate_call(e, decorator, &call) : TSR_POISON;
}

/* @a @b on one line: b is applied first. */
static tsr_value decorate(tsr_evaluator *e, const tsr_ast *node, tsr_value v) {
    while (node->kind == TSR_AST_BIN_OP &&
           node->field[TSR_AST_BIN_OP_OP].op == TSR_OPERATOR_MATRIX) {
        v = apply_decorator(e, node->field[TSR_AST_BIN_OP_RIGHT].node, v);
        node = node->field[TSR_AST_BIN_OP_LEFT].node;
    }
    return apply_decorator(e, node, v);
}

static void define(tsr_evaluator *e, const tsr_ast *s) {
    const tsr_ast_list *decorators = &s->field[TSR_AST_FUNCTION_DEF_DECORATORS].list;
    tsr_value v = make_function(e, s);
    for (size_t i = decorators->count; i > 0; i--) v = decorate(e, decorators->items[i - 1], v);
    tsr_evaluate_bind(e, tsr_evaluate_scope(e), s->field[TSR_AST_FUNCTION_DEF_NAME].text.bytes, v,
                      s->span);
}

/* ---- statements ---- */

static tsr_outcome run_if(tsr_evaluator *e, const tsr_ast *s) {
    const tsr_ast *test = s->field[TSR_AST_IF_TEST].node;
    bool truth;
    if (!tsr_evaluate_truth(e, tsr_evaluate_expression(e, test), test->span, &truth))
        return TSR_OUTCOME_NEXT;
    return tsr_evaluate_block(e, &s->field[truth ? TSR_AST_IF_BODY : TSR_AST_IF_ORELSE].list);
}

static tsr_outcome run_for(tsr_evaluator *e, const tsr_ast *s) {
    const tsr_ast *iter = s->field[TSR_AST_FOR_ITER].node;
    size_t count = 0, errors = e->report->error_count;
    tsr_outcome end = TSR_OUTCOME_NEXT;
    const tsr_value *items =
        tsr_evaluate_items(e, tsr_evaluate_expression(e, iter), iter->span, &count);
    tsr_for_loop loop = {.target = s->field[TSR_AST_FOR_TARGET].node, .outer = e->frame->loop};
    e->frame->loop = &loop;
    for (size_t i = 0; items && i < count && end == TSR_OUTCOME_NEXT; i++) {
        loop.item = items[i];
        if (!tsr_evaluate_charge(e, 1, s->span)) break;
        tsr_evaluate_assign(e, loop.target, items[i]);
        end = tsr_evaluate_block(e, &s->field[TSR_AST_FOR_BODY].list);
        if (e->report->error_count > errors) break; /* the other steps would say the same */
    }
    e->frame->loop = loop.outer;
    return end;
}

static tsr_outcome run_with(tsr_evaluator *e, const tsr_ast *s) {
    const tsr_ast_list *items = &s->field[TSR_AST_WITH_ITEMS].list;
    tsr_value *entered = TSR_NEW(e->arena, tsr_value, items->count);
    size_t count = 0;
    if (!entered) return tsr_evaluate_no_memory(e), TSR_OUTCOME_NEXT;
    for (; count < items->count; count++) {
        const tsr_ast *node = items->items[count]->field[TSR_AST_WITHITEM_CONTEXT].node;
        const tsr_ast *vars = items->items[count]->field[TSR_AST_WITHITEM_VARS].node;
        tsr_value v = tsr_evaluate_expression(e, node);
        bool can = v.kind == TSR_VALUE_OBJECT && v.object->class->enter;
        if (v.kind && !can)
            tsr_evaluate_fail(e, node->span, TSR_DIAG_EVALUATE_TYPE, "%s cannot stand in 'with'",
                              tsr_value_type_name(v));
        if (!can || !v.object->class->enter(e, v, node->span)) break;
        entered[count] = v;
        if (vars) tsr_evaluate_assign(e, vars, v);
    }
    tsr_outcome end = tsr_evaluate_block(e, &s->field[TSR_AST_WITH_BODY].list);
    while (count--) entered[count].object->class->leave(e, entered[count]);
    return end;
}

static void run_assert(tsr_evaluator *e, const tsr_ast *s) {
    const tsr_ast *test = s->field[TSR_AST_ASSERT_TEST].node,
                  *msg = s->field[TSR_AST_ASSERT_MSG].node;
    bool truth;
    tsr_buffer text = {0};
    if (!tsr_evaluate_truth(e, tsr_evaluate_expression(e, test), test->span, &truth) || truth)
        return;
    tsr_value said = msg ? tsr_evaluate_expression(e, msg) : TSR_POISON;
    if (said.kind && tsr_evaluate_measure(e, said, s->span)) tsr_value_str(said, &text);
    tsr_evaluate_fail(e, test->span, TSR_DIAG_EVALUATE_ASSERT, "%s",
                      text.bytes ? text.bytes : "the assertion does not hold");
    tsr_buffer_finish(&text);
}

/* A call may have an effect; a text is a comment. */
static void run_expression(tsr_evaluator *e, const tsr_ast *s) {
    const tsr_ast *node = s->field[TSR_AST_EXPR_VALUE].node;
    if (node->kind == TSR_AST_CONSTANT &&
        (node->constant == TSR_CONSTANT_STRING || node->constant == TSR_CONSTANT_ELLIPSIS))
        return;
    if (node->kind != TSR_AST_CALL)
        tsr_evaluate_fail(e, node->span, TSR_DIAG_EVALUATE_EFFECT,
                          "the value of this expression is not used");
    else
        tsr_evaluate_expression(e, node);
}

static void run_assignment(tsr_evaluator *e, const tsr_ast *s) {
    const tsr_ast_list *targets = &s->field[TSR_AST_ASSIGN_TARGETS].list;
    tsr_value v = tsr_evaluate_expression(e, s->field[TSR_AST_ASSIGN_VALUE].node);
    for (size_t i = 0; i < targets->count; i++) tsr_evaluate_assign(e, targets->items[i], v);
}

static tsr_outcome run_statement(tsr_evaluator *e, const tsr_ast *s) {
    const tsr_ast *value;
    switch ((tsr_ast_kind)s->kind) {
    case TSR_AST_FUNCTION_DEF:
        define(e, s);
        break;
    case TSR_AST_RETURN:
        value = s->field[TSR_AST_RETURN_VALUE].node;
        if (!e->frame->function) {
            tsr_evaluate_fail(e, s->span, TSR_DIAG_EVALUATE_TYPE,
                              "'return' stands outside a function");
            break;
        }
        e->frame->returned = value ? tsr_evaluate_expression(e, value) : TSR_NONE;
        return TSR_OUTCOME_RETURNED;
    case TSR_AST_ASSIGN:
        run_assignment(e, s);
        break;
    case TSR_AST_AUG_ASSIGN:
        augment(e, s);
        break;
    case TSR_AST_ANN_ASSIGN:
        value = s->field[TSR_AST_ANN_ASSIGN_VALUE].node;
        if (value)
            tsr_evaluate_assign(e, s->field[TSR_AST_ANN_ASSIGN_TARGET].node,
                                tsr_evaluate_expression(e, value));
        break;
    case TSR_AST_FOR:
        return run_for(e, s);
    case TSR_AST_IF:
        return run_if(e, s);
    case TSR_AST_WITH:
        return run_with(e, s);
    case TSR_AST_ASSERT:
        run_assert(e, s);
        break;
    case TSR_AST_IMPORT:
    case TSR_AST_IMPORT_FROM:
        tsr_evaluate_import(e, s);
        break;
    case TSR_AST_EXPR:
        run_expression(e, s);
        break;
    default:
        break; /* pass; what was refused before */
    }
    return TSR_OUTCOME_NEXT;
}

tsr_outcome tsr_evaluate_block(tsr_evaluator *e, const tsr_ast_list *statements) {
    tsr_outcome end = TSR_OUTCOME_NEXT;
    for (size_t i = 0; i < statements->count && end == TSR_OUTCOME_NEXT && !e->stopped; i++)
        if (tsr_evaluate_charge(e, 1, statements->items[i]->span))
            end = run_statement(e, statements->items[i]);
    return end;
}

bool tsr_evaluate_module(tsr_evaluator *e, const tsr_source *source, const tsr_ast *module,
                         tsr_scope *globals) {
    tsr_activation frame = {.source = source, .globals = globals};
    size_t errors = e->report->error_count;
    tsr_activation *importer = e->frame;
    e->frame = &frame;
    tsr_evaluate_block(e, &module->field[TSR_AST_MODULE_BODY].list);
    e->frame = importer;
    return e->report->error_count == errors && !e->stopped;
}
