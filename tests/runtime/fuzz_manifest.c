/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target for the manifest decoder. Hashes are made right first, so that what lies behind
 * them is reached; what is accepted must encode to the same bytes.
 *
 *     CC=clang meson setup build/fuzz -Db_sanitize=address,undefined -Dcompiler=false
 *     ninja -C build/fuzz tests/runtime/fuzz_manifest && build/fuzz/tests/runtime/fuzz_manifest
 */
#include "runtime/store/format.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void seal(uint8_t *bytes, size_t size) {
    if (size < TSR_DIGEST_BYTES) return;
    tsr_digest digest = tsr_hash(bytes, size - TSR_DIGEST_BYTES);
    memcpy(bytes + size - TSR_DIGEST_BYTES, digest.bytes, TSR_DIGEST_BYTES);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tsr_ctx ctx = {0};
    tsr_arena arena = {0};
    tsr_manifest manifest;
    uint8_t *bytes = malloc(size + 1), *again;
    if (!bytes) abort();
    memcpy(bytes, data, size);
    if (size >= 16) {
        size_t token_size = (size_t)bytes[12] | (size_t)bytes[13] << 8;
        if (token_size <= size) seal(bytes, token_size);
    }
    seal(bytes, size);
    if (tsr_manifest_decode(&ctx, "MANIFEST", bytes, size, &arena, &manifest).code == TSR_OK) {
        again = malloc(size);
        if (!again || tsr_manifest_size(&manifest) != size) abort();
        tsr_manifest_encode(&manifest, again);
        if (memcmp(again, bytes, size) != 0) abort();
        free(again);
    }
    tsr_arena_finish(&arena);
    free(bytes);
    return 0;
}
