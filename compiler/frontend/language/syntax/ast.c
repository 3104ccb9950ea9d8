/* SPDX-License-Identifier: Apache-2.0
 *
 * What is true of all kinds of nodes follows from the rows of ast.def.
 */
#include "compiler/frontend/language/syntax/ast.h"

#include "runtime/base/array.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum field_type {
    TYPE_NODE,
    TYPE_OPTIONAL,
    TYPE_LIST,
    TYPE_TEXT,
    TYPE_OPTIONAL_TEXT,
    TYPE_NAMES,
    TYPE_INTEGER,
    TYPE_OPERATOR,
    TYPE_OPERATORS,
    TYPE_CONSTANT,
    TYPE_PREFIX,
    TYPE_CONTEXT,
} field_type;

typedef struct field_row {
    const char *name;
    field_type type;
} field_row;
typedef struct kind_row {
    const char *name, *refusal;
    size_t field_count;
    field_row fields[TSR_AST_FIELDS_MAX + 1];
} kind_row;

static const kind_row kinds[] = {
    [TSR_AST_ERROR] = {.name = "Error"},
#define F(kind, field, name, type) {name, TYPE_##type},
#define X(kind, name, refusal, fields)                                                             \
    [TSR_AST_##kind] = {name, refusal, TSR_AST_##kind##_FIELD_COUNT, {fields{0}}},
#include "compiler/frontend/language/syntax/ast.def"
#undef X
#undef F
};

static const struct {
    const char *class, *text;
    int binding;
} operators[] = {
#define X(name, class, text, binding) {class, text, binding},
#include "compiler/frontend/language/syntax/operators.def"
#undef X
};

const char *tsr_operator_text(tsr_operator op) { return operators[op].text; }
int tsr_operator_binding(tsr_operator op) { return operators[op].binding; }
const char *tsr_ast_name(tsr_ast_kind kind) { return kinds[kind].name; }
const char *tsr_ast_refusal(tsr_ast_kind kind) { return kinds[kind].refusal; }
size_t tsr_ast_field_count(tsr_ast_kind kind) { return kinds[kind].field_count; }

bool tsr_ast_is_statement(const tsr_ast *node) {
    return node->kind >= TSR_AST_FUNCTION_DEF && node->kind <= TSR_AST_CONTINUE;
}

void tsr_ast_visit(const tsr_ast *node, tsr_ast_visitor *visitor, void *user) {
    const kind_row *row = &kinds[node->kind];
    for (size_t i = 0; i < row->field_count; i++) {
        const tsr_ast_field *f = &node->field[i];
        field_type type = row->fields[i].type;
        if ((type == TYPE_NODE || type == TYPE_OPTIONAL) && f->node) visitor(user, f->node);
        for (size_t k = 0; type == TYPE_LIST && k < f->list.count; k++)
            if (f->list.items[k]) visitor(user, f->list.items[k]);
    }
}

/* ---- texts and numbers as CPython shows them ---- */

/* Adds one to the last digit of "d.ddde±x"; false where that carries into another digit count. */
static bool increment(char *text) {
    char *at = strchr(text, 'e') - 1;
    for (; *at == '9' || *at == '.'; at--) {
        if (*at == '9') *at = '0';
        if (at == text) return false;
    }
    ++*at;
    return true;
}

/* The fewest digits that are read back as the value. At a power of two the next number below is
 * nearer than the next one above, so that the decimal above may be the one that is read back. */
static int print_shortest(double value, char *text, size_t size) {
    for (int precision = 0; precision < 17; precision++) {
        snprintf(text, size, "%.*e", precision, value);
        if (strtod(text, NULL) == value) return precision;
        if (increment(text) && strtod(text, NULL) == value) return precision;
    }
    snprintf(text, size, "%.16e", value);
    return 16;
}

void tsr_print_float(double value, tsr_buffer *out) {
    char text[40], digits[40];
    if (isnan(value) || isinf(value)) {
        tsr_buffer_text(out, isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
        return;
    }
    if (signbit(value)) tsr_buffer_text(out, "-");
    int precision = print_shortest(fabs(value), text, sizeof text);
    int exponent = atoi(strchr(text, 'e') + 1);
    if (exponent < -4 || exponent >= 16) {
        tsr_buffer_text(out, text);
        return;
    }
    int count = 0; /* the digits alone: at most 17 */
    for (const char *c = text; *c != 'e'; c++)
        if (*c != '.') digits[count++] = *c;
    digits[count] = 0;
    if (exponent < 0) {
        tsr_buffer_printf(out, "0.%.*s%s", -exponent - 1, "0000", digits);
    } else {
        for (int i = 0; i <= exponent; i++)
            tsr_buffer_text(out, i < count ? (char[]){digits[i], 0} : "0");
        tsr_buffer_printf(out, ".%s", precision > exponent ? digits + exponent + 1 : "0");
    }
}

/* Reads one code point; surrogates, too. */
static uint32_t next_point(const char *bytes, size_t *at) {
    const unsigned char *b = (const unsigned char *)bytes + *at;
    int more = b[0] < 0x80 ? 0 : b[0] < 0xe0 ? 1 : b[0] < 0xf0 ? 2 : 3;
    static const uint32_t masks[] = {0x7f, 0x1f, 0x0f, 0x07};
    uint32_t point = b[0] & masks[more];
    for (int i = 1; i <= more; i++) point = point << 6 | (b[i] & 0x3f);
    *at += 1 + (size_t)more;
    return point;
}

static void print_point(uint32_t c, char quote, bool bytes, tsr_buffer *out) {
    if (c == (uint32_t)quote || c == '\\')
        tsr_buffer_printf(out, "\\%c", (int)c);
    else if (c == '\n' || c == '\r' || c == '\t')
        tsr_buffer_text(out, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
    else if (c >= 0x20 && c < 0x7f)
        tsr_buffer_append(out, &(char){(char)c}, 1);
    else if (c < 0x100 || bytes)
        tsr_buffer_printf(out, "\\x%02x", c);
    else if (c < 0x10000)
        tsr_buffer_printf(out, "\\u%04x", c);
    else
        tsr_buffer_printf(out, "\\U%08x", c);
}

static void print_quoted(const char *text, size_t size, bool bytes, tsr_buffer *out) {
    char quote = memchr(text, '\'', size) && !memchr(text, '"', size) ? '"' : '\'';
    tsr_buffer_append(out, &quote, 1);
    for (size_t at = 0; at < size;)
        print_point(bytes ? (unsigned char)text[at++] : next_point(text, &at), quote, bytes, out);
    tsr_buffer_append(out, &quote, 1);
}

void tsr_print_ascii(const char *bytes, size_t size_bytes, tsr_buffer *out) {
    print_quoted(bytes, size_bytes, false, out);
}

/* ---- dump ---- */

static void dump_constant(const tsr_ast *node, tsr_buffer *out) {
    const tsr_ast_field *value = &node->field[TSR_AST_CONSTANT_VALUE];
    size_t before = out->size_bytes;
    switch ((tsr_constant_kind)node->constant) {
    case TSR_CONSTANT_NONE:
        tsr_buffer_text(out, "None");
        break;
    case TSR_CONSTANT_TRUE:
        tsr_buffer_text(out, "True");
        break;
    case TSR_CONSTANT_FALSE:
        tsr_buffer_text(out, "False");
        break;
    case TSR_CONSTANT_ELLIPSIS:
        tsr_buffer_text(out, "Ellipsis");
        break;
    case TSR_CONSTANT_INTEGER:
        tsr_buffer_printf(out, "%" PRId64, value->integer);
        break;
    case TSR_CONSTANT_BIG:
        tsr_buffer_text(out, "BIG");
        break;
    case TSR_CONSTANT_FLOAT:
        tsr_print_float(value->real, out);
        break;
    case TSR_CONSTANT_IMAGINARY: /* without ".0" */
        tsr_print_float(value->real, out);
        if (out->size_bytes - before > 2 && !out->failed &&
            strcmp(out->bytes + out->size_bytes - 2, ".0") == 0)
            out->size_bytes -= 2;
        tsr_buffer_text(out, "j");
        break;
    case TSR_CONSTANT_STRING:
        print_quoted(value->text.bytes, value->text.size_bytes, false, out);
        break;
    case TSR_CONSTANT_BYTES:
        tsr_buffer_text(out, "b");
        print_quoted(value->text.bytes, value->text.size_bytes, true, out);
        break;
    }
}

static void dump_names(const tsr_ast_list *names, tsr_buffer *out) {
    tsr_buffer_text(out, "[");
    for (size_t i = 0; i < names->count; i++) {
        const tsr_ast_text *text = &names->items[i]->field[TSR_AST_NAME_ID].text;
        tsr_buffer_text(out, i ? ", " : "");
        tsr_print_ascii(text->bytes, text->size_bytes, out);
    }
    tsr_buffer_text(out, "]");
}

static void dump_list(const tsr_ast_list *list, tsr_buffer *out) {
    tsr_buffer_text(out, "[");
    for (size_t i = 0; i < list->count; i++) {
        tsr_buffer_text(out, i ? ", " : "");
        if (list->items[i])
            tsr_ast_dump(list->items[i], out);
        else
            tsr_buffer_text(out, "None");
    }
    tsr_buffer_text(out, "]");
}

static void dump_operators(const tsr_ast_text *codes, tsr_buffer *out) {
    tsr_buffer_text(out, "[");
    for (size_t i = 0; i < codes->size_bytes; i++)
        tsr_buffer_printf(out, "%s%s()", i ? ", " : "", operators[(int)codes->bytes[i]].class);
    tsr_buffer_text(out, "]");
}

static bool is_omitted(const tsr_ast *node, field_type type, const tsr_ast_field *f) {
    if (type == TYPE_OPTIONAL) return !f->node;
    if (type == TYPE_OPTIONAL_TEXT) return !f->text.bytes;
    return type == TYPE_PREFIX && !node->prefix_u;
}

static void dump_field(const tsr_ast *node, field_type type, const tsr_ast_field *f,
                       tsr_buffer *out) {
    static const char *const contexts[] = {"Load()", "Store()", "Del()"};
    switch (type) {
    case TYPE_NODE:
    case TYPE_OPTIONAL:
        tsr_ast_dump(f->node, out);
        break;
    case TYPE_LIST:
        dump_list(&f->list, out);
        break;
    case TYPE_TEXT:
    case TYPE_OPTIONAL_TEXT:
        tsr_print_ascii(f->text.bytes, f->text.size_bytes, out);
        break;
    case TYPE_NAMES:
        dump_names(&f->list, out);
        break;
    case TYPE_INTEGER:
        tsr_buffer_printf(out, "%" PRId64, f->integer);
        break;
    case TYPE_OPERATOR:
        tsr_buffer_printf(out, "%s()", operators[f->op].class);
        break;
    case TYPE_OPERATORS:
        dump_operators(&f->text, out);
        break;
    case TYPE_CONSTANT:
        dump_constant(node, out);
        break;
    case TYPE_PREFIX:
        tsr_buffer_text(out, "'u'");
        break;
    case TYPE_CONTEXT:
        tsr_buffer_text(out, contexts[node->context]);
        break;
    }
}

void tsr_ast_dump(const tsr_ast *node, tsr_buffer *out) {
    const kind_row *row = &kinds[node->kind];
    const char *separator = "";
    tsr_buffer_printf(out, "%s(", row->name);
    for (size_t i = 0; i < row->field_count; i++) {
        const field_row *f = &row->fields[i];
        if (is_omitted(node, f->type, &node->field[i])) continue;
        tsr_buffer_printf(out, "%s%s=", separator, f->name);
        dump_field(node, f->type, &node->field[i], out);
        separator = ", ";
    }
    tsr_buffer_text(out, ")");
}
