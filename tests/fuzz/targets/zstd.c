/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes compressed layers: four bytes of stated uncompressed size, then the stored bytes. An
 * accepted input is one frame with the stated size, and zstd alone decompresses it to the same
 * bytes.
 */
#include "bundle/bundle.h"
#include "tests/bundle/kit.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

enum { CLAIM_BYTES = 4, PLAIN_MAX = 1 << 16 };

static size_t put_frame(uint8_t *bytes, size_t size_max, const void *plain, size_t plain_size,
                        int level, bool checksum) {
    uint32_t claim = (uint32_t)plain_size;
    ZSTD_CCtx *zstd = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(zstd, ZSTD_c_compressionLevel, level);
    ZSTD_CCtx_setParameter(zstd, ZSTD_c_checksumFlag, checksum);
    size_t size =
        ZSTD_compress2(zstd, bytes + CLAIM_BYTES, size_max - CLAIM_BYTES, plain, plain_size);
    ZSTD_freeCCtx(zstd);
    if (ZSTD_isError(size)) return 0;
    memcpy(bytes, &claim, sizeof claim);
    return CLAIM_BYTES + size;
}

static void seed(const char *folder) {
    static const char text[] = "module { func.func @f() { return } }\n";
    uint8_t plain[2048], bytes[4096];
    for (size_t i = 0; i < sizeof plain; i++) plain[i] = (uint8_t)text[i % (sizeof text - 1)];
    for (unsigned i = 0; i < 6; i++) {
        size_t plain_size = i == 0 ? 0 : i == 1 ? 1 : i * 400;
        size_t size =
            put_frame(bytes, sizeof bytes, plain, plain_size, (int)(i % 3) * 9 + 1, i != 4);
        fuzz_put(folder, i, bytes, size);
    }
}

static bool run(const uint8_t *bytes, size_t size_bytes) {
    uint32_t claim;
    kit k;
    tsr_bundle *bundle = NULL;
    tsr_arena arena = {0};
    if (size_bytes <= CLAIM_BYTES) return false;
    memcpy(&claim, bytes, sizeof claim);
    claim %= PLAIN_MAX + 1;
    const uint8_t *frame = bytes + CLAIM_BYTES;
    size_t frame_size = size_bytes - CLAIM_BYTES;
    char *plain = malloc(PLAIN_MAX + 1);
    fuzz_require(plain != NULL || fuzz_faults, "memory");
    if (!plain) return false;
    size_t plain_size = ZSTD_decompress(plain, PLAIN_MAX, frame, frame_size);
    bool good = !ZSTD_isError(plain_size);
    fuzz_armed = false;
    kit_init(&k);
    k.layers[0] = (kit_layer){.media_type = TSR_MEDIA_IR,
                              .bytes = frame,
                              .size_bytes = frame_size,
                              .plain_size_bytes = claim};
    if (good) k.layers[0].plain_digest = tsr_hash(plain, plain_size);
    kit_link(&k);
    fuzz_armed = true;
    k.ram.fail_at = fuzz_fail_read;
    void *read = NULL;
    size_t read_size = 0;
    tsr_result result = tsr_bundle_open(&k.ctx, "x.tsb", NULL, &bundle);
    fuzz_require(!result.code || fuzz_faults, "a bundle with right digests");
    if (!result.code) {
        tsr_bundle_layer layer = tsr_bundle_get_layer(bundle, 0, 0);
        result = tsr_bundle_read_layer(&k.ctx, bundle, &layer, &arena, &read, &read_size);
        fuzz_require(result.code || (good && read_size == plain_size && plain_size == claim &&
                                     memcmp(read, plain, plain_size) == 0),
                     "the bytes that zstd gives, of the claimed size");
        fuzz_require(!result.code || result.code == TSR_CORRUPT || fuzz_faults,
                     "the code of damage");
    }
    bool header = !result.code || strstr(k.ctx.error.text, "plain bytes");
    tsr_bundle_close(&k.ctx, bundle);
    tsr_arena_finish(&arena);
    kit_finish(&k);
    free(plain);
    return header;
}

/* Mutates the uncompressed bytes and compresses them again; sometimes mutates bits of the blocks,
 * or any bytes. An input that is not a frame becomes the content of one. */
static size_t mutate(uint8_t *bytes, size_t size_bytes, size_t size_max, uint32_t seed) {
    static uint8_t plain[PLAIN_MAX];
    uint32_t state = seed;
    if (size_bytes <= CLAIM_BYTES + 9 || fuzz_one_in(&state, 16))
        return LLVMFuzzerMutate(bytes, size_bytes, size_max);
    size_t stored = size_bytes - CLAIM_BYTES;
    size_t size = ZSTD_decompress(plain, size_max / 2, bytes + CLAIM_BYTES, stored);
    if (ZSTD_isError(size)) {
        size = stored < size_max / 2 ? stored : size_max / 2;
        memcpy(plain, bytes + CLAIM_BYTES, size);
    } else if (fuzz_one_in(&state, 4)) {
        LLVMFuzzerMutate(bytes + CLAIM_BYTES + 9, stored - 9, stored - 9);
        return size_bytes;
    }
    size = LLVMFuzzerMutate(plain, size, size_max / 2);
    size = put_frame(bytes, size_max, plain, size, (int)(fuzz_random(&state) % 4),
                     !fuzz_one_in(&state, 32));
    return size ? size : size_bytes;
}

const fuzz_target fuzz_the_target = {"zstd", seed, run, mutate};
