/* SPDX-License-Identifier: Apache-2.0
 *
 * A bundle returns the bytes that the writer was given, and the file is as FORMAT.md says, as read
 * by libarchive.
 */
#include "bundle/layout.h"
#include "runtime/base/array.h"
#include "tests/bundle/sample.h"

#include <archive.h>
#include <archive_entry.h>
#include <criterion/criterion.h>
#include <inttypes.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

static const tsr_bundle_open_options strict = {.size_bytes = sizeof strict, .strict = true};

static tsr_bundle *open_sample(tsr_ctx *ctx, sample_size size, const char *path) {
    tsr_bundle *bundle = NULL;
    sample_must(ctx, sample_write(ctx, path, size, false));
    sample_must(ctx, tsr_bundle_open(ctx, path, &strict, &bundle));
    return bundle;
}

static void check_layers(tsr_ctx *ctx, tsr_bundle *bundle, sample_size size, size_t target) {
    const char *name = tsr_bundle_get_target_name(bundle, target);
    size_t count = sample_layer_count(size, name);
    cr_assert_eq(tsr_bundle_get_layer_count(bundle, target), count + 1);
    for (size_t i = 0; i < count; i++) {
        tsr_bundle_layer layer = tsr_bundle_get_layer(bundle, target, i);
        const tsr_bundle_blob *expected = sample_layer(size, name, i);
        tsr_arena arena = {0};
        void *bytes;
        size_t bytes_size;
        sample_must(ctx, tsr_bundle_read_layer(ctx, bundle, &layer, &arena, &bytes, &bytes_size));
        cr_assert_str_eq(layer.media_type, expected->media_type);
        cr_assert_eq(!layer.title, !expected->title);
        if (layer.title) cr_assert_str_eq(layer.title, expected->title);
        cr_assert_eq(bytes_size, expected->size_bytes);
        cr_assert_arr_eq(bytes, expected->bytes, bytes_size);
        tsr_arena_finish(&arena);
    }
    tsr_bundle_layer table = tsr_bundle_get_layer(bundle, target, count);
    cr_assert_str_eq(table.media_type, TSR_MEDIA_CHUNKS);
}

static void check_round_trip(sample_size size, const char *name, size_t target_count) {
    tsr_ctx ctx = {0};
    char *path = sample_path(name);
    tsr_bundle *bundle = open_sample(&ctx, size, path);
    struct stat info;
    cr_assert_eq(stat(path, &info), 0);
    cr_assert_eq(tsr_bundle_get_file_size(bundle), (uint64_t)info.st_size);
    cr_assert_str_eq(tsr_bundle_get_path(bundle), path);
    cr_assert_eq(tsr_bundle_get_target_count(bundle), target_count);
    for (size_t t = 0; t < target_count; t++) {
        const char *json;
        size_t json_size;
        tsr_bundle_get_config(bundle, t, &json, &json_size);
        cr_assert_str_eq(json, "{\"formatVersion\":\"1.0\",\"name\":\"sample\"}");
        cr_assert_eq(json_size, strlen(json));
        check_layers(&ctx, bundle, size, t);
    }
    tsr_bundle_close(&ctx, bundle);
}

Test(round_trip, tiny) { check_round_trip(SAMPLE_TINY, "tiny.tsb", 1); }
Test(round_trip, small) { check_round_trip(SAMPLE_SMALL, "small.tsb", 3); }
Test(round_trip, large) { check_round_trip(SAMPLE_LARGE, "large.tsb", 3); }

Test(round_trip, target_order) {
    tsr_ctx ctx = {0};
    tsr_bundle *bundle = open_sample(&ctx, SAMPLE_SMALL, sample_path("order.tsb"));
    cr_assert_str_eq(tsr_bundle_get_target_name(bundle, 0), "cuda:sm_90a");
    cr_assert_str_eq(tsr_bundle_get_target_name(bundle, 1), "cpu:x86-64-v4");
    cr_assert_str_eq(tsr_bundle_get_target_name(bundle, 2), "cpu:x86-64-v2");
    tsr_bundle_layer layer;
    cr_assert(tsr_bundle_find_layer(bundle, 1, TSR_MEDIA_WEIGHTS, &layer));
    cr_assert_str_eq(layer.title, "a.safetensors");
    cr_assert_not(tsr_bundle_find_layer(bundle, 1, TSR_MEDIA_SBOM, &layer));
    tsr_bundle_close(&ctx, bundle);
}

Test(round_trip, ranges) {
    static const size_t chunk = TSR_HASH_CHUNK_BYTES;
    const size_t ranges[][2] = {
        {0, 1},       {chunk - 1, 2}, {chunk, 1048616}, {chunk / 2, 3000000}, {5242919, 1},
        {0, 5242920}, {5242920, 0},   {3, 5242000},     {1, chunk - 1}};
    tsr_ctx ctx = {0};
    tsr_bundle *bundle = open_sample(&ctx, SAMPLE_LARGE, sample_path("ranges.tsb"));
    tsr_bundle_layer layer = tsr_bundle_get_layer(bundle, 0, 3);
    const tsr_bundle_blob *expected = sample_layer(SAMPLE_LARGE, "cuda:sm_90a", 3);
    cr_assert_eq(layer.size_bytes, 5242920);
    char *bytes = malloc(5242920);
    for (size_t i = 0; i < TSR_COUNT(ranges); i++) {
        sample_must(&ctx,
                    tsr_bundle_read_range(&ctx, bundle, &layer, ranges[i][0], bytes, ranges[i][1]));
        cr_assert_eq(memcmp(bytes, (const char *)expected->bytes + ranges[i][0], ranges[i][1]), 0,
                     "range %zu", i);
    }
    cr_assert_eq(tsr_bundle_read_range(&ctx, bundle, &layer, 5242919, bytes, 2).code, TSR_USAGE);
    cr_assert_eq(tsr_bundle_read_range(&ctx, bundle, &layer, UINT64_MAX, bytes, 2).code, TSR_USAGE);
    free(bytes);
    tsr_bundle_close(&ctx, bundle);
}

/* The directory, the time, the locale and the order of the targets do not affect the bytes. */
Test(round_trip, two_writes_are_equal) {
    tsr_ctx ctx = {0};
    size_t first_size, second_size;
    sample_must(&ctx, sample_write(&ctx, sample_path("one.tsb"), SAMPLE_SMALL, false));
    setlocale(LC_ALL, "C.UTF-8");
    cr_assert_eq(chdir("/"), 0);
    sleep(1);
    mkdir(sample_path("sub"), 0700);
    sample_must(&ctx, sample_write(&ctx, sample_path("sub/two.tsb"), SAMPLE_SMALL, true));
    char *first = sample_load(sample_path("one.tsb"), &first_size);
    char *second = sample_load(sample_path("sub/two.tsb"), &second_size);
    cr_assert_eq(first_size, second_size);
    cr_assert_arr_eq(first, second, first_size);
    free(first);
    free(second);
}

/* libarchive is the independent reader for names, sizes, order, metadata, alignment and bytes. */
Test(round_trip, libarchive_reads_every_member) {
    tsr_ctx ctx = {0};
    char *path = sample_path("archive.tsb");
    sample_must(&ctx, sample_write(&ctx, path, SAMPLE_SMALL, false));
    struct archive *archive = archive_read_new();
    struct archive_entry *entry;
    unsigned count = 0, aligned = 0;
    archive_read_support_format_tar(archive);
    cr_assert_eq(archive_read_open_filename(archive, path, 65536), ARCHIVE_OK);
    for (; archive_read_next_header(archive, &entry) == ARCHIVE_OK; count++) {
        const char *name = archive_entry_pathname(entry);
        size_t size = (size_t)archive_entry_size(entry);
        int64_t offset = archive_filter_bytes(archive, 0);
        char *bytes = malloc(size);
        cr_assert_eq(archive_read_data(archive, bytes, size), (ssize_t)size);
        cr_assert_eq(archive_entry_filetype(entry), AE_IFREG);
        cr_assert_eq(archive_entry_perm(entry), 0644);
        cr_assert_eq(archive_entry_mtime(entry), 0);
        cr_assert_eq(archive_entry_uid(entry) + archive_entry_gid(entry), 0);
        if (count == 0) cr_assert_str_eq(name, "oci-layout");
        if (count == 1) cr_assert_str_eq(name, "index.json");
        if (count > 1) {
            char hex[TSR_DIGEST_HEX + 1];
            tsr_digest digest = tsr_hash(bytes, size);
            tsr_digest_format(&digest, hex);
            cr_assert_eq(strncmp(name, TSR_BLOB_FOLDER, sizeof TSR_BLOB_FOLDER - 1), 0);
            cr_assert_str_eq(name + sizeof TSR_BLOB_FOLDER - 1, hex);
        }
        if (size >= 65536) cr_assert_eq(offset % 65536, 0, "member %u at %" PRId64, count, offset);
        aligned += size >= 65536;
        free(bytes);
    }
    cr_assert_eq(archive_errno(archive), 0, "%s", archive_error_string(archive));
    /* 2 fixed, index, 3 manifests, config, 3 tables, ir, c, 2 programs, 3 elf, state, a, b */
    cr_assert_eq(count, 20);
    cr_assert_eq(aligned, 5);
    archive_read_free(archive);
}

Test(round_trip, verify_counts_every_blob) {
    tsr_ctx ctx = {0};
    tsr_bundle *bundle = open_sample(&ctx, SAMPLE_LARGE, sample_path("verify.tsb"));
    for (unsigned threads = 0; threads < 4; threads++) {
        tsr_bundle_verify_report report = {0};
        sample_must(&ctx, tsr_bundle_verify(&ctx, bundle, threads, &report));
        cr_assert_eq(report.blob_count, 18);
        cr_assert_gt(report.verified_bytes, UINT64_C(12000000));
        cr_assert_gt(report.seconds, 0);
    }
    tsr_bundle_close(&ctx, bundle);
}

/* The bundle that the first release of the format wrote can be read forever, and the zstd that
 * wrote it writes it again as the same bytes. */
Test(round_trip, format_1_0) {
    static const char root[] = "5ec3ced430bfafa31e1c9a4f90d15756f785c6a86ae21fce8d6b144dc16174c0";
    tsr_ctx ctx = {0};
    tsr_bundle *bundle = NULL;
    char hex[TSR_DIGEST_HEX + 1];
    size_t size, again_size;
    sample_must(&ctx,
                tsr_bundle_open(&ctx, TESTS_FOLDER "/../golden/format-1.0.tsb", &strict, &bundle));
    tsr_digest digest = tsr_bundle_get_digest(bundle);
    tsr_digest_format(&digest, hex);
    cr_assert_str_eq(hex, root);
    check_layers(&ctx, bundle, SAMPLE_TINY, 0);
    tsr_bundle_close(&ctx, bundle);
    sample_must(&ctx, sample_write(&ctx, sample_path("again.tsb"), SAMPLE_TINY, false));
    char *bytes = sample_load(TESTS_FOLDER "/../golden/format-1.0.tsb", &size);
    char *again = sample_load(sample_path("again.tsb"), &again_size);
    if (ZSTD_versionNumber() == 10504) {
        cr_assert_eq(size, again_size);
        cr_assert_arr_eq(bytes, again, size);
    }
    free(bytes);
    free(again);
}
