/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/opt/expect.h"

#include "runtime/base/array.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {
    [TSR_SEVERITY_ERROR] = "error",
    [TSR_SEVERITY_WARNING] = "warning",
    [TSR_SEVERITY_NOTE] = "note",
    [TSR_SEVERITY_REMARK] = "remark",
};

/* Parses "@+1", "@-2", "@above", "@below", "@unknown" or nothing; returns the text after it. */
static const char *read_line(const char *at, uint32_t line, uint32_t *out_line) {
    *out_line = line;
    if (*at != '@') return at;
    if (strncmp(at, "@above", 6) == 0) return *out_line = line - 1, at + 6;
    if (strncmp(at, "@below", 6) == 0) return *out_line = line + 1, at + 6;
    if (strncmp(at, "@unknown", 8) == 0) return *out_line = 0, at + 8;
    char *end;
    long by = strtol(at + 1, &end, 10);
    if (end == at + 1 || (at[1] != '+' && at[1] != '-')) return NULL;
    *out_line = (uint32_t)((long)line + by);
    return end;
}

static TSR_RESULT read_one(tsr_ctx *ctx, tsr_expectations *all, const char *at, uint32_t line) {
    tsr_expectation one = {.written = line};
    size_t kind = 0, count = TSR_COUNT(names);
    const char *rest = NULL;
    while (kind < count && strncmp(at, names[kind], strlen(names[kind])) != 0) kind++;
    if (kind < count) rest = read_line(at + strlen(names[kind]), line, &one.line);
    if (rest) rest += strspn(rest, " ");
    const char *end = rest && strncmp(rest, "{{", 2) == 0 ? strstr(rest, "}}") : NULL;
    if (!end)
        FAIL(ctx, TSR_USAGE, "%s:%u: '%.*s' is not an expectation; see tessera-opt --help",
             all->name, line, (int)strcspn(at, "\n"), at);
    one.severity = (tsr_severity)kind;
    one.words = tsr_arena_strndup(&all->arena, rest + 2, (size_t)(end - rest - 2));
    if (!one.words) FAIL(ctx, TSR_MEMORY, "no memory for expectations");
    if (all->count == all->capacity) {
        tsr_expectation *grown = TSR_ARENA_GROW(&all->arena, all->items, &all->capacity, 16);
        if (!grown) FAIL(ctx, TSR_MEMORY, "no memory for expectations");
        all->items = grown;
    }
    all->items[all->count++] = one;
    return TSR_SUCCESS;
}

tsr_result tsr_expect_read(tsr_ctx *ctx, const char *name, const char *text,
                           tsr_expectations *out_expectations) {
    static const char mark[] = "// expected-";
    tsr_expectations all = {.name = name};
    tsr_result result = TSR_SUCCESS;
    uint32_t line = 1;
    for (const char *at = text; *at && !result.code; at++) {
        if (*at == '\n') line++;
        if (strncmp(at, mark, sizeof mark - 1) == 0)
            result = read_one(ctx, &all, at + sizeof mark - 1, line);
    }
    if (result.code)
        tsr_arena_finish(&all.arena);
    else
        *out_expectations = all;
    return result;
}

static bool meet(tsr_expectations *all, const tsr_diag *diag) {
    char number[16] = "";
    tsr_buffer whole = {0};
    bool met = false;
    if (diag->number) snprintf(number, sizeof number, "[TSR-%04d] ", (int)diag->number);
    tsr_buffer_printf(&whole, "%s%s", number, diag->text);
    for (size_t i = 0; i < all->count && !met && whole.bytes; i++) {
        tsr_expectation *one = &all->items[i];
        if (one->met || one->severity != diag->severity || one->line != diag->line ||
            !strstr(whole.bytes, one->words))
            continue;
        one->met = met = true;
    }
    tsr_buffer_finish(&whole);
    return met;
}

void tsr_expect_meet(tsr_expectations *all, const tsr_diag *diag) {
    for (size_t i = 0; i < diag->note_count; i++) meet(all, &diag->notes[i]);
    if (meet(all, diag)) return;
    fprintf(stderr, "%s:%u:%u: unexpected %s: [TSR-%04d] %s\n", all->name, diag->line, diag->column,
            names[diag->severity], (int)diag->number, diag->text);
    all->wrong++;
}

bool tsr_expect_finish(tsr_expectations *all) {
    for (size_t i = 0; i < all->count; i++) {
        const tsr_expectation *one = &all->items[i];
        if (one->met) continue;
        fprintf(stderr, "%s:%u: expected %s at line %u, got none: %s\n", all->name, one->written,
                names[one->severity], one->line, one->words);
        all->wrong++;
    }
    bool good = all->wrong == 0;
    tsr_arena_finish(&all->arena);
    *all = (tsr_expectations){0};
    return good;
}
