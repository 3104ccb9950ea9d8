/* SPDX-License-Identifier: Apache-2.0
 *
 * The child answers with READ and the text, or with REFUSED and each error: its number, its text
 * and a NUL.
 */
#include "compiler/ir/text/bytecode.h"

#include "compiler/ir/mlir.h"
#include "compiler/ir/text/source_limits.h"
#include "compiler/process/child.h"
#include "compiler/shim/read.h"

#include <stdio.h>
#include <string.h>

enum { READ = 'T', REFUSED = 'E' };

bool tsr_is_bytecode(const char *bytes, size_t size_bytes) {
    static const char magic[] = "ML\xefR";
    return size_bytes >= 4 && memcmp(bytes, magic, 4) == 0;
}

bool tsr_bytecode_print(MlirContext context, const char *bytes, size_t size_bytes, const char *name,
                        tsr_buffer *out) {
    MlirModule module = tsr_shim_read(context, mlirStringRefCreate(bytes, size_bytes),
                                      tsr_ref(name)); /* the text will be verified */
    if (mlirModuleIsNull(module)) return false;
    tsr_mlir_print(mlirModuleGetOperation(module), TSR_PRINT_LOCATIONS, out);
    mlirModuleDestroy(module);
    return true;
}

typedef struct job {
    MlirContext context;
    tsr_diag_list *list;
    const char *bytes, *name;
    size_t size_bytes;
} job;

/* Runs in the child, which ends afterwards. */
static tsr_result read_job(tsr_ctx *ctx, void *user, char note[static TSR_CHILD_NOTE_MAX],
                           tsr_buffer *out) {
    static const char read = READ, refused = REFUSED;
    const job *j = user;
    const tsr_diag *before = j->list->last;
    (void)ctx;
    snprintf(note, TSR_CHILD_NOTE_MAX, "%s", j->name);
    j->list->on_diag = NULL; /* the parent reports it */
    j->list->bytecode = true;
    tsr_buffer_append(out, &read, 1);
    if (tsr_bytecode_print(j->context, j->bytes, j->size_bytes, j->name, out)) return TSR_SUCCESS;
    tsr_buffer_finish(out);
    tsr_buffer_append(out, &refused, 1);
    for (const tsr_diag *d = before ? before->next : j->list->first; d; d = d->next) {
        if (d->severity != TSR_SEVERITY_ERROR) continue;
        tsr_buffer_append(out, &d->number, sizeof d->number);
        tsr_buffer_append(out, d->text, strlen(d->text) + 1);
    }
    return TSR_SUCCESS;
}

static void say_errors(MlirLocation location, const char *answer, size_t size_bytes) {
    const char *at = answer + 1, *end = answer + size_bytes;
    while (at < end) {
        tsr_diag_number number;
        memcpy(&number, at, sizeof number);
        tsr_diag_error(location, number, "%s", at + sizeof number);
        at += sizeof number + strlen(at + sizeof number) + 1;
    }
}

tsr_result tsr_bytecode_text(tsr_ctx *ctx, MlirContext context, tsr_diag_list *list,
                             const char *bytes, size_t size_bytes, const char *name,
                             tsr_arena *arena, const char **out_text, size_t *out_size_bytes) {
    const uint64_t mebibytes = size_bytes / (1u << 20) + 1;
    const tsr_child_options options = {
        .what = "the reader of bytecode",
        .memory_bytes = (1ull << 30) + size_bytes * TSR_MLIR_BYTECODE_MEMORY_MAX,
        .timeout_ns = mebibytes * TSR_MLIR_BYTECODE_SECONDS_MAX * 1000000000u};
    job j = {context, list, bytes, name, size_bytes};
    MlirLocation location = mlirLocationFileLineColGet(context, tsr_ref(name), 0, 0);
    void *answer = NULL;
    size_t answer_size = 0;
    tsr_result result = tsr_child_run(ctx, &options, read_job, &j, arena, &answer, &answer_size);
    if (result.code == TSR_INTERNAL) {
        tsr_diag_error(location, TSR_DIAG_CRASH, "%s", ctx->error.text);
        return tsr_diag_fail(ctx, list, "parsing");
    }
    TRY(ctx, result);
    const char *text = answer;
    if (answer_size == 0 || text[0] != READ) {
        say_errors(location, text, answer_size);
        return tsr_diag_fail(ctx, list, "parsing");
    }
    *out_text = text + 1;
    *out_size_bytes = answer_size - 1;
    return TSR_SUCCESS;
}
