/* SPDX-License-Identifier: Apache-2.0
 *
 * Flat files that belong to other programs, detected by name and by content; flat files that do
 * not, although they begin similarly; the notice about the interpretation of a flat file.
 */
#include "runtime/base/array.h"
#include "runtime/data/array_file.h"
#include "tests/data/files.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static files dir;
static void setup(void) { files_init(&dir); }
static void teardown(void) { files_finish(&dir); }
TestSuite(foreign, .init = setup, .fini = teardown);

static void expect_refused(const char *name, tsr_dtype flat, const char *part) {
    tsr_ctx ctx = {0};
    tsr_array *array = NULL;
    tsr_result result = tsr_array_open(&ctx, files_path(&dir, name), flat, &array);
    cr_assert_eq(result.code, TSR_DATA, "'%s': code %d", name, (int)result.code);
    cr_assert(strstr(ctx.error.text, part), "'%s': '%s' lacks '%s'", name, ctx.error.text, part);
    cr_assert(strstr(ctx.error.text, "expected .npy, .npz, .safetensors, or a flat file"));
    cr_assert_null(array);
}

static void expect_taken(const char *name, tsr_dtype flat) {
    tsr_ctx ctx = {0};
    tsr_array *array = NULL;
    tsr_result result = tsr_array_open(&ctx, files_path(&dir, name), flat, &array);
    cr_assert_eq(result.code, TSR_OK, "'%s': %s", name, ctx.error.text);
    cr_assert(tsr_array_is_flat(array));
    tsr_array_close(&ctx, array);
}

/* Writes a file with the given bytes at `offset`; the other bytes are not text. */
static void write_begin(const char *name, size_t offset, const char *begin, size_t size,
                        char last) {
    char bytes[320] = {0};
    memset(bytes, 3, sizeof bytes);
    memcpy(bytes + offset, begin, size);
    bytes[sizeof bytes - 1] = last;
    files_write(&dir, name, bytes, sizeof bytes);
}

Test(foreign, names) {
    static const struct {
        const char *name, *what;
    } rows[] = {
        {"x.csv", "a table in text form"},
        {"x.CSV", "numpy.loadtxt"},
        {"x.tsv", "numpy.loadtxt"},
        {"x.json", "JSON"},
        {"x.jsonl", "JSON"},
        {"tokens.bin.gz", "a compressed file; expected"},
        {"x.zst", "unpack it first"},
        {"x.zip", "an archive"},
        {"model.pt", "a PyTorch file"},
        {"model.pth", "safetensors.torch.save_file"},
        {"x.pkl", "a pickle"},
        {"x.parquet", "pandas.read_parquet"},
        {"x.feather", "an Arrow file"},
        {"x.h5", "h5py"},
        {"x.mat", "scipy.io.loadmat"},
        {"x.xlsx", "a spreadsheet"},
        {"x.onnx", "a model of another framework"},
        {"x.PNG", "an image"},
        {"x.wav", "a sound"},
        {"x.tfrecord", "TensorFlow records"},
        {"x.tsb", "a Tessera bundle"},
        {"x.pdf", "a document"},
    };
    for (size_t i = 0; i < TSR_COUNT(rows); i++) {
        write_begin(rows[i].name, 0, "\1\2\3", 3, 3);
        expect_refused(rows[i].name, TSR_DTYPE_UI8, rows[i].what);
    }
}

Test(foreign, contents) {
    static const struct {
        const char *begin;
        size_t size, offset;
        char last;
        const char *what;
    } rows[] = {
        {"\x93NUMPY\1\0", 8, 0, 3, "give it the extension .npy"},
        {"PK\3\4", 4, 0, 3, "give it the extension .npz"},
        {"\x1f\x8b\x08\0", 4, 0, 3, "a compressed file"},
        {"BZh9", 4, 0, 3, "a compressed file"},
        {"\xfd"
         "7zXZ\0",
         6, 0, 3, "a compressed file"},
        {"\x28\xb5\x2f\xfd", 4, 0, 3, "a compressed file"},
        {"PAR1", 4, 0, '1', "a Parquet file"},
        {"ARROW1\0\0", 8, 0, 3, "an Arrow file"},
        {"\x89HDF\r\n\x1a\n", 8, 0, 3, "an HDF5 file"},
        {"\x89PNG\r\n\x1a\n", 8, 0, 3, "an image"},
        {"\xff\xd8\xff\xe0", 4, 0, 3, "an image"},
        {"GGUF", 4, 0, 3, "a model"},
        {"SQLite format 3", 16, 0, 3, "a database"},
        {"ustar", 6, 257, 3, "an archive"},
        {"\x80\4\x95\x10\0\0\0\0\0\0\0]", 12, 0, '.', "a pickle"},
        {"\x80\5\x95\x10\0\0\0\0\0\0\0}", 12, 0, '.', "a pickle"},
        {"\x80\2}q\0", 5, 0, '.', "a pickle"},
        {"\x80\3]q\0", 5, 0, '.', "a pickle"},
        {"\x80\2\x8a\nl\xfc\x9c"
         "F\xf9 j\xa8P\x19.",
         15, 0, '.', "a PyTorch file"},
        {"\x40\0\0\0\0\0\0\0{\"a\":", 13, 0, 3, "give it the extension .safetensors"},
    };
    static const char *const names[] = {"x", "x.bin", "x.dat", "x.u16"};
    for (size_t i = 0; i < TSR_COUNT(rows); i++)
        for (size_t k = 0; k < TSR_COUNT(names); k++) {
            write_begin(names[k], rows[i].offset, rows[i].begin, rows[i].size, rows[i].last);
            expect_refused(names[k], TSR_DTYPE_UI8, rows[i].what);
            expect_refused(names[k], TSR_DTYPE_F32, rows[i].what);
        }
}

/* Data that begin like another format, and names without a known extension. */
Test(foreign, flat_files_are_taken) {
    static const struct {
        const char *begin;
        size_t size;
        char last;
    } rows[] = {
        {"\x80\4\x95", 3, 3},               /* does not end like a pickle */
        {"\x80\4\x96", 3, '.'},             /* not an opcode */
        {"\x80\6}", 3, '.'},                /* not a protocol */
        {"\x80\2\x07", 3, '.'},             /* not an opcode */
        {"\x1f\x8b\x09", 3, 3},             /* not a compression method of gzip */
        {"PK\5\5", 4, 3},                   /* not a zip file */
        {"\x93NUMPX", 6, 3},                /* not NumPy */
        {"\xff\xff\0\0\0\0\0\0{\"", 10, 3}, /* a header longer than the file */
        {"\1\0\0\0\0\0\0\0{\"", 10, 3},     /* a header of one byte */
        {"\x40\0\0\0\0\0\0\0[\"", 10, 3},   /* not an object */
    };
    for (size_t i = 0; i < TSR_COUNT(rows); i++) {
        write_begin("x.bin", 0, rows[i].begin, rows[i].size, rows[i].last);
        expect_taken("x.bin", TSR_DTYPE_UI8);
        expect_taken("x.bin", TSR_DTYPE_F32);
    }
    static const char *const names[] = {"x", "x.bin", "x.raw", "x.u16", "csv", ".csv2", "a.csv.d"};
    for (size_t i = 0; i < TSR_COUNT(names); i++) {
        write_begin(names[i], 0, "\1", 1, 3);
        expect_taken(names[i], TSR_DTYPE_UI8);
    }
}

Test(foreign, text_is_bytes_alone) {
    static const char table[] = "0.125,7.5\r\n1.25,\t8.75\n";
    char tokens[64] = {0};
    files_write(&dir, "t.txt", table, sizeof table - 1 - (sizeof table - 1) % 4);
    expect_taken("t.txt", TSR_DTYPE_UI8);
    expect_taken("t.txt", TSR_DTYPE_I8);
    expect_refused("t.txt", TSR_DTYPE_F32, "is text; expected");
    expect_refused("t.txt", TSR_DTYPE_F16, "is text; expected");
    for (size_t i = 0; i < sizeof tokens; i += 2) tokens[i] = 'a'; /* small numbers of 16 bits */
    files_write(&dir, "t.bin", tokens, sizeof tokens);
    expect_taken("t.bin", TSR_DTYPE_F16);
    files_write(&dir, "t.bin", "abcdefgh", 8); /* too short to decide */
    expect_taken("t.bin", TSR_DTYPE_F32);
}

/* ---- the notice ---- */

typedef struct told {
    int count;
    char text[512];
} told;

static void keep(void *user, tsr_log_level level, const char *text) {
    told *self = user;
    cr_assert_eq(level, TSR_LOG_NOTICE);
    self->count++;
    snprintf(self->text, sizeof self->text, "%s", text);
}

Test(foreign, a_flat_file_is_told_of) {
    static const struct {
        size_t size;
        tsr_shape shape;
        const char *text;
    } rows[] = {
        {640, {2, {10, 64}}, "is a flat file of ui8, 10 rows of 64"},
        {650,
         {2, {10, 64}},
         "is a flat file of ui8, 10 rows of 64; its last 10 elements do not fill a row"},
        {48, {3, {2, 4, 6}}, "is a flat file of ui8, 2 rows of 4x6"},
        {7, {1, {7}}, "is a flat file of ui8, 7 rows"},
    };
    static const char bytes[650] = {1};
    for (size_t i = 0; i < TSR_COUNT(rows); i++) {
        told all = {0};
        tsr_ctx ctx = {.log = keep, .log_user = &all, .log_level = TSR_LOG_NOTICE};
        tsr_array *array = NULL;
        files_write(&dir, "x.bin", bytes, rows[i].size);
        expect_success(&ctx,
                       tsr_array_open(&ctx, files_path(&dir, "x.bin"), TSR_DTYPE_UI8, &array));
        tsr_array_tell_flat(&ctx, array, "data", "images", &rows[i].shape);
        cr_assert_eq(all.count, 1);
        size_t length = strlen(rows[i].text), all_length = strlen(all.text);
        cr_assert(all_length > length, "%s", all.text);
        cr_assert_str_eq(all.text + all_length - length, rows[i].text);
        cr_assert_eq(strncmp(all.text, "data 'images': '", 16), 0, "%s", all.text);
        tsr_array_close(&ctx, array);
    }
}
