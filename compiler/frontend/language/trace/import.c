/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the file, evaluates it, and traces its entries in their order.
 */
#include "compiler/frontend/language/trace/import.h"

#include "compiler/frontend/language/syntax/limits.h"
#include "compiler/frontend/language/syntax/parser.h"
#include "compiler/frontend/language/trace/tracer.h"
#include "compiler/process/guard.h"
#include "runtime/base/io/io.h"

#include <string.h>
#include <unistd.h>

bool tsr_language_is_program(const char *path) {
    size_t length = strlen(path);
    return length > 3 && strcmp(path + length - 3, ".py") == 0;
}

static void add_record(void *user, tsr_diag *diag) {
    diag->next = NULL;
    tsr_diag_add(user, diag);
}

/* Errors of ops come from their rules, at the location of the op: with the calls and the steps of
 * loops that led there they are errors of the program. */
static bool take_error(tsr_diag_list *list, const tsr_diag *diag) {
    tsr_tracer *t = list->accepts_user;
    if (!diag) return !tsr_report_is_full(t->e.report);
    tsr_diag *own = tsr_arena_memdup(&list->arena, diag, sizeof *diag);
    if (!own) {
        t->e.report->memory = true;
        return false;
    }
    own->notes = NULL;
    own->note_count = 0;
    if (t->e.frame) tsr_evaluate_note_calls(&t->e, own);
    for (size_t i = 0; i < diag->note_count; i++)
        if (!diag->notes[i].line)
            tsr_report_note(t->e.report, own, NULL, (tsr_span){0}, "%s", diag->notes[i].text);
    tsr_report_add(t->e.report, own);
    if (tsr_report_is_full(t->e.report)) t->e.stopped = true;
    return false;
}

/* Makes the module, whose name is that of the file. */
static void make_module(tsr_tracer *t, const char *file) {
    size_t length = strlen(file) - 3;
    const char *name = tsr_arena_strndup(t->e.arena, file, length);
    MlirLocation location = mlirLocationFileLineColRangeGet(t->context, tsr_ref(file), 1, 1, 1, 1);
    t->module = mlirModuleCreateEmpty(location);
    if (name && name[0])
        tsr_op_set(mlirModuleGetOperation(t->module), "sym_name",
                   tsr_attr_make_string(t->context, name));
}

static void trace_entries(tsr_tracer *t, const tsr_source *source, tsr_scope *globals) {
    tsr_activation base = {.source = source, .globals = globals};
    t->e.frame = &base;
    if (!t->entry_count)
        tsr_evaluate_fail(&t->e, (tsr_span){0}, TSR_DIAG_TRACE_ENTRY,
                          "the program has no entry; put @function(entry=\"infer\") before a "
                          "function");
    for (size_t i = 0; i < t->entry_count; i++)
        if (!tsr_symbol_make(t, t->entries[i].function.function->name))
            tsr_evaluate_no_memory(&t->e);
    for (size_t i = 0; i < t->entry_count && !t->e.stopped; i++) tsr_entry_trace(t, &t->entries[i]);
    t->e.frame = NULL;
}

/* ---- files ---- */

typedef struct tsr_module {
    const char *name;
    tsr_source source;
    tsr_scope globals;
    tsr_digest digest;
    bool complete; /* it has run */
    struct tsr_module *next;
} tsr_module;

/* Reads and runs a file, whose names are then in its globals; NULL after an error. */
static tsr_module *read_module(tsr_tracer *t, const char *name, const void *text, size_t size) {
    tsr_report *report = t->e.report;
    tsr_module *m = TSR_NEW(t->e.arena, tsr_module, 1);
    const char *file = tsr_arena_printf(t->e.arena, "%s.py", name);
    if (!m || !file) return tsr_evaluate_no_memory(&t->e), NULL;
    *m = (tsr_module){.name = name, .digest = tsr_hash(text, size), .next = t->modules};
    t->modules = m;
    size_t errors = report->error_count;
    if (!tsr_source_init(report, file, text, size, &m->source)) return NULL;
    if (!tsr_diag_add_source(t->list, file, m->source.text, m->source.size_bytes))
        return tsr_evaluate_no_memory(&t->e), NULL;
    tsr_ast *module = tsr_parse(report, &m->source);
    if (!module || !tsr_refuse(report, &m->source, module) || report->error_count > errors)
        return NULL;
    if (!tsr_evaluate_module(&t->e, &m->source, module, &m->globals)) return NULL;
    tsr_evaluate_freeze_scope(&t->e, &m->globals);
    m->complete = true;
    return m;
}

/* `import` of the evaluator: a file beside the program. */
static const tsr_scope *import_module(tsr_evaluator *e, const char *name, tsr_span span) {
    tsr_tracer *t = tsr_tracer_of(e);
    void *text = NULL;
    size_t size = 0;
    for (tsr_module *m = t->modules; m; m = m->next) {
        if (strcmp(m->name, name) != 0) continue;
        if (!m->complete && !e->report->error_count)
            tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_IMPORT,
                              "'%s' is imported while it runs: imports form a circle", name);
        return m->complete ? &m->globals : NULL;
    }
    const char *path = tsr_arena_printf(e->arena, "%s%s.py", t->folder, name);
    if (!path) return tsr_evaluate_no_memory(e), NULL;
    if (access(path, F_OK) != 0) {
        tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_IMPORT,
                          "'%s' cannot be imported: there is no %s.py beside the program, and "
                          "programs are compiled without Python",
                          name, name);
        return NULL;
    }
    if (tsr_io_read_file(t->ctx, path, TSR_LANGUAGE_SOURCE_MAX + 1, t->e.arena, &text, &size)
            .code) {
        tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_IMPORT, "%s.py cannot be read", name);
        return NULL;
    }
    const tsr_module *m = read_module(t, name, text, size);
    return m ? &m->globals : NULL;
}

/* A file that CPython would read instead of the package. */
static void refuse_shadow(tsr_tracer *t) {
    const char *path = tsr_arena_printf(t->e.arena, "%stessera.py", t->folder);
    if (!path || access(path, F_OK) != 0) return;
    tsr_source source = t->modules->source;
    tsr_report_error(t->e.report, &source, (tsr_span){0}, TSR_DIAG_EVALUATE_IMPORT,
                     "a file tessera.py is beside the program, which hides the package tessera; "
                     "give it another name");
}

static void read_program(tsr_tracer *t, const char *name, const void *text, size_t size) {
    tsr_module *m = read_module(t, name, text, size);
    if (m) refuse_shadow(t);
    if (m && !t->e.report->error_count) trace_entries(t, &m->source, &m->globals);
    if (t->master && !t->e.report->error_count && !t->list->error_count) tsr_master_make(t);
}

/* That of the program's file; with those of the files that it imports, where it has some. */
static tsr_digest digest_of(const tsr_tracer *t, const void *text, size_t size) {
    tsr_buffer all = {0};
    if (!t->modules->next) return tsr_hash(text, size);
    for (const tsr_module *m = t->modules; m; m = m->next)
        tsr_buffer_append(&all, m->digest.bytes, sizeof m->digest.bytes);
    TSR_NEED(!all.failed);
    tsr_digest digest = tsr_hash(all.bytes, all.size_bytes);
    tsr_buffer_finish(&all);
    return digest;
}

tsr_result tsr_language_import(tsr_ctx *ctx, const tsr_language_options *options,
                               MlirContext context, tsr_diag_list *list, MlirModule *out_module,
                               tsr_digest *out_digest) {
    const char *path = options->path, *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    void *text = NULL;
    size_t size = 0;
    TRY(ctx, tsr_io_read_file(ctx, path, TSR_LANGUAGE_SOURCE_MAX + 1, &list->arena, &text, &size));
    tsr_report report = {.arena = &list->arena,
                         .on_diag = add_record,
                         .user = list,
                         .errors_max = TSR_LANGUAGE_ERRORS_MAX,
                         .strict = options->strict_python};
    tsr_tracer t = {.context = context, .prefix = "", .ctx = ctx, .list = list};
    t.e = (tsr_evaluator){.report = &report,
                          .arena = &list->arena,
                          .library = tsr_library_find,
                          .names = tsr_library_names,
                          .apply = tsr_trace_apply,
                          .import = import_module,
                          .user = &t};
    const char *name = tsr_arena_strndup(&list->arena, file, strlen(file) - 3);
    t.folder = tsr_arena_strndup(&list->arena, path, (size_t)(file - path));
    if (!name || !t.folder) FAIL(ctx, TSR_MEMORY, "no memory to read '%s'", path);
    make_module(&t, file);
    list->accepts = take_error;
    list->accepts_user = &t;
    read_program(&t, name, text, size);
    list->accepts = NULL;
    tsr_report_send(&report);
    if (report.memory || list->error_count) {
        mlirModuleDestroy(t.module);
        if (report.memory) FAIL(ctx, TSR_MEMORY, "no memory to read '%s'", path);
        return tsr_diag_fail(ctx, list, "the program");
    }
    *out_module = t.module;
    *out_digest = digest_of(&t, text, size);
    return TSR_SUCCESS;
}
