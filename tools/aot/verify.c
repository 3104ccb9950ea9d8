/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera-aot verify: checks the signature, every byte against its digest, and every program
 * against the config.
 */
#include "bundle/bundle.h"
#include "bundle/sign.h"
#include "manifests/program.h"
#include "runtime/base/array.h"
#include "runtime/base/plural.h"
#include "tools/aot/aot.h"

#include <inttypes.h>
#include <stdio.h>

static tsr_result verify_target(tsr_ctx *ctx, tsr_bundle *bundle, size_t target) {
    tsr_arena arena = {0};
    tsr_config config;
    tsr_program program;
    tsr_bundle_layer layer;
    const char *json = NULL;
    size_t size_bytes = 0;
    void *bytes = NULL;
    tsr_result result;
    tsr_bundle_get_config(bundle, target, &json, &size_bytes);
    TRY_GOTO(ctx, result, tsr_config_decode(ctx, json, size_bytes, &arena, &config));
    TRY_GOTO(ctx, result, tsr_bundle_need_layer(ctx, bundle, target, TSR_MEDIA_PROGRAM, &layer));
    TRY_GOTO(ctx, result, tsr_bundle_read_layer(ctx, bundle, &layer, &arena, &bytes, &size_bytes));
    TRY_GOTO(ctx, result, tsr_program_decode(ctx, bytes, size_bytes, &config, &arena, &program));
done:
    tsr_arena_finish(&arena);
    return result;
}

static void print_signature(const char *path, const tsr_signature_report *signature) {
    char hex[TSR_DIGEST_HEX + 1];
    tsr_digest_format(&signature->key_id, hex);
    switch (signature->state) {
    case TSR_SIGNATURE_ABSENT:
        printf("%s: not signed\n", path);
        return;
    case TSR_SIGNATURE_UNCHECKED:
        printf("%s: its signature names key sha256:%s; not checked: --key is missing\n", path, hex);
        return;
    case TSR_SIGNATURE_GOOD:
        printf("%s: signed by key sha256:%s\n", path, hex);
        return;
    }
}

static tsr_result verify(tsr_ctx *ctx, tsr_bundle *bundle, const tsr_signature_policy *policy,
                         bool full, unsigned threads) {
    tsr_bundle_verify_report report;
    tsr_signature_report signature;
    char hex[TSR_DIGEST_HEX + 1];
    TRY(ctx, tsr_signature_check(ctx, bundle, policy, &signature));
    TRY(ctx, full ? tsr_bundle_verify_full(ctx, bundle, threads, &report)
                  : tsr_bundle_verify(ctx, bundle, threads, &report));
    for (size_t i = 0; i < tsr_bundle_get_target_count(bundle); i++)
        TRY(ctx, verify_target(ctx, bundle, i));
    tsr_digest digest = tsr_bundle_get_digest(bundle);
    tsr_digest_format(&digest, hex);
    printf("%s: good; %" PRIu64 " blob%s, %" PRIu64 " byte%s, %.2f GB/s; sha256:%s\n",
           tsr_bundle_get_path(bundle), report.blob_count, TSR_PLURAL(report.blob_count),
           report.verified_bytes, TSR_PLURAL(report.verified_bytes),
           report.seconds > 0 ? (double)report.verified_bytes / report.seconds * 1e-9 : 0.0, hex);
    print_signature(tsr_bundle_get_path(bundle), &signature);
    return TSR_SUCCESS;
}

tsr_result tsr_aot_verify(tsr_ctx *ctx, int argc, char **argv) {
    const char *path = NULL;
    bool done = false, full = false;
    uint64_t threads = 0;
    tsr_flag_list keys = {0};
    tsr_signature_policy policy = {.size_bytes = sizeof policy};
    tsr_bundle_open_options options = {.size_bytes = sizeof options, .defer_blobs = true};
    tsr_flag flags[] = {
        TSR_FLAG("--strict", SWITCH, NONE, &options.strict, NULL,
                 "accept canonical bytes only: not one bit may differ", 0, 0),
        TSR_FLAG("--full", SWITCH, NONE, &full, NULL,
                 "against the digests of whole blobs too, as registries do", 0, 0),
        TSR_FLAG("--key", LIST, READ, &keys, "PUB",
                 "a public key that may have signed it; more than one may be given", 0, 0),
        TSR_FLAG("--require-signature", SWITCH, NONE, &policy.required, NULL,
                 "refuse a bundle that is not signed by one of the keys", 0, 0),
        TSR_FLAG("--threads", COUNT, NONE, &threads, "N", "default: every CPU", 1, 1024)};
    const tsr_aot_word positional[] = {{"FILE", TSR_FILE_BUNDLE}, {NULL, TSR_FILE_NONE}};
    const tsr_aot_command_line line = {.name = "verify",
                                       .flags = flags,
                                       .flag_count = TSR_COUNT(flags),
                                       .positional = positional,
                                       .out_words = &path};
    tsr_bundle *bundle = NULL;
    TRY(ctx, tsr_aot_parse(ctx, argc, argv, &line, &done));
    if (done) return TSR_SUCCESS;
    policy.keys = keys.texts;
    policy.key_count = keys.count;
    if (policy.required && !policy.key_count)
        FAIL(ctx, TSR_USAGE, "verify: --require-signature needs --key");
    TRY(ctx, tsr_bundle_open(ctx, path, &options, &bundle));
    tsr_result result = verify(ctx, bundle, &policy, full, (unsigned)threads);
    tsr_bundle_close(ctx, bundle);
    return result;
}
