/* SPDX-License-Identifier: Apache-2.0
 *
 * Metadata and blobs with right digests and wrong content.
 */
#include "bundle/bundle.h"
#include "runtime/base/array.h"
#include "tests/bundle/kit.h"
#include "tests/bundle/sample.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

/* Opens and reads every layer. */
static tsr_result read_all(kit *k) {
    tsr_bundle *bundle = NULL;
    tsr_arena arena = {0};
    tsr_result result = tsr_bundle_open(&k->ctx, "ram", NULL, &bundle);
    for (size_t i = 0; !result.code && i < tsr_bundle_get_layer_count(bundle, 0); i++) {
        tsr_bundle_layer layer = tsr_bundle_get_layer(bundle, 0, i);
        void *bytes;
        size_t size;
        result = tsr_bundle_read_layer(&k->ctx, bundle, &layer, &arena, &bytes, &size);
    }
    tsr_arena_finish(&arena);
    tsr_bundle_close(&k->ctx, bundle);
    cr_assert_eq(k->ram.open_count, k->ram.close_count, "a file stayed open");
    return result;
}

static void expect_linked(kit *k, tsr_code code, const char *text) {
    tsr_result result = read_all(k);
    cr_assert_eq(result.code, code, "'%s' -> '%.60s': expected code %d, got %d: %s",
                 k->find ? k->find : "", k->replace ? k->replace : "", code, result.code,
                 k->ctx.error.text);
    if (code)
        cr_assert(
            strstr(k->ctx.error.text, text) && strncmp(k->ctx.error.text, "tsb: ram: ", 10) == 0,
            "'%s': expected '%s', got '%s'", k->replace ? k->replace : "", text, k->ctx.error.text);
}

static void expect(kit *k, tsr_code code, const char *text) {
    kit_link(k);
    expect_linked(k, code, text);
}

typedef struct edit_case {
    kit_text text;
    const char *find, *replace;
    tsr_code code;
    const char *message;
} edit_case;

#define DEEP "[[[[[[[[[[[[[[[[[0]]]]]]]]]]]]]]]]]"
#define UNKNOWN "\"application/x-new\""
#define TWICE "\"schemaVersion\":2,\"schemaVersion\":2"
#define TIMES_4(text) text text text text
#define TIMES_10(text) text text text text text text text text text text
#define ANNOTATED "\"annotations\":{\"" TSR_KEY_FORMAT "\":\"1.0\"}}"

static const edit_case edits[] = {
    {KIT_NONE, NULL, NULL, TSR_OK, NULL},
    /* oci-layout */
    {KIT_MARKER, "1.0.0", "1.0.1", TSR_CORRUPT, "expected 1.0.0, got '1.0.1'"},
    {KIT_MARKER, "imageLayoutVersion", "x", TSR_CORRUPT, "imageLayoutVersion"},
    {KIT_MARKER, NULL, "[]", TSR_CORRUPT, "an object"},
    {KIT_MARKER, NULL, "", TSR_CORRUPT, "oci-layout"},
    /* index.json */
    {KIT_ROOT, "\"schemaVersion\":2", "\"schemaVersion\":3", TSR_CORRUPT, "expected 2, got 3"},
    {KIT_ROOT, "\"schemaVersion\":2", TWICE, TSR_CORRUPT, "schemaVersion"},
    {KIT_ROOT, "\"mediaType\"", "\"mediaType\":\"text/x\",\"x\"", TSR_CORRUPT, "got 'text/x'"},
    {KIT_ROOT, "\"manifests\":[{", "\"manifests\":[{},{", TSR_CORRUPT, "one descriptor, got 2"},
    {KIT_ROOT, NULL, "{\"schemaVersion\":2,\"manifests\":[]}", TSR_CORRUPT,
     "one descriptor, got 0"},
    {KIT_ROOT, NULL, "{\"schemaVersion\":2,\"manifests\":[7]}", TSR_CORRUPT,
     "an object, got another value"},
    {KIT_ROOT, "\"mediaType\":\"" TSR_MEDIA_INDEX "\",\"digest",
     "\"mediaType\":\"" TSR_MEDIA_MANIFEST "\",\"digest", TSR_CORRUPT, "--all"},
    {KIT_ROOT, "\"mediaType\":\"" TSR_MEDIA_INDEX "\",\"digest",
     "\"mediaType\":\"text/x\",\"digest", TSR_CORRUPT, "got 'text/x'"},
    {KIT_ROOT, "\"mediaType\":\"" TSR_MEDIA_INDEX "\",\"digest",
     "\"mediaType\":\"\\u001b[2J\",\"digest", TSR_CORRUPT, "got '?[2J'"},
    {KIT_ROOT, "sha256:", "sha512:", TSR_CORRUPT, "sha256: and 64 digits"},
    {KIT_ROOT, "sha256:", "sha256:0", TSR_CORRUPT, "sha256: and 64 digits"},
    {KIT_ROOT, "\"size\":", "\"size\":5000", TSR_CORRUPT, "at most 4194304"},
    {KIT_ROOT, "\"size\":", "\"size\":9", TSR_CORRUPT, "size of a blob"},
    {KIT_ROOT, "\"size\":", "\"size\":-", TSR_CORRUPT, "index.json"},
    {KIT_ROOT, "\"size\":", "\"size\":0.", TSR_CORRUPT, "index.json"},
    {KIT_ROOT, "}]}", "}]}x", TSR_CORRUPT, "index.json"},
    {KIT_ROOT, "latest", "\\u0000", TSR_CORRUPT, "index.json"},
    {KIT_ROOT, "latest", "\xff", TSR_CORRUPT, "index.json"},
    {KIT_ROOT, "\"latest\"", DEEP, TSR_CORRUPT, "index.json"},
    {KIT_ROOT, "latest", "other", TSR_OK, NULL},
    /* the index */
    {KIT_INDEX, "\"1.0\"", "\"1.7\"", TSR_OK, NULL},
    {KIT_INDEX, "\"1.0\"", "\"2.0\"", TSR_VERSION, "needs tessera-run >= 0.1.0: format"},
    {KIT_INDEX, "\"1.0\",\"dev.tessera.needs\":\"0.1.0\"", "\"10.2\",\"dev.tessera.needs\":\"3.1\"",
     TSR_VERSION, "needs tessera-run >= 3.1: format"},
    {KIT_INDEX, "\"1.0\",\"dev.tessera.needs\":\"0.1.0\"",
     "\"2.0\",\"dev.tessera.needs\":\"\\u0007\"", TSR_VERSION, "(not named)"},
    {KIT_INDEX, "\"1.0\"", "\"1\"", TSR_CORRUPT, "'<major>.<minor>', got '1'"},
    {KIT_INDEX, "\"1.0\"", "\"1.x\"", TSR_CORRUPT, "'<major>.<minor>'"},
    {KIT_INDEX, "\"1.0\"", "1", TSR_CORRUPT, TSR_KEY_FORMAT},
    {KIT_INDEX, "dev.tessera.format", "x", TSR_CORRUPT, "got 'nothing'"},
    {KIT_INDEX, "dev.tessera.target", "x", TSR_CORRUPT, "targets"},
    {KIT_INDEX, "cpu:x86-64-v3", "cpu:../x", TSR_CORRUPT, "'<family>:<architecture>'"},
    {KIT_INDEX, "cpu:x86-64-v3", "cpu:x86-64-v4", TSR_CORRUPT, "'cpu:x86-64-v4' as in the index"},
    {KIT_INDEX, "cpu:x86-64-v3", "CPU:x86-64-v3", TSR_CORRUPT, "'<family>:<architecture>'"},
    {KIT_INDEX, TSR_MEDIA_MANIFEST, "application/x", TSR_CORRUPT, "got 'application/x'"},
    {KIT_INDEX, "\"manifests\":[{", "\"manifests\":{\"a\":{", TSR_CORRUPT, "index"},
    {KIT_INDEX, NULL,
     "{\"schemaVersion\":2,\"manifests\":[],\"annotations\":{\"" TSR_KEY_FORMAT "\":\"1.0\"}}",
     TSR_CORRUPT, "1 to 64, got 0"},
    {KIT_INDEX, NULL,
     "{\"schemaVersion\":2,\"manifests\":[0" TIMES_4(TIMES_4(TIMES_4(",0"))) "]," ANNOTATED,
     TSR_CORRUPT, "1 to 64, got 65"},
    {KIT_INDEX, "\"platform\":", "\"future\":[1,2],\"platform\":", TSR_OK, NULL},
    /* the manifest */
    {KIT_MANIFEST, "\"1.0\"", "\"2.0\"", TSR_VERSION, "needs tessera-run >= 0.1.0"},
    {KIT_MANIFEST, "bundle.v1\"", "bundle.v2\"", TSR_VERSION, "got 'v2'"},
    {KIT_MANIFEST, "bundle.v1\"", "other.v1\"", TSR_CORRUPT, "other.v1"},
    {KIT_MANIFEST, "config.v1+json", "config.v9+json", TSR_VERSION, "got 'v9+json'"},
    {KIT_MANIFEST, "cpu:x86-64-v3", "cpu:x86-64-v2", TSR_CORRUPT,
     "as in the index, got 'cpu:x86-64-v2'"},
    {KIT_MANIFEST, TSR_MEDIA_WEIGHTS, "application/x-new", TSR_OK, NULL},
    {KIT_MANIFEST, "\"" TSR_MEDIA_WEIGHTS "\"", UNKNOWN ",\"future\":{}", TSR_OK, NULL},
    {KIT_MANIFEST, TSR_KEY_FILEPATH "\":\"w.safetensors\"", TSR_KEY_REQUIRED "\":\"true\"", TSR_OK,
     NULL},
    {KIT_MANIFEST, TSR_MEDIA_CHUNKS, "application/x-new", TSR_CORRUPT,
     "one, as layer 2; layer 2 is 'application/x-new'"},
    {KIT_MANIFEST, TSR_MEDIA_WEIGHTS, TSR_MEDIA_CHUNKS, TSR_CORRUPT,
     "one, as layer 2; layer 1 is '" TSR_MEDIA_CHUNKS "'"},
    {KIT_MANIFEST, "image.title\":\"w", "image.title\":\"../w", TSR_CORRUPT,
     "got '../w.safetensors'"},
    {KIT_MANIFEST, "image.title\":\"w", "image.title\":\"a/w", TSR_CORRUPT,
     "got 'a/w.safetensors'"},
    {KIT_MANIFEST, "image.title\":\"w", "image.title\":\"" TIMES_4(TIMES_4(TIMES_4("long"))),
     TSR_CORRUPT, "letters, digits and _.+-, got 'longlong"},
    {KIT_MANIFEST, "\"" TSR_MEDIA_WEIGHTS "\"", "\"" TIMES_4(TIMES_4("long/mime")) "\"",
     TSR_CORRUPT, "letters, digits and /._+-, got 'long/mime"},
    {KIT_MANIFEST, "image.title\":\"w", "image.title\":\".w", TSR_CORRUPT, "got '.w.safetensors'"},
    {KIT_MANIFEST, "image.title\":\"w", "image.title\":\"/etc/w", TSR_CORRUPT, "/etc/w"},
    {KIT_MANIFEST, "\"size\":40,", "\"size\":41,", TSR_CORRUPT, "size of a blob"},
    {KIT_MANIFEST, "\"size\":40,", "\"size\":0,", TSR_CORRUPT, "size of a descriptor"},
    {KIT_MANIFEST, "\"size\":40,", "\"size\":4294967297,", TSR_CORRUPT, "1 to 4294967296"},
    {KIT_MANIFEST, "\"size\":40,", "\"size\":9007199254740993,", TSR_CORRUPT, "manifest"},
    {KIT_MANIFEST, "\"size\":40,", "\"size\":\"40\",", TSR_CORRUPT, "size"},
    {KIT_MANIFEST, "\"size\":64}", "\"size\":96}", TSR_CORRUPT, "size of the chunk table"},
    {KIT_MANIFEST, "\"size\":40,\"", "\"size\":40,\"x\":1,\"", TSR_OK, NULL},
    {KIT_MANIFEST, "\"layers\":[", "\"layers\":[],\"x\":[", TSR_CORRUPT, "1 to 1000, got 0"},
    {KIT_MANIFEST, "\"layers\":[", "\"layers\":[0" TIMES_10(TIMES_10(TIMES_10(",0"))) "],\"x\":[",
     TSR_CORRUPT, "1 to 1000, got 1001"},
    {KIT_MANIFEST, TSR_KEY_PLAIN_SIZE "\":\"10\"", TSR_KEY_PLAIN_SIZE "\":\"11\"", TSR_CORRUPT,
     "the content size of the annotation"},
    {KIT_MANIFEST, TSR_KEY_PLAIN_SIZE "\":\"10\"", TSR_KEY_PLAIN_SIZE "\":\"-1\"", TSR_CORRUPT,
     "decimal digits"},
    {KIT_MANIFEST, TSR_KEY_PLAIN_SIZE "\":\"10\"", TSR_KEY_PLAIN_SIZE "\":\"10x\"", TSR_CORRUPT,
     "decimal digits"},
    {KIT_MANIFEST, TSR_KEY_PLAIN_SIZE "\":\"10\"", TSR_KEY_PLAIN_SIZE "\":\"010\"", TSR_CORRUPT,
     "decimal digits"},
    {KIT_MANIFEST, TSR_KEY_PLAIN_SIZE "\":\"10\"", TSR_KEY_PLAIN_SIZE "\":\"1000000000000\"",
     TSR_CORRUPT, "decimal digits"},
    {KIT_MANIFEST, TSR_KEY_PLAIN_SIZE "\":\"10\"", TSR_KEY_PLAIN_SIZE "\":\"268435457\"",
     TSR_CORRUPT, "at most 268435456"},
    {KIT_MANIFEST, TSR_KEY_PLAIN_SIZE "\":\"10\"", TSR_KEY_PLAIN_SIZE "\":10", TSR_CORRUPT,
     TSR_KEY_PLAIN_SIZE},
    {KIT_MANIFEST, TSR_KEY_PLAIN_SIZE, "x", TSR_CORRUPT, "got 'nothing'"},
    {KIT_MANIFEST, TSR_KEY_PLAIN_DIGEST "\":\"sha256:", TSR_KEY_PLAIN_DIGEST "\":\"md5:",
     TSR_CORRUPT, "sha256: and 64 digits"},
    {KIT_MANIFEST, "}}", "}", TSR_CORRUPT, "manifest"},
    {KIT_MANIFEST, NULL, "null", TSR_CORRUPT, "an object"},
};

Test(hostile, json) {
    for (size_t i = 0; i < TSR_COUNT(edits); i++) {
        kit k;
        kit_init(&k);
        k.edit = edits[i].text;
        k.find = edits[i].find;
        k.replace = edits[i].replace;
        expect(&k, edits[i].code, edits[i].message);
        kit_finish(&k);
    }
}

/* A layer type that a newer version marks as required. */
Test(hostile, required_layer) {
    kit k;
    kit_init(&k);
    k.layers[1].media_type = "application/x-new";
    k.edit = KIT_MANIFEST;
    k.find = TSR_KEY_TITLE "\":\"w.safetensors";
    k.replace = TSR_KEY_REQUIRED "\":\"true";
    expect(&k, TSR_VERSION, "needs a newer tessera-run");
    kit_finish(&k);
}

Test(hostile, json_bombs) {
    enum { SIZE = 3 << 20 };
    static const struct {
        const char *piece, *end;
    } bombs[] = {{"[", ""}, {"{\"a\":", ""}, {"[0,", ""}, {"\"a\",", ""}, {" ", ""}};
    char *text = malloc(SIZE + 8);
    for (size_t i = 0; i < TSR_COUNT(bombs); i++) {
        kit k;
        kit_init(&k);
        size_t piece = strlen(bombs[i].piece), size = 0;
        memcpy(text, "{\"a\":[", 6);
        for (size = 6; size + piece <= SIZE; size += piece)
            memcpy(text + size, bombs[i].piece, piece);
        text[size] = 0;
        k.edit = KIT_MANIFEST;
        k.replace = text;
        expect(&k, TSR_CORRUPT, "manifest");
        kit_finish(&k);
    }
    free(text);
}

/* ---- zstd ---- */

static kit_layer compress_with(kit *k, const void *plain, size_t size, int checksum,
                               int content_size) {
    kit_layer layer = kit_compress(k, plain, size);
    size_t bound = ZSTD_compressBound(size);
    void *bytes = tsr_arena_alloc(&k->arena, bound, 1, 1);
    ZSTD_CCtx *zstd = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(zstd, ZSTD_c_checksumFlag, checksum);
    ZSTD_CCtx_setParameter(zstd, ZSTD_c_contentSizeFlag, content_size);
    layer.size_bytes = ZSTD_compress2(zstd, bytes, bound, plain, size);
    layer.bytes = bytes;
    ZSTD_freeCCtx(zstd);
    return layer;
}

static void expect_frame(kit *k, kit_layer layer, const char *message) {
    k->layers[0] = layer;
    expect(k, TSR_CORRUPT, message);
    kit_finish(k);
}

/* Returns the expected message for a changed bit; the last four bytes are zstd's checksum. */
static const char *frame_message(size_t at, size_t size) {
    if (at < 4) return "a zstd frame";
    if (at == 4) return "no reserved bit";
    return at >= size - 4 ? "plain bytes, got" : "compressed blob";
}

Test(hostile, zstd_frames) {
    static const char plain[] = "some text, some text, some text";
    const size_t size = sizeof plain;
    kit k;
    kit_init(&k);
    expect_frame(&k, compress_with(&k, plain, size, 0, 1), "a checksum");
    kit_init(&k);
    expect_frame(&k, compress_with(&k, plain, size, 1, 0), "the content size of the annotation");
    kit_init(&k);
    kit_layer good = kit_compress(&k, plain, size), bad = good;
    unsigned char *twice = tsr_arena_alloc(&k.arena, 2 * good.size_bytes, 1, 1);
    memcpy(twice, good.bytes, good.size_bytes);
    memcpy(twice + good.size_bytes, good.bytes, good.size_bytes);
    bad.bytes = twice;
    bad.size_bytes = 2 * good.size_bytes;
    expect_frame(&k, bad, "exactly one frame");
    kit_init(&k);
    good = kit_compress(&k, plain, size);
    for (size_t cut = 1; cut < good.size_bytes; cut++) {
        kit c;
        kit_init(&c);
        bad = kit_compress(&c, plain, size);
        bad.size_bytes -= cut;
        expect_frame(&c, bad, bad.size_bytes < 9 ? "a zstd frame" : "exactly one frame");
    }
    for (size_t at = 0; at < good.size_bytes; at++) {
        kit c;
        kit_init(&c);
        bad = kit_compress(&c, plain, size);
        unsigned char *bytes = tsr_arena_memdup(&c.arena, bad.bytes, bad.size_bytes);
        bytes[at] ^= 0x10;
        bad.bytes = bytes;
        expect_frame(&c, bad, frame_message(at, good.size_bytes));
    }
    bad = good;
    bad.plain_digest.bytes[0] ^= 1;
    expect_frame(&k, bad, "digest of the plain bytes");
}

/* RFC 8878: descriptor 0x84 = 4-byte content size, checksum, no single segment; the window
 * follows. */
Test(hostile, zstd_window) {
    unsigned char frame[32] = {0x28, 0xb5, 0x2f, 0xfd, 0x84, (18 << 3) | 0, 0, 1, 0, 0, 1, 0, 0};
    kit k;
    kit_init(&k);
    expect_frame(&k, (kit_layer){TSR_MEDIA_IR, NULL, frame, sizeof frame, 256, {{0}}, NULL},
                 "a window of at most 128 MiB");
    frame[5] = (17 << 3) | 1;
    kit_init(&k);
    expect_frame(&k, (kit_layer){TSR_MEDIA_IR, NULL, frame, sizeof frame, 256, {{0}}, NULL},
                 "a window of at most 128 MiB");
    frame[4] = 0x85;
    kit_init(&k);
    expect_frame(&k, (kit_layer){TSR_MEDIA_IR, NULL, frame, sizeof frame, 256, {{0}}, NULL},
                 "no dictionary");
}

Test(hostile, zstd_bomb) {
    enum { SIZE = 64 << 20 };
    void *zeros = calloc(1, SIZE);
    kit k;
    kit_init(&k);
    kit_layer layer = kit_compress(&k, zeros, SIZE);
    cr_assert_lt(layer.size_bytes, 8192);
    expect_frame(&k, layer, "at most 1024 times the stored size");
    free(zeros);
}

/* The writer makes nothing that the reader refuses: text that compresses too well is written in
 * blocks, and can be read back. */
Test(hostile, writer_limits_the_ratio) {
    enum { SIZE = 32 << 20 };
    tsr_ctx ctx = {0};
    char *zeros = calloc(1, SIZE);
    void *plain = NULL;
    size_t plain_size = 0;
    tsr_arena arena = {0};
    tsr_bundle_blob blob = {TSR_MEDIA_IR, NULL, zeros, SIZE, NULL};
    tsr_bundle_target target = {"cpu:x86-64-v3", &blob, 1};
    tsr_bundle_spec spec = {.size_bytes = sizeof spec,
                            .config = "{}",
                            .config_size_bytes = 2,
                            .targets = &target,
                            .target_count = 1};
    tsr_bundle *bundle = NULL;
    cr_assert_eq(tsr_bundle_write(&ctx, sample_path("bomb.tsb"), &spec).code, TSR_OK, "%s",
                 ctx.error.text);
    cr_assert_eq(tsr_bundle_open(&ctx, sample_path("bomb.tsb"), NULL, &bundle).code, TSR_OK, "%s",
                 ctx.error.text);
    tsr_bundle_layer layer = tsr_bundle_get_layer(bundle, 0, 0);
    cr_assert_geq(layer.size_bytes, SIZE / 1024);
    cr_assert_leq(layer.size_bytes, SIZE / 256);
    cr_assert_eq(tsr_bundle_read_layer(&ctx, bundle, &layer, &arena, &plain, &plain_size).code,
                 TSR_OK, "%s", ctx.error.text);
    cr_assert_eq(plain_size, SIZE);
    cr_assert_arr_eq(plain, zeros, SIZE);
    tsr_bundle_close(&ctx, bundle);
    tsr_arena_finish(&arena);
    free(zeros);
}

/* ---- chunk tables ---- */

Test(hostile, chunk_table) {
    static const unsigned char wrong[64] = {1};
    kit k;
    kit_init(&k);
    k.table = wrong;
    k.table_size_bytes = sizeof wrong;
    expect(&k, TSR_CORRUPT, "digest of the chunk");
    kit_finish(&k);
    kit_init(&k);
    k.table = wrong;
    k.table_size_bytes = 32;
    expect(&k, TSR_CORRUPT, "size of the chunk table");
    kit_finish(&k);
}

/* A manifest without a target: its blobs must exist, but the reader ignores the rest. */
Test(hostile, foreign_manifest) {
    static const char foreign[] =
        "{\"schemaVersion\":2,\"config\":{\"mediaType\":\"application/x\",\"digest\":\"sha256:%s\","
        "\"size\":%d},\"layers\":[{\"mediaType\":\"application/"
        "x\",\"digest\":\"sha256:%s\",\"size\":%d}]}";
    static const char weights[40] = "weights";
    for (int size = 39; size <= 40; size++) {
        kit k;
        char hex[TSR_DIGEST_HEX + 1], manifest[600], entry[600], name[100];
        kit_init(&k);
        tsr_digest digest = tsr_hash(weights, sizeof weights);
        tsr_digest_format(&digest, hex);
        int length = snprintf(manifest, sizeof manifest, foreign, hex, 40, hex, size);
        digest = tsr_hash(manifest, (size_t)length);
        tsr_digest_format(&digest, hex);
        snprintf(name, sizeof name, TSR_BLOB_FOLDER "%s", hex);
        snprintf(entry, sizeof entry,
                 "}},{\"mediaType\":\"" TSR_MEDIA_MANIFEST
                 "\",\"digest\":\"sha256:%s\",\"size\":%d}]",
                 hex, length);
        k.edit = KIT_INDEX;
        k.find = "}}]";
        k.replace = entry;
        k.files[k.file_count++] = (ram_file){name, manifest, (size_t)length};
        expect(&k, size == 40 ? TSR_OK : TSR_CORRUPT, "size of a blob");
        kit_finish(&k);
    }
}

/* Two targets; the test chooses the second one. */
static void expect_two(kit *second, tsr_code code, const char *text) {
    kit first;
    kit_init(&first);
    kit_link(second);
    kit_name(&first, second);
    kit_link(&first);
    kit_merge(&first, second);
    expect_linked(&first, code, text);
    kit_finish(&first);
    kit_finish(second);
}

Test(hostile, two_targets) {
    static const unsigned char wrong[64] = {1};
    kit k;
    kit_init(&k);
    k.target = "cpu:x86-64-v2";
    expect_two(&k, TSR_OK, NULL);
    kit_init(&k);
    expect_two(&k, TSR_CORRUPT, "different names, got 'cpu:x86-64-v3' twice");
    kit_init(&k);
    k.target = "cpu:x86-64-v2";
    k.config = "{}";
    expect_two(&k, TSR_CORRUPT, "as in 'cpu:x86-64-v3'");
    kit_init(&k);
    k.target = "cpu:x86-64-v2";
    k.table = wrong;
    k.table_size_bytes = sizeof wrong;
    expect_two(&k, TSR_CORRUPT, "chunk tables");
}

/* Layers of 512 GiB in all would need a chunk table of more than 4 MiB. */
Test(hostile, large_chunk_table) {
    enum { LAYERS = 513 };
    static const char layer[] =
        "{\"mediaType\":\"application/x\",\"size\":4294967296,\"digest\":"
        "\"sha256:0000000000000000000000000000000000000000000000000000000000000000\"},";
    tsr_buffer layers = {0};
    tsr_buffer_text(&layers, "\"layers\":[");
    for (int i = 0; i < LAYERS; i++) tsr_buffer_text(&layers, layer);
    tsr_buffer_printf(&layers, "{\"mediaType\":\"" TSR_MEDIA_CHUNKS "\",\"size\":%d,%s",
                      LAYERS << 15, strstr(layer, "\"digest"));
    layers.bytes[layers.size_bytes - 1] = ']';
    tsr_buffer_text(&layers, ",\"x\":[");
    kit k;
    kit_init(&k);
    k.edit = KIT_MANIFEST;
    k.find = "\"layers\":[";
    k.replace = layers.bytes;
    expect(&k, TSR_CORRUPT, "16809984, at most 16777216, got 16809984");
    kit_finish(&k);
    tsr_buffer_finish(&layers);
}

Test(hostile, large_root) {
    enum { SIZE = (4 << 20) + 1 };
    char *text = malloc(SIZE + 1);
    memset(text, ' ', SIZE);
    text[SIZE] = 0;
    kit k;
    kit_init(&k);
    k.edit = KIT_ROOT;
    k.replace = text;
    expect(&k, TSR_CORRUPT, "size of the member");
    kit_finish(&k);
    free(text);
}

Test(hostile, too_many_files) {
    enum { COUNT = 65537, NAME = sizeof TSR_BLOB_FOLDER + TSR_DIGEST_HEX };
    kit k;
    kit_init(&k);
    kit_link(&k);
    ram_file *files = calloc(COUNT + k.file_count, sizeof *files);
    char *names = calloc(COUNT, NAME);
    memcpy(files, k.files, k.file_count * sizeof *files);
    for (size_t i = 0; i < COUNT; i++) {
        char *name = names + i * NAME;
        snprintf(name, NAME, TSR_BLOB_FOLDER "%064zx", i);
        files[k.file_count + i] = (ram_file){name, "", 0};
    }
    k.ram.files = files;
    k.ram.file_count = COUNT;
    expect_linked(&k, TSR_OK, NULL);
    k.ram.file_count = COUNT + k.file_count;
    expect_linked(&k, TSR_CORRUPT, "at most 65536");
    free(names);
    free(files);
    kit_finish(&k);
}

/* Each file of a layout is missing in turn. */
Test(hostile, missing_files) {
    kit k;
    kit_init(&k);
    kit_link(&k);
    cr_assert_eq(k.file_count, 8);
    char hex[TSR_DIGEST_HEX + 1];
    tsr_digest_format(&k.manifest.digest, hex);
    for (size_t i = 0; i < k.file_count; i++) {
        const char *name = k.files[i].name, *last = strrchr(name, '/');
        bool manifest = last && memcmp(last + 1, hex, sizeof hex - 1) == 0;
        k.files[i].name = "elsewhere";
        expect_linked(&k, last ? TSR_CORRUPT : TSR_IO,
                      manifest ? "expected one of a target, got none"
                      : last   ? "got no such blob"
                               : "cannot open");
        k.files[i].name = name;
    }
    cr_assert_eq(read_all(&k).code, TSR_OK);
    kit_finish(&k);
}
