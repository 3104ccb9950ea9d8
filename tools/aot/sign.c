/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera-aot sign: writes a signature next to a bundle. Every byte is verified first, so that
 * damaged data is never signed.
 */
#include "bundle/sign.h"

#include "runtime/base/array.h"
#include "tools/aot/aot.h"

#include <stdio.h>

static tsr_result sign(tsr_ctx *ctx, tsr_bundle *bundle, const char *key) {
    tsr_bundle_verify_report report;
    tsr_digest id;
    char hex[TSR_DIGEST_HEX + 1];
    TRY(ctx, tsr_bundle_verify_full(ctx, bundle, 0, &report));
    TRY(ctx, tsr_signature_write(ctx, bundle, key, &id));
    tsr_digest_format(&id, hex);
    printf("%s: signed by key sha256:%s\n", tsr_bundle_get_path(bundle), hex);
    return TSR_SUCCESS;
}

/* user: the path of the bundle. */
static tsr_result add_files(tsr_ctx *ctx, const void *user, tsr_files *files) {
    return tsr_files_add_sibling(ctx, files, "the signature", TSR_FILE_WRITE,
                                 *(const char *const *)user, ".sigstore.json");
}

tsr_result tsr_aot_sign(tsr_ctx *ctx, int argc, char **argv) {
    const char *path = NULL, *key = NULL;
    bool done = false;
    tsr_flag flags[] = {TSR_FLAG("--key", TEXT, READ, &key, "KEY",
                                 "the private key: PEM, ECDSA on the curve P-256", 0, 0)};
    const tsr_aot_word positional[] = {{"FILE", TSR_FILE_READ}, {NULL, TSR_FILE_NONE}};
    const tsr_aot_command_line line = {
        .name = "sign",
        .notes = "FILE.sigstore.json is written, whole or not at all; an older one is replaced.\n",
        .flags = flags,
        .flag_count = TSR_COUNT(flags),
        .positional = positional,
        .out_words = &path,
        .files = add_files,
        .user = &path};
    tsr_bundle *bundle = NULL;
    TRY(ctx, tsr_aot_parse(ctx, argc, argv, &line, &done));
    if (done) return TSR_SUCCESS;
    if (!key) FAIL(ctx, TSR_USAGE, "sign: --key KEY is missing");
    TRY(ctx, tsr_bundle_open(ctx, path, NULL, &bundle));
    tsr_result result = sign(ctx, bundle, key);
    tsr_bundle_close(ctx, bundle);
    return result;
}
