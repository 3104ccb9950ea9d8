/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/ir/text/recover.h"

#include "compiler/ir/mlir.h"
#include "compiler/shim/shim.h"

#include <ctype.h>
#include <string.h>

/* ---- functions of a text ---- */

typedef struct span {
    size_t begin, end;
} span;

/* The end of the string or comment that begins at `at`, or `at`. */
static size_t skip_quoted(const char *text, size_t at) {
    if (text[at] == '"') {
        for (at++; text[at] && text[at] != '"' && text[at] != '\n'; at++)
            if (text[at] == '\\' && text[at + 1]) at++;
    } else if (text[at] == '/' && text[at + 1] == '/') {
        while (text[at + 1] && text[at + 1] != '\n') at++;
    }
    return at;
}

static bool is_function(const char *text, size_t at) {
    static const char word[] = "func.func";
    if (strncmp(text + at, word, sizeof word - 1) != 0) return false;
    return isspace((unsigned char)text[at + sizeof word - 1]) &&
           (at == 0 || isspace((unsigned char)text[at - 1]));
}

static bool in_name(char c) { return isalnum((unsigned char)c) || (c && strchr("_.$-", c)); }

static size_t skip_blanks(const char *text, size_t at) { return at + strspn(text + at, " \t"); }

/* "!name =" or "#name =" at the begin of a line. */
static bool is_alias(const char *text, size_t at) {
    size_t begin = at, end = at + 1;
    if (text[at] != '!' && text[at] != '#') return false;
    while (begin && (text[begin - 1] == ' ' || text[begin - 1] == '\t')) begin--;
    if (begin && text[begin - 1] != '\n') return false;
    while (in_name(text[end])) end++;
    return text[skip_blanks(text, end)] == '=';
}

/* The word "module" with a name, attributes or a body. */
static bool is_module(const char *text, size_t at) {
    static const char word[] = "module", dialect[] = "builtin.";
    size_t before = sizeof dialect - 1, end = at + sizeof word - 1;
    if (strncmp(text + at, word, sizeof word - 1) != 0 || in_name(text[end])) return false;
    if (at >= before && strncmp(text + at - before, dialect, before) == 0) at -= before;
    if (at && (in_name(text[at - 1]) || strchr("!@#%^", text[at - 1]))) return false;
    end += strspn(text + end, " \t\n");
    return text[end] == '{' || text[end] == '@' || strncmp(text + end, "attributes", 10) == 0;
}

/* Finds the function around the position: from its first word to the next function or alias, or to
 * the brace that closes the module. False if there is none. Aliases are at the top level, outside
 * an explicit module. */
static bool find_function(const char *text, size_t position, span *out_span) {
    size_t last_brace = 0, next = 0;
    bool found = false, in_module = false, next_is_function = false;
    for (size_t at = 0; text[at] && !next; at++) {
        size_t end = skip_quoted(text, at);
        bool begins = end == at && is_function(text, at);
        bool splits = begins || (end == at && is_alias(text, at));
        if (splits && at > position) {
            next = at;
            next_is_function = begins;
        } else if (splits) {
            out_span->begin = at;
            found = begins;
        } else if (end == at && text[at] == '}') {
            last_brace = at;
        } else if (end == at && is_module(text, at)) {
            in_module = true;
        }
        at = end;
        if (!text[at]) break;
    }
    out_span->end = in_module && !next_is_function ? last_brace : next ? next : strlen(text);
    return found && out_span->end > out_span->begin;
}

/* ---- parsing again ---- */

typedef struct recovery {
    char *text;    /* the source; functions with errors are blank */
    span failed;   /* the function of the last accepted error */
    bool accepted; /* an error of the current text */
    size_t count;
} recovery;

/* Blanks keep every other function at its position. */
static void blank(char *text, const span *function) {
    for (size_t i = function->begin; i < function->end; i++)
        if (text[i] != '\n') text[i] = ' ';
}

/* The same position and text as an earlier error. */
static bool is_repeated(const tsr_diag_list *list, const tsr_diag *diag) {
    for (const tsr_diag *d = list->first; d; d = d->next)
        if (d->line == diag->line && d->column == diag->column &&
            strcmp(d->text, diag->text) == 0 && strcmp(d->file, diag->file) == 0)
            return true;
    return false;
}

/* Accepts the first error of a function that is not blank yet; an error elsewhere can be a
 * consequence of the blanks. */
static bool accepts_parse_error(tsr_diag_list *list, const tsr_diag *diag) {
    recovery *r = list->accepts_user;
    if (r->accepted || !diag) return !r->accepted;
    span function;
    size_t position = tsr_diag_position(list, diag);
    if (position == SIZE_MAX || !find_function(r->text, position, &function)) return false;
    r->failed = function;
    r->accepted = true;
    return true;
}

static bool accepts_nothing(tsr_diag_list *list, const tsr_diag *diag) {
    (void)list, (void)diag;
    return false;
}

static bool accepts_new_error(tsr_diag_list *list, const tsr_diag *diag) {
    size_t *count = list->accepts_user;
    if (*count >= TSR_VERIFY_ERRORS_MAX || (diag && is_repeated(list, diag))) return false;
    *count += diag != NULL;
    return true;
}

static bool wants_more(void *user) {
    const size_t *count = user;
    return *count < TSR_VERIFY_ERRORS_MAX;
}

/* Emits the errors of all ops, in their order, up to the limit. */
static void verify_ops(tsr_diag_list *list, MlirModule module, bool is_whole) {
    size_t count = 0;
    list->accepts_user = &count;
    list->accepts = accepts_new_error;
    tsr_shim_verify_ops(module, is_whole, wants_more, &count);
    /* What concerns several ops: blocks without a terminator, uses that are not dominated. */
    if (is_whole && wants_more(&count)) (void)mlirOperationVerify(mlirModuleGetOperation(module));
    list->accepts = NULL;
}

void tsr_recover_errors(tsr_diag_list *list, MlirContext context, MlirStringRef text,
                        const char *name) {
    tsr_arena arena = {0};
    recovery r = {.text = tsr_arena_strndup(&arena, text.data, text.length)};
    MlirModule module = {NULL};
    size_t position = list->last ? tsr_diag_position(list, list->last) : SIZE_MAX;
    bool goes_on = r.text && position != SIZE_MAX && strlen(r.text) == text.length &&
                   find_function(r.text, position, &r.failed);
    list->accepts_user = &r;
    list->accepts = accepts_parse_error;
    while (goes_on && mlirModuleIsNull(module)) {
        blank(r.text, &r.failed);
        r.accepted = false;
        module = tsr_shim_parse(context, mlirStringRefCreate(r.text, text.length), tsr_ref(name));
        goes_on = r.accepted && ++r.count < TSR_PARSE_ERRORS_MAX;
    }
    list->accepts = NULL;
    if (!mlirModuleIsNull(module)) {
        verify_ops(list, module, false);
        mlirModuleDestroy(module);
    }
    tsr_arena_finish(&arena);
}

bool tsr_verify_all(tsr_diag_list *list, MlirModule module) {
    list->accepts = accepts_nothing;
    bool valid = mlirOperationVerify(mlirModuleGetOperation(module));
    list->accepts = NULL;
    if (!valid) verify_ops(list, module, true);
    return valid;
}
