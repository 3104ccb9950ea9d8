/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokens, blocks by indentation, lines that brackets and backslashes join. A line that begins with
 * ".name" continues the line before: Python has no such line.
 */
#include "compiler/frontend/language/syntax/lexer.h"

#include "compiler/frontend/language/syntax/report.h"
#include "runtime/base/array.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

typedef struct word {
    const char *text;
    uint8_t length;
    tsr_token_kind kind;
} word;

static const word keywords[] = {
#define KEYWORD(name, text) {text, sizeof(text) - 1, TSR_TOKEN_##name},
#define SIGN(name, text)
#include "compiler/frontend/language/syntax/tokens.def"
#undef KEYWORD
#undef SIGN
};
static const word signs[] = {
#define KEYWORD(name, text)
#define SIGN(name, text) {text, sizeof(text) - 1, TSR_TOKEN_##name},
#include "compiler/frontend/language/syntax/tokens.def"
#undef KEYWORD
#undef SIGN
};

const char *tsr_token_name(tsr_token_kind kind) {
    switch (kind) {
    case TSR_TOKEN_END:
        return "the end of the text";
    case TSR_TOKEN_ERROR:
        return "an error";
    case TSR_TOKEN_NEWLINE:
        return "the end of the line";
    case TSR_TOKEN_INDENT:
        return "an indented line";
    case TSR_TOKEN_DEDENT:
        return "the end of the block";
    case TSR_TOKEN_NAME:
        return "a name";
    case TSR_TOKEN_INTEGER:
    case TSR_TOKEN_FLOAT:
    case TSR_TOKEN_IMAGINARY:
        return "a number";
    case TSR_TOKEN_STRING:
        return "a text";
#define KEYWORD(name, text)                                                                        \
    case TSR_TOKEN_##name:                                                                         \
        return "'" text "'";
#define SIGN(name, text) KEYWORD(name, text)
#include "compiler/frontend/language/syntax/tokens.def"
#undef KEYWORD
#undef SIGN
    }
    return "?";
}

tsr_lexer tsr_lexer_begin(tsr_report *report, const tsr_source *source) {
    return (tsr_lexer){
        .report = report, .source = source, .end = source->size_bytes, .line_begins = true};
}

tsr_lexer tsr_lexer_begin_inside(tsr_report *report, const tsr_source *source, tsr_span span) {
    return (tsr_lexer){
        .report = report, .source = source, .at = span.begin, .end = span.end, .inside = true};
}

static char peek(const tsr_lexer *l, uint32_t distance) {
    return distance < l->end - l->at ? l->source->text[l->at + distance] : 0;
}

static tsr_token make(const tsr_lexer *l, tsr_token_kind kind, uint32_t begin) {
    return (tsr_token){kind, {begin, l->at}};
}

/* Reports the text from `begin` on, and ends the tokens of this line. */
#define REFUSE(l, begin, number, ...)                                                              \
    (tsr_report_error((l)->report, (l)->source, (tsr_span){(begin), (l)->at}, (number),            \
                      __VA_ARGS__),                                                                \
     make((l), TSR_TOKEN_ERROR, (begin)))

static bool is_name_begin(char c) { return isalpha((unsigned char)c) || c == '_' || (c & 0x80); }
static bool is_name(char c) { return is_name_begin(c) || isdigit((unsigned char)c); }

/* ---- blanks ---- */

static void skip_comment(tsr_lexer *l) {
    while (l->at < l->end && peek(l, 0) != '\n') l->at++;
}

static bool is_joined(const tsr_lexer *l) { return l->inside || l->bracket_count > 0; }

/* Whether the next line that is not blank begins with ".name". */
static bool continues(const tsr_lexer *l) {
    const char *text = l->source->text;
    uint32_t at = l->at;
    while (at < l->end && strchr(" \t\f\n", text[at])) at++;
    return at > l->at && at + 1 < l->end && text[at] == '.' && is_name_begin(text[at + 1]);
}

/* Skips blanks, and line ends where lines are joined. */
static void skip_blanks(tsr_lexer *l) {
    for (;;) {
        char c = peek(l, 0);
        if (c == ' ' || c == '\t' || c == '\f' || (c == '\n' && is_joined(l)))
            l->at++;
        else if (c == '#' && !l->inside)
            skip_comment(l);
        else if (c == '\\' && peek(l, 1) == '\n' && l->at + 2 < l->end)
            l->at += 2;
        else
            return;
    }
}

/* ---- blocks ---- */

typedef struct columns {
    uint32_t tabs_as_8, tabs_as_1;
} columns;

/* Measures the indentation of the next line that has tokens. */
static columns measure(tsr_lexer *l) {
    columns c = {0};
    for (;;) {
        switch (peek(l, 0)) {
        case ' ':
            c.tabs_as_8++;
            c.tabs_as_1++;
            break;
        case '\t':
            c.tabs_as_8 = (c.tabs_as_8 / 8 + 1) * 8;
            c.tabs_as_1++;
            break;
        case '\f':
            c = (columns){0};
            break;
        case '\\': /* the next line's blanks do not count */
            if (peek(l, 1) != '\n') return c;
            l->at += 2;
            l->at += (uint32_t)strspn(l->source->text + l->at, " \t\f");
            continue;
        case '#':
            skip_comment(l);
            continue;
        case '\n':
            c = (columns){0};
            break;
        default:
            return c;
        }
        l->at++;
    }
}

static void report_tabs(tsr_lexer *l, uint32_t begin) {
    tsr_report_error(l->report, l->source, (tsr_span){begin, l->at}, TSR_DIAG_TEXT_INDENT,
                     "tabs and spaces are mixed: the indentation depends on the width of a tab");
}

static tsr_token open_block(tsr_lexer *l, columns c, uint32_t begin) {
    uint32_t before = l->block_count ? l->alternates[l->block_count - 1] : 0;
    if (c.tabs_as_1 <= before) report_tabs(l, begin);
    if (l->block_count == TSR_LANGUAGE_BLOCKS_MAX - 1)
        return REFUSE(l, begin, TSR_DIAG_TEXT_LIMIT, "more than %d blocks are nested",
                      TSR_LANGUAGE_BLOCKS_MAX - 1);
    l->blocks[l->block_count] = c.tabs_as_8;
    l->alternates[l->block_count++] = c.tabs_as_1;
    return make(l, TSR_TOKEN_INDENT, begin);
}

static columns top_block(const tsr_lexer *l) {
    if (!l->block_count) return (columns){0};
    return (columns){l->blocks[l->block_count - 1], l->alternates[l->block_count - 1]};
}

/* Compares the indentation of a line with the open blocks. True: a block begins, *out says so. A
 * wrong indentation is reported and then read as that of the nearest block. */
static bool indent(tsr_lexer *l, tsr_token *out) {
    uint32_t begin = l->at;
    columns c = measure(l);
    while (begin < l->at && memchr(l->source->text + begin, '\n', l->at - begin)) begin++;
    l->line_begins = l->at >= l->end;
    if (l->line_begins) c = (columns){0};
    if (c.tabs_as_8 > top_block(l).tabs_as_8) {
        *out = open_block(l, c, begin);
        return true;
    }
    while (l->block_count && top_block(l).tabs_as_8 > c.tabs_as_8) {
        l->block_count--;
        l->dedents++;
    }
    if (c.tabs_as_8 != top_block(l).tabs_as_8)
        tsr_report_error(l->report, l->source, (tsr_span){begin, l->at}, TSR_DIAG_TEXT_INDENT,
                         "the line is indented by %u columns, as no line of an open block is",
                         c.tabs_as_8);
    else if (c.tabs_as_1 != top_block(l).tabs_as_1)
        report_tabs(l, begin);
    return false;
}

/* ---- numbers ---- */

/* Digits of a base with single underscores between them; false at an underscore that is not. */
static bool read_digits(tsr_lexer *l, int base, bool *out_any) {
    *out_any = false;
    for (;;) {
        char c = peek(l, 0);
        int digit = isdigit((unsigned char)c)    ? c - '0'
                    : isxdigit((unsigned char)c) ? tolower((unsigned char)c) - 'a' + 10
                                                 : 99;
        if (digit >= base) return true;
        *out_any = true;
        l->at++;
        if (peek(l, 0) != '_') continue;
        l->at++;
        c = peek(l, 0);
        if (!isxdigit((unsigned char)c) || (base <= 10 && (c < '0' || c >= '0' + base)))
            return false;
    }
}

/* Python accepts a keyword directly after a number: 1if x else y. */
static bool ends_number(const tsr_lexer *l) {
    static const char *const words[] = {"and", "else", "for", "if", "in", "is", "not", "or"};
    if (!is_name_begin(peek(l, 0))) return true;
    for (size_t i = 0; i < TSR_COUNT(words); i++)
        if (strncmp(l->source->text + l->at, words[i], strlen(words[i])) == 0) return true;
    return false;
}

static tsr_token refuse_number(tsr_lexer *l, uint32_t begin) {
    while (is_name(peek(l, 0))) l->at++;
    int length = (int)(l->at - begin);
    return REFUSE(l, begin, TSR_DIAG_TEXT_TOKEN, "'%.*s' is not a number",
                  length < 60 ? length : 60, l->source->text + begin);
}

static tsr_token read_radix(tsr_lexer *l, uint32_t begin, int base) {
    bool any;
    l->at += 2;
    if (peek(l, 0) == '_') l->at++;
    if (!read_digits(l, base, &any) || !any || isdigit((unsigned char)peek(l, 0)) ||
        !ends_number(l))
        return refuse_number(l, begin);
    return make(l, TSR_TOKEN_INTEGER, begin);
}

static bool read_exponent(tsr_lexer *l, bool *out_any) {
    uint32_t sign = peek(l, 1) == '+' || peek(l, 1) == '-';
    *out_any = false;
    if (tolower((unsigned char)peek(l, 0)) != 'e' || !isdigit((unsigned char)peek(l, 1 + sign)))
        return true;
    l->at += 1 + sign;
    return read_digits(l, 10, out_any);
}

static tsr_token read_number(tsr_lexer *l) {
    uint32_t begin = l->at;
    bool whole = false, part = false, exponent = false, valid;
    char second = (char)tolower((unsigned char)peek(l, 1));
    if (peek(l, 0) == '0' && second == 'x') return read_radix(l, begin, 16);
    if (peek(l, 0) == '0' && second == 'o') return read_radix(l, begin, 8);
    if (peek(l, 0) == '0' && second == 'b') return read_radix(l, begin, 2);
    valid = read_digits(l, 10, &whole);
    uint32_t digits_end = l->at;
    bool point = valid && peek(l, 0) == '.';
    if (point) {
        l->at++;
        valid = read_digits(l, 10, &part);
    }
    if (valid) valid = read_exponent(l, &exponent);
    if (!valid) return refuse_number(l, begin);
    if (tolower((unsigned char)peek(l, 0)) == 'j') {
        l->at++;
        return ends_number(l) ? make(l, TSR_TOKEN_IMAGINARY, begin) : refuse_number(l, begin);
    }
    if (!ends_number(l)) return refuse_number(l, begin);
    if (point || exponent) return make(l, TSR_TOKEN_FLOAT, begin);
    const char *digits = l->source->text + begin;
    if (digits[0] == '0' && strspn(digits, "0_") < digits_end - begin)
        return REFUSE(l, begin, TSR_DIAG_TEXT_TOKEN,
                      "an integer does not begin with 0; octal integers begin with 0o");
    return make(l, TSR_TOKEN_INTEGER, begin);
}

/* ---- texts, names, signs ---- */

static tsr_token read_string(tsr_lexer *l, uint32_t begin) {
    char quote = peek(l, 0);
    bool triple = peek(l, 1) == quote && peek(l, 2) == quote;
    l->at += triple ? 3 : 1;
    for (;;) {
        char c = peek(l, 0);
        if (l->at >= l->end || (c == '\n' && !triple)) {
            l->at = begin + 1;
            return REFUSE(l, begin, TSR_DIAG_TEXT_TOKEN, "the text is not closed by %s%c",
                          triple ? "three times " : "", quote);
        }
        l->at++;
        if (c == '\\' && l->at < l->end) {
            l->at++;
        } else if (c == quote && !triple) {
            return make(l, TSR_TOKEN_STRING, begin);
        } else if (c == quote && peek(l, 0) == quote && peek(l, 1) == quote) {
            l->at += 2;
            return make(l, TSR_TOKEN_STRING, begin);
        }
    }
}

/* The code point of a character of UTF-8 text that is known to be valid. */
static uint32_t code_point(const char *text) {
    const unsigned char *b = (const unsigned char *)text;
    if (b[0] < 0xe0) return (uint32_t)(b[0] & 0x1f) << 6 | (b[1] & 0x3f);
    if (b[0] < 0xf0)
        return (uint32_t)(b[0] & 0x0f) << 12 | (uint32_t)(b[1] & 0x3f) << 6 | (b[2] & 0x3f);
    return (uint32_t)(b[0] & 0x07) << 18 | (uint32_t)(b[1] & 0x3f) << 12 |
           (uint32_t)(b[2] & 0x3f) << 6 | (b[3] & 0x3f);
}

static tsr_token refuse_character(tsr_lexer *l, uint32_t begin) {
    uint32_t at = begin;
    while (!(l->source->text[at] & 0x80)) at++;
    unsigned long point = code_point(l->source->text + at);
    unsigned char first = (unsigned char)l->source->text[at];
    l->at = at + (first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4);
    return REFUSE(l, at, TSR_DIAG_TEXT_TOKEN,
                  "U+%04lX stands in a name; names consist of ASCII letters, digits and _", point);
}

static bool is_prefix(const char *text, size_t length) {
    static const char *const prefixes[] = {"r", "u", "b", "f", "br", "rb", "fr", "rf"};
    for (size_t i = 0; i < TSR_COUNT(prefixes); i++)
        if (strlen(prefixes[i]) == length && strncasecmp(text, prefixes[i], length) == 0)
            return true;
    return false;
}

static tsr_token read_name(tsr_lexer *l) {
    uint32_t begin = l->at;
    const char *text = l->source->text + begin;
    bool ascii = true;
    while (is_name(peek(l, 0))) {
        ascii = ascii && !(peek(l, 0) & 0x80);
        l->at++;
    }
    size_t length = l->at - begin;
    if (!ascii) return refuse_character(l, begin);
    if ((peek(l, 0) == '"' || peek(l, 0) == '\'') && is_prefix(text, length))
        return read_string(l, begin);
    for (size_t i = 0; i < TSR_COUNT(keywords); i++)
        if (keywords[i].length == length && text[0] == keywords[i].text[0] &&
            memcmp(keywords[i].text, text, length) == 0)
            return make(l, keywords[i].kind, begin);
    return make(l, TSR_TOKEN_NAME, begin);
}

static tsr_token open_bracket(tsr_lexer *l, tsr_token token) {
    if (l->bracket_count == TSR_LANGUAGE_BRACKETS_MAX)
        return REFUSE(l, token.span.begin, TSR_DIAG_TEXT_LIMIT,
                      "more than %d brackets are open at the same time", TSR_LANGUAGE_BRACKETS_MAX);
    l->brackets[l->bracket_count++] = token.span.begin;
    return token;
}

static tsr_token close_bracket(tsr_lexer *l, tsr_token token) {
    static const char pairs[] = "()[]{}";
    char close = l->source->text[token.span.begin];
    if (!l->bracket_count)
        return REFUSE(l, token.span.begin, TSR_DIAG_TEXT_SYNTAX, "'%c' closes no bracket", close);
    uint32_t at = l->brackets[--l->bracket_count];
    char open = l->source->text[at];
    if (strchr(pairs, open)[1] == close) return token;
    tsr_diag *diag = tsr_report_error(l->report, l->source, token.span, TSR_DIAG_TEXT_SYNTAX,
                                      "'%c' does not close '%c'", close, open);
    tsr_report_note(l->report, diag, l->source, (tsr_span){at, at + 1}, "'%c' is opened here",
                    open);
    return make(l, TSR_TOKEN_ERROR, token.span.begin);
}

static tsr_token read_sign(tsr_lexer *l) {
    uint32_t begin = l->at, rest = l->end - l->at;
    const char *text = l->source->text + begin;
    for (size_t i = 0; i < TSR_COUNT(signs); i++) {
        const word *s = &signs[i];
        if (s->text[0] != text[0] || s->length > rest || memcmp(s->text, text, s->length) != 0)
            continue;
        l->at += s->length;
        tsr_token token = make(l, s->kind, begin);
        if (strchr("([{", text[0])) return open_bracket(l, token);
        if (strchr(")]}", text[0])) return close_bracket(l, token);
        return token;
    }
    l->at++;
    if (text[0] == '\\')
        return REFUSE(l, begin, TSR_DIAG_TEXT_TOKEN, "'\\' joins lines only at the end of a line");
    if (text[0] == '!')
        return REFUSE(l, begin, TSR_DIAG_TEXT_TOKEN, "'!' is not an operator; Python writes 'not'");
    if (text[0] > ' ' && text[0] < 0x7f)
        return REFUSE(l, begin, TSR_DIAG_TEXT_TOKEN, "'%c' begins no token", text[0]);
    return REFUSE(l, begin, TSR_DIAG_TEXT_TOKEN, "U+%04X begins no token", (unsigned char)text[0]);
}

/* ---- one token ---- */

static tsr_token read_end(tsr_lexer *l) {
    if (l->bracket_count) {
        uint32_t at = l->brackets[l->bracket_count - 1];
        tsr_report_error(l->report, l->source, (tsr_span){at, at + 1}, TSR_DIAG_TEXT_SYNTAX,
                         "'%c' is never closed", l->source->text[at]);
        l->bracket_count = 0;
        return (tsr_token){TSR_TOKEN_ERROR, {l->at, l->at}};
    }
    if (!l->line_begins && !l->inside) {
        l->line_begins = true;
        return make(l, TSR_TOKEN_NEWLINE, l->at);
    }
    return make(l, TSR_TOKEN_END, l->at);
}

static tsr_token read_newline(tsr_lexer *l) {
    uint32_t begin = l->at++;
    l->line_begins = true;
    return make(l, TSR_TOKEN_NEWLINE, begin);
}

/* A line that begins with ".name": joined to the one before, with a warning. */
static void join_line(tsr_lexer *l) {
    uint32_t end;
    l->at += (uint32_t)strspn(l->source->text + l->at, " \t\f\n");
    for (end = l->at + 1; end < l->end && is_name(l->source->text[end]); end++) continue;
    tsr_report_warning(l->report, l->source, (tsr_span){l->at, end}, TSR_DIAG_TEXT_SPELLING,
                       "Python has no line that begins with '.%.*s'; put brackets around the "
                       "lines of the expression",
                       (int)(end - l->at - 1), l->source->text + l->at + 1);
}

tsr_token tsr_lexer_next(tsr_lexer *l) {
    tsr_token token;
    if (l->line_begins && !is_joined(l) && indent(l, &token)) return token;
    if (l->dedents) {
        l->dedents--;
        return make(l, TSR_TOKEN_DEDENT, l->at);
    }
    if (l->at >= l->end && l->line_begins) return make(l, TSR_TOKEN_END, l->at);
    skip_blanks(l);
    if (l->at >= l->end) return read_end(l);
    char c = peek(l, 0);
    if (c == '\n' && continues(l)) {
        join_line(l);
        c = '.';
    }
    if (c == '\n') return read_newline(l);
    if (isdigit((unsigned char)c) || (c == '.' && isdigit((unsigned char)peek(l, 1))))
        return read_number(l);
    if (c == '"' || c == '\'') return read_string(l, l->at);
    if (is_name_begin(c)) return read_name(l);
    return read_sign(l);
}

/* ---- recovery ---- */

/* Whether the line at `at` begins with a keyword of a statement, at most as far to the right as
 * `column`: a bracket that is open there was forgotten. */
static bool begins_statement(const tsr_lexer *l, uint32_t at, uint32_t column) {
    static const char *const words[] = {"def ",  "class ", "return ", "import ",
                                        "from ", "with ",  "@"};
    const char *line = l->source->text + at;
    size_t blanks = strspn(line, " \t");
    for (size_t i = 0; blanks <= column && i < TSR_COUNT(words); i++)
        if (strncmp(line + blanks, words[i], strlen(words[i])) == 0) return true;
    return false;
}

static uint32_t line_of(const tsr_lexer *l, uint32_t at) {
    return l->source->lines[tsr_source_line(l->source, at) - 1];
}

bool tsr_lexer_is_forgotten(const tsr_lexer *l, tsr_token token, tsr_span *out_bracket) {
    uint32_t line = line_of(l, token.span.begin);
    if (!l->bracket_count || l->inside) return false;
    uint32_t bracket = l->brackets[l->bracket_count - 1];
    size_t blanks = strspn(l->source->text + line, " \t");
    if (bracket >= line || line + blanks != token.span.begin) return false;
    *out_bracket = (tsr_span){bracket, bracket + 1};
    return begins_statement(l, line, UINT32_MAX);
}

/* Forgets the brackets that are open at the begin of the line at `at`. */
static tsr_token restart(tsr_lexer *l, uint32_t at) {
    l->at = at;
    l->bracket_count = 0;
    l->line_begins = true;
    return (tsr_token){TSR_TOKEN_NEWLINE, {at, at}};
}

/* Reads tokens silently to the end of the logical line. */
static tsr_token skip_line(tsr_lexer *l, uint32_t column) {
    for (;;) {
        uint32_t before = l->at;
        tsr_token token = tsr_lexer_next(l);
        const char *newline =
            l->bracket_count ? memchr(l->source->text + before, '\n', l->at - before) : NULL;
        if (newline) {
            uint32_t at = (uint32_t)(newline - l->source->text) + 1;
            if (begins_statement(l, at, column)) return restart(l, at);
        }
        if (token.kind == TSR_TOKEN_NEWLINE || token.kind == TSR_TOKEN_END) return token;
    }
}

tsr_token tsr_lexer_recover(tsr_lexer *l, tsr_token token, uint32_t column) {
    unsigned depth = 0;
    tsr_span bracket;
    l->report->muted++;
    if (tsr_lexer_is_forgotten(l, token, &bracket) &&
        begins_statement(l, line_of(l, token.span.begin), column))
        token = restart(l, line_of(l, token.span.begin));
    else if (token.kind == TSR_TOKEN_ERROR || token.kind > TSR_TOKEN_DEDENT)
        token = skip_line(l, column);
    l->report->muted--;
    if (token.kind == TSR_TOKEN_NEWLINE) token = tsr_lexer_next(l);
    while (token.kind != TSR_TOKEN_END && (depth || token.kind == TSR_TOKEN_INDENT)) {
        depth += token.kind == TSR_TOKEN_INDENT;
        depth -= token.kind == TSR_TOKEN_DEDENT;
        unsigned muted = depth > 0;
        l->report->muted += muted;
        token = tsr_lexer_next(l);
        l->report->muted -= muted;
    }
    return token;
}
