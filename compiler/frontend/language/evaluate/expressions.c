/* SPDX-License-Identifier: Apache-2.0
 *
 * Expressions and comprehensions.
 */
#include "compiler/frontend/language/evaluate/run.h"
#include "runtime/base/suggest.h"

#include <string.h>

static tsr_value evaluate_constant(tsr_evaluator *e, const tsr_ast *node) {
    const tsr_ast_field *value = &node->field[TSR_AST_CONSTANT_VALUE];
    (void)e;
    switch ((tsr_constant_kind)node->constant) {
    case TSR_CONSTANT_NONE:
        return TSR_NONE;
    case TSR_CONSTANT_TRUE:
    case TSR_CONSTANT_FALSE:
        return tsr_value_bool(node->constant == TSR_CONSTANT_TRUE);
    case TSR_CONSTANT_ELLIPSIS:
        return (tsr_value){.kind = TSR_VALUE_ELLIPSIS};
    case TSR_CONSTANT_INTEGER:
        return tsr_value_integer(value->integer);
    case TSR_CONSTANT_FLOAT:
        return tsr_value_real(value->real);
    case TSR_CONSTANT_STRING:
        return (tsr_value){.kind = TSR_VALUE_TEXT, .text = &value->text};
    default:
        return TSR_POISON; /* refused before */
    }
}

static tsr_value evaluate_list(tsr_evaluator *e, const tsr_ast *node) {
    const tsr_ast_list *elts = &node->field[TSR_AST_LIST_ELTS].list;
    bool tuple = node->kind == TSR_AST_TUPLE, failed = false;
    tsr_value list =
        tsr_value_list(e->arena, tuple ? TSR_VALUE_TUPLE : TSR_VALUE_LIST, elts->count);
    if (!list.kind) return tsr_evaluate_no_memory(e);
    for (size_t i = 0; i < elts->count; i++) {
        tsr_value item = tsr_evaluate_expression(e, elts->items[i]);
        failed = failed || !item.kind;
        list.list->items[list.list->count++] = item;
    }
    return failed ? TSR_POISON : list;
}

static tsr_value evaluate_dict(tsr_evaluator *e, const tsr_ast *node) {
    const tsr_ast_list *keys = &node->field[TSR_AST_DICT_KEYS].list;
    tsr_value dict = tsr_value_dict(e->arena);
    if (!dict.kind) return tsr_evaluate_no_memory(e);
    for (size_t i = 0; i < keys->count; i++) {
        tsr_value key = tsr_evaluate_expression(e, keys->items[i]);
        tsr_value value =
            tsr_evaluate_expression(e, node->field[TSR_AST_DICT_VALUES].list.items[i]);
        if (!key.kind || !value.kind) return TSR_POISON;
        tsr_evaluate_set_key(e, dict.dict, key, value, keys->items[i]->span);
        if (e->stopped) return TSR_POISON;
    }
    return dict;
}

static tsr_value evaluate_logic(tsr_evaluator *e, const tsr_ast *node) {
    const tsr_ast_list *values = &node->field[TSR_AST_BOOL_OP_VALUES].list;
    bool and = node->field[TSR_AST_BOOL_OP_OP].op == TSR_OPERATOR_AND, truth;
    tsr_value v = TSR_POISON;
    for (size_t i = 0; i < values->count; i++) {
        v = tsr_evaluate_expression(e, values->items[i]);
        if (i + 1 == values->count) break;
        if (!tsr_evaluate_truth(e, v, values->items[i]->span, &truth)) return TSR_POISON;
        if (truth != and) break;
    }
    return v;
}

static tsr_value evaluate_compare(tsr_evaluator *e, const tsr_ast *node) {
    const tsr_ast_text *ops = &node->field[TSR_AST_COMPARE_OPS].text;
    tsr_value left = tsr_evaluate_expression(e, node->field[TSR_AST_COMPARE_LEFT].node);
    tsr_value result = TSR_POISON;
    for (size_t i = 0; i < ops->size_bytes; i++) {
        tsr_value right =
            tsr_evaluate_expression(e, node->field[TSR_AST_COMPARE_COMPARATORS].list.items[i]);
        bool truth;
        result = tsr_evaluate_binary(e, (tsr_operator)ops->bytes[i], left, right, node->span);
        if (i + 1 == ops->size_bytes) break;
        if (!tsr_evaluate_truth(e, result, node->span, &truth)) return TSR_POISON;
        if (!truth) break;
        left = right;
    }
    return result;
}

static tsr_value evaluate_slice(tsr_evaluator *e, const tsr_ast *node) {
    tsr_slice *slice = TSR_NEW(e->arena, tsr_slice, 1);
    if (!slice) return tsr_evaluate_no_memory(e);
    const tsr_ast *lower = node->field[TSR_AST_SLICE_LOWER].node;
    const tsr_ast *upper = node->field[TSR_AST_SLICE_UPPER].node;
    const tsr_ast *step = node->field[TSR_AST_SLICE_STEP].node;
    slice->lower = lower ? tsr_evaluate_expression(e, lower) : TSR_NONE;
    slice->upper = upper ? tsr_evaluate_expression(e, upper) : TSR_NONE;
    slice->step = step ? tsr_evaluate_expression(e, step) : TSR_NONE;
    if (!slice->lower.kind || !slice->upper.kind || !slice->step.kind) return TSR_POISON;
    return tsr_evaluate_object(e, &tsr_slice_class, slice);
}

static bool append_value(tsr_evaluator *e, const tsr_ast *node, tsr_buffer *out) {
    const tsr_ast *spec = node->field[TSR_AST_FORMATTED_VALUE_SPEC].node;
    tsr_value value = tsr_evaluate_expression(e, node->field[TSR_AST_FORMATTED_VALUE_VALUE].node);
    tsr_value text = spec ? tsr_evaluate_expression(e, spec) : TSR_NONE;
    if (!value.kind || !text.kind) return false;
    return tsr_evaluate_format(e, value, node->field[TSR_AST_FORMATTED_VALUE_CONVERSION].integer,
                               spec ? text.text : NULL, node->field[0].node->span, out);
}

static tsr_value evaluate_joined(tsr_evaluator *e, const tsr_ast *node) {
    const tsr_ast_list *values = &node->field[TSR_AST_JOINED_STR_VALUES].list;
    tsr_buffer out = {0};
    bool done = true;
    for (size_t i = 0; i < values->count && done; i++) {
        if (out.size_bytes / 16 > TSR_LANGUAGE_STEPS_MAX) break; /* refused below */
        const tsr_ast *part = values->items[i];
        const tsr_ast_text *text = &part->field[TSR_AST_CONSTANT_VALUE].text;
        if (part->kind == TSR_AST_CONSTANT)
            tsr_buffer_append(&out, text->bytes, text->size_bytes);
        else
            done = append_value(e, part, &out);
    }
    tsr_value v = TSR_POISON;
    if (done && tsr_evaluate_charge(e, out.size_bytes / 16, node->span)) {
        v = out.failed ? TSR_POISON : tsr_value_text(e->arena, out.bytes, out.size_bytes);
        if (!v.kind) tsr_evaluate_no_memory(e);
    }
    tsr_buffer_finish(&out);
    return v;
}

/* ---- comprehensions ---- */

typedef struct comprehension {
    const tsr_ast *node;
    const tsr_ast_list *generators;
    tsr_value out;
} comprehension;

static void collect(tsr_evaluator *e, comprehension *c) {
    if (c->node->kind == TSR_AST_LIST_COMP) {
        tsr_value item = tsr_evaluate_expression(e, c->node->field[TSR_AST_LIST_COMP_ELT].node);
        if (!item.kind) c->out = TSR_POISON;
        if (c->out.kind && !tsr_list_append(e->arena, c->out.list, item)) tsr_evaluate_no_memory(e);
        return;
    }
    const tsr_ast *node = c->node->field[TSR_AST_DICT_COMP_KEY].node;
    tsr_value key = tsr_evaluate_expression(e, node);
    tsr_value value = tsr_evaluate_expression(e, c->node->field[TSR_AST_DICT_COMP_VALUE].node);
    if (!key.kind || !value.kind) c->out = TSR_POISON;
    if (c->out.kind) tsr_evaluate_set_key(e, c->out.dict, key, value, node->span);
}

static bool passes(tsr_evaluator *e, const tsr_ast_list *ifs, bool *out_failed) {
    for (size_t i = 0; i < ifs->count; i++) {
        bool truth;
        tsr_value v = tsr_evaluate_expression(e, ifs->items[i]);
        *out_failed = !tsr_evaluate_truth(e, v, ifs->items[i]->span, &truth);
        if (*out_failed || !truth) return false;
    }
    return true;
}

static void run_generator(tsr_evaluator *e, comprehension *c, size_t index) {
    if (index == c->generators->count) {
        collect(e, c);
        return;
    }
    const tsr_ast *g = c->generators->items[index];
    const tsr_ast *iter = g->field[TSR_AST_COMPREHENSION_ITER].node;
    size_t count = 0;
    const tsr_value *items =
        tsr_evaluate_items(e, tsr_evaluate_expression(e, iter), iter->span, &count);
    if (!items) c->out = TSR_POISON;
    tsr_for_loop loop = {.target = g->field[TSR_AST_COMPREHENSION_TARGET].node,
                         .outer = e->frame->loop};
    e->frame->loop = &loop;
    for (size_t i = 0; items && i < count && c->out.kind && !e->stopped; i++) {
        bool failed = false;
        loop.item = items[i];
        if (!tsr_evaluate_charge(e, 1, g->span)) break;
        tsr_evaluate_assign(e, loop.target, items[i]);
        if (passes(e, &g->field[TSR_AST_COMPREHENSION_IFS].list, &failed))
            run_generator(e, c, index + 1);
        if (failed) c->out = TSR_POISON;
    }
    e->frame->loop = loop.outer;
}

/* The names of a comprehension are its own: it runs in an activation inside the current one. */
static tsr_value evaluate_comprehension(tsr_evaluator *e, const tsr_ast *node,
                                        const tsr_ast_list *generators) {
    static const tsr_function no_function = {.name = "a comprehension"};
    bool list = node->kind == TSR_AST_LIST_COMP;
    comprehension c = {.node = node,
                       .generators = generators,
                       .out = list ? tsr_value_list(e->arena, TSR_VALUE_LIST, 0)
                                   : tsr_value_dict(e->arena)};
    if (!c.out.kind) return tsr_evaluate_no_memory(e);
    tsr_activation inner = *e->frame;
    inner.function = &no_function;
    inner.outer = e->frame->function ? e->frame : NULL;
    inner.locals = (tsr_scope){0};
    tsr_activation *before = e->frame;
    e->frame = &inner;
    run_generator(e, &c, 0);
    e->frame = before;
    return e->stopped ? TSR_POISON : c.out;
}

/* ---- other expressions ---- */

static void offer(void *to, const char *name) { tsr_suggest(to, name); }

/* The name is at the end of the span. */
static tsr_value unknown_attribute(tsr_evaluator *e, tsr_value a, const char *name, tsr_span span) {
    tsr_suggestion s = {.wrong = name};
    char text[TSR_SUGGESTION_TEXT_MAX];
    const char *const *names = a.kind == TSR_VALUE_OBJECT ? a.object->class->attributes : NULL;
    for (size_t i = 0; names && names[i]; i++) tsr_suggest(&s, names[i]);
    tsr_method_names(a, offer, &s);
    span.begin = span.end - (uint32_t)strlen(name);
    return tsr_evaluate_fail_fix(e, span, TSR_DIAG_EVALUATE_NAME, s.best,
                                 "%s has no attribute '%s'%s", tsr_value_type_name(a), name,
                                 tsr_suggestion_text(&s, text));
}

tsr_value tsr_evaluate_attribute(tsr_evaluator *e, tsr_value a, const char *name, tsr_span span) {
    if (!a.kind) return TSR_POISON;
    size_t errors = e->report->error_count;
    tsr_value v = TSR_POISON;
    if (a.kind == TSR_VALUE_OBJECT && a.object->class->attribute)
        v = a.object->class->attribute(e, a, name, span);
    if (!v.kind) v = tsr_method_find(e, a, name);
    if (v.kind || e->stopped || e->report->error_count > errors) return v;
    return unknown_attribute(e, a, name, span);
}

static tsr_value evaluate_conditional(tsr_evaluator *e, const tsr_ast *node) {
    const tsr_ast *test = node->field[TSR_AST_IF_EXP_TEST].node;
    bool truth;
    if (!tsr_evaluate_truth(e, tsr_evaluate_expression(e, test), test->span, &truth))
        return TSR_POISON;
    return tsr_evaluate_expression(
        e, node->field[truth ? TSR_AST_IF_EXP_BODY : TSR_AST_IF_EXP_ORELSE].node);
}

static tsr_value evaluate_node(tsr_evaluator *e, const tsr_ast *node) {
    const tsr_ast_field *f = node->field;
    switch ((tsr_ast_kind)node->kind) {
    case TSR_AST_CONSTANT:
        return evaluate_constant(e, node);
    case TSR_AST_NAME:
        return tsr_evaluate_name(e, f[TSR_AST_NAME_ID].text.bytes, node->span);
    case TSR_AST_TUPLE:
    case TSR_AST_LIST:
        return evaluate_list(e, node);
    case TSR_AST_DICT:
        return evaluate_dict(e, node);
    case TSR_AST_LIST_COMP:
        return evaluate_comprehension(e, node, &f[TSR_AST_LIST_COMP_GENERATORS].list);
    case TSR_AST_DICT_COMP:
        return evaluate_comprehension(e, node, &f[TSR_AST_DICT_COMP_GENERATORS].list);
    case TSR_AST_JOINED_STR:
        return evaluate_joined(e, node);
    case TSR_AST_BOOL_OP:
        return evaluate_logic(e, node);
    case TSR_AST_COMPARE:
        return evaluate_compare(e, node);
    case TSR_AST_IF_EXP:
        return evaluate_conditional(e, node);
    case TSR_AST_UNARY_OP:
        return tsr_evaluate_unary(e, f[TSR_AST_UNARY_OP_OP].op,
                                  tsr_evaluate_expression(e, f[TSR_AST_UNARY_OP_OPERAND].node),
                                  node->span);
    case TSR_AST_BIN_OP: {
        tsr_value left = tsr_evaluate_expression(e, f[TSR_AST_BIN_OP_LEFT].node);
        tsr_value right = tsr_evaluate_expression(e, f[TSR_AST_BIN_OP_RIGHT].node);
        return tsr_evaluate_binary(e, f[TSR_AST_BIN_OP_OP].op, left, right, node->span);
    }
    case TSR_AST_CALL:
        return tsr_evaluate_call_node(e, node);
    case TSR_AST_ATTRIBUTE:
        return tsr_evaluate_attribute(e,
                                      tsr_evaluate_expression(e, f[TSR_AST_ATTRIBUTE_VALUE].node),
                                      f[TSR_AST_ATTRIBUTE_ATTR].text.bytes, node->span);
    case TSR_AST_SUBSCRIPT: {
        tsr_value a = tsr_evaluate_expression(e, f[TSR_AST_SUBSCRIPT_VALUE].node);
        tsr_value index = tsr_evaluate_expression(e, f[TSR_AST_SUBSCRIPT_SLICE].node);
        return tsr_evaluate_subscript(e, a, index, node->span);
    }
    case TSR_AST_SLICE:
        return evaluate_slice(e, node);
    default:
        return TSR_POISON; /* refused before */
    }
}

tsr_value tsr_evaluate_expression(tsr_evaluator *e, const tsr_ast *node) {
    if (!tsr_evaluate_charge(e, 1, node->span)) return TSR_POISON;
    if (e->depth >= 2 * TSR_LANGUAGE_DEPTH_MAX) {
        tsr_evaluate_fail(e, node->span, TSR_DIAG_EVALUATE_LIMIT,
                          "expressions and calls are nested more deeply than %d",
                          2 * TSR_LANGUAGE_DEPTH_MAX);
        e->stopped = true;
        return TSR_POISON;
    }
    e->depth++;
    tsr_value v = evaluate_node(e, node);
    e->depth--;
    return e->stopped ? TSR_POISON : v;
}
