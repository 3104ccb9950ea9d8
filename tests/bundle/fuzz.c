/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target: what stands behind checksums and digests. The first byte picks what the rest
 * is; the hashes over it are made right. (tests/fuzz feeds raw bytes.)
 */
#include "bundle/bundle.h"
#include "tests/bundle/kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PICK_TAR, PICK_MARKER, PICK_ROOT, PICK_INDEX, PICK_MANIFEST, PICK_ZSTD, PICK_COUNT };

/* What a caller does with a bundle of unknown origin. */
static void use(tsr_ctx *ctx, bool strict) {
    const tsr_bundle_open_options options = {.size_bytes = sizeof options, .strict = strict};
    tsr_bundle *bundle = NULL;
    tsr_bundle_verify_report report;
    if (tsr_bundle_open(ctx, "x.tsb", &options, &bundle).code) {
        if (!strstr(ctx->error.text, "x.tsb")) abort();
        return;
    }
    for (size_t t = 0; t < tsr_bundle_get_target_count(bundle); t++)
        for (size_t i = 0; i < tsr_bundle_get_layer_count(bundle, t); i++) {
            tsr_bundle_layer layer = tsr_bundle_get_layer(bundle, t, i);
            tsr_arena arena = {0};
            void *bytes;
            size_t size;
            char part[16];
            size_t some = layer.size_bytes < sizeof part ? (size_t)layer.size_bytes : sizeof part;
            tsr_result whole = tsr_bundle_read_layer(ctx, bundle, &layer, &arena, &bytes, &size);
            tsr_result range =
                tsr_bundle_read_range(ctx, bundle, &layer, layer.size_bytes - some, part, some);
            if (!whole.code && range.code) abort(); /* the whole layer was good */
            tsr_arena_finish(&arena);
        }
    tsr_result verified = tsr_bundle_verify(ctx, bundle, 1, &report);
    if (strict && verified.code) abort(); /* open verified everything */
    tsr_bundle_close(ctx, bundle);
}

static void use_both(tsr_ctx *ctx) {
    use(ctx, false);
    tsr_error_clear(ctx);
    use(ctx, true);
}

/* Rights the checksum of everything that looks like a header. */
static void fix_checksums(unsigned char *bytes, size_t size) {
    for (size_t at = 0; at + 512 <= size; at += 512) {
        unsigned char *block = bytes + at;
        unsigned sum = 0;
        char text[8];
        if (memcmp(block + 257, "ustar", 5) != 0) continue;
        memset(block + 148, ' ', 8);
        for (size_t i = 0; i < 512; i++) sum += block[i];
        snprintf(text, sizeof text, "%06o", sum);
        memcpy(block + 148, text, 7);
    }
}

static void fuzz_tar(const uint8_t *data, size_t size) {
    unsigned char *bytes = malloc(size + 1);
    memcpy(bytes, data, size);
    fix_checksums(bytes, size);
    ram_file file = {"x.tsb", bytes, size};
    ram_io ram;
    ram_io_init(&ram, false, &file, 1);
    tsr_ctx ctx = {.io = &ram.io};
    use_both(&ctx);
    if (ram.open_count != ram.close_count) abort();
    free(bytes);
}

static void fuzz_kit(const uint8_t *data, size_t size, unsigned pick) {
    static const kit_text texts[PICK_COUNT] = {[PICK_MARKER] = KIT_MARKER,
                                               [PICK_ROOT] = KIT_ROOT,
                                               [PICK_INDEX] = KIT_INDEX,
                                               [PICK_MANIFEST] = KIT_MANIFEST};
    kit k;
    kit_init(&k);
    k.edit = texts[pick];
    k.replace = (const char *)data;
    k.replace_size_bytes = size;
    if (pick == PICK_ZSTD) {
        uint32_t plain = 0;
        if (size > sizeof plain) memcpy(&plain, data, sizeof plain);
        k.layers[0].plain_size_bytes = plain & 0xfffff;
        k.layers[0].bytes = data;
        k.layers[0].size_bytes = size;
    }
    kit_link(&k);
    use(&k.ctx, false);
    if (k.ram.open_count != k.ram.close_count) abort();
    kit_finish(&k);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) return 0;
    unsigned pick = data[0] % PICK_COUNT;
    if (pick == PICK_TAR)
        fuzz_tar(data + 1, size - 1);
    else
        fuzz_kit(data + 1, size - 1, pick);
    return 0;
}
