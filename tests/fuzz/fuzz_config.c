/* SPDX-License-Identifier: Apache-2.0
 *
 * What the config decoder accepts can be written, and what is written reads back as the same bytes.
 */
#include "manifests/config.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes);

static void expect(bool good) {
    if (!good) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes) {
    tsr_ctx ctx = {0};
    tsr_arena arena = {0};
    tsr_config config = {0}, again = {0};
    char *json, *json_again;
    size_t size, size_again;
    tsr_code code = tsr_config_decode(&ctx, (const char *)bytes, size_bytes, &arena, &config).code;
    if (code == TSR_OK) {
        config.version_minor = TSR_CONFIG_VERSION_MINOR;
        expect(tsr_config_encode(&ctx, &config, &arena, &json, &size).code == TSR_OK);
        expect(tsr_config_decode(&ctx, json, size, &arena, &again).code == TSR_OK);
        expect(tsr_config_encode(&ctx, &again, &arena, &json_again, &size_again).code == TSR_OK);
        expect(size == size_again && memcmp(json, json_again, size) == 0);
    } else {
        expect((code == TSR_CORRUPT || code == TSR_VERSION) && ctx.error.text[0]);
    }
    tsr_arena_finish(&arena);
    return 0;
}
