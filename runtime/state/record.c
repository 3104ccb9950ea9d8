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

tsr_result tsr_token_belongs(tsr_ctx *ctx, const tsr_token *token, const tsr_digest *bundle_hash,
                             const char *numerics, bool allow_inexact) {
    if (bundle_hash && !tsr_digest_equal(bundle_hash, &token->bundle_hash)) {
        char ours[TSR_DIGEST_HEX + 1], theirs[TSR_DIGEST_HEX + 1];
        tsr_digest_format(bundle_hash, ours);
        tsr_digest_format(&token->bundle_hash, theirs);
        FAIL(ctx, TSR_MISMATCH,
             "generation %" PRIu64 " belongs to bundle %s; the given bundle is %s",
             token->generation, theirs, ours);
    }
    if (!numerics || strcmp(numerics, token->numerics) == 0) return TSR_SUCCESS;
    if (!allow_inexact)
        FAIL(ctx, TSR_MISMATCH,
             "generation %" PRIu64 " was computed with numerics '%s'; this machine runs '%s', "
             "which does not give the same bits",
             token->generation, token->numerics, numerics);
    tsr_log(ctx, TSR_LOG_WARNING,
            "inexact: generation %" PRIu64
            " was computed with numerics '%s' and continues with '%s'",
            token->generation, token->numerics, numerics);
    return TSR_SUCCESS;
}
