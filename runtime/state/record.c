/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/state/record.h"

#include "runtime/state/disk.h"

#include <inttypes.h>
#include <string.h>

tsr_result tsr_record_manifest(tsr_ctx *ctx, int root, tsr_arena *arena, const tsr_name *name,
                               tsr_manifest *out_manifest) {
    char text[TSR_NAME_TEXT_MAX];
    uint8_t *bytes;
    size_t size;
    tsr_name_format(name, text);
    TRY(ctx, tsr_disk_read_file(ctx, root, text, TSR_MANIFEST_BYTES_MAX, arena, &bytes, &size));
    TRY(ctx, tsr_manifest_decode(ctx, text, bytes, size, arena, out_manifest));
    const tsr_token *token = &out_manifest->token;
    if (name->kind == TSR_NAME_MANIFEST &&
        (token->generation != name->generation || token->epoch != name->epoch))
        FAIL(ctx, TSR_STATE,
             "%s is damaged: its token is of generation %" PRIu64 ", epoch %" PRIu64, text,
             token->generation, token->epoch);
    return TSR_SUCCESS;
}

tsr_result tsr_record_base(tsr_ctx *ctx, int root, tsr_arena *arena, uint64_t epoch,
                           tsr_link *out_link) {
    char text[TSR_NAME_TEXT_MAX];
    uint8_t *bytes;
    size_t size;
    tsr_name_format(&(tsr_name){.kind = TSR_NAME_BASE, .epoch = epoch}, text);
    TRY(ctx, tsr_disk_read_file(ctx, root, text, TSR_BASE_BYTES, arena, &bytes, &size));
    return tsr_base_decode(ctx, text, bytes, size, epoch, out_link);
}

static bool both_known(const tsr_token *token, const tsr_store_program *program) {
    return tsr_identity_is_known(&token->identity) && tsr_identity_is_known(program->identity);
}

void tsr_token_tell_changes(const tsr_ctx *ctx, const tsr_token *token,
                            const tsr_store_program *program) {
    tsr_identity_cursor at = {0};
    tsr_hyperparameter_change change;
    if (!program || !program->tells_changes || !both_known(token, program)) return;
    while (tsr_identity_next_change(&token->identity, program->identity, &at, &change))
        if (!change.a_is_set) /* else the caller decides which value the run has */
            tsr_log(ctx, TSR_LOG_NOTICE,
                    "generation %" PRIu64 " was trained with %s %s; this run continues with %s",
                    token->generation, change.name, change.a ? change.a : "none",
                    change.b ? change.b : "none");
}

static tsr_result check_program(tsr_ctx *ctx, const tsr_token *token,
                                const tsr_store_program *program) {
    bool by_program = both_known(token, program);
    const tsr_digest *mine = by_program ? &program->identity->program : &program->bundle_hash;
    const tsr_digest *stored = by_program ? &token->identity.program : &token->bundle_hash;
    char ours[TSR_DIGEST_HEX + 1], theirs[TSR_DIGEST_HEX + 1];
    if (tsr_digest_equal(mine, stored)) return TSR_SUCCESS;
    tsr_digest_format(mine, ours);
    tsr_digest_format(stored, theirs);
    const char *advice = program->advice ? program->advice : "";
    if (by_program)
        FAIL(ctx, TSR_MISMATCH,
             "generation %" PRIu64 " is of the program %s; the bundle given has %s%s",
             token->generation, theirs, ours, advice);
    FAIL(ctx, TSR_MISMATCH, "generation %" PRIu64 " belongs to bundle %s; the given bundle is %s%s",
         token->generation, theirs, ours, advice);
}

tsr_result tsr_token_belongs(tsr_ctx *ctx, const tsr_token *token, const tsr_store_program *program,
                             const char *numerics, bool allow_inexact) {
    bool same = !numerics || strcmp(numerics, token->numerics) == 0;
    /* Another kind of numerics is another program, too, and the reason is the numerics. */
    bool numerics_first = program && both_known(token, program) && !same && !allow_inexact;
    if (program && !numerics_first) TRY(ctx, check_program(ctx, token, program));
    if (!same && !allow_inexact)
        FAIL(ctx, TSR_MISMATCH,
             "generation %" PRIu64 " was computed with numerics '%s'; this machine runs '%s', "
             "which does not give the same bits",
             token->generation, token->numerics, numerics);
    if (!same)
        tsr_log(ctx, TSR_LOG_WARNING,
                "inexact: generation %" PRIu64
                " was computed with numerics '%s' and continues with '%s'",
                token->generation, token->numerics, numerics);
    tsr_token_tell_changes(ctx, token, program);
    return TSR_SUCCESS;
}
