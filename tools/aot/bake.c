/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera-aot bake: stores the trained state of a run in a bundle, or exports only the parameters.
 */
#include "runtime/base/array.h"
#include "tessera/tessera.h"
#include "tools/aot/aot.h"

#include <inttypes.h>
#include <stdio.h>

static tsr_result bake(tsr_ctx *ctx, const char *in_path, const tsr_bake_options *options) {
    tsr_generation generation;
    TRY(ctx, tsr_bake(ctx, in_path, options, &generation));
    if (options->params)
        printf("%s", options->params);
    else
        printf("generation %" PRIu64 ", step %" PRIu64, generation.number,
               generation.position.step);
    if (options->out_path) printf(" -> %s", options->out_path);
    if (options->export_params) printf(" -> %s", options->export_params);
    printf("\n");
    return TSR_SUCCESS;
}

tsr_result tsr_aot_bake(tsr_ctx *ctx, int argc, char **argv) {
    const char *path = NULL;
    bool done = false;
    uint64_t generation = 0;
    tsr_bake_options options = {.size_bytes = sizeof options};
    tsr_flag flags[] = {
        TSR_FLAG("--state-dir", TEXT, STATE, &options.state_directory, "DIR",
                 "the state of a run of this bundle", 0, 0),
        TSR_FLAG("-o", TEXT, WRITE, &options.out_path, "OUT", "the trained bundle", 0, 0),
        TSR_FLAG("--export-params", TEXT, WEIGHTS, &options.export_params, "FILE",
                 "the parameters as safetensors", 0, 0),
        TSR_FLAG("--params", TEXT, READ, &options.params, "FILE",
                 "instead of a state: parameters, .safetensors or .npz", 0, 0),
        TSR_FLAG("--reference", SWITCH, NONE, &options.reference, NULL,
                 "with --params: store the digest of the file, not its contents", 0, 0),
        TSR_FLAG("--with-state", SWITCH, NONE, &options.with_state, NULL,
                 "the optimizer state too: training resumes at the position of the state", 0, 0),
        TSR_FLAG("--generation", COUNT, NONE, &generation, "GEN", "default: the newest good one", 1,
                 UINT64_MAX)};
    const tsr_aot_word positional[] = {{"FILE", TSR_FILE_BUNDLE}, {NULL, TSR_FILE_NONE}};
    const tsr_aot_command_line line = {.name = "bake",
                                       .flags = flags,
                                       .flag_count = TSR_COUNT(flags),
                                       .positional = positional,
                                       .out_words = &path};
    TRY(ctx, tsr_aot_parse(ctx, argc, argv, &line, &done));
    if (done) return TSR_SUCCESS;
    if (!options.state_directory && !options.params)
        FAIL(ctx, TSR_USAGE, "bake: --state-dir is missing, or --params");
    if (options.state_directory && options.params)
        FAIL(ctx, TSR_USAGE, "bake: --state-dir and --params both name parameters; give one");
    if (options.params && (generation || options.with_state || options.export_params))
        FAIL(ctx, TSR_USAGE, "bake: %s needs --state-dir",
             generation           ? "--generation"
             : options.with_state ? "--with-state"
                                  : "--export-params");
    if (options.reference && !options.params)
        FAIL(ctx, TSR_USAGE, "bake: --reference needs --params");
    if (options.with_state && !options.out_path)
        FAIL(ctx, TSR_USAGE, "bake: --with-state needs -o");
    if (!options.out_path && !options.export_params)
        FAIL(ctx, TSR_USAGE, "bake: -o or --export-params is missing");
    options.resume = generation ? TSR_RESUME_EXACT : TSR_RESUME_AUTO;
    options.resume_generation = generation;
    return bake(ctx, path, &options);
}
