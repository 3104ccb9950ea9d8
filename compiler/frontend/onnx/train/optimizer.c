/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/frontend/onnx/train/optimizer.h"

#include "compiler/process/guard.h"
#include "runtime/base/array.h"
#include "runtime/base/suggest.h"

#include <inttypes.h>
#include <string.h>

static const struct {
    const char *optimizer, *field;
    bool is_required;
} fields[] = {
#define X(optimizer_name, field_name, required)                                                    \
    {.optimizer = optimizer_name, .field = field_name, .is_required = required},
#include "compiler/frontend/onnx/train/optimizer.def"
#undef X
};

/* Members of tessera.minimize beside the optimizer. */
static const char clip_norm[] = "clip_norm", schedule[] = "schedule";
static const struct {
    const char *name;
    bool is_integer;
} schedule_members[] = {{"warmup_steps", true}, {"total_steps", true}, {"final", false}};

/* The value of an argument; NULL: not given. */
static const tsr_expression *find_value(const tsr_expression *call, const char *name) {
    for (const tsr_expression *a = call->first; a; a = a->next)
        if (a->key && strcmp(a->key, name) == 0) return a;
    return NULL;
}

static bool has_field(const char *optimizer, const char *name) {
    for (size_t i = 0; i < TSR_COUNT(fields); i++)
        if (strcmp(fields[i].optimizer, optimizer) == 0 &&
            (!name || strcmp(fields[i].field, name) == 0))
            return true;
    return false;
}

static bool is_member(const char *name) {
    for (size_t i = 0; i < TSR_COUNT(schedule_members); i++)
        if (strcmp(schedule_members[i].name, name) == 0) return true;
    return strcmp(name, clip_norm) == 0 || strcmp(name, schedule) == 0;
}

static bool refuse_optimizer(const tsr_expression_source *source, const tsr_expression *e) {
    char meant[TSR_SUGGESTION_TEXT_MAX];
    tsr_suggestion likely = {.wrong = e->name ? e->name : ""};
    tsr_buffer names = {0};
    for (size_t i = 0; i < TSR_COUNT(fields); i++) {
        if (i && strcmp(fields[i].optimizer, fields[i - 1].optimizer) == 0) continue;
        tsr_buffer_printf(&names, "%s%s", i ? ", " : "", fields[i].optimizer);
        tsr_suggest(&likely, fields[i].optimizer);
    }
    tsr_expression_fail(source, e->at, "expected a call of an optimizer (%s), as adamw(lr=1e-3)%s",
                        names.bytes ? names.bytes : "", tsr_suggestion_text(&likely, meant));
    tsr_buffer_finish(&names);
    return false;
}

static bool refuse_field(const tsr_expression_source *source, const tsr_expression *call,
                         const tsr_expression *argument) {
    char meant[TSR_SUGGESTION_TEXT_MAX];
    tsr_suggestion likely = {.wrong = argument->key};
    tsr_buffer names = {0};
    for (size_t i = 0; i < TSR_COUNT(fields); i++) {
        if (strcmp(fields[i].optimizer, call->name) != 0) continue;
        tsr_buffer_printf(&names, "%s%s", names.size_bytes ? ", " : "", fields[i].field);
        tsr_suggest(&likely, fields[i].field);
    }
    tsr_buffer_printf(&names, ", %s, %s", clip_norm, schedule);
    for (size_t i = 0; i < TSR_COUNT(schedule_members); i++)
        tsr_buffer_printf(&names, ", %s", schedule_members[i].name);
    tsr_expression_fail(source, argument->key_at, "'%s' has no attribute '%s'; it has %s%s",
                        call->name, argument->key, names.bytes ? names.bytes : "",
                        tsr_suggestion_text(&likely, meant));
    tsr_buffer_finish(&names);
    return false;
}

static bool check_arguments(const tsr_expression_source *source, const tsr_expression *call) {
    for (const tsr_expression *a = call->first; a; a = a->next) {
        if (!a->key) return tsr_expression_fail(source, a->at, "expected NAME=VALUE, as lr=1e-3");
        if (!has_field(call->name, a->key) && !is_member(a->key))
            return refuse_field(source, call, a);
        if (find_value(call, a->key) != a)
            return tsr_expression_fail(source, a->key_at, "'%s' is given twice", a->key);
        bool is_text = strcmp(a->key, schedule) == 0;
        if (is_text && a->kind != TSR_EXPRESSION_NAME)
            return tsr_expression_fail(source, a->at, "'%s' must be a text in double quotes",
                                       a->key);
        if (!is_text && a->kind != TSR_EXPRESSION_NUMBER)
            return tsr_expression_fail(source, a->at, "'%s' must be a number", a->key);
    }
    for (size_t i = 0; i < TSR_COUNT(fields); i++)
        if (fields[i].is_required && strcmp(fields[i].optimizer, call->name) == 0 &&
            !find_value(call, fields[i].field))
            return tsr_expression_fail(source, call->at, "'%s' needs '%s'", call->name,
                                       fields[i].field);
    return true;
}

/* MLIR reads a float only with a point, which this form always has. */
#define NUMBER "%.17e"

static MlirAttribute parse(const tsr_expression_source *source, tsr_buffer *text) {
    TSR_NEED(text->bytes);
    MlirAttribute attribute = mlirAttributeParseGet(source->context, tsr_ref(text->bytes));
    tsr_buffer_finish(text);
    return attribute;
}

static MlirAttribute make_optimizer(const tsr_expression_source *source,
                                    const tsr_expression *call) {
    tsr_buffer text = {0};
    const char *separator = "";
    tsr_buffer_printf(&text, "#tessera.%s<", call->name);
    for (const tsr_expression *a = call->first; a; a = a->next) {
        if (!has_field(call->name, a->key)) continue;
        tsr_buffer_printf(&text, "%s%s = " NUMBER, separator, a->key, a->number);
        separator = ", ";
    }
    tsr_buffer_text(&text, ">");
    return parse(source, &text);
}

/* Null if the call has no schedule. Its values are checked by tessera.minimize. */
static bool make_schedule(const tsr_expression_source *source, const tsr_expression *call,
                          MlirAttribute *out) {
    const tsr_expression *kind = find_value(call, schedule);
    tsr_buffer text = {0};
    *out = (MlirAttribute){NULL};
    if (kind && strpbrk(kind->name, "\"\\\n"))
        return tsr_expression_fail(source, kind->at,
                                   "'%s' must be \"cosine\", \"linear\" or "
                                   "\"constant\"",
                                   schedule);
    if (kind) tsr_buffer_printf(&text, "{kind = \"%s\"", kind->name);
    for (size_t i = 0; i < TSR_COUNT(schedule_members); i++) {
        const char *name = schedule_members[i].name;
        const tsr_expression *value = find_value(call, name);
        if (!value) continue;
        if (!kind || (schedule_members[i].is_integer && !value->is_integer)) {
            tsr_buffer_finish(&text);
            return tsr_expression_fail(source, kind ? value->at : value->key_at,
                                       kind ? "'%s' must be an integer"
                                            : "'%s' needs schedule=\"cosine\", \"linear\" or "
                                              "\"constant\"",
                                       name);
        }
        if (schedule_members[i].is_integer)
            tsr_buffer_printf(&text, ", %s = %" PRId64, name, value->integer);
        else
            tsr_buffer_printf(&text, ", %s = " NUMBER, name, value->number);
    }
    if (!kind) return true;
    tsr_buffer_text(&text, "}");
    *out = parse(source, &text);
    return !mlirAttributeIsNull(*out);
}

bool tsr_optimizer_read(const tsr_expression_source *source, tsr_arena *arena,
                        tsr_attr out_attrs[static TSR_OPTIMIZER_ATTRS_MAX], size_t *out_count) {
    const tsr_expression *call = tsr_expression_parse(source, arena);
    MlirAttribute optimizer, schedule_value;
    size_t count = 0;
    if (!call) return false;
    if (call->kind != TSR_EXPRESSION_CALL || !has_field(call->name, NULL))
        return refuse_optimizer(source, call);
    if (!check_arguments(source, call) || !make_schedule(source, call, &schedule_value))
        return false;
    optimizer = make_optimizer(source, call);
    if (mlirAttributeIsNull(optimizer)) return false;
    const tsr_expression *clip = find_value(call, clip_norm);
    out_attrs[count++] = (tsr_attr){"optimizer", optimizer};
    if (clip)
        out_attrs[count++] = (tsr_attr){
            clip_norm,
            mlirFloatAttrDoubleGet(source->context, mlirF64TypeGet(source->context), clip->number)};
    if (!mlirAttributeIsNull(schedule_value))
        out_attrs[count++] = (tsr_attr){"lr_schedule", schedule_value};
    *out_count = count;
    return true;
}
