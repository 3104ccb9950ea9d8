/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/diag/fixit.h"

#include "compiler/shim/shim.h"
#include "runtime/base/array.h"
#include "runtime/base/suggest.h"
#include "runtime/base/tensor.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { WORD_MAX = 128 };
static const char meant[] = "; did you mean '";

static bool in_word(char c) {
    return isalnum((unsigned char)c) || c == '_' || c == '.' || c == '$' || c == '-';
}

/* ---- known names ---- */

static const struct {
    const char *begin, *fields;
} attributes[] = {
    {"#tessera.adamw<", "lr, [beta1], [beta2], [eps], [weight_decay]"},
    {"#tessera.sgd<", "lr, [momentum], [weight_decay]"},
    {"#tessera.nesterov<", "lr, momentum, [weight_decay]"},
    {"#tessera.uniform<", "two numbers: low, high"},
    {"#tessera.normal<", "two numbers: mean, deviation"},
    {"#tessera.constant<", "one number"},
};

typedef struct alias {
    const char *name, *right, *note;
} alias;

static const alias op_aliases[] = {
#define X(NAME, OP, NOTE) {NAME, OP, NOTE},
#define A(NAME, ATTRIBUTE, NOTE)
#define T(NAME, TYPE)
#include "compiler/diag/aliases.def"
#undef X
#undef A
#undef T
};

static const alias attribute_aliases[] = {
#define X(NAME, OP, NOTE)
#define A(NAME, ATTRIBUTE, NOTE) {NAME, ATTRIBUTE, NOTE},
#define T(NAME, TYPE)
#include "compiler/diag/aliases.def"
#undef X
#undef A
#undef T
};

static const alias type_aliases[] = {
#define X(NAME, OP, NOTE)
#define A(NAME, ATTRIBUTE, NOTE)
#define T(NAME, TYPE) {NAME, TYPE, ""},
#include "compiler/diag/aliases.def"
#undef X
#undef A
#undef T
};

static const char source_dialect[] = "tessera.";

/* The name without "dialect."; the whole name if it has none. */
static const char *bare_name(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

static const alias *find_alias(const alias *rows, size_t count, const char *wrong) {
    const char *name = bare_name(wrong);
    for (size_t i = 0; i < count; i++)
        if (strcasecmp(name, rows[i].name) == 0) return &rows[i];
    return NULL;
}

/* A source uses ops of `tessera`, `tessera_sr` and `func`. Ops of later stages are suggested only
 * for a program that uses their dialect. */
static void offer_op(MlirStringRef name, void *user) {
    static const char *const dialects[] = {source_dialect, "tessera_sr.", "func."};
    tsr_suggestion *s = user;
    const char *dot = strchr(s->wrong, '.');
    size_t own = dot ? (size_t)(dot + 1 - s->wrong) : 0;
    bool offered = own && strncmp(name.data, s->wrong, own) == 0;
    for (size_t i = 0; i < TSR_COUNT(dialects); i++)
        offered |= strncmp(name.data, dialects[i], strlen(dialects[i])) == 0;
    if (offered) tsr_suggest(s, name.data);
}

typedef struct exact {
    const char *name; /* without the dialect */
    const char *op;   /* the op of dialect `tessera` with this name; NULL if it has none */
} exact;

static void find_exact(MlirStringRef name, void *user) {
    exact *e = user;
    size_t length = sizeof source_dialect - 1;
    if (strncmp(name.data, source_dialect, length) == 0 &&
        strcasecmp(name.data + length, e->name) == 0)
        e->op = name.data;
}

/* Offers every word of the sources that begins with `sigil`, except words spelled like the wrong
 * one and words that are too long for a fix-it. Only a better word is stored in the arena. */
static void offer_names(tsr_diag_list *list, char sigil, tsr_suggestion *s) {
    char name[WORD_MAX];
    for (const tsr_diag_source *source = list->sources; source; source = source->next)
        for (const char *at = source->text; (at = strchr(at, sigil)) != NULL;) {
            const char *begin = ++at;
            while (in_word(*at)) at++;
            size_t length = (size_t)(at - begin);
            if (!length || length >= sizeof name) continue;
            memcpy(name, begin, length);
            name[length] = '\0';
            if (strcmp(name, s->wrong) != 0) tsr_suggest(s, name);
            if (s->best == name) s->best = tsr_arena_strdup(&list->arena, name);
        }
}

/* ---- words ---- */

/* Reads the quoted word after `before`. */
static bool word_after(const char *text, const char *before, char out_word[static WORD_MAX]) {
    const char *begin = strstr(text, before);
    if (!begin) return false;
    begin += strlen(before);
    const char *end = strchr(begin, '\'');
    if (!end || end == begin || end - begin >= WORD_MAX) return false;
    memcpy(out_word, begin, (size_t)(end - begin));
    out_word[end - begin] = '\0';
    return true;
}

/* Reads the word of the source line that begins at the diagnostic's column with `sigil`. */
static bool word_at(const tsr_diag *diag, char sigil, char out_word[static WORD_MAX]) {
    size_t at = diag->column, length = 0;
    if (!diag->source_line || !at || at > strlen(diag->source_line)) return false;
    if (diag->source_line[at - 1] != sigil) return false;
    while (in_word(diag->source_line[at + length])) length++;
    if (!length || length >= WORD_MAX) return false;
    memcpy(out_word, diag->source_line + at, length);
    out_word[length] = '\0';
    return true;
}

/* Reads the last word that the text quotes before `end`. */
static bool word_before(const char *text, const char *end, char out_word[static WORD_MAX]) {
    const char *close = end, *open;
    while (close > text && *close != '\'') close--;
    for (open = close; open > text && open[-1] != '\'';) open--;
    if (open == text || open == close || close - open >= WORD_MAX) return false;
    memcpy(out_word, open, (size_t)(close - open));
    out_word[close - open] = '\0';
    return true;
}

static bool is_of_result(const tsr_diag *diag) {
    return diag->number == TSR_DIAG_RESULT || diag->number == TSR_DIAG_RESULT_DTYPE ||
           diag->number == TSR_DIAG_RESULT_RANK;
}

/* Returns the next occurrence of the whole word after `sigil`; without a sigil, an occurrence that
 * is not the name of a value or symbol. */
static const char *next_word(const char *line, const char *at, const char *word, char sigil) {
    for (; (at = strstr(at, word)) != NULL; at++) {
        char before = at == line ? ' ' : at[-1];
        if (in_word(before) || in_word(at[strlen(word)])) continue;
        if (sigil ? before == sigil : !strchr("%@", before)) return at;
    }
    return NULL;
}

/* Returns the position of the word in the line, searched from the diagnostic's column, where the
 * wrong code begins. Result types are after the arrow, or last; an attribute of a function may be
 * at any of its arguments. NULL if several occurrences could be meant. */
static const char *find_word(const tsr_diag *diag, const char *word, char sigil) {
    const char *line = diag->source_line, *from = line, *arrow;
    if (diag->column > strlen(line)) return NULL;
    if (diag->column && diag->number != TSR_DIAG_UNKNOWN_TYPE) from += diag->column - 1;
    bool of_result = is_of_result(diag), has_arrow = false;
    while (of_result && (arrow = strstr(from, "->")) != NULL) from = arrow + 2, has_arrow = true;
    const char *found = next_word(line, from, word, sigil), *other = found;
    while (other && (other = next_word(line, other + 1, word, sigil)) != NULL) {
        if (has_arrow || diag->number == TSR_DIAG_TESSERA_ATTRIBUTE ||
            diag->number == TSR_DIAG_UNKNOWN_TYPE)
            return NULL;
        if (of_result) found = other;
    }
    return found;
}

/* ---- all kinds ---- */

/* Reads the name of an attribute that dialect `tessera` does not have, without its dialect. */
static bool attribute_of(const tsr_diag *diag, char out_word[static WORD_MAX]) {
    static const char before[] = "unknown attribute `", after[] = "` in dialect `tessera`";
    const char *name = strstr(diag->text, before), *end = name ? strstr(name, after) : NULL;
    if (!end) return false;
    name += sizeof before - 1;
    int length = snprintf(out_word, WORD_MAX, "%s%.*s", source_dialect, (int)(end - name), name);
    return length < WORD_MAX;
}

static bool find_wrong(const tsr_diag *diag, char out_word[static WORD_MAX], char *out_sigil) {
    switch (diag->number) {
    case TSR_DIAG_UNKNOWN_OP:
        *out_sigil = 0;
        return word_after(diag->text, "op '", out_word) ||
               word_after(diag->text, "operation '", out_word);
    case TSR_DIAG_UNKNOWN_SYMBOL:
        *out_sigil = '@';
        return word_after(diag->text, "op '", out_word);
    case TSR_DIAG_UNKNOWN_VALUE:
        *out_sigil = '%';
        return word_at(diag, '%', out_word);
    case TSR_DIAG_UNKNOWN_TYPE:
        *out_sigil = '#';
        return attribute_of(diag, out_word);
    default:
        return false;
    }
}

/* Returns the length of the text so far, without trailing blanks. */
static int text_length(const tsr_diag *diag) {
    size_t length = strlen(diag->text);
    while (length && diag->text[length - 1] == ' ') length--;
    return (int)length;
}

static void set_text(tsr_diag *diag, const char *text) {
    if (text) diag->text = text;
}

/* Appends the right name, or only the note if there is no such name. */
static void append_alias(tsr_diag_list *list, tsr_diag *diag, const alias *a) {
    if (!a->right[0])
        set_text(diag, tsr_arena_printf(&list->arena, "%.*s; %s", text_length(diag), diag->text,
                                        a->note));
    else
        set_text(diag, tsr_arena_printf(&list->arena, "%.*s%s%s%s'?%s%s%s", text_length(diag),
                                        diag->text, meant, source_dialect, a->right,
                                        a->note[0] ? " (" : "", a->note, a->note[0] ? ")" : ""));
}

static void append_name(tsr_diag_list *list, tsr_diag *diag, const char *sigil, const char *name) {
    set_text(diag, tsr_arena_printf(&list->arena, "%.*s%s%s%s'?", text_length(diag), diag->text,
                                    meant, sigil, name));
}

/* Prefers the op of this name in dialect `tessera`, then a known alias, then a similar name. */
static void suggest_op(tsr_diag_list *list, tsr_diag *diag, const char *wrong) {
    exact e = {.name = bare_name(wrong)};
    tsr_suggestion s = {.wrong = wrong};
    const alias *known = find_alias(op_aliases, TSR_COUNT(op_aliases), wrong);
    tsr_shim_op_names(list->context, find_exact, &e);
    if (!e.op && known) {
        append_alias(list, diag, known);
        return;
    }
    if (!e.op) tsr_shim_op_names(list->context, offer_op, &s);
    if (e.op || s.best) append_name(list, diag, "", e.op ? e.op : s.best);
}

/* `wrong` is the name of an optimizer or an init rule, with its dialect. */
static void suggest_attribute(tsr_diag_list *list, tsr_diag *diag, const char *wrong) {
    tsr_suggestion s = {.wrong = wrong};
    const alias *known = find_alias(attribute_aliases, TSR_COUNT(attribute_aliases), wrong);
    if (known) {
        append_alias(list, diag, known);
        return;
    }
    for (size_t i = 0; i < TSR_COUNT(attributes); i++) {
        size_t length = strcspn(attributes[i].begin + 1, "<");
        const char *offered = tsr_arena_strndup(&list->arena, attributes[i].begin + 1, length);
        if (offered) tsr_suggest(&s, offered);
    }
    if (!s.best) return;
    append_name(list, diag, "", s.best);
}

/* `wrong` is the name of a type: of an element, or a misspelled "tensor". */
static void suggest_type(tsr_diag_list *list, tsr_diag *diag, const char *wrong) {
    const alias *known = find_alias(type_aliases, TSR_COUNT(type_aliases), wrong);
    tsr_suggestion s = {.wrong = wrong};
    tsr_suggest(&s, "tensor");
    for (const char *at = tsr_dtype_names(); *at;) {
        size_t length = strcspn(at, ", ");
        const char *name = tsr_arena_strndup(&list->arena, at, length);
        if (name) tsr_suggest(&s, name);
        at += length + strspn(at + length, ", ");
    }
    if (known) s.best = known->right;
    if (s.best) append_name(list, diag, "", s.best);
}

/* MLIR's text does not say which value is undefined. */
static void name_value(tsr_diag_list *list, tsr_diag *diag, const char *wrong) {
    if (strcmp(diag->text, "use of undeclared SSA value name") == 0)
        set_text(diag, tsr_arena_printf(&list->arena, "value '%%%s' is not defined", wrong));
}

static void add_suggestion(tsr_diag_list *list, tsr_diag *diag) {
    char wrong[WORD_MAX], sigil = 0;
    if (diag->number == TSR_DIAG_UNKNOWN_TYPE && strstr(diag->text, "' is not a type;") &&
        word_after(diag->text, "'", wrong)) {
        suggest_type(list, diag, wrong);
        return;
    }
    if (!find_wrong(diag, wrong, &sigil)) return;
    tsr_suggestion s = {.wrong = wrong};
    if (!sigil) {
        suggest_op(list, diag, wrong);
    } else if (sigil == '#') {
        suggest_attribute(list, diag, wrong);
    } else {
        char mark[2] = {sigil, '\0'};
        if (list->error_count < TSR_DIAG_SUGGESTIONS_MAX) offer_names(list, sigil, &s);
        if (sigil == '%') name_value(list, diag, wrong);
        if (s.best) append_name(list, diag, mark, s.best);
    }
}

/* ---- fields of attributes ---- */

/* When parsing fails inside an attribute, adds the list of its fields. */
static void add_fields(tsr_diag_list *list, tsr_diag *diag) {
    size_t before = diag->source_line && diag->column ? diag->column - 1 : 0;
    const char *line = diag->source_line, *last = NULL;
    if (diag->number != TSR_DIAG_SYNTAX || !before || before > strlen(line)) return;
    for (size_t i = 0; i < before; i++)
        if (line[i] == '#') last = line + i;
    for (size_t i = 0; last && i < TSR_COUNT(attributes); i++) {
        size_t length = strlen(attributes[i].begin);
        if ((size_t)(line + before - last) < length ||
            strncmp(last, attributes[i].begin, length) != 0 ||
            memchr(last, '>', (size_t)(line + before - last)))
            continue;
        char *text = tsr_arena_printf(&list->arena, "%s; %.*s has %s", diag->text, (int)length - 1,
                                      attributes[i].begin, attributes[i].fields);
        if (text) diag->text = text;
    }
}

/* ---- forms of attributes ---- */

static const struct {
    const char *kind, *value, *more;
} forms[] = {
    {"bool attribute", " = true", " or false"},
    {"unit attribute", "", " alone, or leave it out"},
    {"64-bit signless integer attribute", " = 3", ""},
    {"64-bit integer array attribute", " = [0, 2]", ""},
    {"64-bit float attribute", " = 2.0", ", with a point"},
};

/* When a value has the wrong kind for its attribute, adds an example of the right form. */
static void add_form(tsr_diag_list *list, tsr_diag *diag) {
    static const char failed[] = "failed to satisfy constraint: ";
    char name[WORD_MAX];
    const char *kind = strstr(diag->text, failed);
    if (diag->number != TSR_DIAG_VALUE || !kind || !word_after(diag->text, "attribute '", name))
        return;
    for (size_t i = 0; i < TSR_COUNT(forms); i++) {
        if (strcmp(kind + sizeof failed - 1, forms[i].kind) != 0) continue;
        char *text = tsr_arena_printf(&list->arena, "%s; write '%s%s'%s", diag->text, name,
                                      forms[i].value, forms[i].more);
        if (text) diag->text = text;
        return;
    }
}

void tsr_diag_add_fix(tsr_diag_list *list, tsr_diag *diag) {
    char right[WORD_MAX], wrong[WORD_MAX], sigil = 0;
    add_fields(list, diag);
    add_form(list, diag);
    if (!strstr(diag->text, meant)) add_suggestion(list, diag);
    const char *end = strstr(diag->text, meant);
    if (!end || !diag->source_line || !word_after(end, meant, right)) return;
    const char *bare = strchr("%@", right[0]) ? right + 1 : right;
    if (!find_wrong(diag, wrong, &sigil) && !word_before(diag->text, end, wrong)) return;
    const char *found = find_word(diag, wrong, sigil);
    if (!found) return;
    diag->fix_column = (uint32_t)(found - diag->source_line) + 1;
    diag->fix_length = (uint32_t)strlen(wrong);
    diag->fix = tsr_arena_strdup(&list->arena, bare);
}
