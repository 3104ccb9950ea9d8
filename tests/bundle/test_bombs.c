/* SPDX-License-Identifier: Apache-2.0
 *
 * Large stated sizes, names that lead outside, files that are not regular files: each is refused
 * with its message before memory is allocated, or has no effect. ../bundle/checks.md lists all of
 * them.
 */
#include "bundle/bundle.h"
#include "runtime/base/array.h"
#include "tests/bundle/kit.h"
#include "tests/bundle/sample.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SPARE_BYTES = 64 << 20 };

/* Limits the memory that the process may allocate from here on to SPARE_BYTES. */
static void limit_memory(void) {
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    cr_assert(file && fscanf(file, "%lu", &pages) == 1);
    fclose(file);
    rlim_t limit = pages * (rlim_t)sysconf(_SC_PAGESIZE) + SPARE_BYTES;
    const struct rlimit space = {limit, limit};
    cr_assert_eq(setrlimit(RLIMIT_AS, &space), 0);
}

/* The sanitizers reserve address space of their own. */
#if defined(__SANITIZE_ADDRESS__)
static const bool limits_memory = false;
#else
static const bool limits_memory = true;
#endif

static void refuse_kit(kit *k, const char *text) {
    tsr_bundle *bundle = NULL;
    tsr_arena arena = {0};
    void *bytes = NULL;
    size_t size = 0;
    kit_link(k);
    if (limits_memory) limit_memory();
    tsr_result result = tsr_bundle_open(&k->ctx, "ram", NULL, &bundle);
    if (!result.code) {
        tsr_bundle_layer layer = tsr_bundle_get_layer(bundle, 0, 0);
        result = tsr_bundle_read_layer(&k->ctx, bundle, &layer, &arena, &bytes, &size);
    }
    cr_assert_eq(result.code, TSR_CORRUPT, "got %d: %s", result.code, k->ctx.error.text);
    cr_assert(strstr(k->ctx.error.text, text), "no '%s' in: %s", text, k->ctx.error.text);
    cr_assert_lt(arena.used_bytes, 1 << 20);
    tsr_bundle_close(&k->ctx, bundle);
    kit_finish(k);
}

/* 256 MiB of zeros in 8 KiB: blocks of four bytes that repeat one byte 131,072 times (RFC 8878,
 * section 3.1.1.2). */
Test(bombs, zstd_of_32500_to_1) {
    enum { BLOCK = 128 << 10, BLOCKS = (256 << 20) / BLOCK, HEAD = 10, END = 4 };
    static unsigned char frame[HEAD + 4 * BLOCKS + END] = {0x28, 0xb5, 0x2f, 0xfd, 0x84, 0x38};
    const uint32_t plain = 256u << 20;
    memcpy(frame + 6, &plain, sizeof plain);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        uint32_t header = BLOCK << 3 | 1 << 1 | (i == BLOCKS - 1);
        memcpy(frame + HEAD + 4 * i, &header, 3);
    }
    cr_assert_gt(plain / sizeof frame, 32500);
    kit k;
    kit_init(&k);
    k.layers[0] = (kit_layer){.media_type = TSR_MEDIA_IR,
                              .bytes = frame,
                              .size_bytes = sizeof frame,
                              .plain_size_bytes = plain};
    refuse_kit(&k, "at most 1024 times the stored size; 8206 bytes stored, 268435456 plain");
}

Test(bombs, plain_size_of_a_terabyte) {
    kit k;
    kit_init(&k);
    k.edit = KIT_MANIFEST;
    k.find = TSR_KEY_PLAIN_SIZE "\":\"10\"";
    k.replace = TSR_KEY_PLAIN_SIZE "\":\"999999999999\"";
    refuse_kit(&k, "at most 268435456, got 999999999999");
}

Test(bombs, manifest_of_a_gigabyte) {
    kit k;
    kit_init(&k);
    k.edit = KIT_INDEX;
    k.find = "\"size\":";
    k.replace = "\"size\":1073741824,\"was\":";
    refuse_kit(&k, "at most 4194304 for 'application/vnd.oci.image.manifest.v1+json', got "
                   "1073741824");
}

Test(bombs, index_json_of_a_gigabyte) {
    kit k;
    kit_init(&k);
    kit_link(&k);
    for (size_t i = 0; i < k.file_count; i++)
        if (strcmp(k.files[i].name, "index.json") == 0) k.files[i].size_bytes = 1 << 30;
    tsr_bundle *bundle = NULL;
    if (limits_memory) limit_memory();
    cr_assert_eq(tsr_bundle_open(&k.ctx, "ram", NULL, &bundle).code, TSR_CORRUPT);
    cr_assert(strstr(k.ctx.error.text, "size of the member at offset 0 (entry index.json): "
                                       "expected at most 4194304, got 1073741824"),
              "%s", k.ctx.error.text);
    kit_finish(&k);
}

/* A single string of three megabytes in a document is ordinary text. One byte more than the limit
 * of metadata is not read (manifest_of_a_gigabyte). */
Test(bombs, long_string) {
    enum { SIZE = 3 << 20 };
    char *text = malloc(SIZE + 64);
    int length = sprintf(text, "{\"schemaVersion\":2,\"mediaType\":\"");
    memset(text + length, 'a', SIZE);
    strcpy(text + length + SIZE, "\"}");
    kit k;
    kit_init(&k);
    k.edit = KIT_MANIFEST;
    k.replace = text;
    refuse_kit(&k, "annotation dev.tessera.format at offset 0");
    free(text);
}

/* The message about such a string is truncated. */
Test(bombs, long_string_in_a_message) {
    enum { SIZE = 3 << 20 };
    char *text = malloc(SIZE + 64);
    int length = sprintf(text, "{\"annotations\":{\"" TSR_KEY_FORMAT "\":\"");
    memset(text + length, 'b', SIZE);
    strcpy(text + length + SIZE, "\"}}");
    kit k;
    kit_init(&k);
    k.edit = KIT_MANIFEST;
    k.replace = text;
    refuse_kit(&k, "expected '<major>.<minor>', got 'bbbbbbbb");
    cr_assert_lt(strlen(k.ctx.error.text), 512);
    free(text);
}

/* ---- names and kinds of files ---- */

static const char *const elsewhere[] = {"../../escaped",
                                        "/tmp/escaped",
                                        "blobs/sha256/../../../escaped",
                                        "..",
                                        "blobs/../index.json",
                                        "index.json/",
                                        "INDEX.JSON",
                                        "blobs/sha256/ABCDEF",
                                        "con\x01trol"};

/* In normal mode such members are ignored, no file is written under their names, and repacking
 * gives the canonical bundle; strict mode refuses them. */
Test(bombs, names_that_lead_elsewhere) {
    static const tsr_bundle_open_options strict = {.size_bytes = sizeof strict, .strict = true};
    char good_path[300], path[300], out[300];
    size_t size, again_size;
    snprintf(good_path, sizeof good_path, "%s", sample_path("good.tsb"));
    snprintf(path, sizeof path, "%s", sample_path("names.tsb"));
    snprintf(out, sizeof out, "%s", sample_path("out.tsb"));
    tsr_ctx ctx = {0};
    sample_must(&ctx, sample_write(&ctx, good_path, SAMPLE_TINY, false));
    unsigned char *good = sample_load(good_path, &size);
    unsigned char *bytes = calloc(1, size + 1024);
    for (size_t i = 0; i < TSR_COUNT(elsewhere); i++) {
        tsr_bundle *bundle = NULL;
        tsr_tar_format_header(bytes, elsewhere[i], '0', 5);
        memset(bytes + 512, 'x', 5);
        memcpy(bytes + 1024, good, size);
        sample_store(path, bytes, size + 1024);
        sample_must(&ctx, tsr_bundle_repack(&ctx, path, out));
        unsigned char *again = sample_load(out, &again_size);
        cr_assert(again_size == size && memcmp(again, good, size) == 0, "%s", elsewhere[i]);
        free(again);
        cr_assert_neq(access("/tmp/escaped", F_OK), 0);
        cr_assert_neq(access(sample_path("../escaped"), F_OK), 0);
        cr_assert_eq(tsr_bundle_open(&ctx, path, &strict, &bundle).code, TSR_CORRUPT);
        cr_assert(strstr(ctx.error.text, "strict mode: "), "%s", ctx.error.text);
        tsr_error_clear(&ctx);
    }
    free(good);
    free(bytes);
}

/* A bundle, or a blob of an unpacked bundle, must be a regular file. */
Test(bombs, devices_pipes_and_links) {
    tsr_ctx ctx = {0};
    tsr_bundle *bundle = NULL;
    char folder[300], path[400];
    static const char *const devices[] = {"/dev/zero", "/dev/null", "/dev/tty"};
    for (size_t i = 0; i < TSR_COUNT(devices); i++)
        cr_assert_eq(tsr_bundle_open(&ctx, devices[i], NULL, &bundle).code, TSR_IO, "%s",
                     devices[i]);
    snprintf(folder, sizeof folder, "%s", sample_path("pipe.tsb"));
    cr_assert_eq(mkfifo(folder, 0600), 0);
    cr_assert_eq(tsr_bundle_open(&ctx, folder, NULL, &bundle).code, TSR_IO);
    cr_assert(strstr(ctx.error.text, "expected a file or a directory, got something else"), "%s",
              ctx.error.text);
    snprintf(folder, sizeof folder, "%s", sample_path("dir"));
    cr_assert_eq(mkdir(folder, 0700), 0);
    snprintf(path, sizeof path, "%s/oci-layout", folder);
    cr_assert_eq(mkfifo(path, 0600), 0);
    cr_assert_eq(tsr_bundle_open(&ctx, folder, NULL, &bundle).code, TSR_CORRUPT);
    cr_assert(strstr(ctx.error.text, "'oci-layout' is not a regular file"), "%s", ctx.error.text);
    cr_assert_eq(unlink(path) | symlink("/etc/passwd", path), 0);
    cr_assert_eq(tsr_bundle_open(&ctx, folder, NULL, &bundle).code, TSR_IO);
    cr_assert(strstr(ctx.error.text, "cannot open 'oci-layout'"), "%s", ctx.error.text);
}
