/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/diag/fixit.h"
#include "compiler/ir/text/recover.h"
#include "runtime/base/array.h"
#include "runtime/base/io/json.h"
#include "tests/compiler/fixture.h"

static fixture f;

static void open(void) { fixture_open(&f); }
static void close(void) { fixture_close(&f); }
TestSuite(diag, .init = open, .fini = close);

static MlirLocation at(unsigned line, unsigned column) {
    return mlirLocationFileLineColGet(f.mlir, tsr_ref("a.mlir"), line, column);
}

Test(diag, numbers_are_unique) {
    static const int numbers[] = {
#define X(name, number, about, remedy) number,
#include "compiler/diag/diag.def"
#undef X
    };
    size_t count = TSR_COUNT(numbers);
    for (size_t i = 0; i < count; i++) {
        cr_assert(numbers[i] > 0 && numbers[i] < 10000);
        cr_assert_not_null(tsr_diag_about((tsr_diag_number)numbers[i]));
        for (size_t k = 0; k < i; k++) cr_assert_neq(numbers[i], numbers[k]);
    }
    cr_assert_null(tsr_diag_about((tsr_diag_number)9999));
}

/* A record in the text form and in JSON. */
Test(diag, record_text_json) {
    static const char source[] = "first\n\tsecond \"line\"\nlast";
    tsr_buffer text = {0}, json = {0};
    tsr_diag_add_source(&f.list, "a.mlir", source, strlen(source));
    tsr_diag_error_note(at(2, 9), TSR_DIAG_RANK, "tessera.x: \"quoted\"", at(3, 1), "a note");
    cr_assert_eq(f.list.error_count, 1);
    const tsr_diag *diag = f.list.first;
    cr_assert_eq(diag->number, TSR_DIAG_RANK);
    cr_assert_str_eq(diag->text, "tessera.x: \"quoted\"");
    cr_assert_eq(diag->line, 2);
    tsr_diag_format(diag, &text);
    cr_assert_str_eq(text.bytes, "a.mlir:2:9: error: [TSR-0101] tessera.x: \"quoted\"\n"
                                 "\tsecond \"line\"\n\t       ^\n"
                                 "a.mlir:3:1: note: a note\nlast\n^\n");
    tsr_diag_format_json(diag, &json);
    cr_assert_str_eq(
        json.bytes,
        "{\"number\":\"TSR-0101\",\"severity\":\"error\",\"file\":\"a.mlir\",\"line\":2,"
        "\"column\":9,\"text\":\"tessera.x: \\\"quoted\\\"\",\"notes\":[{\"severity\":"
        "\"note\",\"file\":\"a.mlir\",\"line\":3,\"column\":1,\"text\":\"a note\"}]}");
    tsr_buffer_finish(&text);
    tsr_buffer_finish(&json);
}

Test(diag, unknown_locations) {
    tsr_buffer text = {0};
    tsr_diag_error(mlirLocationUnknownGet(f.mlir), TSR_DIAG_ENTRY, "nowhere");
    tsr_diag_error(at(7, 1), TSR_DIAG_ENTRY, "source not at hand");
    tsr_diag_format(f.list.first, &text);
    tsr_diag_format(f.list.last, &text);
    cr_assert_str_eq(text.bytes, "error: [TSR-0204] nowhere\n"
                                 "a.mlir:7:1: error: [TSR-0204] source not at hand\n");
    tsr_buffer_finish(&text);
}

/* Names in a program need not be UTF-8; JSON is. */
Test(diag, json_of_any_bytes) {
    tsr_buffer json = {0};
    tsr_diag_error(at(1, 1), TSR_DIAG_ENTRY, "function 'a\xff'");
    tsr_diag_format_json(f.list.first, &json);
    cr_assert(tsr_utf8_valid(json.bytes, json.size_bytes));
    cr_assert(strstr(json.bytes, "\"function 'a\\u00ff'\""), "%s", json.bytes);
    tsr_buffer_finish(&json);
}

/* A column past the end of its line, and lines past the end of the file. */
Test(diag, locations_outside_the_source) {
    tsr_buffer text = {0};
    tsr_diag_add_source(&f.list, "a.mlir", "ab\n", 3);
    tsr_diag_error(at(1, 40), TSR_DIAG_ENTRY, "x");
    tsr_diag_error(at(2, 1), TSR_DIAG_ENTRY, "y");
    tsr_diag_error(at(99, 1), TSR_DIAG_ENTRY, "z");
    tsr_diag_format(f.list.first, &text);
    cr_assert_str_eq(text.bytes, "a.mlir:1:40: error: [TSR-0204] x\nab\n  ^\n");
    cr_assert_null(f.list.first->next->source_line);
    cr_assert_null(f.list.last->source_line);
    tsr_buffer_finish(&text);
}

/* Stored weights make lines of megabytes: the excerpt surrounds the column and does not split a
 * character. */
Test(diag, long_lines_are_cut) {
    static char source[2003], xs[161], es[161];
    char expected[1024];
    tsr_buffer text = {0};
    memset(source, 'x', 1000);
    memset(xs, 'x', 160);
    source[1000] = '\n';
    for (size_t i = 0; i < 500; i++) memcpy(source + 1001 + 2 * i, "é", 2);
    for (size_t i = 0; i < 80; i++) memcpy(es + 2 * i, "é", 2);
    tsr_diag_add_source(&f.list, "a.mlir", source, 2001);
    tsr_diag_error(at(1, 1), TSR_DIAG_ENTRY, "begin");
    tsr_diag_error(at(1, 500), TSR_DIAG_ENTRY, "middle");
    tsr_diag_error(at(1, 1000), TSR_DIAG_ENTRY, "end");
    tsr_diag_error(at(2, 500), TSR_DIAG_ENTRY, "characters");
    for (const tsr_diag *diag = f.list.first; diag; diag = diag->next) tsr_diag_format(diag, &text);
    snprintf(expected, sizeof expected,
             "a.mlir:1:1: error: [TSR-0204] begin\n%s…\n^\n"
             "a.mlir:1:500: error: [TSR-0204] middle\n…%s…\n%81s^\n"
             "a.mlir:1:1000: error: [TSR-0204] end\n…%.81s\n%81s^\n"
             "a.mlir:2:500: error: [TSR-0204] characters\n…%s…\n%82s^\n",
             xs, xs, "", xs, "", es, "");
    cr_assert_str_eq(text.bytes, expected);
    tsr_buffer_finish(&text);
}

Test(diag, inlined_calls_become_notes) {
    MlirLocation call =
        mlirLocationCallSiteGet(at(1, 1), mlirLocationCallSiteGet(at(2, 2), at(3, 3)));
    tsr_diag_error(mlirLocationNameGet(f.mlir, tsr_ref("name"), call), TSR_DIAG_ENTRY, "deep");
    const tsr_diag *diag = f.list.first;
    cr_assert_eq(diag->line, 1);
    cr_assert_eq(diag->note_count, 1);
    cr_assert_eq(diag->notes[0].line, 2);
    cr_assert_str_eq(diag->notes[0].text, "called from here");
}

/* Errors of MLIR itself have their own numbers. */
Test(diag, parser_and_verifier) {
    cr_assert_eq(fixture_parse(&f, "func.func @f(").code, TSR_COMPILE);
    cr_assert_eq(f.list.first->number, TSR_DIAG_SYNTAX);
    cr_assert(strstr(f.ctx.error.text, "parsing failed with 1 error"));
    cr_assert_eq(fixture_parse(&f, "%0 = \"tessera.constant\"() : () -> tensor<2xf32>").code,
                 TSR_COMPILE);
    cr_assert_eq(f.list.last->number, TSR_DIAG_ATTRIBUTE_MISSING);
}

/* Many errors on one long line: the list keeps one copy of it. */
Test(diag, one_copy_of_a_line) {
    static char source[1 << 20];
    memset(source, 'x', sizeof source - 1);
    tsr_diag_add_source(&f.list, "a.mlir", source, sizeof source - 1);
    tsr_diag_error_note(at(1, 1), TSR_DIAG_ENTRY, "first", at(1, 7), "a note");
    for (unsigned i = 2; i < 100; i++) tsr_diag_error(at(1, i), TSR_DIAG_ENTRY, "next");
    cr_assert_eq(f.list.error_count, 99);
    cr_assert_eq(strlen(f.list.first->source_line), sizeof source - 1);
    cr_assert_eq(f.list.last->source_line, f.list.first->source_line);
    cr_assert_eq(f.list.first->notes[0].source_line, f.list.first->source_line);
}

static bool accepts_none(tsr_diag_list *list, const tsr_diag *diag) {
    size_t *records = list->accepts_user;
    *records += diag != NULL;
    return false;
}

/* A rejected error is not converted to a record. */
Test(diag, rejected_errors_take_no_memory) {
    size_t records = 0;
    f.list.accepts = accepts_none;
    f.list.accepts_user = &records;
    size_t before = f.list.arena.used_bytes;
    for (unsigned i = 1; i < 1000; i++) tsr_diag_error(at(1, i), TSR_DIAG_ENTRY, "rejected");
    cr_assert_eq(records, 0);
    cr_assert_eq(f.list.arena.used_bytes, before);
    cr_assert_eq(f.list.error_count, 0);
}

/* Wrong ops on one line: the memory grows with the text, not with the errors after the limit. */
Test(diag, verifier_errors_are_limited) {
    tsr_buffer text = {0};
    tsr_buffer_text(&text, "func.func @f(%a: tensor<4xf32>) {");
    for (int i = 0; i < 20 * TSR_VERIFY_ERRORS_MAX; i++)
        tsr_buffer_printf(&text, " %%r%d = tessera.exp %%a {slop = %d} : tensor<4xf32>", i, i);
    tsr_buffer_text(&text, " return }");
    cr_assert_eq(fixture_parse(&f, text.bytes).code, TSR_COMPILE);
    cr_assert_eq(f.list.error_count, TSR_VERIFY_ERRORS_MAX);
    cr_assert_lt(f.list.arena.used_bytes, 3 * text.size_bytes);
    tsr_buffer_finish(&text);
}

/* Undefined values: each is reported, and the memory for a suggestion does not grow with the
 * number of names in the source. */
Test(diag, suggestions_are_limited) {
    enum { UNDEFINED = 10 * TSR_DIAG_SUGGESTIONS_MAX };
    tsr_buffer text = {0};
    size_t suggestions = 0;
    tsr_buffer_text(&text, "func.func @f(%value: tensor<4xf32>) {\n");
    for (int i = 0; i < UNDEFINED; i++)
        tsr_buffer_printf(&text, "%%r%d = tessera.neg %%valeu_%d : tensor<4xf32>\n", i, i);
    tsr_buffer_text(&text, "return\n}\n");
    cr_assert_eq(fixture_parse(&f, text.bytes).code, TSR_COMPILE);
    cr_assert_eq(f.list.error_count, UNDEFINED);
    for (const tsr_diag *diag = f.list.first; diag; diag = diag->next) {
        cr_assert_eq(strncmp(diag->text, "value '%valeu_", 14), 0, "%s", diag->text);
        suggestions += strstr(diag->text, "did you mean") != NULL;
    }
    cr_assert_eq(suggestions, TSR_DIAG_SUGGESTIONS_MAX);
    cr_assert_lt(f.list.arena.used_bytes, 20 * text.size_bytes);
    tsr_buffer_finish(&text);
}

static size_t called;
static void count(void *user, const tsr_diag *diag) {
    cr_assert_eq(user, &called);
    cr_assert_not_null(diag->text);
    called++;
}

Test(diag, callback) {
    f.list.on_diag = count;
    f.list.user = &called;
    tsr_diag_error(at(1, 1), TSR_DIAG_ENTRY, "one");
    tsr_diag_error(at(1, 1), TSR_DIAG_ENTRY, "two");
    cr_assert_eq(called, 2);
    cr_assert_eq(tsr_diag_fail(&f.ctx, &f.list, "stage").code, TSR_COMPILE);
    cr_assert_str_eq(f.ctx.error.text, "stage failed with 2 errors; the first: one");
}
