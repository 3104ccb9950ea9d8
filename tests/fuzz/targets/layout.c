/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the OCI JSON of a bundle with right digests. The first byte says which document the rest
 * is: oci-layout, index.json, index or manifest. Or the rest selects the files of a good layout
 * that a tar contains, and their order. A bundle that can be opened can be read and verified.
 */
#include "bundle/bundle.h"
#include "runtime/base/io/json.h"
#include "tests/bundle/kit.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

enum { DOCUMENTS = 4, TAR_FILES_MAX = 24, TAR_BYTES_MAX = 1 << 16 };
static const kit_text documents[DOCUMENTS] = {KIT_MARKER, KIT_ROOT, KIT_INDEX, KIT_MANIFEST};

static void put_seed(const char *folder, unsigned number, unsigned pick, const ram_file *file) {
    uint8_t bytes[8192];
    fuzz_require(file->size_bytes < sizeof bytes, "a short document");
    bytes[0] = (uint8_t)pick;
    memcpy(bytes + 1, file->bytes, file->size_bytes);
    fuzz_put(folder, number, bytes, 1 + file->size_bytes);
}

/* Writes the documents of a good layout: the last four of its files, and its manifest twice. */
static void seed(const char *folder) {
    kit k;
    kit_init(&k);
    kit_link(&k);
    unsigned number = 0;
    for (size_t i = 0; i < k.file_count; i++) {
        const char *text = k.files[i].bytes;
        size_t size = k.files[i].size_bytes;
        unsigned pick = strcmp(k.files[i].name, "oci-layout") == 0   ? 0
                        : strcmp(k.files[i].name, "index.json") == 0 ? 1
                        : memmem(text, size, "\"manifests\"", 11)    ? 2
                        : memmem(text, size, "\"layers\"", 8)        ? 3
                                                                     : DOCUMENTS;
        if (pick < DOCUMENTS) put_seed(folder, number++, pick, &k.files[i]);
    }
    fuzz_require(number == DOCUMENTS, "four documents to begin with");
    static const uint8_t members[] = {DOCUMENTS, 7, 6, 5, 4, 3, 2, 1, 0};
    fuzz_put(folder, number++, members, sizeof members);
    fuzz_put(folder, number, members, sizeof members - 1);
    kit_finish(&k);
}

static void read_layers(tsr_ctx *ctx, tsr_bundle *bundle, size_t target) {
    for (size_t i = 0; i < tsr_bundle_get_layer_count(bundle, target); i++) {
        tsr_bundle_layer layer = tsr_bundle_get_layer(bundle, target, i);
        tsr_arena arena = {0};
        void *bytes = NULL;
        size_t size = 0;
        char part[16];
        size_t some = layer.size_bytes < sizeof part ? (size_t)layer.size_bytes : sizeof part;
        tsr_result whole = tsr_bundle_read_layer(ctx, bundle, &layer, &arena, &bytes, &size);
        tsr_result range =
            tsr_bundle_read_range(ctx, bundle, &layer, layer.size_bytes - some, part, some);
        fuzz_require(whole.code || !range.code || fuzz_faults, "a part of a good layer");
        fuzz_require(whole.code || layer.size_bytes != size ||
                         memcmp((char *)bytes + size - some, part, some) == 0 || fuzz_faults,
                     "the same bytes");
        tsr_arena_finish(&arena);
    }
}

static void use(tsr_ctx *ctx, const tsr_bundle_open_options *options) {
    tsr_bundle *bundle = NULL;
    tsr_bundle_verify_report report;
    tsr_code code = tsr_bundle_open(ctx, "x.tsb", options, &bundle).code;
    if (code) {
        bool right = code == TSR_CORRUPT || code == TSR_VERSION || code == TSR_IO || fuzz_faults;
        fuzz_require(right && strstr(ctx->error.text, "x.tsb"), "damage, and the file's name");
        return;
    }
    for (size_t t = 0; t < tsr_bundle_get_target_count(bundle); t++) read_layers(ctx, bundle, t);
    if (tsr_bundle_verify(ctx, bundle, 1, &report).code) tsr_error_clear(ctx);
    tsr_bundle_close(ctx, bundle);
}

static bool is_json(const uint8_t *bytes, size_t size_bytes) {
    const tsr_json_options options = {"fuzz", TSR_DATA, false};
    tsr_ctx ctx = {0};
    struct cJSON *root = NULL;
    if (tsr_json_parse(&ctx, (const char *)bytes, size_bytes, &options, &root).code) return false;
    tsr_json_destroy(root);
    return true;
}

/* Makes a tar of the selected files of the kit, which becomes the only file of its file system. */
static void make_tar(kit *k, const uint8_t *members, size_t count) {
    static uint8_t archive[TAR_BYTES_MAX];
    static ram_file file;
    size_t size = 0;
    for (size_t i = 0; i < count && i < TAR_FILES_MAX; i++) {
        const ram_file *from = &k->files[members[i] % k->file_count];
        tsr_tar_format_header(archive + size, from->name, '0', from->size_bytes);
        size += TSR_TAR_BLOCK_BYTES;
        size_t whole = from->size_bytes + tsr_tar_gap(from->size_bytes);
        fuzz_require(size + whole + 1024 <= sizeof archive, "small files");
        memset(archive + size, 0, whole);
        memcpy(archive + size, from->bytes, from->size_bytes);
        size += whole;
    }
    memset(archive + size, 0, 1024);
    file = (ram_file){"x.tsb", archive, size + 1024};
    ram_io_init(&k->ram, false, &file, 1);
}

static bool run_tar(const uint8_t *bytes, size_t size_bytes) {
    static const tsr_bundle_open_options strict = {.size_bytes = sizeof strict, .strict = true};
    kit k;
    fuzz_armed = false;
    kit_init(&k);
    kit_link(&k);
    make_tar(&k, bytes, size_bytes);
    k.ram.fail_at = fuzz_fail_read;
    fuzz_armed = true;
    use(&k.ctx, NULL);
    tsr_error_clear(&k.ctx);
    use(&k.ctx, &strict);
    fuzz_require(k.ram.open_count == k.ram.close_count, "every file closed");
    kit_finish(&k);
    return true;
}

static bool run(const uint8_t *bytes, size_t size_bytes) {
    kit k;
    if (size_bytes < 2) return false;
    if (bytes[0] % (DOCUMENTS + 1) == DOCUMENTS) return run_tar(bytes + 1, size_bytes - 1);
    fuzz_armed = false;
    kit_init(&k);
    k.edit = documents[bytes[0] % (DOCUMENTS + 1)];
    k.replace = (const char *)bytes + 1;
    k.replace_size_bytes = size_bytes - 1;
    kit_link(&k);
    fuzz_armed = true;
    k.ram.fail_at = fuzz_fail_read;
    use(&k.ctx, NULL);
    fuzz_require(k.ram.open_count == k.ram.close_count, "every file closed");
    kit_finish(&k);
    return is_json(bytes + 1, size_bytes - 1);
}

static size_t mutate(uint8_t *bytes, size_t size_bytes, size_t size_max, uint32_t seed) {
    uint32_t state = seed;
    if (size_bytes < 2 || bytes[0] % (DOCUMENTS + 1) == DOCUMENTS || fuzz_one_in(&state, 64))
        return LLVMFuzzerMutate(bytes, size_bytes, size_max);
    return 1 + fuzz_mutate_json(bytes + 1, size_bytes - 1, size_max - 1, &state);
}

const fuzz_target fuzz_the_target = {"layout", seed, run, mutate};
