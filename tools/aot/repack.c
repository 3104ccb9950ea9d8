/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera-aot repack: restores the canonical bytes.
 */
#include "bundle/bundle.h"
#include "runtime/base/array.h"
#include "tools/aot/aot.h"

tsr_result tsr_aot_repack(tsr_ctx *ctx, int argc, char **argv) {
    const char *input = NULL, *output = NULL;
    bool done = false;
    tsr_flag flags[] = {TSR_FLAG("-o", TEXT, REPLACE, &output, "OUT",
                                 "the bundle to write, whole or not at all; may be IN", 0, 0)};
    const tsr_aot_word positional[] = {{"IN", TSR_FILE_BASE}, {NULL, TSR_FILE_NONE}};
    const tsr_aot_command_line line = {
        .name = "repack",
        .notes = "IN is a bundle, one that another tool has packed, or an unpacked directory.\n",
        .flags = flags,
        .flag_count = TSR_COUNT(flags),
        .positional = positional,
        .out_words = &input};
    TRY(ctx, tsr_aot_parse(ctx, argc, argv, &line, &done));
    if (done) return TSR_SUCCESS;
    if (!output) FAIL(ctx, TSR_USAGE, "repack: -o OUT is missing");
    return tsr_bundle_repack(ctx, input, output);
}
