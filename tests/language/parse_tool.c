/* SPDX-License-Identifier: Apache-2.0
 *
 * parse_tool FILE…: for each file a line "file NAME", the dump of each statement of the module,
 * one a line, and a line "LINE COLUMN NUMBER TEXT" for each error, without a maximum.
 * With -m, FILE is several texts, each with a line before it that holds its size in bytes.
 * With -s spellings that Python lacks are errors, with -t diagnostics are shown as users see them.
 */
#include "compiler/frontend/language/syntax/limits.h"
#include "compiler/frontend/language/syntax/parser.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool strict, as_text;

static void print_line(void *user, tsr_diag *diag) {
    tsr_buffer text = {0};
    (void)user;
    if (as_text) {
        tsr_diag_format(diag, &text);
        fputs(text.bytes ? text.bytes : "", stdout);
    } else {
        printf("%u %u %d %s\n", diag->line, diag->column, (int)diag->number, diag->text);
    }
    tsr_buffer_finish(&text);
}

static void parse(const char *name, const char *bytes, size_t size_bytes) {
    tsr_arena arena = {0};
    tsr_report report = {.arena = &arena, .strict = strict, .on_diag = print_line};
    tsr_source source;
    if (as_text)
        report.errors_max = TSR_LANGUAGE_ERRORS_MAX;
    else
        printf("file %s\n", name);
    if (tsr_source_init(&report, name, bytes, size_bytes, &source)) {
        tsr_ast *module = tsr_parse(&report, &source);
        for (size_t i = 0; module && !as_text && i < module->field[TSR_AST_MODULE_BODY].list.count;
             i++) {
            tsr_buffer text = {0};
            tsr_ast_dump(module->field[TSR_AST_MODULE_BODY].list.items[i], &text);
            puts(text.bytes ? text.bytes : "no memory");
            tsr_buffer_finish(&text);
        }
        if (module) tsr_refuse(&report, &source, module);
    }
    tsr_report_send(&report);
    tsr_arena_finish(&arena);
}

static char *read_all(const char *path, size_t *out_size) {
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    size_t size = 0, capacity = 1 << 16;
    char *bytes = malloc(capacity + 1);
    if (!file || !bytes) abort();
    for (size_t got; (got = fread(bytes + size, 1, capacity - size, file)) > 0;) {
        size += got;
        if (size == capacity) bytes = realloc(bytes, (capacity *= 2) + 1);
        if (!bytes) abort();
    }
    if (file != stdin) fclose(file);
    bytes[size] = 0;
    *out_size = size;
    return bytes;
}

int main(int argc, char **argv) {
    bool several = false;
    for (int c; (c = getopt(argc, argv, "mst")) >= 0;) {
        several |= c == 'm';
        strict |= c == 's';
        as_text |= c == 't';
    }
    for (int i = optind; i < argc; i++) {
        size_t size, at = 0;
        char *bytes = read_all(argv[i], &size), *end;
        if (!several) parse(argv[i], bytes, size);
        while (several && at < size) {
            size_t length = strtoul(bytes + at, &end, 10);
            at = (size_t)(end + 1 - bytes);
            parse("text", bytes + at, length);
            at += length;
        }
        free(bytes);
    }
    return 0;
}
