/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/loader/digits.h"

#include "runtime/data/array_file.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *digits_bundle_path(void) {
    const char *path = getenv("TESSERA_DIGITS_BUNDLE");
    if (!path || !path[0]) cr_skip_test("TESSERA_DIGITS_BUNDLE names no bundle");
    return path;
}

void digits_must(const digits *self, tsr_result result) {
    cr_assert_eq(result.code, TSR_OK, "%s", self->ctx.error.text);
}

void digits_refused(const digits *self, tsr_result result, tsr_code code, ...) {
    const char *text = self->ctx.error.text;
    va_list words;
    cr_assert_eq(result.code, code, "code %d; expected %d: %s", (int)result.code, (int)code, text);
    va_start(words, code);
    for (const char *word; (word = va_arg(words, const char *)) != NULL;)
        cr_assert(strstr(text, word), "expected '%s' in '%s'", word, text);
    va_end(words);
}

tsr_model *digits_open(digits *self, const char *cpu) {
    tsr_model_options options = {.size_bytes = sizeof options, .cpu = cpu, .threads = 2};
    tsr_model *model = NULL;
    digits_must(self, tsr_model_open(&self->ctx, digits_bundle_path(), &options, &model));
    return model;
}

void digits_init(digits *self) {
    static const char *const names[] = {"images", "labels", "test_images", "test_labels"};
    static const char *const files[] = {"train-images", "train-labels", "test-images",
                                        "test-labels"};
    const char *source = getenv("TESSERA_DIGITS_FOLDER");
    *self = (digits){0};
    digits_bundle_path();
    cr_assert_not_null(source);
    strcpy(self->folder, "/tmp/tessera-loader-XXXXXX");
    cr_assert_not_null(mkdtemp(self->folder));
    for (int i = 0; i < 4; i++) {
        snprintf(self->paths[i], sizeof self->paths[i], "%s/%s.npy", source, files[i]);
        self->data[i] = (tsr_binding){names[i], self->paths[i]};
    }
    self->model = digits_open(self, NULL);
}

void digits_finish(digits *self) {
    char command[96];
    tsr_model_close(&self->ctx, self->model);
    snprintf(command, sizeof command, "rm -rf '%s'", self->folder);
    if (self->folder[0]) cr_assert_eq(system(command), 0);
}

const char *digits_path(const digits *self, const char *name) {
    static char paths[8][128];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", self->folder, name);
    return path;
}

tsr_train_options digits_training(const digits *self, uint64_t steps) {
    return (tsr_train_options){.size_bytes = sizeof(tsr_train_options),
                               .steps = steps,
                               .has_seed = true,
                               .seed = 1,
                               .data = self->data,
                               .data_count = 4};
}

static void *read_array(digits *self, const char *path, size_t element_size, uint64_t row) {
    tsr_array *array = NULL;
    digits_must(self, tsr_array_open(&self->ctx, path, TSR_DTYPE_NONE, &array));
    cr_assert_eq(tsr_array_get_shape(array)->dims[0], DIGITS_TEST_ROWS);
    void *elements = calloc(DIGITS_TEST_ROWS * row, element_size);
    cr_assert_not_null(elements);
    digits_must(self, tsr_array_read(&self->ctx, array, 0, DIGITS_TEST_ROWS * row, elements));
    tsr_array_close(&self->ctx, array);
    return elements;
}

uint8_t *digits_test_images(digits *self) {
    return read_array(self, self->paths[2], 1, DIGITS_PIXELS);
}

int64_t *digits_test_labels(digits *self) {
    return read_array(self, self->paths[3], sizeof(int64_t), 1);
}

tsr_result digits_predict(tsr_ctx *ctx, tsr_model *model, const uint8_t *x, uint64_t rows,
                          float *y) {
    tsr_tensor input = {"x", TSR_DTYPE_UI8, {2, {rows, DIGITS_PIXELS}}, (void *)(uintptr_t)x};
    tsr_tensor output = {"y", TSR_DTYPE_F32, {2, {rows, DIGITS_CLASSES}}, y};
    return tsr_model_call(ctx, model, "predict", &input, 1, &output, 1);
}

/* out = in * weight + bias; negative values become 0 unless `last`. */
static void layer(const tsr_model *model, const char *name, const double *in, bool last,
                  double *out) {
    char full[64];
    size_t count = 0;
    const tsr_tensor *state = tsr_model_get_state(model, &count);
    snprintf(full, sizeof full, "%s.weight", name);
    const tsr_tensor *weight = tsr_tensor_find(state, count, full);
    snprintf(full, sizeof full, "%s.bias", name);
    const tsr_tensor *bias = tsr_tensor_find(state, count, full);
    cr_assert(weight && bias, "%s", name);
    uint64_t from = weight->shape.dims[0], to = weight->shape.dims[1];
    for (uint64_t j = 0; j < to; j++) {
        double sum = (double)((const float *)bias->data)[j];
        for (uint64_t i = 0; i < from; i++)
            sum += in[i] * (double)((const float *)weight->data)[i * to + j];
        out[j] = !last && sum < 0 ? 0 : sum;
    }
}

void digits_reference(const tsr_model *model, const uint8_t *x, uint64_t rows, double *y) {
    double a[128], b[128];
    for (uint64_t row = 0; row < rows; row++) {
        for (int i = 0; i < DIGITS_PIXELS; i++) a[i] = x[row * DIGITS_PIXELS + (uint64_t)i] / 16.0;
        layer(model, "layer1", a, false, b);
        layer(model, "layer2", b, false, a);
        layer(model, "layer3", a, true, y + row * DIGITS_CLASSES);
    }
}

tsr_digest digits_state_hash(const tsr_model *model) {
    size_t count = 0;
    const tsr_tensor *state = tsr_model_get_state(model, &count);
    return tsr_state_hash(state, count);
}

size_t digits_count_files(const char *folder) {
    size_t count = 0;
    DIR *directory = opendir(folder);
    cr_assert_not_null(directory);
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(directory);
    return count;
}

uint64_t digits_operations, digits_fail_at;

static bool fails(void) { return digits_operations++ == digits_fail_at; }

static int failing_open(void *self, int dir, const char *path, int flags, mode_t mode) {
    return fails() ? -EIO : tsr_io_system()->open(self, dir, path, flags, mode);
}
static ssize_t failing_pread(void *self, int fd, void *bytes, size_t size, off_t offset) {
    return fails() ? -EIO : tsr_io_system()->pread(self, fd, bytes, size, offset);
}
static ssize_t failing_pwrite(void *self, int fd, const void *bytes, size_t size, off_t offset) {
    return fails() ? -EIO : tsr_io_system()->pwrite(self, fd, bytes, size, offset);
}
static int failing_fsync(void *self, int fd) {
    return fails() ? -EIO : tsr_io_system()->fsync(self, fd);
}
static int failing_fstat(void *self, int fd, struct stat *out_stat) {
    return fails() ? -EIO : tsr_io_system()->fstat(self, fd, out_stat);
}
static int failing_rename(void *self, int dir, const char *from, const char *to) {
    return fails() ? -EIO : tsr_io_system()->rename(self, dir, from, to);
}

const tsr_io *digits_failing_io(void) {
    static tsr_io io;
    io = *tsr_io_system();
    io.open = failing_open;
    io.pread = failing_pread;
    io.pwrite = failing_pwrite;
    io.fsync = failing_fsync;
    io.fstat = failing_fstat;
    io.rename = failing_rename;
    digits_operations = 0;
    return &io;
}
