/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/compiler/fuzz/mutate.h"

#include "compiler/graph/graph.h"
#include "compiler/ir/attributes.h"
#include "compiler/package.h"
#include "compiler/resilience/resilience.h"
#include "compiler/schedule/schedule.h"
#include "compiler/target/host/vranks.h"
#include "compiler/target/target.h"
#include "compiler/tile/attributes.h"
#include "compiler/tile/tile.h"
#include "runtime/base/array.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 1 << 16 };

uint64_t draw(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

size_t draw_below(uint64_t *state, size_t count) { return count ? draw(state) % count : 0; }

static bool chance(uint64_t *state, unsigned percent) { return draw_below(state, 100) < percent; }

/* ---- tokens ---------------------------------------------------------------------------------- */

static bool is_word(char c) {
    return isalnum((unsigned char)c) || c == '_' || c == '.' || c == '$';
}

static size_t run_of(const char *at, const char *end, bool (*belongs)(char)) {
    const char *stop = at;
    while (stop < end && belongs(*stop)) stop++;
    return (size_t)(stop - at);
}

static bool is_shape(char c) { return isalnum((unsigned char)c) || c == '?'; }

static bool is_digit(char c) { return isdigit((unsigned char)c) != 0; }

static size_t string_size(const char *at, const char *end) {
    const char *stop = at + 1;
    while (stop < end && *stop != '"' && *stop != '\n') stop += *stop == '\\' ? 2 : 1;
    return stop < end ? (size_t)(stop - at) + 1 : (size_t)(end - at);
}

static size_t number_size(const char *at, const char *end, token_kind *out_kind) {
    const char *stop = at + (*at == '-');
    stop += run_of(stop, end, is_digit);
    *out_kind = TOKEN_INT;
    if (stop < end && *stop == 'x') {
        *out_kind = TOKEN_SHAPE;
        return (size_t)(stop - at) + run_of(stop, end, is_shape);
    }
    if (stop < end && *stop == '.') {
        *out_kind = TOKEN_FLOAT;
        stop += 1 + run_of(stop + 1, end, is_digit);
        if (stop + 1 < end && (*stop == 'e' || *stop == 'E'))
            stop += 2 + run_of(stop + 2, end, is_digit);
    }
    return (size_t)(stop < end ? stop - at : end - at);
}

static token next_token(const char *at, const char *end) {
    token next = {.text = at, .size_bytes = 1, .kind = TOKEN_MARK};
    if (*at == '"') {
        next.kind = TOKEN_STRING;
        next.size_bytes = string_size(at, end);
    } else if (strchr("%@#!^", *at) && *at) {
        next.kind = *at == '%' ? TOKEN_VALUE : TOKEN_NAME;
        next.size_bytes = 1 + run_of(at + 1, end, is_word);
    } else if (*at == '?') {
        next.kind = TOKEN_SHAPE;
        next.size_bytes = run_of(at, end, is_shape);
    } else if (is_digit(*at) || (*at == '-' && at + 1 < end && is_digit(at[1]))) {
        next.size_bytes = number_size(at, end, &next.kind);
    } else if (is_word(*at)) {
        next.kind = TOKEN_WORD;
        next.size_bytes = run_of(at, end, is_word);
    }
    return next;
}

void tokens_read(tokens *list, const char *text, size_t size_bytes) {
    const char *at = text, *end = text + size_bytes;
    while (at < end) {
        if (isspace((unsigned char)*at)) {
            at++;
            continue;
        }
        if (*at == '/' && at + 1 < end && at[1] == '/') {
            const char *stop = memchr(at, '\n', (size_t)(end - at));
            at = stop ? stop : end;
            continue;
        }
        if (list->count == list->capacity) {
            list->items = tsr_grow(list->items, &list->capacity, 256, sizeof *list->items);
            TSR_ASSERT(list->items);
        }
        list->items[list->count] = next_token(at, end);
        at += list->items[list->count++].size_bytes;
    }
}

void tokens_finish(tokens *list) {
    free(list->items);
    *list = (tokens){0};
}

/* ---- seeds ----------------------------------------------------------------------------------- */

static void add_token(tokens *list, token t) {
    if (list->count == list->capacity) {
        list->items = tsr_grow(list->items, &list->capacity, 256, sizeof *list->items);
        TSR_ASSERT(list->items);
    }
    list->items[list->count++] = t;
}

void seeds_add(seeds *all, const char *text, size_t size_bytes) {
    tokens list = {0};
    char *copy = malloc(size_bytes + 1);
    TSR_ASSERT(copy);
    memcpy(copy, text, size_bytes);
    copy[size_bytes] = '\0';
    if (all->count == all->capacity) {
        all->items = tsr_grow(all->items, &all->capacity, 64, sizeof *all->items);
        TSR_ASSERT(all->items);
    }
    all->items[all->count++] = (struct seed){copy, size_bytes};
    tokens_read(&list, copy, size_bytes);
    for (size_t i = 0; i < list.count; i++)
        add_token(&all->of_kind[list.items[i].kind], list.items[i]);
    tokens_finish(&list);
}

void seeds_finish(seeds *all) {
    for (size_t i = 0; i < all->count; i++) free((void *)all->items[i].text);
    for (int i = 0; i < TOKEN_KINDS; i++) tokens_finish(&all->of_kind[i]);
    free(all->items);
    *all = (seeds){0};
}

/* ---- mutations: each writes the changed text to `out`, or returns false ---------------------- */

typedef struct subject {
    const seeds *all;
    const char *text;
    size_t size_bytes;
    tokens list;
    uint64_t *state;
    tsr_buffer *out;
} subject;

typedef bool (*mutation_fn)(subject *s);

static void write_with(subject *s, const token *what, const char *by, size_t by_size) {
    size_t at = (size_t)(what->text - s->text), after = at + what->size_bytes;
    tsr_buffer_append(s->out, s->text, at);
    tsr_buffer_append(s->out, by, by_size);
    tsr_buffer_append(s->out, s->text + after, s->size_bytes - after);
}

static const token *pick(subject *s, token_kind kind) {
    size_t found = 0;
    for (size_t i = 0; i < s->list.count; i++) found += s->list.items[i].kind == kind;
    size_t chosen = draw_below(s->state, found);
    for (size_t i = 0; i < s->list.count; i++)
        if (s->list.items[i].kind == kind && chosen-- == 0) return &s->list.items[i];
    return NULL;
}

static const token *pick_any(subject *s) {
    return s->list.count ? &s->list.items[draw_below(s->state, s->list.count)] : NULL;
}

static const token *pick_foreign(subject *s, token_kind kind) {
    const tokens *list = &s->all->of_kind[kind];
    return list->count ? &list->items[draw_below(s->state, list->count)] : NULL;
}

static bool token_is(const token *t, const char *text) {
    return t->size_bytes == strlen(text) && memcmp(t->text, text, t->size_bytes) == 0;
}

static const char *odd_integer(subject *s) {
    static const char *const odd[] = {"0",
                                      "1",
                                      "-1",
                                      "2",
                                      "3",
                                      "7",
                                      "16",
                                      "64",
                                      "65",
                                      "255",
                                      "256",
                                      "65536",
                                      "2147483647",
                                      "-2147483648",
                                      "4294967296",
                                      "9223372036854775807",
                                      "4611686018427387904",
                                      "-9223372036854775808",
                                      "99999999999999999999"};
    return odd[draw_below(s->state, TSR_COUNT(odd))];
}

static bool change_integer(subject *s) {
    char text[32];
    const token *t = pick(s, TOKEN_INT);
    if (!t) return false;
    int64_t value = atoll(t->text);
    snprintf(text, sizeof text, "%" PRId64,
             (int64_t)((uint64_t)value + (chance(s->state, 50) ? 1u : -1ull)));
    const char *by = chance(s->state, 70) ? text : odd_integer(s);
    write_with(s, t, by, strlen(by));
    return true;
}

static bool change_float(subject *s) {
    static const char *const odd[] = {"0.0",        "-0.0",       "1.0",    "0.5",
                                      "-3.25",      "1.0e308",    "1e-320", "0x7FC00000",
                                      "0x7F800000", "0xFF800000", "1"};
    const token *t = pick(s, TOKEN_FLOAT);
    const char *by = odd[draw_below(s->state, TSR_COUNT(odd))];
    if (t) write_with(s, t, by, strlen(by));
    return t != NULL;
}

/* The number of dims of a shape token. */
static size_t count_dims(const token *t) {
    size_t dims = 0;
    for (size_t i = 0; i < t->size_bytes; i++)
        dims += t->text[i] == 'x' && i > 0 && (is_digit(t->text[i - 1]) || t->text[i - 1] == '?');
    return dims;
}

static void find_dim(const token *t, size_t index, size_t *out_begin, size_t *out_size) {
    size_t begin = 0, dim = 0;
    for (size_t i = 0; i < t->size_bytes; i++) {
        if (t->text[i] != 'x' || i == 0) continue;
        if (dim++ == index) {
            *out_begin = begin;
            *out_size = i - begin;
            return;
        }
        begin = i + 1;
    }
    *out_begin = 0;
    *out_size = 0;
}

static const char *new_dim(subject *s) {
    static const char *const often[] = {"1", "2",  "3",  "4",  "5",  "6",  "7",  "8",
                                        "9", "12", "16", "17", "24", "32", "33", "64"};
    static const char *const rare[] = {"0",     "?",       "128",        "1000",
                                       "65537", "1048576", "2147483648", "4611686018427387904"};
    return chance(s->state, 85) ? often[draw_below(s->state, TSR_COUNT(often))]
                                : rare[draw_below(s->state, TSR_COUNT(rare))];
}

static bool change_one_dim(subject *s) {
    size_t begin, size;
    const token *t = pick(s, TOKEN_SHAPE);
    if (!t || !count_dims(t)) return false;
    find_dim(t, draw_below(s->state, count_dims(t)), &begin, &size);
    const char *by = new_dim(s);
    token dim = {.text = t->text + begin, .size_bytes = size};
    write_with(s, &dim, by, strlen(by));
    return true;
}

/* Changes the size of a dim in every type that has it. */
static bool change_every_dim(subject *s) {
    size_t begin, size;
    const token *t = pick(s, TOKEN_SHAPE);
    const char *at = s->text, *by = new_dim(s);
    if (!t || !count_dims(t)) return false;
    find_dim(t, draw_below(s->state, count_dims(t)), &begin, &size);
    const char *was = t->text + begin;
    for (size_t i = 0; i < s->list.count; i++) {
        const token *other = &s->list.items[i];
        if (other->kind != TOKEN_SHAPE) continue;
        for (size_t k = 0; k < count_dims(other); k++) {
            size_t other_begin, other_size;
            find_dim(other, k, &other_begin, &other_size);
            if (other_size != size || memcmp(other->text + other_begin, was, size) != 0) continue;
            const char *dim = other->text + other_begin;
            tsr_buffer_append(s->out, at, (size_t)(dim - at));
            tsr_buffer_text(s->out, by);
            at = dim + size;
        }
    }
    tsr_buffer_append(s->out, at, (size_t)(s->text + s->size_bytes - at));
    return true;
}

static const char *const types[] = {"f32", "f64",      "bf16",   "f16",      "i64",  "i32",
                                    "i16", "i8",       "ui8",    "ui16",     "ui32", "ui64",
                                    "i1",  "f8E4M3FN", "f8E5M2", "f8E8M0FNU"};
enum { TYPE_COUNT = TSR_COUNT(types) };

/* True if a token ends with this element type, after a dim or alone. */
static bool ends_with_type(const token *t, const char *type) {
    size_t size = strlen(type);
    if (t->kind == TOKEN_WORD) return token_is(t, type);
    return t->kind == TOKEN_SHAPE && t->size_bytes > size &&
           memcmp(t->text + t->size_bytes - size, type, size) == 0 &&
           t->text[t->size_bytes - size - 1] == 'x';
}

/* Replaces an element type by another one: everywhere or once. */
static bool change_type(subject *s, bool everywhere) {
    const char *from = types[chance(s->state, 60) ? 0 : draw_below(s->state, TYPE_COUNT)];
    const char *to =
        types[draw_below(s->state, everywhere && chance(s->state, 80) ? 4 : TYPE_COUNT)];
    const char *at = s->text;
    size_t found = 0;
    for (size_t i = 0; i < s->list.count; i++) found += ends_with_type(&s->list.items[i], from);
    size_t chosen = draw_below(s->state, found);
    for (size_t i = 0; i < s->list.count; i++) {
        const token *t = &s->list.items[i];
        if (!ends_with_type(t, from) || (!everywhere && chosen-- != 0)) continue;
        const char *type = t->text + t->size_bytes - strlen(from);
        tsr_buffer_append(s->out, at, (size_t)(type - at));
        tsr_buffer_text(s->out, to);
        at = type + strlen(from);
    }
    tsr_buffer_append(s->out, at, (size_t)(s->text + s->size_bytes - at));
    return found > 0;
}

static bool change_every_type(subject *s) { return change_type(s, true); }
static bool change_one_type(subject *s) { return change_type(s, false); }

/* Words that can stand for each other: those of one form. Ops have one form if their shape rules in
 * compiler/graph/ops.def are in one row of `rules`. */
static const char *const rules[][4] = {{"arithmetic", "float_arithmetic"},
                                       {"sign", "float_unary"},
                                       {"reduce", "extremum", "mean", "logsumexp"},
                                       {"logic"},
                                       {"jvp", "vjp"}};

static const struct word {
    const char *text, *rule; /* rule NULL: the word is not an op */
    int form;
} words[] = {
#define X(id, name, class, kind, check, ...) {"tessera." name, #check, 0},
#include "compiler/graph/ops.def"
#undef X
    {"eq", NULL, 1}, {"ne", NULL, 1},    {"lt", NULL, 1},   {"le", NULL, 1},    {"gt", NULL, 1},
    {"ge", NULL, 1}, {"train", NULL, 2}, {"eval", NULL, 2}, {"infer", NULL, 2},
};

/* Returns a number that words of one form share, or 0 if no other word has the form. */
static int form_of(const struct word *word) {
    if (!word->rule) return word->form;
    for (size_t r = 0; r < TSR_COUNT(rules); r++)
        for (size_t k = 0; k < TSR_COUNT(rules[r]) && rules[r][k]; k++)
            if (strcmp(word->rule, rules[r][k]) == 0) return -1 - (int)r;
    return 0;
}

static int form_of_token(const token *t) {
    for (size_t i = 0; i < TSR_COUNT(words); i++)
        if (token_is(t, words[i].text)) return form_of(&words[i]);
    return 0;
}

static bool change_op(subject *s) {
    const token *t = NULL;
    const char *by = NULL;
    size_t found = 0;
    for (size_t i = 0; i < s->list.count; i++)
        if (form_of_token(&s->list.items[i]) && draw_below(s->state, ++found) == 0)
            t = &s->list.items[i];
    if (!t) return false;
    found = 0;
    for (size_t i = 0; i < TSR_COUNT(words); i++)
        if (form_of(&words[i]) == form_of_token(t) && draw_below(s->state, ++found) == 0)
            by = words[i].text;
    write_with(s, t, by, strlen(by));
    return true;
}

static bool change_word(subject *s) {
    const token *t = pick(s, TOKEN_WORD), *by = pick_foreign(s, TOKEN_WORD);
    if (t && by) write_with(s, t, by->text, by->size_bytes);
    return t && by;
}

static bool change_value(subject *s) {
    const token *t = pick(s, TOKEN_VALUE), *by = pick(s, TOKEN_VALUE);
    if (t) write_with(s, t, by->text, by->size_bytes);
    return t != NULL;
}

static bool change_string(subject *s) {
    static const char *const odd[] = {"\"\"", "\"\\00\"", "\"a\\0Ab\"", "\"\\FF\"", "\"w\""};
    const token *t = pick(s, TOKEN_STRING), *by = pick_foreign(s, TOKEN_STRING);
    const char *text = odd[draw_below(s->state, TSR_COUNT(odd))];
    if (!t) return false;
    if (chance(s->state, 60))
        write_with(s, t, by->text, by->size_bytes);
    else
        write_with(s, t, text, strlen(text));
    return true;
}

static bool change_name(subject *s) {
    const token *t = pick(s, TOKEN_NAME);
    const token *by = chance(s->state, 50) ? pick(s, TOKEN_NAME) : pick_foreign(s, TOKEN_NAME);
    if (t && by) write_with(s, t, by->text, by->size_bytes);
    return t && by;
}

/* Removes `word = value` and the comma after it. */
static bool drop_attribute(subject *s) {
    size_t found = 0, chosen = 0;
    for (size_t i = 0; i + 1 < s->list.count; i++)
        if (s->list.items[i].kind == TOKEN_WORD && token_is(&s->list.items[i + 1], "=") &&
            draw_below(s->state, ++found) == 0)
            chosen = i;
    if (!found) return false;
    size_t depth = 0, end = chosen + 2;
    for (; end < s->list.count; end++) {
        const token *t = &s->list.items[end];
        if (t->kind != TOKEN_MARK) continue;
        if (strchr("[<({", *t->text)) depth++;
        if (!depth && strchr(",}>", *t->text)) break;
        if (depth && strchr("]>)}", *t->text)) depth--;
    }
    if (end == s->list.count) return false;
    bool comma = token_is(&s->list.items[end], ",");
    const char *begin = s->list.items[chosen].text;
    token all = {.text = begin, .size_bytes = (size_t)(s->list.items[end].text + comma - begin)};
    write_with(s, &all, "", 0);
    return true;
}

static bool drop_token(subject *s) {
    const token *t = pick_any(s);
    if (t) write_with(s, t, "", 0);
    return t != NULL;
}

static bool change_token(subject *s) {
    const token *t = pick_any(s);
    const token *by = pick_foreign(s, (token_kind)draw_below(s->state, TOKEN_KINDS));
    if (t && by) write_with(s, t, by->text, by->size_bytes);
    return t && by;
}

/* ---- lines ---- */

static token pick_line(uint64_t *state, const char *text, size_t size_bytes) {
    size_t count = 1;
    for (size_t i = 0; i < size_bytes; i++) count += text[i] == '\n';
    size_t chosen = draw_below(state, count);
    const char *at = text, *end = text + size_bytes;
    for (; chosen > 0; chosen--) at = (const char *)memchr(at, '\n', (size_t)(end - at)) + 1;
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    return (token){.text = at, .size_bytes = (size_t)((stop ? stop + 1 : end) - at)};
}

static bool drop_line(subject *s) {
    token line = pick_line(s->state, s->text, s->size_bytes);
    write_with(s, &line, "", 0);
    return true;
}

/* Inserts a line of this text or of another one before a line. */
static bool insert_line(subject *s) {
    const struct seed *from = &s->all->items[draw_below(s->state, s->all->count)];
    token line = chance(s->state, 50) ? pick_line(s->state, s->text, s->size_bytes)
                                      : pick_line(s->state, from->text, from->size_bytes);
    token at = pick_line(s->state, s->text, s->size_bytes);
    at.size_bytes = 0;
    write_with(s, &at, line.text, line.size_bytes);
    return true;
}

/* Inserts an op without the operands and attributes that ops of its name need before a line. */
static bool insert_bare_op(subject *s) {
    static const char *const ends[] = {"() : () -> ()", "() : () -> (f32)", "() : () -> (index)",
                                       "() : () -> (memref<4xf32>)", "() ({}) : () -> ()"};
    char text[256];
    const token *name = pick_foreign(s, TOKEN_WORD);
    for (int i = 0; i < 16 && name && !memchr(name->text, '.', name->size_bytes); i++)
        name = pick_foreign(s, TOKEN_WORD);
    if (!name || name->size_bytes > 128) return false;
    snprintf(text, sizeof text, "\"%.*s\"%s\n", (int)name->size_bytes, name->text,
             ends[draw_below(s->state, TSR_COUNT(ends))]);
    token at = pick_line(s->state, s->text, s->size_bytes);
    at.size_bytes = 0;
    write_with(s, &at, text, strlen(text));
    return true;
}

/* Adds an attribute that our stages use internally to any op, with any value. */
static bool insert_mark(subject *s) {
    static const char *const names[] = {
        TSR_TEAMS_NAME,       TSR_TOGETHER_NAME,      TSR_SHARED_NAME,
        TSR_APPROXIMATE_NAME, TSR_TAIL_NAME,          TSR_VRANK_LOOP,
        TSR_NUMERICS_NAME,    TSR_TARGET_NAME,        "tile.skip",
        TSR_CONSTANT_NAME,    TSR_CHOSEN_TILE,        TSR_PLANNED_GROUP,
        TSR_SR_SEGMENT,       TSR_SR_SEGMENTS,        TSR_SR_BUDGETS,
        TSR_SR_HINT,          TSR_SR_HINT_BUDGET,     TSR_SR_SHARDS,
        TSR_SR_SHARDED,       TSR_SR_BACKWARD,        TSR_SR_RECOVERY_HANDLER,
        TSR_SR_HANDLER,       TSR_SR_FAILURE_HANDLER, TSR_SR_DEPLOYMENT,
        TSR_SR_RECOMPUTE,     TSR_SR_VIRTUAL_RANKS};
    static const char *const values[] = {
        "unit",  "-1 : i64", "0 : i64", "3 : i64", "9223372036854775807 : i64",
        "\"x\"", "[]",       "[0, 1]",  "[\"x\"]", "[[0], \"x\"]",
        "{}",    "{x = 1}",  "f32",     "@f",      "1.5 : f32"};
    char text[128];
    size_t found = 0;
    const token *colon = NULL;
    for (size_t i = 0; i < s->list.count; i++)
        if (token_is(&s->list.items[i], ":") && draw_below(s->state, ++found) == 0)
            colon = &s->list.items[i];
    if (!colon) return false;
    snprintf(text, sizeof text, "{%s = %s} :", names[draw_below(s->state, TSR_COUNT(names))],
             values[draw_below(s->state, TSR_COUNT(values))]);
    write_with(s, colon, text, strlen(text));
    return true;
}

static bool nest(subject *s) {
    static const char open[] = "([{<";
    tsr_buffer text = {0};
    size_t count = chance(s->state, 50) ? 8 : draw_below(s->state, 2000);
    char c[2] = {open[draw_below(s->state, 4)], 0};
    const token *t = pick_any(s);
    if (!t) return false;
    for (size_t i = 0; i < count; i++) tsr_buffer_text(&text, c);
    write_with(s, t, text.bytes ? text.bytes : "", text.size_bytes);
    tsr_buffer_finish(&text);
    return true;
}

void mutate_bytes(uint64_t *state, char *bytes, size_t size_bytes) {
    for (size_t n = 1 + draw_below(state, 4); n > 0 && size_bytes > 0; n--) {
        size_t at = draw_below(state, size_bytes);
        uint64_t flipped = (unsigned char)bytes[at] ^ UINT64_C(1) << draw_below(state, 8);
        bytes[at] = (char)(chance(state, 50) ? draw(state) : flipped);
    }
}

static bool change_bytes(subject *s) {
    size_t before = s->out->size_bytes;
    tsr_buffer_append(s->out, s->text, s->size_bytes);
    if (!s->out->failed) mutate_bytes(s->state, s->out->bytes + before, s->size_bytes);
    return true;
}

/* ---- all ------------------------------------------------------------------------------------- */

static const struct row {
    mutation_fn run;
    unsigned weight;
} mutations[] = {
    {change_every_dim, 22}, {change_every_type, 14}, {change_op, 18},     {change_integer, 12},
    {change_float, 8},      {change_value, 7},       {change_string, 2},  {insert_line, 5},
    {insert_bare_op, 2},    {insert_mark, 2},        {change_one_dim, 3}, {change_one_type, 2},
    {change_word, 2},       {change_name, 2},        {drop_attribute, 4}, {drop_line, 2},
    {drop_token, 1},        {change_token, 2},       {nest, 1},           {change_bytes, 1},
};

static bool mutate_once(const seeds *all, uint64_t *state, const tsr_buffer *from,
                        tsr_buffer *out) {
    unsigned total = 0;
    subject s = {.all = all,
                 .text = from->bytes,
                 .size_bytes = from->size_bytes,
                 .state = state,
                 .out = out};
    tokens_read(&s.list, from->bytes, from->size_bytes);
    for (size_t i = 0; i < TSR_COUNT(mutations); i++) total += mutations[i].weight;
    size_t at = draw_below(state, total), i = 0;
    while (at >= mutations[i].weight) at -= mutations[i++].weight;
    bool changed = mutations[i].run(&s) && out->size_bytes <= TEXT_MAX;
    tokens_finish(&s.list);
    return changed;
}

void mutate(const seeds *all, uint64_t *state, tsr_buffer *out) {
    const struct seed *from = &all->items[draw_below(state, all->count)];
    size_t times = chance(state, 60) ? 1 : chance(state, 70) ? 2 : 3 + draw_below(state, 4);
    tsr_buffer now = {0};
    tsr_buffer_append(&now, from->text, from->size_bytes);
    while (times-- > 0) {
        tsr_buffer next = {0};
        if (!mutate_once(all, state, &now, &next) || !next.bytes) {
            tsr_buffer_finish(&next);
            continue;
        }
        tsr_buffer_finish(&now);
        now = next;
    }
    tsr_buffer_append(out, now.bytes, now.size_bytes);
    tsr_buffer_finish(&now);
}
