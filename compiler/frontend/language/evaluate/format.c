/* SPDX-License-Identifier: Apache-2.0
 *
 * f"{value:spec}": Python's format specifications without ",", "_", "#", "z" and "%".
 */
#include "compiler/frontend/language/evaluate/evaluate.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH_MAX = 1000 };

typedef struct spec {
    char fill[5]; /* one character of UTF-8 */
    char align;   /* '<' '>' '^' '='; 0: by type */
    char sign;    /* '-' '+' ' '; 0: not given */
    bool zero;
    int width, precision; /* -1: none */
    char type;            /* 0: none */
} spec;

static bool read_number(const char **text, int *out) {
    if (!isdigit((unsigned char)**text)) return true;
    for (*out = 0; isdigit((unsigned char)**text); ++*text) {
        *out = *out * 10 + (**text - '0');
        if (*out > WIDTH_MAX) return false;
    }
    return true;
}

static size_t character_size(const char *text) {
    unsigned char c = (unsigned char)text[0];
    return c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

static bool read_spec(const char *text, spec *out) {
    *out = (spec){.fill = " ", .width = -1, .precision = -1};
    size_t first = text[0] ? character_size(text) : 0;
    if (first && text[first] && strchr("<>^=", text[first])) {
        memcpy(out->fill, text, first);
        out->fill[first] = 0;
        out->align = text[first];
        text += first + 1;
    } else if (text[0] && strchr("<>^=", text[0])) {
        out->align = *text++;
    }
    if (*text && strchr("+- ", *text)) out->sign = *text++;
    if (*text == '0') {
        out->zero = true;
        text++;
    }
    if (!read_number(&text, &out->width)) return false;
    if (*text == '.') {
        text++;
        if (!isdigit((unsigned char)*text) || !read_number(&text, &out->precision)) return false;
    }
    if (*text) out->type = *text++;
    return !*text;
}

static size_t count_characters(const char *text, size_t size) {
    size_t count = 0;
    for (size_t i = 0; i < size; i++) count += (text[i] & 0xc0) != 0x80;
    return count;
}

/* Pads the text, whose first `sign` bytes stay in front where '=' aligns. */
static void pad(const spec *s, char align, const char *text, size_t size, size_t sign,
                tsr_buffer *out) {
    size_t length = count_characters(text, size);
    size_t missing = s->width > 0 && (size_t)s->width > length ? (size_t)s->width - length : 0;
    size_t before = align == '>' || align == '=' ? missing : align == '^' ? missing / 2 : 0;
    if (align != '=') sign = 0;
    if (size) tsr_buffer_append(out, text, sign);
    for (size_t i = 0; i < before; i++) tsr_buffer_text(out, s->fill);
    if (size) tsr_buffer_append(out, text + sign, size - sign);
    for (size_t i = before; i < missing; i++) tsr_buffer_text(out, s->fill);
}

static void pad_number(spec *s, const tsr_buffer *digits, bool negative, tsr_buffer *out) {
    tsr_buffer text = {0};
    size_t sign = negative || s->sign == '+' || s->sign == ' ';
    if (sign) tsr_buffer_append(&text, negative ? "-" : &s->sign, 1);
    tsr_buffer_append(&text, digits->bytes, digits->size_bytes);
    if (s->zero && !s->align) {
        strcpy(s->fill, "0");
        s->align = '=';
    } else if (s->zero && strcmp(s->fill, " ") == 0) {
        strcpy(s->fill, "0");
    }
    pad(s, s->align ? s->align : '>', text.bytes, text.size_bytes, sign, out);
    if (text.failed) out->failed = true;
    tsr_buffer_finish(&text);
}

static bool format_integer(spec *s, int64_t value, tsr_buffer *out) {
    tsr_buffer digits = {0};
    uint64_t size = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    if (s->precision >= 0) return false;
    if (s->type == 'x')
        tsr_buffer_printf(&digits, "%" PRIx64, size);
    else
        tsr_buffer_printf(&digits, "%" PRIu64, size);
    pad_number(s, &digits, value < 0, out);
    tsr_buffer_finish(&digits);
    return true;
}

/* Python's precision without a type: as g, but with a digit after the point. */
static void print_plain(double size, int precision, tsr_buffer *digits) {
    if (precision < 0) {
        tsr_print_float(size, digits);
        return;
    }
    char text[WIDTH_MAX + 400];
    if (precision == 0) precision = 1;
    snprintf(text, sizeof text, "%.*e", precision - 1, size);
    int exponent = atoi(strchr(text, 'e') + 1);
    snprintf(text, sizeof text, "%.*g", precision, size);
    if (exponent == precision - 1 && !strchr(text, 'e')) /* Python shows it with an exponent */
        snprintf(text, sizeof text, "%.*e", precision - 1, size);
    char *mantissa_end = strchr(text, 'e');
    if (mantissa_end && exponent == precision - 1 && strchr(text, '.')) {
        char *last = mantissa_end;
        while (last[-1] == '0') last--;
        if (last[-1] == '.') last--;
        memmove(last, mantissa_end, strlen(mantissa_end) + 1);
    }
    tsr_buffer_text(digits, text);
    if (!strpbrk(text, ".e")) tsr_buffer_text(digits, ".0");
}

static void format_real(spec *s, double value, tsr_buffer *out) {
    tsr_buffer digits = {0};
    bool negative = signbit(value) && !isnan(value);
    double size = fabs(value);
    int precision = s->precision < 0 ? 6 : s->precision;
    if (!isfinite(value))
        tsr_buffer_text(&digits, isnan(value) ? "nan" : "inf");
    else if (s->type == 'f')
        tsr_buffer_printf(&digits, "%.*f", precision, size);
    else if (s->type == 'e')
        tsr_buffer_printf(&digits, "%.*e", precision, size);
    else if (s->type == 'g')
        tsr_buffer_printf(&digits, "%.*g", precision, size);
    else
        print_plain(size, s->precision, &digits);
    pad_number(s, &digits, negative, out);
    if (digits.failed) out->failed = true;
    tsr_buffer_finish(&digits);
}

static bool format_text(spec *s, const tsr_ast_text *text, tsr_buffer *out) {
    size_t size = text->size_bytes, at = 0;
    if (s->align == '=' || s->sign) return false;
    if (s->zero && !s->align) s->align = '<';
    if (s->zero && strcmp(s->fill, " ") == 0) strcpy(s->fill, "0");
    for (int i = 0; s->precision >= 0 && i < s->precision && at < size; i++)
        at += character_size(text->bytes + at);
    pad(s, s->align ? s->align : '<', text->bytes, s->precision >= 0 ? at : size, 0, out);
    return true;
}

static bool is_type(const spec *s, const char *types) { return !s->type || strchr(types, s->type); }

static bool apply(spec *s, tsr_value v, tsr_buffer *out) {
    int64_t integer;
    double real;
    bool bare_bool = v.kind == TSR_VALUE_BOOL && !s->type;
    if (tsr_value_is_text(v)) return is_type(s, "s") && format_text(s, v.text, out);
    if (!bare_bool && tsr_value_as_integer(v, &integer) && is_type(s, "dx"))
        return format_integer(s, integer, out);
    if (bare_bool) return format_integer(s, v.truth, out);
    if (!tsr_value_as_real(v, &real) || !is_type(s, "feg")) return false;
    format_real(s, real, out);
    return true;
}

bool tsr_evaluate_format(tsr_evaluator *e, tsr_value v, int64_t conversion,
                         const tsr_ast_text *text, tsr_span span, tsr_buffer *out) {
    tsr_buffer shown = {0};
    spec s;
    if (!v.kind || !tsr_evaluate_measure(e, v, span)) return false;
    if (tsr_value_is_traced(v)) {
        tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_TRACED,
                          "a tensor's value is not known while the program is compiled; a text "
                          "cannot show it");
        return false;
    }
    if (conversion == 'a') {
        tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_TYPE,
                          "'!a' is not part of the language; use !r");
        return false;
    }
    if (conversion == 'r' || conversion == 's' || !text || !text->size_bytes) {
        if (conversion == 'r')
            tsr_value_repr(v, &shown);
        else
            tsr_value_str(v, &shown);
        v = tsr_value_text(e->arena, shown.bytes, shown.size_bytes);
        if (shown.failed) v = TSR_POISON;
        tsr_buffer_finish(&shown);
        shown = (tsr_buffer){0};
        if (!v.kind) return tsr_evaluate_no_memory(e), false;
    }
    if (!text || !text->size_bytes) {
        tsr_buffer_append(out, v.text->bytes, v.text->size_bytes);
        return true;
    }
    if (memchr(text->bytes, 0, text->size_bytes) || !read_spec(text->bytes, &s) ||
        !apply(&s, v, out)) {
        tsr_print_ascii(text->bytes, text->size_bytes, &shown);
        tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_VALUE,
                          "the format %.80s is not one of %s; the language has d, x, .Nf, e and g",
                          shown.bytes ? shown.bytes : "?", tsr_value_type_name(v));
        tsr_buffer_finish(&shown);
        return false;
    }
    return true;
}
