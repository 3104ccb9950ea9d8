/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers and texts. An f-string is read as CPython 3.11 reads it: its literal parts are decoded,
 * an expression ends at the first "!", ":", "=" or "}" outside brackets and quotes, and is then
 * read as if round brackets stood around it.
 */
#include "compiler/frontend/language/syntax/parse.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers ---- */

static bool add_digit(uint64_t *value, unsigned base, unsigned digit) {
    return !__builtin_mul_overflow(*value, base, value) &&
           !__builtin_add_overflow(*value, digit, value) && *value <= INT64_MAX;
}

/* False if the integer does not fit. */
static bool read_integer(const char *text, size_t size, int64_t *out) {
    uint64_t value = 0;
    unsigned base = 10;
    size_t at = 0;
    if (size > 2 && text[0] == '0' && !isdigit((unsigned char)text[1]) && text[1] != '_') {
        char letter = (char)tolower((unsigned char)text[1]);
        base = letter == 'x' ? 16 : letter == 'o' ? 8 : 2;
        at = 2;
    }
    for (; at < size; at++) {
        unsigned char c = (unsigned char)text[at];
        if (c == '_') continue;
        unsigned digit = (unsigned)(isdigit(c) ? c - '0' : tolower(c) - 'a' + 10);
        if (!add_digit(&value, base, digit)) return false;
    }
    *out = (int64_t)value;
    return true;
}

static bool read_real(tsr_parser *p, const char *text, size_t size, double *out) {
    char *digits = tsr_arena_alloc(p->report->arena, size + 1, 1, 1);
    size_t count = 0;
    if (!digits) {
        p->report->memory = true;
        tsr_parser_fail(p);
        return false;
    }
    for (size_t i = 0; i < size; i++)
        if (text[i] != '_') digits[count++] = text[i];
    *out = strtod(digits, NULL);
    return true;
}

tsr_ast *tsr_parse_number(tsr_parser *p) {
    tsr_token token = p->token;
    const char *text = p->source->text + token.span.begin;
    size_t size = token.span.end - token.span.begin;
    tsr_ast *node = tsr_parser_node(p, TSR_AST_CONSTANT, token.span.begin);
    tsr_ast_field *value = &node->field[TSR_AST_CONSTANT_VALUE];
    tsr_parser_advance(p);
    if (token.kind == TSR_TOKEN_INTEGER) {
        node->constant =
            read_integer(text, size, &value->integer) ? TSR_CONSTANT_INTEGER : TSR_CONSTANT_BIG;
    } else {
        bool imaginary = token.kind == TSR_TOKEN_IMAGINARY;
        node->constant = imaginary ? TSR_CONSTANT_IMAGINARY : TSR_CONSTANT_FLOAT;
        read_real(p, text, size - imaginary, &value->real);
    }
    return tsr_parser_finish(p, node);
}

/* ---- escapes ---- */

static void append_point(tsr_buffer *out, uint32_t c) {
    char b[4];
    size_t size = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char leads[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = size - 1; i > 0; i--, c >>= 6) b[i] = (char)(0x80 | (c & 0x3f));
    b[0] = (char)(leads[size] | c);
    tsr_buffer_append(out, b, size);
}

typedef struct literal {
    tsr_parser *p;
    uint32_t at, end; /* of the text between the quotes */
    bool raw, bytes;
    tsr_buffer text; /* decoded */
} literal;

static void refuse_escape(literal *s, uint32_t begin, uint32_t end, const char *why) {
    tsr_parser *p = s->p;
    TSR_PARSER_FAIL(p, ((tsr_span){begin, end}), TSR_DIAG_TEXT_TOKEN, "'%.*s' %s",
                    (int)(end - begin), p->source->text + begin, why);
}

static void append_value(literal *s, uint32_t value) {
    if (s->bytes)
        tsr_buffer_append(&s->text, &(char){(char)value}, 1);
    else
        append_point(&s->text, value);
}

/* \xhh, \uhhhh, \Uhhhhhhhh: `begin` is that of the backslash, s->at that of the first digit. */
static void decode_hex(literal *s, uint32_t begin, uint32_t count) {
    const char *text = s->p->source->text;
    uint32_t value = 0, last = s->at + count;
    for (; s->at < last; s->at++) {
        unsigned char c = s->at < s->end ? (unsigned char)text[s->at] : 0;
        if (!isxdigit(c)) {
            refuse_escape(s, begin, s->at,
                          count == 2   ? "needs two hexadecimal digits"
                          : count == 4 ? "needs four hexadecimal digits"
                                       : "needs eight hexadecimal digits");
            return;
        }
        value = value << 4 | (uint32_t)(isdigit(c) ? c - '0' : tolower(c) - 'a' + 10);
    }
    if (value > 0x10ffff)
        refuse_escape(s, begin, s->at, "is not a code point of Unicode");
    else
        append_value(s, value);
}

static void decode_octal(literal *s) {
    const char *text = s->p->source->text;
    uint32_t value = 0;
    for (int i = 0; i < 3 && s->at < s->end && text[s->at] >= '0' && text[s->at] < '8'; i++)
        value = value << 3 | (uint32_t)(text[s->at++] - '0');
    append_value(s, s->bytes ? value & 0xff : value);
}

/* One escape; s->at is after the backslash. */
static void decode_escape(literal *s) {
    static const char names[] = "\\'\"abfnrtv", values[] = "\\'\"\a\b\f\n\r\t\v";
    uint32_t begin = s->at - 1;
    char c = s->at < s->end ? s->p->source->text[s->at] : 0;
    const char *name = c ? strchr(names, c) : NULL;
    if (name) {
        s->at++;
        tsr_buffer_append(&s->text, &values[name - names], 1);
    } else if (c == '\n') {
        s->at++;
    } else if (c >= '0' && c < '8') {
        decode_octal(s);
    } else if (c == 'x' || (!s->bytes && (c == 'u' || c == 'U'))) {
        s->at++;
        decode_hex(s, begin, c == 'x' ? 2 : c == 'u' ? 4 : 8);
    } else if (c == 'N' && !s->bytes) {
        TSR_PARSER_FAIL(s->p, ((tsr_span){begin, begin + 2}), TSR_DIAG_TEXT_REFUSED,
                        "'\\N' is not part of the language; write the character, or \\u and its "
                        "code point");
    } else {
        tsr_buffer_text(&s->text, "\\"); /* kept, as in Python */
    }
}

/* Appends the text up to `end`, decoded. */
static void decode(literal *s, uint32_t end) {
    const char *text = s->p->source->text;
    uint32_t outer = s->end;
    s->end = end;
    while (s->at < end && !s->p->failed) {
        const char *backslash = s->raw ? NULL : memchr(text + s->at, '\\', end - s->at);
        uint32_t plain = backslash ? (uint32_t)(backslash - text) : end;
        tsr_buffer_append(&s->text, text + s->at, plain - s->at);
        s->at = plain;
        if (!backslash) break;
        s->at++;
        decode_escape(s);
    }
    s->end = outer;
}

static void check_bytes(literal *s, uint32_t begin) {
    for (uint32_t i = begin; i < s->end; i++)
        if (s->p->source->text[i] & 0x80) {
            TSR_PARSER_FAIL(s->p, ((tsr_span){i, i + 1}), TSR_DIAG_TEXT_TOKEN,
                            "bytes consist of ASCII characters and escapes");
            return;
        }
}

/* ---- nodes of texts ---- */

typedef struct strings {
    literal s;
    size_t mark; /* of the values on the parser's stack */
    uint32_t begin;
    bool prefix_u, formatted;
} strings;

static tsr_ast *make_text(strings *t, tsr_constant_kind kind) {
    tsr_parser *p = t->s.p;
    tsr_ast *node = tsr_parser_node(p, TSR_AST_CONSTANT, t->begin);
    node->constant = (uint8_t)kind;
    node->prefix_u = t->prefix_u;
    size_t size = t->s.text.size_bytes;
    char *own = t->s.text.failed ? NULL : tsr_arena_alloc(p->report->arena, size + 1, 1, 1);
    if (!own) {
        p->report->memory = true;
        return tsr_parser_fail(p);
    }
    if (size) memcpy(own, t->s.text.bytes, size);
    node->field[TSR_AST_CONSTANT_VALUE].text = (tsr_ast_text){own, size};
    t->s.text.size_bytes = 0;
    return tsr_parser_finish(p, node);
}

/* The text read so far becomes a value of the f-string, if there is any. */
static void flush(strings *t) {
    if (t->s.text.size_bytes) tsr_parser_push(t->s.p, make_text(t, TSR_CONSTANT_STRING));
}

static tsr_ast *make_joined(strings *t, size_t mark) {
    tsr_parser *p = t->s.p;
    flush(t);
    tsr_ast *node = tsr_parser_node(p, TSR_AST_JOINED_STR, t->begin);
    node->field[TSR_AST_JOINED_STR_VALUES].list = tsr_parser_pop(p, mark);
    return tsr_parser_finish(p, node);
}

/* ---- f-strings ---- */

#define REFUSE_FORMAT(s, at, ...)                                                                  \
    TSR_PARSER_FAIL((s)->p, ((tsr_span){(at), (at) + 1}), TSR_DIAG_TEXT_SYNTAX, __VA_ARGS__)

/* Skips a text inside the expression; `at` is its quote. Returns the end; `end` if it is not
 * closed. */
static uint32_t skip_quoted(const char *text, uint32_t at, uint32_t end) {
    char quote = text[at];
    bool triple = at + 2 < end && text[at + 1] == quote && text[at + 2] == quote;
    for (at += triple ? 3 : 1; at < end; at++) {
        if (text[at] == '\\') return at;
        if (text[at] != quote) continue;
        if (!triple) return at + 1;
        if (at + 2 < end && text[at + 1] == quote && text[at + 2] == quote) return at + 3;
    }
    return end;
}

/* Where the expression that begins at s->at ends. */
static uint32_t find_expression_end(literal *s) {
    const char *text = s->p->source->text;
    unsigned depth = 0;
    for (uint32_t at = s->at; at < s->end;) {
        char c = text[at], next = at + 1 < s->end ? text[at + 1] : 0;
        if (c == '\\' || c == '#') {
            REFUSE_FORMAT(s, at, "'%c' cannot stand in an expression of an f-string", c);
            return s->end;
        }
        if (c == '\'' || c == '"') {
            at = skip_quoted(text, at, s->end);
            continue;
        }
        if (strchr("([{", c)) depth++;
        if (depth == 0 && strchr("!:}=<>", c)) {
            if (next == '=' && strchr("!=<>", c)) {
                at += 2;
                continue;
            }
            if (c != '<' && c != '>') return at;
        }
        if (strchr(")]}", c)) {
            if (!depth) {
                REFUSE_FORMAT(s, at, "'%c' closes no bracket", c);
                return s->end;
            }
            depth--;
        }
        at++;
    }
    if (!s->p->failed) REFUSE_FORMAT(s, s->at - 1, "'{' of an f-string is never closed");
    return s->end;
}

/* Reads the expression of the span with a lexer of its own. */
static tsr_ast *parse_inside(tsr_parser *p, tsr_span span) {
    tsr_lexer lexer = p->lexer;
    tsr_token token = p->token, ahead = p->ahead;
    bool has_ahead = p->has_ahead;
    uint32_t end = p->end;
    p->lexer = tsr_lexer_begin_inside(p->report, p->source, span);
    p->has_ahead = false;
    p->token = tsr_lexer_next(&p->lexer);
    if (p->token.kind == TSR_TOKEN_ERROR) tsr_parser_fail(p);
    tsr_ast *node = tsr_parser_enter(p) ? tsr_parse_group(p, span.begin, TSR_TOKEN_END) : p->error;
    tsr_parser_leave(p);
    p->lexer = lexer;
    if (p->failed)
        p->failed_at = token;
    else
        p->token = token;
    p->ahead = ahead;
    p->has_ahead = has_ahead;
    p->end = end;
    return node;
}

static bool is_blank(const char *text, uint32_t begin, uint32_t end) {
    for (; begin < end; begin++)
        if (!strchr(" \t\n\f\r", text[begin])) return false;
    return true;
}

static void read_format(strings *t, int level);

/* "=" after an expression: its text comes before its value. */
static bool read_equals(strings *t, uint32_t begin) {
    literal *s = &t->s;
    const char *text = s->p->source->text;
    if (s->at >= s->end || text[s->at] != '=') return false;
    s->at++;
    while (s->at < s->end && isspace((unsigned char)text[s->at])) s->at++;
    tsr_buffer_append(&s->text, text + begin, s->at - begin);
    return true;
}

static int64_t read_conversion(literal *s) {
    const char *text = s->p->source->text;
    if (s->at >= s->end || text[s->at] != '!') return -1;
    char c = s->at + 1 < s->end ? text[s->at + 1] : 0;
    if (c != 's' && c != 'r' && c != 'a') {
        REFUSE_FORMAT(s, s->at, "'!' of an f-string is followed by s, r or a");
        return -1;
    }
    s->at += 2;
    return c;
}

static tsr_ast *read_spec(strings *t, int level) {
    literal *s = &t->s;
    if (s->at >= s->end || s->p->source->text[s->at] != ':') return NULL;
    size_t mark = s->p->stack_count;
    s->at++;
    read_format(t, level + 1);
    return make_joined(t, mark);
}

/* An expression in { }; s->at is after the {. */
static void read_value(strings *t, int level) {
    literal *s = &t->s;
    tsr_parser *p = s->p;
    uint32_t begin = s->at, end = find_expression_end(s);
    if (p->failed) return;
    if (level >= 2) {
        REFUSE_FORMAT(s, begin - 1, "the format of a value in a format has a value");
        return;
    }
    if (is_blank(p->source->text, begin, end)) {
        REFUSE_FORMAT(s, begin - 1, "'{' of an f-string is followed by no expression");
        return;
    }
    tsr_ast *value = parse_inside(p, (tsr_span){begin, end});
    s->at = end;
    bool equals = !p->failed && read_equals(t, begin);
    flush(t);
    tsr_ast *node = tsr_parser_node(p, TSR_AST_FORMATTED_VALUE, t->begin);
    int64_t conversion = read_conversion(s);
    tsr_ast *spec = p->failed ? NULL : read_spec(t, level);
    if (equals && conversion < 0 && !spec) conversion = 'r';
    node->field[TSR_AST_FORMATTED_VALUE_VALUE].node = value;
    node->field[TSR_AST_FORMATTED_VALUE_CONVERSION].integer = conversion;
    node->field[TSR_AST_FORMATTED_VALUE_SPEC].node = spec;
    if (!p->failed && (s->at >= s->end || p->source->text[s->at] != '}'))
        REFUSE_FORMAT(s, begin - 1, "'{' of an f-string is not closed by '}'");
    s->at++;
    tsr_parser_push(p, tsr_parser_finish(p, node));
}

/* Where the literal part that begins at s->at ends; sets *out_twice where the brace there stands
 * for itself. */
static uint32_t find_literal_end(const literal *s, int level, bool *out_twice) {
    const char *text = s->p->source->text;
    uint32_t at = s->at;
    *out_twice = false;
    for (; at < s->end; at++) {
        if (!s->raw && text[at] == '\\' && at + 1 < s->end) {
            at++;
            if (text[at] != '{' && text[at] != '}') continue;
        }
        if (text[at] != '{' && text[at] != '}') continue;
        *out_twice = level == 0 && at + 1 < s->end && text[at + 1] == text[at];
        break;
    }
    return at;
}

/* Literal parts and values up to the end of the text; in a format, up to its "}". */
static void read_format(strings *t, int level) {
    literal *s = &t->s;
    const char *text = s->p->source->text;
    while (s->at < s->end && !s->p->failed) {
        bool twice;
        uint32_t end = find_literal_end(s, level, &twice);
        decode(s, end + twice);
        if (s->p->failed) return;
        s->at = end + (twice ? 2 : 0);
        if (twice || s->at >= s->end) continue;
        if (text[s->at] == '}') {
            if (level == 0)
                REFUSE_FORMAT(s, s->at,
                              "'}' in an f-string closes nothing; '}}' stands for itself");
            return;
        }
        s->at++;
        read_value(t, level);
    }
}

/* ---- texts one after the other ---- */

static void read_one(strings *t) {
    tsr_parser *p = t->s.p;
    const char *text = p->source->text;
    uint32_t at = p->token.span.begin;
    bool formatted = false;
    literal *s = &t->s;
    s->raw = s->bytes = false;
    for (; text[at] != '\'' && text[at] != '"'; at++) {
        char c = (char)tolower((unsigned char)text[at]);
        s->raw |= c == 'r';
        s->bytes |= c == 'b';
        formatted |= c == 'f';
    }
    bool triple =
        p->token.span.end - at >= 6 && text[at + 1] == text[at] && text[at + 2] == text[at];
    s->at = at + (triple ? 3 : 1);
    s->end = p->token.span.end - (triple ? 3 : 1);
    t->formatted |= formatted;
    if (s->bytes) check_bytes(s, s->at);
    if (formatted)
        read_format(t, 0);
    else
        decode(s, s->end);
}

tsr_ast *tsr_parse_strings(tsr_parser *p) {
    strings t = {.s.p = p, .mark = p->stack_count, .begin = p->token.span.begin};
    t.prefix_u = p->source->text[t.begin] == 'u';
    int bytes = -1;
    while (tsr_parser_is(p, TSR_TOKEN_STRING)) {
        tsr_span span = p->token.span;
        read_one(&t);
        if (!p->failed && bytes >= 0 && bytes != t.s.bytes)
            TSR_PARSER_FAIL(p, span, TSR_DIAG_TEXT_SYNTAX, "bytes and texts cannot be joined");
        bytes = t.s.bytes;
        tsr_parser_advance(p);
    }
    tsr_ast *node = p->failed ? p->error
                    : t.formatted
                        ? make_joined(&t, t.mark)
                        : make_text(&t, bytes == 1 ? TSR_CONSTANT_BYTES : TSR_CONSTANT_STRING);
    tsr_buffer_finish(&t.s.text);
    return node;
}
