/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that are written row by row have the same bytes as those of the writers of whole tensors;
 * libarchive reads the archives.
 */
#include "runtime/base/array.h"
#include "runtime/data/array_file.h"
#include "runtime/data/array_writer.h"
#include "tests/data/files.h"

#include <archive.h>
#include <archive_entry.h>
#include <criterion/criterion.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static files dir;
static void setup(void) { files_init(&dir); }
static void teardown(void) { files_finish(&dir); }
TestSuite(array_writer, .init = setup, .fini = teardown);

enum { ROWS = 1000, ARRAYS = 4 };
static float scores[ROWS][10];
static int64_t classes[ROWS];
static uint8_t none[1], flag[1] = {1};

static tsr_tensor arrays[ARRAYS] = {
    {"flag", TSR_DTYPE_I1, {0, {0}}, flag},
    {"größe/y", TSR_DTYPE_F32, {2, {ROWS, 10}}, scores},
    {"none", TSR_DTYPE_UI8, {3, {0, 7, 2}}, none},
    {"classes", TSR_DTYPE_I64, {1, {ROWS}}, classes},
};

static size_t size_of(const tsr_tensor *tensor) {
    uint64_t size = 0;
    cr_assert(tsr_shape_size(&tensor->shape, tensor->dtype, &size));
    return (size_t)size;
}

static void fill(void) {
    for (size_t i = 0; i < ROWS; i++) {
        classes[i] = (int64_t)(i * i) - 7;
        for (size_t j = 0; j < 10; j++) scores[i][j] = (float)i / (float)(j + 1);
    }
}

/* Writes parts of different lengths, taking turns between the arrays. */
static tsr_result write_parts(tsr_ctx *ctx, const char *path, const tsr_tensor *tensors,
                              size_t count) {
    size_t done[ARRAYS] = {0}, left = 0;
    tsr_array_writer *writer = NULL;
    tsr_result result = TSR_SUCCESS;
    for (size_t i = 0; i < count; i++) left += size_of(&tensors[i]);
    TRY_GOTO(ctx, result, tsr_array_writer_create(ctx, path, tensors, count, &writer));
    for (size_t turn = 0; left; turn++) {
        size_t i = turn % count, part = 1 + turn * 37 % 1500, rest = size_of(&tensors[i]) - done[i];
        if (part > rest) part = rest;
        TRY_GOTO(
            ctx, result,
            tsr_array_writer_append(ctx, writer, i, (const char *)tensors[i].data + done[i], part));
        done[i] += part;
        left -= part;
    }
    TRY_GOTO(ctx, result, tsr_array_writer_commit(ctx, writer));
done:
    tsr_array_writer_destroy(ctx, writer);
    return result;
}

static void expect_equal_files(const char *a, const char *b) {
    unsigned char *left = NULL, *right = NULL;
    size_t left_size = 0, right_size = 0;
    files_read(&dir, a, &left, &left_size);
    files_read(&dir, b, &right, &right_size);
    cr_assert(left_size == right_size && memcmp(left, right, left_size) == 0, "%s, %s", a, b);
    free(left);
    free(right);
}

Test(array_writer, the_bytes_of_whole_tensors) {
    tsr_ctx ctx = {0};
    fill();
    for (size_t i = 0; i < ARRAYS; i++) {
        expect_success(&ctx, write_parts(&ctx, files_path(&dir, "parts.npy"), &arrays[i], 1));
        expect_success(&ctx, tsr_npy_write(&ctx, files_path(&dir, "whole.npy"), &arrays[i]));
        expect_equal_files("parts.npy", "whole.npy");
    }
    expect_success(&ctx, write_parts(&ctx, files_path(&dir, "p.safetensors"), arrays, ARRAYS));
    expect_success(
        &ctx, tsr_safetensors_write(&ctx, files_path(&dir, "w.safetensors"), arrays, ARRAYS, NULL));
    expect_equal_files("p.safetensors", "w.safetensors");
    expect_success(&ctx, write_parts(&ctx, files_path(&dir, "other"), &arrays[1], 1));
    expect_success(&ctx, tsr_npy_write(&ctx, files_path(&dir, "whole.npy"), &arrays[1]));
    expect_equal_files("other", "whole.npy");
}

Test(array_writer, elements_alone) {
    static const char *const names[] = {"a.txt", "a.bin"};
    tsr_ctx ctx = {0};
    fill();
    for (size_t i = 0; i < 2 * ARRAYS; i++) {
        const char *name = names[i % 2];
        const tsr_tensor *array = &arrays[i / 2];
        unsigned char *bytes = NULL;
        size_t size = 0;
        uint64_t expected = 0;
        if (i % 2 == 0 && tsr_dtype_size(array->dtype) > 1) {
            tsr_result result = write_parts(&ctx, files_path(&dir, name), array, 1);
            expect_error(&ctx, result, TSR_USAGE, "would hold text, whose elements are bytes");
            continue;
        }
        expect_success(&ctx, write_parts(&ctx, files_path(&dir, name), array, 1));
        files_read(&dir, name, &bytes, &size);
        cr_assert(tsr_shape_size(&array->shape, array->dtype, &expected));
        cr_assert(size == expected && memcmp(bytes, array->data, size) == 0, "%s, %s", name,
                  array->name);
        free(bytes);
    }
    tsr_result result = write_parts(&ctx, files_path(&dir, "a.bin"), arrays, 2);
    cr_assert_eq(result.code, TSR_USAGE);
}

Test(array_writer, other_formats_are_refused) {
    static const char *const names[] = {"q.csv", "q.pt", "q.json", "q.npy.gz",
                                        "q.NPY", "q.h5", "q.tmp",  "a.bin.d"};
    tsr_ctx ctx = {0};
    fill();
    for (size_t i = 0; i < TSR_COUNT(names); i++) {
        tsr_result result = write_parts(&ctx, files_path(&dir, names[i]), arrays, 1);
        expect_error(&ctx, result, TSR_USAGE, "which cannot be written; expected .npy, .npz");
        cr_assert(strstr(ctx.error.text, strrchr(names[i], '.')), "%s", ctx.error.text);
        cr_assert_eq(files_count(&dir), 0, "%s", names[i]);
    }
}

/* libarchive checks sizes and checksums in local headers; the members are .npy files. */
Test(array_writer, archives_for_others) {
    tsr_ctx ctx = {0};
    fill();
    expect_success(&ctx, write_parts(&ctx, files_path(&dir, "a.npz"), arrays, ARRAYS));
    setlocale(LC_ALL, "C.UTF-8"); /* libarchive converts names to this encoding */
    struct archive *zip = archive_read_new();
    struct archive_entry *entry = NULL;
    archive_read_support_format_zip(zip);
    cr_assert_eq(archive_read_open_filename(zip, files_path(&dir, "a.npz"), 4096), ARCHIVE_OK);
    for (size_t i = 0; i < ARRAYS; i++) {
        char name[64];
        unsigned char *expected = NULL;
        size_t size = 0;
        snprintf(name, sizeof name, "%s.npy", arrays[i].name);
        expect_success(&ctx, tsr_npy_write(&ctx, files_path(&dir, "member"), &arrays[i]));
        files_read(&dir, "member", &expected, &size);
        unsigned char *got = malloc(size + 1);
        cr_assert_eq(archive_read_next_header(zip, &entry), ARCHIVE_OK);
        cr_assert_str_eq(archive_entry_pathname_utf8(entry), name);
        cr_assert_eq((size_t)archive_entry_size(entry), size);
        cr_assert_eq(archive_entry_mode(entry), (unsigned)AE_IFREG | 0644);
        cr_assert_eq(archive_read_data(zip, got, size + 1), (la_ssize_t)size, "%s",
                     archive_error_string(zip));
        cr_assert_arr_eq(got, expected, size);
        free(got);
        free(expected);
    }
    cr_assert_eq(archive_read_next_header(zip, &entry), ARCHIVE_EOF);
    cr_assert_eq(archive_read_free(zip), ARCHIVE_OK);
}

Test(array_writer, what_is_written_is_read) {
    tsr_ctx ctx = {0};
    fill();
    for (const char *const *name = (const char *const[]){"a.npz", "a.safetensors", NULL}; *name;
         name++) {
        expect_success(&ctx, write_parts(&ctx, files_path(&dir, *name), arrays, ARRAYS));
        for (size_t i = 0; i < ARRAYS; i++) {
            char spec[256];
            static unsigned char got[sizeof scores];
            tsr_array *array = NULL;
            uint64_t count = 0;
            snprintf(spec, sizeof spec, "%s:%s", files_path(&dir, *name), arrays[i].name);
            expect_success(&ctx, tsr_array_open(&ctx, spec, TSR_DTYPE_NONE, &array));
            cr_assert_eq(tsr_array_get_dtype(array), arrays[i].dtype);
            cr_assert(tsr_shape_equal(tsr_array_get_shape(array), &arrays[i].shape));
            cr_assert(tsr_shape_count(&arrays[i].shape, &count));
            expect_success(&ctx, tsr_array_read(&ctx, array, 0, count, got));
            cr_assert_eq(memcmp(got, arrays[i].data, size_of(&arrays[i])), 0, "%s", spec);
            tsr_array_close(&ctx, array);
        }
    }
}

static void refused(const char *name, const tsr_tensor *tensors, size_t count, const char *part) {
    tsr_ctx ctx = {0};
    tsr_array_writer *writer = NULL;
    expect_error(&ctx,
                 tsr_array_writer_create(&ctx, files_path(&dir, name), tensors, count, &writer),
                 TSR_USAGE, part);
    cr_assert_null(writer);
    cr_assert_eq(files_count(&dir), 0);
}

Test(array_writer, refusals) {
    const uint64_t half = UINT64_C(1) << 62;
    tsr_tensor huge[] = {{"a", TSR_DTYPE_UI8, {1, {half}}, NULL},
                         {"b", TSR_DTYPE_UI8, {1, {half}}, NULL},
                         {"c", TSR_DTYPE_F64, {1, {half}}, NULL}};
    refused("a.npy", arrays, 2, "'flag' and 'größe/y' both go to");
    refused("npz", arrays, 2, "expected one array, or a file that ends in .npz or .safetensors");
    refused("a.npz", huge, 2, "2^63 bytes");
    refused("a.npy", huge + 2, 1, "2^63 bytes");
    refused("a.safetensors", huge, 2, "2^63 bytes");
    tsr_ctx ctx = {0};
    tsr_array_writer *writer = NULL;
    expect_error(&ctx, tsr_array_writer_create(&ctx, "/nowhere/a.npz", arrays, 2, &writer), TSR_IO,
                 "/nowhere/a.npz");
}

/* Whichever operation fails, no new file and no temporary file remains, and the old file is
 * unchanged. */
Test(array_writer, every_failing_operation) {
    fill();
    for (const char *const *name = (const char *const[]){"a.npz", "a.safetensors", NULL}; *name;
         name++) {
        char path[200];
        long failed = 0;
        strcpy(path, files_path(&dir, *name));
        files_write(&dir, *name, "old", 3);
        for (;; failed++) {
            faulty_io io;
            faulty_init(&io);
            io.fail_at = failed + 1;
            tsr_ctx ctx = {.io = &io.table};
            tsr_result result = write_parts(&ctx, path, arrays, ARRAYS);
            cr_assert_eq(files_count(&dir), 1, "operation %ld", io.fail_at);
            if (io.count < io.fail_at) {
                expect_success(&ctx, result);
                break;
            }
            if (result.code) cr_assert_eq(result.code, TSR_IO, "%s", ctx.error.text);
        }
        cr_assert_gt(failed, 20);
        remove(path);
    }
}
