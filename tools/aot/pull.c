/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera-aot pull: fetches a bundle, or some of its targets, from an OCI registry.
 */
#include "runtime/base/array.h"
#include "tools/aot/remote.h"

#include <string.h>

static const char notes[] =
    "REF is host[:port]/name[:tag][@sha256:digest]; the tag is `latest` without one. OUT is "
    "replaced\nwhole or not at all, OUT.sigstore.json with it. A pull that was broken off "
    "continues "
    "from OUT.part;\nchunks that OUT or a --base has are not fetched. docs/registry.md says "
    "more.\n";

static tsr_result run(tsr_ctx *ctx, tsr_remote_line *remote, const char *reference,
                      const char *path, const tsr_pull_options *options) {
    tsr_registry_report report;
    if (!path) FAIL(ctx, TSR_USAGE, "pull: -o OUT is missing");
    if (options->require_signature && !options->key_count)
        FAIL(ctx, TSR_USAGE, "pull: --require-signature needs --key");
    if (options->no_signature && options->key_count)
        FAIL(ctx, TSR_USAGE, "pull: --no-signature and --key do not go together");
    TRY(ctx, tsr_remote_line_finish(ctx, remote, "pull"));
    tsr_result result = tsr_registry_pull(ctx, reference, path, &remote->options, options, &report);
    tsr_remote_meter_end(&remote->meter);
    TRY(ctx, result);
    tsr_remote_print(remote, "pulled", reference, path, &report);
    return TSR_SUCCESS;
}

/* The files next to OUT during a pull and after it. user: the path of OUT. */
static tsr_result add_files(tsr_ctx *ctx, const void *user, tsr_files *files) {
    static const char *const suffixes[] = {".part", ".part.sigstore.json", ".sigstore.json"};
    const char *path = *(const char *const *)user;
    for (size_t i = 0; i < TSR_COUNT(suffixes); i++)
        TRY(ctx, tsr_files_add_sibling(ctx, files, "-o", TSR_FILE_WRITE, path, suffixes[i]));
    return TSR_SUCCESS;
}

tsr_result tsr_aot_pull(tsr_ctx *ctx, int argc, char **argv) {
    const char *reference = NULL, *path = NULL;
    bool done = false;
    tsr_flag_list targets = {0}, bases = {0}, keys = {0};
    tsr_pull_options options = {.size_bytes = sizeof options};
    tsr_remote_line remote;
    tsr_flag flags[] = {
        TSR_FLAG("-o", TEXT, REPLACE, &path, "OUT", "the bundle to write", 0, 0),
        TSR_FLAG("--target", LIST, NONE, &targets, "NAME",
                 "only this target; more than one may be given", 0, 0),
        TSR_FLAG("--base", LIST, BASE, &bases, "OLD",
                 "an older bundle to take chunks from; more than one may be given", 0, 0),
        TSR_FLAG("--key", LIST, READ, &keys, "PUB",
                 "a public key that may have signed it; more than one may be given", 0, 0),
        TSR_FLAG("--require-signature", SWITCH, NONE, &options.require_signature, NULL,
                 "refuse a bundle that is not signed by one of the keys", 0, 0),
        TSR_FLAG("--no-signature", SWITCH, NONE, &options.no_signature, NULL,
                 "do not fetch a signature", 0, 0),
#define X(name, kind, use, target, value, help, min, max)                                          \
    TSR_FLAG(name, kind, use, &remote.target, value, help, min, max),
#include "tools/aot/remote.def"
#undef X
    };
    const tsr_aot_word positional[] = {{"REF", TSR_FILE_NONE}, {NULL, TSR_FILE_NONE}};
    tsr_remote_line_init(&remote);
    const tsr_aot_command_line line = {.name = "pull",
                                       .notes = notes,
                                       .flags = flags,
                                       .flag_count = TSR_COUNT(flags),
                                       .positional = positional,
                                       .out_words = &reference,
                                       .files = add_files,
                                       .user = &path};
    TRY(ctx, tsr_aot_parse(ctx, argc, argv, &line, &done));
    if (done) return TSR_SUCCESS;
    options.targets = targets.texts;
    options.target_count = targets.count;
    options.base_paths = bases.texts;
    options.base_count = bases.count;
    options.keys = keys.texts;
    options.key_count = keys.count;
    tsr_result result = run(ctx, &remote, reference, path, &options);
    tsr_remote_line_release(&remote);
    return result;
}
