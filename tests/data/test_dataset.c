/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/array.h"
#include "runtime/data/array_file.h"
#include "runtime/data/dataset.h"
#include "runtime/data/shuffle.h"
#include "tests/data/files.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static files dir;
static char images_path[160], labels_path[160];
static uint8_t images[10][4];
static int64_t labels[10];

static void write_array(char *out_path, const char *name, tsr_dtype dtype, tsr_shape shape,
                        void *data) {
    tsr_ctx ctx = {0};
    tsr_tensor tensor = {NULL, dtype, shape, data};
    strcpy(out_path, files_path(&dir, name));
    expect_success(&ctx, tsr_npy_write(&ctx, out_path, &tensor));
}

static void setup(void) {
    files_init(&dir);
    for (int i = 0; i < 10; i++) {
        labels[i] = i;
        for (int j = 0; j < 4; j++) images[i][j] = (uint8_t)(10 * i + j);
    }
    write_array(images_path, "images.npy", TSR_DTYPE_UI8, (tsr_shape){2, {10, 4}}, images);
    write_array(labels_path, "labels.npy", TSR_DTYPE_I64, (tsr_shape){1, {10}}, labels);
}
static void teardown(void) { files_finish(&dir); }
TestSuite(dataset, .init = setup, .fini = teardown);

static const tsr_dataset_port ports[2] = {
    {"images", TSR_DTYPE_UI8, {2, {4, 4}}},
    {"labels", TSR_DTYPE_I64, {1, {4}}},
};

static tsr_result open_pair(tsr_ctx *ctx, const char *image_spec, const char *label_spec,
                            tsr_dataset_options options, tsr_dataset **out) {
    tsr_dataset_binding bindings[3] = {
        {"labels", label_spec}, {"other", "absent.npy"}, {"images", image_spec}};
    options.size_bytes = sizeof options;
    return tsr_dataset_open(ctx, ports, 2, bindings, 3, &options, out);
}

static const tsr_dataset_options storages[] = {
    {.memory_limit_bytes = 0},
    {.memory_limit_bytes = 80}, /* the labels do not fit in addition to the images */
    {.never_in_memory = true},
};
static const uint64_t memory_bytes[] = {120, 40, 0};
enum { STORAGE_COUNT = TSR_COUNT(storages) };

/* 25 batches of 4 are ten epochs: each row occurs ten times, pairs stay together, and the order is
 * that of shuffle.h. */
Test(dataset, batches) {
    for (size_t s = 0; s < STORAGE_COUNT; s++) {
        tsr_ctx ctx = {0};
        tsr_dataset *dataset = NULL;
        int seen[10] = {0};
        expect_success(&ctx, open_pair(&ctx, images_path, labels_path, storages[s], &dataset));
        cr_assert_eq(tsr_dataset_get_row_count(dataset), 10);
        cr_assert_eq(tsr_dataset_get_memory_bytes(dataset), memory_bytes[s]);
        for (uint64_t batch = 0; batch < 25; batch++) {
            uint8_t x[4][4];
            int64_t y[4];
            void *outs[2] = {x, y};
            expect_success(&ctx, tsr_dataset_batch(&ctx, dataset, 3, 4 * batch, 4, outs));
            for (uint64_t i = 0; i < 4; i++) {
                cr_assert_eq(y[i], (int64_t)tsr_shuffle_index(3, 10, 4 * batch + i));
                cr_assert_arr_eq(x[i], images[y[i]], 4);
                seen[y[i]]++;
            }
        }
        for (int i = 0; i < 10; i++) cr_assert_eq(seen[i], 10);
        tsr_dataset_close(&ctx, dataset);
    }
}

Test(dataset, rows_are_padded) {
    for (size_t s = 0; s < STORAGE_COUNT; s++) {
        tsr_ctx ctx = {0};
        tsr_dataset *dataset = NULL;
        expect_success(&ctx, open_pair(&ctx, images_path, labels_path, storages[s], &dataset));
        for (uint64_t first = 0; first <= 10; first++) {
            uint8_t x[4][4];
            int64_t y[4];
            void *outs[2] = {x, y};
            memset(x, 99, sizeof x);
            memset(y, 99, sizeof y);
            expect_success(&ctx, tsr_dataset_rows(&ctx, dataset, first, 4, outs));
            for (uint64_t i = 0; i < 4; i++) {
                bool present = first + i < 10;
                static const uint8_t zeros[4];
                cr_assert_eq(y[i], present ? (int64_t)(first + i) : 0);
                cr_assert_arr_eq(x[i], present ? images[first + i] : zeros, 4);
            }
        }
        tsr_dataset_close(&ctx, dataset);
    }
}

Test(dataset, windows_of_tokens) {
    tsr_ctx ctx = {0};
    tsr_dataset *dataset = NULL;
    static const int32_t tokens[11] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    static const tsr_dataset_port port = {"tokens", TSR_DTYPE_I32, {2, {2, 3}}};
    files_write(&dir, "t.bin", tokens, sizeof tokens);
    tsr_dataset_binding binding = {"tokens", files_path(&dir, "t.bin")};
    for (int never = 0; never < 2; never++) {
        int32_t got[4][3];
        void *outs[1] = {got};
        tsr_dataset_options options = {.size_bytes = sizeof options, .never_in_memory = never};
        expect_success(&ctx, tsr_dataset_open(&ctx, &port, 1, &binding, 1, &options, &dataset));
        cr_assert_eq(tsr_dataset_get_row_count(dataset), 3);
        expect_success(&ctx, tsr_dataset_rows(&ctx, dataset, 0, 4, outs));
        cr_assert_arr_eq((int32_t *)got, tokens, 9 * sizeof *tokens);
        cr_assert(got[3][0] == 0 && got[3][1] == 0 && got[3][2] == 0);
        expect_success(&ctx, tsr_dataset_batch(&ctx, dataset, 1, 0, 3, outs));
        for (uint64_t i = 0; i < 3; i++)
            cr_assert_eq(got[i][1], (int32_t)(3 * tsr_shuffle_index(1, 3, i) + 1));
        tsr_dataset_close(&ctx, dataset);
    }
}

static void expect_refused(const char *image_spec, const char *label_spec, uint64_t rows_min,
                           tsr_code code, const char *part) {
    tsr_ctx ctx = {0};
    tsr_dataset *dataset = NULL;
    tsr_dataset_options options = {.rows_min = rows_min};
    expect_error(&ctx, open_pair(&ctx, image_spec, label_spec, options, &dataset), code, part);
    cr_assert_null(dataset);
}

Test(dataset, refused) {
    char path[160];
    write_array(path, "x.npy", TSR_DTYPE_UI8, (tsr_shape){2, {5, 4}}, images);
    expect_refused(path, labels_path, 0, TSR_DATA, "data 'labels' has 10 rows; 'images' has 5");
    write_array(path, "x.npy", TSR_DTYPE_UI8, (tsr_shape){2, {10, 3}}, images);
    expect_refused(path, labels_path, 0, TSR_DATA, "is 10x3xui8; expected Nx4xui8");
    write_array(path, "x.npy", TSR_DTYPE_UI8, (tsr_shape){3, {10, 2, 2}}, images);
    expect_refused(path, labels_path, 0, TSR_DATA, "is 10x2x2xui8; expected Nx4xui8");
    write_array(path, "x.npy", TSR_DTYPE_I1, (tsr_shape){2, {10, 4}}, images);
    expect_refused(path, labels_path, 0, TSR_DATA, "is 10x4xi1; expected Nx4xui8");
    write_array(path, "x.npy", TSR_DTYPE_UI8, (tsr_shape){0, {0}}, images);
    expect_refused(path, labels_path, 0, TSR_DATA, "is ui8; expected Nx4xui8");
    write_array(path, "x.npy", TSR_DTYPE_UI8, (tsr_shape){2, {0, 4}}, images);
    expect_refused(path, labels_path, 0, TSR_DATA, "has 0 rows; at least 1 is needed");
    expect_refused("absent.npy", labels_path, 0, TSR_IO, "'absent.npy'");
}

Test(dataset, too_few_rows) {
    tsr_ctx ctx = {0};
    tsr_dataset *dataset = NULL;
    tsr_dataset_options options = {.rows_min = 10};
    expect_success(&ctx, open_pair(&ctx, images_path, labels_path, options, &dataset));
    tsr_dataset_close(&ctx, dataset);
    expect_refused(images_path, labels_path, 11, TSR_DATA, "has 10 rows; at least 11 are needed");
}

Test(dataset, bindings) {
    tsr_ctx ctx = {0};
    tsr_dataset *dataset = NULL;
    tsr_dataset_options options = {.size_bytes = sizeof options};
    tsr_dataset_binding bindings[2] = {{"images", images_path}, {"images", labels_path}};
    expect_error(&ctx, tsr_dataset_open(&ctx, ports, 2, bindings, 1, &options, &dataset), TSR_USAGE,
                 "no data is bound to 'labels'; the entry needs images=Nx4xui8, labels=Nxi64");
    expect_error(&ctx, tsr_dataset_open(&ctx, ports, 2, bindings, 2, &options, &dataset), TSR_USAGE,
                 "data 'images' is bound twice: to '");
    expect_error(&ctx, tsr_dataset_open(&ctx, ports, 2, NULL, 0, &options, &dataset), TSR_USAGE,
                 "no data is bound to 'images'");
    tsr_dataset_close(&ctx, NULL);
}

/* Ports that a damaged bundle could declare. */
Test(dataset, impossible_ports) {
    tsr_ctx ctx = {0};
    tsr_dataset *dataset = NULL;
    tsr_dataset_options options = {.size_bytes = sizeof options};
    tsr_dataset_binding bindings[2] = {{"images", images_path}, {"labels", labels_path}};
    static const tsr_shape shapes[] = {
        {0, {0}}, {1, {5}}, {2, {4, 0}}, {3, {4, (uint64_t)1 << 40, (uint64_t)1 << 40}}};
    for (size_t i = 0; i < TSR_COUNT(shapes); i++) {
        tsr_dataset_port bad[2] = {ports[0], ports[1]};
        bad[1].shape = shapes[i];
        tsr_result result = tsr_dataset_open(&ctx, bad, 2, bindings, 2, &options, &dataset);
        expect_error(&ctx, result, TSR_CORRUPT, "data 'labels'");
    }
}

/* An unreadable row is an error of the call, and the next call works. */
Test(dataset, faults) {
    faulty_io io;
    faulty_init(&io);
    tsr_ctx ctx = {.io = &io.table};
    tsr_result result;
    for (size_t s = 0; s < STORAGE_COUNT; s++)
        for (io.fail_at = 1;; io.fail_at++) {
            tsr_dataset *dataset = NULL;
            uint8_t x[4][4];
            int64_t y[4];
            void *outs[2] = {x, y};
            io.count = 0;
            result = open_pair(&ctx, images_path, labels_path, storages[s], &dataset);
            if (!result.code) result = tsr_dataset_batch(&ctx, dataset, 3, 0, 4, outs);
            if (!result.code) result = tsr_dataset_rows(&ctx, dataset, 0, 4, outs);
            if (dataset) {
                tsr_ctx clean = {0};
                expect_success(&clean, tsr_dataset_rows(&clean, dataset, 8, 4, outs));
                cr_assert(y[1] == 9 && y[2] == 0);
            }
            tsr_dataset_close(&ctx, dataset);
            if (io.count < io.fail_at) break;
            expect_error(&ctx, result, TSR_IO, "Input/output error");
        }
    expect_success(&ctx, result);
}

/* The data of the example: sizes, ranges, and a rough check of the labels. */
Test(dataset, digits) {
    tsr_ctx ctx = {0};
    static const struct {
        const char *images, *labels;
        uint64_t rows;
    } sets[] = {{TSR_TEST_DIGITS "/train-images.npy", TSR_TEST_DIGITS "/train-labels.npy", 1438},
                {TSR_TEST_DIGITS "/test-images.npy", TSR_TEST_DIGITS "/test-labels.npy", 359}};
    static const tsr_dataset_port digit_ports[2] = {
        {"images", TSR_DTYPE_UI8, {2, {64, 64}}},
        {"labels", TSR_DTYPE_I64, {1, {64}}},
    };
    for (size_t s = 0; s < 2; s++) {
        tsr_dataset *dataset = NULL;
        tsr_dataset_binding bindings[2] = {{"images", sets[s].images}, {"labels", sets[s].labels}};
        tsr_dataset_options options = {.size_bytes = sizeof options, .rows_min = 64};
        uint8_t x[64];
        int64_t y;
        void *outs[2] = {x, &y};
        uint64_t counts[10] = {0};
        expect_success(&ctx,
                       tsr_dataset_open(&ctx, digit_ports, 2, bindings, 2, &options, &dataset));
        cr_assert_eq(tsr_dataset_get_row_count(dataset), sets[s].rows);
        for (uint64_t i = 0; i < sets[s].rows; i++) {
            expect_success(&ctx, tsr_dataset_rows(&ctx, dataset, i, 1, outs));
            cr_assert(y >= 0 && y < 10);
            for (int j = 0; j < 64; j++) cr_assert_leq(x[j], 16);
            counts[y]++;
        }
        for (int d = 0; d < 10; d++) cr_assert_geq(counts[d], sets[s].rows / 20);
        tsr_dataset_close(&ctx, dataset);
    }
}
