/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/frontend/onnx/train/form.h"

#include "runtime/base/array.h"
#include "runtime/base/result.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* The words of graph/form.td for the kinds of attributes. */
static const struct {
    const char *word, *text;
} kinds[] = {
    [TSR_FORM_FLAG] = {"", "true or false"},
    [TSR_FORM_INTEGER] = {"integer", "an integer"},
    [TSR_FORM_INTEGERS] = {"[integer, ...]", "a list of integers, as [0, 1]"},
    [TSR_FORM_NUMBER] = {"number", "a number"},
    [TSR_FORM_BOOL] = {"bool", "true or false"},
    [TSR_FORM_TEXT] = {"string", "a text in double quotes"},
    [TSR_FORM_OTHER] = {NULL, "a value that an expression cannot give"},
};

const char *tsr_form_kind_text(tsr_form_kind kind) {
    TSR_ASSERT(kind < TSR_COUNT(kinds));
    return kinds[kind].text;
}

static tsr_form_kind find_kind(const char *word, size_t length) {
    size_t i = 0;
    for (; i < TSR_FORM_OTHER; i++)
        if (strlen(kinds[i].word) == length && memcmp(kinds[i].word, word, length) == 0) break;
    return (tsr_form_kind)i;
}

/* The length of an entry of a list, up to a comma outside of brackets, or to the closing one. */
static size_t entry_length(const char *at) {
    size_t length = 0, depth = 0;
    for (; at[length]; length++) {
        char c = at[length];
        if (depth == 0 && (c == ',' || c == '}')) break;
        depth += c == '[' || c == '<';
        depth -= c == ']' || c == '>';
    }
    return length;
}

/* "name", "name = kind", or one of them in brackets. */
static void read_attribute(const char *at, size_t length, tsr_form *form) {
    tsr_form_attribute *a = &form->attributes[form->attribute_count];
    a->is_optional = at[0] == '[';
    if (a->is_optional) at++, length -= 2;
    size_t name = strcspn(at, " =,]}");
    if (name > length) name = length;
    TSR_ASSERT(name <= TSR_FORM_NAME_MAX);
    snprintf(a->name, sizeof a->name, "%.*s", (int)name, at);
    bool has_value = length > name + 3;
    a->kind = has_value ? find_kind(at + name + 3, length - name - 3) : TSR_FORM_FLAG;
    a->is_optional = a->is_optional || !has_value;
    form->attribute_count++;
}

static void read_operands(const char *at, const char *end, tsr_form *form) {
    for (; at < end; at++) {
        if (*at != '%') continue;
        const char *rest = at + 1 + strcspn(at + 1, " ,]{:.");
        bool varies = strncmp(rest, "...", 3) == 0;
        form->operand_min += at[-1] != '['; /* of %inputs..., at least one */
        form->operand_max =
            varies || form->operand_max == SIZE_MAX ? SIZE_MAX : form->operand_max + 1;
    }
}

void tsr_form_read(const char *text, tsr_form *out_form) {
    tsr_form form = {0};
    const char *op = strstr(text, "tessera."), *types = op ? strstr(op, " : ") : NULL;
    bool has_region = strstr(text, "{...}") != NULL;
    if (types && !has_region) {
        const char *list = memchr(op, '{', (size_t)(types - op));
        const char *arrow = strstr(types, "-> ");
        form.has_value = strncmp(text, "%result = ", 10) == 0;
        read_operands(op, list ? list : types, &form);
        form.declares_type = form.operand_max == 0 || (arrow && arrow[-1] != '[');
        for (const char *at = list ? list + 1 : "}"; *at && *at != '}';) {
            size_t length = entry_length(at);
            TSR_ASSERT(form.attribute_count < TSR_FORM_ATTRIBUTES_MAX);
            read_attribute(at, length, &form);
            at += length;
            at += strspn(at, ", ");
        }
    }
    *out_form = form;
}

const tsr_form_attribute *tsr_form_find_attribute(const tsr_form *form, const char *name) {
    for (size_t i = 0; i < form->attribute_count; i++)
        if (strcmp(form->attributes[i].name, name) == 0) return &form->attributes[i];
    return NULL;
}
