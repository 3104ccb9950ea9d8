/* SPDX-License-Identifier: Apache-2.0
 *
 * Members of .npz files that libarchive writes: stored, deflated, zip64, with data descriptors.
 */
#include "runtime/base/array.h"
#include "runtime/data/array_file.h"
#include "tests/data/files.h"

#include <archive.h>
#include <archive_entry.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static files dir;
static void setup(void) { files_init(&dir); }
static void teardown(void) { files_finish(&dir); }
TestSuite(npz, .init = setup, .fini = teardown);

enum { COUNT = 50000 };

static void make_values(int64_t *values) {
    for (int64_t i = 0; i < COUNT; i++) values[i] = i * i % 1000;
}

/* Returns the bytes of an .npy file with `count` of the values. */
static unsigned char *make_npy(size_t count, size_t *out_size) {
    static int64_t values[COUNT];
    tsr_ctx ctx = {0};
    unsigned char *bytes = NULL;
    make_values(values);
    tsr_tensor tensor = {NULL, TSR_DTYPE_I64, {1, {count}}, values};
    expect_success(&ctx, tsr_npy_write(&ctx, files_path(&dir, "member.npy"), &tensor));
    files_read(&dir, "member.npy", &bytes, out_size);
    return bytes;
}

static void add_member(struct archive *zip, const char *name, size_t count, bool with_size) {
    size_t size = 0;
    unsigned char *bytes = make_npy(count, &size);
    struct archive_entry *entry = archive_entry_new();
    archive_entry_set_pathname(entry, name);
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    if (with_size) archive_entry_set_size(entry, (la_int64_t)size);
    cr_assert_eq(archive_write_header(zip, entry), ARCHIVE_OK, "%s", archive_error_string(zip));
    cr_assert_eq(archive_write_data(zip, bytes, size), (la_ssize_t)size);
    archive_entry_free(entry);
    free(bytes);
}

/* Makes members "first.npy" with `count` values and "second.npy" with 3. */
static void make_npz(const char *name, const char *options, size_t count, bool with_size) {
    struct archive *zip = archive_write_new();
    archive_write_set_format_zip(zip);
    cr_assert_eq(archive_write_set_options(zip, options), ARCHIVE_OK, "%s",
                 archive_error_string(zip));
    cr_assert_eq(archive_write_open_filename(zip, files_path(&dir, name)), ARCHIVE_OK);
    add_member(zip, "first.npy", count, with_size);
    add_member(zip, "second.npy", 3, with_size);
    cr_assert_eq(archive_write_close(zip), ARCHIVE_OK);
    archive_write_free(zip);
}

static const char *spec(const char *name, const char *member) {
    static char text[200];
    strcpy(text, files_path(&dir, name));
    strcat(text, ":");
    return strcat(text, member);
}

static void expect_values(const char *text, size_t count) {
    static int64_t values[COUNT], got[COUNT];
    tsr_ctx ctx = {0};
    tsr_array *array = NULL;
    make_values(values);
    expect_success(&ctx, tsr_array_open(&ctx, text, TSR_DTYPE_NONE, &array));
    cr_assert(tsr_array_get_shape(array)->rank == 1 &&
              tsr_array_get_shape(array)->dims[0] == count);
    expect_success(&ctx, tsr_array_read(&ctx, array, 0, count, got));
    cr_assert_arr_eq(got, values, count * sizeof *got);
    tsr_array_close(&ctx, array);
}

static void expect_refused(const char *text, tsr_code code, const char *part) {
    tsr_ctx ctx = {0};
    tsr_array *array = NULL;
    expect_error(&ctx, tsr_array_open(&ctx, text, TSR_DTYPE_NONE, &array), code, part);
}

static const char *const layouts[] = {
    "zip:compression=store",
    "zip:compression=deflate",
    "zip:compression=store,zip:zip64",
    "zip:compression=deflate,zip:zip64",
};
enum { LAYOUT_COUNT = TSR_COUNT(layouts) };

Test(npz, members) {
    for (size_t i = 0; i < LAYOUT_COUNT; i++)
        for (int with_size = 0; with_size < 2; with_size++) {
            make_npz("a.npz", layouts[i], COUNT, with_size);
            expect_values(spec("a.npz", "first"), COUNT);
            expect_values(spec("a.npz", "first.npy"), COUNT);
            expect_values(spec("a.npz", "second"), 3);
        }
}

Test(npz, selection) {
    make_npz("a.npz", layouts[1], 7, true);
    expect_refused(spec("a.npz", "third"), TSR_DATA,
                   "no such member; the archive has: first.npy, second.npy");
    expect_refused(spec("a.npz", "firs"), TSR_DATA, "no such member");
    expect_refused(spec("a.npz", ""), TSR_USAGE, "no member after the colon");
    expect_refused(files_path(&dir, "a.npz"), TSR_DATA, "2 members match; name one as");
    struct archive *zip = archive_write_new();
    archive_write_set_format_zip(zip);
    archive_write_open_filename(zip, files_path(&dir, "b.npz"));
    add_member(zip, "only.npy", 5, true);
    archive_write_free(zip);
    expect_values(files_path(&dir, "b.npz"), 5);
    zip = archive_write_new();
    archive_write_set_format_zip(zip);
    archive_write_open_filename(zip, files_path(&dir, "c.npz"));
    add_member(zip, "x.npy", 5, true);
    add_member(zip, "x.npy", 6, true);
    archive_write_free(zip);
    expect_refused(spec("c.npz", "x"), TSR_DATA, "2 members match");
    zip = archive_write_new();
    archive_write_set_format_zip(zip);
    archive_write_open_filename(zip, files_path(&dir, "d.npz"));
    archive_write_free(zip);
    expect_refused(files_path(&dir, "d.npz"), TSR_DATA, "no member; the archive has: none");
}

/* Names in messages are one line of UTF-8, regardless of the bytes in the archive. */
Test(npz, hostile_names) {
    static const struct {
        const char *name, *shown;
    } rows[] = {
        {"a\x1b[2J\n", "the archive has: a?[2J?, ok.npy"},
        {"caf\xc3\xa9", "the archive has: caf\xc3\xa9, ok.npy"},
        {"caf\xe9", "the archive has: caf?, ok.npy"},
    };
    for (size_t i = 0; i < TSR_COUNT(rows); i++) {
        char long_name[200];
        unsigned char *bytes = NULL;
        size_t size = 0, length = strlen(rows[i].name);
        struct archive *zip = archive_write_new();
        archive_write_set_format_zip(zip);
        archive_write_open_filename(zip, files_path(&dir, "a.npz"));
        memset(long_name, 'x', length);
        long_name[length] = 0;
        add_member(zip, long_name, 2, true);
        add_member(zip, "ok.npy", 2, true);
        archive_write_free(zip);
        files_read(&dir, "a.npz", &bytes, &size);
        for (size_t at = 0; at + length <= size; at++) /* libarchive refuses such names */
            if (memcmp(bytes + at, long_name, length) == 0)
                memcpy(bytes + at, rows[i].name, length);
        files_write(&dir, "b.npz", bytes, size);
        expect_refused(spec("b.npz", "none"), TSR_DATA, rows[i].shown);
        free(bytes);
    }
    struct archive *zip = archive_write_new();
    archive_write_set_format_zip(zip);
    archive_write_open_filename(zip, files_path(&dir, "a.npz"));
    for (int i = 0; i < 40; i++) {
        char name[200];
        snprintf(name, sizeof name, "%0*d.npy", i * 4 + 1, i);
        add_member(zip, name, 2, true);
    }
    archive_write_free(zip);
    expect_refused(spec("a.npz", "none"), TSR_DATA, "000011.npy, ...");
    expect_values(spec("a.npz", "0"), 2);
}

Test(npz, truncated_at_every_byte) {
    for (size_t i = 0; i < LAYOUT_COUNT; i++) {
        unsigned char *bytes = NULL;
        size_t size = 0;
        make_npz("a.npz", layouts[i], 20, true);
        files_read(&dir, "a.npz", &bytes, &size);
        for (size_t size_left = 0; size_left < size; size_left++) {
            files_write(&dir, "b.npz", bytes, size_left);
            expect_refused(spec("b.npz", "first"), TSR_DATA, size_left ? "zip" : "is empty");
        }
        bytes[size] = 'x';
        files_write(&dir, "b.npz", bytes, size + 1);
        expect_refused(spec("b.npz", "first"), TSR_DATA, "no end record");
        free(bytes);
    }
}

/* Any flipped bit is refused, or gives the same values (dates, the other member …). */
Test(npz, every_bit) {
    static int64_t values[COUNT], got[COUNT];
    make_values(values);
    for (size_t i = 0; i < LAYOUT_COUNT; i++) {
        tsr_ctx ctx = {0};
        unsigned char *bytes = NULL;
        size_t size = 0;
        make_npz("a.npz", layouts[i], 20, i % 2);
        files_read(&dir, "a.npz", &bytes, &size);
        for (size_t bit = 0; bit < size * 8; bit++) {
            tsr_array *array = NULL;
            bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
            files_write(&dir, "b.npz", bytes, size);
            bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
            tsr_result result =
                tsr_array_open(&ctx, spec("b.npz", "first"), TSR_DTYPE_NONE, &array);
            cr_assert(result.code == TSR_OK || result.code == TSR_DATA, "bit %zu: %s", bit,
                      ctx.error.text);
            if (result.code) continue;
            cr_assert_eq(tsr_array_get_dtype(array), TSR_DTYPE_I64);
            cr_assert_eq(tsr_array_get_shape(array)->dims[0], 20);
            expect_success(&ctx, tsr_array_read(&ctx, array, 0, 20, got));
            cr_assert_arr_eq(got, values, 20 * sizeof *got, "bit %zu", bit);
            tsr_array_close(&ctx, array);
        }
        free(bytes);
    }
}

Test(npz, faults) {
    faulty_io io;
    faulty_init(&io);
    tsr_ctx ctx = {.io = &io.table};
    char text[200];
    make_npz("a.npz", layouts[1], COUNT, true);
    strcpy(text, spec("a.npz", "first"));
    tsr_result result;
    for (io.fail_at = 1;; io.fail_at++) {
        tsr_array *array = NULL;
        io.count = 0;
        result = tsr_array_open(&ctx, text, TSR_DTYPE_NONE, &array);
        tsr_array_close(&ctx, array);
        if (io.count < io.fail_at) break;
        expect_error(&ctx, result, TSR_IO, "Input/output error");
    }
    expect_success(&ctx, result);
    cr_assert_gt(io.fail_at, 6);
}
