/* SPDX-License-Identifier: Apache-2.0
 *
 * .npy files, flat files, and the parts of array_file.c that all formats share. Files written by
 * NumPy are read in reference_numpy.py.
 */
#include "runtime/base/array.h"
#include "runtime/base/buffer.h"
#include "runtime/data/array_file.h"
#include "tests/data/files.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static files dir;
static void setup(void) { files_init(&dir); }
static void teardown(void) { files_finish(&dir); }
TestSuite(npy, .init = setup, .fini = teardown);
TestSuite(flat, .init = setup, .fini = teardown);

static const float six[6] = {1, -2, 3.5f, 0, 5e-3f, -6};

/* Writes a file of any version with any header literal. */
static void write_npy(const char *name, unsigned version, const char *literal, const void *data,
                      size_t size) {
    tsr_buffer file = {0};
    size_t length = strlen(literal);
    tsr_buffer_append(&file, "\x93NUMPY", 6);
    tsr_buffer_append(&file, (char[]){(char)version, 0, (char)length, (char)(length >> 8)}, 4);
    if (version > 1) tsr_buffer_append(&file, "\0\0", 2);
    tsr_buffer_text(&file, literal);
    tsr_buffer_append(&file, data, size);
    files_write(&dir, name, file.bytes, file.size_bytes);
    tsr_buffer_finish(&file);
}

static void expect_six(const char *path) {
    tsr_ctx ctx = {0};
    tsr_array *array = NULL;
    float values[6];
    expect_success(&ctx, tsr_array_open(&ctx, path, TSR_DTYPE_NONE, &array));
    cr_assert_eq(tsr_array_get_dtype(array), TSR_DTYPE_F32);
    const tsr_shape *shape = tsr_array_get_shape(array);
    cr_assert(shape->rank == 2 && shape->dims[0] == 2 && shape->dims[1] == 3);
    expect_success(&ctx, tsr_array_read(&ctx, array, 0, 6, values));
    cr_assert_arr_eq(values, six, sizeof six);
    expect_success(&ctx, tsr_array_read(&ctx, array, 3, 2, values));
    cr_assert_arr_eq(values, six + 3, 2 * sizeof *six);
    expect_success(&ctx, tsr_array_read(&ctx, array, 6, 0, values));
    tsr_array_close(&ctx, array);
}

static void expect_refused(const char *name, tsr_dtype flat, tsr_code code, const char *part) {
    tsr_ctx ctx = {0};
    tsr_array *array = NULL;
    expect_error(&ctx, tsr_array_open(&ctx, files_path(&dir, name), flat, &array), code, part);
    cr_assert_null(array, "written on failure");
}

Test(npy, versions_and_spellings) {
    static const char *literals[] = {
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }  \n",
        "{'shape': (2,3), 'fortran_order': False, 'descr': '<f4'}\n",
        "{\"descr\":\"<f4\",\"fortran_order\":False,\"shape\":(2, 3,)}\n",
        "{ 'descr' : '<f4' , 'fortran_order' : False , 'shape' : ( 2 , 3 ) , }\n",
    };
    for (unsigned version = 1; version <= 3; version++)
        for (size_t i = 0; i < TSR_COUNT(literals); i++) {
            write_npy("a.npy", version, literals[i], six, sizeof six);
            expect_six(files_path(&dir, "a.npy"));
        }
}

Test(npy, refused_headers) {
    static const struct {
        const char *literal, *message;
    } rows[] = {
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }\n", "Fortran order"},
        {"{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3), }\n",
         "big-endian (>f4); expected little-endian (<f4)"},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (2, 3), }\n", "Python objects"},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2, 3), }\n", "structures"},
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (2, 3), }\n",
         "the dtype '<c8'; expected one of <f8 <f4"},
        {"{'descr': '<c8\x1b[2J\n', 'fortran_order': False, 'shape': (2, 3), }\n", "'<c8?[2J?'"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 4), }\n",
         "has 24 bytes of elements; 2x4xf32 needs 32"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (5,), }\n",
         "has 24 bytes of elements; 5xf32 needs 20"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (6), }\n", "expected ',' (a tuple)"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': [2, 3], }\n", "expected a tuple"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-2, 3), }\n", "expected a dimension"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,6), }\n",
         "more than 8 dimensions"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }\n",
         "too large"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 9223372036854775807, 9), }\n",
         "too large"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (18446744073709551622,), }\n",
         "below 2^63"},
        {"{'descr': '<f4', 'fortran_order': 0, 'shape': (2, 3), }\n", "True or False"},
        {"{'descr': '<f4', 'shape': (2, 3), }\n", "each once"},
        {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n",
         "each once"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), 'x': 1, }\n", "each once"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } x\n", "newline"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", "newline"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n\n", "newline"},
        {"{'descr': '<f\\x34', 'fortran_order': False, 'shape': (2, 3), }\n", "escapes"},
        {"{'descr: <f4, fortran_order: False, shape: (2, 3), }\n", "short string"},
        {"", "'{'"},
    };
    for (size_t i = 0; i < TSR_COUNT(rows); i++) {
        write_npy("a.npy", 1, rows[i].literal, six, sizeof six);
        expect_refused("a.npy", TSR_DTYPE_NONE, TSR_DATA, rows[i].message);
    }
    write_npy("a.npy", 4, "{}\n", six, sizeof six);
    expect_refused("a.npy", TSR_DTYPE_NONE, TSR_DATA, "NPY version 4.0; expected 1.0, 2.0 or 3.0");
    files_write(&dir, "a.npy", "\x93NUMPY\2\0\xff\xff\xff\x7f", 12);
    expect_refused("a.npy", TSR_DTYPE_NONE, TSR_DATA, "2147483647 bytes; at most 65536");
    files_write(&dir, "a.npy", "\x93NUMPZ\1\0\0\0", 10);
    expect_refused("a.npy", TSR_DTYPE_NONE, TSR_DATA, "NPY magic");
}

/* Written files can be read; every truncation is refused, and so is a file with one byte more. */
Test(npy, truncated_at_every_byte) {
    tsr_ctx ctx = {0};
    unsigned char *bytes = NULL;
    size_t size = 0;
    tsr_tensor tensor = {NULL, TSR_DTYPE_F32, {2, {2, 3}}, (void *)(uintptr_t)six};
    expect_success(&ctx, tsr_npy_write(&ctx, files_path(&dir, "a.npy"), &tensor));
    expect_six(files_path(&dir, "a.npy"));
    files_read(&dir, "a.npy", &bytes, &size);
    cr_assert_eq((size - sizeof six) % 64, 0);
    for (size_t size_left = 0; size_left < size; size_left++) {
        files_write(&dir, "b.npy", bytes, size_left);
        expect_refused("b.npy", TSR_DTYPE_NONE, TSR_DATA, size_left ? " byte" : "is empty");
    }
    bytes[size] = 0;
    files_write(&dir, "b.npy", bytes, size + 1);
    expect_refused("b.npy", TSR_DTYPE_NONE, TSR_DATA, "has 25 bytes of elements; 2x3xf32 needs 24");
    free(bytes);
}

/* A flipped bit gives an error, or a different readable array that is not larger. */
Test(npy, every_bit_of_the_header) {
    tsr_ctx ctx = {0};
    unsigned char *bytes = NULL;
    size_t size = 0;
    unsigned char values[sizeof six];
    int accepted = 0;
    tsr_tensor tensor = {NULL, TSR_DTYPE_F32, {2, {2, 3}}, (void *)(uintptr_t)six};
    expect_success(&ctx, tsr_npy_write(&ctx, files_path(&dir, "a.npy"), &tensor));
    files_read(&dir, "a.npy", &bytes, &size);
    for (size_t bit = 0; bit < (size - sizeof six) * 8; bit++) {
        tsr_array *array = NULL;
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        files_write(&dir, "b.npy", bytes, size);
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        tsr_result result = tsr_array_open(&ctx, files_path(&dir, "b.npy"), TSR_DTYPE_NONE, &array);
        cr_assert(result.code == TSR_OK || result.code == TSR_DATA, "%s", ctx.error.text);
        if (result.code) continue;
        uint64_t count = 0;
        accepted++;
        cr_assert(tsr_shape_count(tsr_array_get_shape(array), &count));
        cr_assert_eq(count * tsr_dtype_size(tsr_array_get_dtype(array)), sizeof six);
        expect_success(&ctx, tsr_array_read(&ctx, array, 0, count, values));
        tsr_array_close(&ctx, array);
    }
    cr_assert_leq(accepted, 3, "%d flips were accepted", accepted); /* the version, a space */
    free(bytes);
}

Test(npy, booleans_are_checked) {
    tsr_ctx ctx = {0};
    tsr_array *array = NULL;
    unsigned char values[4];
    write_npy("a.npy", 1, "{'descr': '|b1', 'fortran_order': False, 'shape': (4,), }\n", "\0\1\1\2",
              4);
    expect_success(&ctx, tsr_array_open(&ctx, files_path(&dir, "a.npy"), TSR_DTYPE_NONE, &array));
    expect_success(&ctx, tsr_array_read(&ctx, array, 0, 3, values));
    expect_error(&ctx, tsr_array_read(&ctx, array, 2, 2, values), TSR_DATA, "element 3 of");
    tsr_array_close(&ctx, array);
}

Test(npy, not_a_file) {
    expect_refused("absent.npy", TSR_DTYPE_NONE, TSR_IO, "No such file");
    expect_refused("", TSR_DTYPE_F32, TSR_IO, "is a directory");
    files_write(&dir, "empty.npy", "", 0);
    expect_refused("empty.npy", TSR_DTYPE_NONE, TSR_DATA, "is empty");
    tsr_ctx ctx = {0};
    tsr_array *array = NULL;
    expect_error(&ctx, tsr_array_open(&ctx, "", TSR_DTYPE_F32, &array), TSR_USAGE, "empty");
    tsr_array_close(&ctx, NULL);
}

/* Short reads change nothing. An error of any operation is reported, except while checking the file
 * to be replaced and searching for temporary files of dead processes. No file is left. */
Test(npy, faults) {
    faulty_io io;
    faulty_init(&io);
    tsr_ctx ctx = {.io = &io.table};
    char path[160];
    strcpy(path, files_path(&dir, "a.npy"));
    tsr_tensor tensor = {NULL, TSR_DTYPE_F32, {2, {2, 3}}, (void *)(uintptr_t)six};
    long fault_count = 0;
    bool reached = true;
    for (io.fail_at = 1; reached; io.fail_at++) {
        tsr_array *array = NULL;
        float values[6] = {0};
        io.count = 0;
        io.read_max = (size_t)io.fail_at % 7;
        tsr_result result = tsr_npy_write(&ctx, path, &tensor);
        cr_assert_leq(files_count(&dir), 1);
        if (!result.code) result = tsr_array_open(&ctx, path, TSR_DTYPE_NONE, &array);
        if (!result.code) result = tsr_array_read(&ctx, array, 0, 6, values);
        tsr_array_close(&ctx, array);
        if (result.code) {
            expect_error(&ctx, result, TSR_IO, "Input/output error");
            fault_count++;
        } else
            cr_assert_arr_eq(values, six, sizeof six);
        reached = io.count >= io.fail_at;
    }
    cr_assert_geq(fault_count, 10);
    cr_assert_geq(fault_count, io.fail_at - 5, "%ld of %ld", fault_count, io.fail_at);
    expect_six(path);
}

Test(npy, truncated_after_open) {
    tsr_ctx ctx = {0};
    tsr_array *array = NULL;
    float values[6];
    write_npy("a.npy", 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (6,), }\n", six, 24);
    expect_success(&ctx, tsr_array_open(&ctx, files_path(&dir, "a.npy"), TSR_DTYPE_NONE, &array));
    files_write(&dir, "a.npy", "short", 5);
    expect_error(&ctx, tsr_array_read(&ctx, array, 0, 6, values), TSR_IO, "ends at byte");
    tsr_array_close(&ctx, array);
}

Test(flat, elements) {
    static const int32_t tokens[5] = {1, -2, 3, 4, 5};
    tsr_ctx ctx = {0};
    tsr_array *array = NULL;
    int32_t values[5];
    files_write(&dir, "t.bin", tokens, sizeof tokens);
    expect_success(&ctx, tsr_array_open(&ctx, files_path(&dir, "t.bin"), TSR_DTYPE_I32, &array));
    cr_assert_eq(tsr_array_get_dtype(array), TSR_DTYPE_I32);
    cr_assert(tsr_array_get_shape(array)->rank == 1 && tsr_array_get_shape(array)->dims[0] == 5);
    expect_success(&ctx, tsr_array_read(&ctx, array, 1, 4, values));
    cr_assert_arr_eq(values, tokens + 1, 4 * sizeof *tokens);
    tsr_array_close(&ctx, array);
}

Test(flat, refused) {
    files_write(&dir, "t.bin", "123456", 6);
    expect_refused("t.bin", TSR_DTYPE_I32, TSR_DATA, "has 6 bytes; expected a multiple of 4");
    expect_refused("t.bin", TSR_DTYPE_NONE, TSR_DATA, "none of the extensions");
    files_write(&dir, "t.bin", "\x93NUMPY\1\0", 8);
    expect_refused("t.bin", TSR_DTYPE_UI8, TSR_DATA,
                   "flat file of elements: give it the extension .npy");
    files_write(&dir, "t.bin", "PK\3\4", 4);
    expect_refused("t.bin", TSR_DTYPE_UI8, TSR_DATA,
                   "flat file of elements: give it the extension .npz");
    files_write(&dir, "t.bin", "", 0);
    expect_refused("t.bin", TSR_DTYPE_UI8, TSR_DATA, "is empty");
}
