/* SPDX-License-Identifier: Apache-2.0
 *
 * For schema_test.py: prints the config and the deployment manifest of random configs, one per
 * line.
 */
#include "manifests/deployment.h"
#include "tests/manifests/random_manifests.h"

#include <stdio.h>

int main(void) {
    for (uint64_t seed = 0; seed < 60; seed++) {
        tsr_ctx ctx = {0};
        tsr_arena arena = {0};
        tsr_config config = random_config(seed, (uint32_t)(seed % 12), &arena);
        char *json;
        size_t size;
        if (tsr_config_encode(&ctx, &config, &arena, &json, &size).code) return 1;
        puts(json);
        /* Alternates between a manifest with the results of passes and one without. */
        tsr_deployment deployment = random_deployment(seed, &config, &arena);
        if (tsr_deployment_encode(&ctx, &config, seed > 16 && seed % 2 ? &deployment : NULL,
                                  TSR_PART_ALL, &arena, &json, &size)
                .code)
            return 1;
        puts(json);
        tsr_arena_finish(&arena);
    }
    return 0;
}
