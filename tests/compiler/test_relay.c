/* SPDX-License-Identifier: Apache-2.0
 *
 * tsr_compile from the caller's point of view: a compiler that dies, and the results of one that
 * does not. Linked with a fault planted before the graph stage.
 */
#include "compiler/compile.h"
#include "compiler/graph/graph.h"
#include "compiler/process/guard.h"
#include "runtime/base/array.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static enum { PLANT_NOTHING, PLANT_DEATH, PLANT_LOG, PLANT_EXIT, PLANT_MESSAGE } plant;
static tsr_buffer message; /* the message to send */
static uint32_t message_kind;

TSR_RESULT __real_tsr_graph_lower(tsr_ctx *ctx, MlirModule module, tsr_diag_list *list,
                                  const tsr_pass_options *options);
TSR_RESULT __wrap_tsr_graph_lower(tsr_ctx *ctx, MlirModule module, tsr_diag_list *list,
                                  const tsr_pass_options *options);
tsr_result __wrap_tsr_graph_lower(tsr_ctx *ctx, MlirModule module, tsr_diag_list *list,
                                  const tsr_pass_options *options) {
    struct rlimit none = {0, 0};
    tsr_guard_note("a planted fault");
    if (plant == PLANT_DEATH) {
        setrlimit(RLIMIT_CORE, &none);
        raise(SIGSEGV);
    }
    if (plant == PLANT_LOG) tsr_log(ctx, TSR_LOG_NOTICE, "planted %d", 7);
    if (plant == PLANT_EXIT) _exit(5);
    if (plant == PLANT_MESSAGE) tsr_guard_send(message_kind, message.bytes, message.size_bytes);
    return __real_tsr_graph_lower(ctx, module, list, options);
}

/* ---- one compilation ---- */

static const char good[] =
    "func.func @f(%x: tensor<4x3xf32> {tessera.name = \"x\"}) -> (tensor<4x3xf32> {tessera.name = "
    "\"y\"}) attributes {tessera.entry = \"infer\"} {\n"
    "  %0 = tessera.tanh %x : tensor<4x3xf32>\n"
    "  return %0 : tensor<4x3xf32>\n"
    "}\n";
/* Programs with a fix-it, with notes, and with two errors. */
static const char *const bad[] = {
    "func.func @f(%x: tensor<4x3xf32>) {\n  %0 = tessera.tanhh %x : tensor<4x3xf32>\n  return\n}\n",
    "func.func @f(%x: tensor<4x3xf32>) {\n  %0 = tessera.tanh %x : tensor<4x3xf32>\n"
    "  %0 = tessera.tanh %x : tensor<4x3xf32>\n  return\n}\n",
    "func.func @f() attributes {tessera.entry = \"no\"} {\n  return\n}\n"
    "func.func @g() attributes {tessera.entry = \"nor\"} {\n  return\n}\n",
};

typedef struct heard {
    tsr_ctx ctx;
    tsr_buffer diags, dumps, log;
    size_t diag_count;
    tsr_diag_number number;
    tsr_code refuse; /* the result of on_dump */
    tsr_compile_report report;
    pthread_t thread;
} heard;

static char folder[] = "/tmp/relay-XXXXXX";
static char source[64], output[64];

static void on_diag(void *user, const tsr_diag *diag) {
    heard *h = user;
    h->diag_count++;
    h->number = diag->number;
    cr_assert(pthread_equal(pthread_self(), h->thread));
    tsr_diag_format(diag, &h->diags);
    tsr_diag_format_json(diag, &h->diags);
}

static tsr_result on_dump(tsr_ctx *ctx, void *user, tsr_stage stage, const char *target,
                          const char *text, size_t size_bytes) {
    heard *h = user;
    tsr_buffer_printf(&h->dumps, "%d %s\n", (int)stage, target ? target : "none");
    tsr_buffer_append(&h->dumps, text, size_bytes);
    cr_assert_eq(text[size_bytes], '\0');
    if (h->refuse) FAIL(ctx, h->refuse, "refused stage %d", (int)stage);
    return TSR_SUCCESS;
}

static void on_log(void *user, tsr_log_level level, const char *text) {
    heard *h = user;
    tsr_buffer_printf(&h->log, "%d %s", (int)level, text);
}

static void write_source(const char *text) {
    FILE *file = fopen(source, "w");
    cr_assert(file && fputs(text, file) >= 0 && fclose(file) == 0);
    unlink(output);
}

static tsr_code compile(heard *h, bool here) {
    static const char *const targets[] = {"cpu:x86-64-v3"};
    tsr_compile_options options = {.size_bytes = sizeof options,
                                   .source_path = source,
                                   .output_path = output,
                                   .targets = targets,
                                   .target_count = 1,
                                   .threads = 1,
                                   .on_diag = on_diag,
                                   .on_dump = on_dump,
                                   .user = h};
    for (int i = 0; i < TSR_STAGE_COUNT; i++) options.dump[i] = true;
    h->thread = pthread_self();
    h->ctx = (tsr_ctx){.log = on_log, .log_user = h, .log_level = TSR_LOG_NOTICE};
    return (here ? tsr_compile_here : tsr_compile)(&h->ctx, &options, &h->report).code;
}

static void finish(heard *h) {
    tsr_buffer_finish(&h->diags);
    tsr_buffer_finish(&h->dumps);
    tsr_buffer_finish(&h->log);
}

static size_t read_output(char *out, size_t limit) {
    FILE *file = fopen(output, "rb");
    size_t size = file ? fread(out, 1, limit, file) : 0;
    if (file) fclose(file);
    unlink(output);
    return size;
}

static void set_up(void) {
    cr_assert(mkdtemp(folder));
    snprintf(source, sizeof source, "%s/model.mlir", folder);
    snprintf(output, sizeof output, "%s/model.tsb", folder);
    write_source(good);
}
static void tear_down(void) {
    unlink(source);
    unlink(output);
    rmdir(folder);
}
TestSuite(relay, .init = set_up, .fini = tear_down);

static bool exists(const char *path) {
    struct stat status;
    return stat(path, &status) == 0;
}

/* ---- processes that die ---- */

static volatile int *touched; /* shared by both processes */
static void on_signal(int number) { *touched = number; }

Test(relay, a_death_leaves_the_caller_alive) {
    heard h = {0};
    struct sigaction mine = {.sa_handler = on_signal}, is;
    touched =
        mmap(NULL, sizeof *touched, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq((void *)touched, MAP_FAILED);
    sigaction(SIGSEGV, &mine, NULL);
    sigaction(SIGINT, &mine, NULL);
    plant = PLANT_DEATH;
    cr_assert_eq(compile(&h, false), TSR_COMPILE);
    cr_assert_str_eq(h.ctx.error.text, "the compiler died of signal 11 (SEGV) in a planted fault");
    cr_assert_eq(h.diag_count, 1);
    cr_assert_eq(h.number, TSR_DIAG_CRASH);
    cr_assert(strstr(h.diags.bytes, "model.mlir:1:1: error: [TSR-0"), "%s", h.diags.bytes);
    cr_assert(strstr(h.dumps.bytes, "tessera.tanh"), "what was shown before is not lost");
    cr_assert_not(exists(output));
    cr_assert_eq(*touched, 0, "the caller's handler ran");
    sigaction(SIGINT, NULL, &is);
    cr_assert_eq(is.sa_handler, on_signal, "the caller's handlers stay");
    finish(&h);
    h = (heard){0};
    plant = PLANT_NOTHING;
    cr_assert_eq(compile(&h, false), TSR_OK, "%s", h.ctx.error.text);
    cr_assert(exists(output));
    finish(&h);
}

Test(relay, an_exit_is_no_success) {
    heard h = {0};
    plant = PLANT_EXIT;
    cr_assert_eq(compile(&h, false), TSR_INTERNAL);
    cr_assert(strstr(h.ctx.error.text, "status 5"), "%s", h.ctx.error.text);
    finish(&h);
}

static void put_text(const char *text) {
    tsr_buffer_u64(&message, text ? strlen(text) + 1 : 0);
    if (text) tsr_buffer_append(&message, text, strlen(text) + 1);
}

/* Writes a diagnostic like relay.c; it announces `notes` notes but has none. */
static void make_diag(uint32_t severity, const char *file, const char *text, uint32_t fix_column,
                      uint32_t notes) {
    const uint32_t numbers[] = {TSR_DIAG_ENTRY, severity, 1, 1, fix_column, 1, notes};
    message_kind = 0;
    message.size_bytes = 0;
    for (size_t i = 0; i < TSR_COUNT(numbers); i++) tsr_buffer_u32(&message, numbers[i]);
    put_text(file);
    put_text(text);
    put_text("a line");
    put_text("fix");
}

static void expect_damaged(const char *what) {
    heard h = {0};
    plant = PLANT_MESSAGE;
    cr_assert_eq(compile(&h, false), TSR_INTERNAL, "%s", what);
    cr_assert(strstr(h.ctx.error.text, "is damaged at byte"), "%s: %s", what, h.ctx.error.text);
    cr_assert_eq(h.diag_count + h.log.size_bytes, 0, "%s was shown", what);
    finish(&h);
}

Test(relay, damaged_messages_are_not_shown) {
    make_diag(TSR_SEVERITY_REMARK + 1, "f", "t", 1, 0);
    expect_damaged("a severity that there is not");
    make_diag(TSR_SEVERITY_ERROR, NULL, "t", 1, 0);
    expect_damaged("no file");
    make_diag(TSR_SEVERITY_ERROR, "f", NULL, 1, 0);
    expect_damaged("no text");
    make_diag(TSR_SEVERITY_ERROR, "f", "t", 0, 0);
    expect_damaged("a fix-it nowhere");
    make_diag(TSR_SEVERITY_ERROR, "f", "t", 1, 7);
    expect_damaged("notes that are missing");
    message.size_bytes = 0;
    message_kind = 2;
    tsr_buffer_u32(&message, TSR_LOG_DEBUG + 1);
    tsr_buffer_text(&message, "t");
    expect_damaged("a level that there is not");
    message_kind = 9;
    expect_damaged("a kind that there is not");
    tsr_buffer_finish(&message);
}

/* ---- processes that survive ---- */

static bool same(const tsr_buffer *a, const tsr_buffer *b) {
    return a->size_bytes == b->size_bytes &&
           (a->size_bytes == 0 || memcmp(a->bytes, b->bytes, a->size_bytes) == 0);
}

Test(relay, the_same_comes_back_as_without_a_child) {
    enum { LIMIT = 1 << 20 };
    static char one[LIMIT], other[LIMIT];
    heard here = {0}, there = {0};
    plant = PLANT_LOG;
    cr_assert_eq(compile(&here, true), TSR_OK, "%s", here.ctx.error.text);
    size_t size = read_output(one, LIMIT);
    cr_assert_eq(compile(&there, false), TSR_OK, "%s", there.ctx.error.text);
    cr_assert_eq(read_output(other, LIMIT), size);
    cr_assert(size > 1000 && size < LIMIT && memcmp(one, other, size) == 0);
    cr_assert(here.dumps.size_bytes > 1000 && same(&here.dumps, &there.dumps));
    cr_assert_str_eq(here.log.bytes, "2 planted 7");
    cr_assert(same(&here.log, &there.log));
    cr_assert_eq(here.diag_count, 1, "the remark that the rows are independent");
    cr_assert_eq(there.diag_count, 1);
    cr_assert_eq(there.report.entry_count, 1);
    cr_assert_eq(there.report.kernel_count, here.report.kernel_count);
    cr_assert_eq(there.report.workspace_bytes, here.report.workspace_bytes);
    cr_assert(there.report.seconds > 0 && there.report.stage_seconds[TSR_STAGE_CODE] > 0);
    finish(&here);
    finish(&there);
}

Test(relay, diagnostics_come_back_whole) {
    for (size_t i = 0; i < TSR_COUNT(bad); i++) {
        heard here = {0}, there = {0};
        write_source(bad[i]);
        cr_assert_eq(compile(&here, true), TSR_COMPILE);
        cr_assert_eq(compile(&there, false), TSR_COMPILE);
        cr_assert(here.diag_count > 0);
        cr_assert(same(&here.diags, &there.diags), "%s\n%s", here.diags.bytes, there.diags.bytes);
        cr_assert_str_eq(here.ctx.error.text, there.ctx.error.text);
        cr_assert_not(exists(output));
        finish(&here);
        finish(&there);
    }
}

Test(relay, what_a_callback_refuses_ends_it) {
    heard h = {.refuse = TSR_IO};
    cr_assert_eq(compile(&h, false), TSR_IO);
    cr_assert_str_eq(h.ctx.error.text, "refused stage 0");
    cr_assert_eq(h.diag_count, 0, "%s", h.diags.bytes);
    cr_assert_not(exists(output));
    finish(&h);
}

Test(relay, a_caller_that_waits_for_no_child_gets_its_result) {
    heard h = {0};
    signal(SIGCHLD, SIG_IGN);
    /* Code is generated by children of the child, which must be able to wait for them. */
    cr_assert_eq(compile(&h, false), TSR_OK, "%s", h.ctx.error.text);
    cr_assert(exists(output));
    cr_assert_eq(h.report.entry_count, 1);
    finish(&h);
}

static void *compile_bad(void *user) {
    heard *h = user;
    cr_assert_eq(compile(h, false), TSR_COMPILE);
    return NULL;
}

Test(relay, several_threads_at_once) {
    enum { THREADS = 4 };
    static heard h[THREADS];
    pthread_t threads[THREADS];
    write_source(bad[0]);
    for (size_t i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, compile_bad, &h[i]), 0);
    for (size_t i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (size_t i = 0; i < THREADS; i++) {
        cr_assert_eq(h[i].diag_count, 1);
        cr_assert(same(&h[i].diags, &h[0].diags));
    }
    for (size_t i = 0; i < THREADS; i++) finish(&h[i]);
}
