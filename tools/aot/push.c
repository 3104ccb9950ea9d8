/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera-aot push: sends a bundle and its signature to an OCI registry.
 */
#include "runtime/base/array.h"
#include "tools/aot/remote.h"

#include <string.h>

static const char notes[] =
    "REF is host[:port]/name[:tag][@sha256:digest]; the tag is `latest` without one. FILE is a "
    "bundle,\none that another tool has packed, or an unpacked directory; FILE.sigstore.json goes "
    "with it.\nBlobs the registry has are not sent again. docs/registry.md says more.\n";

static tsr_result run(tsr_ctx *ctx, tsr_remote_line *remote, const char *const *words,
                      const tsr_push_options *options) {
    tsr_registry_report report;
    TRY(ctx, tsr_remote_line_finish(ctx, remote, "push"));
    tsr_result result =
        tsr_registry_push(ctx, words[0], words[1], &remote->options, options, &report);
    tsr_remote_meter_end(&remote->meter);
    TRY(ctx, result);
    tsr_remote_print(remote, "pushed", words[1], words[0], &report);
    return TSR_SUCCESS;
}

tsr_result tsr_aot_push(tsr_ctx *ctx, int argc, char **argv) {
    const char *words[2] = {0};
    bool done = false;
    tsr_flag_list mount = {0};
    tsr_push_options options = {.size_bytes = sizeof options};
    tsr_remote_line remote;
    tsr_flag flags[] = {
        TSR_FLAG("--mount-from", LIST, NONE, &mount, "NAME",
                 "a repository there that may have the blobs; more than one may be given", 0, 0),
        TSR_FLAG("--no-signature", SWITCH, NONE, &options.no_signature, NULL,
                 "do not send FILE.sigstore.json", 0, 0),
#define X(name, kind, use, target, value, help, min, max)                                          \
    TSR_FLAG(name, kind, use, &remote.target, value, help, min, max),
#include "tools/aot/remote.def"
#undef X
    };
    const tsr_aot_word positional[] = {
        {"FILE", TSR_FILE_BUNDLE}, {"REF", TSR_FILE_NONE}, {NULL, TSR_FILE_NONE}};
    tsr_remote_line_init(&remote);
    const tsr_aot_command_line line = {.name = "push",
                                       .notes = notes,
                                       .flags = flags,
                                       .flag_count = TSR_COUNT(flags),
                                       .positional = positional,
                                       .out_words = words};
    TRY(ctx, tsr_aot_parse(ctx, argc, argv, &line, &done));
    if (done) return TSR_SUCCESS;
    options.mount_names = mount.texts;
    options.mount_count = mount.count;
    tsr_result result = run(ctx, &remote, words, &options);
    tsr_remote_line_release(&remote);
    return result;
}
