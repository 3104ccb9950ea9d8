/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera-aot provenance: shows the sources of a bundle as the in-toto statement that other tools
 * read; signs it if a key is given.
 */
#include "bundle/provenance.h"

#include "bundle/sign.h"
#include "runtime/base/array.h"
#include "tools/aot/aot.h"

#include <stdio.h>

typedef struct request {
    const char *path, *key, *output;
    tsr_signature_policy policy;
} request;

static tsr_result write_signed(tsr_ctx *ctx, tsr_bundle *bundle, const request *r) {
    tsr_digest id;
    char hex[TSR_DIGEST_HEX + 1];
    TRY(ctx, tsr_provenance_write(ctx, bundle, r->output, r->key, &id));
    tsr_digest_format(&id, hex);
    printf("%s: signed by key sha256:%s\n", r->output, hex);
    return TSR_SUCCESS;
}

static tsr_result provenance(tsr_ctx *ctx, tsr_bundle *bundle, const request *r) {
    tsr_signature_report signature;
    tsr_arena arena = {0};
    char *json = NULL;
    size_t size = 0;
    TRY(ctx, tsr_signature_check(ctx, bundle, &r->policy, &signature));
    if (r->key) return write_signed(ctx, bundle, r);
    tsr_result result = tsr_provenance_statement(ctx, bundle, &arena, &json, &size);
    if (!result.code) {
        fwrite(json, 1, size, stdout);
        putchar('\n');
    }
    tsr_arena_finish(&arena);
    return result;
}

tsr_result tsr_aot_provenance(tsr_ctx *ctx, int argc, char **argv) {
    request r = {.policy = {.size_bytes = sizeof r.policy}};
    bool done = false;
    tsr_bundle *bundle = NULL;
    tsr_flag_list keys = {0};
    tsr_flag flags[] = {
        TSR_FLAG("--sign", TEXT, READ, &r.key, "KEY", "sign the statement with a private key", 0,
                 0),
        TSR_FLAG("-o", TEXT, WRITE, &r.output, "OUT",
                 "the signed statement: a Sigstore bundle v0.3", 0, 0),
        TSR_FLAG("--key", LIST, READ, &keys, "PUB",
                 "a public key that may have signed the bundle; more than one may be given", 0, 0),
        TSR_FLAG("--require-signature", SWITCH, NONE, &r.policy.required, NULL,
                 "refuse a bundle that is not signed by one of the keys", 0, 0)};
    const tsr_aot_word positional[] = {{"FILE", TSR_FILE_BUNDLE}, {NULL, TSR_FILE_NONE}};
    const tsr_aot_command_line line = {
        .name = "provenance",
        .notes = "An in-toto statement whose subject is the bundle's index and whose predicate is "
                 "SLSA Provenance v1.\nIt proves as much as the signature of the bundle, or of the "
                 "statement, does.\n",
        .flags = flags,
        .flag_count = TSR_COUNT(flags),
        .positional = positional,
        .out_words = &r.path};
    TRY(ctx, tsr_aot_parse(ctx, argc, argv, &line, &done));
    if (done) return TSR_SUCCESS;
    if (!r.key != !r.output)
        FAIL(ctx, TSR_USAGE, "provenance: --sign KEY and -o OUT go together; %s is missing",
             r.key ? "-o OUT" : "--sign KEY");
    r.policy.keys = keys.texts;
    r.policy.key_count = keys.count;
    if (r.policy.required && !keys.count)
        FAIL(ctx, TSR_USAGE, "provenance: --require-signature needs --key");
    TRY(ctx, tsr_bundle_open(ctx, r.path, NULL, &bundle));
    tsr_result result = provenance(ctx, bundle, &r);
    tsr_bundle_close(ctx, bundle);
    return result;
}
