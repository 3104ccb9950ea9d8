/* SPDX-License-Identifier: Apache-2.0
 *
 * evaluate_tool: standard input is several programs, each with a line before it that holds its size
 * in bytes. For each, one line: "value " and the repr of `r`, or "error LINE COLUMN NUMBER TEXT" of
 * its first error. With -t diagnostics are shown as users see them.
 */
#include "compiler/frontend/language/evaluate/evaluate.h"
#include "compiler/frontend/language/syntax/limits.h"
#include "compiler/frontend/language/syntax/parser.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void show(void *user, tsr_diag *diag) {
    tsr_buffer text = {0};
    (void)user;
    tsr_diag_format(diag, &text);
    fputs(text.bytes ? text.bytes : "", stdout);
    tsr_buffer_finish(&text);
}

static void print_value(tsr_value v) {
    tsr_buffer text = {0};
    tsr_value_repr(v, &text);
    printf("value %s\n", text.bytes ? text.bytes : "?");
    tsr_buffer_finish(&text);
}

static void run(const char *bytes, size_t size_bytes, bool as_text) {
    tsr_arena arena = {0};
    tsr_report report = {.arena = &arena, .on_diag = show, .errors_max = TSR_LANGUAGE_ERRORS_MAX};
    tsr_evaluator e = {.report = &report, .arena = &arena};
    tsr_scope globals = {0};
    tsr_source source;
    bool printed = false;
    if (tsr_source_init(&report, "m.py", bytes, size_bytes, &source)) {
        tsr_ast *module = tsr_parse(&report, &source);
        bool good = module && tsr_refuse(&report, &source, module) && !report.error_count;
        if (good && tsr_evaluate_module(&e, &source, module, &globals))
            for (size_t i = 0; i < globals.count && !as_text; i++) {
                if (strcmp(globals.bindings[i].name, "r") != 0) continue;
                print_value(globals.bindings[i].value);
                printed = true;
            }
    }
    if (as_text) tsr_report_send(&report);
    if (report.first && !as_text)
        printf("error %u %u %d %s\n", report.first->line, report.first->column,
               (int)report.first->number, report.first->text);
    if (!printed && !report.first && !as_text) puts("nothing");
    tsr_arena_finish(&arena);
}

int main(int argc, char **argv) {
    size_t size = 0, capacity = 1 << 16, at = 0;
    char *bytes = malloc(capacity + 1), *end;
    if (!bytes) abort();
    for (size_t got; (got = fread(bytes + size, 1, capacity - size, stdin)) > 0;) {
        size += got;
        if (size == capacity) bytes = realloc(bytes, (capacity *= 2) + 1);
        if (!bytes) abort();
    }
    bytes[size] = 0;
    bool as_text = argc > 1 && strcmp(argv[1], "-t") == 0;
    while (at < size) {
        size_t length = strtoul(bytes + at, &end, 10);
        at = (size_t)(end + 1 - bytes);
        run(bytes + at, length, as_text);
        at += length;
    }
    free(bytes);
    return 0;
}
