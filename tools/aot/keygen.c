/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera-aot keygen: makes a private key and its public key.
 */
#include "bundle/sign.h"
#include "runtime/base/array.h"
#include "runtime/base/buffer.h"
#include "tools/aot/aot.h"

#include <stdio.h>

static tsr_result keygen(tsr_ctx *ctx, const char *path) {
    tsr_buffer public_path = {0};
    tsr_digest id;
    char hex[TSR_DIGEST_HEX + 1];
    tsr_result result = TSR_SUCCESS;
    tsr_buffer_printf(&public_path, "%s.pub", path);
    if (public_path.failed) FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory for the path '%s'", path);
    TRY_GOTO(ctx, result, tsr_signature_generate_key(ctx, path, public_path.bytes, &id));
    tsr_digest_format(&id, hex);
    printf("key sha256:%s\n  private: %s (keep it secret)\n  public:  %s\n", hex, path,
           public_path.bytes);
done:
    tsr_buffer_finish(&public_path);
    return result;
}

/* user: the path of the private key. */
static tsr_result add_files(tsr_ctx *ctx, const void *user, tsr_files *files) {
    return tsr_files_add_sibling(ctx, files, "-o", TSR_FILE_WRITE, *(const char *const *)user,
                                 ".pub");
}

tsr_result tsr_aot_keygen(tsr_ctx *ctx, int argc, char **argv) {
    const char *path = NULL;
    bool done = false;
    tsr_flag flags[] = {
        TSR_FLAG("-o", TEXT, WRITE, &path, "KEY",
                 "the private key; the public one becomes KEY.pub; both are new files", 0, 0)};
    const tsr_aot_word positional[] = {{NULL, TSR_FILE_NONE}};
    const tsr_aot_command_line line = {
        .name = "keygen",
        .notes =
            "ECDSA on the curve P-256, as PEM files that OpenSSL reads. The private key has no "
            "passphrase:\nit is protected by the permissions of the file, which only its owner can "
            "read.\n",
        .flags = flags,
        .flag_count = TSR_COUNT(flags),
        .positional = positional,
        .out_words = NULL,
        .files = add_files,
        .user = &path};
    TRY(ctx, tsr_aot_parse(ctx, argc, argv, &line, &done));
    if (done) return TSR_SUCCESS;
    if (!path || !path[0]) FAIL(ctx, TSR_USAGE, "keygen: -o KEY is missing");
    return keygen(ctx, path);
}
